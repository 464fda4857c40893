"""Rollback of calls, even after they were computed and some ranks have left them.

The waiting ranks go back to their entry, and simulate the call's messages individually. That is in the past: the event
that caused it is deferred, the window is left (`Kernel.halt`), and the next windows begin there.

Ranks that have left are not rolled back: all their messages have arrived earlier. But their own messages must reach the
others, which repeat the call individually, and the others' messages to them must be dropped on arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.transport.message import EAGER, RENDEZVOUS, Message
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber

from .instance import CollectiveInstance
from .tracing import match_times, record_departure

if TYPE_CHECKING:
    from xsim_py.engine.kernel import Entry
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.process.ranks.rank import Rank

    from .schedule import Numbers
    from .shards import OtherShards

wake = Fiber.resume  # hot path: a wrapper function would be one more call per rank


class Rollback:
    """The collective instances of a fabric as far as they can be rolled back.

    See the subclass `instances.CollectiveInstances`.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        # By context and number, the calls that not all ranks of this shard have begun.
        self.calls: dict[tuple[int, int], CollectiveInstance] = {}
        self.waiting: dict[tuple[int, int], CollectiveInstance] = {}  # those not computed yet
        self.exiting: dict[CollectiveInstance, None] = {}  # computed; ranks of this shard are still in them
        self.exited: dict[CollectiveInstance, None] = {}  # computed; only ranks of other shards may still be in them
        # Whether new calls are simulated individually: an event is deferred until no rank waits.
        self.individual_only = False
        self.elsewhere: OtherShards | None = None
        self._undone: list[CollectiveInstance] = []  # after they were computed
        shard = fabric.shard
        shard.handlers["again"] = fabric.deliver
        shard.handlers["answered"] = self._answered
        shard.defer_for_all = self.defer_for_all
        shard.before_end = self.undo_before_end

    def finish(self, call: CollectiveInstance) -> None:
        """Count a call that is final."""
        raise NotImplementedError

    def finish_left(self) -> None:
        """Finish the calls that all ranks have left in all shards: nothing can undo them."""
        over_ps = self.fabric.shard.horizon_ps
        for call in [call for call in self.exited if call.latest_ps < over_ps]:
            del self.exited[call]
            self.finish(call)

    def undo_before_end(self) -> None:
        """Undo all calls in which ranks wait, and count the finished ones: no shard has any event left."""
        for call in self.exited:
            self.finish(call)
        self.exited.clear()
        self.undo([*self.waiting.values(), *self.exiting])
        self._drop_resent()

    def defer_for_all(self, handler: Callable[[Any], object], argument: object) -> bool:
        """Undo all calls, so that no rank waits in one; for an event handler.

        If True, the handler must return at once, and ``handler(argument)`` is called instead when all ranks have
        reached that point again. Until then new calls are simulated individually.
        """
        if self.individual_only:
            return False
        if self.elsewhere is not None:
            self.elsewhere.announce_undo_all()
        quiet = self.elsewhere is None or (self.elsewhere.quiet and not self.calls)
        calls = self._retire()
        if not calls and quiet:
            return False
        self.individual_only = True
        self.undo(calls)
        self._requeue(self._run_deferred, (handler, argument))
        self.fabric.kernel.events -= 1
        return True

    def defer_for(self, rank: Rank, handler: Callable[[Any], object], argument: object) -> bool:
        """Undo all calls for library work on one rank, if that rank waits in one."""
        call = rank.fiber.waiting
        return type(call) is CollectiveInstance and not call.undone and self.defer_for_all(handler, argument)

    def _run_deferred(self, what: tuple[Callable[[Any], object], Any]) -> None:
        """Run the deferred handler, now that no rank here waits in a call."""
        handler, argument = what
        self._drop_resent()
        handler(argument)
        self.individual_only = False

    def retire_between_windows(self) -> None:
        """Undo all calls, because another shard has done so."""
        self.undo(self._retire())

    def _retire(self) -> list[CollectiveInstance]:
        self.finish_left()
        calls = [*self.waiting.values(), *self.exiting, *self.exited]
        if self.elsewhere is not None:
            for call in calls:
                self.elsewhere.undone(call)
        return calls

    def undo_here(self, call: CollectiveInstance) -> None:
        """Undo a call that no rank has left, in the running fiber, which continues only after that."""
        if call.undone:
            return
        call.undone = True
        if self.elsewhere is not None:
            self.elsewhere.undone(call)
        if call.pending is None and not call.announcements:
            return
        fiber = current.running()
        # Events that this one has posted for the current time, with keys of this rank, come after the rank resumes.
        posted = self.fabric.kernel.due.get(self.fabric.kernel.now_ps, [])
        later = posted[:]
        posted.clear()
        if call.pending is not None:
            self.undo([call])
        self._requeue(self._resume, (fiber, later))
        fiber.park(call)

    def _resume(self, what: tuple[Fiber, list[Entry]]) -> None:
        fiber, later = what
        for entry in later:
            self.fabric.kernel.post(self.fabric.kernel.now_ps, *entry)
        self._resume_at_entry(fiber)

    def leave_window(self) -> None:
        """Leave the window, if events before the current one were posted."""
        if self.fabric.kernel.key >= 0:  # otherwise no event has happened yet
            self.fabric.kernel.halt()

    def _requeue(self, handler: Callable[[Any], object], argument: object) -> None:
        """Leave the window, and continue this event when all ranks have reached this point again."""
        kernel = self.fabric.kernel
        kernel.post(kernel.now_ps, kernel.key, handler, argument)
        self.leave_window()

    def undo(self, calls: list[CollectiveInstance]) -> None:
        """Make the waiting ranks of these calls simulate them individually, from their entry.

        The next window begins there; an event handler that calls this leaves the current one.
        """
        if not calls:
            return
        kernel = self.fabric.kernel
        kernel.post(kernel.now_ps, kernel.key, self._restore_clock, None)
        for call in calls:
            call.undone = True
            self.waiting.pop(call.where, None)
            if call.computed:
                self.exiting.pop(call, None)
                self.exited.pop(call, None)
                # Before the ranks resume: their exit events are in the queue.
                cancel_exits(self.fabric, call, wake)
                self._undone.append(call)
                sender = Resender(self.fabric, call)
                for place in call.departed():
                    kernel.post(call.entry_ps[place], call.entry_key[place], sender.resend, place)
            for fiber, time_ps, key in zip(call.fibers, call.entry_ps, call.entry_key, strict=True):
                if fiber is not None:
                    kernel.post(time_ps, key, self._resume_at_entry, fiber)
            if not call.computed:
                call.close()

    def _resume_at_entry(self, fiber: Fiber) -> None:
        """Resume a rank at its entry; an event handler that does not count as an event."""
        self.fabric.kernel.events -= 1
        fiber.resume()

    def _restore_clock(self, _: object) -> None:
        """Do nothing: this event only restores the clock to its time before a call was undone."""
        self.fabric.kernel.events -= 1

    def _answered(self, answer: tuple[int, int, tuple[int, int]]) -> None:
        """Pass on the reply of a rank that has left to one that repeats a call."""
        answered(self.fabric, answer)

    def _drop_resent(self) -> None:
        """Remove messages that arrived again on ranks that had left: they are not unreceived messages."""
        for call in self._undone:
            drop_resent_messages(self.fabric, call)
        self._undone.clear()


