"""Checks of point-to-point calls: what is sent and expected, and which buffers are in use meanwhile.

Each function here has the parameters of a method of mpi4py, after the monitor and the call. It returns what takes the
result of the method, or None.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import REQUEST_LIFECYCLE
from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL

from . import arguments, buffers
from .copies import into_copy
from .records import MessageSide
from .requests import RequestRecord, of_request
from .signatures import PICKLE, Signature, of_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from xsim_py.mpi.transport.message import Message

    from .monitor import Monitor, MpiCall
    from .wrapping import After

_ndarray = np.ndarray


def _send(call: MpiCall, core: Any, signature: Signature | None, dest: Any, tag: Any) -> MessageSide | None:
    """Begin to follow a message; None where it goes to PROC_NULL."""
    if dest == PROC_NULL:
        return None
    side = call.sending = call.side(core, dest, tag, signature, True)
    return side


def _receive(
    monitor: Monitor, call: MpiCall, core: Any, signature: Signature | None, source: Any, tag: Any
) -> MessageSide | None:
    """Begin to follow a receive; None where it is from PROC_NULL."""
    if source == PROC_NULL:
        return None
    if source == ANY_SOURCE:
        monitor.wildcards = True
    return call.side(core, source, tag, signature, False)


def core_of(comm: Any) -> Any:
    """Return the communicator that a handle names; None where the call itself will say what is wrong."""
    try:
        return comm._comm()
    except Exception:
        return None


def _wait(call: MpiCall, side: MessageSide | None, also: MessageSide | None = None) -> None:
    """Take down that the call waits for one message or two, which it has just begun."""
    if side is None:
        side = also
    else:
        side.also = also
    if side is not None:
        call.waits_for = side
        call.rank.steps.exchange(side)


def send_buffer(monitor: Monitor, call: MpiCall, comm: Any, buf: Any, dest: int, tag: int = 0) -> None:
    """Follow ``Send`` and its relatives."""
    buffers.overlapping(monitor, call, buf, reads=True)
    _wait(call, _send(call, core_of(comm), of_buffer(buf), dest, tag))


def send_object(monitor: Monitor, call: MpiCall, comm: Any, obj: Any, dest: int, tag: int = 0) -> None:
    """Follow ``send`` and its relatives."""
    buffers.overlapping_object(monitor, call, obj)
    _wait(call, _send(call, core_of(comm), PICKLE, dest, tag))


def receive_buffer(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    buf: Any,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    status: Any = None,
) -> After | None:
    """Follow ``Recv``."""
    after = buffers.overlapping(monitor, call, buf)
    arguments.fits(monitor, call, buf)
    into_copy(monitor, call, buf, 0, "buf")
    _wait(call, _receive(monitor, call, core_of(comm), of_buffer(buf), source, tag))
    return after


def receive_object(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    buf: Any = None,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    status: Any = None,
) -> None:
    """Follow ``recv``."""
    _wait(call, _receive(monitor, call, core_of(comm), PICKLE, source, tag))


def probe(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    status: Any = None,
) -> After | None:
    """Follow ``Probe`` and its relatives, which wait for a message and do not receive it."""
    if source == ANY_SOURCE:
        monitor.wildcards = True
    core = core_of(comm)
    if source == PROC_NULL or core is None:
        return None
    side = call.side(core, source, tag, None, False)
    call.waits_for = side

    def found(what: Any) -> None:
        # Of a wildcard it is not known here which message it was: its sender cannot be said to have been waited for.
        if what and source != ANY_SOURCE and not call.name.lower().startswith("i"):
            sends = monitor.under_way
            side.partner = sends.get(getattr(what, "_impl", what)) or next(
                (send for message, send in sends.items() if _fits(message, side)), None
            )
            call.rank.steps.take([], [side], True)

    return found


def _fits(message: Message, side: MessageSide) -> bool:
    """Return whether a message is one that a probe with a named source has found, and left where it is."""
    wanted = (message.tag == side.tag or side.tag == ANY_TAG) and not getattr(message, "taken", True)
    return wanted and (message.to, message.cid, message.source) == (side.rank, side.comm.cid, side.peer)


def begin_send_buffer(monitor: Monitor, call: MpiCall, comm: Any, buf: Any, dest: int, tag: int = 0) -> After | None:
    """Follow ``Isend`` and its relatives, whose buffer must not be written before they are complete."""
    side = _send(call, core_of(comm), of_buffer(buf), dest, tag)
    return _begun(monitor, call, side, None if side is None else buffers.lent(monitor, call, buf))


def begin_send_object(monitor: Monitor, call: MpiCall, comm: Any, obj: Any, dest: int, tag: int = 0) -> After | None:
    """Follow ``isend`` and its relatives."""
    buffers.overlapping_object(monitor, call, obj)
    return _begun(monitor, call, _send(call, core_of(comm), PICKLE, dest, tag), None)


def begin_receive_buffer(
    monitor: Monitor, call: MpiCall, comm: Any, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
) -> After | None:
    """Follow ``Irecv``, whose buffer must be left alone until it is complete."""
    arguments.fits(monitor, call, buf)
    into_copy(monitor, call, buf, 0, "buf")
    side = _receive(monitor, call, core_of(comm), of_buffer(buf), source, tag)
    return _begun(monitor, call, side, None if side is None else buffers.awaited(monitor, call, buf))


def begin_receive_object(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    buf: Any = None,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
) -> After | None:
    """Follow ``irecv``."""
    return _begun(monitor, call, _receive(monitor, call, core_of(comm), PICKLE, source, tag), None)


def _begun(monitor: Monitor, call: MpiCall, side: MessageSide | None, used: buffers.Used | None) -> After:
    transfers = [] if side is None else [side]
    call.rank.steps.take(transfers, [], True)

    def begun(request: Any) -> bool:
        record = of_request(monitor, call, request)
        if record is not None:
            record.transfers = transfers
            if used is not None:
                used.begin(record)
        return True

    return begun


def send_receive(signature_of: Callable[[Any], Signature | None]) -> Callable[..., After | None]:
    """Return what follows ``Sendrecv`` or ``sendrecv``."""

    def follow(
        monitor: Monitor,
        call: MpiCall,
        comm: Any,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Any = None,
    ) -> After | None:
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
                buffers.apart(monitor, call, sendbuf, recvbuf)
        _wait(call, receive, send)
        return after

    return follow


def send_receive_replace(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    buf: Any,
    dest: int,
    sendtag: int = 0,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
    status: Any = None,
) -> After | None:
    """Follow ``Sendrecv_replace``."""
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
    comm: Any,
    sendbuf: Any,
    dest: int,
    sendtag: int = 0,
    recvbuf: Any = None,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
) -> After:
    """Follow ``Isendrecv``, of whose buffers the one must not be written, and the other be left alone."""
    sends, receives = dest != PROC_NULL, source != PROC_NULL
    if receives:
        arguments.fits(monitor, call, recvbuf)
    lent = buffers.lent(monitor, call, sendbuf) if sends else None
    return _exchanging(monitor, call, lent, buffers.awaited(monitor, call, recvbuf) if receives else None)


def begin_send_receive_replace(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    buf: Any,
    dest: int,
    sendtag: int = 0,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
) -> After:
    """Follow ``Isendrecv_replace``."""
    receives = source != PROC_NULL
    if receives:
        arguments.fits(monitor, call, buf)
    elif dest == PROC_NULL:
        return _exchanging(monitor, call)
    return _exchanging(monitor, call, (buffers.awaited if receives else buffers.lent)(monitor, call, buf))


def _exchanging(monitor: Monitor, call: MpiCall, *uses: buffers.Used | None) -> After:
    """Return what guards the buffers of a request that sends and receives; its two messages are not followed."""

    def begun(request: Any) -> None:
        record = of_request(monitor, call, request)
        for used in buffers.exchanging(monitor, call, call.title, *uses) if record is not None else ():
            used.begin(record)

    return begun


def _pickled(_: Any) -> Signature:
    return PICKLE


def prepare_send(monitor: Monitor, call: MpiCall, comm: Any, buf: Any, dest: int, tag: int = 0) -> After | None:
    """Follow ``Send_init`` and its relatives; each start begins a message."""
    return _prepared(monitor, call, comm, buf, dest, tag, sends=True)


def prepare_receive(
    monitor: Monitor, call: MpiCall, comm: Any, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
) -> After | None:
    """Follow ``Recv_init``."""
    arguments.fits(monitor, call, buf)
    into_copy(monitor, call, buf, 0, "buf")
    return _prepared(monitor, call, comm, buf, source, tag, sends=False)


def _prepared(monitor: Monitor, call: MpiCall, comm: Any, buf: Any, peer: int, tag: int, *, sends: bool) -> After:
    def prepared(request: Any) -> None:
        record = of_request(monitor, call, request)
        if record is not None and peer != PROC_NULL:
            record.buf, record.peer, record.tag, record.sends, record.comm = buf, peer, tag, sends, comm

    return prepared


def start(monitor: Monitor, call: MpiCall, request: Any) -> None:
    """Follow ``Start`` of a persistent request."""
    call.sending = _start(monitor, call, request)


def start_all(monitor: Monitor, call: MpiCall, cls: Any, requests: Any) -> None:
    """Follow ``Startall``."""
    sends = [side for side in [_start(monitor, call, request) for request in requests] if side is not None]
    for side, after in pairwise(sends):
        side.also = after
    call.sending = sends[0] if sends else None


def _start(monitor: Monitor, call: MpiCall, request: Any) -> MessageSide | None:
    """Follow the start of a request; return the message that it sends, if it is one that sends."""
    record: RequestRecord | None = call.rank.requests.get(id(request._impl))
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
    call.rank.steps.take(record.transfers, [], True)
    used = (buffers.lent if record.sends else buffers.awaited)(monitor, call, record.buf)
    if used is not None:
        used.begin(record)
    return side if record.sends else None


def receive_matched(signature_of: Callable[[Any], Signature | None]) -> Callable[..., After | None]:
    """Return what follows ``Message.Recv`` and its relatives."""

    def follow(monitor: Monitor, call: MpiCall, message: Any, *buf: Any, **named: Any) -> After | None:
        envelope = message._impl
        where = buf[0] if buf else named.get("buf")
        receive = call.side(None, ANY_SOURCE, ANY_TAG, signature_of(where), False)
        monitor.received(envelope, receive)
        stores = receive.partner is not None and signature_of is not _pickled
        if not call.name.lower().startswith("i"):
            call.rank.steps.exchange(receive)
            return buffers.overlapping(monitor, call, where) if stores else None
        used = buffers.awaited(monitor, call, where) if stores else None
        return _begun(monitor, call, receive if receive.partner is not None else None, used)

    return follow


_SENDS = ("Send", "Bsend", "Ssend", "Rsend")
_OBJECT_SENDS = ("send", "bsend", "ssend")

ADVICE: dict[str, Callable[..., Any]] = {
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
"""What follows the methods of a communicator."""

OF_MESSAGES: dict[str, Callable[..., Any]] = {
    "Recv": receive_matched(of_buffer),
    "Irecv": receive_matched(of_buffer),
    "recv": receive_matched(_pickled),
    "irecv": receive_matched(_pickled),
}
"""What follows the methods of a message that a probe has taken."""
