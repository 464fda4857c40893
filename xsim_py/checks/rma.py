"""Checks of one-sided communication: conflicts and unfinished epochs (MPI 4.1, chapter 12).

Two accesses to the same bytes of a window conflict if neither completed before the other began, at least one of them
writes, and they are not accumulations with one operation (12.7.1). Exclusive locks order them.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import EPOCH_LIFECYCLE
from xsim_py.mpi import errors
from xsim_py.mpi.constants import LOCK_EXCLUSIVE, MODE_NOPRECEDE
from xsim_py.mpi4py.bufspec import message, receiver
from xsim_py.mpi4py.inside import impl_of, members_of, null_of
from xsim_py.mpi4py.op import INSTANCES
from xsim_py.mpi4py.win import place_in_target

from . import arguments, buffers, collectives, conflicts, epochs
from .exposed import Exposed, latest_of, note_read, note_seen, seen_record
from .loops import is_repeated
from .monitor import After, Monitor, MpiCall, RankState, is_of_mpi4py
from .records import ACCUMULATE, READ, WRITE, Access, CollectiveCall, Signal
from .requests import end_uses, of_request
from .signatures import kind_of_elements
from .windows import OpenWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SUM = INSTANCES["SUM"]
_ndarray = np.ndarray


def _window_of(call: MpiCall, win: object) -> OpenWindow | None:
    """Return the state of a window; None for a null window."""
    if impl_of(win) is null_of(win):
        return None
    windows = call.rank.windows
    found: OpenWindow | None = windows.get(id(impl_of(win)))
    if found is None:
        found = windows[id(impl_of(win))] = OpenWindow(impl_of(win))
    return found


# -------------------------------------------------------------------------------------------------------- accesses


def _access(
    monitor: Monitor,
    call: MpiCall,
    mine: OpenWindow,
    how: str,
    parsed: Any,
    target: int,
    where: object,
    op: object = None,
) -> Access | None:
    """Record an access that begins now; return None if its target does not exist."""
    window = mine.window
    if not 0 <= target < len(window.comm.ranks):
        return None
    core, displacement, count = place_in_target(parsed, where)
    if isinstance(where, list | tuple) and len(where) > 2:
        arguments.of_target(monitor, call, parsed, core, count)
    is_passive = bool(mine.locks) or window.epochs.all_locked
    if not is_passive and call.name.startswith("R"):
        text = f"{call.title}, which makes a request, is called while no target is locked"
        monitor.note(EPOCH_LIFECYCLE, call.place, text, call.rank.number)
    access = Access(
        call.rank.number,
        call.title,
        call.place,
        how,
        f"{getattr(impl_of(op), 'name', '')} on {kind_of_elements(core)}" if op is not None else "",
        buffers.pieces_from(displacement * window.shape.units[target], core, count) if count * core.size else [],
        exclusive=mine.locks.get(target) == LOCK_EXCLUSIVE,
        epoch=mine.fences,
    )
    access.is_passive = is_passive
    if op is not None:
        access.datatype = core
    access.allowed_by = None if is_passive else mine.allowed.get(target)
    return access


def _parsed(buf: object) -> object:
    try:
        if type(buf) is _ndarray and buf.flags.carray:  # hot path
            return receiver(buf)
        return message(buf, writable=False)
    except Exception:  # the call itself reports the error
        return None


def _guarded(
    monitor: Monitor,
    call: MpiCall,
    mine: OpenWindow,
    target: int,
    access: Access,
    *sent_buffers: object,
    received: object = None,
    latest: dict[int, Access] | None = None,
) -> After:
    """Count an access after its call succeeds, and guard the origin buffers.

    They are guarded until the access is complete.

    If it modifies the target, it becomes the `latest` access of its rank.
    """
    origins = [buffers.guard_send_buffer(monitor, call, buf) for buf in sent_buffers]
    result = None if received is None else buffers.guard_receive_buffer(monitor, call, received)
    uses = buffers.exchange_guards(monitor, call, call.title, *origins, result)

    def begun(request: object) -> None:
        if not mine.is_of_library:
            monitor.accesses.setdefault((mine.key, target), []).append(access)
        if latest is not None:
            latest[access.rank] = access
        access.since = call.rank.next_moment()
        call.rank.steps.add([access], [], True)
        mine.open.setdefault(target, {})[access] = None
        record = None if request is None else of_request(monitor, call, request)
        if record is not None:
            record.at_end = partial(_complete_at_origin, call.rank, mine, target, [access])
        access.used = buffers.NoRequest(call) if record is None else record
        for used in uses:
            used.begin(access.used)

    return begun


def _writes(how: str) -> Callable[..., After | None]:
    def follow(
        monitor: Monitor,
        call: MpiCall,
        win: object,
        origin: object,
        target_rank: int,
        target: object,
        op: object = None,
    ) -> After | None:
        mine, parsed = _window_of(call, win), _parsed(origin)
        if mine is None or parsed is None:
            return None
        access = _access(monitor, call, mine, how, parsed, target_rank, target, op if how == ACCUMULATE else None)
        if access is None:
            return None
        latest = latest_of(monitor, how, mine, target_rank)
        return _guarded(monitor, call, mine, target_rank, access, origin, latest=latest)

    return follow


def _reads(
    monitor: Monitor, call: MpiCall, win: object, origin: object, target_rank: int, target: object
) -> After | None:
    mine, parsed = _window_of(call, win), _parsed(origin)
    if mine is None or parsed is None:
        return None
    access = _access(monitor, call, mine, READ, parsed, target_rank, target)
    if access is None:
        return None
    if access.is_passive:
        access.latest = latest_of(monitor, "stored", mine, target_rank)
        access.polls = is_repeated(0, sys._getframe())
    return _guarded(monitor, call, mine, target_rank, access, received=origin)


def _fetches(
    monitor: Monitor,
    call: MpiCall,
    win: object,
    origin: object,
    result: object,
    target_rank: int,
    target: object,
    op: object,
    *,
    compare: object = None,
) -> After | None:
    mine, parsed = _window_of(call, win), _parsed(result)
    if mine is None or parsed is None:
        return None
    access = _access(monitor, call, mine, ACCUMULATE, parsed, target_rank, target, op)
    if access is None:
        return None
    access.latest = latest = latest_of(monitor, ACCUMULATE, mine, target_rank)
    note_seen(access)
    if access.only_reads:
        access.polls = access.is_passive and is_repeated(0, sys._getframe())
        return _guarded(monitor, call, mine, target_rank, access, received=result)
    return _guarded(monitor, call, mine, target_rank, access, origin, compare, received=result, latest=latest)


def _fetches_one(
    monitor: Monitor,
    call: MpiCall,
    win: object,
    origin: object,
    result: object,
    target_rank: int,
    target_disp: int,
    op: object,
) -> After | None:
    return _fetches(monitor, call, win, origin, result, target_rank, target_disp, op)


def _swaps(
    monitor: Monitor,
    call: MpiCall,
    win: object,
    origin: object,
    compare: object,
    result: object,
    target_rank: int,
    target_disp: int,
) -> After | None:
    return _fetches(monitor, call, win, origin, result, target_rank, target_disp, INSTANCES["REPLACE"], compare=compare)


# ------------------------------------------------------------------------------------------------ synchronisation


def _complete(state: RankState, accesses: Iterable[Access]) -> None:
    """Record that accesses are complete, even if their requests have yet to be freed (12.3.5)."""
    done = list(accesses)
    for access in done:
        if access.latest:
            note_seen(access)  # other ranks may have accumulated between its call and now
    _free_buffers(done)
    if done:
        _end(state, done)


def _end(state: RankState, accesses: list[Access]) -> None:
    moment = state.next_moment()
    for access in accesses:
        access.until = moment
    state.steps.add([], accesses, False)


def _complete_at_origin(state: RankState, mine: OpenWindow, target: int, accesses: Iterable[Access]) -> None:
    """Record that accesses are complete at the origin.

    A fetched value is available then. So an access that only reads is complete at the target as well; an access that
    also writes may still be pending there.
    """
    open_ones = mine.open.get(target, {})
    there = [access for access in accesses if access in open_ones]
    _free_buffers(there)
    read = [access for access in there if access.only_reads]
    _complete(state, read)
    for access in read:
        del open_ones[access]
    for access in there:
        if access.latest and not access.only_reads:
            note_seen(access)
            state.steps.add([], [seen_record(access.rank, access.place, access.after)], False)
            access.latest = {}  # it sees no later accumulations


def _completing(
    targets: Callable[[OpenWindow, Any], Iterable[int]], *, unlocks: bool = False
) -> Callable[..., After | None]:
    """Return the check of a call that completes the accesses to some targets."""

    def follow(monitor: Monitor, call: MpiCall, win: object, *args: object) -> After | None:
        mine = _window_of(call, win)
        if mine is None:
            return None

        def done(_: object) -> None:
            for target in list(targets(mine, next(iter(args), None))):
                accesses = mine.open.pop(target, ())
                _complete(call.rank, accesses)
                if accesses:
                    epochs.accessed(mine, target)
                kind = mine.locks.pop(target, None) if unlocks else None
                if kind is not None:
                    signal = Signal()
                    signal.sent = True
                    monitor.signals.setdefault((mine.key, "Unlock", target), {})[call.rank.number] = kind, signal
                    call.rank.steps.add([signal], [], True)

        return done

    return follow


def _completing_locally(targets: Callable[[OpenWindow, Any], Iterable[int]]) -> Callable[..., After | None]:
    """Return the check of a call that completes the accesses to some targets at the origin."""

    def follow(monitor: Monitor, call: MpiCall, win: object, *args: object) -> After | None:
        mine = _window_of(call, win)
        if mine is None:
            return None

        def done(_: object) -> None:
            for target in targets(mine, next(iter(args), None)):
                _complete_at_origin(call.rank, mine, target, [*mine.open.get(target, ())])

        return done

    return follow


def _free_buffers(accesses: Iterable[Access]) -> None:
    for access in accesses:
        if access.used is not None:
            end_uses(access.used)
            access.used = None


def _one(_: OpenWindow, target: int) -> Iterable[int]:
    return (target,)


def _every(mine: OpenWindow, _: object) -> Iterable[int]:
    return {*mine.open, *mine.locks}


def _ending(call: MpiCall, mine: OpenWindow) -> After | None:
    """Record that a call completes all open accesses.

    Return a function that releases their buffers after it.
    """
    if not mine.open:
        return None
    open_ones = [access for accesses in mine.open.values() for access in accesses]
    _end(call.rank, open_ones)

    def done(_: object) -> None:
        _free_buffers(open_ones)
        mine.open.clear()

    return done


def _fence(monitor: Monitor, call: MpiCall, win: object, assertion: int) -> After | None:
    mine = _window_of(call, win)
    if mine is None:
        return None
    if assertion & MODE_NOPRECEDE:
        for access in (each for accesses in mine.open.values() for each in accesses):
            text = f"{access.title} precedes a fence with MODE_NOPRECEDE"
            where = f"{monitor.where(call.place)}: {call.title}"
            monitor.note(EPOCH_LIFECYCLE, access.place, text, call.rank.number, where)
    epochs.fenced(call, mine, assertion)
    ended = _ending(call, mine)  # accesses complete before any rank leaves the fence
    entry = CollectiveCall(call.rank.number, "Fence", call.place)
    collectives.join_collective(monitor, call, mine.window.comm, entry)
    call.rank.steps.add([entry], [entry], True)
    instance = entry.instance
    if len(instance.calls) == len(instance.members):
        conflicts.drop_epoch(monitor, mine, instance.members)
        conflicts.drop_ordered(monitor, call, instance)
    mine.fences += 1
    return ended


def _lock(monitor: Monitor, call: MpiCall, win: object, rank: int, lock_type: int, assertion: int) -> After | None:
    mine, place = _window_of(call, win), call.place
    if mine is None:
        return None
    mine.awaited_lock = rank, lock_type

    def done(_: object) -> None:
        mine.awaited_lock = None
        mine.locks[rank] = lock_type
        mine.begun[rank] = place
        released = monitor.signals.setdefault((mine.key, "Unlock", rank), {}).values()
        before = [signal for kind, signal in released if LOCK_EXCLUSIVE in (kind, lock_type)]
        call.rank.steps.add([], before, False)

    return done


def _lock_all(monitor: Monitor, call: MpiCall, win: object, assertion: int) -> None:
    mine = _window_of(call, win)
    if mine is not None:
        mine.begun[epochs.ALL] = call.place


def _sync(monitor: Monitor, call: MpiCall, win: object) -> None:
    """Check ``Sync``: a rank that reads its own memory in a loop learns of accumulations there."""
    mine = _window_of(call, win)
    if mine is not None:
        mine.synced = call.place
        note_read(monitor, call.rank, mine, call.place)


def _signal(monitor: Monitor, mine: OpenWindow, kind: str, source: int, dest: int, *, sends: bool) -> Signal:
    """Return the next signal of a kind between two members of a window.

    It is the same on both sides, which may be one member.
    """
    side = kind, source, dest, sends
    count = mine.signals[side] = mine.signals.get(side, 0) + 1
    key = mine.key, kind, source, dest, count
    found: Signal | None = monitor.signals.pop(key, None)  # each of the two requests it once
    if found is None:
        found = monitor.signals[key] = Signal()
    return found


def _post(monitor: Monitor, call: MpiCall, win: object, group: object, assertion: int) -> None:
    mine = _window_of(call, win)
    if mine is not None:
        mine.begun[epochs.POSTED] = call.place
        mine.exposed_to = _ranks_in_window(mine, group)
        mine.posted = _send_signals(monitor, call, mine, "Post", mine.exposed_to)
        moment = call.rank.next_moment()
        for signal in mine.posted:
            signal.since = moment


def _start(monitor: Monitor, call: MpiCall, win: object, group: object, assertion: int) -> None:
    mine = _window_of(call, win)
    if mine is not None:
        mine.begun[epochs.ALL] = call.place
        mine.started = _ranks_in_window(mine, group)
        mine.allowed = dict(zip(mine.started, _await_signals(monitor, call, mine, "Post", mine.started), strict=True))


def _completes(monitor: Monitor, call: MpiCall, win: object) -> After | None:
    mine = _window_of(call, win)
    if mine is None:
        return None
    ended = _ending(call, mine)
    mine.allowed = {}
    _send_signals(monitor, call, mine, "Complete", mine.started)
    return ended


def _waits(monitor: Monitor, call: MpiCall, win: object) -> After | None:
    mine = _window_of(call, win)
    if mine is None:
        return None

    def done(over: object) -> None:
        if over:
            _await_signals(monitor, call, mine, "Complete", mine.exposed_to)
            moment = call.rank.next_moment()
            for signal in mine.posted:
                signal.until = moment

    return done


def _send_signals(monitor: Monitor, call: MpiCall, mine: OpenWindow, kind: str, dests: list[int]) -> list[Signal]:
    me = mine.window.comm.me
    signals = [_signal(monitor, mine, kind, me, dest, sends=True) for dest in dests]
    for signal in signals:
        signal.sent = True
    call.rank.steps.add(list(signals), [], True)
    return signals


def _await_signals(monitor: Monitor, call: MpiCall, mine: OpenWindow, kind: str, sources: list[int]) -> list[Signal]:
    me = mine.window.comm.me
    signals = [_signal(monitor, mine, kind, source, me, sends=False) for source in sources]
    call.rank.steps.add([], list(signals), False)
    return signals


def _ranks_in_window(mine: OpenWindow, group: object) -> list[int]:
    """Return the ranks of a group's members in a window."""
    try:
        return [mine.window.comm.ranks.index(rank) for rank in members_of(group).ranks]
    except (AttributeError, ValueError, errors.Exception):  # the call itself reports the error
        return []