def cancel_exits(fabric: Any, call: CollectiveInstance, wake: Callable[[Any], object]) -> None:
    """Cancel the computed exits. Events at which ranks left do not count."""
    fabric.kernel.withdraw(wake, {fiber for fiber in call.fibers if fiber is not None})
    departed = call.departed()
    fabric.kernel.events -= len(departed) - (call.inline >= 0)
    if fabric.trace is not None:
        when, ranks = match_times(call), call.comm.ranks
        fabric.match_times.update(((*call.where, ranks[place]), when) for place in departed)


class Resender:
    """A substitute for ranks that have left: it resends their messages, and replies to requests to them."""

    def __init__(self, fabric: Fabric, call: CollectiveInstance) -> None:
        self._fabric = fabric
        self._call = call
        self._all = listing = call.bound.listing(call.times)
        self._has_rendezvous = bool(listing.rendezvous.any())
        self._messages_sent = _Sorted(listing.source, len(call.fibers))
        self._received = _Sorted(listing.target, len(call.fibers))

    def resend(self, place: int) -> None:
        """Resend a rank's messages.

        An event handler at its entry time, which does not count as an event.
        """
        fabric, call, all_ = self._fabric, self._call, self._all
        fabric.kernel.events -= 1
        numbers = self._messages_sent.of(place)
        for number in numbers:
            fabric.tally.log += (int(all_.origin[number]), int(all_.dest[number]), int(all_.size_bytes[number]))
        if not self._has_rendezvous and fabric.trace is None:
            numbers = self._send_in_turn(numbers)
        for number in numbers:
            message, key, rendezvous = self._message(number), int(all_.key[number]), bool(all_.rendezvous[number])
            if rendezvous:
                message.kind, message.ticket = RENDEZVOUS, -key  # a unique number
                self._send_data(number, message.ticket, message.data)
                message.data = b""
            to, arrival_ps = message.to, message.arrival_ps
            if fabric.trace is None:
                fabric.shard.post_to(to, arrival_ps, key, "again", message)
            else:
                left_ps = int(all_.sent_ps[number])
                record_departure(fabric, call, key, message.origin, to, message.size_bytes, left_ps, rendezvous)
                fabric.shard.post_to(to, arrival_ps, key, "traced", (key, message))
        if self._has_rendezvous:
            self._answer(place)

    def _message(self, number: int) -> Message:
        """Return one of them."""
        call, all_ = self._call, self._all
        cid, tag = call.where
        columns = all_.origin, all_.dest, all_.first_ps, all_.source, all_.receive_ps
        origin, to, arrival_ps, source, overhead_ps = (int(column[number]) for column in columns)
        data = call.bound.payload(call.memory, number)
        check = crc32(data) if call.bound.check else 0
        row = cid, source, tag, data, len(data), EAGER, overhead_ps, to, origin, 0, check, call.note
        return Message(arrival_ps, row)

    def _send_in_turn(self, numbers: list[int]) -> list[int]:
        """Schedule the messages to ranks of this shard one after the other, each at its event.

        Return the others. With a million ranks, twenty million messages would otherwise be in flight at once.
        """
        shard = self._fabric.shard
        dest, arrival_ps, keys = self._all.dest, self._all.first_ps, self._all.key
        here = [number for number in numbers if shard.local(int(dest[number]))]
        here.sort(key=lambda number: (arrival_ps[number], keys[number]), reverse=True)
        if here:
            self._post_last(here)
        return [number for number in numbers if not shard.local(int(dest[number]))]

    def _post_last(self, numbers: list[int]) -> None:
        arrival_ps, keys = self._all.first_ps, self._all.key
        # With the key of the original message, so that it has the same order among the events of its time.
        self._fabric.kernel.post(int(arrival_ps[numbers[-1]]), int(keys[numbers[-1]]), self._deliver_next, numbers)

    def _deliver_next(self, numbers: list[int]) -> None:
        """Deliver the next message of a rank, as in `Fabric._deliver`.

        A rank that has left already had it.
        """
        number = numbers.pop()
        if numbers:
            self._post_last(numbers)
        m = self._message(number)
        if self._call.fibers[int(self._all.target[number])] is None:
            self._fabric.digest += hash((m.arrival_ps, m.to, m.source, m.tag, m.size_bytes, m.check))
        else:
            self._fabric.deliver(m)

    def _send_data(self, number: int, ticket: int, data: bytes) -> None:
        """Send the data of a message after its request; their departure needs no event."""
        fabric, all_ = self._fabric, self._all
        columns = all_.origin, all_.dest, all_.arrival_ps, all_.data_key
        origin, to, arrival_ps, key = (int(column[number]) for column in columns)
        message = Message(arrival_ps, (0, 0, 0, data, len(data), RENDEZVOUS, 0, to, origin, ticket, 0, None))
        fabric.shard.post_to(to, arrival_ps, key, "again", message)
        fabric.kernel.events += 1

    def _answer(self, place: int) -> None:
        """Send this rank's replies to all requests again."""
        all_ = self._all
        for number in self._received.of(place):
            if all_.rendezvous[number]:
                columns = all_.origin, all_.dest, all_.answer_ps, all_.answer_key
                origin, to, when_ps, key = (int(column[number]) for column in columns)
                self._fabric.shard.post_to(origin, when_ps, key, "answered", (origin, to, self._call.where))


