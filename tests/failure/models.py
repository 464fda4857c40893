"""Failure models for tests, on a machine that fits on a line."""

from __future__ import annotations

from typing import Any

from xsim_py.config import MachineSpec, load_machine
from xsim_py.errors import ConfigError
from xsim_py.failure import FailureModel
from xsim_py.units import PS_PER_S


def described(failures: dict[str, Any] | None = None) -> MachineSpec:
    return load_machine({"network": {"latency": "1us"}, "failures": failures})


def model(
    *extra: str, failures: dict[str, Any] | None = None, ranks: int = 8, per_node: int = 1, seed: int = 0, **told: Any
) -> FailureModel:
    node_of = [rank // per_node for rank in range(ranks)]
    return FailureModel(
        described(failures), extra=extra, ranks=ranks, node_of=node_of, cores_per_node=per_node, seed=seed, **told
    )


def times_s(model: FailureModel, start_s: float = 0) -> dict[int, float]:
    """When each rank dies after a start."""
    return {failure.rank: failure.time_ps / PS_PER_S for failure in model.schedule(round(start_s * PS_PER_S)).timed}


def errors(*extra: str, **told: Any) -> list[str]:
    """The lines of the ConfigError, or none."""
    try:
        model(*extra, **told)
    except ConfigError as error:
        return str(error).splitlines()
    return []
