"""Revocation by itself: who hears of it, when, by how many messages, and what ends by it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.mpi.parts import LATENCY_PS, World
from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import Communicator, Context
from xsim_py.mpi.failures.broadcast import neighbours, next_survivor
from xsim_py.mpi.failures.deaths import Deaths, Reports
from xsim_py.mpi.failures.detector import DetectorSettings
from xsim_py.mpi.failures.knowledge import is_revoked, knowledge_of
from xsim_py.mpi.failures.revocation import Revocation
from xsim_py.mpi.failures.timeout import TimeoutDetector
from xsim_py.mpi.transport.p2p import start_receive

TIMEOUT_PS = 10_000
ALGORITHMS = ["reliable_broadcast", "direct", "local"]


def revoking(algorithm: str, ranks: int = 8, shards: int = 1) -> SimpleNamespace:
    world = World(ranks, shards)
    for fabric in world.fabrics:
        deaths = Deaths(fabric)
        detector = fabric.add(TimeoutDetector(deaths, DetectorSettings("timeout", TIMEOUT_PS, 0)))
        fabric.bounce = fabric.add(Reports(deaths, detector)).bounce
        fabric.add(Revocation(fabric, algorithm))
    return SimpleNamespace(world=world)


def revoke(run: Any, number: int) -> None:
    with run.world.acting(number) as comm:
        comm.fabric.part(Revocation).revoke(comm)


def messages(world: World) -> int:
    return sum(sum(fabric.tally.messages()) for fabric in world.fabrics)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_members_hear_of_it(algorithm, shards):
    run = revoking(algorithm, 8, shards)
    revoke(run, 5)
    run.world.run()
    assert all(map(is_revoked, run.world.comms))
    assert all(fabric.failure_seen for fabric in run.world.fabrics)


@pytest.mark.parametrize(("algorithm", "count"), [("reliable_broadcast", 8 * 2 * 3), ("direct", 8 * 7), ("local", 0)])
def test_everybody_tells_others_once(algorithm, count):
    run = revoking(algorithm)
    revoke(run, 5)
    revoke(run, 5)
    run.world.run()
    assert messages(run.world) == count


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_in_progress_on_the_communicator_ends(algorithm):
    run = revoking(algorithm)
    with run.world.acting(2) as comm:
        posted = start_receive(comm, 3, 7, comm.cid, "Recv")
        other = start_receive(Communicator(Context(4, range(8), None), comm.box), 3, 7, 4, "Recv")
    revoke(run, 0)
    run.world.run()
    assert posted.error.Get_error_class() == c.ERR_REVOKED
    assert posted.time_ps >= LATENCY_PS
    assert not other.done


def test_nobody_hears_of_it_before_a_latency_has_passed():
    run = revoking("local")
    revoke(run, 5)
    run.world.run(LATENCY_PS)
    assert [is_revoked(comm) for comm in run.world.comms].count(True) == 1
    run.world.run(LATENCY_PS + 1)
    assert all(map(is_revoked, run.world.comms))


def test_a_member_that_is_known_to_be_dead_is_told_nothing():
    run = revoking("direct")
    for rank in run.world.ranks:
        if rank.number != 3:
            knowledge_of(rank.mpi).note({3: (0, "timeout")})
    run.world.fabrics[0].close(run.world.ranks[3])
    revoke(run, 5)
    run.world.run()
    assert messages(run.world) == 7 * 6


def test_who_told_a_dead_member_tells_the_one_after_it():
    run = revoking("reliable_broadcast", 4)
    world = run.world
    for number in (1, 2):
        world.fabrics[0].close(world.ranks[number])
        world.ranks[number].exit_status = 9
    revoke(run, 0)
    world.run()
    assert is_revoked(world.comms[3])
    assert sorted(knowledge_of(world.ranks[0].mpi).known) == [1, 2]


def test_neighbours_are_at_powers_of_two_on_both_sides():
    assert list(neighbours(0, range(9), ())) == [1, 8, 2, 7, 4, 5]


def test_the_dead_next_to_a_member_are_stepped_over_and_those_further_away_left_out():
    assert list(neighbours(0, range(9), {1, 2, 7})) == [3, 8, 4, 5]


def test_the_next_place_goes_round_to_oneself():
    assert next_survivor(2, range(4), {3, 0}, me=1) == 1
    assert next_survivor(2, range(4), {3}, me=1) == 0
    assert next_survivor(1, range(4), {0}, me=2, sign=-1) == 3
