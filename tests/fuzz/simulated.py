"""Programs under xsim, on machines with little in common."""

from typing import Any

from tests.fuzz.steps import Run
from xsim_py import simulate

MACHINES: dict[str, dict[str, Any]] = {
    "all eager": {"network": {"latency": "1us", "bandwidth": "8Gbps", "eager_threshold": "100MiB"}},
    "all rendezvous": {"network": {"latency": "2us", "bandwidth": "1Gbps", "eager_threshold": "0B"}},
    "some of each": {
        "machine": {"cores_per_node": 2, "nodes": 2},
        "network": {"latency": "5us", "bandwidth": "1Gbps", "eager_threshold": "64B", "send_overhead": "300ns"},
        "same_node": {"latency": "1us", "bandwidth": "8Gbps", "eager_threshold": "1KiB"},
    },
    "torus": {
        "topology": {"type": "torus", "dims": [2, 2]},
        "network": {"latency": "500ns", "per_hop": "500ns", "bandwidth": "8Gbps", "eager_threshold": "4KiB"},
    },
}


def walk(steps: list[dict[str, Any]]) -> list[Any]:
    """What each virtual rank does."""
    from mpi4py import MPI

    log: list[Any] = Run(MPI, MPI.COMM_WORLD).walk(steps)
    return log


def simulated(
    ranks: int, steps: list[dict[str, Any]], machine: str, shards: int = 1, **options: Any
) -> list[Any] | str:
    """The logs of all ranks; or the report of a run that did not end well."""
    told = {"ranks": ranks, "machine": MACHINES[machine], "shards": shards, "ft": False, **options}
    result = simulate(walk, args=[steps], **told)
    if (result.ended, result.exit_status, result.warnings) != ("finished", 0, []):
        return f"{result.ended}: {result.report}\n{result.warnings}"
    logs: list[Any] = result.values
    return logs
