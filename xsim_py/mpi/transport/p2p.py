"""Point-to-point calls of the running fiber: send, receive and wait."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from xsim_py.code_origin import is_simulator
from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.constants import ANY_SOURCE
from xsim_py.process.ranks import current

from . import message as envelopes
from .fabric import Fabric, occupy_nic
from .message import EAGER, RENDEZVOUS, SYNCHRONOUS, Message, Operation, Receive, Send, needs_all

if TYPE_CHECKING:
    from xsim_py.network import Cost
    from xsim_py.process.ranks.fiber import Fiber

    from .mailbox import Mailbox
    from .protocols import Endpoint

STANDARD_MODE, SYNC_MODE, BUFFERED_MODE = 0, 1, 2
"""Send modes; a ready send is a standard one."""

_LOG_FULL = 3 << 16
_blank = object.__new__


class SendCall:
    """The constants of an MPI procedure that sends."""

    __slots__ = ("check", "mode", "name")

    def __init__(self, name: str, mode: int = STANDARD_MODE, *, check: bool = True) -> None:
        self.name = name  # of the procedure; empty for a collective, whose note has it
        self.mode = mode
        self.check = check  # whether the data enter the digest (not those of pickled objects)


def start_send(comm: Endpoint, dest: int, tag: int, data: bytes, cid: int, how: SendCall, about: Any) -> Send | None:
    """Begin a send in the running fiber, which pays the overhead.

    Hot path: call it without keyword arguments, which are slower. `about` is the note of a collective, or else the
    frame that made the call, or the program's source location. Returns None if the send is complete for the sender
    already (eager or buffered), else the operation to wait for.
    """
    fiber: Any = current.fiber
    rank = fiber.rank
    origin = rank.number
    fabric = comm.fabric
    to = comm.peer_ranks[dest]
    if fabric.failure_seen and not fabric.guard.admit_send(comm, to, about, how.name):
        return None
    size = len(data)
    cost = fabric.uniform.get(size)
    if cost is None or to == origin:
        link = fabric.link(origin, to)
        cost = link.cache.get(size) or link.cost(size)
    fiber.clock_ps += cost.send_ps
    box = comm.box
    if (box.sends or box.background) and not _wait_for_interface(fiber, comm, to, about, how.name):
        return None
    start = fiber.clock_ps  # only now: a process that has hung in the overhead continues later
    if rank.nic_free_ps > start:  # hot path: here and below, what `occupy_nic` does
        start = rank.nic_free_ps
    # Three appends: one extension of the list by three numbers took twice as long.
    log = fabric.log
    log.append(origin)
    log.append(to)
    log.append(size)
    crc = crc32(data) if how.check else 0
    note, at = about, 0
    if type(about) is FrameType:
        call = fiber.call
        if call is not None and call.is_open and is_simulator(about.f_code.co_filename):
            about = call.frame  # the call has passed the door
        note, at = about.f_code, about.f_lasti
    if not cost.eager or how.mode == SYNC_MODE:
        send = Send(comm, dest, tag, data, how.name, fiber.clock_ps)
        return _start_with_answer(fiber, send, cid, how.mode, start, crc, (note, at) if at else note, cost)
    rank.nic_free_ps = start + cost.busy_ps
    # Hot path: what `Message(...)` and `launch` do, in half the time, and less if a message is reused.
    message, box.used = box.used, None
    if message is None:
        message = _blank(Message)
        message.kind = EAGER
    message.cid, message.tag = cid, tag
    message.source, message.to = comm.me, to
    message.data, message.size_bytes = data, size
    message.arrival_ps = arrival = start + cost.wire_ps + cost.latency_ps
    message.overhead_ps, message.check = cost.receive_ps, crc
    message.origin, message.note, message.ticket = origin, note, at
    if at and envelopes.departed is not None:
        envelopes.departed(message)
    # The same shard, and no shared links: what `launch` would check again.
    if fabric.first <= to < fabric.inline_end:
        rank.key = key = rank.key + 1
        # Ranks act in step, so most messages find a list for their time: no call of `Kernel.post`.
        there = fabric.due.get(arrival)
        if there is not None:
            there.append((key, fabric.deliver, message))
            return None
        fabric.kernel.post(arrival, key, fabric.deliver, message)
    else:
        fabric.launch(rank, message, start, cost.wire_ps, cost.latency_ps)
    # At least once per arrival time: the log is never much longer than the number of messages in flight.
    if len(log) >= _LOG_FULL:
        fabric.tally.add_up()
    return None


def _wait_for_interface(fiber: Fiber, comm: Endpoint, to: int, about: object, name: str) -> bool:
    """Let earlier requests use the NIC first: a replied rendezvous or another fiber, for example.

    Return True if the send may begin: a failure notice may have arrived meanwhile.
    """
    fiber.sync()
    return not comm.fabric.failure_seen or comm.fabric.guard.admit_send(comm, to, about, name)


def _start_with_answer(
    fiber: Fiber, send: Send, cid: int, mode: int, start_ps: int, crc: int, note: object, cost: Cost
) -> Send | None:
    """Send the envelope of a send that waits for a reply: rendezvous or synchronous.

    See `start_send`.
    """
    send.note = None if type(note) is tuple else note
    send.buffered = mode == BUFFERED_MODE
    comm, rank, to, data = send.comm, fiber.rank, send.to, send.data
    fabric = comm.fabric
    size = len(data)
    comm.box.register(send)
    wire_ps, latency_ps = cost.wire_ps, cost.latency_ps
    if cost.eager:
        occupy_nic(rank, start_ps, cost.busy_ps)
        kind = SYNCHRONOUS
    else:
        kind, data, wire_ps = RENDEZVOUS, b"", 0
        latency_ps = fabric.link(rank.number, to).latency_ps
    ticket = send.ticket
    row = cid, comm.me, send.tag, data, size, kind, cost.receive_ps, to, rank.number, ticket, crc, note
    message = Message(0, row)
    if type(note) is tuple and envelopes.departed is not None:
        envelopes.departed(message)
    fabric.launch(rank, message, start_ps, wire_ps, latency_ps)
    if fabric.failure_seen:
        fabric.guard.watch(send)
    return None if send.buffered else send


def start_receive(comm: Endpoint, source: int, tag: int, cid: int, name: str, note: object = None) -> Receive:
    """Post a receive in the running fiber."""
    fiber: Any = current.fiber
    # The message that it takes depends on what has arrived by now, so the queue must first reach this clock; for a
    # named source the time of the check does not matter.
    if source == ANY_SOURCE:
        fiber.sync()
    box = comm.box
    fabric = comm.fabric
    if fabric.failure_seen:
        fabric.guard.admit(comm, comm.remote[source] if source >= 0 else None, collective=needs_all(note))
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
    if fabric.failure_seen and not operation.done:
        fabric.guard.watch(operation)
    return operation


def receive(comm: Endpoint, source: int, tag: int, cid: int, name: str, note: object = None) -> Message:
    """Receive in the running fiber: wait for the message and pay the overhead.

    Read the message's fields before the next call, which may reuse it.
    """
    fiber: Any = current.fiber
    if source == ANY_SOURCE:
        fiber.sync()
    box: Mailbox = comm.box
    fabric: Fabric = comm.fabric
    message = None
    if fabric.failure_seen:
        message = fabric.guard.admit_receive(comm, source, note, name)
        if message is not None:
            return message
    if box.unexpected:
        message = box.take(cid, source, tag)
        if message is not None and message.kind == EAGER:
            fiber.clock_ps += message.overhead_ps
            if envelopes.observed is not None:
                envelopes.observed(message)
            return message
    operation = box.spare
    if operation is None:
        operation = Receive(comm, cid, source, tag, fiber.clock_ps, name, note)
    else:
        # Hot path: reuse the operation of this rank's last blocking receive, which has no other references.
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
        box.lone = operation  # hot path: what `post` does for a single receive
    else:
        box.post(operation)
    if not operation.done:
        if fabric.failure_seen:
            fabric.guard.watch(operation)
        operation.waiter = fiber
        fiber.park(operation)
    message = operation.message
    if message is None or operation.error is not None:  # an envelope without its data is not a message
        message = fabric.guard.give_up(operation)
        return receive(comm, source, tag, cid, name, note) if message is None else message
    # The operation is reused, and must not keep the data of this message until then.
    operation.message = None
    box.spare = operation
    if message.kind == EAGER and fabric.shortcuts:
        box.used = message
    if envelopes.observed is not None:
        envelopes.observed(message)
    arrival = message.arrival_ps
    clock = fiber.clock_ps
    if arrival > clock:
        # A list: an array creates an integer for each access, which takes five times as long.
        fabric.waited_ps[box.place] += arrival - clock
        if fabric.trace is not None:
            fabric.waited(message, clock, arrival)
        clock = arrival
    fiber.clock_ps = clock + message.overhead_ps
    return message


def wait(operation: Any) -> None:
    """Block the running fiber until an operation completes, and pay its overhead.

    Raises its error, unless the guard tolerates it.
    """
    complete(operation)
    if operation.error is not None:
        fabric = operation.comm.fabric
        if not fabric.failure_seen or not fabric.guard.tolerates(operation):
            raise_error(operation)


def raise_error(operation: Any) -> NoReturn:
    """Raise the error of an operation of a blocking call, after the communicator's error handler."""
    operation.comm.report(operation.error)
    raise operation.error


def complete(operation: Operation) -> None:
    """Wait as `wait` does, but leave an error in the operation, for the completion of the request."""
    fiber: Any = current.fiber
    if not operation.done:
        fabric = fiber.rank.mpi.fabric
        if fabric.failure_seen:
            fabric.guard.admit_wait(operation)
        operation.waiter = fiber
        fiber.park(operation)
        # Only a failure or revocation wakes a fiber before its operation is done (`Waiter.interrupt`).
        while not operation.done:
            fabric.guard.recheck(operation)
            operation.waiter = fiber
            fiber.park(operation)
    if operation.time_ps > fiber.clock_ps:
        box = fiber.rank.mpi
        box.fabric.tally.waited_ps[box.place] += operation.time_ps - fiber.clock_ps
        if box.fabric.trace is not None:
            box.fabric.waited(operation, fiber.clock_ps, operation.time_ps)
        fiber.clock_ps = operation.time_ps
    fiber.clock_ps += operation.overhead_ps
    if envelopes.observed is not None:
        envelopes.observed(operation)
