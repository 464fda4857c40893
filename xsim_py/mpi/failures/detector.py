"""Failure detection: which rank knows of which failure, and when. All of it is decided in this file.

The simulator itself learns of a death at once, in every shard, by an event that no rank sees. What ranks learn follows
from the detector that the machine has:

* ``timeout`` (xSim: Naughton, Engelmann et al., PDP 2014, III-A): an operation that waits for a dead process fails at
  max(its start, the time of death) + timeout. A collective operation waits for every member in this sense, and a
  receive from any source for every member whose failure is not acknowledged.
* ``heartbeat`` (Open MPI; Bosilca et al., SC'16): every rank watches its predecessor in a ring, notices that no sign
  of life has come for the timeout, and tells everybody by a reliable broadcast that costs messages. The signs of life
  themselves are taken to be free.

Either way a rank that has told a dead process of a failure or a revocation finds out when the timeout has passed since
then, for nothing acknowledges it. Collectives by FTCO have time limits and messages of their own (`ftco.driver`), and
what they find is known here like the rest. And a rank that knows of a failure (from its detector, or from an agreement)
does not wait for it again: what concerns the dead process fails at once. That is the order in which Open MPI checks a
request: complete, revoked, collective on a communicator with a failed member, any source, failed peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.constants import ANY_SOURCE
from xsim_py.mpi.transport.fabric import ControlHandler
from xsim_py.mpi.transport.mailbox import Grave
from xsim_py.mpi.transport.message import Message, Operation, Receive, Send
from xsim_py.process import current
from xsim_py.units import format_time

from .broadcast import next_place, spread
from .knowledge import failed_members, recovery_of, revoked_error

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.process.rank import Rank

__all__ = ["Death", "Detector"]

_HEARD = 1
"""The tag of a control message: a process has failed."""

_SIZE_BYTES = 64


class Death(NamedTuple):
    """A failure as the simulator knows it.

    Attributes
    ----------
    rank, time_ps, cause : int, int, str
        Who, when and why.
    observer : int
        The rank that watches it (heartbeat).
    """

    rank: int
    time_ps: int
    cause: str
    observer: int


class Detector:
    """Tells the ranks of one shard of failures.

    Parameters
    ----------
    fabric : Fabric
        Whose ranks it serves.
    kind : str
        ``timeout`` or ``heartbeat``.
    timeout_ps : int
        After how long a silent process counts as failed.
    period_ps : int
        How often a process gives a sign of life (heartbeat only).

    Attributes
    ----------
    dead : dict of int to Death
        The failures that this shard has been told of; not what any rank knows.
    deaths : list of Death
        The failures of its own ranks.
    """

    def __init__(self, fabric: Fabric, *, kind: str, timeout_ps: int, period_ps: int) -> None:
        self.fabric = fabric
        self.shard = fabric.shard
        self.heartbeat = kind == "heartbeat"
        self.timeout_ps = timeout_ps
        self.period_ps = period_ps
        self.dead: dict[int, Death] = {}
        self.deaths: list[Death] = []
        self._expiry: dict[int, Callable[[Any], None]] = {}  # `_expired` for each of the dead
        self._newest: dict[tuple[tuple[int, ...], str], dict[int, tuple[int, str]]] = {}
        self._news_ps = -1
        self._said: dict[tuple[int, bool, str], str] = {}
        fabric.detector = self
        fabric.control[_HEARD] = ControlHandler("detector", self._heard, self._hear_on)
        self.shard.handlers.update(failed=self._told, suspect=self._suspect, returned=self._returned)
        self.shard.on_failure = self.report

    # ------------------------------------------------------------------------------- what the simulator is told

    def report(self, rank: Rank, cause: str, survivable: bool) -> None:
        """A rank of this shard has died now; if the job goes on, tell every shard as soon as that is possible."""
        fabric, shard = self.fabric, self.shard
        now_ps = shard.kernel.now_ps
        death = Death(rank.number, now_ps, cause, self._after(rank.number))
        self.deaths.append(death)
        if fabric.trace is not None:
            fabric.trace.mark(rank.number, now_ps, "failed", cause)
        if not survivable:
            return
        fabric.bury(rank)
        fabric.digest += hash((now_ps, rank.number))
        rank.key += 1
        shard.post_everywhere(now_ps + shard.abort_delay_ps, rank.key, "failed", death)
        if self.heartbeat and death.observer != rank.number:
            rank.key += 1
            shard.post_to(death.observer, self._silent_ps(death), rank.key, "suspect", death)
            self._hand_over(rank, death)

    def _told(self, death: Death) -> None:
        """The news of a death, the same event in every shard."""
        if self.shard.put_off_for_all(self._told, death):
            return
        if self.shard.number != 0:
            self.shard.kernel.events -= 1
        self.dead[death.rank] = Death(*death)
        self.fabric.troubled = True
        for rank in self.shard.ranks:
            box = rank.mpi
            if box is None or type(box) is Grave:
                continue
            if rank.exit_status is None and not self.heartbeat:
                for operation in box.pending():
                    if operation.concerns(death.rank):
                        self._expect(rank, death.rank, operation, operation.post_ps)
            if box.recovery is not None:  # of a rank that has ended, too: its library goes on answering
                for session in box.recovery.sessions.values():
                    session.watch(death.rank)

    # ------------------------------------------------------------------------------------------------- timeout

    def watch(self, operation: Any) -> None:
        """An operation begins to wait when there are dead processes already."""
        if self.heartbeat:
            return
        box = operation.comm.box
        known = box.recovery.known if box.recovery is not None else ()
        for number in self.dead:
            if number not in known and operation.concerns(number):
                self._expect(box.rank, number, operation, operation.post_ps)

    def expect(self, rank: Rank, number: int, session: Any, since_ps: int) -> None:
        """The same for an agreement, which has waited for `number` since `since_ps`."""
        if not self.heartbeat and number in self.dead:
            self._expect(rank, number, session, since_ps)

    def _expect(self, rank: Rank, number: int, waiting: Any, since_ps: int) -> None:
        when_ps = max(since_ps, self.dead[number].time_ps) + self.timeout_ps
        rank.key += 1
        expiry = self._expiry.get(number)
        if expiry is None:
            expiry = self._expiry[number] = partial(self._expired, number)
        self.shard.kernel.post(when_ps, rank.key, expiry, waiting)

    def _expired(self, number: int, waiting: Any) -> None:
        if type(waiting) is Receive and waiting.post_ps + self.timeout_ps > self.shard.kernel.now_ps:
            return  # it has been used again, for another message
        rank = getattr(waiting, "rank", None) or waiting.comm.box.rank  # an agreement is a rank's, not an operation
        if (
            rank.exit_status is None
            and waiting.waits_for(number)
            and not self.fabric.put_off_for(rank, self._expiry[number], waiting)
        ):
            self.learn(rank, (number,), "timeout")

    # ----------------------------------------------------------------------------------------------- heartbeat

    def _after(self, number: int) -> int:
        return (number + 1) % self.shard.population

    def _silent_ps(self, death: Death) -> int:
        """When the observer of a dead process has heard nothing of it for the timeout."""
        last_ps = death.time_ps // self.period_ps * self.period_ps
        latency_ps: int = self.fabric.link(death.rank, self._after(death.rank)).latency_ps
        return last_ps + latency_ps + self.timeout_ps

    def _suspect(self, death: Death) -> None:
        """The observer of a dead process notices; if it is dead itself, the next one does, once it has noticed that."""
        if self.shard.put_off_for_all(self._suspect, death):
            return
        death = Death(*death)
        observer = self.shard.rank(death.observer)
        now_ps = self.shard.kernel.now_ps
        if type(observer.mpi) is not Grave:
            self._hear(observer, death.rank, "heartbeat", now_ps)
            return
        successor = self._after(death.observer)
        if successor != death.rank:
            own = self.dead.get(death.observer)
            noticed_ps = now_ps if own is None else max(now_ps, self._silent_ps(own))
            observer.key += 1
            death = death._replace(observer=successor)
            self.shard.post_to(successor, noticed_ps + self.timeout_ps, observer.key, "suspect", death)

    def _hand_over(self, rank: Rank, death: Death) -> None:
        """Who has noticed a failure and dies may not have told anybody: its own observer looks after that, too."""
        state = rank.mpi.recovery
        noticed = () if state is None else [number for number, (_, how) in state.known.items() if how == "heartbeat"]
        for number in noticed:
            if number != death.observer:
                rank.key += 1
                again = self.dead[number]._replace(observer=death.observer)
                when_ps = self._silent_ps(death) + self.timeout_ps
                self.shard.post_to(death.observer, when_ps, rank.key, "suspect", again)

    def _heard(self, rank: Rank, message: Message) -> None:
        self._hear(rank, message.note, "broadcast", message.arrival_ps + message.overhead_ps)

    def _hear(self, rank: Rank, number: int, how: str, at_ps: int) -> None:
        """A rank hears of a failure: it tells others, the first time, and then acts on it."""
        state = recovery_of(rank.mpi or self.fabric.open(rank))
        if not state.tells_of(number):
            return
        members = range(self.shard.population)
        for dest in spread(rank.number, members, {*state.known, number}):
            at_ps = self.fabric.send_control(rank, members[dest], _HEARD, number, _SIZE_BYTES, at_ps)
        self.learn(rank, (number,), how)

    def _hear_on(self, rank: Rank, to: int, number: int) -> None:
        """Rank `to` was dead when it was told of a failure: tell the one after it instead."""
        members = range(self.shard.population)
        dest = next_place(to, members, {*rank.mpi.recovery.known, number}, me=rank.number)
        if dest != rank.number:
            self.fabric.send_control(rank, dest, _HEARD, number, _SIZE_BYTES, self.shard.kernel.now_ps)

    # ------------------------------------------------------------------------------------ control messages to the dead

    def bounce(self, dead: Rank, message: Message) -> None:
        """Let the sender of a control message that came to a dead rank find out: nothing acknowledges it in time."""
        dead.key += 1
        when_ps = message.arrival_ps + self.timeout_ps
        entry = (message.origin, dead.number, message.tag, message.note)
        self.shard.post_to(message.origin, when_ps, dead.key, "returned", entry)

    def _returned(self, entry: tuple[int, int, int, Any]) -> None:
        number, to, tag, what = entry
        rank = self.shard.rank(number)
        if type(rank.mpi) is not Grave and not self.fabric.put_off_for(rank, self._returned, entry):
            bounced = self.fabric.control[tag].bounced
            assert bounced is not None
            bounced(rank, to, what)
            if self.heartbeat:
                self._hear(rank, to, "timeout", self.shard.kernel.now_ps)
            else:
                self.learn(rank, (to,), "timeout")

    # ----------------------------------------------------------------------------------------------- knowledge

    def learn(self, rank: Rank, numbers: Iterable[int], how: str) -> None:
        """A rank learns of failures now: everything that concerns the dead fails, and whoever waits for it goes on."""
        state = recovery_of(rank.mpi)
        now_ps = self.shard.kernel.now_ps
        fresh = tuple([number for number in numbers if number not in state.known])
        if not fresh:
            return
        state.note(self._news(fresh, now_ps, how))
        self.fabric.troubled = True
        for number in fresh:
            self.fabric.digest += hash((now_ps, rank.number, number))
            if self.fabric.trace is not None:
                self.fabric.trace.mark(rank.number, now_ps, "learned", f"rank {number} has failed ({how})")
        failing = [op for op in rank.mpi.pending() if any(op.concerns(number) for number in fresh)]
        for session in list(state.sessions.values()):
            session.learn(fresh)
        self.fail(rank, failing, self._failure)

    def _news(self, fresh: tuple[int, ...], now_ps: int, how: str) -> dict[int, tuple[int, str]]:
        """What a rank learns now; one object for all ranks that learn the same at the same time."""
        if now_ps != self._news_ps:
            self._news_ps = now_ps
            self._newest.clear()
        found = self._newest.get((fresh, how))
        if found is None:
            found = self._newest[fresh, how] = dict.fromkeys(fresh, (now_ps, how))
        return found

    def fail(self, rank: Rank, operations: list[Any], error_of: Any) -> None:
        """End operations with an error, and then let those who wait for them go on, in order.

        A receive from any source goes on after the failure is acknowledged: it is only interrupted.
        """
        box = rank.mpi
        now_ps = self.shard.kernel.now_ps
        for operation in operations:
            error = error_of(operation)
            if error is not None:
                box.give_up(operation)
                operation.error = error
                operation.time_ps = now_ps
                operation.done = True
        for operation in operations:
            if rank.exit_status is not None:
                return
            waiter, operation.waiter = operation.waiter, None
            if waiter is not None and operation.done:
                waiter.resume()
            elif waiter is not None:
                waiter.interrupt()

    def _failure(self, operation: Any) -> errors.Exception | None:
        if operation.note is None and not isinstance(operation, Send) and _of_anyone(operation):
            return None
        known = operation.comm.box.recovery.known
        return errors.error(c.ERR_PROC_FAILED, self._told_of(next(n for n in known if operation.concerns(n))))

    # ------------------------------------------------------------------------------- what calls have to ask

    def admit(self, comm: Communicator, peer: int | None, *, collective: bool = False, survives: bool = False) -> None:
        """Refuse a call for which there is a `refusal`."""
        error = self.refusal(comm, peer, collective=collective, survives=survives)
        if error is not None:
            comm.report(error)
            raise error

    def refusal(
        self, comm: Communicator, peer: int | None, *, collective: bool = False, survives: bool = False
    ) -> errors.Exception | None:
        """Why a call can not complete, if this rank knows that.

        Parameters
        ----------
        peer : int or None
            The rank in the whole run that it sends to or receives from; None where it is nobody in particular.
        survives : bool
            Whether it goes on though members are dead.
        """
        state = comm.box.recovery
        if state is None:
            return None
        whole = comm.outer or comm
        if whole.cid in state.revoked:
            return revoked_error(whole)
        if not state.known or survives:
            return None
        if collective:
            number = next(iter(failed_members(whole)), None)
        else:
            number = peer if peer in state.known else None
        return None if number is None else errors.error(c.ERR_PROC_FAILED, self._told_of(number))

    def admit_receive(self, comm: Communicator, source: int, note: Any) -> None:
        """The same for a blocking receive: one from any source is refused while a failure is not acknowledged."""
        if note is not None or source >= 0:
            self.admit(comm, comm.remote[source], collective=note is not None)
            return
        self.admit(comm, None)
        number = self._unacknowledged(comm)
        if number is not None:
            comm.fail(c.ERR_PROC_FAILED, self._told_of(number))

    def admit_wait(self, operation: Operation) -> None:
        """Refuse to wait for a receive from any source while a failure is not acknowledged; it stays active."""
        if isinstance(operation, Receive) and _of_anyone(operation):
            number = self._unacknowledged(operation.comm)
            if number is not None:
                operation.comm.fail(c.ERR_PROC_FAILED_PENDING, self._told_of(number))

    def pending(self, operation: Any) -> None:
        """The fiber was woken though the operation is not complete: refuse to wait on if that may be in vain.

        It may not be: the program may have begun to wait for it, and acknowledged the failure, in the same event.
        """
        self._catch_up()
        self.admit_wait(operation)

    def give_up(self, operation: Any) -> NoReturn:
        """The same where the call is a blocking one, or the operation has failed: it ends here."""
        self._catch_up()
        comm = operation.comm.outer or operation.comm
        if operation.error is None:
            comm.box.give_up(operation)
            number = self._unacknowledged(comm)
            assert number is not None
            operation.error = errors.error(c.ERR_PROC_FAILED, self._told_of(number))
        comm.report(operation.error)
        raise operation.error

    def _catch_up(self) -> None:
        fiber = current.fiber
        assert fiber is not None
        fiber.clock_ps = max(fiber.clock_ps, self.shard.kernel.now_ps)

    def _unacknowledged(self, comm: Communicator) -> int | None:
        """A failed process that a receive from any source may wait for in vain, so far as this rank knows."""
        state = comm.box.recovery
        if state is None or not state.known:
            return None
        return next((n for n in failed_members(comm)[comm.acknowledged :] if comm.context.is_remote(n)), None)

    def lost(self, rank: Rank, message: Message) -> errors.Exception | None:
        """Why the data of a rendezvous will not come, if the receiver knows that the sender is dead."""
        state = rank.mpi.recovery
        if state is None or message.origin not in state.known:
            return None
        return errors.error(c.ERR_PROC_FAILED, self._told_of(message.origin))

    def _told_of(self, number: int) -> str:
        death = self.dead.get(number)
        key = number, death is None, self.shard.everyone
        said = self._said.get(key)
        if said is None:
            when = f" at {format_time(death.time_ps, digits=None)}" if death is not None else ""
            said = self._said[key] = f"rank {number} of {self.shard.everyone} failed{when}"
        return said


def _of_anyone(operation: Any) -> bool:
    """Whether a receive or probe has still to find a message, and would take it from any source."""
    return operation.source == ANY_SOURCE and operation.message is None
