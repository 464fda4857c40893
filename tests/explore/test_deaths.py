"""Every place at which a rank can die is found, and what becomes of the run is judged and can be repeated."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.explore import failures
from xsim_py.explore.journal import ExplorationJournal
from xsim_py.explore.runs import RunSummary
from xsim_py.report.failure_space import CLASSES


def shrinks() -> None:
    """Repeat a sum without the dead; rank 0 has the result, and only it prints."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    total = None
    while total is None:
        with contextlib.suppress(MPI.Exception):
            total = comm.allreduce(1)
        try:
            done = comm.Agree(int(total is not None))
        except MPI.Exception:
            done = 0
        if not done:
            total = None
            comm = comm.Shrink()
    if comm.rank == 0:
        print(f"sum of {comm.size} ranks: {'right' if total == comm.size else 'wrong'}")


def alone() -> None:
    """Send to a neighbour who prints it."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        comm.send("x", dest=1)
    if comm.rank == 1:
        print(comm.recv(source=0))


def test_there_is_a_case_before_in_and_after_each_call_of_each_rank() -> None:
    space = failures(alone, ranks=3)
    assert [case.fail[0] for case in space.cases] == [
        "rank=0 before its 1st send",
        "rank=0 after its 1st send",
        "rank=1 before its 1st recv",
        "rank=1 10.064us into its 1st recv",
        "rank=1 after its 1st recv",
    ]
    assert sum(space.counts().values()) == 5
    assert len(space.table()) == 2


def test_the_smallest_example_of_a_class_does_again_what_it_did() -> None:
    space = failures(alone, ranks=2)
    assert space.counts()["survived"] > 0
    for name, case in space.smallest().items():
        result = simulate(alone, ranks=2, fail=case.fail, stdout=io.StringIO(), stderr=io.StringIO())
        assert (name == "stalled") == (result.ended == "stalled")
        assert (name == "aborted") == (result.ended == "aborted")


def test_a_program_that_repairs_itself_survives_every_death_and_every_pair() -> None:
    space = failures(shrinks, ranks=3, deaths=2, when=("before", "after"), accept="right", budget=30)
    counts = space.counts()
    assert counts["aborted"] == counts["stalled"] == 0
    assert {case.places[-1].name for case in space.cases} >= {"allreduce", "Agree", "Shrink"}
    assert len({frozenset(case.fail) for case in space.cases}) == len(space.cases)
    wrong = [case.fail for case in space.cases if case.outcome == "wrong result"]
    assert [fail for fail in wrong if len(fail) == 1] == [("rank=0 after its 1st Agree",)]


def test_lines_that_only_dead_ranks_would_have_printed_may_be_missing() -> None:
    def program(text: str) -> None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        if comm.rank == 1:
            comm.Barrier() if False else comm.send(0, dest=1)
        print(text if text else comm.rank)

    own = failures(program, ranks=3, args=[""], when=["before"])
    assert own.counts() == {"survived": 1, "wrong result": 0, "aborted": 0, "stalled": 0}
    common = failures(program, ranks=3, args=["done"], when=["before"], accept="nothing like it|done")
    assert common.counts()["survived"] == 1


def test_a_result_of_which_nothing_is_left_is_wrong() -> None:
    def program() -> None:
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 0:
            MPI.COMM_WORLD.send(0, dest=0)
            print("the only line")

    space = failures(program, ranks=2, when=["before"])
    assert space.counts() == {"survived": 0, "wrong result": 1, "aborted": 0, "stalled": 0}


def test_a_budget_draws_the_same_cases_again() -> None:
    drawn = [[case.fail for case in failures(shrinks, ranks=4, budget=5, seed=3).cases] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 5


def test_a_failure_may_happen_in_all_runs() -> None:
    space = failures(shrinks, ranks=3, accept="right", fail="rank=2@0", when=["before"], budget=4)
    assert space.counts() == {"survived": 4, "wrong result": 0, "aborted": 0, "stalled": 0}
    assert all("rank=2" not in each for case in space.cases for each in case.fail)


def test_a_judge_decides_in_place_of_the_usual_one() -> None:
    space = failures(alone, ranks=2, judge=lambda right, seen: CLASSES[0] if seen == right else CLASSES[1])
    assert space.counts()["wrong result"] == len(space.cases)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"accept": "("}, "accept: invalid regular expression"),
        ({"when": ["soon"]}, "'soon'"),
        ({"accept": "y"}, "the failure-free program printed no accepted line"),
    ],
)
def test_what_cannot_be_explored_is_refused(told: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        failures(alone, ranks=2, **told)


def test_what_is_done_is_not_done_again(tmp_path: Any) -> None:
    path, identity = tmp_path / "done.jsonl", {"program": "p", "machine": "gige"}
    with ExplorationJournal.opened(path, identity) as journal:
        first = failures(alone, ranks=2, keep=journal.add)
    path.write_text(path.read_text()[:-20])  # as a crash would leave it
    kept: list[str] = []
    with ExplorationJournal.opened(path, identity) as journal:
        assert all(isinstance(each, RunSummary) for each in journal.done.values())
        again = failures(alone, ranks=2, done=journal.done, keep=lambda case, _: kept.append(case))
    assert len(kept) == 1
    assert again.to_dict() == first.to_dict()
    other = ExplorationJournal.opened(path, {**identity, "machine": "shmem"})
    with pytest.raises(ConfigError, match="belongs to a different program, machine or option; name another"), other:
        pass


def test_the_picture_has_a_field_for_each_case(tmp_path: Any) -> None:
    space = failures(alone, ranks=2)
    assert space.text().startswith("rank 0  ")
    assert sum(len(call) for row in space.grid() for call in row) == len(space.cases)
    space.draw(tmp_path / "space.png")
    assert (tmp_path / "space.png").stat().st_size > 1000
