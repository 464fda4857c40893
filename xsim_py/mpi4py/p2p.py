"""Point-to-point communication of `MPI.Comm`, and `MPI.Message`.

Upper-case calls move memory, lower-case calls move pickled objects. In both, the bytes are copied when the call is made
and again when the message is received, so two ranks never share an object.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from xsim_py.code_origin import CALLER
from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import begin, refused
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.transport.call_sites import blame_sender, frame_here, here
from xsim_py.mpi.transport.message import Message as Envelope
from xsim_py.mpi.transport.message import Operation
from xsim_py.mpi.transport.p2p import BUFFERED_MODE, SYNC_MODE, SendCall, receive, start_receive, start_send, wait

from .bufspec import UserBuffer as Target
from .bufspec import filler, packed, plain_size, receiver
from .commhandle import CommHandle
from .handle import handle_of
from .inside import impl_of, task_of
from .memory import KnownViews
from .options import current_options
from .pickling import dump, load, loader
from .plain_arguments import integer
from .probes import NULL_TARGET, TAG_LIMIT, Message, iprobe, message_of, probe, valid_source
from .request import Prequest, Request, persistent
from .request_tasks import MessageTask, deliver
from .send_buffers import reserve_space
from .status import Status, set_message

__all__ = ["PointToPoint"]

ANY_SOURCE, ANY_TAG, PROC_NULL = c.ANY_SOURCE, c.ANY_TAG, c.PROC_NULL
_frame = sys._getframe
_ONE_DIGIT = 2**30 - 1
"""Python compares integers up to this ten times as fast."""

_SEND = SendCall("Comm.Send")
_SSEND = SendCall("Comm.Ssend", SYNC_MODE)
_RSEND = SendCall("Comm.Rsend")
_BSEND = SendCall("Comm.Bsend", BUFFERED_MODE)
_ISEND = SendCall("Comm.Isend")
_ISSEND = SendCall("Comm.Issend", SYNC_MODE)
_IRSEND = SendCall("Comm.Irsend")
_IBSEND = SendCall("Comm.Ibsend", BUFFERED_MODE)
_SENDRECV = SendCall("Comm.Sendrecv")
_SEND_OBJECT = SendCall("Comm.send", check=False)
_SSEND_OBJECT = SendCall("Comm.ssend", SYNC_MODE, check=False)
_BSEND_OBJECT = SendCall("Comm.bsend", BUFFERED_MODE, check=False)
_ISEND_OBJECT = SendCall("Comm.isend", check=False)
_ISSEND_OBJECT = SendCall("Comm.issend", SYNC_MODE, check=False)
_IBSEND_OBJECT = SendCall("Comm.ibsend", BUFFERED_MODE, check=False)
_SEND_INIT = SendCall("Comm.Send_init")
_SSEND_INIT = SendCall("Comm.Ssend_init", SYNC_MODE)
_RSEND_INIT = SendCall("Comm.Rsend_init")
_BSEND_INIT = SendCall("Comm.Bsend_init", BUFFERED_MODE)
_SENDRECV_REPLACE = SendCall("Comm.Sendrecv_replace")
_SENDRECV_OBJECT = SendCall("Comm.sendrecv", check=False)
_ISENDRECV = SendCall("Comm.Isendrecv")
_ISENDRECV_REPLACE = SendCall("Comm.Isendrecv_replace")


class PointToPoint(CommHandle):
    """The point-to-point methods of `Comm`."""

    __slots__ = ()

    # -------------------------------------------------------------------------------------------- upper case

    def Send(self, buf: object, dest: int, tag: int = 0) -> None:
        data = packed(buf) if dest != PROC_NULL else b""
        _send(self._comm(), data, dest, tag, _SEND, _frame(CALLER))

    def Ssend(self, buf: object, dest: int, tag: int = 0) -> None:
        _send(self._comm(), _bytes_of(buf, dest), dest, tag, _SSEND, _frame(CALLER))

    def Rsend(self, buf: object, dest: int, tag: int = 0) -> None:
        _send(self._comm(), _bytes_of(buf, dest), dest, tag, _RSEND, _frame(CALLER))

    def Bsend(self, buf: object, dest: int, tag: int = 0) -> None:
        comm = self._comm()
        data = _bytes_of(buf, dest)
        reserve_space(comm, dest, len(data))
        _send(comm, data, dest, tag, _BSEND, _frame(CALLER))

    def Isend(self, buf: object, dest: int, tag: int = 0) -> Request:
        return _isend(self._comm(), _bytes_of(buf, dest), dest, tag, _ISEND, _frame(CALLER))

    def Issend(self, buf: object, dest: int, tag: int = 0) -> Request:
        return _isend(self._comm(), _bytes_of(buf, dest), dest, tag, _ISSEND, _frame(CALLER))

    def Irsend(self, buf: object, dest: int, tag: int = 0) -> Request:
        return _isend(self._comm(), _bytes_of(buf, dest), dest, tag, _IRSEND, _frame(CALLER))

    def Ibsend(self, buf: object, dest: int, tag: int = 0) -> Request:
        comm = self._comm()
        data = _bytes_of(buf, dest)
        reserve_space(comm, dest, len(data))
        return _isend(comm, data, dest, tag, _IBSEND, _frame(CALLER))

    def Recv(self, buf: object, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        comm = self._comm()
        target = None
        if not (size_bytes := plain_size(buf)):
            target = _target_of(buf, source)
            size_bytes = target.nbytes
        if type(tag) is not int or type(source) is not int:
            source, tag = integer(source), integer(tag)
        plain = 0 <= source < len(comm.peer_ranks) and (0 <= tag <= TAG_LIMIT or tag == ANY_TAG)
        if not plain and not valid_source(comm, source, tag):
            if status is not None:
                set_message(status, PROC_NULL, ANY_TAG, 0)
            return
        message = receive(comm, source, tag, comm.cid, "Comm.Recv")
        data = message.data
        message.data = b""
        if status is not None:
            set_message(status, message.source, message.tag, min(message.size_bytes, size_bytes))
        if target is None and len(data) == size_bytes and (fill := filler(size_bytes)) is not None:
            fill(buf, 0, data)  # hot path: see `store`
        else:
            _unpack(comm, target or receiver(buf), data, message)

    def Irecv(self, buf: object, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        return _irecv(self._comm(), _target_of(buf, source).unpack, source, tag, "Comm.Irecv")

    def Sendrecv(
        self,
        sendbuf: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        comm = self._comm()
        data = packed(sendbuf) if dest != PROC_NULL else b""
        target = None
        if not (size_bytes := plain_size(recvbuf)):
            target = _target_of(recvbuf, source)
            size_bytes = target.nbytes
        size = len(comm.peer_ranks)
        if not type(dest) is type(sendtag) is type(source) is type(recvtag) is int:
            dest, sendtag, source, recvtag = map(integer, (dest, sendtag, source, recvtag))
        plain = 0 <= sendtag | recvtag <= _ONE_DIGIT or (recvtag == ANY_TAG and 0 <= sendtag <= _ONE_DIGIT)
        if not (plain and 0 <= dest < size and 0 <= source < size):
            target = _target_of(recvbuf, source)
            place = _frame(CALLER)
            _sendrecv(comm, data, dest, sendtag, source, recvtag, _SENDRECV, place, finish=target.unpack, status=status)
            return
        # Hot path: what `_sendrecv` does with plain arguments, with fewer frames on the stack while it waits.
        send = start_send(comm, dest, sendtag, data, comm.cid, _SENDRECV, _frame(CALLER))
        message = receive(comm, source, recvtag, comm.cid, "Comm.Sendrecv")
        if send is not None:
            comm.box.used = None  # the message is used after this wait
            wait(send)
        data = message.data
        message.data = b""
        if status is not None:
            set_message(status, message.source, message.tag, min(message.size_bytes, size_bytes))
        if target is None and len(data) == size_bytes and (fill := filler(size_bytes)) is not None:
            fill(recvbuf, 0, data)  # hot path: see `store`
        else:
            _unpack(comm, target or receiver(recvbuf), data, message)

    def Sendrecv_replace(
        self,
        buf: object,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        comm = self._comm()
        data = _bytes_of(buf, dest)
        target = _target_of(buf, source)
        how, place = _SENDRECV_REPLACE, _frame(CALLER)
        _sendrecv(comm, data, dest, sendtag, source, recvtag, how, place, finish=target.unpack, status=status)

    def Isendrecv(
        self,
        sendbuf: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        data, target = _bytes_of(sendbuf, dest), _target_of(recvbuf, source)
        return self._isendrecv(data, dest, sendtag, target, source, recvtag, _ISENDRECV, _frame(CALLER))

    def Isendrecv_replace(
        self, buf: object, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request:
        data, target = _bytes_of(buf, dest), _target_of(buf, source)
        return self._isendrecv(data, dest, sendtag, target, source, recvtag, _ISENDRECV_REPLACE, _frame(CALLER))

    def _isendrecv(
        self,
        data: bytes,
        dest: int,
        sendtag: int,
        target: Target,
        source: int,
        recvtag: int,
        how: SendCall,
        about: object,
    ) -> Request:
        comm = self._comm()
        dest, sendtag, source, recvtag = map(integer, (dest, sendtag, source, recvtag))
        _valid_dest(comm, dest, sendtag, waits=False)
        if not valid_source(comm, source, recvtag, waits=False):
            request = _isend(comm, data, dest, sendtag, how, about)
            task_of(request).null_source = True
            return request
        body = partial(_exchange, comm, data, dest, sendtag, source, recvtag, how, here())
        return handle_of(Request, MessageTask(begin(how.name, body), target.unpack, comm))

    # -------------------------------------------------------------------------------------------- lower case

    def send(self, obj: object, dest: int, tag: int = 0) -> None:
        _send(self._comm(), _dumps(obj, dest), dest, tag, _SEND_OBJECT, _frame(CALLER))

    def ssend(self, obj: object, dest: int, tag: int = 0) -> None:
        _send(self._comm(), _dumps(obj, dest), dest, tag, _SSEND_OBJECT, _frame(CALLER))

    def bsend(self, obj: object, dest: int, tag: int = 0) -> None:
        comm = self._comm()
        data = _dumps(obj, dest)
        reserve_space(comm, dest, len(data))
        _send(comm, data, dest, tag, _BSEND_OBJECT, _frame(CALLER))

    def isend(self, obj: object, dest: int, tag: int = 0) -> Request:
        return _isend(self._comm(), _dumps(obj, dest), dest, tag, _ISEND_OBJECT, _frame(CALLER))

    def issend(self, obj: object, dest: int, tag: int = 0) -> Request:
        return _isend(self._comm(), _dumps(obj, dest), dest, tag, _ISSEND_OBJECT, _frame(CALLER))

    def ibsend(self, obj: object, dest: int, tag: int = 0) -> Request:
        comm = self._comm()
        data = _dumps(obj, dest)
        reserve_space(comm, dest, len(data))
        return _isend(comm, data, dest, tag, _IBSEND_OBJECT, _frame(CALLER))

    def recv(
        self, buf: object = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Any:
        comm = self._comm()
        if buf is not None:
            warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=2)
        if type(tag) is not int or type(source) is not int:
            source, tag = integer(source), integer(tag)
        if not valid_source(comm, source, tag):
            if status is not None:
                set_message(status, PROC_NULL, ANY_TAG, 0)
            return None
        message = receive(comm, source, tag, comm.cid, "Comm.recv")
        data = message.data
        message.data = b""
        if status is not None:
            set_message(status, message.source, message.tag, message.size_bytes)
        try:
            return loader(buf, None)(data) if buf is not None else load(data)
        except errors.Exception as error:
            blame_sender(error, message)
            if not comm.report(error):
                raise
            return None

    def irecv(self, buf: object = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        return _irecv(self._comm(), loader(buf, current_options().irecv_bufsz), source, tag, "Comm.irecv")

    def sendrecv(
        self,
        sendobj: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        data = _dumps(sendobj, dest)
        comm, how, place = self._comm(), _SENDRECV_OBJECT, _frame(CALLER)
        finish = loader(recvbuf, None)
        return _sendrecv(comm, data, dest, sendtag, source, recvtag, how, place, finish=finish, status=status)

    # ------------------------------------------------------------------------------------------------ probes

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        probe(self._comm(), source, tag, status, "Comm.Probe", matched=False)
        return True

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        return iprobe(self._comm(), source, tag, status, matched=False) is not None

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        return message_of(self._comm(), probe(self._comm(), source, tag, status, "Comm.Mprobe", matched=True))

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        found = iprobe(self._comm(), source, tag, status, matched=True)
        return None if found is None else message_of(self._comm(), found)

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        return self.Probe(source, tag, status)

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        return self.Iprobe(source, tag, status)

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        return self.Mprobe(source, tag, status)

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        return self.Improbe(source, tag, status)

    # ------------------------------------------------------------------------------------ persistent requests

    def Send_init(self, buf: object, dest: int, tag: int = 0) -> Prequest:
        return self._send_init(buf, dest, tag, _SEND_INIT)

    def Ssend_init(self, buf: object, dest: int, tag: int = 0) -> Request:
        return self._send_init(buf, dest, tag, _SSEND_INIT)

    def Rsend_init(self, buf: object, dest: int, tag: int = 0) -> Request:
        return self._send_init(buf, dest, tag, _RSEND_INIT)

    def Bsend_init(self, buf: object, dest: int, tag: int = 0) -> Request:
        return self._send_init(buf, dest, tag, _BSEND_INIT)

    def _send_init(self, buf: object, dest: int, tag: int, how: SendCall) -> Prequest:
        comm = self._comm()
        dest, tag = integer(dest), integer(tag)
        views = KnownViews()
        with views:
            _bytes_of(buf, dest)
        _valid_dest(comm, dest, tag, waits=False)

        def start() -> Operation | None:
            with views:
                data = _bytes_of(buf, dest)
            if how.mode == BUFFERED_MODE:
                reserve_space(comm, dest, len(data))
            request = _isend(comm, data, dest, tag, how, frame_here())
            operation: Operation | None = impl_of(request).operation
            return operation

        return persistent(MessageTask(None, None, comm), start)

    def Recv_init(self, buf: object, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        comm = self._comm()
        source, tag = integer(source), integer(tag)
        target = _target_of(buf, source)
        real = valid_source(comm, source, tag, waits=False)
        task = MessageTask(None, target.unpack, comm, null_source=not real)
        return persistent(task, lambda: _begin_receive(comm, source, tag, "Comm.Recv_init") if real else None)


# ---------------------------------------------------------------------------------------- shared by the methods


def _bytes_of(buf: object, dest: int) -> bytes:
    return b"" if dest == PROC_NULL else packed(buf)


def _target_of(buf: object, source: int) -> Target:
    return NULL_TARGET if source == PROC_NULL else receiver(buf)


def _unpack(comm: Communicator, target: Target, data: bytes, message: Envelope) -> None:
    """Store received data; an error goes to the communicator's handler."""
    try:
        target.unpack(data)
    except errors.Exception as error:
        blame_sender(error, message)
        if not comm.report(error):
            raise


