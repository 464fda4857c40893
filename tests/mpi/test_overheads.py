"""Where the processor's part in a message costs time: LogP's closed forms, and what overlaps with what."""

from typing import Any

import numpy as np
import pytest

from xsim_py import simulate

O, L = 130_000, 1_530_000  # noqa: E741 - LogP calls it so; the preset `logp`, in picoseconds
US = 10**6
SIZES = [1, 2, 3, 5, 8, 13, 32, 33]


def ends_ps(program: Any, *args: Any, ranks: int, **options: Any) -> list[int]:
    result = simulate(program, ranks=ranks, args=args, **{"machine": "logp", **options})
    assert (result.ended, result.exit_status, result.warnings) == ("finished", 0, []), result.report
    return [round(value * 10**12) for value in result.values]


def bcast() -> float:
    from mpi4py import MPI

    MPI.COMM_WORLD.Bcast(np.zeros(3))
    return MPI.Wtime()


@pytest.mark.parametrize("p", SIZES)
def test_a_flat_broadcast_is_serial_at_the_root(p: int) -> None:
    ends = ends_ps(bcast, ranks=p, set={"mpi.collectives.bcast": "linear"})
    assert ends == [(p - 1) * O, *(v * O + L + O for v in range(1, p))]


@pytest.mark.parametrize("p", SIZES)
def test_a_binomial_broadcast_obeys_logp(p: int) -> None:
    """A message takes o + L + o; a rank serves its children, who differ in a higher bit, from the lowest bit up.

    So the bits of v tell the sends that its message and those of its ancestors had to wait for: all up to its highest.
    """
    ends = ends_ps(bcast, ranks=p, set={"mpi.collectives.bcast": "binomial"})
    for v in range(p):
        reached = v.bit_length() * O + v.bit_count() * (L + O)
        children = sum(v + 2**bit < p for bit in range(v.bit_length(), p.bit_length()))
        assert ends[v] == reached + children * O


@pytest.mark.parametrize("p", SIZES)
def test_messages_that_come_at_once_are_taken_one_after_the_other(p: int) -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            comm.Send(np.zeros(1), 0)
        else:
            MPI.Request.Waitall([comm.Irecv(np.zeros(1), source) for source in range(1, comm.size)])
        return MPI.Wtime()

    assert ends_ps(program, ranks=p) == [O + L + (p - 1) * O if p > 1 else 0, *[O] * (p - 1)]


