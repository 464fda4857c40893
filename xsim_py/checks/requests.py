"""Checks of the life cycle of requests.

Requests are completed; persistent ones are started, completed and freed.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from xsim_py.findings import REQUEST_LIFECYCLE, RESOURCE_LEAK
from xsim_py.mpi.transport.message import Receive
from xsim_py.mpi4py.inside import impl_of, null_of
from xsim_py.mpi4py.request import Prequest, Request
from xsim_py.mpi4py.request_tasks import GeneralizedOperation

from .awaiting import TESTS, is_awaiting
from .records import CollectiveCall, MessageSide, Place, RequestWait
from .signatures import PICKLE
from .steps import PERHAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .buffers import Used
    from .monitor import Monitor, MpiCall, RankState

_WAITS = frozenset(("Wait", "wait", "Waitall", "waitall"))
_WAITS_FOR_ONE = frozenset(("Waitany", "waitany", "Waitsome", "waitsome"))


class RequestRecord:
    """A request of a rank, until it is completed, or freed if it is persistent."""

    # Of a persistent request: `sends`, `peer`, `tag`, `buf` and `comm` are arguments of each started send or receive.
    waited_for = sends = False  # the former: whether it was waited for before it was ever started
    peer = tag = 0
    buf: Any = None
    comm: Any = None
    collective: CollectiveCall | None = None  # that it represents
    # For a persistent collective: called with this record and each call that starts it.
    restart: Callable[[RequestRecord, MpiCall], None] | None = None
    at_end: Callable[[], None] | None = None  # called when the request of a one-sided call completes
    partitions: Sequence[Any] = ()  # the parts of the buffer of a partitioned request, each a `PackedMemory`

    def __init__(self, task: Any, title: str, place: Place, *, persistent: bool) -> None:
        self.task = task
        self.title = title  # of the call that created it
        self.place = place
        self.persistent = persistent  # whether it can be started again
        self.active = self.started = not persistent  # whether it is in progress, and was ever started
        self.transfers: list[MessageSide] = []  # the messages that it currently represents
        self.used: list[Used] = []  # the buffers in use while it is active


def of_request(monitor: Monitor, call: MpiCall, request: object) -> RequestRecord | None:
    """Return the record of a request returned by a call, created if it is new.

    The result is None for a null request.
    """
    if not isinstance(request, Request):
        return None
    task = impl_of(request)
    if task is null_of(request):
        return None
    requests = call.rank.requests
    record: RequestRecord | None = requests.get(id(task))
    if record is None:
        persistent = isinstance(request, Prequest)
        record = requests[id(task)] = RequestRecord(task, call.title, call.place, persistent=persistent)
    return record


def completed(monitor: Monitor, state: RankState, task: object, operation: object, call: MpiCall | None) -> None:
    """Record that a request has completed, in a call of the program or on its behalf.

    `operation` is that of the request until now.
    """
    record = state.requests.get(id(task))
    if record is None:
        return
    record.active = False
    if type(operation) is Receive and record.transfers:
        monitor.received(operation.message, record.transfers[0])
    if record.used:
        end_uses(record)
    if record.at_end is not None:
        record.at_end()
    waited: list[Any] = record.transfers if record.collective is None else [record.collective]
    if waited:
        here = [] if call is None else [RequestWait(call.title, call.place)]
        state.steps.add(here, waited, call is not None and (call.name in _WAITS or _may_wait(call)))
    if not record.persistent:
        del state.requests[id(task)]
        record.task = None  # the task refers to the record if it is to restore a buffer


def _may_wait(call: MpiCall) -> str:
    """Return `PERHAPS` if a completion call may have waited for this particular request.

    Otherwise the result is empty.

    Of several requests a different one might have completed, and usually a loop waits for all of them.
    """
    if call.name in _WAITS_FOR_ONE:
        return PERHAPS
    code, offset, _ = call.place
    is_loop = call.name in TESTS and not isinstance(code, str) and is_awaiting(code, code.co_filename, offset)
    return PERHAPS if is_loop else ""


def free(monitor: Monitor, call: MpiCall, request: Request) -> None:
    """Check ``Request.Free``."""
    record = call.rank.requests.pop(id(impl_of(request)), None)
    if record is None:
        return
    operation = record.task.operation
    if record.waited_for and not record.started:
        _never_started(monitor, call.rank, record)
    is_nothing = operation is None and not record.transfers and not record.persistent  # of PROC_NULL
    if record.active and _may_be_freed(record):
        side = record.transfers[0]
        if side.partner is None:  # its buffer is in use until the message has been received
            monitor.freed_sends[side] = record
            return
    elif record.active and not is_nothing and not isinstance(operation, GeneralizedOperation):
        where = f"{monitor.where(call.place)}: freed here"
        text = f"the request of {record.title} is freed while it is active"
        monitor.note(REQUEST_LIFECYCLE, record.place, text, call.rank.number, where)
        monitor.freed.append(record)
    else:
        record.task = None  # as on completion: release the program's buffers when the program does
    end_uses(record)


def _may_be_freed(record: RequestRecord) -> bool:
    """Return True for a send from a buffer of the program, which continues (MPI 4.1, 3.7.3).

    A later message can tell the program that it is complete. A pickled object is released with its request.
    """
    return len(record.transfers) == 1 and record.transfers[0].sends and record.transfers[0].signature is not PICKLE


def cancel(monitor: Monitor, call: MpiCall, request: Request) -> None:
    """Check ``Cancel``, which is only allowed for messages (MPI 4.1, 3.8.4 and 6.12)."""
    record = call.rank.requests.get(id(impl_of(request)))
    if record is not None and record.collective is not None and record.active:
        text = f"the request of {record.title} is cancelled, which is not allowed for a collective"
        where = f"{monitor.where(call.place)}: cancelled here"
        monitor.note(REQUEST_LIFECYCLE, record.place, text, call.rank.number, where)


def in_progress(monitor: Monitor) -> None:
    """Record messages matched by receives that no call has completed."""
    for record in (*monitor.freed, *(each for state in monitor.ranks.values() for each in state.requests.values())):
        operation = record.task.operation
        if type(operation) is Receive and record.transfers:
            monitor.received(operation.message, record.transfers[0])


def end_uses(record: RequestRecord) -> None:
    """Stop guarding the buffers of a request."""
    for used in record.used:
        used.end()
    record.used.clear()


def _never_started(monitor: Monitor, state: RankState, record: RequestRecord) -> None:
    text = f"the request of {record.title} is never started"
    monitor.note(REQUEST_LIFECYCLE, record.place, text, state.number)


def _never_completed(monitor: Monitor, state: RankState, record: RequestRecord) -> None:
    text = f"the request of {record.title} is never completed"
    monitor.note(REQUEST_LIFECYCLE, record.place, text, state.number)


def wait(monitor: Monitor, call: MpiCall, request: object, status: object) -> None:
    """Check ``Wait``, which returns at once for an unstarted request.

    That is an error if the request is started later.
    """
    wait_all(monitor, call, None, (request,), None)


def wait_all(monitor: Monitor, call: MpiCall, cls: object, requests: Iterable[object], statuses: object) -> None:
    """Check ``Waitall``."""
    records = call.rank.requests
    for request in requests:
        record = records.get(id(impl_of(request)))
        if record is not None and not record.started:
            record.waited_for = True


def status(monitor: Monitor, call: MpiCall, request: object, status: object) -> Callable[[Any], None]:
    """Check ``Get_status``: a complete request no longer uses its buffers (MPI 4.1, 3.7.6)."""
    return lambda result: _complete(call, [request] if result else [])


def status_all(
    monitor: Monitor, call: MpiCall, cls: object, requests: Sequence[Request], statuses: object
) -> Callable[[Any], None]:
    """Check ``Get_status_all``."""
    return lambda result: _complete(call, requests if result else [])


def status_any(
    monitor: Monitor, call: MpiCall, cls: object, requests: Sequence[Request], status: object
) -> Callable[[Any], None]:
    """Check ``Get_status_any``."""
    return lambda result: _complete(call, [requests[result[0]]] if result[1] and result[0] >= 0 else [])


def status_some(
    monitor: Monitor, call: MpiCall, cls: object, requests: Sequence[Request], statuses: object
) -> Callable[[Any], None]:
    """Check ``Get_status_some``."""
    return lambda result: _complete(call, [requests[index] for index in result or ()])


def _complete(call: MpiCall, requests: Sequence[Any]) -> None:
    """Stop guarding the buffers of requests found complete but not completed."""
    for request in requests:
        record = call.rank.requests.get(id(impl_of(request)))
        if record is not None and record.active:
            end_uses(record)


def unfinished(monitor: Monitor, state: RankState) -> None:
    """Find the requests that a rank has not completed or freed at the end."""
    for record in state.requests.values():
        if not record.started:
            _never_started(monitor, state, record)
        elif record.active:
            _never_completed(monitor, state, record)
        else:
            text = f"the persistent request of {record.title} is never freed"
            monitor.note(RESOURCE_LEAK, record.place, text, state.number)


def note_lost(monitor: Monitor) -> None:
    """Record active requests of ended activities that no handle refers to.

    With a handle, the program might have completed the request later. This must be called before the ranks' objects are
    released.
    """
    unfinished = [
        (state, record)
        for state in monitor.ranks.values()
        for record in state.requests.values()
        if record.active and monitor.is_over(record.place)
    ]
    named = {id(impl_of(each)) for each in gc.get_objects() if issubclass(type(each), Request)} if unfinished else set()
    monitor.lost = [(state, record) for state, record in unfinished if id(record.task) not in named]


def lost(monitor: Monitor) -> None:
    """Report the requests recorded by `note_lost`."""
    for state, record in monitor.lost:
        _never_completed(monitor, state, record)
