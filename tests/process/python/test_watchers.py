"""Trace and profile functions, profilers and tools of ``sys.monitoring`` watch the rank that has asked for them."""

import cProfile
import pstats
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.launch import launch

RANKS = 3
HELPER = """
from mpi4py import MPI
def called():
    pass
def work(times):
    for _ in range(times):
        called()
    MPI.COMM_WORLD.Barrier()
    for _ in range(times):
        called()
"""


def check(folder: Path, text: str, expected: list[str]) -> None:
    before = sys.gettrace(), sys.getprofile()
    done = launch(folder, text, ranks=RANKS, files={"helper.py": HELPER})
    assert (sorted(done.lines), done.err) == (sorted(expected), "")
    assert (sys.gettrace(), sys.getprofile()) == before


@pytest.mark.parametrize("name", ["settrace", "setprofile"])
def test_a_function_sees_the_calls_of_its_rank(tmp_path: Path, name: str):
    text = f"""
        import sys
        from helper import work
        seen = []
        def watch(frame, event, _):
            if event == "call":
                seen.append(frame.f_code.co_name)
        sys.{name}(watch)
        work(rank + 1)
        sys.{name}(None)
        work(2)
        print(rank, seen.count("called"))
        """
    check(tmp_path, text, ["0 2", "1 4", "2 6"])


def test_lines_after_a_wait_are_seen(tmp_path: Path):
    text = """
        import sys
        import helper
        lines = []
        def watch(frame, event, _):
            if frame.f_code.co_name != "work":
                return None
            if event == "line":
                lines.append(frame.f_lineno)
            return watch
        if rank == 1:
            sys.settrace(watch)
        helper.work(1)
        sys.settrace(None)
        print(rank, [line - min(lines) for line in lines])
        """
    check(tmp_path, text, ["0 []", "1 [0, 1, 0, 2, 3, 4, 3]", "2 []"])


def test_each_thread_has_a_function_of_its_own(tmp_path: Path):
    text = """
        import sys, threading
        from helper import called, work
        seen = []
        def watch(frame, event, _):
            if frame.f_code.co_name == "called":
                seen.append(threading.current_thread().name)
        def run():
            sys.settrace(watch)
            called()
            comm.Get_name()
        sys.settrace(watch)
        thread = threading.Thread(target=called)
        thread.start()
        thread.join()
        thread = threading.Thread(target=run, name="other")
        thread.start()
        work(1)
        thread.join()
        print(rank, sorted(seen))
        """
    check(tmp_path, text, [f"{rank} ['MainThread', 'MainThread', 'other']" for rank in range(RANKS)])


def test_each_rank_may_profile_itself(tmp_path: Path):
    text = """
        import cProfile, pstats
        from helper import work
        profile = cProfile.Profile()
        with profile:
            work(rank + 1)
        work(2)
        profile.runcall(work, 1)
        found = {key[2]: value for key, value in pstats.Stats(profile).stats.items()}
        print(rank, found["called"][0], found["work"][0], found["work"][3] >= found["called"][3])
        """
    check(tmp_path, text, ["0 4 2 True", "1 6 2 True", "2 8 2 True"])


def test_who_profiles_the_run_has_the_calls_of_all_ranks(tmp_path: Path):
    with cProfile.Profile() as profile:
        launch(tmp_path, "from helper import work; work(5)", ranks=RANKS, files={"helper.py": HELPER})
    calls = {key[2]: value[1] for key, value in pstats.Stats(profile).stats.items() if key[0].endswith("helper.py")}
    assert (calls["work"], calls["called"]) == (RANKS, 10 * RANKS)


def test_a_rank_that_dies_watches_no_other(tmp_path: Path):
    text = """
        import cProfile, sys, time
        from helper import called
        seen = []
        if rank == 0:
            profile = cProfile.Profile()
            profile.enable()
            sys.settrace(lambda frame, event, _: seen.append(rank))
            time.sleep(2)
        time.sleep(3)
        called()
        with cProfile.Profile() as profile:
            called()
        print(rank, seen)
        """
    done = launch(tmp_path, text, ranks=RANKS, files={"helper.py": HELPER}, fail=["rank=0@1s"])
    assert (sorted(done.lines), done.err) == (["1 []", "2 []"], "")


