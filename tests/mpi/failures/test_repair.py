"""What drives agreements: their messages, who finds out about dead members, and the new communicator."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.mpi.parts import LATENCY_PS, World
from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.failures.deaths import Deaths, Reports
from xsim_py.mpi.failures.detector import DetectorSettings
from xsim_py.mpi.failures.guard import FailureGuard
from xsim_py.mpi.failures.knowledge import knowledge_of
from xsim_py.mpi.failures.repair import Repair, agreed_flag, begin_agree, begin_shrink, check_agreed, shrunk
from xsim_py.mpi.failures.timeout import TimeoutDetector

TIMEOUT_PS = 10_000
WAYS = pytest.mark.parametrize(
    ("agree", "shrink"), [("two_phase", "two_phase"), ("early_returning", "agreement"), ("liveness", "liveness")]
)
EITHER = pytest.mark.parametrize("shards", [1, 2])


def repairing(ranks: int = 8, shards: int = 1, agree: str = "two_phase", shrink: str = "two_phase") -> SimpleNamespace:
    world = World(ranks, shards)
    for fabric in world.fabrics:
        deaths = Deaths(fabric)
        detector = fabric.add(TimeoutDetector(deaths, DetectorSettings("timeout", TIMEOUT_PS, 0)))
        reports = fabric.add(Reports(deaths, detector))
        fabric.bounce, fabric.shard.on_failure = reports.bounce, reports.died
        fabric.guard = FailureGuard(deaths, detector)
        fabric.add(Repair(deaths, detector, agree=agree, shrink=shrink))
    return SimpleNamespace(world=world)


def die(world: World, number: int) -> None:
    rank = world.ranks[number]
    rank.exit_status = 9
    rank.shard.on_failure(rank, "killed", True)


def agree(world: World, number: int, flag: int = -1) -> Any:
    with world.acting(number) as comm:
        return begin_agree(comm, flag, "Comm.Agree")


@EITHER
@WAYS
def test_all_get_the_flags_of_all(agree, shrink, shards):
    world = repairing(8, shards, agree, shrink).world
    calls = []
    for number in range(8):
        with world.acting(number) as comm:
            calls.append(begin_agree(comm, 0b1111 & ~(1 << number % 3), "Comm.Agree"))
    world.run()
    assert all(call.done for call in calls)
    assert {agreed_flag(call) for call in calls} == {0b1000}


def test_an_agreement_takes_two_messages_for_each_member_but_one():
    world = repairing().world
    calls = [agree(world, number) for number in range(8)]
    world.run()
    assert sum(world.fabrics[0].tally.messages()) == 2 * 7
    assert max(call.time_ps for call in calls) >= 2 * 3 * LATENCY_PS  # up and down three levels


@EITHER
@WAYS
@pytest.mark.parametrize("dead", [0, 3, 7])
def test_survivors_agree_without_a_dead_member_and_all_get_the_same_error(agree, shrink, shards, dead):
    world = repairing(8, shards, agree, shrink).world
    calls = {}
    for number in range(8):
        if number != dead:
            with world.acting(number) as comm:
                calls[number] = begin_agree(comm, 1 << number, "Comm.Agree")
    die(world, dead)
    world.run()
    assert {agreed_flag(call) for call in calls.values()} == {0}
    for number, call in calls.items():
        with world.acting(number), pytest.raises(errors.Exception) as caught:
            check_agreed(call)
        assert caught.value.Get_error_class() == c.ERR_PROC_FAILED
        assert list(knowledge_of(world.ranks[number].mpi).known) == [dead]


def test_what_all_have_acknowledged_is_no_error():
    world = repairing().world
    die(world, 3)
    world.run()
    calls = []
    for number in range(8):
        if number != 3:
            knowledge_of(world.ranks[number].mpi).note({3: (0, "timeout")})
            world.comms[number].acknowledge(None)
            calls.append((number, agree(world, number)))
    world.run()
    for number, call in calls:
        with world.acting(number):
            check_agreed(call)


@EITHER
@WAYS
def test_to_shrink_leaves_the_dead_out(agree, shrink, shards):
    world = repairing(8, shards, agree, shrink).world
    die(world, 3)
    die(world, 4)
    calls = {}
    for number in (0, 1, 2, 5, 6, 7):
        with world.acting(number) as comm:
            calls[number] = begin_shrink(comm, "Comm.Shrink")
    world.run()
    made = [shrunk(call) for call in calls.values()]
    assert [comm.me for comm in made] == list(range(6))
    assert {tuple(comm.ranks) for comm in made} == {(0, 1, 2, 5, 6, 7)}
    assert len({comm.cid for comm in made}) == 1


def test_calls_at_once_on_one_communicator_come_one_after_the_other():
    world = repairing(4).world
    first = [agree(world, number, 1) for number in range(4)]
    second = [agree(world, number, 2) for number in range(4)]
    world.run()
    assert {agreed_flag(call) for call in first} == {1}
    assert {agreed_flag(call) for call in second} == {2}
    assert min(call.time_ps for call in second) > min(call.time_ps for call in first)


def test_what_comes_before_a_rank_has_entered_is_kept_for_it():
    world = repairing(4).world
    calls = [agree(world, number) for number in (1, 2, 3)]
    world.run()
    assert knowledge_of(world.ranks[0].mpi).early
    calls.append(agree(world, 0))
    world.run()
    assert all(call.done for call in calls)
    assert not knowledge_of(world.ranks[0].mpi).early


def test_who_waits_says_for_whom():
    world = repairing(4).world
    call = agree(world, 0)
    assert call.awaited == [1, 2]
    assert call.describe() == "Comm.Agree on MPI_COMM_WORLD: ranks 1, 2 of MPI_COMM_WORLD to take part"
