"""Point-to-point messages: envelopes, matching, and the eager and rendezvous protocols.

The rules are those of MPI 4.1, chapter 3 (3.5: messages between two ranks on one communicator do not overtake). The
times are those of `network`:

* eager: the sender pays its overhead o and continues; the message leaves when its NIC is free, takes the time of its
  bytes on the wire, and the latency L; the receiver pays its overhead when it takes the message.
* rendezvous, above the threshold: an envelope (RTS) takes o + L; when it is matched, a reply (CTS) takes L; then the
  data leave. The NICs do this by themselves, as with a progress thread: no CPU is involved.
* synchronous sends below the threshold carry their data with the envelope, and complete when the match has been
  acknowledged, which takes L.

A message is one `Message`, one entry in the event queue, and one switch of greenlets if the receiver waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from xsim_py.mpi.constants import ANY_TAG
from xsim_py.process.ranks.dead_objects import keep
from xsim_py.process.ranks.fiber import Fiber, stop_at

from .call_order import CallOrder
from .mailbox import ClosedMailbox, Mailbox
from .message import CONTROL, EAGER, RENDEZVOUS, SYNCHRONOUS, Message, Operation, Receive, Send
from .tally import Tally

if TYPE_CHECKING:
    from xsim_py.failure.fault import Fault
    from xsim_py.mpi.settings import Settings
    from xsim_py.network import Cost
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Shard
    from xsim_py.schedules import MadeChoice
    from xsim_py.trace import Recorder

    from .protocols import ControlHandler, Endpoint, Guard, LibraryPart
    from .unchanged_blocks import UnchangedBlocks

_LOG_FULL = 3 << 16

T = TypeVar("T")
APart = TypeVar("APart", bound="LibraryPart")


class HotFabric:
    """The slots of a `Fabric` that every message uses: Python finds them in half the time."""

    __slots__ = (
        "deliver",
        "digest",
        "due",
        "failure_seen",
        "first",
        "inline_end",
        "log",
        "ranks",
        "shortcuts",
        "trace",
        "uniform",
        "waited_ps",
    )


class Carrier:
    """A step on the way of all messages, in runs that need it: jitter, order, faults.

    Carriers act in the order in which a fabric uses them (`Fabric.use`), before its own steps; each begins with the
    times of the one before. The defaults change nothing.
    """

    launches = True
    """Whether it sees messages when they are sent: then none is queued without `Fabric.launch`."""

    def attach(self, fabric: Fabric) -> None:
        """Join a fabric that is not connected yet."""
        self.fabric = fabric

    def launch(
        self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int
    ) -> tuple[int, int, int]:
        """Return when an envelope leaves, and its time on the wire and latency."""
        return start_ps, wire_ps, latency_ps

    def answer(self, rank: Rank, message: Message, when_ps: int) -> int:
        """Return when a reply without data leaves."""
        return when_ps

    def events(self, handlers: dict[str, Callable[[Any], None]]) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of events that other shards may send, by name."""
        return handlers

    def defers(self, rank: Rank, handler: Callable[[Any], object], argument: object) -> bool:
        """Return True if it calls ``handler(argument)`` later, or never."""
        return False


class FaultCarrier(Carrier):
    """Simulates all faults of one kind; a rank that has some takes part in collectives message by message."""

    def __init__(self, name: str) -> None:
        self.name = name  # of the kind
        self.pending: dict[int, list[Any]] = {}  # by rank
        self.occurred: list[tuple[int, Any, tuple[Any, ...]]] = []  # see `ShardResult.faults`

    def schedule(self, faults: Sequence[Any]) -> None:
        """Schedule the faults of one start of the job in all shards; called before any rank runs."""
        fabric = self.fabric
        for fault in faults:
            if fabric.instances is not None:
                fabric.instances.deaths.pop(fault.rank, None)
            if fabric.shard.local(fault.rank):
                self.install(fabric.shard.rank(fault.rank), fault)

    def install(self, rank: Rank, fault: Any) -> None:
        """Let a fault of a rank of this shard wait for the rank's messages."""
        stop_at(rank, None)
        self.pending.setdefault(rank.number, []).append(fault)

    def note(self, fault: Fault, time_ps: int, *cells: object) -> None:
        """Record that a fault has occurred; `cells` are its values in the further columns of its table."""
        self.occurred.append((time_ps, fault, cells))


