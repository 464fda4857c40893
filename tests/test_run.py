"""`simulate` from Python: what it takes, what it gives, and what it leaves behind."""

import gc
import io
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy

from tests.cases import ROOT
from tests.process.launch import launch, simulated, write
from tests.real_mpi import MPIEXEC, mpiexec
from xsim_py import simulate
from xsim_py.errors import ConfigError, XsimError


def shifted(step: int, *, scale: int = 1) -> int:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    return scale * comm.sendrecv(comm.rank, dest=(comm.rank + step) % comm.size, source=(comm.rank - step) % comm.size)


# ------------------------------------------------------------------------------------------------------- callables


def test_a_function_gets_arguments_and_its_values_come_back():
    result = simulate(shifted, ranks=4, args=[1])
    assert result.values == [3, 0, 1, 2]
    assert (result.ended, result.exit_status, result.ranks) == ("finished", 0, 4)
    assert result.program == "shifted"
    assert result.tables["ranks"].columns["messages"] == [1, 1, 1, 1]


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_values_are_the_same_from_every_number_of_shards(shards: int):
    one, several = (simulate(shifted, ranks=5, args=[2], shards=number) for number in (1, shards))
    assert several.values == one.values
    assert several.digest == one.digest
    assert (several.messages, several.bytes, several.virtual_time_s) == (one.messages, one.bytes, one.virtual_time_s)


@pytest.mark.parametrize("seconds", [0, 9000, 10**9])
def test_virtual_time_is_exact_however_late_it_is(seconds: int):
    """A float has sixteen digits: from 8,192 s on it cannot tell one picosecond from the next."""
    late = f"import time; from mpi4py import MPI; time.sleep({seconds}); MPI.COMM_WORLD.Barrier(); MPI.Pcontrol(3); 1/0"
    network = {"latency": "1000001ps", "bandwidth": "unlimited"}
    result = simulate(late, kind="code", ranks=2, machine={"network": network}, ft=True, stderr=io.StringIO())
    end_ps = seconds * 10**12 + 1_003_001
    text = f"{seconds}.000001003001"
    assert (result.virtual_time_ps, result.virtual_time_exact_s, result.virtual_time_s) == (end_ps, text, float(text))
    assert [failure["time_exact_s"] for failure in result.failures] == [text, text]
    assert result.tables["failures"].picoseconds["time_s"] == [end_ps, end_ps]
    assert result.tables["ranks"].to_dict()["exact"]["end_s"] == [text, text]
    assert f"failed at {text} s" in result.report or not seconds


def test_values_may_be_anything_and_none_is_none():
    values = simulate(lambda: None, ranks=2).values
    assert values == [None, None]
    values = simulate(lambda: lambda: 5, ranks=1).values
    assert values[0]() == 5


def test_lambdas_methods_and_closures_do():
    class Model:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def run(self, *args: str) -> None:
            self.seen += args

    model = Model()
    simulate(model.run, ranks=2, args=["a"])
    assert model.seen == ["a", "a"]


def test_an_exception_of_a_function_is_the_rank_s(capsys: pytest.CaptureFixture[str]):
    result = simulate(lambda: 1 / 0, ranks=2)
    assert (result.ended, result.exit_status) == ("aborted", 1)
    assert "ZeroDivisionError" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- what is left behind


def test_calls_can_be_repeated_and_give_the_same(tmp_path: Path):
    text = "import helper, random; helper.calls.append(rank); print(random.random(), helper.calls, comm.allreduce(1))"
    runs = [launch(tmp_path, text, ranks=3, files={"helper.py": "calls = []"}) for _ in range(3)]
    assert len({run.out for run in runs}) == 1
    assert len({run.result.digest for run in runs}) == 1
    assert "[2] 3" in runs[0].out


def test_a_failed_run_does_not_disturb_the_next(tmp_path: Path):
    good = launch(tmp_path, "print(comm.allreduce(rank))", ranks=3)
    for text in ("1 / 0", "comm.recv(source=0)", "import os; os._exit(3)", "comm.Abort()", "comm.bcast(1, root=rank)"):
        launch(tmp_path, text, ranks=3)
        again = launch(tmp_path, "print(comm.allreduce(rank))", ranks=3)
        assert (again.out, again.result.digest) == (good.out, good.result.digest)


