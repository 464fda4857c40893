import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.testing.running import SUITES, run
from xsim_py.testing.markers import WITHOUT_MPI, Wish, wish_of

ALL = frozenset(("parallel", "mpi", "mpi(ranks)"))


class Node:
    """A test with these marks, the nearest first."""

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self.marks = [each.mark for each in marks]

    def iter_markers(self) -> list[pytest.Mark]:
        return self.marks


def wish(*marks: pytest.MarkDecorator, **options: Any) -> Wish | None:
    return wish_of(Node(*marks), **{"usual": (), "foreign": ALL, "with_mpi": True, **options})


mark = pytest.mark


@pytest.mark.parametrize(
    ("said", "ranks", "options"),
    [
        (mark.ranks(2, 3, 8), (2, 3, 8), {}),
        (mark.ranks([2, 3], machine="shmem"), (2, 3), {"machine": "shmem"}),
        (mark.ranks, (2,), {}),
        (mark.parallel, (3,), {}),
        (mark.parallel(4), (4,), {}),
        (mark.parallel(nprocs=5), (5,), {}),
        (mark.parallel([1, 2]), (1, 2), {}),
        (mark.mpi(ranks=[2, 4], timeout=2, unit="m"), (2, 4), {"wall_limit": 120}),
        (mark.mpi(ranks=3), (3,), {}),
        (mark.mpi(min_size=4), (4,), {}),
        (mark.mpi, (2,), {}),
    ],
)
def test_a_mark_says_on_how_many_ranks(said: pytest.MarkDecorator, ranks: tuple[int, ...], options: dict[str, Any]):
    found = wish(said)
    assert found is not None
    assert (found.ranks, found.options) == (ranks, options)


def test_the_nearest_mark_counts_and_other_marks_do_not():
    found = wish(mark.slow, mark.ranks(4), mark.ranks(2))
    assert found is not None
    assert found.ranks == (4,)
    assert wish(mark.slow) is None


def test_what_the_command_line_says_holds_for_who_leaves_it_open():
    open_ones = [wish(each, usual=(5, 6)) for each in (mark.ranks, mark.mpi, mark.mpi(min_size=2))]
    assert [each and each.ranks for each in open_ones] == [(5, 6)] * 3
    assert [each and each.ranks for each in (wish(mark.ranks(3), usual=(5,)), wish(mark.parallel, usual=(5,)))] == [
        (3,),
        (3,),
    ]


def test_without_its_option_a_test_of_pytest_mpi_is_skipped_and_one_of_the_others_is_not():
    assert [
        found and found.skip for found in (wish(mark.mpi, with_mpi=False), wish(mark.mpi(ranks=2), with_mpi=False))
    ] == [
        WITHOUT_MPI,
        "",
    ]


def test_marks_of_plugins_that_are_there_are_theirs():
    for each in (mark.parallel(2), mark.mpi, mark.mpi(ranks=2)):
        assert wish(each, foreign=frozenset()) is None


@pytest.mark.parametrize(
    "said", [mark.ranks("two"), mark.ranks(0), mark.parallel(2, 3), mark.parallel(size=2), mark.mpi(2), mark.ranks(())]
)
def test_a_mark_that_says_something_else_is_refused(said: pytest.MarkDecorator):
    with pytest.raises(pytest.UsageError, match=said.mark.name):
        wish(said)


def test_marks_and_fixtures_of_other_plugins_are_honoured(tmp_path: Path):
    session = run(tmp_path, "--with-mpi", "--xsim-ranks", "5", suites=("marks",))
    assert Counter(session.outcomes.values()) == {"PASSED": 8, "SKIPPED": 1}, session.text
    assert {"test_parallel_on_several[nprocs=2]", "test_isolated[4]"} <= session.outcomes.keys()
    assert "Test requires 6 MPI processes, only 5 MPI processes specified" in session.text


def test_a_plugin_that_is_there_keeps_its_options_and_fixtures_and_skips_nothing_that_runs_on_ranks(tmp_path: Path):
    (tmp_path / "pytest_mpi").mkdir()
    shutil.copy(SUITES / "other_plugin.py", tmp_path / "pytest_mpi" / "__init__.py")
    words = ("-p", "pytest_mpi", "-m", "mpi", "-k", "at_least or any")
    variables = {"PYTHONPATH": f"{Path.cwd()}:{tmp_path}"}
    asked = run(tmp_path, *words, "--xsim", "--xsim-ranks", "5", suites=("marks",), **variables)
    assert asked.outcomes == {"test_at_least": "PASSED", "test_any": "PASSED"}, asked.text
    quiet = run(tmp_path, *words, suites=("marks",), **variables)
    assert quiet.text.count("by another plugin") == 2
