import re
from collections import Counter
from pathlib import Path

import pytest

from tests.testing.running import Session, run
from xsim_py import simulate
from xsim_py.testing.session import merged


def test_a_suite_for_mpiexec_runs_unchanged_with_one_report(tmp_path: Path):
    session = run(tmp_path, "--xsim-session", "4", suites=("together", "library"))
    assert Counter(session.outcomes.values()) == {"PASSED": 6, "SKIPPED": 3, "XFAIL": 1}, session.text
    assert session.status == 0
    assert "6 passed, 3 skipped, 1 xfailed" in session.text


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return run(tmp_path_factory.mktemp("failing"), "--xsim-session", "4", suites=("together_failing",))


def test_the_right_tests_have_failed(failing: Session):
    passed = {"test_before", "test_after_a_failure", "test_where_the_others_were", "test_last"}
    assert {name for name, outcome in failing.outcomes.items() if outcome == "PASSED"} == passed
    assert Counter(failing.outcomes.values()) == {"PASSED": 4, "FAILED": 7}, failing.text


def test_a_failure_says_on_which_ranks(failing: Session):
    assert "FAILED test_together_failing.py::test_one_fails - rank 1 of 4: assert 1 != 1" in failing.text
    assert "said by 1" in failing.of("test_one_fails")
    assert "FAILED test_together_failing.py::test_all_fail_alike - ranks 0-3 of 4: assert 4 == 3" in failing.text
    assert failing.of("test_all_fail_alike").count("assert comm.size == 3") == 1


def test_who_waits_for_a_rank_that_has_failed_is_in_the_deadlock_report(failing: Session):
    said = failing.of("test_one_raises_while_others_wait")
    assert 'raise ValueError("alone")' in said
    assert "on ranks 0-1, 3 of 4 ---" in said
    assert "ranks 0-1, 3, test_together_failing.py:21 in test_one_raises_while_others_wait: comm.barrier()" in said


def test_ends_of_the_job_are_failures_of_the_test_in_which_they_are(failing: Session):
    assert "cycle: rank 0 waits for rank 1" in failing.of("test_deadlock")
    assert "ranks 1-3 of 4: " in failing.of("test_who_is_ahead_is_not_to_blame")
    assert "rank 3 ended the job" in failing.of("test_abort")
    assert "os._exit(7)" in failing.of("test_exit")


def test_the_options_of_pytest_hold_for_the_whole_session(tmp_path: Path):
    words = ("--xsim-session", "3", "--junitxml=out.xml", "-p", "cacheprovider")
    first = run(tmp_path, *words, "-x", "--xsim-shards", "2", suites=("together_failing",))
    assert first.outcomes == {"test_before": "PASSED", "test_one_fails": "FAILED"}
    assert (tmp_path / "out.xml").read_text().count("<testcase") == 2
    again = run(tmp_path, *words, "--lf", "-k", "test_", suites=("together_failing",))
    assert again.outcomes == {"test_one_fails": "FAILED"}


LAST_FAILED = """
from mpi4py import MPI
comm = MPI.COMM_WORLD

def test_before():
    pass

def test_ends_early():
    if comm.rank == 1:
        {}
    comm.barrier()

def test_after():
    pass
"""


@pytest.mark.sampled
@pytest.mark.parametrize("end", ["comm.recv(source=0)", "comm.Abort(3)"])
@pytest.mark.parametrize("words", [(), ("--lfnf=none",)])
def test_what_has_passed_is_not_repeated_if_the_last_test_that_failed_ends_the_ranks(
    tmp_path: Path, end: str, words: tuple[str, ...]
):
    (tmp_path / "test_it.py").write_text(LAST_FAILED.format(end))
    options = ("-p", "cacheprovider", "--xsim-session", "2", "test_it.py")
    assert Counter(run(tmp_path, *options).outcomes.values()) == {"PASSED": 2, "FAILED": 1}
    again = run(tmp_path, *options, "--lf", *words)
    assert again.outcomes == {"test_ends_early": "FAILED"}, again.text
    assert "1 failed, 2 deselected" in again.text


