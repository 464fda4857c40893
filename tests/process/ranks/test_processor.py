"""The simulated processor: the roofline of declared work, and noise."""

from __future__ import annotations

import subprocess
import sys
from math import exp, log
from typing import Any

import numpy as np
import pytest

from xsim_py import simulate, work

MACHINE = {"network": {"latency": "1us"}}


def loop(steps: int) -> float:
    """Work a millisecond and wait for all, so many times; return the seconds it took."""
    from mpi4py import MPI

    for _ in range(steps):
        MPI.Pcontrol(1_000_000)
        MPI.COMM_WORLD.Barrier()
    return MPI.Wtime()


def declared(*amounts: tuple[float, float]) -> float:
    from mpi4py import MPI

    import xsim_py

    for flops, size_bytes in amounts:
        xsim_py.work(flops=flops, bytes=size_bytes)
    return MPI.Wtime()


@pytest.mark.parametrize(
    ("amounts", "seconds"),
    [([(1e9, 1e9)], 0.1), ([(1e9, 4e9)], 0.2), ([(1e9, 2e9)], 0.1), ([(0, 0)], 0.0), ([(1, 0), (0, 1)], 1.5e-10)],
)
def test_the_longer_of_operations_and_bytes_is_charged(amounts: list[tuple[float, float]], seconds: float) -> None:
    machine = {**MACHINE, "compute": {"flops": 10e9, "bandwidth": "20GB/s"}}
    result = simulate(declared, ranks=2, machine=machine, args=amounts)
    assert result.values == [pytest.approx(seconds, rel=1e-12)] * 2
    assert not result.warnings


@pytest.mark.parametrize(
    "faster",
    [{"speed": 2}, {"speeds": [{"nodes": 0, "speed": 2}]}, {"speed": 4, "speeds": [{"nodes": 0, "speed": 0.5}]}],
)
def test_a_speed_is_that_of_all_computing(faster: dict[str, Any]) -> None:
    """Of declared operations as of declared time, and whether one rank has it or all."""
    compute = {"flops": 10e9, "bandwidth": "20GB/s", **faster}
    assert simulate(declared, ranks=1, machine={**MACHINE, "compute": compute}, args=[(1e9, 4e9)]).values == [0.1]
    assert simulate(loop, ranks=1, machine={**MACHINE, "compute": compute}, args=[1]).values == [0.0005]


def test_a_machine_without_a_roofline_says_that_work_took_no_time() -> None:
    result = simulate(declared, ranks=2, machine={**MACHINE, "compute": {"flops": 1e9}}, args=[(1e9, 1e9)] * 2)
    assert result.values == [2.0] * 2
    said = "xsim_py.work: the machine has no compute.bandwidth, so that part took no time"
    assert result.warnings == [said]


def test_work_does_nothing_outside_of_a_simulation_and_loads_no_simulator() -> None:
    work(flops=1e30)
    program = "import sys; from xsim_py import work; work(flops=1e9); print(len(sys.modules), 'simpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    modules, simpy = done.stdout.split()
    assert int(modules) < 150
    assert simpy == "False"


@pytest.mark.parametrize("wrong", [(-1, 0), (0, float("nan")), (float("inf"), 0)])
def test_wrong_amounts_are_refused(wrong: tuple[float, float]) -> None:
    result = simulate(declared, ranks=1, machine=MACHINE, args=[wrong], stderr=open("/dev/null", "w"))  # noqa: SIM115
    assert result.exit_status == 1


def noisy(ranks: int, steps: int, **options: Any) -> Any:
    noise = options.pop("noise")
    return simulate(loop, ranks=ranks, machine={**MACHINE, "compute": {"noise": noise}}, args=[steps], **options)


STEPS, RANKS = 400, 16


def test_a_loop_of_barriers_takes_the_mean_of_the_maximum() -> None:
    """Of n exponential draws with a mean m that is m H(n), the harmonic number; with a variance of m^2 sum 1/k^2."""
    free = noisy(RANKS, STEPS, noise=None).virtual_time_s
    took = noisy(RANKS, STEPS, noise={"work": 0.1, "law": "exponential"}).virtual_time_s
    mean = 1e-3 * 0.1 / log(2)
    expected = mean * sum(1 / k for k in range(1, RANKS + 1))
    error = mean * (sum(1 / k**2 for k in range(1, RANKS + 1)) / STEPS) ** 0.5
    assert abs((took - free) / STEPS - expected) < 4 * error


def test_the_same_for_the_lognormal_law_by_its_integral() -> None:
    """The mean of the maximum is the integral of 1 - F(x)^n, by quantiles of n uniform draws' largest."""
    from statistics import NormalDist

    free = noisy(RANKS, STEPS, noise=None).virtual_time_s
    took = noisy(RANKS, STEPS, noise={"work": 0.1, "sigma": 0.4}).virtual_time_s
    quantiles = ((np.arange(20_000) + 0.5) / 20_000) ** (1 / RANKS)
    largest = np.array([1e-4 * exp(0.4 * NormalDist().inv_cdf(each)) for each in quantiles])
    assert abs((took - free) / STEPS - largest.mean()) < 4 * largest.std() / STEPS**0.5


def test_noise_is_the_same_for_any_number_of_shards_and_another_for_another_seed() -> None:
    noise = {"work": 0.1, "ranks": 0.05, "nodes": 0.2}
    runs = [noisy(6, 5, noise=noise, **how) for how in ({}, {"shards": 3}, {"isolation": "process"}, {"seed": 1})]
    digests = [each.digest for each in runs]
    assert digests[0] == digests[1] == digests[2] != digests[3]


def test_a_node_is_slow_for_all_of_its_ranks_and_a_rank_for_itself() -> None:
    def alone(noise: dict[str, float]) -> list[float]:
        machine = {**MACHINE, "machine": {"cores_per_node": 2}, "compute": {"noise": noise}}
        return simulate(own, ranks=4, machine=machine).values

    of_nodes, of_ranks = alone({"nodes": 0.1}), alone({"ranks": 0.1})
    assert of_nodes[0] == of_nodes[1] != of_nodes[2] == of_nodes[3]
    assert len(set(of_ranks)) == 4
    assert min(of_nodes + of_ranks) > 3e-3


def own() -> float:
    from mpi4py import MPI

    for _ in range(3):
        MPI.Pcontrol(1_000_000)
    return MPI.Wtime()


def parent_of_two() -> None:
    from mpi4py import MPI

    children = MPI.COMM_SELF.Spawn(sys.executable, ["-c", CHILD], 2)
    MPI.Pcontrol(1_000_000)
    children.Barrier()


CHILD = "from mpi4py import MPI; MPI.Pcontrol(1_000_000); MPI.Comm.Get_parent().Barrier()"


@pytest.mark.parametrize("section", ["network", "compute"])
def test_there_is_noise_for_ranks_that_are_started_later(section: str) -> None:
    noise = {"network": {"latency": 0.1}, "compute": {"work": 0.1, "nodes": 0.1}}[section]
    machine = {**MACHINE, "spawn": {"universe": 4}}
    runs = [
        simulate(parent_of_two, ranks=1, machine=machine, set=changes) for changes in ({}, {f"{section}.noise": noise})
    ]
    assert [each.ended for each in runs] == ["finished"] * 2
    assert runs[0].virtual_time_s < runs[1].virtual_time_s
