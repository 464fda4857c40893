"""Installation of a monitor around the calls of a run, and the check of each call."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import PACKAGE, of_program
from xsim_py.findings import CALL_ORDERING, EPOCH_LIFECYCLE, INVALID_PARAMETER, PARAMETER_MATCHING
from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi4py import MPI, misplaced_calls
from xsim_py.mpi4py._install import measured_owners
from xsim_py.mpi4py.commhandle import CommHandle
from xsim_py.mpi4py.datatype import Datatype
from xsim_py.mpi4py.errhandling import BoundHandler
from xsim_py.mpi4py.file import File
from xsim_py.mpi4py.handle import Handle
from xsim_py.mpi4py.op import Op
from xsim_py.mpi4py.probes import Message
from xsim_py.mpi4py.request import Request
from xsim_py.mpi4py.win import Win
from xsim_py.process import lifecycle
from xsim_py.process.output import tracebacks
from xsim_py.process.ranks import current

from . import (
    arguments,
    awaiting,
    buffers,
    collectives,
    conflicts,
    epochs,
    file_accesses,
    files,
    ordering,
    partitions,
    point_to_point,
    requests,
    resources,
    rma,
)
from .monitor import Monitor, MpiCall, RankState
from .steps import replay_all
from .wrapping import Hooks, watched

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType

    from xsim_py.process.ranks.patches import Patches
    from xsim_py.process.ranks.rank import Rank

    from .records import Place


_INVALID = frozenset(
    {
        c.ERR_AMODE,
        c.ERR_ARG,
        c.ERR_BUFFER,
        c.ERR_COMM,
        c.ERR_COUNT,
        c.ERR_DIMS,
        c.ERR_DISP,
        c.ERR_ERRHANDLER,
        c.ERR_FILE,
        c.ERR_GROUP,
        c.ERR_INFO,
        c.ERR_KEYVAL,
        c.ERR_OP,
        c.ERR_RANK,
        c.ERR_REQUEST,
        c.ERR_ROOT,
        c.ERR_SESSION,
        c.ERR_SIZE,
        c.ERR_TAG,
        c.ERR_TOPOLOGY,
        c.ERR_TYPE,
        c.ERR_WIN,
        c.ERR_ASSERT,
        c.ERR_LOCKTYPE,
        c.ERR_INFO_KEY,
        c.ERR_INFO_NOKEY,
        c.ERR_INFO_VALUE,
        c.ERR_RMA_RANGE,
    }
)
_SYNCHRONOUS = {
    "Send": "Ssend",
    "Rsend": "Ssend",
    "send": "ssend",
    "Isend": "Issend",
    "Irsend": "Issend",
    "isend": "issend",
    "Send_init": "Ssend_init",
    "Rsend_init": "Ssend_init",
}
"""The synchronous counterpart of each send that may be buffered."""
_OF_REQUESTS: dict[str, Callable[..., Any]] = {
    "Free": requests.free,
    "free": requests.free,
    **dict.fromkeys(("Cancel", "cancel"), requests.cancel),
    "Start": point_to_point.start,
    "Startall": point_to_point.start_all,
    "Wait": requests.wait,
    "Waitall": requests.wait_all,
    "Get_status": requests.status,
    "get_status": requests.status,
    "Get_status_all": requests.status_all,
    "get_status_all": requests.status_all,
    "Get_status_any": requests.status_any,
    "get_status_any": requests.status_any,
    "Get_status_some": requests.status_some,
    "get_status_some": requests.status_some,
    **partitions.OF_REQUESTS,
}
_LIFE = ("Init", "Init_thread", "Finalize")
_CHECKS_OF_FUNCTIONS: dict[str, Callable[..., Any]] = {"Free_mem": buffers.check_freed}
_FUNCTIONS = (
    *("Attach_buffer", "Close_port", "Compute_dims", "Detach_buffer", "Free_mem", "Lookup_name", "Unpublish_name"),
    *_LIFE,
)
"""Functions of the module `MPI` that a program may call wrongly."""
_LOOKUPS = frozenset(("Info.pop", "Info.popitem"))
"""Methods for which `KeyError` is a valid result, as for a dictionary."""
_NO_PICKLE = (UnpicklingError, EOFError)
_OF_PYTHON = (TypeError, ValueError, KeyError, IndexError, OverflowError, BufferError)


_OF_MPI4PY = os.path.dirname(MPI.__file__) + os.sep
_FEW_OBJECTS = 100_000
_MOST_STEPS = 10_000
"""A rank keeps at most this number of steps when it may be waiting for something that never begins."""


def install(patches: Patches, monitor: Monitor) -> None:
    """Notify a monitor of every MPI call of the program during the run."""
    owners = set(measured_owners()) - {Handle}
    for cls in resources.KINDS:
        owners |= {base for base in cls.__mro__ if base.__module__.startswith(("mpi4py", "xsim_py.mpi4py"))}
    owners -= {Handle}
    patches.wrap_calls(
        sorted(owners, key=lambda cls: cls.__qualname__),
        lambda owner, name, function: watched(
            monitor,
            _family(owner),
            name,
            _synchronous(owner, name, function) if monitor.synchronous else function,
            Hooks(_check_of(owner, name), _ended, _failed, _tidy),
        ),
    )
    for name in _FUNCTIONS:
        hooks = Hooks(_CHECKS_OF_FUNCTIONS.get(name), _ended, _failed, _tidy)
        patches.set(MPI, name, watched(monitor, "MPI", name, getattr(MPI, name), hooks))
    file_accesses.install(patches, monitor)
    monitor.lines.begin()
    patches.at_end(monitor.lines.end)
    _collect_seldom(patches)
    _see_handled_errors(patches, monitor)
    _see_misplaced_calls(patches, monitor)
    _see_uncaught_errors(patches, monitor)
    completed, calls = Request._completed, monitor.calls

    @wraps(completed)
    def complete(handle: Request, status: Any) -> Any:
        task = handle._task()
        operation = task.operation
        try:
            return completed(handle, status)
        finally:
            fiber = current.here()
            call = calls.get(fiber)
            if call is not None:
                requests.completed(monitor, call.rank, task, operation, call if call.is_open else None)
            elif fiber is not None:
                requests.completed(monitor, monitor.rank(fiber.rank.number), task, operation, None)

    patches.set(Request, "_completed", complete)


def _synchronous(owner: type, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method as it is without buffering, with loops over tests waiting."""
    if name in awaiting.TESTS and issubclass(owner, Request):
        return awaiting.waiting(name, function)
    return getattr(owner, _SYNCHRONOUS[name]) if name in _SYNCHRONOUS else function


