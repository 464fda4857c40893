"""Failures, from the failure of a rank to the end of other ranks' operations with it.

The simulator itself learns of a failure at once, in every shard, by an event that no rank sees. A `Detector` decides
what ranks learn, and when. A rank that knows of a failure (from its detector, or from an agreement) does not wait for
the failed process again: operations that need it fail at once (`guard`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.constants import ANY_SOURCE
from xsim_py.mpi.transport.mailbox import ClosedMailbox
from xsim_py.mpi.transport.message import Message, Send
from xsim_py.mpi.transport.protocols import LibraryPart
from xsim_py.units import format_time

from .knowledge import is_revoked_by_failure, knowledge_of, revoked_error

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.process.ranks.rank import Rank

    from .detector import Detector


class Death(NamedTuple):
    """A failure as the simulator knows it: rank, time and cause."""

    rank: int
    time_ps: int
    cause: str


class Deaths:
    """The failures reported to one shard; notifies its ranks of those that they learn of."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.shard = fabric.shard
        self.dead: dict[int, Death] = {}  # the failures reported to this shard, which ranks may not know of
        self.deaths: list[Death] = []  # the failures of ranks in this shard
        self._latest_entries: dict[tuple[tuple[int, ...], str], dict[int, tuple[int, str]]] = {}
        self._latest_ps = -1
        self._error_texts: dict[tuple[int, bool, str], str] = {}

    def learn(self, rank: Rank, numbers: Iterable[int], how: str) -> None:
        """Notify a rank of failures: operations that depend on them fail, and their waiters continue."""
        state = knowledge_of(rank.mpi)
        fabric = self.fabric
        now_ps = self.shard.kernel.now_ps
        fresh = tuple([number for number in numbers if number not in state.known])
        if not fresh:
            return
        state.note(self._entries(fresh, now_ps, how))
        fabric.failure_seen = True
        for number in fresh:
            fabric.digest += hash((now_ps, rank.number, number))
            if fabric.trace is not None:
                text = f"rank {number} has failed ({how})"
                fabric.trace.mark(rank.number, now_ps, "learned", text, dead=number, how=how)
        failing: list[tuple[Any, BaseException | None]] = []
        for operation in rank.mpi.pending():
            if is_revoked_by_failure(operation.comm):
                failing.append((operation, revoked_error(operation.comm)))
                continue
            dead = next((number for number in fresh if operation.depends_on(number)), None)
            if dead is not None:  # a receive from any source continues once the failure is acknowledged
                failing.append((operation, None if is_open_receive(operation) else self.error(dead)))
        for session in list(state.sessions.values()):
            session.learn(fresh)
        end_operations(rank, failing)

    def _entries(self, fresh: tuple[int, ...], now_ps: int, how: str) -> dict[int, tuple[int, str]]:
        """Return the entries for new failures, one object for all ranks with the same news."""
        if now_ps != self._latest_ps:
            self._latest_ps = now_ps
            self._latest_entries.clear()
        found = self._latest_entries.get((fresh, how))
        if found is None:
            found = self._latest_entries[fresh, how] = dict.fromkeys(fresh, (now_ps, how))
        return found

    def error(self, number: int, code: int = c.ERR_PROC_FAILED) -> errors.Exception:
        """Return the error of an operation that needs a failed rank; all ranks share its text."""
        death = self.dead.get(number)
        key = number, death is None, self.shard.everyone
        text = self._error_texts.get(key)
        if text is None:
            when = f" at {format_time(death.time_ps, digits=None)}" if death is not None else ""
            text = self._error_texts[key] = f"rank {number} of {self.shard.everyone} failed{when}"
        return errors.error(code, text)


def is_open_receive(operation: Any) -> bool:
    """Return True for a receive or probe from any source that has not found a message yet."""
    if operation.note is not None or isinstance(operation, Send):
        return False
    return bool(operation.source == ANY_SOURCE and operation.message is None)


