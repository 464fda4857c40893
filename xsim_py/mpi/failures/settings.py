"""Settings of the failure detector, from the description of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.units import format_time

from .detector import Detector, DetectorSettings
from .heartbeat import HeartbeatDetector
from .timeout import TimeoutDetector

if TYPE_CHECKING:
    from xsim_py.config import MachineSpec
    from xsim_py.network import Network

DETECTORS: dict[str, type[Detector]] = {"timeout": TimeoutDetector, "heartbeat": HeartbeatDetector}
"""The detectors by their names in descriptions."""

NO_DETECTION = DetectorSettings("timeout", 0, 0)
"""Settings for a run that no failure survives: its detector is never used."""


def detector_settings(spec: MachineSpec, network: Network) -> DetectorSettings:
    """Return the detector settings of a description, with defaults, checked against the network.

    Raises a `ConfigError` if the timeout is so short that a message, or the next heartbeat, may still be in flight.
    """
    section = spec.mpi.detector
    settings, least_ps, why = DETECTORS[section.type].settings(section, network.longest().latency_ps)
    if settings.timeout_ps < least_ps:
        shown, least = format_time(settings.timeout_ps, digits=None), format_time(least_ps, digits=None)
        raise spec.error(
            "mpi.detector.timeout",
            f"{shown} is out of range: below {why} ({least}), surviving ranks would be suspected",
        )
    return settings
