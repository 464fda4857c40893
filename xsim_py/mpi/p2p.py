"""Point-to-point messages: envelopes, matching, and the eager and rendezvous protocols.

The rules are those of MPI 4.1, chapter 3 (3.5: messages between two ranks on one communicator do not overtake). The
times are those of `network`:

* eager: the sender pays its overhead o and goes on; the message leaves when its interface is free, takes the time its
  bytes take on the wire, and the latency L; the receiver pays its overhead when it takes the message.
* rendezvous, above the threshold: an envelope (RTS) takes o + L; when it is matched an answer (CTS) takes L; then the
  data leaves. The interfaces do this by themselves, as with a progress thread: neither CPU is needed for it.
* synchronous sends below the threshold carry their data with the envelope, and complete when the match has been
  acknowledged, which takes L.

A message is one `Message`, one entry in the event queue, and one switch of greenlets if the receiver waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

from xsim_py.process import current, patches
from xsim_py.process.grave import keep_for_ever

from .checksum import crc32
from .constants import ANY_SOURCE, ANY_TAG
from .message import EAGER, NOTICE, RENDEZVOUS, SYNCHRONOUS, Message, Operation, Receive, Send
from .places import portable, program_frame
from .settings import HotFabric, Settings
from .state import Grave, Mailbox, thread_changed
from .tally import Tally

if TYPE_CHECKING:
    from xsim_py.network import Cost
    from xsim_py.process.fiber import Fiber
    from xsim_py.process.rank import Rank
    from xsim_py.process.shard import Shard
    from xsim_py.trace import Recorder

    from .arrays.meeting import Meetings
    from .comm import Communicator, Context
    from .detector import Detector
    from .dynamic.launcher import Launcher
    from .ftco.driver import Ftco
    from .revocation import Revocation
    from .ulfm import Repair

__all__ = [
    "BUFFERED_MODE",
    "STANDARD_MODE",
    "SYNC_MODE",
    "Fabric",
    "Settings",
    "complete",
    "raise_error",
    "receive",
    "start_receive",
    "start_send",
    "wait",
]

STANDARD_MODE, SYNC_MODE, BUFFERED_MODE = 0, 1, 2
"""Send modes; a ready send is a standard one."""

_LOG_FULL = 3 << 16
_blank = object.__new__
_frame = sys._getframe
_PLAIN = (int, tuple)


class Fabric(HotFabric):
    """What carries messages between the ranks of a shard and to other shards.

    Parameters
    ----------
    shard : Shard
        Whose ranks it serves.
    network : Network
        Answers what a message costs: ``link(source, dest).cost(size_bytes)``.
    links : SharedLinks or None
        Where messages that meet on a link wait for each other.
    settings : Settings
        What the run and the machine say about the MPI library.

    Attributes
    ----------
    troubled : bool
        Whether there has been a failure or a revocation: calls look closer then.
    detector, revocation, repair, ftco : Detector, Revocation, Repair, Ftco
        Failures and what is done about them.
    launcher : Launcher
        Starts more ranks.
    notices : dict
        Who takes a notice, by its tag: called with the rank and the message.
    returned : dict
        Who has to know of a notice that came to a dead rank, by its tag: called with the sender, that rank, and what
        the notice says.
    inline_end : int
        One more than the last rank that a message may be put into the queue for without `launch`; -1: none.
    shortcuts : bool
        Whether receives may be posted without `Mailbox.post`, and messages used again.
    equally_far : bool
        Whether any two ranks are.
    uniform : dict
        What a message of so many bytes costs, where that is the same between any two ranks; else empty.
    trace : Recorder or None
        Takes down what happens, where the run is traced.
    meetings : Meetings or None
        Where collectives are computed for all their ranks at once; None: all go message by message.
    """

    def __init__(self, shard: Shard, network: Any, links: Any, settings: Settings) -> None:
        self.shard = shard
        shard.fabric = self
        shard.on_thread = thread_changed
        self.kernel = shard.kernel
        self.due = shard.kernel.due
        self.ranks = shard.at
        self.first = shard.first
        self.end = shard.end
        self.inline_end = -1 if links is not None else shard.end
        self.shortcuts = True
        self.uniform = network.uniform
        self.equally_far = network.equally_far
        self.trace: Recorder | None = None
        self.meetings: Meetings | None = None
        self.link = network.link
        self.links = links
        self.settings = settings
        self.preference = settings.collectives
        self.tally = Tally(shard.block, pairs=settings.pairs)
        self.log, self.waited_ps = self.tally.log, self.tally.waited_ps
        self.contexts: WeakValueDictionary[tuple[int, int], Context] = WeakValueDictionary()
        self.digest = 0
        self.serial = 0  # counts what is posted and kept by all ranks; only the order within a rank matters
        self.calls: dict[tuple[str, str, Any], list[int]] = {}
        self.troubled = False
        self.detector: Detector
        self.revocation: Revocation
        self.repair: Repair
        self.ftco: Ftco
        self.launcher: Launcher
        self.notices: dict[int, Callable[[Rank, Message], None]] = {}
        self.returned: dict[int, Callable[[Rank, int, Any], None]] = {}
        self.deliver = self._deliver  # one bound method for all messages
        shard.take_row = self._arrive
        shard.handlers.update(cts=self._clear_to_send, ack=self._acknowledged)
        if links is not None:
            links.connect(shard, self.deliver)
            shard.handlers["shared"] = self._enter

    def open(self, rank: Rank) -> Mailbox:
        """Make the MPI state of a rank, when it first calls MPI or is first sent something."""
        rank.mpi = box = Mailbox(rank, self)
        box.background = len((rank.extra or {}).get("fibers", ()))  # it may have threads already
        return box

    def bury(self, rank: Rank) -> None:
        """A rank has died: what comes for it from now on vanishes."""
        keep_for_ever(rank.mpi)
        rank.mpi = Grave(rank.mpi or self.open(rank))

    # ------------------------------------------------------------------------------------------ the way out

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Let an envelope leave at `start_ps`; it arrives after its time on the wire and the latency."""
        rank.key = key = rank.key + 1
        if self.links is not None and self.links.between(rank.number, message.to):
            way = (rank.number, message.to, message.size_bytes if message.kind == NOTICE else len(message.data))
            self.shard.share(start_ps, key, way, message.to, message)
            return
        message.arrival_ps = arrival = start_ps + wire_ps + latency_ps
        shard = self.shard
        if shard.first <= message.to < shard.end or (message.to >= shard.initial and shard.local(message.to)):
            self.kernel.post(arrival, key, self.deliver, message)
        else:
            m = message
            row = (m.cid, m.source, m.tag, m.data, m.size_bytes, m.kind, m.overhead_ps, m.to, m.origin, m.ticket)
            shard.post_row(m.to, arrival, key, *row, m.check, portable(m))

    def _arrive(self, row: tuple[Any, ...]) -> None:
        """A message from another shard has come, as `launch` has sent it."""
        arrival, _, cid, source, tag, data, size, kind, *rest = row
        self.deliver(Message(cid, source, tag, data, size, kind, arrival, *rest))

    def _enter(self, entry: tuple[int, int, tuple[int, int, int], Message | None]) -> None:
        """A message enters a network whose links are shared; every shard follows every message."""
        self.links.enter(*entry)

    def send_data(self, rank: Rank, send: Send, start_ps: int) -> None:
        """The data of a rendezvous, after the receiver has answered."""
        link = self.link(rank.number, send.to)
        cost = link.cost(len(send.data))
        start_ps = max(start_ps, rank.nic_free_ps)
        rank.nic_free_ps = start_ps + cost.busy_ps
        data = Message(0, 0, 0, send.data, len(send.data), RENDEZVOUS, 0, 0, send.to, rank.number, send.ticket, 0, None)
        self.launch(rank, data, start_ps, cost.wire_ps, cost.latency_ps)
        rank.key += 1
        send.time_ps = start_ps + cost.wire_ps
        self.kernel.post(send.time_ps, rank.key, Operation.complete, send)

    def tell(self, rank: Rank, to: int, tag: int, what: Any, size_bytes: int, at_ps: int) -> int:
        """Send a notice from the MPI library of `rank` to that of rank `to`; when the processor is free again.

        It takes the processor some time, and a rank that dies meanwhile has not sent it.
        """
        cost = self.link(rank.number, to).cost(size_bytes)
        at_ps += cost.send_ps
        message = Message(0, rank.number, tag, b"", size_bytes, NOTICE, 0, cost.receive_ps, to, rank.number, 0, 0, what)
        rank.mpi.background += 1
        if at_ps > self.kernel.now_ps:
            rank.key += 1
            self.kernel.post(at_ps, rank.key, self._told, (rank, message, at_ps, cost))
        else:
            self._told((rank, message, at_ps, cost))
        return at_ps

    def _told(self, entry: tuple[Rank, Message, int, Cost]) -> None:
        """The processor is done with a notice: the interface has it now."""
        rank, message, at_ps, cost = entry
        if type(rank.mpi) is Grave:
            return
        rank.mpi.background -= 1
        start_ps = max(at_ps, rank.nic_free_ps)
        rank.nic_free_ps = start_ps + cost.busy_ps
        self.count(rank.number, (message.to,), message.size_bytes)
        self.launch(rank, message, start_ps, cost.wire_ps, cost.latency_ps)

    def count(self, origin: int, dests: Iterable[int], size_bytes: int) -> None:
        """Note notices that a rank sends, for the statistics."""
        log = self.log
        for dest in dests:
            log += (origin, dest, size_bytes)
        if len(log) >= _LOG_FULL:
            self.tally.add_up()

    def answer(self, rank: Rank, message: Message, handler: str, when_ps: int) -> None:
        """Send an answer without data (CTS, ACK) back to the sender of `message`."""
        latency_ps = self.link(rank.number, message.origin).latency_ps
        rank.key += 1
        self.shard.post_to(message.origin, when_ps + latency_ps, rank.key, handler, (message.origin, message.ticket))

    # ------------------------------------------------------------------------------------------- the way in

    def _deliver(self, message: Message) -> None:
        """An envelope has arrived: match it or keep it."""
        to = message.to
        source = message.source
        tag = message.tag
        arrival = message.arrival_ps
        rank = self.ranks[to - self.first]
        self.digest += hash((arrival, to, source, tag, message.size_bytes, message.check))
        box: Mailbox = rank.mpi or self.open(rank)
        cid = message.cid
        operation = box.lone
        if (
            operation is not None
            and operation.cid == cid
            and operation.source == source
            and (operation.tag == tag or operation.tag == ANY_TAG)
        ):
            # Hot path: what `match` does where this is the only receive that is posted.
            box.lone = None
        elif cid == 0:
            if message.kind != NOTICE:
                self._rendezvous_data(box, message)
                return
            if not self.put_off_for(rank, self.notice, message):
                self.notice(message)
            return
        else:
            operation = box.match(message)
        if operation is None:
            box.keep(message)
        elif message.kind == EAGER:
            operation.message = message
            operation.time_ps = arrival
            operation.overhead_ps = message.overhead_ps
            operation.done = True
            waiter = operation.waiter
            if waiter is not None:
                operation.waiter = None
                waiter.resume()
            elif operation.detached is not None:
                operation.detached(message)
        else:
            self.matched(rank, operation, message, max(arrival, operation.post_ps))

    def put_off_for(self, rank: Rank, handler: Callable[[Any], object], argument: Any) -> bool:
        """Whether the library's work on a rank is put off until that waits in no call; see `Meetings.put_off_for`.

        An event handler asks before it does anything to a rank's interface, keys or operations.
        """
        return self.meetings is not None and self.meetings.put_off_for(rank, handler, argument)

    def notice(self, message: Message) -> None:
        """A notice has arrived: its kind's handler takes it, or its sender learns that nobody does."""
        rank = self.ranks[message.to - self.first]
        if type(rank.mpi) is not Grave:
            self.notices[message.tag](rank, message)
        elif message.tag in self.returned:
            self.detector.give_back(rank, message)

    def matched(self, rank: Rank, operation: Receive, message: Message, when_ps: int) -> None:
        """A receive and an envelope have found each other at `when_ps`. True to the protocol of the envelope."""
        operation.message = message
        operation.overhead_ps = message.overhead_ps
        if message.kind == RENDEZVOUS:
            if self.troubled:
                operation.error = self.detector.lost(rank, message)
                if operation.error is not None:
                    operation.time_ps = when_ps
                    operation.complete()
                    return
            box: Mailbox = rank.mpi
            box.await_data(message.origin, message.ticket, operation)
            self.answer(rank, message, "cts", when_ps)
            return
        if message.kind == SYNCHRONOUS:
            self.answer(rank, message, "ack", when_ps)
        operation.time_ps = message.arrival_ps
        operation.complete()
        if operation.detached is not None:
            operation.detached(message)

    def _clear_to_send(self, argument: tuple[int, int]) -> None:
        number, ticket = argument
        rank = self.shard.rank(number)
        send = rank.mpi.sends.pop(ticket, None)
        if send is not None:  # the sender may have died, or given up
            self.send_data(rank, send, self.kernel.now_ps)

    def _acknowledged(self, argument: tuple[int, int]) -> None:
        number, ticket = argument
        send: Send | None = self.shard.rank(number).mpi.sends.pop(ticket, None)
        if send is not None:
            send.time_ps = self.kernel.now_ps
            send.complete()

    def _rendezvous_data(self, box: Mailbox, message: Message) -> None:
        operation = box.tickets.pop((message.origin, message.ticket), None)
        if operation is None:  # the receiver has died, or given up
            return
        assert operation.message is not None
        operation.message.data = message.data
        operation.message.arrival_ps = operation.time_ps = message.arrival_ps
        operation.complete()
        if operation.detached is not None:
            operation.detached(operation.message)


