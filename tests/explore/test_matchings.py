"""Each outcome that another choice of messages leads to is found, with the least that leads to it."""

from __future__ import annotations

import io
from math import factorial
from threading import Thread
from typing import Any

import pytest

from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.explore import replay, wildcards
from xsim_py.explore.matchings import explained, with_failures
from xsim_py.schedules import MatchSchedule


def gathers() -> None:
    """Print who came, in this order."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank:
        comm.send(comm.rank, dest=0)
    else:
        print([comm.recv(source=MPI.ANY_SOURCE) for _ in range(comm.size - 1)])


def expects_order() -> None:
    """Sum up what comes; wait for ever where the last one came first, and fail where it came second."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank:
        comm.send(comm.rank, dest=0)
        return
    came = [comm.recv(source=MPI.ANY_SOURCE) for _ in range(comm.size - 1)]
    if came[0] == comm.size - 1:
        comm.recv(source=1)
    if came[1] == comm.size - 1:
        raise ValueError("too early")
    print(sum(came))


def ring() -> None:
    """Send around a ring, with wildcards that have no choice."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.send(comm.rank, dest=(comm.rank + 1) % comm.size)
    comm.Barrier()
    print(comm.recv(source=MPI.ANY_SOURCE))


def test_all_matchings_are_run_once() -> None:
    found = wildcards(gathers, ranks=4)
    assert (found.found, found.is_complete, found.is_deterministic) == (6, True, False)
    assert found.kinds() == {"result": 5, "exception": 0, "deadlock": 0, "finding": 0}
    assert sum(each.matchings for each in found.classes) == 6


def test_a_deterministic_program_has_one() -> None:
    found = wildcards(ring, ranks=4)
    assert (found.found, found.is_complete, found.is_deterministic, found.runs) == (1, True, True, 1)


def test_each_kind_of_outcome_has_the_least_schedule_that_leads_there() -> None:
    found = wildcards(expects_order, ranks=4)
    assert found.kinds() == {"result": 0, "exception": 2, "deadlock": 2, "finding": 0}
    exception, deadlock = found.classes[1:]
    assert deadlock.least == ((0, 3),)
    assert exception.least == ((0, -1), (0, 3))
    (line,) = explained(deadlock.difference)
    assert line.startswith("rank 0, choice 0 (")
    assert line.endswith(": receives from rank 3 instead of rank 1")
    for each, ended in ((exception, "aborted"), (deadlock, "stalled")):
        for schedule in (each.least, each.schedule):
            assert simulate(expects_order, ranks=4, schedule=schedule, stderr=io.StringIO()).ended == ended


def test_results_are_equal_if_they_are_accepted() -> None:
    assert wildcards(gathers, ranks=3, accept=r"\[").kinds()["result"] == 0
    with pytest.raises(ConfigError, match="accept: invalid regular expression"):
        wildcards(gathers, ranks=3, accept="[")


def test_where_there_are_more_than_the_budget_half_of_it_goes_to_chance() -> None:
    found = wildcards(gathers, ranks=5, budget=16, seed=1)
    assert not found.is_complete
    assert 8 < found.found < found.runs <= 16 < factorial(4)
    assert found == wildcards(gathers, ranks=5, budget=16, seed=1)
    chance = [tuple(choice for _, choice in each.schedule) for each in found.classes]
    assert any(order[0] != 1 for order in chance)


def test_all_are_run_where_the_budget_just_has_them() -> None:
    found = wildcards(gathers, ranks=5, budget=27)
    assert (found.found, found.is_complete) == (24, True)


def test_failures_are_drawn_beside() -> None:
    plain, *others = with_failures(gathers, failures=2, ranks=3, seed=2)
    assert plain.fail == ""
    assert [each.fail.partition(" ")[0][:5] for each in others] == ["rank="] * 2
    assert all(each.is_complete for each in others)


def test_one_choice_can_be_made_otherwise() -> None:
    def first_of(told: Any) -> list[int]:
        return [choice.taken for choice in told.choices]

    usual = simulate(gathers, ranks=4, schedule=MatchSchedule({}, watch=True), stdout=io.StringIO())
    second = usual.choices[1]
    other = replay(gathers, usual.choices, second, second.alternatives[0], ranks=4, stdout=io.StringIO())
    assert (first_of(usual), first_of(other)) == ([1, 2, 3], [1, 3, 2])


def probes_in_threads() -> int:
    from mpi4py import MPI

    comm, got = MPI.COMM_WORLD, list[int]()
    if comm.rank:
        comm.send(comm.rank, 0)
        return 0
    threads = [Thread(target=lambda: got.append(comm.mprobe().recv())) for _ in range(comm.size - 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(got)


def test_matched_probes_of_two_threads_depend_on_each_other() -> None:
    found = wildcards(probes_in_threads, ranks=3, budget=10)
    assert (found.found, found.is_complete, len(found.classes)) == (2, True, 1)
    usual = simulate(probes_in_threads, ranks=3, schedule=MatchSchedule({}, watch=True), stdout=io.StringIO())
    first = usual.choices[0]
    other = replay(probes_in_threads, usual.choices, first, first.alternatives[0], ranks=3, stdout=io.StringIO())
    assert other.ended == "finished"
    assert [choice.taken for choice in other.choices] == [2, 1]