def test_interpreter_and_clocks_are_the_caller_s_again():
    names = ("time", "sleep", "perf_counter_ns", "strftime")
    before = [getattr(time, name) for name in names], sys.stdout, sys.argv, random.random, np.random.__dict__["rand"]
    simulate(shifted, ranks=2, args=[1])
    after = [getattr(time, name) for name in names], sys.stdout, sys.argv, random.random, np.random.__dict__["rand"]
    assert after == before


def test_the_real_mpi4py_is_found_afterwards():
    code = (
        "import sys; from xsim_py import simulate\n"
        "def f():\n"
        "    import mpi4py.util.pkl5\n"
        "    from mpi4py import MPI\n"
        "    return MPI.Get_library_version()\n"
        "assert 'xsim' in simulate(f, ranks=1).values[0]\n"
        "assert not [name for name in sys.modules if name.startswith('mpi4py')]\n"
        "import mpi4py\n"
        "assert 'xsim_py' not in mpi4py.__file__\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_memory_does_not_grow_from_run_to_run(tmp_path: Path):
    """Not even between two visits of Python's garbage collector."""
    text = "import helper, numpy; helper.data = numpy.zeros(1000); comm.allreduce(rank); comm.Barrier()"

    def objects() -> int:
        launch(tmp_path, text, ranks=50, files={"helper.py": ""})
        return len(gc.get_objects())

    objects()
    gc.collect()
    gc.disable()
    try:
        before = objects()
        for _ in range(4):
            after = objects()
    finally:
        gc.enable()
    assert after - before < 4 * 50 * 5


# ------------------------------------------------------------------------------------------------ threads and misuse


def test_simulate_works_in_a_thread_and_leaves_the_others_alone(capsys: pytest.CaptureFixture[str]):
    running, finish = threading.Event(), threading.Event()
    clocks: list[float] = []

    def program() -> float:
        running.set()
        assert finish.wait(60)
        return time.time()

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(simulate(program, ranks=2, stdout=io.StringIO())))
    thread.start()
    assert running.wait(60)
    clocks.append(time.time())
    print("from the main thread", random.Random().random() >= 0)
    with pytest.raises(ConfigError, match="another thread"):
        simulate(program, ranks=1)
    finish.set()
    thread.join(60)
    assert results[0].values == [1577836800.0] * 2
    assert clocks[0] > 1_700_000_000
    assert capsys.readouterr().out == "from the main thread True\n"


def test_a_wall_limit_needs_the_main_thread():
    errors: list[Exception] = []

    def run() -> None:
        try:
            simulate(shifted, ranks=1, args=[0], wall_limit=1)
        except ConfigError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])


def test_a_simulated_program_cannot_simulate(tmp_path: Path):
    done = launch(tmp_path, "from xsim_py import simulate; simulate(print, ranks=1)")
    assert (done.result.ended, done.result.exit_status) == ("aborted", 1)
    assert "ConfigError: simulate() was called by a program that is being simulated itself" in done.err
    assert simulate(lambda: 5, ranks=1).values == [5]


def test_mpi_outside_of_a_simulation_says_so():
    from xsim_py.mpi4py import MPI

    for call in (MPI.COMM_WORLD.Get_rank, lambda: MPI.COMM_WORLD.send(1, dest=0), MPI.Wtime, MPI.COMM_WORLD.Barrier):
        with pytest.raises(XsimError, match="needs a simulated program"):
            call()


