"""Corners of recovery: many deaths at once, calls that do not match, and what waits while something else fails."""

import gc
import re
import time
from collections import Counter
from typing import Any

import pytest

from tests.mpi.failures.test_recovery import US, attempt, learned, run, sleep_on
from xsim_py.engine import Kernel
from xsim_py.machine import Machine
from xsim_py.mpi.failures.deaths import Deaths
from xsim_py.network.layered import LayeredNetwork

# ---------------------------------------------------------------------------------------------- many deaths at once

HEARTBEAT = {"mpi.detector.type": "heartbeat", "mpi.detector.period": "1s", "mpi.detector.timeout": "2s"}


def scattered(count: int, ranks: int) -> list[int]:
    """Some ranks, never rank 0: in runs of several and alone."""
    order = sorted(range(1, ranks), key=lambda rank: (rank * 37 % 61, rank))
    return order[:count]


@pytest.mark.sampled
@pytest.mark.parametrize(("dead", "ranks"), [(5, 8), (12, 16), (32, 64), (50, 64), (62, 64)])
@pytest.mark.parametrize("apart_s", [0, 0.13])
def test_every_survivor_hears_of_every_failure(dead: int, ranks: int, apart_s: float):
    victims = scattered(dead, ranks)
    failures = [f"rank={rank}@{1.5 + place * apart_s:.2f}s" for place, rank in enumerate(victims)]
    result = run(lambda: time.sleep(100), ranks, set=HEARTBEAT, fail=failures)
    told = learned(result)
    alive = set(range(ranks)) - set(victims)
    assert {(failed, rank) for failed, rank in told if rank in alive} == {(v, rank) for v in victims for rank in alive}


@pytest.mark.parametrize(("dead", "ranks"), [(6, 8), (12, 16), (50, 64), (62, 64)])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_revocation_reaches_all_who_live(dead: int, ranks: int, shards: int):
    """They wait for rank 0, which is alive and never sends; nothing else would wake them."""

    def program() -> tuple[str, int]:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank == 0:
            time.sleep(1e-3)
            world.Revoke()
        return attempt(world.recv, None, 0, 99)

    victims = scattered(dead, ranks)
    result = run(program, ranks, fail=[f"rank={rank}@1ms" for rank in victims], shards=shards)
    assert result.ended == "finished"
    assert {value[0] for rank, value in enumerate(result.values) if rank not in victims} == {"revoked"}


@pytest.mark.parametrize("algorithm", ["reliable_broadcast", "direct", "local"])
@pytest.mark.parametrize("shards", [1, 2])
def test_a_revocation_takes_a_latency_to_the_next_node_and_less_on_the_same(algorithm: str, shards: int):
    def program() -> int:
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 0:
            MPI.COMM_WORLD.Revoke()
        said, time_ps = attempt(MPI.COMM_WORLD.recv, None, 0, 99)
        assert said == "revoked"
        return time_ps

    machine = {
        "machine": {"cores_per_node": 2, "nodes": 2},
        "network": {"latency": "5us"},
        "same_node": {"latency": "1us"},
    }
    overrides = {"mpi.ulfm.revoke": algorithm, "network.bandwidth": "unlimited", "same_node.bandwidth": "unlimited"}
    result = run(program, 4, machine=machine, set=overrides, shards=shards)
    assert result.values == [0, US, 5 * US, 5 * US]


# ------------------------------------------------------------------------------------------- calls that do not match


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"mpi.ulfm.agree": "early_returning"},
        {"mpi.ulfm.shrink": "agreement"},
        {"mpi.ulfm.agree": "liveness"},
        {"mpi.ulfm.agree": "liveness", "mpi.ulfm.shrink": "liveness"},
    ],
)
@pytest.mark.parametrize("shards", [1, 2])
def test_agree_and_shrink_at_once_are_named(overrides: dict[str, str], shards: int):
    def program() -> None:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank in (1, 2):
            world.Agree(3)
        else:
            world.Shrink()

    result = run(program, 5, set=overrides, shards=shards)
    assert (result.ended, result.exit_status) == ("stalled", 3)
    first = "collective mismatch on MPI_COMM_WORLD: rank 0 is in Comm.Shrink, rank [12] in Comm.Agree"
    assert re.match(first, result.report)


