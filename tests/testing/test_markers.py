import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.testing.running import SUITES, run
from xsim_py.testing.markers import WITHOUT_MPI, RankRequest, request_of

ALL = frozenset(("parallel", "mpi", "mpi(ranks)"))


class Node:
    """A test with these marks, the nearest first."""

    def __init__(self, *marks: pytest.Mark) -> None:
        self.marks = list(marks)

    def iter_markers(self) -> list[pytest.Mark]:
        return self.marks


def wish(*marks: pytest.Mark, **options: Any) -> RankRequest | None:
    return request_of(Node(*marks), **{"default": (), "foreign": ALL, "with_mpi": True, **options})


def said(name: str, *args: Any, **kwargs: Any) -> pytest.Mark:
    return pytest.Mark(name, args, kwargs, _ispytest=True)  # `pytest.mark` knows only those of this session


@pytest.mark.parametrize(
    ("mark", "ranks", "options"),
    [
        (said("ranks", 2, 3, 8), (2, 3, 8), {}),
        (said("ranks", [2, 3], machine="shmem"), (2, 3), {"machine": "shmem"}),
        (said("ranks"), (2,), {}),
        (said("parallel"), (3,), {}),
        (said("parallel", 4), (4,), {}),
        (said("parallel", nprocs=5), (5,), {}),
        (said("parallel", [1, 2]), (1, 2), {}),
        (said("mpi", ranks=[2, 4], timeout=2, unit="m"), (2, 4), {"wall_limit": 120}),
        (said("mpi", ranks=3), (3,), {}),
        (said("mpi", min_size=4), (4,), {}),
        (said("mpi"), (2,), {}),
    ],
)
def test_a_mark_says_on_how_many_ranks(mark: pytest.Mark, ranks: tuple[int, ...], options: dict[str, Any]):
    found = wish(mark)
    assert found is not None
    assert (found.ranks, found.options) == (ranks, options)


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"timeout": 100, "unit": "ms"}, "the mark mpi takes a unit among 's', 'm', 'h', not 'ms'"),
        ({"unit": ["s"]}, "the mark mpi takes a unit among 's', 'm', 'h', not ['s']"),
        ({"timeout": "10"}, "the mark mpi takes a timeout that is a number above 0, not '10'"),
        ({"timeout": 0}, "the mark mpi takes a timeout that is a number above 0, not 0"),
    ],
)
def test_a_wrong_timeout_of_a_mark_is_a_usage_error(told: dict[str, Any], wrong: str):
    with pytest.raises(pytest.UsageError) as error:
        wish(said("mpi", ranks=2, **told))
    assert str(error.value) == wrong


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"machne": "gige"}, "unknown option machne of the mark ranks; did you mean machine?"),
        ({"label": True}, "the mark ranks does not support label: the plugin gives it; drop it"),
        (
            {"isolation": "process"},
            "the mark ranks does not support isolation: the ranks of a test live in the process of pytest; drop it",
        ),
    ],
)
def test_an_option_that_a_test_cannot_have_is_a_usage_error(told: dict[str, Any], wrong: str):
    with pytest.raises(pytest.UsageError) as error:
        wish(said("ranks", 2, **told))
    assert str(error.value) == wrong


def test_the_nearest_mark_counts_and_other_marks_do_not():
    found = wish(said("slow"), said("ranks", 4), said("ranks", 2))
    assert found is not None
    assert found.ranks == (4,)
    assert wish(said("slow")) is None


@pytest.mark.parametrize(("name", "ranks"), [("ranks", (5, 6)), ("mpi", (5, 6)), ("parallel", (3,))])
def test_what_the_command_line_says_holds_for_marks_that_leave_it_open(name: str, ranks: tuple[int, ...]):
    found = wish(said(name), default=(5, 6))
    assert found is not None
    assert found.ranks == ranks


def test_without_its_option_a_test_of_pytest_mpi_is_skipped_and_one_of_the_others_is_not():
    skipped, isolated = wish(said("mpi"), with_mpi=False), wish(said("mpi", ranks=2), with_mpi=False)
    assert skipped is not None
    assert isolated is not None
    assert (skipped.skip, isolated.skip) == (WITHOUT_MPI, "")


def test_marks_of_plugins_that_are_there_are_theirs():
    for each in (said("parallel", 2), said("mpi"), said("mpi", ranks=2)):
        assert wish(each, foreign=frozenset()) is None


@pytest.mark.parametrize(
    "mark",
    [
        said("ranks", "two"),
        said("ranks", 0),
        said("parallel", 2, 3),
        said("parallel", size=2),
        said("mpi", 2),
        said("ranks", ()),
    ],
)
def test_a_mark_that_says_something_else_is_refused(mark: pytest.Mark):
    with pytest.raises(pytest.UsageError, match=mark.name):
        wish(mark)


