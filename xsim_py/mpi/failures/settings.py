"""Settings of the failure detector, from the description of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.units import PS_PER_S, format_time

if TYPE_CHECKING:
    from xsim_py.network import Network

__all__ = ["DetectorSettings", "detector_settings"]

_TIMES_LATENCY = 10
_HEARTBEAT_TIMEOUT_PS = PS_PER_S  # Open MPI, with a thread for its detector
_HEARTBEAT_PERIOD_PS = 3 * PS_PER_S // 10


class DetectorSettings(NamedTuple):
    """The failure detector of a run; see `timeout` and `heartbeat`."""

    kind: str
    timeout_ps: int
    period_ps: int


def detector_settings(spec: Any, network: Network) -> DetectorSettings:
    """Return what the description says of the detector, with its defaults, checked against the network.

    The default timeout is ten times the longest latency of the machine, or Open MPI's one second for ``heartbeat``,
    whose default period is 0.3 s.

    Raises
    ------
    ConfigError
        The timeout is so short that a message may still be on its way, or the next sign of life.
    """
    wanted = spec.mpi.detector
    latency_ps = network.longest().latency_ps
    if wanted.type == "heartbeat":
        period_ps = _HEARTBEAT_PERIOD_PS if wanted.period_ps is None else wanted.period_ps
        timeout_ps = _HEARTBEAT_TIMEOUT_PS if wanted.timeout_ps is None else wanted.timeout_ps
        least_ps, why = period_ps + latency_ps, "the period and the network's longest latency together"
    else:
        period_ps = 0
        timeout_ps = _TIMES_LATENCY * latency_ps if wanted.timeout_ps is None else wanted.timeout_ps
        least_ps, why = latency_ps, "the network's longest latency"
    if timeout_ps < least_ps:
        shown, least = format_time(timeout_ps, digits=None), format_time(least_ps, digits=None)
        raise spec.error("mpi.detector.timeout", f"{shown} is less than {why}, {least}: the living would seem dead")
    return DetectorSettings(wanted.type, timeout_ps, period_ps)
