"""The calls that programs make most often, on the floor below the interface, in runs without tools.

Small data of predefined types come and go through the page (library/hot.c). All else is left to the general form.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.transport.call_sites import blame_sender
from xsim_py.mpi.transport.p2p import SendCall, receive, start_send, wait
from xsim_py.mpi4py.probes import TAG_LIMIT

from .by_hand import AHEAD, HOT, MPI, Function
from .calls import elements
from .convert import CallData
from .page import ARGUMENTS, ARGUMENTS_AT, PAYLOAD_AT, offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.transport.message import Message

    from .child import Child

_SEND, _SENDRECV = SendCall("Comm.Send"), SendCall("Comm.Sendrecv")
_SIX, _SEVEN, _TWELVE = (ARGUMENTS[count].unpack_from for count in (6, 7, 12))
_NUMBER = ARGUMENTS[1]
_SENT = struct.Struct("=i").unpack_from
_SENT_CAPACITY = struct.Struct("=ii").unpack_from
_SENT_AT, _CAPACITY_AT, _RECEIVED_AT = map(offset, ("sent", "capacity", "received"))
_RECEIVED = struct.Struct("=iii").pack_into


def _send(general: Function) -> Function:
    def send(child: Child) -> int | None:
        page = child.page
        (sent,) = _SENT(page, _SENT_AT)
        if sent < 0:
            return general(child)
        child.handled = 0
        _send_data(child, _SIX(page, ARGUMENTS_AT), page[PAYLOAD_AT : PAYLOAD_AT + sent])
        return child.handled

    return send


def _queued_send(child: Child) -> None:
    _, given, data = child.queued
    _send_data(child, given, data)


def _send_data(child: Child, given: Sequence[int], data: bytes) -> None:
    _, _, _, dest, tag, number, *_ = given
    comm = child.comms.get(number) or child.comm(number)
    if comm is None or not (0 <= dest < len(comm.peer_ranks) and 0 <= tag <= TAG_LIMIT):
        child.handles.get(number, MPI.Comm).Send(CallData(data), dest, tag)
        return
    operation = start_send(comm, dest, tag, data, comm.cid, _SEND, child.place)
    if operation is not None:
        wait(operation)


def _recv(general: Function) -> Function:
    def recv(child: Child) -> int | None:
        page = child.page
        (capacity,) = _SENT(page, _CAPACITY_AT)
        _, _, _, source, tag, number = _SIX(page, ARGUMENTS_AT)
        comm = child.comms.get(number) or child.comm(number)
        if comm is None or capacity < 0 or not _is_plain(source, tag, len(comm.peer_ranks)):
            return general(child)
        child.handled = 0
        _deliver(child, comm, receive(comm, source, tag, comm.cid, "Comm.Recv"), capacity)
        return child.handled

    return recv


def _sendrecv(general: Function) -> Function:
    def sendrecv(child: Child) -> int | None:
        page = child.page
        sent, capacity = _SENT_CAPACITY(page, _SENT_AT)
        _, _, _, dest, sendtag, _, _, _, source, recvtag, number, _ = _TWELVE(page, ARGUMENTS_AT)
        comm = child.comms.get(number) or child.comm(number)
        if comm is None or sent < 0 or capacity < 0:
            return general(child)
        size = len(comm.peer_ranks)
        if not (0 <= dest < size and 0 <= sendtag <= TAG_LIMIT and _is_plain(source, recvtag, size)):
            return general(child)
        child.handled = 0
        data = page[PAYLOAD_AT : PAYLOAD_AT + sent]
        operation = start_send(comm, dest, sendtag, data, comm.cid, _SENDRECV, child.place)
        message = receive(comm, source, recvtag, comm.cid, "Comm.Sendrecv")
        if operation is not None:
            comm.box.used = None  # the message is used after this wait
            wait(operation)
        _deliver(child, comm, message, capacity)
        return child.handled

    return sendrecv


def _is_plain(source: int, tag: int, size: int) -> bool:
    return (0 <= source < size or source == c.ANY_SOURCE) and (0 <= tag <= TAG_LIMIT or tag == c.ANY_TAG)


def _deliver(child: Child, comm: Communicator, message: Message, capacity: int) -> None:
    """Put a message and its status into the page; of one that is too long, what fits."""
    data = message.data
    message.data = b""
    size = len(data)
    fitting = min(size, capacity)
    child.page[PAYLOAD_AT : PAYLOAD_AT + fitting] = data[:capacity]
    _RECEIVED(child.page, _RECEIVED_AT, fitting, message.source, message.tag)
    if size > capacity:
        error = errors.error(c.ERR_TRUNCATE, f"{size} bytes arrived, the receive buffer takes {capacity}")
        blame_sender(error, message)
        if not comm.report(error):
            raise error


def _isend(general: Function) -> Function:
    def isend(child: Child) -> int | None:
        page = child.page
        (sent,) = _SENT(page, _SENT_AT)
        if sent < 0:
            return general(child)
        child.handled = 0
        given = _SEVEN(page, ARGUMENTS_AT)
        request = _isend_data(child, given, page[PAYLOAD_AT : PAYLOAD_AT + sent])
        if not child.handled:
            child.write(given[6], _NUMBER.pack(child.handles.add(request)))
        return child.handled

    return isend


def _isend_data(child: Child, given: Sequence[int], data: bytes) -> Any:
    dest, tag, number = given[3:6]
    return child.handles.get(number, MPI.Comm).Isend(CallData(data), dest, tag)


def _irecv(general: Function) -> Function:
    def irecv(child: Child) -> int | None:
        address, count, datatype, source, tag, number, place = _SEVEN(child.page, ARGUMENTS_AT)
        comm = child.comms.get(number) or child.comm(number)
        if comm is None or not _is_plain(source, tag, len(comm.peer_ranks)):
            return general(child)
        child.handled = 0
        buffer = elements(child, address, count, datatype)
        request = child.handles.get(number, MPI.Comm).Irecv(buffer, source, tag)
        if not child.handled:
            child.write(place, _NUMBER.pack(child.handles.add(request)))
        return child.handled

    return irecv


def _queued_isend(child: Child) -> None:
    number, given, data = child.queued
    child.handles.objects[number] = _isend_data(child, given, data)


def _queued_irecv(child: Child) -> None:
    number, given, _ = child.queued
    address, count, datatype, source, tag, comm, _ = given
    buffer = elements(child, address, count, datatype)
    child.handles.objects[number] = child.handles.get(comm, MPI.Comm).Irecv(buffer, source, tag)


AHEAD.update({"Irecv": _queued_irecv, "Isend": _queued_isend, "Send": _queued_send})
HOT.update({"Irecv": _irecv, "Isend": _isend, "Send": _send, "Recv": _recv, "Sendrecv": _sendrecv})
