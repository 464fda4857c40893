"""What a run sets up for failures: a shard's detector, revocation and agreements, and the deaths that are scheduled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.mpi.ftco.driver import Ftco
from xsim_py.mpi.ftco.shapes import Shapes
from xsim_py.process.fiber import MortalFiber
from xsim_py.process.life import kill
from xsim_py.units import PS_PER_S, format_time

from .detector import Detector
from .repair import Repair
from .revocation import Revocation

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.network import Network

__all__ = ["DetectorSettings", "detector_settings", "doom", "ftco_shapes", "install_recovery"]

_TIMES_LATENCY = 10
_HEARTBEAT_TIMEOUT_PS = PS_PER_S  # Open MPI, with a thread for its detector
_HEARTBEAT_PERIOD_PS = 3 * PS_PER_S // 10


class DetectorSettings(NamedTuple):
    """The failure detector of a run; see `detector`."""

    kind: str
    timeout_ps: int
    period_ps: int


def detector_settings(spec: Any, network: Network) -> DetectorSettings:
    """What the description says of the detector, with its defaults, checked against the network.

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


def ftco_shapes(spec: Any, network: Network) -> Shapes:
    """What the description says of FTCO, on this network.

    Raises
    ------
    ConfigError
        The timeout is so short that an answer may still be on its way.
    """
    link = network.longest()
    timeout_ps, least_ps = spec.mpi.ftco.timeout_ps, 2 * link.latency_ps
    if timeout_ps is not None and timeout_ps < least_ps:
        shown, least = format_time(timeout_ps, digits=None), format_time(least_ps, digits=None)
        said = f"{shown} is less than the way to the farthest rank and back, {least}: the living would seem dead"
        raise spec.error("mpi.ftco.timeout", said)
    return Shapes(spec.mpi.ftco, link)


def install_recovery(fabric: Fabric, detector: DetectorSettings, ulfm: Any, shapes: Shapes) -> None:
    """Give a shard its failure detector, the algorithms of revoke, agree and shrink, and FTCO."""
    Detector(fabric, kind=detector.kind, timeout_ps=detector.timeout_ps, period_ps=detector.period_ps)
    Revocation(fabric, ulfm.revoke)
    Repair(fabric, agree=ulfm.agree, shrink=ulfm.shrink)
    Ftco(fabric, shapes)


def doom(fabric: Fabric, failures: Iterable[Any]) -> None:
    """Have ranks of a shard die at the times of `failures` (rank, time, cause), before what else they do then."""
    shard = fabric.shard
    for number, time_ps, cause in failures:
        if fabric.meetings is not None and number < shard.initial:  # of others not all shards are told
            fabric.meetings.deaths[number] = time_ps
        if not shard.local(number):
            continue
        rank = shard.rank(number)
        if time_ps <= shard.kernel.now_ps:
            kill((rank, cause))
            continue
        rank.fiber = MortalFiber(rank, rank.fiber.clock_ps, time_ps)
        shard.kernel.post(time_ps, number, kill, (rank, cause))
