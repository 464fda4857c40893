"""The detector ``heartbeat``: every rank observes its predecessor in a ring.

As in Open MPI (Bosilca et al., SC'16) a rank detects that no heartbeat of its predecessor has arrived within the
timeout, and notifies all ranks by a reliable broadcast that costs messages. The heartbeats themselves are assumed to be
free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.mpi.transport.mailbox import ClosedMailbox
from xsim_py.mpi.transport.protocols import ControlHandler
from xsim_py.units import PS_PER_S

from .broadcast import neighbours, next_survivor
from .detector import Detector, DetectorSettings
from .knowledge import knowledge_of

if TYPE_CHECKING:
    from xsim_py.config import DetectorSpec
    from xsim_py.mpi.transport.message import Message
    from xsim_py.process.ranks.rank import Rank

    from .deaths import Death

_FAILURE = 1
"""The tag of a control message: a process has failed."""

_SIZE_BYTES = 64
_TIMEOUT_PS = PS_PER_S  # Open MPI, with a thread for its detector
_PERIOD_PS = 3 * PS_PER_S // 10


class _Suspicion(NamedTuple):
    """An observer's suspicion: rank `number`, failed at `died_ps`, no longer sends heartbeats."""

    number: int
    died_ps: int
    observer: int


class HeartbeatDetector(Detector):
    """Lets a failed process's observer detect it, and notify others; see `detector.Detector`."""

    @staticmethod
    def settings(section: DetectorSpec, latency_ps: int) -> tuple[DetectorSettings, int, str]:
        """Return the settings; the default timeout is one second, the default period 0.3 s."""
        period_ps = _PERIOD_PS if section.period_ps is None else section.period_ps
        timeout_ps = _TIMEOUT_PS if section.timeout_ps is None else section.timeout_ps
        settings = DetectorSettings("heartbeat", timeout_ps, period_ps)
        return settings, period_ps + latency_ps, "the period and the network's longest latency together"

    def control(self) -> dict[int, ControlHandler]:
        """Return the handler of its control messages."""
        return {_FAILURE: ControlHandler("detector", self._receive, self._forward)}

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of its events."""
        return {"suspect": self._suspect}

    def died(self, rank: Rank, death: Death) -> None:
        """Let the observer suspect the failed rank when its heartbeats stop."""
        observer = self._observer_of(rank.number)
        if observer == rank.number:
            return
        when_ps = self._silent_ps(rank.number, death.time_ps)
        self._schedule_suspicion(rank, when_ps, _Suspicion(rank.number, death.time_ps, observer))
        # An observer that fails after a detection may not have notified any rank: its own observer does that, too.
        state = rank.mpi.knowledge
        detected = () if state is None else [number for number, (_, how) in state.known.items() if how == "heartbeat"]
        for number in detected:
            if number != observer:
                suspicion = _Suspicion(number, self.deaths.dead[number].time_ps, observer)
                self._schedule_suspicion(rank, when_ps + self.timeout_ps, suspicion)

    def unanswered(self, rank: Rank, number: int) -> None:
        """Notify the rank of the failure that explains the missing acknowledgement."""
        self._notify(rank, number, "timeout", self.shard.kernel.now_ps)

    def _observer_of(self, number: int) -> int:
        return (number + 1) % self.shard.population

    def _last_ps(self, time_ps: int) -> int:
        """Return the time of a process's last heartbeat; the next one comes at the end of a hang."""
        return time_ps // self.period_ps * self.period_ps

    def _silent_ps(self, number: int, died_ps: int) -> int:
        """Return when the observer of a failed process has received no heartbeat for the timeout."""
        last_ps = self._last_ps(died_ps)
        latency_ps: int = self.fabric.link(number, self._observer_of(number)).latency_ps
        return last_ps + latency_ps + self.timeout_ps

    def _schedule_suspicion(self, rank: Rank, when_ps: int, suspicion: _Suspicion) -> None:
        rank.key += 1
        self.shard.post_to(suspicion.observer, when_ps, rank.key, "suspect", suspicion)

    def _suspect(self, suspicion: _Suspicion) -> None:
        """Let the observer of a failed process detect the failure.

        If the observer has failed, its own observer detects this failure after that one.
        """
        if self.shard.defer_for_all(self._suspect, suspicion):
            return
        number, _, watching = suspicion = _Suspicion(*suspicion)
        observer = self.shard.rank(watching)
        now_ps = self.shard.kernel.now_ps
        if type(observer.mpi) is not ClosedMailbox:
            if self.fabric.defer_for(observer, self._suspect, suspicion):
                return
            self._notify(observer, number, "heartbeat", now_ps)
            return
        successor = self._observer_of(watching)
        if successor != number:
            failure = self.deaths.dead.get(watching)
            detected_ps = now_ps if failure is None else max(now_ps, self._silent_ps(watching, failure.time_ps))
            self._schedule_suspicion(observer, detected_ps + self.timeout_ps, suspicion._replace(observer=successor))

    def _receive(self, rank: Rank, message: Message) -> None:
        self._notify(rank, message.note, "broadcast", message.arrival_ps + message.overhead_ps)

    def _notify(self, rank: Rank, number: int, how: str, at_ps: int) -> None:
        """Notify a rank of a failure: it forwards the first notice, and then acts on it."""
        state = knowledge_of(rank.mpi or self.fabric.open(rank))
        if not state.must_spread(number):
            return
        members = range(self.shard.population)
        for dest in neighbours(rank.number, members, {*state.known, number}):
            at_ps = self.fabric.send_control(rank, members[dest], _FAILURE, number, _SIZE_BYTES, at_ps)
        self.deaths.learn(rank, (number,), how)

    def _forward(self, rank: Rank, to: int, number: int) -> None:
        """Notify the rank after rank `to`, which had failed when the notice arrived."""
        members = range(self.shard.population)
        dest = next_survivor(to, members, {*rank.mpi.knowledge.known, number}, me=rank.number)
        if dest != rank.number:
            self.fabric.send_control(rank, dest, _FAILURE, number, _SIZE_BYTES, self.shard.kernel.now_ps)