def end_operations(rank: Rank, failing: Sequence[tuple[Any, BaseException | None]]) -> None:
    """End operations with errors, and then resume the fibers that wait for them, in order.

    An operation without an error is only interrupted: its fiber decides whether to wait on.
    """
    box = rank.mpi
    now_ps = rank.shard.kernel.now_ps
    for operation, error in failing:
        if error is not None:
            box.give_up(operation)
            operation.error = error
            operation.time_ps = now_ps
            operation.done = True
    for operation, _ in failing:
        if rank.exit_status is not None:
            return
        waiter, operation.waiter = operation.waiter, None
        if waiter is not None and operation.done:
            waiter.resume()
        elif waiter is not None:
            waiter.interrupt()


class Reports(LibraryPart):
    """Receives reports of failures, and announces them to all shards.

    It also reports lost control messages to the detector.
    """

    def __init__(self, deaths: Deaths, detector: Detector) -> None:
        self._deaths = deaths  # the failures reported to this shard
        self._fabric = deaths.fabric
        self._shard = deaths.shard
        self._detector = detector  # of the ranks of this shard
        self._suspected: set[int] = set()
        # Called with each failed rank and the time of its failure.
        self.tell_launcher: Callable[[int, int], object] = lambda number, time_ps: None

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of its events."""
        return {"failed": self._announced, "returned": self._returned}

    def died(self, rank: Rank, cause: str, survivable: bool) -> None:
        """Record a rank's failure; if the job continues, announce it to every shard."""
        fabric, shard = self._fabric, self._shard
        if rank.number in self._suspected:
            return
        now_ps = shard.kernel.now_ps
        death = Death(rank.number, now_ps, cause)
        self._deaths.deaths.append(death)
        if fabric.trace is not None:
            fabric.trace.mark(rank.number, now_ps, "failed", cause)
        if not survivable:
            return
        fabric.close(rank)
        fabric.digest += hash((now_ps, rank.number))
        rank.key += 1
        shard.post_everywhere(now_ps + shard.abort_delay_ps, rank.key, "failed", death)
        self._detector.died(rank, death)

    def suspects(self, rank: Rank, until_ps: int, cause: str) -> bool:
        """Record that a process is silent from now on; return True if other ranks will suspect it.

        If so, it counts as failed from now on: it does nothing more, and is killed at `until_ps`.
        """
        if not self._shard.fault_tolerant or not self._detector.times_out(rank, until_ps):
            return False
        self.died(rank, cause, True)
        self._suspected.add(rank.number)
        return True

    def _announced(self, death: Death) -> None:
        """Handle the announcement of a failure; the same event in every shard."""
        if self._shard.defer_for_all(self._announced, death):
            return
        if self._shard.number != 0:
            self._shard.kernel.events -= 1
        death = self._deaths.dead[death[0]] = Death(*death)
        self.tell_launcher(death.rank, death.time_ps)
        self._fabric.failure_seen = True
        for rank in self._shard.ranks:
            box = rank.mpi
            if box is None or type(box) is ClosedMailbox:
                continue
            self._detector.announced(rank, death)
            if box.knowledge is not None:  # even after the rank has ended: its library keeps answering
                for session in box.knowledge.sessions.values():
                    session.watch(death.rank)

    def bounce(self, dead: Rank, message: Message) -> None:
        """Let the sender of a control message to a failed rank detect the failure at the timeout."""
        dead.key += 1
        when_ps = message.arrival_ps + self._detector.timeout_ps
        entry = (message.origin, dead.number, message.tag, message.note)
        self._shard.post_to(message.origin, when_ps, dead.key, "returned", entry)

    def _returned(self, entry: tuple[int, int, int, Any]) -> None:
        number, to, tag, what = entry
        rank = self._shard.rank(number)
        if type(rank.mpi) is not ClosedMailbox and not self._fabric.defer_for(rank, self._returned, entry):
            bounced = self._fabric.control[tag].bounced
            assert bounced is not None
            bounced(rank, to, what)
            self._detector.unanswered(rank, to)