# ------------------------------------------------------------------------------------------------ the calls


def start_send(
    comm: Communicator, dest: int, tag: int, data: bytes, cid: int, mode: int, name: str, check: bool, about: Any = 3
) -> Send | None:
    """Begin a send in the running fiber, which pays the overhead.

    Hot path: call it without names of arguments, which take Python longer. `about` is what a collective says of itself,
    or else how many calls inside the program's this one is; 0 where that is not known, or the place of
    the program itself.

    Returns None where the send is complete for the sender already (eager or buffered), else what to wait for.
    """
    fiber: Any = current.fiber
    rank = fiber.rank
    origin = rank.number
    fabric = comm.fabric
    to = comm.whom[dest]
    if fabric.troubled:
        fabric.detector.admit(comm, to, collective=type(about) not in _PLAIN)
    size = len(data)
    cost = fabric.uniform.get(size)
    if cost is None or to == origin:
        link = fabric.link(origin, to)
        cost = link.cache.get(size) or link.cost(size)
    fiber.clock_ps = start = fiber.clock_ps + cost.send_ps
    box = comm.box
    if box.sends or box.background:
        fiber.sync()  # the interface goes to who wants it first: an answered rendezvous or another fiber, perhaps
        if fabric.troubled:
            fabric.detector.admit(comm, to, collective=type(about) not in _PLAIN)  # news may have come meanwhile
    if rank.nic_free_ps > start:
        start = rank.nic_free_ps
    log = fabric.log
    log.append(origin)
    log.append(to)
    log.append(size)
    crc = crc32(data) if check else 0
    note, at = about, 0
    if type(about) is int:
        frame = _frame(about + patches.layers) if about else program_frame(_frame(1))
        note, at = frame.f_code, frame.f_lasti
    if not cost.eager or mode == SYNC_MODE:
        send = Send(comm, dest, tag, data, name, fiber.clock_ps)
        return _start_with_answer(fiber, send, cid, mode, start, crc, (note, at) if at else note, cost)
    rank.nic_free_ps = start + cost.busy_ps
    # Hot path: what `Message(...)` and `launch` do, in half the time, and less where an old one is used again.
    message, box.used = box.used, None
    if message is None:
        message = _blank(Message)
        message.kind = EAGER
    message.cid = cid
    message.source = comm.me
    message.tag = tag
    message.data = data
    message.size_bytes = size
    message.arrival_ps = arrival = start + cost.wire_ps + cost.latency_ps
    message.overhead_ps = cost.receive_ps
    message.to = to
    message.origin = origin
    message.check = crc
    message.note = note
    message.ticket = at
    if fabric.first <= to < fabric.inline_end:
        rank.key = key = rank.key + 1
        there = fabric.due.get(arrival)
        if there is not None:
            there.append((key, fabric.deliver, message))
            return None
        fabric.kernel.post(arrival, key, fabric.deliver, message)
    else:
        fabric.launch(rank, message, start, cost.wire_ps, cost.latency_ps)
    # At least once for each time of arrival: the log is never much longer than what is under way.
    if len(log) >= _LOG_FULL:
        fabric.tally.add_up()
    return None