if sys.version_info >= (3, 12):

    def test_tools_belong_to_a_rank(tmp_path: Path):
        text = """
            import sys
            from helper import work
            events, seen = sys.monitoring.events, []
            tool = rank % 2 + 3
            sys.monitoring.use_tool_id(tool, f"of {rank}")
            sys.monitoring.register_callback(tool, events.PY_START, lambda code, _: seen.append(code.co_name))
            sys.monitoring.set_events(tool, events.PY_START)
            work(rank + 1)
            for call in (sys.monitoring.use_tool_id, lambda tool, _: sys.monitoring.set_events(7 - tool, 1)):
                try:
                    call(tool, "again")
                except ValueError as error:
                    print(rank, error)
            print(rank, sys.monitoring.get_tool(tool), sys.monitoring.get_tool(7 - tool), seen.count("called"))
            sys.monitoring.free_tool_id(tool)
            work(2)
            print(rank, sys.monitoring.get_tool(tool), seen.count("called"))
            """
        expected = []
        for rank in range(RANKS):
            tool = rank % 2 + 3
            expected += [f"{rank} None {2 * rank + 2}", f"{rank} of {rank} None {2 * rank + 2}"]
            expected += [f"{rank} tool {tool} is already in use", f"{rank} tool {7 - tool} is not in use"]
        check(tmp_path, text, expected)
        assert [sys.monitoring.get_tool(tool) for tool in (3, 4)] == [None, None]


def test_a_tracer_that_takes_its_place_unseen_watches_its_own_rank_only(tmp_path: Path):
    """As the compiled one of coverage does it, which sets the tracing of threads besides."""
    text = """
        import sys, threading
        seen = set()
        def trace(frame, event, arg):
            if frame.f_code.co_filename == __file__:
                seen.add((frame.f_globals["rank"], frame.f_code.co_name))
                return trace
        def one(): comm.Barrier()
        def two(): pass
        if rank == 0:
            threading.settrace(trace)
            sys.modules["xsim_py.process.python.watchers"]._watchers._trace(trace)  # the real function
        one()
        two()
        print(rank, sorted(seen), sys.gettrace() is trace)
        sys.settrace(None)
        """
    done = launch(tmp_path, text, ranks=3)
    expected = ["0 [(0, 'one'), (0, 'two')] True", "1 [] False", "2 [] False"]
    assert sorted(done.lines) == expected


def test_what_keeps_who_is_watching_is_private_to_each_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    for name in [name for name in sys.modules if name.partition(".")[0] == "coverage"]:
        monkeypatch.delitem(sys.modules, name)  # another test may have imported the real one
    files = {"../site-packages/coverage/__init__.py": "started = []\n", "../site-packages/coverage/inner.py": ""}
    text = """
        import coverage.inner
        coverage.started.append(rank)
        comm.Barrier()
        print(rank, coverage.started)
        """
    (tmp_path / "program").mkdir()
    assert sorted(launch(tmp_path / "program", text, ranks=2, files=files).lines) == ["0 [0]", "1 [1]"]


def test_who_watches_the_run_is_there_again_after_what_has_taken_it_out(tmp_path: Path):
    def trace(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code.co_name == "called":
            raise TimeoutError  # as at a signal; Python has no trace function then

    text = """
        from helper import called
        try:
            called()
        except TimeoutError:
            print(rank)
        """
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        done = launch(tmp_path, text, ranks=RANKS, files={"helper.py": HELPER})
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert (after, done.lines) == (trace, ["0"])


def test_who_watches_the_run_sees_what_comes_after_a_wall_limit_at_which_it_was_at_work(tmp_path: Path):
    seen = []

    def trace(frame: Any, event: str, arg: Any) -> None:
        seen.append(frame.f_code.co_name)
        while frame.f_code.co_name == "traced_for_ever":
            pass

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        text = "def traced_for_ever(): pass\ntraced_for_ever()"
        done = launch(tmp_path, text, ranks=RANKS, wall_limit=0.5)
        (lambda: None)()
    finally:
        sys.settrace(before)
    assert done.result.ended == "wall limit"
    assert (seen.count("traced_for_ever"), seen[-1]) == (1, "<lambda>")