def test_a_busy_processor_takes_messages_when_it_is_free() -> None:
    """Three arrive while it sleeps, one after that, and one is on its way while another is taken."""

    def program() -> float:
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            time.sleep([0, 0, 1e-6, 2e-6, 8e-6, 8.1e-6][comm.rank])
            comm.Send(np.zeros(1), 0)
        else:
            requests = [comm.Irecv(np.zeros(1), source) for source in range(1, comm.size)]
            time.sleep(6e-6)
            MPI.Request.Waitall(requests)
        return MPI.Wtime()

    last = 8 * US + O + L  # the fourth; the three before have been taken by 6 us + 3 o
    assert ends_ps(program, ranks=6)[0] == max(last + O, last + US // 10) + O


def test_sends_take_the_processor_and_not_the_wire() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for _ in range(5):
            if comm.rank == 0:
                comm.Send(np.zeros(1), 1)
            else:
                comm.Recv(np.zeros(1), 0)
        return MPI.Wtime()

    assert ends_ps(program, ranks=2) == [5 * O, 5 * O + L + O]
    # A receiver that is slower than its sender is always busy.
    slow = ends_ps(program, ranks=2, set={"network.recv_overhead": "1us"})
    assert slow == [5 * O, O + L + 5 * US]


def test_waiting_for_any_takes_them_as_they_come() -> None:
    def program() -> tuple[list[int], float]:
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        order: list[int] = []
        if comm.rank:
            time.sleep(1e-6 * (comm.size - comm.rank))
            comm.Send(np.zeros(1), 0)
        else:
            requests = [comm.Irecv(np.zeros(1), source) for source in range(1, comm.size)]
            order = [1 + MPI.Request.Waitany(requests) for _ in requests]
        return order, MPI.Wtime()

    order, end_s = simulate(program, ranks=6, machine="logp").values[0]
    assert order == [5, 4, 3, 2, 1]
    assert round(end_s * 10**12) == 5 * US + O + L + O


@pytest.mark.parametrize("kind", ["recv", "irecv", "probe", "mprobe"])
def test_a_wildcard_takes_the_earliest_arrival(kind: str) -> None:
    """Messages wait already, or come later; the lower rank is first where two come at once."""

    def program(kind: str) -> list[int]:
        import time

        from mpi4py import MPI

        comm, status, order = MPI.COMM_WORLD, MPI.Status(), []
        if comm.rank:
            time.sleep([0, 3e-6, 1e-6, 9e-6, 2e-6, 1e-6, 8e-6][comm.rank])
            comm.send(comm.rank, 0, tag=comm.rank)
            return []
        time.sleep(5e-6)
        for _ in range(1, comm.size):
            if kind == "recv":
                order.append(comm.recv())
            elif kind == "irecv":
                order.append(comm.irecv().wait())
            elif kind == "probe":
                comm.probe(status=status)
                order.append(comm.recv(source=status.source, tag=status.tag))
            else:
                order.append(comm.mprobe().recv())
        return order

    for shards in (1, 2, 3):
        values = simulate(program, ranks=7, machine="logp", args=[kind], shards=shards).values
        assert values[0] == [2, 5, 4, 1, 6, 3]


@pytest.mark.parametrize("call", ["Test", "Iprobe", "Testall", "Testany", "Testsome", "Improbe"])
def test_a_loop_that_looks_costs_its_looks_and_ends(call: str) -> None:
    def program(call: str) -> tuple[int, float]:
        import time

        from mpi4py import MPI

        comm, looks = MPI.COMM_WORLD, 0
        if comm.rank:
            time.sleep(5e-5)
            comm.Send(np.zeros(1), 0)
            return 0, 0.0
        buffer = np.zeros(1)
        request = MPI.REQUEST_NULL if "probe" in call else comm.Irecv(buffer, 1)

        def found() -> bool:
            if call == "Testsome":
                return bool(MPI.Request.Testsome([request]))
            if call in ("Testall", "Testany"):
                answer = getattr(MPI.Request, call)([request])
                return answer if call == "Testall" else answer[1]
            answer = request.Test() if call == "Test" else getattr(comm, call)(1)
            return answer is not None and answer is not False

        while not found():
            looks += 1
        return looks, MPI.Wtime()

    (looks, end_s), _ = simulate(program, ranks=2, machine="logp", args=[call], wall_limit=300).values
    poll, arrival = 100_000, 50 * US + O + L
    assert looks == -(-arrival // poll)
    taken = 0 if "probe" in call else O
    assert round(end_s * 10**12) == looks * poll + taken


def test_collectives_in_the_background_overlap_with_work() -> None:
    def program(work_s: float, blocking: bool) -> float:
        import time

        from mpi4py import MPI

        comm, total = MPI.COMM_WORLD, np.zeros(1)
        if blocking:
            comm.Allreduce(np.ones(1), total)
            time.sleep(work_s)
        else:
            request = comm.Iallreduce(np.ones(1), total)
            time.sleep(work_s)
            request.Wait()
        assert total[0] == comm.size
        return MPI.Wtime()

    chosen = {"mpi.collectives.allreduce": "recursive_doubling"}
    steps = 4 * (O + L + O)
    assert ends_ps(program, 0.0, False, ranks=16, set=chosen) == [steps] * 16
    assert ends_ps(program, 50e-6, False, ranks=16, set=chosen) == [50 * US] * 16
    assert ends_ps(program, 50e-6, True, ranks=16, set=chosen) == [steps + 50 * US] * 16


def test_overhead_of_each_byte_is_the_processors() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for size in (1000, 10):
            if comm.rank == 0:
                comm.Send(np.zeros(size, "u1"), 1)
            else:
                comm.Recv(np.zeros(size, "u1"), 0)
        return MPI.Wtime()

    overrides = {"network.send_overhead_per_byte": "1ns/B", "network.recv_overhead_per_byte": "2ns/B"}
    first = O + 1_000_000
    assert ends_ps(program, ranks=2, set=overrides) == [
        first + O + 10_000,
        max(first + L + O + 2_000_000, first + O + 10_000 + L) + O + 20_000,
    ]


SLOW = {"network": {"latency": "1us", "send_overhead": "1us", "bandwidth": "8Gbps", "eager_threshold": "1000B"}}


def test_a_rendezvous_has_the_interface_while_the_processor_begins_other_sends() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            request = comm.Isend(np.zeros(5000, "u1"), 1)
            for _ in range(20):
                comm.Send(np.zeros(1, "u1"), 2)
            request.Wait()
        elif comm.rank == 1:
            comm.Recv(np.zeros(5000, "u1"), 0)
        else:
            for _ in range(20):
                comm.Recv(np.zeros(1, "u1"), 0)
        return MPI.Wtime()

    # The first two leave before the answer to the first message is back, at 3 us; the 20th is begun at 21 us.
    answered, byte = 3 * US, 1000
    last = 21 * US + byte
    assert ends_ps(program, ranks=3, machine=SLOW) == [21 * US, answered + byte + 6 * US, last + US]


def test_a_collective_in_the_background_has_the_interface_while_the_processor_begins_sends() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm, total = MPI.COMM_WORLD, np.zeros(1)
        request = comm.Iallreduce(np.ones(1), total)
        if comm.rank == 0:
            for _ in range(20):
                comm.Send(np.zeros(1, "u1"), 2)
        request.Wait()
        end_s = MPI.Wtime()
        if comm.rank == 2:
            for _ in range(20):
                comm.Recv(np.zeros(1, "u1"), 0)
        return end_s

    overrides = {"mpi.collectives.allreduce": "recursive_doubling", "network.bandwidth": "unlimited"}
    assert ends_ps(program, ranks=4, machine=SLOW, set=overrides) == [20 * US, *[4 * US] * 3]


def test_a_receive_whose_message_is_here_cannot_be_cancelled() -> None:
    """The message of rank 1 is here after 2 us, the one of rank 2 later than the call to cancel, at 10 us."""

    def program() -> list[bool]:
        import time

        from mpi4py import MPI

        comm, status = MPI.COMM_WORLD, MPI.Status()
        if comm.rank:
            time.sleep(comm.rank // 2 * 1e-5)
            comm.Send(np.zeros(1), 0)
            return []
        requests = [comm.Irecv(np.zeros(1), source) for source in (1, 2)]
        for _ in range(10):
            comm.Send(b"", 0)
        cancelled = []
        for request in requests:
            request.Cancel()
            request.Wait(status)
            cancelled.append(status.Is_cancelled())
        for source in (0,) * 10 + (2,):
            comm.Recv(bytearray(8), source)
        return cancelled

    for shards in (1, 3):
        result = simulate(program, ranks=3, machine=SLOW, shards=shards)
        assert (result.values[0], result.warnings) == ([False, True], [])