def _start_with_answer(
    fiber: Fiber, send: Send, cid: int, mode: int, start_ps: int, crc: int, note: Any, cost: Cost
) -> Send | None:
    """Let the envelope of a send leave that waits for an answer: by rendezvous, or synchronous. As `start_send`."""
    send.note = None if type(note) is tuple else note
    send.buffered = mode == BUFFERED_MODE
    comm, rank, to, data = send.comm, fiber.rank, send.to, send.data
    fabric = comm.fabric
    size = len(data)
    comm.box.register(send)
    wire_ps = cost.wire_ps
    if cost.eager:
        rank.nic_free_ps = start_ps + cost.busy_ps
        kind = SYNCHRONOUS
    else:
        kind, data, wire_ps = RENDEZVOUS, b"", 0
    ticket = send.ticket
    message = Message(cid, comm.me, send.tag, data, size, kind, 0, cost.receive_ps, to, rank.number, ticket, crc, note)
    fabric.launch(rank, message, start_ps, wire_ps, cost.latency_ps)
    if fabric.troubled:
        fabric.detector.watch(send)
    return None if send.buffered else send


def start_receive(comm: Communicator, source: int, tag: int, cid: int, name: str, note: Any = None) -> Receive:
    """Post a receive in the running fiber."""
    fiber: Any = current.fiber
    if source == ANY_SOURCE:
        fiber.sync()
    box = comm.box
    fabric = comm.fabric
    if fabric.troubled:
        fabric.detector.admit(comm, comm.remote[source] if source >= 0 else None, collective=note is not None)
    operation: Receive = _blank(Receive)  # hot path: what its `__init__` does, in half the time
    operation.done = operation.cancelled = False
    operation.time_ps = operation.overhead_ps = operation.serial = 0
    operation.waiter = operation.error = operation.message = operation.detached = None
    operation.comm = comm
    operation.cid = cid
    operation.source = source
    operation.tag = tag
    operation.post_ps = fiber.clock_ps
    operation.name = name
    operation.note = note
    message = box.take(cid, source, tag) if box.unexpected else None
    if message is None:
        box.post(operation)
    elif message.kind == EAGER:
        operation.message = message
        operation.done = True
        operation.time_ps = message.arrival_ps
        operation.overhead_ps = message.overhead_ps
    else:
        fabric.matched(fiber.rank, operation, message, fiber.clock_ps)
    if fabric.troubled and not operation.done:
        fabric.detector.watch(operation)
    return operation