def _see_handled_errors(patches: Patches, monitor: Monitor) -> None:
    """Notify a monitor of errors passed to an error handler.

    The handler ends the job or lets the call return.
    """
    act = BoundHandler.__call__

    @wraps(act)
    def handle(handler: BoundHandler, comm: Any, error: errors.Exception) -> bool:
        call = monitor.calls.get(current.here())
        if call is not None and call.is_open and call.name != "Call_errhandler":
            _refused(monitor, call, error)
            monitor.refused.add(call)
        return act(handler, comm, error)

    patches.set(BoundHandler, "__call__", handle)


def _see_misplaced_calls(patches: Patches, monitor: Monitor) -> None:
    """Notify a monitor of calls before MPI_Init or after MPI_Finalize, which end the job."""
    refuse = misplaced_calls.abort_misplaced

    def refuse_after_note(when: str) -> None:
        number = current.running().rank.number
        place = monitor.place_of(sys._getframe(1), number)  # an attribute such as `comm.rank` is not a call
        monitor.note(CALL_ORDERING, place, f"MPI is used {when}", number)
        refuse(when)

    patches.set(misplaced_calls, "abort_misplaced", refuse_after_note)


def _see_uncaught_errors(patches: Patches, monitor: Monitor) -> None:
    """Notify a monitor of uncaught exceptions, and of ranks that end without ``MPI.Finalize``."""
    announce = lifecycle.announce

    def note_uncaught(error: BaseException) -> None:
        _uncaught(monitor, current.running().rank.number, error)

    @wraps(announce)
    def announced(rank: Rank, time_ps: int, status: int, message: str, **named: Any) -> None:
        if message == lifecycle.UNFINALIZED:
            last = next((call for call in monitor.calls.values() if call.rank.number == rank.number), None)
            if last is not None:
                text = "the rank exits without MPI.Finalize; this is its last call"
                monitor.note(CALL_ORDERING, last.place, text, rank.number)
        announce(rank, time_ps, status, message, **named)

    patches.set(tracebacks, "uncaught", note_uncaught)
    patches.set(lifecycle, "announce", announced)


