"""Who looks in vain for long looks less often: by a part of the time waited, the same for every number of shards."""

import pytest

from xsim_py import simulate

WAITS_S = (1.0, 1e-5)
WAYS = ("Test", "Testall", "Testany", "Testsome", "Get_status", "Iprobe", "Improbe", "two")


def wait_in_every_way(ways: tuple[str, ...], waits_s: tuple[float, ...]) -> list[tuple[int, float]]:
    """For each wait, in each way: how many looks there were in vain, and how long they took."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    found = []
    for way in ways:
        for wait_s in waits_s:
            if comm.rank == 1:
                comm.Recv(bytearray(1), source=0)
                time.sleep(wait_s)
                comm.Send(bytearray(1), dest=0, tag=1)
                continue
            probes = "probe" in way
            request = MPI.REQUEST_NULL if probes else comm.Irecv(bytearray(1), 1, 1)
            never = comm.Irecv(bytearray(1), 1, 2)
            ask = {
                "Testall": lambda: MPI.Request.Testall([request]),  # noqa: B023
                "Testany": lambda: MPI.Request.Testany([never, request])[1],  # noqa: B023
                "Testsome": lambda: MPI.Request.Testsome([never, request]),  # noqa: B023
                "Iprobe": lambda: comm.Iprobe(1, 1),
                "Improbe": lambda: comm.Improbe(1, 1),
                "two": lambda: MPI.REQUEST_NULL.Test() and (never.Test() or request.Test()),  # noqa: B023
            }.get(way) or getattr(request, way)
            comm.Send(bytearray(1), dest=1)
            looks, since_s = 0, MPI.Wtime()
            while not (there := ask()):
                looks += 1
            found.append((looks, MPI.Wtime() - since_s))
            never.Cancel()
            never.Wait()
            if probes:
                there.Recv(bytearray(1)) if way == "Improbe" else comm.Recv(bytearray(1), 1, 1)
            request.Wait()
    return found


def test_a_long_wait_takes_few_looks_and_ends_little_later() -> None:
    runs = [
        simulate(wait_in_every_way, ranks=2, machine="logp", args=[WAYS, WAITS_S], shards=shards) for shards in (1, 2)
    ]
    assert runs[0].digest == runs[1].digest
    waits = iter(runs[0].values[0])
    for way in WAYS:
        for wait_s in WAITS_S:
            looks, took_s = next(waits)
            assert looks < 2000
            assert wait_s < took_s < wait_s * (1 + 1 / 64) + 1e-5 + 3e-7, way


@pytest.mark.parametrize("call", ["Iprobe", "Test", "Testany"])
def test_who_asks_many_in_turn_is_as_little_late_as_who_asks_one(call: str) -> None:
    def program(call: str) -> float:
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 1:
            time.sleep(0.1)
            comm.send(None, 0)
        if comm.rank:
            return 0.0
        requests = [comm.irecv(source=source) for source in range(1, comm.size)] if call != "Iprobe" else []
        ask = {
            "Iprobe": lambda source: comm.Iprobe(source),
            "Test": lambda source: requests[source - 1].Test(),
            "Testany": lambda source: MPI.Request.Testany(requests[source - 1 :])[1],
        }[call]
        while not sum(bool(ask(source)) for source in range(1, comm.size)):
            pass
        end_s = MPI.Wtime()
        for request in filter(None, requests):
            request.Cancel()
        return end_s

    end_s = simulate(program, ranks=65, machine="logp", args=[call]).values[0]
    assert 0.1 < end_s < 0.1 * (1 + 1 / 64) + 64 * 2e-7 + 1e-5


def test_a_rank_that_seldom_looks_in_vain_pays_the_same_for_each_look() -> None:
    def program() -> float:
        from mpi4py import MPI

        for _ in range(1000):
            MPI.COMM_WORLD.Iprobe()
        return MPI.Wtime()

    assert simulate(program, ranks=1).values == [pytest.approx(1e-4)]


def test_what_a_rank_does_between_two_looks_begins_another_wait() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for _ in range(2000):
            comm.Send(bytearray(1), dest=0)
            comm.Iprobe(tag=1)
        return MPI.Wtime()

    assert simulate(program, ranks=1).values[0] < 2000 * 2e-7


@pytest.mark.parametrize("what", ["Is_revoked", "Get_failed"])
def test_a_loop_that_waits_to_hear_of_a_failure_ends(what: str) -> None:
    def program(what: str) -> float:
        import os
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            time.sleep(1)
            os._exit(1) if what == "Get_failed" else comm.Revoke()
        if comm.rank == 2 and what == "Get_failed":
            return 0.0
        while not (comm.Is_revoked() if what == "Is_revoked" else comm.Get_failed().size):
            pass
        return MPI.Wtime()

    result = simulate(program, ranks=3, args=[what], ft=True, wall_limit=20, set={"mpi.detector.type": "heartbeat"})
    assert 1 < result.values[1] < 2