def _dumps(obj: object, dest: int) -> bytes:
    return b"" if dest == PROC_NULL else dump(obj)


def _valid_dest(comm: Communicator, dest: int, tag: int, *, waits: bool = True) -> bool:
    """Check a destination and a tag; return False for PROC_NULL, which needs no message.

    On a revoked communicator, a call that waits is rejected nevertheless; one that only begins an operation is not.
    """
    if not 0 <= tag <= TAG_LIMIT:
        comm.reject(c.ERR_TAG, f"tag {tag} is not in 0..{TAG_LIMIT}")
        return False
    if 0 <= dest < len(comm.remote):
        return True
    if dest != PROC_NULL:
        comm.reject(c.ERR_RANK, f"rank {dest} is not in 0..{len(comm.remote) - 1}")
    elif waits and comm.fabric.failure_seen:
        comm.fabric.guard.admit(comm, None)
    return False


def _send(comm: Communicator, data: bytes, dest: int, tag: int, how: SendCall, about: object) -> None:
    if type(tag) is not int or type(dest) is not int:
        dest, tag = integer(dest), integer(tag)
    if not (0 <= dest < len(comm.peer_ranks) and 0 <= tag <= TAG_LIMIT) and not _valid_dest(comm, dest, tag):
        return
    send = start_send(comm, dest, tag, data, comm.cid, how, about)
    if send is not None:
        wait(send)