class Fabric(HotFabric):
    """The transport of messages between the ranks of a shard and to other shards."""

    mailbox_class: type[Mailbox] = Mailbox
    alike = True
    """Whether all members of a collective get the same result: then it is made once for all of a shard."""
    in_order = True
    """Whether the network itself keeps the messages between two ranks in order."""

    def __init__(self, shard: Shard, network: Any, links: Any, settings: Settings) -> None:
        self.shard = shard
        self.kernel = shard.kernel
        self.due = shard.kernel.due
        self.ranks = shard.at
        self.first = shard.first
        self.end = shard.end
        # One more than the last rank for which messages may be queued without `launch`; -1: none.
        self.inline_end = -1 if links is not None else shard.end
        self.shortcuts = True  # whether receives may bypass `Mailbox.post`, and messages be reused
        self.uniform = network.uniform  # the costs by message size, if equal between any two ranks; else empty
        self.equally_far = network.equally_far  # whether any two ranks are equally far apart
        self.trace: Recorder | None = None  # of a traced run
        # A `Deferral`: the vectorised collectives; None: all messages are simulated individually.
        self.instances: Any = None
        self.order = CallOrder(self)  # the collectives that ranks have begun, as far as they differ
        self.link = network.link  # the message costs: ``link(source, dest).cost(size_bytes)``
        self.links = links  # the links on which messages contend, a `SharedLinks`; or None
        self.settings = settings
        self.tally = Tally(shard.block, pairs=settings.pairs)
        self.log, self.waited_ps = self.tally.log, self.tally.waited_ps
        self.contexts: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()
        self.digest = 0
        self.serial = 0  # counts what all ranks post and keep; only the order within a rank matters
        self.calls: dict[tuple[str, str, Any], list[int]] = {}
        # Whether there has been a failure or a revocation: from then on calls consult the guard.
        self.failure_seen = False
        self.unchanged_blocks: UnchangedBlocks | None = None  # those that calls have left unchanged in receive buffers
        self.guard: Guard  # knows which operations cannot complete
        # Fibers and communicators whose errors do not go to the program's handlers: a layer deals with them.
        self.attempts: list[tuple[Fiber | None, Endpoint]] = []
        # Called with a failed rank and a control message that reached it, and whose sender must be notified.
        self.bounce: Callable[[Rank, Message], None] = _drop
        # Called with a rank that is silent from now on, until when, and the cause of its failure if it is declared
        # failed; returns whether it is.
        self.on_silence: Callable[[Rank, int, str], bool] = _not_detected
        self.parts: dict[type, Any] = {}  # the parts of the library built on this transport, by class; see `part`
        self.control: dict[int, ControlHandler] = {}  # the handlers of control messages, by tag
        self.carriers: tuple[Carrier, ...] = ()
        # One bound method for all messages; a carrier replaces it.
        self.deliver = self._deliver
        self.launch = self.transmit
        self.control_ready = self._control_ready

    def use(self, carrier: Carrier) -> None:
        """Let messages pass a carrier after those used before; before `connect`."""
        self.carriers += (carrier,)
        if carrier.launches:
            self.inline_end = -1
            self.launch = self._launch_by_carriers
        carrier.attach(self)

    def fault_carriers(self) -> list[FaultCarrier]:
        """Return the carriers that simulate faults, one for each kind in this run."""
        return [carrier for carrier in self.carriers if isinstance(carrier, FaultCarrier)]

    def _launch_by_carriers(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        for carrier in self.carriers:
            start_ps, wire_ps, latency_ps = carrier.launch(rank, message, start_ps, wire_ps, latency_ps)
        self.transmit(rank, message, start_ps, wire_ps, latency_ps)

    def connect(self) -> None:
        """Register with the shard for messages of other shards and for begins and ends of threads."""
        shard = self.shard
        shard.fabric = self
        shard.take_row = self.arrive
        shard.on_thread = _thread_changed
        handlers = self.events()
        for carrier in self.carriers:
            handlers = carrier.events(handlers)
        shard.handlers.update(handlers)
        if self.links is not None:
            self.links.connect(shard, self.deliver)

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of events that other shards may send, by name."""
        return {"cts": self._clear_to_send, "ack": self._acknowledged, "shared": self._enter}

    def add(self, part: APart) -> APart:
        """Register the handlers of control messages and events of a part of the MPI library.

        Return the part.
        """
        self.parts[type(part)] = part
        self.control.update(part.control())
        self.shard.handlers.update(part.events())
        return part

    def part(self, kind: type[T]) -> T:
        """Return the part of the MPI library with this class."""
        found: T = self.parts[kind]
        return found

    def open(self, rank: Rank) -> Mailbox:
        """Create the MPI state of a rank, on its first MPI call or first incoming message."""
        rank.mpi = box = self.mailbox_class(rank, self)
        box.background = len((rank.extra or {}).get("fibers", ()))  # it may have threads already
        return box

    def close(self, rank: Rank) -> None:
        """Discard later messages to a rank: it has failed."""
        # Its receives and buffers hold objects of a killed program, whose ``__del__`` must not run.
        keep(rank.mpi)
        rank.mpi = ClosedMailbox(rank.mpi or self.open(rank))

    def withdraw(self, rank: Rank) -> None:
        """Give up the operations of a rank whose end ends the job: it takes and sends nothing more.

        Messages to it are kept until the others are notified, as those that arrive at a process that has ended.
        """
        box = rank.mpi
        for operation in box.pending() if box is not None else ():
            box.give_up(operation)
            keep(operation)

    # ------------------------------------------------------------------------------------------ outgoing

    def transmit(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Send an envelope at `start_ps`; it arrives after its time on the wire and the latency."""
        rank.key = key = rank.key + 1
        if self.links is not None and self.links.between(rank.number, message.to):
            size = message.size_bytes if message.kind == CONTROL else len(message.data)
            if message.kind == RENDEZVOUS and message.cid:
                size = -1  # a request: no bytes, and no header
            ends = (rank.number, message.to, size)
            self.shard.share(start_ps, key, ends, message.to, message)
            return
        message.arrival_ps = arrival = start_ps + wire_ps + latency_ps
        shard = self.shard
        if shard.first <= message.to < shard.end or (message.to >= shard.initial and shard.local(message.to)):
            self.kernel.post(arrival, key, self.deliver, message)
        else:
            shard.post_row(message.to, arrival, key, *message.row())

    def arrive(self, row: tuple[Any, ...]) -> None:
        """Deliver a message of another shard from the arguments of `Shard.post_row`: time, event key, and row."""
        self.deliver(Message(row[0], row[2:]))

    def inject(self, rank: Rank, message: Message, cost: Cost, at_ps: int) -> int:
        """Pass a message to the NIC of a rank at `at_ps`; return when its last byte has left."""
        start_ps = occupy_nic(rank, at_ps, cost.busy_ps)
        self.launch(rank, message, start_ps, cost.wire_ps, cost.latency_ps)
        return start_ps + cost.wire_ps

    def _enter(self, entry: tuple[int, int, tuple[int, int, int], Message | None]) -> None:
        """Inject a message into a network with shared links; every shard follows every message."""
        self.links.enter(*entry)

    def send_data(self, rank: Rank, send: Send, start_ps: int) -> None:
        """Send the data of a rendezvous: the receiver has replied."""
        size = len(send.data)
        data = Message(0, (0, 0, 0, send.data, size, RENDEZVOUS, 0, send.to, rank.number, send.ticket, 0, None))
        send.time_ps = self.inject(rank, data, self.link(rank.number, send.to).cost(size), start_ps)
        if self.links is not None and self.links.hold(rank, send):
            return
        rank.key += 1
        self.kernel.post(send.time_ps, rank.key, Operation.complete, send)

    def send_control(self, rank: Rank, to: int, tag: int, what: object, size_bytes: int, at_ps: int) -> int:
        """Send a control message to the MPI library of rank `to`; return when the CPU is free again.

        It takes the CPU some time, and a rank that fails meanwhile has not sent it.
        """
        cost = self.link(rank.number, to).cost(size_bytes)
        at_ps += cost.send_ps
        message = Message.control(rank.number, to, tag, what, size_bytes, overhead_ps=cost.receive_ps)
        # Until it has left, the rank's own sends check the NIC only when the queue has reached their time.
        rank.mpi.background += 1
        if at_ps > self.kernel.now_ps:
            rank.key += 1
            self.kernel.post(at_ps, rank.key, self.control_ready, (rank, message, at_ps, cost))
        else:
            self.control_ready((rank, message, at_ps, cost))
        return at_ps

    def _control_ready(self, entry: tuple[Rank, Message, int, Cost]) -> None:
        """Pass a control message to the NIC: the CPU has finished with it."""
        rank, message, at_ps, cost = entry
        if type(rank.mpi) is ClosedMailbox:
            return
        rank.mpi.background -= 1
        self.count(rank.number, (message.to,), message.size_bytes)
        self.inject(rank, message, cost, at_ps)

    def count(self, origin: int, dests: Iterable[int], size_bytes: int) -> None:
        """Count control messages of a rank, for the statistics."""
        log = self.log
        for dest in dests:
            log += (origin, dest, size_bytes)
        if len(log) >= _LOG_FULL:
            self.tally.add_up()

    def answer(self, rank: Rank, message: Message, handler: str, when_ps: int) -> None:
        """Send a reply without data (CTS, ACK) to the sender of `message`.

        The clock of a fiber may be ahead of the kernel, and another fiber may end the process before that time.
        """
        reply = rank, message, handler, when_ps
        if when_ps > self.kernel.now_ps and rank.mpi.background and self.shard.fault_tolerant:
            rank.key += 1
            self.kernel.post(when_ps, rank.key, self._reply, reply)
        else:
            self._reply(reply)

    def _reply(self, reply: tuple[Rank, Message, str, int]) -> None:
        rank, message, handler, when_ps = reply
        if type(rank.mpi) is ClosedMailbox:
            return
        latency_ps = self.link(rank.number, message.origin).latency_ps
        for carrier in self.carriers:
            when_ps = carrier.answer(rank, message, when_ps)
        rank.key += 1
        self.shard.post_to(message.origin, when_ps + latency_ps, rank.key, handler, (message.origin, message.ticket))

    # ------------------------------------------------------------------------------------------ incoming

    def _deliver(self, message: Message) -> None:
        """Match an envelope that has arrived, or keep it."""
        to = message.to
        source = message.source
        tag = message.tag
        arrival = message.arrival_ps
        rank = self.ranks[to - self.first]
        # CPython's hash of a tuple of integers is the same in every process, and BLAKE2b would take almost 20 times as
        # long (1.3 us). A sum does not depend on the order in which shards process their messages.
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
            # Hot path: what `match` does if this is the only posted receive.
            box.lone = None
        # Context 0 belongs to no communicator: a control message, or the data of a rendezvous whose envelope was
        # matched before.
        elif cid == 0:
            if message.kind != CONTROL:
                self._rendezvous_data(box, message)
                return
            if not self.defer_for(rank, self.take_control, message):
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

    def waited(self, what: object, start_ps: int, end_ps: int) -> None:
        """Record that the running fiber has waited, in a traced run."""

    def entered(self, comm: object, number: int, note: object) -> None:
        """Record that the running fiber enters a collective, in a traced run."""

    def choices(self) -> list[MadeChoice]:
        """Return the nondeterministic choices of the ranks; empty without a schedule."""
        return []

    def defer_for(self, rank: Rank, handler: Callable[[Any], object], argument: object) -> bool:
        """Return True if library work on a rank is deferred, until no call of it waits.

        See `Deferral`. An event handler asks before it changes a rank's NIC, keys or operations.
        """
        for carrier in self.carriers:
            if carrier.defers(rank, handler, argument):
                return True
        return self.instances is not None and self.instances.defer_for(rank, handler, argument)

    def take_control(self, message: Message) -> None:
        """Pass a control message that has arrived to its handler; on a failed rank it bounces."""
        rank = self.ranks[message.to - self.first]
        handler = self.control[message.tag]
        if type(rank.mpi) is not ClosedMailbox:
            handler.take(rank, message)
        elif handler.bounced is not None:
            self.bounce(rank, message)

    def matched(self, rank: Rank, operation: Receive, message: Message, when_ps: int) -> None:
        """Continue the protocol of an envelope that has matched its receive at `when_ps`."""
        operation.message = message
        operation.overhead_ps = message.overhead_ps
        if message.kind == RENDEZVOUS:
            if self.failure_seen:
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
        if send is not None:  # the sender may have failed, or given up
            self.send_data(rank, send, self.kernel.now_ps)

    def _acknowledged(self, argument: tuple[int, int]) -> None:
        number, ticket = argument
        send: Send | None = self.shard.rank(number).mpi.sends.pop(ticket, None)
        if send is not None:
            send.time_ps = self.kernel.now_ps
            send.complete()

    def _rendezvous_data(self, box: Mailbox, message: Message) -> None:
        operation = box.tickets.pop((message.origin, message.ticket), None)
        if operation is None:  # the receiver has failed, or given up
            return
        assert operation.message is not None
        operation.message.data = message.data
        operation.message.arrival_ps = operation.time_ps = message.arrival_ps
        operation.complete()
        if operation.detached is not None:
            operation.detached(operation.message)


def occupy_nic(rank: Rank, at_ps: int, busy_ps: int) -> int:
    """Occupy a rank's NIC for a time, from `at_ps` or when it is free; return the begin."""
    start_ps = max(at_ps, rank.nic_free_ps)
    rank.nic_free_ps = start_ps + busy_ps
    return start_ps


def _thread_changed(rank: Rank, change: int) -> None:
    """Count a thread of the program that has begun or ended, i.e. a further sending fiber."""
    if rank.mpi is not None:
        rank.mpi.background += change


def _not_detected(*_: object) -> bool:
    return False


def _drop(rank: Rank, message: Message) -> None:
    """Drop a control message to a failed rank."""