def _uncaught(monitor: Monitor, rank: int, error: BaseException) -> None:
    """Find the usage error behind an uncaught exception.

    It is that of a call, or of an object without such a method.
    """
    raised = _raised_by(monitor, rank, error)
    if raised is not None:
        at, category, text, details = raised
        monitor.note_error(category, at, text, rank, *details)
        return
    tb, place, file = error.__traceback__, None, ""
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if of_program(file):
            place = tb.tb_frame.f_code, tb.tb_lasti, monitor.doing.get(rank, "")
        tb = tb.tb_next
    if place is None or monitor.has_noted(place, rank):
        return
    if isinstance(error, AttributeError) and isinstance(error.obj, Handle) and of_program(file):
        owner = next((cls for cls in measured_owners() if error.name in vars(cls)), None)
        if owner is not None:
            kind = type(error.obj).__name__
            text = f"{kind}.{error.name}: a {kind}{'' if error.obj else ' that is null'} has no such method"
            monitor.note(INVALID_PARAMETER, place, text, rank)
    elif isinstance(error, TypeError) and file.startswith(_OF_MPI4PY):
        monitor.note(INVALID_PARAMETER, place, f"TypeError: {error}", rank)


def _raised_by(
    monitor: Monitor, rank: int, error: BaseException | None
) -> tuple[Place, str, str, tuple[str, ...]] | None:
    """Return the finding of the call that raised an exception, or one in its chain of causes."""
    while error is not None:
        tb = error.__traceback__
        while tb is not None:
            found = monitor.raised.get((rank, tb.tb_frame.f_code, tb.tb_lasti))
            if found is not None:
                return found
            tb = tb.tb_next
        error = error.__cause__ or error.__context__
    return None


def _collect_seldom(patches: Patches) -> None:
    """Run Python's garbage collector less often.

    Records of calls, kept until the end, are not garbage.
    """
    patches.at_end(partial(gc.set_threshold, *gc.get_threshold()))
    first, second, third = gc.get_threshold()
    gc.set_threshold(max(first, _FEW_OBJECTS), max(second, 50), third)


@cache
def _family(owner: type) -> str:
    """Return the class name that programs use for the methods of one of our classes."""
    if issubclass(owner, CommHandle):
        return "Comm"
    if issubclass(owner, Handle) and not issubclass(owner, Request):
        for cls in (*resources.KINDS, Message):
            if issubclass(owner, cls) or issubclass(cls, owner):
                return cls.__name__
    return owner.__name__


@cache
def _check_of(owner: type, name: str) -> Callable[..., Any] | None:
    if issubclass(owner, Request):
        return _OF_REQUESTS.get(name)
    if issubclass(owner, Message):
        return point_to_point.OF_MESSAGES.get(name)
    if name in resources.ENDS:
        return resources.free
    if issubclass(owner, (Datatype, Op)):
        return arguments.CHECKS.get(name)
    if issubclass(owner, Win):
        return rma.CHECKS.get(name)
    if issubclass(owner, CommHandle):
        return point_to_point.CHECKS.get(name) or collectives.CHECKS.get(name) or partitions.CHECKS.get(name)
    if issubclass(owner, File) and name in files.CHECKS and name != "Close":
        return files.CHECKS[name]
    return None


def _ended(monitor: Monitor, call: MpiCall, first: Any, result: Any) -> None:
    """Record the objects that a call has created."""
    if type(result) in (int, bool):
        return
    if isinstance(result, Request):
        requests.of_request(monitor, call, result)
    elif isinstance(result, Handle):
        if result is not first:  # `Datatype.Commit` returns its own handle
            resources.note_created(call, result)
    elif type(result) is tuple and result and isinstance(result[-1], Request):
        requests.of_request(monitor, call, result[-1])
        if isinstance(result[0], Handle):
            resources.note_created(call, result[0])
    elif call.name == "Get_contents":
        for datatype in result[-1]:
            resources.note_created(call, datatype)


def _tidy(monitor: Monitor, state: RankState) -> None:
    """Drop the steps that all ranks have completed."""
    every = [other.steps for other in monitor.ranks.values()]
    replay_all(every, is_over=False)
    if len(state.steps.pending) > _MOST_STEPS:
        for steps in every:
            steps.relax()
        replay_all(every, is_over=False)
    state.raise_replay_limit()