class _Sorted:
    """The messages of a call, sorted by rank."""

    def __init__(self, ranks: Numbers, size: int) -> None:
        self._order = np.argsort(ranks, kind="stable")
        self._starts = np.searchsorted(ranks[self._order], np.arange(size + 1))

    def of(self, rank: int) -> list[int]:
        """Return the numbers of a rank's messages."""
        found: list[int] = self._order[self._starts[rank] : self._starts[rank + 1]].tolist()
        return found


def answered(fabric: Fabric, answer: tuple[int, int, tuple[int, int]]) -> None:
    """Make a rank send its data on the reply of a rank that has left; an event handler.

    If the sender has left itself, its data have already been sent.
    """
    number, to, (cid, tag) = answer
    box = fabric.shard.rank(number).mpi
    for send in list(box.sends.values()):
        if send.note is not None and (send.to, send.tag, send.comm.cid | 1) == (to, tag, cid):
            fabric.shard.handlers["cts"]((number, send.ticket))
            return


def drop_resent_messages(fabric: Fabric, call: CollectiveInstance) -> None:
    """Remove messages that arrived again on ranks that have left from their mailboxes."""
    for place in call.departed():
        box = fabric.shard.rank(call.comm.ranks[place]).mpi
        for message in box.all_kept():
            if (message.cid, message.tag) == call.where:
                box.remove(message)
