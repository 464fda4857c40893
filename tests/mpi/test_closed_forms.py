"""Times of messages, against the formulas of the models with the figures of the papers, to the picosecond."""

from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from xsim_py import simulate

SIZES = [0, 1, 7, 8, 1024, 65536, 131071, 131072, 131073, 1 << 20, 4 << 20]
US = 10**6
KIB = 1024


class Figures(NamedTuple):
    overhead: int
    latency: int
    per_byte: Fraction
    threshold: int | None


def gigabits(rate: str) -> Fraction:
    return Fraction(8000) / Fraction(rate)


NEAR = Figures(0, 800_800, gigabits("10.62592"), 128 * KIB)
FIGURES = {
    ("gige", "across"): Figures(0, 20 * US, gigabits("1"), 128 * KIB),
    ("gige", "same node"): NEAR,
    ("torus3d", "across"): Figures(0, 7 * US, gigabits("8.8"), 128 * KIB),
    ("torus3d", "same node"): NEAR,
    ("shmem", "same node"): Figures(0, 6 * US, gigabits("3.2"), 128 * KIB),
    ("logp", "across"): Figures(130_000, 1_530_000, Fraction(0), None),
}


def rounded(value: Fraction) -> int:
    return int(value + Fraction(1, 2))


def one_way_ps(figures: Figures, size: int) -> int:
    """The receiver's end: o + L + bytes + o, and two latencies more for the handshake of a large message."""
    latencies = 3 if figures.threshold is not None and size > figures.threshold else 1
    return 2 * figures.overhead + latencies * figures.latency + rounded(figures.per_byte * size)


def send_one(size: int) -> float | None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        comm.Send(np.zeros(size, np.uint8), comm.size - 1)
    elif comm.rank == comm.size - 1:
        comm.Recv(np.zeros(size, np.uint8), 0)
        return MPI.Wtime()
    return None


def arrival_ps(machine: str, size: int, *, ranks: int = 2, overrides: dict[str, str] | None = None) -> int:
    result = simulate(send_one, ranks=ranks, machine=machine, args=[size], set=overrides)
    assert result.ended == "finished"
    return round(result.values[-1] * 10**12)


@pytest.mark.parametrize(("preset", "where"), FIGURES)
@pytest.mark.parametrize("size", SIZES)
def test_a_message_takes_what_the_model_says(preset: str, where: str, size: int) -> None:
    overrides = {"machine.cores_per_node": "2"} if where == "same node" and preset != "shmem" else None
    assert arrival_ps(preset, size, overrides=overrides) == one_way_ps(FIGURES[preset, where], size)


def send_to_all(size: int) -> float | None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    buffer = np.zeros(size, np.uint8)
    if comm.rank:
        comm.Recv(buffer, 0)
        return MPI.Wtime()
    for rank in range(1, comm.size):
        comm.Send(buffer, rank)
    return None


@pytest.mark.parametrize("size", [0, 8, 131073])
def test_every_distance_of_a_torus_costs_its_hops(size: int) -> None:
    overrides = {"topology.dims": "[8, 8, 8]", "network.latency": "1us", "network.per_hop": "100ns"}
    result = simulate(send_to_all, ranks=512, machine="torus3d", args=[size], set=overrides)
    wire = rounded(gigabits("8.8") * size)
    start = 0
    seen = set()
    for rank, (z, y, x) in enumerate(product(range(8), repeat=3)):
        if rank == 0:
            continue
        hops = sum(min(c, 8 - c) for c in (x, y, z))
        latency = 1 * US + hops * 100_000
        handshake = 2 * latency if size > 128 * KIB else 0
        # The sender's interface is busy with the earlier messages; a rendezvous also waits for its handshake.
        assert round(result.values[rank] * 10**12) == start + handshake + wire + latency, (x, y, z)
        start += handshake + wire
        seen.add(hops)
    assert seen == set(range(1, 13))


def test_a_late_receive_delays_the_handshake_only() -> None:
    def program() -> float:
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            comm.Send(np.zeros(1 << 20, np.uint8), 1)
        else:
            time.sleep(1e-3)
            comm.Recv(np.zeros(1 << 20, np.uint8), 0)
        return MPI.Wtime()

    result = simulate(program, ranks=2, machine="gige")
    wire = 8000 * (1 << 20)
    assert [round(value * 10**12) for value in result.values] == [
        1000 * US + 20 * US + wire,
        1000 * US + 2 * 20 * US + wire,
    ]


def test_a_synchronous_send_ends_when_the_match_is_known() -> None:
    def program() -> float:
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            comm.Ssend(np.zeros(100, np.uint8), 1)
        else:
            time.sleep(5e-3)
            comm.Recv(np.zeros(100, np.uint8), 0)
        return MPI.Wtime()

    values = simulate(program, ranks=2, machine="gige").values
    assert [round(value * 10**12) for value in values] == [5000 * US + 20 * US, 5000 * US]


def test_an_interface_sends_one_message_after_the_other() -> None:
    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            for _ in range(10):
                comm.Send(np.zeros(1000, np.uint8), 1)
        else:
            for _ in range(10):
                comm.Recv(np.zeros(1000, np.uint8), 0)
        return MPI.Wtime()

    values = simulate(program, ranks=2, machine="gige").values
    assert [round(value * 10**12) for value in values] == [0, 20 * US + 10 * 8 * US]


def test_the_gap_delays_the_next_message_and_not_its_own() -> None:
    def program() -> list[float]:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        times = []
        for _ in range(3):
            if comm.rank == 0:
                comm.Send(b"x", 1)
            else:
                comm.Recv(bytearray(1), 0)
            times.append(MPI.Wtime())
        return times

    result = simulate(program, ranks=2, machine="loggops", set={"network.gap": "10us"})
    nanoseconds = [[round(time * 10**9) for time in times] for times in result.values]
    # o = 1500, L = 2500: sends return after o each; injections begin 10,000 apart.
    assert nanoseconds == [[1500, 3000, 4500], [5500, 15500, 25500]]


def test_binomial_tree_reduce_of_loggopsim() -> None:
    """The finish times that LogGOPSim's README gives for its binomialtreereduce example."""

    def program() -> float:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        data = np.ones(128)
        mask = 1
        while mask < comm.size:
            if comm.rank & mask:
                comm.Send(data, comm.rank - mask)
                break
            if comm.rank + mask < comm.size:
                comm.Recv(data, comm.rank + mask)
            mask <<= 1
        return MPI.Wtime()

    values = simulate(program, ranks=8, machine="loggops").values
    assert sorted((round(value * 10**9) for value in values), reverse=True) == [
        34914, 24776, 13138, 13138, 1500, 1500, 1500, 1500,
    ]  # fmt: skip
