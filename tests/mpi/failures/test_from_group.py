"""A communicator made from a group has no parent: what becomes of COMM_WORLD does not matter to it."""

import time
from typing import Any

import pytest

from tests.mpi.failures.test_recovery import attempt, run

DEAD, REVOKER = 3, 2
DIES_S, MEET_S = 1e-3, 2e-3


def meet(knowledge: str, with_dead: bool, revoked: bool) -> tuple[str, str]:
    """Ranks 0 to 2 make a communicator when rank 3 is dead; how that ends for each, and a sum over it."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank == DEAD:
        time.sleep(1)
    time.sleep(DIES_S + 1e-4)
    if knowledge != "unknown":
        assert attempt(world.recv, None, DEAD)[0] == "failed"
    if knowledge == "acked":
        assert world.Ack_failed() == 1
    time.sleep(MEET_S - 5e-6 - MPI.Wtime())
    if revoked and world.rank == REVOKER:
        world.Revoke()  # the news does not come back from the dead rank before the timeout of 10 us
    time.sleep(MEET_S - MPI.Wtime())
    assert world.Is_revoked() is revoked
    assert world.Get_failed().size == (knowledge != "unknown")
    whole = world.Get_group()
    group = whole if with_dead else whole.Excl([DEAD])
    made: list[Any] = []
    said, _ = attempt(lambda: made.append(MPI.Intracomm.Create_from_group(group)))
    return said, str(made[0].allreduce(world.rank)) if made else ""


@pytest.mark.parametrize("revoked", [False, True], ids=["", "world revoked"])
@pytest.mark.parametrize("with_dead", [False, True], ids=["a non-member", "a member"])
@pytest.mark.parametrize("knowledge", ["unknown", "known", "acked"])
def test_it_works_for_the_living_whatever_has_become_of_world(knowledge: str, with_dead: bool, revoked: bool):
    result = run(meet, 4, knowledge, with_dead, revoked, fail=f"rank={DEAD}@{DIES_S}s")
    assert result.ended == "finished"
    assert {result.values[rank] for rank in range(DEAD)} == {("failed", "") if with_dead else ("None", "3")}


def two_groups(revoked: bool) -> tuple[str, int]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank == DEAD:
        time.sleep(1)
    time.sleep(MEET_S)
    if revoked:
        world.Revoke()
    else:
        attempt(world.barrier)
    whole = world.Get_group()
    groups = [whole.Incl([1]), whole.Incl([2, 0])]
    mine = int(world.rank != 1)
    made = MPI.Intercomm.Create_from_groups(groups[mine], 0, groups[1 - mine], 0)
    return str(made.allreduce(world.rank)), made.remote_size


@pytest.mark.parametrize("revoked", [False, True])
def test_so_it_does_between_two_groups(revoked: bool):
    result = run(two_groups, 4, revoked, fail=f"rank={DEAD}@{DIES_S}s")
    assert result.values[:DEAD] == [("1", 1), ("2", 2), ("1", 1)]
