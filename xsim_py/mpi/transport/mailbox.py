"""The mailbox of a rank: posted receives, unexpected messages, and their matching."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG

from .call_sites import tag_of_program
from .message import Message, Receive, Send

if TYPE_CHECKING:
    from collections.abc import Callable

    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

    from .choices import Chooser
    from .fabric import Fabric
    from .protocols import Endpoint


class _NoTable(dict[Any, Any]):
    """A shared placeholder for unused tables of all mailboxes: one object instead of thousands."""

    __slots__ = ()

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError("this table belongs to all mailboxes: replace it by a separate one first")


_NO_TABLE = _NoTable()


class Probe:
    """A fiber that waits for a message to arrive.

    The code that parked it removes it from the mailbox.
    """

    __slots__ = ("cid", "comm", "done", "error", "message", "name", "post_ps", "source", "tag", "time_ps", "waiter")

    note = None
    depends_on = Receive.depends_on

    def __init__(self, comm: Endpoint, cid: int, source: int, tag: int, fiber: Fiber, name: str) -> None:
        self.comm = comm
        self.cid = cid
        self.source = source
        self.tag = tag
        self.waiter: Fiber | None = fiber
        self.name = name
        self.message: Message | None = None
        self.post_ps = fiber.clock_ps
        self.time_ps = 0
        self.done = False
        self.error: Any = None

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        source = "any source" if self.source == ANY_SOURCE else f"rank {self.source}"
        tag = "any tag" if self.tag == ANY_TAG else f"tag {tag_of_program(self.tag)}"
        return f"{self.name} on {self.comm.label()}: a message from {source}, {tag}"

    def wants(self, message: Message) -> bool:
        """Return True if the probe accepts this message."""
        return (
            message.cid == self.cid
            and self.source in (ANY_SOURCE, message.source)
            and self.tag in (ANY_TAG, message.tag)
        )


class _HotSlots:
    """The slots of a mailbox that messages use: those of a base class share two cache lines."""

    __slots__ = (
        "background",
        "lone",
        "place",
        "posted",
        "posted_any",
        "sends",
        "spare",
        "unexpected",
        "used",
        "world",
    )


class Mailbox(_HotSlots):
    """Posted receives and unexpected messages of one rank, and all other MPI state of a process.

    `chooser` is None unless the run has a schedule (see `choosing`).

    The most common case is stored separately: a single posted receive, from a named source (`lone`). Otherwise both are
    kept by (context, source). The value is one entry, or a deque of several: most often there is one. Receives from any
    source have separate lists; messages get a list in order of arrival once the rank has used a wildcard.
    """

    chooser: Chooser | None = None

    __slots__ = ("fabric", "knowledge", "polls", "private", "probes", "rank", "self_comm", "ticket", "tickets", "wild")

    def __init__(self, rank: Rank, fabric: Fabric) -> None:
        self.rank = rank
        self.fabric = fabric  # the transport of this rank's messages
        self.lone: Receive | None = None
        self.spare: Receive | None = None  # the last blocking receive, for reuse
        self.used: Message | None = None  # the message of that receive, for reuse
        # Most ranks use one or none of these tables, and an empty dictionary is 64 bytes, one with an entry 224.
        self.posted: dict[tuple[int, int], Any] = _NO_TABLE
        self.posted_any: dict[int, deque[Receive]] | None = None
        self.unexpected: dict[tuple[int, int], Any] = _NO_TABLE
        self.wild: dict[int, deque[Message]] | None = None
        self.probes: list[Probe] | None = None
        # Receives that wait for the data of a rendezvous, by (sender, the sender's ticket).
        self.tickets: dict[tuple[int, int], Receive] = _NO_TABLE
        self.sends: dict[int, Send] = _NO_TABLE  # those that wait for a reply, by ticket
        # If all ranks are in this shard, skipping the subtraction saves a new integer per rank, 32 bytes.
        self.place = rank.number - fabric.first if fabric.first else rank.number  # the index in its shard
        self.ticket = 0
        self.world: Any = None  # this rank's side of COMM_WORLD, a `Communicator`
        self.self_comm: Any = None  # this rank's side of COMM_SELF, a `Communicator`
        # The number of other senders: fibers besides the program's own, and control messages about to leave.
        self.background = 0
        # The failures that the rank knows of, a `Knowledge`; created when it first learns of one (`failures`).
        self.knowledge: Any = None
        self.polls: Any = None  # the unsuccessful polls of the rank, a `Polls` (see `polling`)
        # Further objects of this process (error codes, attached buffer, keyvals), created on first use.
        self.private: dict[str, Any] | None = None

    def of_process(self, name: str, make: Callable[[], Any]) -> Any:
        """Return this process's object with that name, made by ``make()`` on first use."""
        if self.private is None:
            self.private = {}
        if name not in self.private:
            self.private[name] = make()
        return self.private[name]

    def drop_empty_tables(self) -> None:
        """Drop empty tables; each takes as much memory as one with five entries."""
        for name in ("posted", "unexpected", "tickets", "sends"):
            if not getattr(self, name):
                setattr(self, name, _NO_TABLE)

    def register(self, send: Send) -> None:
        """Give a send that waits for a reply its ticket."""
        if self.sends is _NO_TABLE:
            self.sends = {}
        self.ticket += 1
        send.ticket = self.ticket
        self.sends[self.ticket] = send

    def await_data(self, origin: int, ticket: int, operation: Receive) -> None:
        """Register the receive for the data of a rendezvous."""
        if self.tickets is _NO_TABLE:
            self.tickets = {}
        self.tickets[origin, ticket] = operation

    # ------------------------------------------------------------------------------------- pending operations

    def pending(self) -> list[Any]:
        """Return every incomplete receive, probe and send; receives in the order of their posting."""
        tables = (self.posted, self.posted_any or {})
        receives = [operation for table in tables for entry in table.values() for operation in entries_of(entry)]
        found: list[Any] = [] if self.lone is None else [self.lone]
        found += sorted(receives, key=lambda operation: operation.serial)
        found += self.tickets.values()
        found += self.probes or ()
        found += self.sends.values()
        return found

    def give_up(self, operation: Any) -> None:
        """Remove one of the `pending` operations."""
        if isinstance(operation, Send):
            self.sends.pop(operation.ticket, None)
        elif isinstance(operation, Probe):
            assert self.probes is not None
            self.probes.remove(operation)
        elif not self.unpost(operation):
            self.tickets = {key: other for key, other in self.tickets.items() if other is not operation}

    # ---------------------------------------------------------------------------------------- posted receives

    def post(self, operation: Receive) -> None:
        """Post a receive."""
        # A slot instead of an entry in a table: together with the log of sends that was a quarter of the time per
        # message.
        if self.lone is None and not self.posted and self.posted_any is None and operation.source != ANY_SOURCE:
            self.lone = operation
            return
        fabric = self.fabric
        fabric.serial = operation.serial = fabric.serial + 1
        if operation.source == ANY_SOURCE:
            if self.posted_any is None:
                self.posted_any = {}
            self.posted_any.setdefault(operation.cid, deque()).append(operation)
        else:
            if self.posted is _NO_TABLE:
                self.posted = {}
            _append(self.posted, (operation.cid, operation.source), operation)
        if self.lone is not None:
            self._demote_lone()

    def _demote_lone(self) -> None:
        """Move the lone receive to the others, in front of those posted after it."""
        lone = self.lone
        if lone is None:
            return
        self.lone = None
        lone.serial = 0  # older than all others
        if self.posted is _NO_TABLE:
            self.posted = {}
        key = (lone.cid, lone.source)
        later = self.posted.pop(key, None)
        self.posted[key] = lone if later is None else deque((lone, *entries_of(later)))

    def match(self, message: Message) -> Receive | None:
        """Return the receive for an arriving message: the first posted one that fits."""
        if self.lone is not None:
            self._demote_lone()
        key = (message.cid, message.source)
        if self.posted_any is not None and message.cid in self.posted_any:
            return self._match_with_wildcards(message, key)
        entry = self.posted.get(key)
        if type(entry) is Receive and (entry.tag == message.tag or entry.tag == ANY_TAG):
            # Hot path: the code below, for a single receive from this source.
            del self.posted[key]
            return entry
        for operation in entries_of(self.posted.get(key)):
            if operation.tag in (message.tag, ANY_TAG):
                _remove(self.posted, key, operation)
                found: Receive = operation
                return found
        return None

    def _match_with_wildcards(self, message: Message, key: tuple[int, int]) -> Receive | None:
        assert self.posted_any is not None
        fitting = [
            operation
            for operation in (*entries_of(self.posted.get(key)), *self.posted_any[message.cid])
            if operation.tag in (message.tag, ANY_TAG)
        ]
        if not fitting:
            return None
        first: Receive = min(fitting, key=lambda operation: operation.serial)
        self.unpost(first)
        return first

    def unpost(self, operation: Receive) -> bool:
        """Withdraw a receive; return True if it was still posted."""
        self._demote_lone()
        if operation.source == ANY_SOURCE:
            queue = (self.posted_any or {}).get(operation.cid)
            if queue is None or operation not in queue:
                return False
            queue.remove(operation)
            if not queue:
                assert self.posted_any is not None
                del self.posted_any[operation.cid]
                self.posted_any = self.posted_any or None
            return True
        key = (operation.cid, operation.source)
        if operation not in entries_of(self.posted.get(key)):
            return False
        _remove(self.posted, key, operation)
        return True

    # ------------------------------------------------------------------------------------ unexpected messages

    def keep(self, message: Message) -> None:
        """Keep an unexpected message, or pass it to a waiting probe."""
        fabric = self.fabric
        fabric.serial = message.serial = fabric.serial + 1
        message.taken = False
        if self.unexpected is _NO_TABLE:
            self.unexpected = {}
        _append(self.unexpected, (message.cid, message.source), message)
        if self.wild is not None and message.cid in self.wild:
            self.wild[message.cid].append(message)
        if self.probes is not None:
            for probe in [probe for probe in self.probes if probe.wants(message)]:  # possibly of several threads
                if message.taken:
                    return
                if probe in self.probes:
                    self.probes.remove(probe)
                    probe.message = message
                    probe.done = True
                    if probe.waiter is not None:
                        probe.waiter.resume()

    def take(self, cid: int, source: int, tag: int) -> Message | None:
        """Remove and return the earliest kept message that fits."""
        if source == ANY_SOURCE:
            message = self._first_of_any(cid, tag)
            if message is not None:
                self.remove(message)
            return message
        key = (cid, source)
        entry = self.unexpected.get(key)
        if entry is None:
            return None
        if type(entry) is Message:
            if entry.tag == tag or tag == ANY_TAG:
                del self.unexpected[key]
                entry.taken = True
                return entry
            return None
        for message in entry:
            if tag in (message.tag, ANY_TAG):
                self.remove(message)
                return message  # type: ignore[no-any-return]
        return None

    def look(self, cid: int, source: int, tag: int) -> Message | None:
        """Return the earliest kept message that fits, without removing it."""
        if source == ANY_SOURCE:
            return self._first_of_any(cid, tag)
        for message in entries_of(self.unexpected.get((cid, source))):
            if tag in (message.tag, ANY_TAG):
                return message  # type: ignore[no-any-return]
        return None

    def remove(self, message: Message) -> None:
        """Remove a kept message from the mailbox."""
        message.taken = True
        _remove(self.unexpected, (message.cid, message.source), message)

    def _first_of_any(self, cid: int, tag: int) -> Message | None:
        """Return the message for a wildcard receive, the first to arrive; MPI leaves that open."""
        if self.wild is None:
            self.wild = {}
        queue = self.wild.get(cid)
        # Programs that never use a wildcard do not pay for the order of arrival.
        if queue is None:
            kept = [m for (context, _), entry in self.unexpected.items() if context == cid for m in entries_of(entry)]
            queue = self.wild[cid] = deque(sorted(kept, key=lambda message: message.serial))
        while queue and queue[0].taken:
            queue.popleft()
        skipped = 0
        found = None
        for message in queue:
            if message.taken:
                skipped += 1
            elif tag in (message.tag, ANY_TAG):
                found = message
                break
        # Each wildcard receive skips the messages of this queue that others have taken, so it is cleaned periodically.
        if skipped > 64:
            self.wild[cid] = deque(message for message in queue if not message.taken)
        return found

    def all_kept(self) -> list[Message]:
        """Return every message that has arrived and was never received, in order of arrival."""
        if not self.unexpected:  # called for each rank at its end
            return []
        kept = [message for entry in self.unexpected.values() for message in entries_of(entry)]
        return sorted(kept, key=lambda message: message.serial)


class ClosedMailbox(Mailbox):
    """The mailbox of a failed rank: it drops all messages."""

    __slots__ = ()

    def __init__(self, box: Mailbox) -> None:
        super().__init__(box.rank, box.fabric)
        self.knowledge = box.knowledge

    def match(self, message: Message) -> Receive | None:
        """Return None: a failed rank receives nothing."""
        return None

    def keep(self, message: Message) -> None:
        """Drop a message."""


def entries_of(entry: object) -> Any:
    """Return the entries under one key: none, one, or a deque."""
    if entry is None:
        return ()
    return entry if type(entry) is deque else (entry,)


def _append(table: dict[tuple[int, int], Any], key: tuple[int, int], entry: object) -> None:
    there = table.get(key)
    if there is None:
        table[key] = entry
    elif type(there) is deque:
        there.append(entry)
    else:
        table[key] = deque((there, entry))


def _remove(table: dict[tuple[int, int], Any], key: tuple[int, int], entry: object) -> None:
    there = table[key]
    if type(there) is not deque:
        del table[key]
        return
    if there[0] is entry:
        there.popleft()
    else:
        there.remove(entry)
    if not there:
        del table[key]
