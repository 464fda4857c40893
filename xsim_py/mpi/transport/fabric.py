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

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from xsim_py.mpi.constants import ANY_TAG
from xsim_py.process.ranks.dead_objects import keep

from .call_order import CallOrder
from .mailbox import ClosedMailbox, Mailbox
from .message import (
    CONTROL,
    EAGER,
    RENDEZVOUS,
    SYNCHRONOUS,
    FlippedData,
    HungProcess,
    Message,
    Operation,
    Receive,
    Send,
)
from .tally import Tally

if TYPE_CHECKING:
    from xsim_py.failure import Flip, Hang
    from xsim_py.mpi.settings import Settings
    from xsim_py.network import Cost
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Shard
    from xsim_py.schedules import MadeChoice
    from xsim_py.trace import Recorder

    from .kept import Kept
    from .protocols import ControlHandler, Guard, LibraryPart

_LOG_FULL = 3 << 16

T = TypeVar("T")
APart = TypeVar("APart", bound="LibraryPart")


class HotFabric:
    """The slots that every message needs of a `Fabric`: Python finds them in half the time."""

    __slots__ = (
        "deliver",
        "digest",
        "due",
        "first",
        "inline_end",
        "log",
        "ranks",
        "shortcuts",
        "trace",
        "troubled",
        "uniform",
        "waited_ps",
    )