def test_a_function_may_use_what_a_notebook_has_imported_before():
    code = """
import functools, mpi4py
from mpi4py import MPI
from mpi4py.MPI import COMM_WORLD as world, SUM, Status
from xsim_py import simulate

real = (MPI, world, SUM, Status, mpi4py)

def helper():
    return world.allreduce(world.rank, op=SUM)

class Model:
    def __call__(self):
        return isinstance(Status(), MPI.Status), mpi4py.MPI is MPI

def f(x):
    assert MPI.COMM_WORLD is not real[1]
    return MPI.COMM_WORLD.size, helper(), x

print(simulate(functools.partial(f, 5), ranks=3).values, simulate(Model(), ranks=1).values)
assert real == (MPI, world, SUM, Status, mpi4py)
assert all(now is then for now, then in zip(real, (MPI, world, SUM, Status, mpi4py)))
assert world.size == 1
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[(3, 3, 5), (3, 3, 5), (3, 3, 5)] [(True, True)]\n", "")


BAD = [
    ({"ranks": 0}, "ranks: 0 is out of range (at least 1)"),
    ({"ranks": -3}, "ranks: -3 is out of range (at least 1)"),
    ({"ranks": 2.5}, "ranks: expected an integer, got 2.5"),
    ({"ranks": "four"}, "ranks: expected an integer, got 'four'"),
    ({"ranks": 1 << 30}, "ranks: 1,073,741,824 is out of range (at most 16,777,216)"),
    ({"shards": 0}, "shards: 0 is out of range (at least 1)"),
    ({"shards": 65, "ranks": 4}, "shards: 65 is out of range for 4 ranks in one process (at most 64)"),
    (
        {"shards": 1025, "ranks": 2000},
        "shards: 1,025 is out of range for 2,000 ranks in one process (at most 1,024)",
    ),
    ({"kind": "binary"}, "kind: expected script, module, code or callable, got 'binary'"),
    ({"compute": "guessed"}, "compute: expected none, measured, record=FILE or the name of a file, got 'guessed'"),
    ({"machine": "gigi"}, "gige"),
    ({"set": {"network.latency": "-5us"}}, "negative"),
    ({"set": {"machine.nodes": "2"}, "ranks": 8}, "8 ranks"),
]


@pytest.mark.parametrize(("told", "said"), BAD, ids=[str(told) for told, _ in BAD])
def test_bad_input_is_a_config_error_and_nothing_is_run(told: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=re.escape(said)):
        simulate(print, **{"ranks": 1, **told})


def test_a_current_folder_that_is_gone_is_a_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConfigError, match="cannot use the current directory"):
        simulate(print, ranks=1)


@pytest.mark.parametrize(
    ("kind", "target", "said"),
    [
        ("script", "no/such/file.py", "no/such/file.py: cannot read the program: No such file"),
        ("script", "tests", "tests: cannot run a directory without a __main__.py"),
        ("module", "no_such_module", "-m no_such_module: cannot find this module"),
        ("module", "no_such.sub.module", "-m no_such.sub.module: cannot find this module"),
        ("module", "json", "-m json: cannot find this module"),
        ("code", "1 +", "<string>:1: not a Python program: invalid syntax"),
    ],
)
def test_a_program_that_is_not_there_is_a_config_error(kind: str, target: str, said: str):
    with pytest.raises(ConfigError, match=said):
        simulate(target, kind=kind, ranks=1)


@pytest.mark.parametrize("text", [f"x = {'-' * 99_999}1", f"x = a{'.a' * 99_999}"], ids=["minus", "attributes"])
def test_a_program_that_is_too_much_for_the_compiler_is_a_config_error(text: str):
    with pytest.raises(ConfigError, match="<string>: does not compile: its code is nested too deeply"):
        simulate(text, kind="code", ranks=1)


def test_a_program_that_is_not_python_is_told_with_its_line(tmp_path: Path):
    write(tmp_path, {"prog.py": "x = 1\nif x\n", "package/__init__.py": "", "package/broken.py": "def f(:\n"})
    with pytest.raises(ConfigError, match=r"prog.py:2: not a Python program: expected ':'"):
        simulate(tmp_path / "prog.py", ranks=1)
    (tmp_path / "data.py").write_bytes(b"\x00\x01")
    with pytest.raises(ConfigError, match=r"data.py.*: not a Python program"):
        simulate(tmp_path / "data.py", ranks=1)


# --------------------------------------------------------------------------------------------------- SimPy beside it


@pytest.mark.parametrize("shards", [1, 3])
def test_simpy_processes_share_the_clock(tmp_path: Path, shards: int):
    seen: list[float] = []

    def ticker(env: simpy.Environment) -> Iterator[Any]:
        while True:
            yield env.timeout(10**12)
            seen.append(env.now / 10**12)

    def once(env: simpy.Environment) -> Iterator[Any]:
        yield env.timeout(5 * 10**11)
        seen.append(-1)

    plain = launch(tmp_path, "import time; time.sleep(3.5); print(comm.allreduce(1))", ranks=3, shards=shards)
    done = simulated(tmp_path / "prog.py", ranks=3, shards=shards, background=[ticker, once])
    assert seen == [-1, 1, 2, 3]
    assert done.out == plain.out
    assert done.result.digest == plain.result.digest
    assert done.result.virtual_time_s == plain.result.virtual_time_s


def test_simpy_processes_end_with_the_last_event_of_the_ranks():
    def run(collectives: str) -> tuple[list[int], int]:
        seen: list[int] = []

        def ticker(env: simpy.Environment) -> Iterator[Any]:
            while True:
                yield env.timeout(10**6)
                seen.append(int(env.now))

        result = simulate(meet, ranks=8, background=[ticker], collectives=collectives)
        assert seen == list(range(10**6, round(result.virtual_time_s * 10**12), 10**6))
        return seen, result.events

    def meet() -> None:
        from mpi4py import MPI

        for _ in range(3):
            MPI.COMM_WORLD.Barrier()

    assert run("arrays") == run("messages")


def test_a_simpy_process_that_fails_fails_simulate():
    def broken(env: simpy.Environment) -> Iterator[Any]:
        yield env.timeout(1)
        raise LookupError("in the background")

    with pytest.raises(LookupError, match="in the background"):
        simulate(lambda: time.sleep(1), ranks=1, background=[broken])
    assert simulate(shifted, ranks=2, args=[1]).values == [1, 0]


# ---------------------------------------------------------------------------------------------------------- notebook


def test_results_show_themselves():
    result = simulate(shifted, ranks=2, args=[1])
    assert "shifted" in str(result)
    assert result._repr_html_().startswith("<table>")
    assert result.summary["ranks"] == 2


def test_progress_and_start_are_told(tmp_path: Path):
    started: list[dict[str, Any]] = []
    progress: list[tuple[int, int, int, int]] = []
    launch(
        tmp_path,
        "import time\nfor _ in range(20_000): time.sleep(1)",
        ranks=2,
        wall_limit=300,
        started=started.append,
        progress=lambda *told: progress.append(told),
    )
    assert [entry["ranks"] for entry in started] == [2]
    assert all(ranks == 2 and 0 <= finished <= 2 for _, _, finished, ranks in progress)


def test_more_shards_than_ranks_may_be_as_long_as_they_are_few():
    """The last ones have no rank, and the summary has the number that was asked for."""
    alone, many = (simulate(shifted, ranks=3, args=[1], shards=shards) for shards in (1, 64))
    assert (many.values, many.digest, many.shards) == (alone.values, alone.digest, 64)


# ---------------------------------------------------------------------------------------------------------- real MPI

if MPIEXEC.exists():
    REPEATED = """
