"""Assembly of the MPI library of a shard: the only module that knows all of its parts.

Each part is passed the parts that it needs, and none registers itself. The transport forwards control messages and
events to their part (`Fabric.add`), and consults the guard after a failure or revocation. Calls of a program find a
part by its class (`Fabric.part`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from .batched.instances import ARRAYS, CollectiveInstances
from .calls import SurvivingAlgorithms
from .dynamic.launcher import Launcher, Startup
from .dynamic.ports import Switchboard
from .failures.deaths import Deaths, Reports
from .failures.guard import FailureGuard
from .failures.repair import Repair
from .failures.revocation import Revocation
from .failures.settings import DETECTORS
from .ftco.driver import Ftco
from .ftco.operations import ALGORITHMS
from .transport.fabric import Carrier, Fabric
from .transport.tracing import TracingFabric

if TYPE_CHECKING:
    from xsim_py.failure import FailureModel
    from xsim_py.network.noise import NoiseModel
    from xsim_py.process.ranks.shard import Shard
    from xsim_py.schedules import MatchSchedule

    from .failures.detector import Detector, DetectorSettings
    from .ftco.shapes import Shapes
    from .settings import Settings
    from .transport.observed import Observer
    from .transport.shared_links import SharedLinks


def make_library(
    shard: Shard,
    network: Any,
    settings: Settings,
    *,
    traced: bool,
    observer: Observer | None,  # of messages in a checked run
    batches: str | None,  # the mode of vectorised collectives, as for `CollectiveInstances`; None: there are none
    detection: DetectorSettings,
    ulfm: Any,  # a `UlfmSpec`: the algorithms of revoke, agree and shrink
    shapes: Shapes,  # the trees and timeouts of FTCO
    startup: Startup,
    start: str,  # the directory in which processes start
    failures: FailureModel | None,
    guard: Callable[[Deaths, Detector], FailureGuard] = FailureGuard,
    schedule: MatchSchedule | None = None,  # of nondeterministic choices
    noise: NoiseModel | None = None,  # the network jitter
) -> Fabric:
    """Make the MPI library of the ranks of a shard."""
    account = network.contention()
    links = None if account is None else _shared(settings.machine, network, account)
    fabric = _fabric_class(traced, schedule)(shard, network, links, settings)
    for carrier in _carriers(network, noise, failures):
        fabric.use(carrier)
    fabric.connect()
    if observer is not None:
        from .transport.observed import add_observer

        add_observer(observer)
    deaths = Deaths(fabric)
    if batches is not None:
        fabric.instances = CollectiveInstances(fabric, always=batches == ARRAYS)
    detector = fabric.add(DETECTORS[detection.kind](deaths, detection))
    reports = fabric.add(Reports(deaths, detector))
    shard.on_failure = reports.died
    shard.on_fatal_end = fabric.withdraw
    fabric.bounce = reports.bounce
    fabric.on_silence = reports.suspects
    fabric.guard = guard(deaths, detector)
    fabric.parts.update({Deaths: deaths, SurvivingAlgorithms: SurvivingAlgorithms(ALGORITHMS)})
    fabric.add(Revocation(fabric, ulfm.revoke))
    fabric.add(Repair(deaths, detector, agree=ulfm.agree, shrink=ulfm.shrink))
    fabric.add(Ftco(deaths, shapes))
    launcher = fabric.add(Launcher(fabric, network, startup, start, failures))
    reports.tell_launcher = launcher.failed
    switchboard = Switchboard(launcher)
    launcher.services.update(switchboard.services())
    launcher.forget = switchboard.forget
    return fabric


def _shared(machine: object, network: object, account: Any) -> SharedLinks:
    """Return the links that messages share, for this kind of contention."""
    if account.fifo:
        from .transport.shared_links import SharedLinks

        return SharedLinks(machine, network, account)
    from .transport.shared_flows import SharedFlows

    return SharedFlows(machine, network, account)


def _fabric_class(traced: bool, schedule: MatchSchedule | None) -> Callable[..., Fabric]:
    """Return the class of the fabric of a run, with its choices if it follows some."""
    if schedule is None:
        return TracingFabric if traced else Fabric
    from .transport.choosing import ChoosingFabric, TracedChoosingFabric

    return partial(TracedChoosingFabric if traced else ChoosingFabric, schedule=schedule)


def _carriers(network: Any, noise: NoiseModel | None, failures: FailureModel | None) -> Iterator[Carrier]:
    """Yield the carriers of a run, in the order in which messages pass them; most runs have none."""
    for name, faults in failures.faults.items() if failures is not None else ():
        if faults:
            from pkgutil import resolve_name  # most runs have no faults

            yield resolve_name(faults[0].carrier)(name)
    if noise is not None:
        from .transport.noisy import Jitter

        yield Jitter(noise)
    if not network.in_order:
        from .transport.ordered import SendOrder

        yield SendOrder()
