"""Checks of point-to-point calls: matching arguments and buffers in use.

Each function here takes the monitor, the call and the parameters of a method of mpi4py. It returns a function that
takes the result of the method, or None.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import REQUEST_LIFECYCLE
from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from xsim_py.mpi4py.inside import comm_of, impl_of

from . import arguments, buffers
from .copies import into_copy
from .records import MessageSide
from .requests import RequestRecord, of_request
from .signatures import PICKLE, Signature, of_buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.transport.message import Message

    from .monitor import After, Monitor, MpiCall

_ndarray = np.ndarray


def _send(call: MpiCall, core: Communicator, signature: Signature | None, dest: int, tag: int) -> MessageSide | None:
    """Begin to follow a message; None if it goes to PROC_NULL."""
    if dest == PROC_NULL:
        return None
    side = call.sending = call.side(core, dest, tag, signature, True)
    return side


def _receive(
    monitor: Monitor, call: MpiCall, core: Communicator, signature: Signature | None, source: Any, tag: Any
) -> MessageSide | None:
    """Begin to follow a receive; None if it is from PROC_NULL."""
    if source == PROC_NULL:
        return None
    if source == ANY_SOURCE:
        monitor.wildcards = True
    return call.side(core, source, tag, signature, False)


def core_of(comm: object) -> Any:
    """Return the communicator of a handle; None if invalid, which the call itself reports."""
    try:
        return comm_of(comm)
    except Exception:
        return None


def _wait(call: MpiCall, side: MessageSide | None, next_side: MessageSide | None = None) -> None:
    """Record that the call waits for one or two messages which it has just begun."""
    if side is None:
        side = next_side
    else:
        side.next_side = next_side
    if side is not None:
        call.waits_for = side
        call.rank.steps.add_blocking(side)


def send_buffer(monitor: Monitor, call: MpiCall, comm: object, buf: object, dest: int, tag: int) -> None:
    """Check ``Send``, ``Bsend``, ``Ssend`` or ``Rsend``."""
    buffers.overlapping(monitor, call, buf, reads=True)
    _wait(call, _send(call, core_of(comm), of_buffer(buf), dest, tag))


def send_object(monitor: Monitor, call: MpiCall, comm: object, obj: object, dest: int, tag: int) -> None:
    """Check ``send``, ``bsend`` or ``ssend``."""
    buffers.overlapping_object(monitor, call, obj)
    _wait(call, _send(call, core_of(comm), PICKLE, dest, tag))


def receive_buffer(
    monitor: Monitor, call: MpiCall, comm: object, buf: object, source: int, tag: int, status: object
) -> After | None:
    """Check ``Recv``."""
    after = buffers.overlapping(monitor, call, buf)
    arguments.fits(monitor, call, buf)
    into_copy(monitor, call, buf, 0, "buf")
    _wait(call, _receive(monitor, call, core_of(comm), of_buffer(buf), source, tag))
    return after


def receive_object(
    monitor: Monitor, call: MpiCall, comm: object, buf: object, source: int, tag: int, status: object
) -> None:
    """Check ``recv``."""
    _wait(call, _receive(monitor, call, core_of(comm), PICKLE, source, tag))


def probe(monitor: Monitor, call: MpiCall, comm: object, source: int, tag: int, status: object) -> After | None:
    """Check a probe, which waits for a message without receiving it."""
    if source == ANY_SOURCE:
        monitor.wildcards = True
    core = core_of(comm)
    if source == PROC_NULL or core is None:
        return None
    side = call.side(core, source, tag, None, False)
    call.waits_for = side

    def found(what: Any) -> None:
        # For a wildcard, the message is not known here: its sender cannot be recorded as waited for.
        if what and source != ANY_SOURCE and not call.name.lower().startswith("i"):
            sends = monitor.in_flight
            side.partner = sends.get(getattr(what, "_impl", what)) or next(
                (send for message, send in sends.items() if _fits(message, side)), None
            )
            call.rank.steps.add([], [side], True)

    return found


def _fits(message: Message, side: MessageSide) -> bool:
    """Return True if a probe with a named source has found but not received a message."""
    wanted = (message.tag == side.tag or side.tag == ANY_TAG) and not getattr(message, "taken", True)
    return wanted and (message.to, message.cid, message.source) == (side.rank, side.comm.cid, side.peer)


def begin_send_buffer(monitor: Monitor, call: MpiCall, comm: object, buf: object, dest: int, tag: int) -> After | None:
    """Check a nonblocking send, whose buffer must not be written before it completes."""
    side = _send(call, core_of(comm), of_buffer(buf), dest, tag)
    return _begun(monitor, call, side, None if side is None else buffers.guard_send_buffer(monitor, call, buf))


def begin_send_object(monitor: Monitor, call: MpiCall, comm: object, obj: object, dest: int, tag: int) -> After | None:
    """Check ``isend``, ``ibsend`` or ``issend``."""
    buffers.overlapping_object(monitor, call, obj)
    return _begun(monitor, call, _send(call, core_of(comm), PICKLE, dest, tag), None)


def begin_receive_buffer(
    monitor: Monitor, call: MpiCall, comm: object, buf: object, source: int, tag: int
) -> After | None:
    """Check ``Irecv``, whose buffer must not be accessed before it completes."""
    arguments.fits(monitor, call, buf)
    into_copy(monitor, call, buf, 0, "buf")
    side = _receive(monitor, call, core_of(comm), of_buffer(buf), source, tag)
    return _begun(monitor, call, side, None if side is None else buffers.guard_receive_buffer(monitor, call, buf))


def begin_receive_object(
    monitor: Monitor, call: MpiCall, comm: object, buf: object, source: int, tag: int
) -> After | None:
    """Check ``irecv``."""
    return _begun(monitor, call, _receive(monitor, call, core_of(comm), PICKLE, source, tag), None)


def _begun(monitor: Monitor, call: MpiCall, side: MessageSide | None, used: buffers.Used | None) -> After:
    transfers = [] if side is None else [side]
    call.rank.steps.add(transfers, [], True)

    def begun(request: object) -> bool:
        record = of_request(monitor, call, request)
        if record is not None:
            record.transfers = transfers
            if used is not None:
                used.begin(record)
        return True

    return begun


def send_receive(signature_of: Callable[[Any], Signature | None]) -> Callable[..., After | None]:
    """Return the check of ``Sendrecv`` or ``sendrecv``."""

    def follow(
        monitor: Monitor, call: MpiCall, comm: object, sendbuf: object, dest: int, sendtag: int, *receives: object
    ) -> After | None:
        recvbuf, source, recvtag, _status = receives
        core, after = core_of(comm), None
        send = _send(call, core, signature_of(sendbuf), dest, sendtag)
        receive = _receive(monitor, call, core, signature_of(recvbuf), source, recvtag)
        if signature_of is _pickled:
            buffers.overlapping_object(monitor, call, sendbuf)
        else:
            if send is not None:
                buffers.overlapping(monitor, call, sendbuf, reads=True)
            if receive is not None:
                after = buffers.overlapping(monitor, call, recvbuf)
                arguments.fits(monitor, call, recvbuf)
                into_copy(monitor, call, recvbuf, 3, "recvbuf")
            if send is not None and receive is not None:
                buffers.check_disjoint(monitor, call, sendbuf, recvbuf)
        _wait(call, receive, send)
        return after

    return follow


def send_receive_replace(
    monitor: Monitor,
    call: MpiCall,
    comm: object,
    buf: object,
    dest: int,
    sendtag: int,
    source: int,
    recvtag: int,
    *_status: object,
) -> After | None:
    """Check ``Sendrecv_replace``."""
    core, signature = core_of(comm), of_buffer(buf)
    send = _send(call, core, signature, dest, sendtag)
    receive = _receive(monitor, call, core, signature, source, recvtag)
    after = None
    if send is not None or receive is not None:
        after = buffers.overlapping(monitor, call, buf, reads=receive is None)
    _wait(call, receive, send)
    return after


def begin_send_receive(
    monitor: Monitor,
    call: MpiCall,
    comm: object,
    sendbuf: object,
    dest: int,
    sendtag: int,
    recvbuf: object,
    source: int,
    *_recvtag: object,
) -> After:
    """Check ``Isendrecv``: its send buffer must not be written, its receive buffer not accessed."""
    sends, receives = dest != PROC_NULL, source != PROC_NULL
    if receives:
        arguments.fits(monitor, call, recvbuf)
    send_guard = buffers.guard_send_buffer(monitor, call, sendbuf) if sends else None
    return _guard_exchange(
        monitor, call, send_guard, buffers.guard_receive_buffer(monitor, call, recvbuf) if receives else None
    )


def begin_send_receive_replace(
    monitor: Monitor, call: MpiCall, comm: object, buf: object, dest: int, sendtag: int, source: int, recvtag: int
) -> After:
    """Check ``Isendrecv_replace``."""
    receives = source != PROC_NULL
    if receives:
        arguments.fits(monitor, call, buf)
    elif dest == PROC_NULL:
        return _guard_exchange(monitor, call)
    return _guard_exchange(
        monitor, call, (buffers.guard_receive_buffer if receives else buffers.guard_send_buffer)(monitor, call, buf)
    )


def _guard_exchange(monitor: Monitor, call: MpiCall, *uses: buffers.Used | None) -> After:
    """Return the guard of the buffers of a request that sends and receives.

    Its two messages are not followed.
    """

    def begun(request: object) -> None:
        record = of_request(monitor, call, request)
        for used in buffers.exchange_guards(monitor, call, call.title, *uses) if record is not None else ():
            used.begin(record)

    return begun


def _pickled(_: object) -> Signature:
    return PICKLE


def prepare_send(monitor: Monitor, call: MpiCall, comm: object, buf: object, dest: int, tag: int) -> After | None:
    """Check a persistent send; each start begins a message."""
    return _prepared(monitor, call, comm, buf, dest, tag, sends=True)


def prepare_receive(monitor: Monitor, call: MpiCall, comm: object, buf: object, source: int, tag: int) -> After | None:
    """Check ``Recv_init``."""
    arguments.fits(monitor, call, buf)
    into_copy(monitor, call, buf, 0, "buf")
    return _prepared(monitor, call, comm, buf, source, tag, sends=False)


def _prepared(monitor: Monitor, call: MpiCall, comm: object, buf: object, peer: int, tag: int, *, sends: bool) -> After:
    def prepared(request: object) -> None:
        record = of_request(monitor, call, request)
        if record is not None and peer != PROC_NULL:
            record.buf, record.peer, record.tag, record.sends, record.comm = buf, peer, tag, sends, comm

    return prepared


def start(monitor: Monitor, call: MpiCall, request: object) -> None:
    """Check ``Start`` of a persistent request."""
    call.sending = _start(monitor, call, request)


def start_all(monitor: Monitor, call: MpiCall, cls: object, requests: Iterable[object]) -> None:
    """Check ``Startall``."""
    sends = [side for side in [_start(monitor, call, request) for request in requests] if side is not None]
    for side, after in pairwise(sends):
        side.next_side = after
    call.sending = sends[0] if sends else None


def _start(monitor: Monitor, call: MpiCall, request: object) -> MessageSide | None:
    """Check the start of a request; return the message it sends, if any."""
    record: RequestRecord | None = call.rank.requests.get(id(impl_of(request)))
    if record is None or not record.persistent:
        return None
    if record.active:
        text = f"the request of {record.title} is started while it is active"
        where = f"{monitor.where(record.place)}: {record.title}"
        monitor.note(REQUEST_LIFECYCLE, call.place, text, call.rank.number, where)
        return None
    record.active = record.started = True
    record.transfers = []
    if record.restart is not None:
        record.restart(record, call)
    if record.partitions:
        from .partitions import started

        started(monitor, call, record)
    if record.buf is None:
        return None
    core, signature = core_of(record.comm), of_buffer(record.buf)
    if record.sends:
        side = _send(call, core, signature, record.peer, record.tag)
    else:
        side = _receive(monitor, call, core, signature, record.peer, record.tag)
    if side is not None:
        side.name, side.place = record.title, record.place
        record.transfers = [side]
    call.rank.steps.add(record.transfers, [], True)
    used = (buffers.guard_send_buffer if record.sends else buffers.guard_receive_buffer)(monitor, call, record.buf)
    if used is not None:
        used.begin(record)
    return side if record.sends else None


def receive_matched(signature_of: Callable[[Any], Signature | None]) -> Callable[..., After | None]:
    """Return the check of ``Message.Recv``, ``Irecv``, ``recv`` or ``irecv``."""

    def follow(monitor: Monitor, call: MpiCall, message: object, *args: Any) -> After | None:
        envelope, where = impl_of(message), args[0] if args else None
        receive = call.side(None, ANY_SOURCE, ANY_TAG, signature_of(where), False)
        monitor.received(envelope, receive)
        stores = receive.partner is not None and signature_of is not _pickled
        if not call.name.lower().startswith("i"):
            call.rank.steps.add_blocking(receive)
            return buffers.overlapping(monitor, call, where) if stores else None
        used = buffers.guard_receive_buffer(monitor, call, where) if stores else None
        return _begun(monitor, call, receive if receive.partner is not None else None, used)

    return follow


_SENDS = ("Send", "Bsend", "Ssend", "Rsend")
_OBJECT_SENDS = ("send", "bsend", "ssend")

CHECKS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_SENDS, send_buffer),
    **dict.fromkeys(_OBJECT_SENDS, send_object),
    **dict.fromkeys(["I" + name.lower() for name in _SENDS], begin_send_buffer),
    **dict.fromkeys(["i" + name for name in _OBJECT_SENDS], begin_send_object),
    **dict.fromkeys([name + "_init" for name in _SENDS], prepare_send),
    **dict.fromkeys(["Probe", "probe", "Mprobe", "mprobe", "Iprobe", "iprobe", "Improbe", "improbe"], probe),
    "Recv": receive_buffer,
    "recv": receive_object,
    "Irecv": begin_receive_buffer,
    "irecv": begin_receive_object,
    "Recv_init": prepare_receive,
    "Sendrecv": send_receive(of_buffer),
    "sendrecv": send_receive(_pickled),
    "Sendrecv_replace": send_receive_replace,
    "Isendrecv": begin_send_receive,
    "Isendrecv_replace": begin_send_receive_replace,
}
"""The check of each method of a communicator."""

OF_MESSAGES: dict[str, Callable[..., Any]] = {
    "Recv": receive_matched(of_buffer),
    "Irecv": receive_matched(of_buffer),
    "recv": receive_matched(_pickled),
    "irecv": receive_matched(_pickled),
}
"""The check of each method of a matched message."""