import json, sys
from tests.test_run import shifted
from xsim_py import simulate
results = [simulate(shifted, ranks=ranks, args=[1]) for ranks in (5, 1, 4, 5)]
results.append(simulate("import sys; print('printed'); sys.exit(3)", kind="code", ranks=3))
told = [[result.values, result.digest, result.exit_status, result.shards] for result in results]
json.dump(told, open(sys.argv[1] + f"/{results[0].summary['shards']}-" + __import__("os").environ["PMI_RANK"], "w"))
"""

    def test_simulate_can_be_called_again_and_again_on_real_mpi_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        import json

        monkeypatch.chdir(ROOT)
        done = mpiexec(2, "-c", REPEATED, str(tmp_path))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "printed\n" * 3
        first, second = (json.loads((tmp_path / f"2-{rank}").read_text()) for rank in (0, 1))
        assert first == second
        alone = [simulate(shifted, ranks=ranks, args=[1]) for ranks in (5, 1, 4, 5)]
        assert [entry[:2] for entry in first[:4]] == [[result.values, result.digest] for result in alone]
        assert first[4][2] == 3

    FAILING = {
        "a SimPy process": "import time\ndef f(env):\n yield env.timeout(1)\n raise LookupError('lost')\n"
        "simulate(lambda: time.sleep(1), ranks=4, background=[f])",
        "making one": "def f(env): raise LookupError('lost')\nsimulate(print, ranks=4, background=[f])",
    }

    def test_a_value_that_does_not_travel_is_named(monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(ROOT)
        done = mpiexec(2, "-c", "from xsim_py import simulate\nsimulate(lambda: (lambda: 1), ranks=1)")
        said = r"xsim: mpiexec: what the function returned on rank 0 cannot leave its process: .*; return what can be"
        assert (done.returncode, re.match(said, done.stderr) is not None) == (2, True), done.stderr

    @pytest.mark.sampled
    @pytest.mark.parametrize("text", FAILING.values(), ids=list(FAILING))
    def test_what_fails_in_one_process_ends_all(text: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(ROOT)
        done = mpiexec(2, "-c", f"from xsim_py import simulate\n{text}")
        assert done.returncode != 0
        assert "lost" in done.stderr


def resumed(folder: str, work_s: float) -> float:
    """Work on until as many steps as there are in a file are done, and return when that is."""
    from time import sleep

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    file = Path(folder) / "steps"
    done = int(file.read_text()) if file.exists() else 0
    for step in range(comm.bcast(done), 5):
        sleep(work_s)
        comm.Barrier()
        if comm.rank == 0:
            file.write_text(str(step + 1))
    return MPI.Wtime()


@pytest.mark.parametrize("written", [True, False])
def test_a_job_goes_on_in_a_second_run_at_the_time_at_which_the_first_has_ended(tmp_path, written):
    asked = {"ranks": 4, "machine": "gige", "fail": "rank=2@3.5s"}
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
    once = simulate(resumed, args=[str(tmp_path / "once"), 1.0], restart="on-abort", **asked)
    first = simulate(resumed, args=[str(tmp_path / "twice"), 1.0], ft=False, **asked)
    assert (first.ended, first.virtual_time_ps) == ("aborted", 3_500_020_000_000)
    before = first
    if written:
        before = tmp_path / "first.json"
        first.to_json(before)
    second = simulate(resumed, args=[str(tmp_path / "twice"), 1.0], ft=False, clock_from=before, **asked)
    assert (once.restarts, second.ended, second.failures) == (1, "finished", [])
    assert (second.virtual_time_ps, second.values) == (once.virtual_time_ps, once.values)


def test_a_clock_needs_the_result_of_a_run(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "text.json").write_text('{"virtual_time_s": "x"}')
    (tmp_path / "late.json").write_text('{"virtual_time_s": 1e300}')
    wrong = [(name, "not a result") for name in ("other.json", "text.json", "late.json")]
    for name, message in (("none.json", "cannot read"), *wrong, ("", "result.json")):
        with pytest.raises(ConfigError, match=rf"clock_from: .*{message}"):
            simulate(resumed, ranks=1, clock_from=tmp_path / name)


def test_what_is_written_for_a_time_before_the_clock_is_over_and_said():
    first = simulate("import time; time.sleep(2e-3)", kind="code", ranks=2)
    fail = ["rank=1@1ms", "hang:rank=1,at=1ms,for=100us", "flip:message,rank=1,at=2ms,bit=3", "rank=0@9s"]
    second = simulate("pass", kind="code", ranks=2, fail=fail, clock_from=first)
    over, never = sorted(second.warnings, reverse=True)
    assert over.startswith("over before this run begins, at 2 ms: rank=1@1ms; ")
    assert over.count(";") == 2
    assert never == "never injected, because the ranks had ended or made no such call: rank=0@9s"
    assert second.never_came == {"rank=0@9s": ""}


@pytest.mark.parametrize("isolation", ["greenlets", "process:2"])
def test_who_names_a_call_in_another_case_is_told_what_was_called(isolation):
    code = "from mpi4py import MPI\nfor i in range(3): MPI.COMM_WORLD.sendrecv(i, 1 - MPI.COMM_WORLD.rank)"
    fail = ["rank=1 before its 2nd Sendrecv", "rank=0 before its 9th sendrecv"]
    result = simulate(code, kind="code", ranks=2, fail=fail, isolation=isolation)
    said = "rank 1 called sendrecv 3 times; did you mean sendrecv?"
    assert result.never_came == {fail[0]: said, fail[1]: ""}
    assert result.warnings == [
        f"never injected, because the ranks had ended or made no such call: {fail[0]} ({said}); {fail[1]}"
    ]
