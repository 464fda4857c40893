"""The fault-tolerance methods of `MPI.Comm`: user-level failure mitigation (ULFM)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi.failures import knowledge, repair
from xsim_py.mpi.failures.revocation import Revocation
from xsim_py.mpi.group import Members
from xsim_py.mpi.polling import detect_by_polling
from xsim_py.mpi.transport.message import Operation
from xsim_py.mpi.transport.p2p import complete
from xsim_py.process.output.tracebacks import forget_frames
from xsim_py.process.python import clock

from .commhandle import CommHandle
from .group import Group, group_of
from .handle import handle_of
from .inside import impl_of
from .management import wrapped
from .memory import exported
from .plain_arguments import integer
from .request import Request, Task

__all__ = ["FaultTolerance"]


class FaultTolerance(CommHandle):
    """The methods of `Comm` for use after a failure; all of them work on a revoked communicator."""

    __slots__ = ()

    def Revoke(self) -> None:
        comm = self._comm()
        forget_frames()
        comm.fabric.part(Revocation).revoke(comm)

    def Is_revoked(self) -> bool:
        revoked = knowledge.is_revoked(self._comm())
        if not revoked:
            clock.read_ps()  # it has no cost either, unless a loop waits for it
        return revoked

    def Get_failed(self) -> Group:
        comm = self._comm()
        # A program that polls for another failure looks for one, as a probe looks for a message.
        detect_by_polling(comm, ("failed", len(comm.failed_members())), comm.holds)
        failed = tuple(comm.failed_members())
        if not failed:
            clock.read_ps()
        return group_of(Members(failed))

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        comm = self._comm()
        if num_to_ack is not None and (num_to_ack := integer(num_to_ack)) < 0:
            comm.fail(c.ERR_ARG, f"{num_to_ack} failures cannot be acknowledged")
        return comm.acknowledge(num_to_ack)

    def Agree(self, flag: int) -> int:
        forget_frames()
        call = repair.begin_agree(self._comm(), as_c_int(flag), "Comm.Agree")
        complete(call)
        repair.check_agreed(call)
        return repair.agreed_flag(call)

    def Iagree(self, flag: object) -> Request:
        place = _one_int(flag)
        call = repair.begin_agree(self._comm(), int(place[0]), "Comm.Iagree")

        def finish() -> None:
            place[0] = repair.agreed_flag(call)
            repair.check_agreed(call)

        return _request(call, finish)

    def Shrink(self) -> Any:
        forget_frames()
        call = repair.begin_shrink(self._comm(), "Comm.Shrink")
        complete(call)
        return self._repaired(call)

    def Ishrink(self) -> tuple[Any, Request]:
        call = repair.begin_shrink(self._comm(), "Comm.Ishrink")
        made = self._plain_class()()

        def finish() -> None:
            made._impl = impl_of(self._repaired(call))

        return made, _request(call, finish)

    def _repaired(self, call: repair.RepairCall) -> Any:
        return wrapped(self._plain_class(), repair.shrunk(call), call.comm)

    def _plain_class(self) -> Any:
        raise NotImplementedError


def _request(call: Operation, finish: Callable[[], None]) -> Request:
    return handle_of(Request, Task(call, lambda _: finish()))


def as_c_int(value: SupportsIndex) -> int:
    """Return a number as a C int; raise OverflowError if it does not fit, as in mpi4py."""
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise OverflowError("value too large to convert to int")
    return number


def _one_int(flag: object) -> np.ndarray[Any, Any]:
    """Return the program's buffer of one C int.

    BufferError, TypeError or ValueError are raised as in mpi4py.
    """
    view = exported(flag)
    if view.readonly:
        raise BufferError("underlying buffer is not writable")
    if not view.contiguous:
        raise BufferError("writable contiguous buffer requested for a non-contiguous object.")
    if view.format != "i":
        raise ValueError(f"expecting buffer with format 'i', got '{view.format}'")
    if view.nbytes != view.itemsize:
        raise ValueError("flag: expecting int buffer of length one")
    return np.frombuffer(view, np.intc)