def test_agree_and_shrink_at_once_on_an_intercommunicator_are_named():
    """They bring different numbers of flags; an early packet waits for who has not entered yet."""

    def program() -> None:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        half = world.Split(world.rank % 2, world.rank)
        both = half.Create_intercomm(0, world, 1 - world.rank % 2)
        if world.rank == 0:
            time.sleep(1)
            both.Agree(1)
        else:
            both.Shrink()

    result = run(program, 5)
    assert "collective mismatch on a communicator of 5 ranks: rank 0 is in Comm.Agree" in result.report


# --------------------------------------------------------------------------------- what waits while something fails


@pytest.mark.parametrize("wait", ["wait", "waitany", "waitall", "waitsome"])
def test_a_wildcard_receive_is_waited_for_again_in_the_instant_of_the_failure(wait: str):
    """The failure concerns both receives: the first wait is refused, and the second begins before it has been seen."""

    def program() -> Any:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank == 1:
            time.sleep(1)
        if world.rank == 2:
            time.sleep(1e-3)
            world.send("first", 0, 1)
            world.send("second", 0, 2)
        if world.rank:
            return None
        first, second = world.irecv(tag=1), world.irecv(tag=2)
        said = [attempt(MPI.Request.waitany, [first, second])]
        world.Ack_failed()
        said.append(attempt(second.wait) if wait == "wait" else attempt(getattr(MPI.Request, wait), [second]))
        return [*said, attempt(first.wait)]

    result = run(program, 3, fail=["rank=1@5us"], set={"mpi.detector.timeout": "10us"})
    second = {"wait": "second", "waitany": "(0, 'second')", "waitall": "['second']", "waitsome": "([0], ['second'])"}
    there = 1001 * US
    assert result.values[0] == [("pending", 15 * US), (second[wait], there), ("first", there)]


def test_the_data_of_a_matched_message_do_not_come_on_a_revoked_communicator():
    """The sender of a rendezvous has given up by then, and so does who has probed it before."""

    def program() -> Any:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD.Dup()
        long = bytearray(1 << 20)
        if comm.rank == 1:
            return attempt(comm.Send, long, 0)[0]
        if comm.rank == 2:
            time.sleep(1e-3)
            comm.Revoke()
            return None
        message = comm.Mprobe(1)
        time.sleep(2e-3)
        return attempt(message.Recv, long)[0]

    machine = {"network": {"latency": "1us", "eager_threshold": "1KiB"}}
    result = run(program, 3, machine=machine)
    assert (result.ended, result.values) == ("finished", ["revoked", "revoked", None])


def test_a_job_that_only_sleeps_is_not_disturbed_by_the_deaths_of_others():
    result = run(sleep_on, 4, fail=["rank=1@0s", "rank=2@0s"], set={"mpi.detector.type": "heartbeat"})
    assert (result.ended, result.exit_status, result.virtual_time_s) == ("finished", 0, 10)


# ------------------------------------------------------------------------------------------------------ what is kept


def objects_of_a_run() -> int:
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))  # of millions of objects, when other tests came before
    return sum(kinds[kind] for kind in kinds if issubclass(kind, (Kernel, LayeredNetwork, Machine, Deaths)))


@pytest.mark.parametrize("ft", [True, False])
def test_a_dead_rank_does_not_keep_its_whole_run(ft: bool):
    """Its own objects must not be freed, for that would run code of the program; those of the simulator have to."""

    def program() -> None:
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()
        MPI.COMM_WORLD.Barrier()

    before = objects_of_a_run()
    for _ in range(3):
        assert run(program, 4, fail=["rank=1@1us"], ft=ft).aborted
    assert objects_of_a_run() == before
