"""The checks as a tool of the door, and the check of each call."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection
from functools import cache, partial
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import PACKAGE, of_program
from xsim_py.findings import CALL_ORDERING, EPOCH_LIFECYCLE, INVALID_PARAMETER, PARAMETER_MATCHING
from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.transport.call_sites import here
from xsim_py.mpi4py import MPI
from xsim_py.mpi4py.commhandle import CommHandle
from xsim_py.mpi4py.datatype import Datatype
from xsim_py.mpi4py.door import COMMUNICATING, LIFE, BoundCall, Callee, Handlers, Tool
from xsim_py.mpi4py.file import File
from xsim_py.mpi4py.handle import Handle
from xsim_py.mpi4py.op import Op
from xsim_py.mpi4py.probes import Message
from xsim_py.mpi4py.request import Grequest, Request
from xsim_py.mpi4py.win import Win
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
from .monitor import Monitor, MpiCall, RankState, call_of
from .steps import replay_all

if TYPE_CHECKING:
    from types import TracebackType

    from xsim_py.process.ranks.fiber import Fiber
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
_CHECKS_OF_FUNCTIONS: dict[str, Callable[..., Any]] = {"Free_mem": buffers.check_freed}
_POLLS = frozenset(
    {
        *("Iprobe", "iprobe", "Improbe", "improbe", "Test", "test", "Testany", "testany", "Testall", "testall"),
        *("Testsome", "testsome", "Get_status", "get_status", "Waitany", "waitany", "Waitsome", "waitsome"),
    }
)
"""Calls whose result may depend on timing, so that the program may behave differently."""
_LOOKUPS = frozenset(("Info.pop", "Info.popitem"))
"""Methods for which `KeyError` is a valid result, as for a dictionary."""
_NO_PICKLE = (UnpicklingError, EOFError)
_OF_PYTHON = (TypeError, ValueError, KeyError, IndexError, OverflowError, BufferError)


_OF_MPI4PY = os.path.dirname(MPI.__file__) + os.sep
_FEW_OBJECTS = 100_000
_MOST_STEPS = 10_000
"""A rank keeps at most this number of steps when it may be waiting for something that never begins."""


class CheckTool(Tool):
    """Notifies a monitor of every MPI call of the program, and of what the simulator observes outside of calls."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def new_call(self, fiber: Fiber, outer: MpiCall | None) -> MpiCall:
        """Return the `MpiCall` of a thread."""
        return self.monitor.new_call(fiber, outer)

    def handlers(self, method: Callee) -> Handlers:
        """Return what to do about the calls of a method."""
        monitor, (owner, name, _) = self.monitor, method
        if owner is None:
            return _handlers(monitor, name, _CHECKS_OF_FUNCTIONS.get(name))
        found = _handlers(monitor, name, check_of(owner, name))
        if not monitor.synchronous:
            return found
        if name in awaiting.TESTS and issubclass(owner, Request):
            return found._replace(instead=awaiting.wait_instead)
        if name in _SYNCHRONOUS:
            return found._replace(instead=_replaced_by(getattr(owner, _SYNCHRONOUS[name])))
        return found

    def completed(self, task: object, operation: object) -> None:
        """Record the completion of a request."""
        fiber = current.here()
        call = call_of(fiber)
        if call is not None:
            requests.completed(self.monitor, call.rank, task, operation, call if call.is_open else None)
        elif fiber is not None:
            requests.completed(self.monitor, self.monitor.rank(fiber.rank.number), task, operation, None)

    def handled(self, error: object) -> None:
        """Record an error passed to an error handler, which ends the job or lets the call return."""
        assert isinstance(error, errors.Exception)
        call = call_of(current.here())
        if call is not None and call.is_open and call.name != "Call_errhandler":
            _refused(self.monitor, call, error)
            self.monitor.refused.add(call)

    def misplaced(self, when: str) -> None:
        """Record a call before MPI_Init or after MPI_Finalize, which ends the job."""
        number = current.running().rank.number
        place = *here(), self.monitor.doing.get(number, "")  # an attribute such as `comm.rank` is not a call
        self.monitor.note(CALL_ORDERING, place, f"MPI is used {when}", number)

    def accessing(self, file: object) -> Callable[[Any, bool], None] | None:
        """Return the function that takes the pieces of a file that the current call accesses."""
        return file_accesses.accessing(self.monitor, call_of(current.here()), file)

    def uncaught(self, error: BaseException) -> None:
        """Record an uncaught exception."""
        _uncaught(self.monitor, current.running().rank.number, error)

    def unfinalized(self, rank: Rank) -> None:
        """Record a rank that ends without ``MPI.Finalize``."""
        last = rank.fiber.call
        if last is not None:
            text = "the rank exits without MPI.Finalize; this is its last call"
            self.monitor.note(CALL_ORDERING, last.place, text, rank.number)