def test_the_last_line_of_a_collection_counts_the_tests(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(LAST_FAILED.format("pass"))
    options = ("--xsim-session", "2", "--collect-only")
    every = run(tmp_path, *options)
    assert "test_it.py::test_after\n" in every.text
    assert "= 3 tests collected in " in every.text
    assert every.status == 0
    some = run(tmp_path, *options, "-k", "before")
    assert "= 1/3 tests collected (2 deselected) in " in some.text
    none = run(tmp_path, *options, "-k", "nothing")
    assert "= no tests collected (3 deselected) in " in none.text
    assert none.status == 5


def test_who_has_failed_does_not_overlook_who_is_to_go_on_at_the_same_time(tmp_path: Path):
    lines = (
        "from mpi4py import MPI",
        "def test_it():",
        "    MPI.COMM_WORLD.barrier()",
        "    assert False, 'failed by itself'",
    )
    (tmp_path / "test_it.py").write_text("\n".join(lines))
    session = run(tmp_path, "--xsim-session", "4")
    assert "ranks 0-3 of 4: AssertionError: failed by itself" in session.text
    assert "others wait" not in session.text


RENAMED = """
from mpi4py import MPI
def pytest_itemcollected(item):
    name = f"{item.nodeid}[Rank {MPI.COMM_WORLD.rank}]"
    if hasattr(item, "_nodeid"):
        item._nodeid = name
    else:
        from _pytest.nodeid import coerce_node_id
        item._id = coerce_node_id(name)
"""
FAILS_ON_ONE = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
def test_before():
    comm.barrier()
def test_fails():
    assert comm.rank != 1
    assert comm.rank == 2 or comm.recv(source=1, tag=comm.rank)
def test_after():
    assert comm.allreduce(1) == 4
"""


def test_a_test_that_has_another_name_on_each_rank_is_one_test(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(RENAMED)
    (tmp_path / "test_it.py").write_text(FAILS_ON_ONE)
    session = run(tmp_path, "--xsim-session", "4")
    assert "3 failed, 9 passed" in session.text
    for rank, said in ((1, "assert 1 != 1"), (0, "rank 1 has failed, and others wait"), (3, "others wait")):
        line = rf"^FAILED \S+test_fails\[Rank {rank}\] - rank {rank} of 4: .*{said}"
        assert re.search(line, session.text, re.MULTILINE)


def test_what_cannot_be_collected_is_said_once(tmp_path: Path):
    lines = ("from mpi4py import MPI", "if MPI.COMM_WORLD.rank < 2:", "    raise ValueError")
    (tmp_path / "test_broken.py").write_text("\n".join(lines))
    session = run(tmp_path, "--xsim-session", "4")
    assert "on ranks 0-1 of 4" in session.text
    assert "1 error during collection" in session.text
    assert session.status == pytest.ExitCode.INTERRUPTED


def test_pytest_itself_as_the_program_prints_what_each_rank_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    lines = ("from mpi4py import MPI", "def test_it():", "    print('said', MPI.COMM_WORLD.rank)")
    (tmp_path / "test_it.py").write_text("\n".join([*lines, "    assert MPI.COMM_WORLD.rank != 1"]))
    plugin = ["-p", "xsim_py.testing.plugin"]  # where it is installed, pytest finds it by itself
    options = [*plugin, "-c", "/dev/null", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", str(tmp_path)]
    result = simulate("pytest", kind="module", args=options, ranks=3, label=True)
    out = capfd.readouterr().out
    assert out.count("1 passed") == 2
    assert "[1] said 1\n" in out
    assert result.exit_status == 1
    assert result.warnings == []


FIXTURES = """
import pytest
from mpi4py import MPI
comm = MPI.COMM_WORLD
@pytest.fixture
def ends():
    yield
    if comm.rank == 1:
        comm.recv(source=0)
@pytest.fixture
def fails(ends):
    if comm.rank == 1:
        raise ValueError("alone")

def test_raises(fails):
    comm.barrier()

@pytest.fixture
def late():
    if comm.rank != 2:
        comm.barrier()
def test_is_not_set_up(late):
    raise ValueError("before it")
"""


def report(when: str, outcome: str, text: str | None = None) -> pytest.TestReport:
    return pytest.TestReport("test", ("file", 1, "test"), {}, outcome, text, when)  # type: ignore[arg-type]


def test_a_test_that_passes_on_one_rank_and_is_skipped_on_others_has_passed():
    skipped = [report("setup", "skipped", "no"), report("teardown", "passed")]
    passed = [report(when, "passed") for when in ("setup", "call", "teardown")]
    assert merged({0: skipped, 1: passed}, 2) == passed
    assert merged({0: skipped}, 2) == skipped


def test_where_a_rank_has_not_been_set_up_the_others_have_not_passed():
    failed = [report("setup", "failed", "error"), report("teardown", "passed")]
    passed = [report(when, "passed") for when in ("setup", "call", "teardown")]
    made = merged({0: passed, 1: failed}, 2)
    assert [(each.when, each.outcome) for each in made] == [("setup", "failed"), ("teardown", "passed")]
    assert made[0].longrepr == "rank 1 of 2: error"


def test_what_others_have_failed_with_after_the_setup_of_one_is_in_its_report():
    alone = [report("setup", "failed", "error"), report("teardown", "passed")]
    waits = [report("setup", "passed"), report("call", "failed", "deadlock report")]
    made = merged({0: waits, 1: alone, 2: waits}, 3)
    assert [(each.when, each.outcome) for each in made] == [("setup", "failed"), ("teardown", "passed")]
    assert made[0].longrepr == "rank 1 of 3: error"
    assert made[0].sections == [("on ranks 0, 2 of 3", "deadlock report")]


def test_who_waits_for_a_rank_whose_fixture_has_raised_is_in_the_deadlock_report(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(FIXTURES)
    session = run(tmp_path, "--xsim-session", "3")
    said = session.of("ERROR at setup of test_raises")
    assert "ValueError: alone" in said
    assert "on ranks 0, 2 of 3" in said
    assert "  ranks 0, 2, test_it.py:16 in test_raises: comm.barrier()" in said, session.text
    said = session.of("ERROR at teardown of test_raises")
    assert "  rank 1, test_it.py:9 in ends: comm.recv(source=0)" in said
    said = session.of("test_is_not_set_up")
    assert 'raise ValueError("before it")' in said
    assert "  ranks 0-1, test_it.py:21 in late: comm.barrier()" in said
    assert "1 failed, 2 errors" in session.text


def test_findings_belong_to_the_test_in_which_the_call_was(tmp_path: Path):
    session = run(tmp_path, "--xsim-session", "2", "--xsim-check", suites=("together_checked",))
    found = re.findall(r"^ERROR \S+::(\S+) - test_together_checked.py:(\d+): (\w+)", session.text, re.MULTILINE)
    message = ("23", "CallOrdering")
    expected = [(f"test_leaves_a_message[{tag}]", *message) for tag in (1, 2)]
    assert sorted(found) == [*expected, ("test_mistakes_and_fails", "30", "ParameterMatching")], session.text
    assert "2 failed, 4 passed, 1 skipped, 1 xfailed, 3 errors" in session.text
    elsewhere = session.text.partition("= xsim check findings =")[2]
    assert "test_together_checked.py:6: ResourceLeak: the communicator of Comm.Dup is never freed" in elsewhere
    assert session.text.count("ResourceLeak") == 1


STALLS = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
def test_it():
    comm.send(1, 1, tag=3) if comm.rank == 0 else comm.recv(source=0, tag=4)
"""


def test_a_finding_of_a_stall_stands_below_the_deadlock_report(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(STALLS)
    session = run(tmp_path, "--xsim-session", "2", "--xsim-check")
    assert "test_it.py:5: ParameterMatching: Comm.recv waits for tag 4" in session.of("test_it")
    assert "1 failed in" in session.text


def test_a_stall_is_explained_also_after_a_mistake_of_another_test(tmp_path: Path):
    mistaken = "    if comm.rank: comm.Recv(np.zeros(2, 'i8'), 0)\n    else: comm.Send(np.ones(2), 1)\n"
    (tmp_path / "test_it.py").write_text(
        "import numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
        f"def test_mistakes():\n{mistaken}def test_stalls():\n    comm.recv()\n"
    )
    session = run(tmp_path, "--xsim-session", "2", "--xsim-check")
    assert "ParameterMatching" in session.text
    assert "test_it.py:8: CallOrdering: Comm.recv never completes" in session.text, session.text


def test_what_earlier_tests_have_left_is_told_of_after_a_stall(tmp_path: Path):
    session = run(tmp_path, "--xsim-session", "2", "--xsim-check", suites=("lost",))
    found = re.findall(r"^ERROR \S+::(\S+) - test_lost.py:(\d+): (\w+)", session.text, re.MULTILINE)
    left = [("test_leaves_a_message", "18", "CallOrdering"), ("test_leaves_a_request", "22", "RequestLifecycle")]
    assert sorted(found) == left, session.text
    assert "2 failed, 3 passed, 2 errors" in session.text
    assert "CallOrdering: Comm.recv never completes" in session.of("test_stalls")


def test_a_session_with_x_stops_at_a_finding(tmp_path: Path):
    session = run(tmp_path, "--xsim-session", "2", "--xsim-check", "-x", suites=("mistaken",))
    assert "ERROR test_mistaken.py::test_mistaken - test_mistaken.py:9: ParameterMatching" in session.text
    assert "1 passed, 1 xfailed, 1 error in" in session.text
    assert "stopping after 1 failure" in session.text


def test_findings_of_no_test_are_a_failure_of_the_session(tmp_path: Path):
    (tmp_path / "test_it.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Dup()\ndef test_it(): pass\n")
    session = run(tmp_path, "--xsim-session", "2", "--xsim-check")
    assert session.status == pytest.ExitCode.TESTS_FAILED
    assert "test_it.py:2: ResourceLeak" in session.text


def test_an_option_that_does_not_go_with_the_number_of_ranks_is_bad_usage(tmp_path: Path):
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    session = run(tmp_path, "--xsim-session", "2", "--xsim-shards", "500")
    assert session.status == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --xsim-session: shards: 500 is out of range for 2 ranks" in session.text


DIES = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
def test_stalls():
    comm.recv()
def test_goes_on():
    try:
        comm.barrier()
    except MPI.Exception:
        pass
"""


@pytest.mark.parametrize(("words", "status"), [((), 1), (("-k", "goes"), 0), (("-k", "goes", "-W", "error"), 1)])
def test_failures_that_have_come_in_no_start_of_the_ranks_are_told(tmp_path: Path, words: tuple[str, ...], status: int):
    (tmp_path / "test_it.py").write_text(DIES)
    failures = ("--xsim-fail", "rank=1 before its 1st recv", "--xsim-fail", "rank=2 before its 9th barrier")
    session = run(tmp_path, "--xsim-session", "3", *failures, *words)
    first = "" if not words else "rank=1 before its 1st recv; "
    said = f"never injected, because the ranks had ended or made no such call: {first}rank=2 before its 9th barrier"
    assert (said in session.text, session.status) == (True, status), session.text


LEFT = """
import pytest
from mpi4py import MPI

def test_leaves():
    if MPI.COMM_WORLD.rank == 1:
        pytest.exit("no more of this", returncode=9)
    MPI.COMM_WORLD.barrier()

def test_not_run():
    assert 0
"""


def test_a_rank_that_leaves_the_tests_has_its_reason_and_status(tmp_path: Path):
    (tmp_path / "test_left.py").write_text(LEFT)
    session = run(tmp_path, "--xsim-session", "2")
    assert session.status == 9, session.text
    assert "Exit: no more of this" in session.text
    assert "test_not_run" not in session.outcomes