def _failed(monitor: Monitor, call: MpiCall, error: BaseException) -> None:
    """Keep the error raised by a call, for a report if the program does not catch it.

    An exception from a function of the program that the call has called back is not an error of MPI.
    """
    if call in monitor.refused:
        monitor.refused.remove(call)
        return
    _withdraw(call, error)
    found = _refusal(monitor, call, error) if _is_ours(error.__traceback__) else None
    if found is not None:
        code, offset, _ = call.place
        monitor.raised[call.rank.number, code, offset] = call.place, *found, ()


def _refused(monitor: Monitor, call: MpiCall, error: errors.Exception) -> None:
    """Record an error passed to an error handler."""
    _withdraw(call, error)
    found = _refusal(monitor, call, error)
    if found is not None:
        monitor.note_error(found[0], call.place, found[1], call.rank.number)


def _withdraw(call: MpiCall, error: BaseException) -> None:
    if isinstance(error, _OF_PYTHON) or (isinstance(error, errors.Exception) and error.Get_error_class() in _INVALID):
        for exposed in call.rank.exposed:
            exposed.withdraw(call.place)


def _refusal(monitor: Monitor, call: MpiCall, error: BaseException) -> tuple[str, str] | None:
    """Return the class and text of the finding for an error.

    The result is None if it was reported before the call.
    """
    if monitor.has_noted(call.place, call.rank.number):
        return None
    if isinstance(error, errors.Exception):
        code = error.Get_error_class()
        if code == c.ERR_IN_STATUS and call.rank.number in monitor.truncated:
            code = c.ERR_TRUNCATE
        category = _category_of(code, call.name)
        message = str(error).removeprefix("MPI_")
        return (category, f"{call.title}: {message}") if category else None
    if isinstance(error, _NO_PICKLE):
        return PARAMETER_MATCHING, f"{call.title} expects a pickled object, but the message is not one: {error}"
    if isinstance(error, ValueError) and monitor.has_finding(PARAMETER_MATCHING):
        return None  # e.g. from numpy, for blocks that do not fit: the cause is already reported
    if isinstance(error, _OF_PYTHON) and not (isinstance(error, KeyError) and call.title in _LOOKUPS):
        message = str(error).strip("'\"")
        return INVALID_PARAMETER, f"{call.title}: {type(error).__name__}: {message}"
    return None


def _category_of(code: int, name: str) -> str:
    """Return the class of findings for an MPI error class; empty if it is not a usage error."""
    if name in _LIFE:
        return CALL_ORDERING
    if code in (c.ERR_TRUNCATE, c.ERR_NOT_SAME):
        return PARAMETER_MATCHING
    if code in (c.ERR_RMA_SYNC, c.ERR_RMA_CONFLICT):
        return EPOCH_LIFECYCLE
    is_wrong = code in _INVALID or (code in (c.ERR_READ_ONLY, c.ERR_ACCESS) and name != "Open")
    return INVALID_PARAMETER if is_wrong else ""


def _is_ours(tb: TracebackType | None) -> bool:
    """Return True if the simulator rather than a function of the program raised an exception."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and tb.tb_frame.f_code.co_filename.startswith(PACKAGE)


def finish(
    monitor: Monitor,
    ended: str,  # the outcome of the run; see `report.result.ENDINGS`
    waiting: set[int],  # the ranks that wait forever
    finished: set[int],  # the ranks that finished normally
    *,
    failure_seen: bool,  # whether processes have failed: then calls were interrupted through no error of the program
    # The tests that a rank has left by an exception: what they leave open is not reported.
    broken_off: Collection[str] = (),
) -> None:
    """Run the final checks at the end of a run."""
    if ended == "interrupted" or failure_seen:
        return
    monitor.lines.pause()  # the last rank ended outside a call
    requests.in_progress(monitor)
    conflicts.conflicting(monitor, broken_off)
    monitor.excused = broken_off
    if ended == "wall limit":
        return
    if ended != "stalled":
        monitor.is_doubtful = ordering.buffered(monitor) is None
    if ended != "finished":
        requests.lost(monitor)
    if ended == "aborted":
        return
    for number in sorted(finished):
        state = monitor.ranks.get(number)
        if state is not None:
            requests.unfinished(monitor, state)
            epochs.unfinished(monitor, number)
            files.unfinished(monitor, number)
            if ended == "finished":
                resources.unfreed(monitor, state)
    if ended == "finished":
        ordering.unreceived(monitor)
    else:
        ordering.unreceived(monitor, before=True)
        ordering.stalled(monitor, waiting)