class Fabric(HotFabric):
    """Carries messages between the ranks of a shard and to other shards.

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
        Whether there has been a failure or a revocation: calls ask the guard then.
    kept : Kept or None
        What calls have left as it was in receive buffers.
    guard : Guard
        Knows which operations can not be completed.
    bounce : callable
        Called with a dead rank and a control message that came to it, and whose sender has to know.
    on_silence : callable
        Told of a rank that stands still from now on, until when, and of the cause of its death if that is one: whether
        it is.
    parts : dict of type to object
        What is built upon this transport, by class; see `part`.
    control : dict of int to ControlHandler
        What takes control messages, by their tag.
    inline_end : int
        One more than the last rank that a message may be put into the queue for without `launch`; -1: none.
    shortcuts : bool
        Whether receives may be posted without `Mailbox.post`, and messages used again.
    equally_far : bool
        Whether any two ranks are.
    alike : bool
        Whether all members of a collective get the same out of it: what follows is made once for all of a shard.
    in_order : bool
        Whether the network itself keeps the messages of one rank to another one in order.
    uniform : dict
        What a message of so many bytes costs, where that is the same between any two ranks; else empty.
    trace : Recorder or None
        Takes down what happens, where the run is traced.
    meetings : Meetings or None
        A `Deferral`: where collectives are computed for all their ranks at once; None: all go message by message.
    order : CallOrder
        Which collectives ranks have begun, as far as they differ.
    """

    mailbox_class: type[Mailbox] = Mailbox
    alike = True
    in_order = True

    def __init__(self, shard: Shard, network: Any, links: Any, settings: Settings) -> None:
        self.shard = shard
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
        self.meetings: Any = None
        self.order = CallOrder(self)
        self.link = network.link
        self.links = links
        self.settings = settings
        self.tally = Tally(shard.block, pairs=settings.pairs)
        self.log, self.waited_ps = self.tally.log, self.tally.waited_ps
        self.contexts: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()
        self.digest = 0
        self.serial = 0  # counts what is posted and kept by all ranks; only the order within a rank matters
        self.calls: dict[tuple[str, str, Any], list[int]] = {}
        self.troubled = False
        self.kept: Kept | None = None
        self.guard: Guard
        self.bounce: Callable[[Rank, Message], None] = _nobody_minds
        self.on_silence: Callable[[Rank, int, str], bool] = _nobody_notices
        self.parts: dict[type, Any] = {}
        self.control: dict[int, ControlHandler] = {}
        self.deliver = self._deliver  # one bound method for all messages

    def connect(self) -> None:
        """Have the shard give to this transport what other shards send to its ranks, and say when threads begin."""
        shard = self.shard
        shard.fabric = self
        shard.take_row = self.arrive
        shard.on_thread = _thread_changed
        shard.handlers.update(self.events())
        if self.links is not None:
            self.links.connect(shard, self.deliver)

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return what handles the events of messages that may come from other shards, by their names."""
        return {"cts": self._clear_to_send, "ack": self._acknowledged, "shared": self._enter}

    def add(self, part: APart) -> APart:
        """Have a part of the MPI library take its control messages and events; return it."""
        self.parts[type(part)] = part
        self.control.update(part.control())
        self.shard.handlers.update(part.events())
        return part

    def part(self, kind: type[T]) -> T:
        """Return the part of the MPI library that is of this class."""
        found: T = self.parts[kind]
        return found

    def open(self, rank: Rank) -> Mailbox:
        """Make the MPI state of a rank, when it first calls MPI or is first sent something."""
        rank.mpi = box = self.mailbox_class(rank, self)
        box.background = len((rank.extra or {}).get("fibers", ()))  # it may have threads already
        return box

    def close(self, rank: Rank) -> None:
        """Have what comes for a rank from now on vanish: it has died."""
        # What its receives and buffers hold are objects of a dead program, whose ``__del__`` must not run.
        keep(rank.mpi)
        rank.mpi = ClosedMailbox(rank.mpi or self.open(rank))

    # ------------------------------------------------------------------------------------------ the way out

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Let an envelope leave at `start_ps`; it arrives after its time on the wire and the latency."""
        rank.key = key = rank.key + 1
        if self.links is not None and self.links.between(rank.number, message.to):
            size = message.size_bytes if message.kind == CONTROL else len(message.data)
            if message.kind == RENDEZVOUS and message.cid:
                size = -1  # it asks: no bytes, and no header
            way = (rank.number, message.to, size)
            self.shard.share(start_ps, key, way, message.to, message)
            return
        message.arrival_ps = arrival = start_ps + wire_ps + latency_ps
        shard = self.shard
        if shard.first <= message.to < shard.end or (message.to >= shard.initial and shard.local(message.to)):
            self.kernel.post(arrival, key, self.deliver, message)
        else:
            shard.post_row(message.to, arrival, key, *message.row())

    def arrive(self, row: tuple[Any, ...]) -> None:
        """Deliver a message that another shard has sent, as `launch` does it: its time, its event key, and its row."""
        self.deliver(Message(row[0], *row[2:]))

    def inject(self, rank: Rank, message: Message, cost: Cost, at_ps: int) -> int:
        """Give a message to the network interface of a rank at `at_ps`; return when its last byte has left."""
        start_ps = occupy_nic(rank, at_ps, cost.busy_ps)
        self.launch(rank, message, start_ps, cost.wire_ps, cost.latency_ps)
        return start_ps + cost.wire_ps

    def _enter(self, entry: tuple[int, int, tuple[int, int, int], Message | None]) -> None:
        """Let a message enter a network whose links are shared; every shard follows every message."""
        self.links.enter(*entry)

    def send_data(self, rank: Rank, send: Send, start_ps: int) -> None:
        """Let the data of a rendezvous leave: the receiver has answered."""
        size = len(send.data)
        # By position: to name the arguments of a call costs a few hundred instructions.
        data = Message(0, 0, 0, 0, send.data, size, RENDEZVOUS, 0, send.to, rank.number, send.ticket, 0, None)
        send.time_ps = self.inject(rank, data, self.link(rank.number, send.to).cost(size), start_ps)
        if self.links is not None and self.links.hold(rank, send):
            return
        rank.key += 1
        self.kernel.post(send.time_ps, rank.key, Operation.complete, send)

    def send_control(self, rank: Rank, to: int, tag: int, what: Any, size_bytes: int, at_ps: int) -> int:
        """Send a control message from the MPI library of `rank` to that of rank `to`; when the processor is free again.

        It takes the processor some time, and a rank that dies meanwhile has not sent it.
        """
        cost = self.link(rank.number, to).cost(size_bytes)
        at_ps += cost.send_ps
        message = Message.control(rank.number, to, tag, what, size_bytes, overhead_ps=cost.receive_ps)
        # Until it has left, the rank's own sends look at the interface only when the queue has come to their time.
        rank.mpi.background += 1
        if at_ps > self.kernel.now_ps:
            rank.key += 1
            self.kernel.post(at_ps, rank.key, self._control_ready, (rank, message, at_ps, cost))
        else:
            self._control_ready((rank, message, at_ps, cost))
        return at_ps

    def _control_ready(self, entry: tuple[Rank, Message, int, Cost]) -> None:
        """Give a control message to the interface: the processor is done with it."""
        rank, message, at_ps, cost = entry
        if type(rank.mpi) is ClosedMailbox:
            return
        rank.mpi.background -= 1
        self.count(rank.number, (message.to,), message.size_bytes)
        self.inject(rank, message, cost, at_ps)

    def count(self, origin: int, dests: Iterable[int], size_bytes: int) -> None:
        """Note control messages that a rank sends, for the statistics."""
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
        """Match an envelope that has arrived, or keep it."""
        to = message.to
        source = message.source
        tag = message.tag
        arrival = message.arrival_ps
        rank = self.ranks[to - self.first]
        # CPython's hash of a tuple of whole numbers is the same in every process, and BLAKE2b would cost more than the
        # message. A sum does not depend on the order in which shards come to their messages.
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
        # Context 0 is of no communicator: a control message, or the data of a rendezvous whose envelope was matched
        # before.
        elif cid == 0:
            if message.kind != CONTROL:
                self._rendezvous_data(box, message)
                return
            if not self.put_off_for(rank, self.take_control, message):
                self.take_control(message)
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

    def waited(self, what: Any, start_ps: int, end_ps: int) -> None:
        """Note that the running fiber has waited; only a traced run is told."""

    def entered(self, comm: Any, number: int, note: Any) -> None:
        """Note that the running fiber enters a collective; only a traced run is told."""

    def choices(self) -> list[MadeChoice]:
        """Return what the ranks have chosen where MPI leaves that open; none where the run has no schedule."""
        return []

    def await_flips(self, flips: Iterable[Flip]) -> None:
        """Have bits of messages and arrays change; only `flipping` fabrics are told of any."""

    def await_hangs(self, hangs: Iterable[Hang]) -> None:
        """Have processes stand still; only `hanging` fabrics are told of any."""

    def hung(self) -> list[HungProcess]:
        """Return the processes that have stood still; none where the run has no transient failures."""
        return []

    def flipped(self) -> list[FlippedData]:
        """Return the bits of messages and arrays that have changed; none where the run has no soft errors."""
        return []

    def put_off_for(self, rank: Rank, handler: Callable[[Any], object], argument: Any) -> bool:
        """Return whether the library's work on a rank is put off until that waits in no call; see `Deferral`.

        An event handler asks before it does anything to a rank's interface, keys or operations.
        """
        return self.meetings is not None and self.meetings.put_off_for(rank, handler, argument)

    def take_control(self, message: Message) -> None:
        """Give a control message that has arrived to the handler of its kind; to a dead rank it bounces."""
        rank = self.ranks[message.to - self.first]
        handler = self.control[message.tag]
        if type(rank.mpi) is not ClosedMailbox:
            handler.take(rank, message)
        elif handler.bounced is not None:
            self.bounce(rank, message)

    def matched(self, rank: Rank, operation: Receive, message: Message, when_ps: int) -> None:
        """Go on with the protocol of an envelope that has met its receive at `when_ps`."""
        operation.message = message
        operation.overhead_ps = message.overhead_ps
        if message.kind == RENDEZVOUS:
            if self.troubled:
                operation.error = self.guard.lost(rank, message)
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


def occupy_nic(rank: Rank, at_ps: int, busy_ps: int) -> int:
    """Have a rank's network interface send for a time, from `at_ps` or from when it is free; return when it begins."""
    start_ps = max(at_ps, rank.nic_free_ps)
    rank.nic_free_ps = start_ps + busy_ps
    return start_ps


def _thread_changed(rank: Rank, change: int) -> None:
    """Count a thread of the program that has begun or ended: more than one fiber sends, or no more."""
    if rank.mpi is not None:
        rank.mpi.background += change


def _nobody_notices(*_: object) -> bool:
    return False


def _nobody_minds(rank: Rank, message: Message) -> None:
    """Control messages to a dead rank vanish."""