def test_marks_and_fixtures_of_other_plugins_are_honoured(tmp_path: Path):
    session = run(tmp_path, "--with-mpi", "--xsim-ranks", "5", suites=("marks",))
    assert session.outcomes.pop("test_isolated_for_too_long[2]") == "FAILED"
    assert session.outcomes.pop("test_mpi_xfail") == "XFAIL"
    assert session.outcomes.pop("test_mpi_xfail_alone") == "XFAIL"
    assert Counter(session.outcomes.values())["PASSED"] == 9, session.text
    assert "3 skipped" in session.text
    assert session.text.count("test does not work under mpi") == 2
    assert {"test_parallel_on_several[nprocs=2]", "test_isolated[4]"} <= session.outcomes.keys()
    assert "Test requires 6 MPI processes, only 5 MPI processes specified" in session.text


XFAIL = """
import pytest
from mpi4py import MPI

@pytest.mark.mpi_xfail
def test_passes_on_ranks():
    assert MPI.COMM_WORLD.size == 2
"""


@pytest.mark.sampled
@pytest.mark.parametrize(("strict", "outcome"), [("false", "XPASS"), ("true", "FAILED")])
@pytest.mark.parametrize("words", [("--with-mpi",), ("--xsim-session", "2")])
def test_who_passes_though_expected_to_fail_fails_if_pytest_is_strict(
    tmp_path: Path, words: tuple[str, ...], strict: str, outcome: str
):
    (tmp_path / "test_it.py").write_text(XFAIL)
    session = run(tmp_path, *words, "-o", f"xfail_strict={strict}")
    assert session.outcomes == {"test_passes_on_ranks": outcome}, session.text


MARKED = {
    "test_mpi_skip": "PASSED",
    "test_mpi_break": "PASSED",
    "test_mpi_xfail_alone": "PASSED",
    "test_without_a_mark": "PASSED",
}


def test_without_its_option_marks_of_pytest_mpi_are_not_heeded(tmp_path: Path):
    session = run(tmp_path, "-m", "not parallel", "-k", "not isolated", suites=("marks",))
    assert {name: outcome for name, outcome in session.outcomes.items() if outcome != "SKIPPED"} == MARKED
    assert "need --with-mpi option to run" in session.text
    assert "4 skipped" in session.text


def test_only_tests_with_its_mark_run_if_that_is_asked_for(tmp_path: Path):
    session = run(tmp_path, "--only-mpi", "--xsim-ranks", "5", "-k", "not isolated", suites=("marks",))
    assert "test does not use mpi" in session.text
    assert {name for name, outcome in session.outcomes.items() if outcome == "PASSED"} == {"test_any", "test_at_least"}


def test_in_a_session_those_run_that_are_for_so_many_ranks(tmp_path: Path):
    session = run(tmp_path, "--xsim-session", "4", suites=("marks",))
    done = {name for name, outcome in session.outcomes.items() if outcome == "PASSED"}
    assert done == {"test_parallel_on_four", "test_isolated[4]", "test_without_a_mark"}, session.text


def test_a_plugin_that_is_there_keeps_its_options_and_fixtures_and_skips_nothing_that_runs_on_ranks(tmp_path: Path):
    (tmp_path / "pytest_mpi").mkdir()
    shutil.copy(SUITES / "other_plugin.py", tmp_path / "pytest_mpi" / "__init__.py")
    words = ("-p", "pytest_mpi", "-m", "mpi", "-k", "at_least or any")
    variables = {"PYTHONPATH": f"{Path.cwd()}:{tmp_path}"}
    asked = run(tmp_path, *words, "--xsim", "--xsim-ranks", "5", suites=("marks",), **variables)
    assert asked.outcomes == {"test_at_least": "PASSED", "test_any": "PASSED"}, asked.text
    quiet = run(tmp_path, *words, suites=("marks",), **variables)
    assert quiet.text.count("by another plugin") == 2


ISOLATING = """
import pytest

class Starter:
    def pytest_runtest_protocol(self, item):
        if item.get_closest_marker("mpi"):
            pytest.exit("there is no mpiexec")

def pytest_configure(config):
    config.pluginmanager.register(Starter())

@pytest.fixture
def comm():
    return "of another plugin"
"""


@pytest.mark.parametrize(
    ("words", "outcomes"),
    [
        ((), {}),
        (("--xsim",), {"test_isolated[2]": "PASSED", "test_isolated[4]": "PASSED"}),
        (("--xsim-session", "2"), {"test_isolated[2]": "PASSED"}),
    ],
)
def test_a_plugin_that_starts_mpiexec_does_so_unless_an_option_of_ours_is_given(
    tmp_path: Path, words: tuple[str, ...], outcomes: dict[str, str]
):
    (tmp_path / "pytest_isolate_mpi").mkdir()
    (tmp_path / "pytest_isolate_mpi" / "_plugin.py").write_text(ISOLATING)
    variables = {"PYTHONPATH": f"{Path.cwd()}:{tmp_path}"}
    options = ("-p", "pytest_isolate_mpi._plugin", "-k", "test_isolated and not long", *words)
    session = run(tmp_path, *options, suites=("marks",), **variables)
    assert {name: what for name, what in session.outcomes.items() if what != "SKIPPED"} == outcomes, session.text
    assert ("there is no mpiexec" in session.text) == (not words), session.text