def install(patches: Patches, monitor: Monitor) -> CheckTool:
    """Return the tool that notifies a monitor of a run, and prepare the interpreter for it."""
    monitor.lines.begin()
    patches.at_end(monitor.lines.end)
    _collect_seldom(patches)
    checks = current.events = CheckTool(monitor)
    patches.at_end(partial(setattr, current, "events", None))
    return checks


def _replaced_by(function: Callable[..., Any]) -> Callable[[BoundCall, Callable[..., Any]], Any]:
    """Return the layer that calls another method with the same parameters."""

    def instead(call: BoundCall, real: Callable[..., Any]) -> object:
        assert call.arguments is not None
        return function(*call.arguments)

    return instead


def _handlers(monitor: Monitor, name: str, check: Callable[..., Any] | None) -> Handlers:
    """Return what a monitor does about the calls of a name."""
    lines, accesses, doing, refused = monitor.lines, monitor.accesses, monitor.doing, monitor.refused
    polls = name in _POLLS

    # Hot path: every call of a program runs these.
    def before(call: MpiCall) -> None:
        state = call.rank
        if state.buffers or state.exposed:
            lines.pause()
        call.place = call.code, call.at, doing.get(state.number, "")
        if check is not None and call.arguments is not None:  # else the method itself refuses the arguments
            call.after = check(monitor, call, *call.arguments)

    def after(call: MpiCall, result: object) -> None:
        if polls:
            monitor.polls = True
        call.waits_for = call.sending = None
        rest, call.after = call.after, None
        if refused and call in refused:
            refused.remove(call)
            rest = None
        if (rest is None or not rest(result)) and result is not None:
            _ended(monitor, call, result)
        state = call.rank
        steps = state.steps
        if steps.pending and not accesses:
            steps.replay()
            if len(steps.pending) > state.replay_limit:
                _tidy(monitor, state)
        if state.buffers or state.exposed:
            lines.resume(call.frame, state)  # type: ignore[arg-type]

    def failed(call: MpiCall, error: BaseException) -> None:
        try:
            _failed(monitor, call, error)
        finally:
            call.waits_for = call.sending = call.after = None
        state = call.rank
        if isinstance(error, Exception) and (state.buffers or state.exposed):  # else the rank is ending
            lines.resume(call.frame, state, raised=True)  # type: ignore[arg-type]

    return Handlers(before, after, failed, bound=True)


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
        owner = next((cls for cls in COMMUNICATING if error.name in vars(cls)), None)
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
def check_of(owner: type, name: str) -> Callable[..., Any] | None:
    """Return the check of a method, which takes the monitor, the call and its arguments; None if it has none."""
    if issubclass(owner, Request):
        return _OF_REQUESTS.get(name) if owner is not Grequest else None
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


def _ended(monitor: Monitor, call: MpiCall, result: Any) -> None:
    """Record the objects that a call has created."""
    if type(result) in (int, bool):
        return
    if isinstance(result, Request):
        requests.of_request(monitor, call, result)
    elif isinstance(result, Handle):
        if call.arguments is None or result is not call.arguments[0]:  # `Datatype.Commit` returns its own handle
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
    if name in LIFE:
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