def receive(comm: Communicator, source: int, tag: int, cid: int, name: str, note: Any = None) -> Message:
    """Receive in the running fiber, which waits until the message is here and pays the overhead.

    Take out of the message what is wanted before the next call: that may send it on as another one.
    """
    fiber: Any = current.fiber
    if source == ANY_SOURCE:
        fiber.sync()
    box = comm.box
    fabric = comm.fabric
    message = None
    if fabric.troubled:
        fabric.detector.admit_receive(comm, source, note)
    if box.unexpected:
        message = box.take(cid, source, tag)
        if message is not None and message.kind == EAGER:
            fiber.clock_ps += message.overhead_ps
            return message
    operation = box.spare
    if operation is None:
        operation = Receive(comm, cid, source, tag, fiber.clock_ps, name, note)
    else:
        # Hot path: the one of this rank's last blocking receive again, which nobody else knows any more.
        box.spare = None
        operation.done = False
        operation.comm = comm
        operation.cid = cid
        operation.source = source
        operation.tag = tag
        operation.post_ps = fiber.clock_ps
        operation.name = name
        operation.note = note
    if message is not None:
        fabric.matched(fiber.rank, operation, message, fiber.clock_ps)
    elif box.lone is None and not box.posted and box.posted_any is None and source != ANY_SOURCE and fabric.shortcuts:
        box.lone = operation  # hot path: what `post` does where this is the only one
    else:
        box.post(operation)
    if not operation.done:
        if fabric.troubled:
            fabric.detector.watch(operation)
        operation.waiter = fiber
        fiber.park(operation)
    message = operation.message
    if message is None:
        fabric.detector.give_up(operation)
    if operation.error is not None:  # an envelope without its data is no message
        fabric.detector.give_up(operation)
    operation.message = None
    box.spare = operation
    if message.kind == EAGER and fabric.shortcuts:
        box.used = message
    arrival = message.arrival_ps
    clock = fiber.clock_ps
    if arrival > clock:
        fabric.waited_ps[box.place] += arrival - clock
        clock = arrival
    fiber.clock_ps = clock + message.overhead_ps
    return message


def wait(operation: Operation) -> None:
    """Let the running fiber wait for one operation, and pay for its completion; raises what has ended it."""
    complete(operation)
    if operation.error is not None:
        raise_error(operation)


def raise_error(operation: Any) -> NoReturn:
    """Raise what has ended an operation of a blocking call, after the communicator's error handler has seen it."""
    operation.comm.report(operation.error)
    raise operation.error


def complete(operation: Operation) -> None:
    """The same, but leave an error in the operation for who completes the request."""
    fiber = current.fiber
    assert fiber is not None
    if not operation.done:
        fabric = fiber.rank.mpi.fabric
        if fabric.troubled:
            fabric.detector.admit_wait(operation)
        operation.waiter = fiber
        fiber.park(operation)
        while not operation.done:
            fabric.detector.pending(operation)
            operation.waiter = fiber
            fiber.park(operation)
    if operation.time_ps > fiber.clock_ps:
        box = fiber.rank.mpi
        box.fabric.tally.waited_ps[box.place] += operation.time_ps - fiber.clock_ps
        fiber.clock_ps = operation.time_ps
    fiber.clock_ps += operation.overhead_ps