def _created(monitor: Monitor, call: MpiCall, cls: object, *args: object) -> After:
    caller = "" if call.frame is None else call.frame.f_code.co_filename  # the file that calls the method

    def done(win: object) -> None:
        mine = _window_of(call, win)
        if mine is not None:  # collective: whatever precedes it on any member happened before
            entry = CollectiveCall(call.rank.number, "Win", call.place)
            collectives.join_collective(monitor, call, mine.window.comm, entry)
            call.rank.steps.add([entry], [entry], True)
            mine.is_of_library = is_of_mpi4py(caller)
            mine.is_shared = call.name == "Allocate_shared"
            if not mine.is_of_library and len(mine.window.memory) and not mine.is_shared:
                exposed = Exposed(monitor, call.rank, mine)
                conflicts.note_overlaps(monitor, call.rank, exposed)
                call.rank.exposed.append(exposed)

    return done


CHECKS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("Put", "Rput"), _writes(WRITE)),
    **dict.fromkeys(("Get", "Rget"), _reads),
    **dict.fromkeys(("Accumulate", "Raccumulate"), _writes(ACCUMULATE)),
    **dict.fromkeys(("Get_accumulate", "Rget_accumulate"), _fetches),
    "Fetch_and_op": _fetches_one,
    "Compare_and_swap": _swaps,
    "Fence": _fence,
    "Lock": _lock,
    "Lock_all": _lock_all,
    "Unlock": _completing(_one, unlocks=True),
    "Unlock_all": _completing(_every, unlocks=True),
    "Flush": _completing(_one),
    "Flush_all": _completing(_every),
    "Flush_local": _completing_locally(_one),
    "Flush_local_all": _completing_locally(_every),
    "Sync": _sync,
    "Post": _post,
    "Start": _start,
    "Complete": _completes,
    **dict.fromkeys(("Wait", "Test"), _waits),
    **dict.fromkeys(("Create", "Allocate", "Allocate_shared", "Create_dynamic"), _created),
}
"""The check of each method of a window."""