def _isend(comm: Communicator, data: bytes, dest: int, tag: int, how: SendCall, about: object) -> Request:
    if type(tag) is not int or type(dest) is not int:
        dest, tag = integer(dest), integer(tag)
    send: Operation | None = None
    if _valid_dest(comm, dest, tag, waits=False):
        if comm.fabric.failure_seen:
            send = refused(comm, comm.remote[dest])
        if send is None:
            send = start_send(comm, dest, tag, data, comm.cid, how, about)
    return handle_of(Request, MessageTask(send, None, comm))


def _irecv(comm: Communicator, finish: Callable[[Any], Any], source: int, tag: int, name: str) -> Request:
    if type(tag) is not int or type(source) is not int:
        source, tag = integer(source), integer(tag)
    if valid_source(comm, source, tag, waits=False):
        task = MessageTask(_begin_receive(comm, source, tag, name), finish, comm)
    else:
        task = MessageTask(None, null_source=True)
    return handle_of(Request, task)


def _begin_receive(comm: Communicator, source: int, tag: int, name: str) -> Operation:
    if comm.fabric.failure_seen:
        operation = refused(comm, comm.remote[source] if source >= 0 else None)
        if operation is not None:
            return operation
    return start_receive(comm, source, tag, comm.cid, name)


def _exchange(
    comm: Communicator, data: bytes, dest: int, sendtag: int, source: int, recvtag: int, how: SendCall, about: object
) -> Envelope:
    """Send and receive concurrently; the source exists, the destination may be PROC_NULL."""
    send = None
    if dest != PROC_NULL:
        send = start_send(comm, dest, sendtag, data, comm.cid, how, about)
    message = receive(comm, source, recvtag, comm.cid, how.name)
    comm.box.used = None  # the message is used later
    if send is not None:
        wait(send)
    return message


def _sendrecv(
    comm: Communicator,
    data: bytes,
    dest: int,
    sendtag: int,
    source: int,
    recvtag: int,
    how: SendCall,
    about: object,
    *,
    finish: Callable[[Any], Any],
    status: Status | None,
) -> object:
    dest, sendtag, source, recvtag = map(integer, (dest, sendtag, source, recvtag))
    if not _valid_dest(comm, dest, sendtag):
        dest = PROC_NULL
    if not valid_source(comm, source, recvtag):
        _send(comm, data, dest, sendtag, how, about)
        if status is not None:
            set_message(status, PROC_NULL, ANY_TAG, 0)
        return None
    message = _exchange(comm, data, dest, sendtag, source, recvtag, how, about)
    if status is not None:
        set_message(status, message.source, message.tag, message.size_bytes)
    return deliver(comm, finish, message)
