"""The synchronisation calls of windows (MPI 4.1, 12.5), as made by the running fiber.

Times on a network where a packet takes o (send overhead) and L (latency), without contention:

* fence: the last acknowledgement of this rank's operations, and then a barrier;
* lock: o + 2 L, or longer if others hold it; unlock: o, and the last acknowledgement;
* lock_all: the lock of this rank's own memory, because its program may access that; all others are requested with the
  first operation on them, which waits at the target: a window of a million ranks does not send a million requests;
* flush: the last acknowledgement: 2 L after the data have left;
* post: o for each origin; start: L after the last post; complete: o for each target, once the origin's buffers can be
  reused; wait: L after the last complete, which does not overtake earlier packets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import channel, note, pick, timed
from xsim_py.mpi.errors import Exception as Error
from xsim_py.mpi.errors import fail
from xsim_py.mpi.polling import detect_by_polling, end_poll, unsuccessful_poll
from xsim_py.process.ranks import current

from .operations import send_packet
from .packets import COMPLETED, LOCK, POSTED, UNLOCK, RmaPacket
from .waits import LOCK_OF, WindowWait
from .window import Window

_FENCE = c.MODE_NOSTORE | c.MODE_NOPUT | c.MODE_NOPRECEDE | c.MODE_NOSUCCEED
_COMPLETE_OF = "Win.Complete of"
_POST = c.MODE_NOCHECK | c.MODE_NOSTORE | c.MODE_NOPUT


def _assert(assertion: int, allowed: int, call: str) -> None:
    if assertion & ~allowed:
        fail(c.ERR_ASSERT, f"{call} does not take the assertion {assertion}")


def check_fence(assertion: int) -> None:
    """Raise an error if this is not a valid assertion of a fence."""
    _assert(assertion, _FENCE, "Win.Fence")


def _send(window: Window, target: int, kind: int, mode: int = 0) -> None:
    send_packet(window, target, RmaPacket(kind, window.comm.cid, window.comm.me, mode=mode), 0)


def barrier(window: Window, name: str) -> None:
    """Wait until all ranks of the window have entered."""
    comm = window.comm
    ch = channel(comm, note(name))
    ch.algorithm = algorithm = pick(comm, "barrier")
    timed(0, lambda: algorithm(ch), ch)


def fence(window: Window, assertion: int) -> None:
    """Run MPI_Win_fence."""
    check_fence(assertion)
    window.epochs.fence(bool(assertion & c.MODE_NOSUCCEED))
    window.wait_until_done("Win.Fence")
    barrier(window, "Win.Fence")


# ----------------------------------------------------------------------------- general active target synchronisation


def ranks_of(window: Window, ranks: Sequence[int], call: str) -> tuple[int, ...]:
    """Return the ranks in the window of a group's members."""
    places = tuple(window.comm.context.place(number) for number in ranks)
    if -1 in places:
        fail(c.ERR_GROUP, f"{call}: the group is not a subset of the window's")
    return places


def post(window: Window, ranks: Sequence[int], assertion: int) -> None:
    """Run MPI_Win_post."""
    _assert(assertion, _POST, "Win.Post")
    origins = ranks_of(window, ranks, "Win.Post")
    window.epochs.post(origins)
    if not assertion & c.MODE_NOCHECK:
        for origin in origins:
            _send(window, origin, POSTED)


def start(window: Window, ranks: Sequence[int], assertion: int) -> None:
    """Run MPI_Win_start: it waits for the calls of Post, as in MPICH and Open MPI."""
    _assert(assertion, c.MODE_NOCHECK, "Win.Start")
    targets = ranks_of(window, ranks, "Win.Start")
    window.epochs.start(targets)
    if assertion & c.MODE_NOCHECK:
        return
    posts = window.posts
    window.wait_for(
        "Win.Start",
        "Win.Post of",
        lambda: all(posts[place] for place in targets),
        lambda: [place for place in targets if not posts[place]],
    )
    posts.subtract(targets)


def complete(window: Window) -> None:
    """Run MPI_Win_complete."""
    targets = window.epochs.complete()
    window.wait_until_reusable("Win.Complete", targets)
    for target in targets:
        _send(window, target, COMPLETED)


def wait(window: Window) -> None:
    """Run MPI_Win_wait."""
    origins = window.epochs.wait("Win.Wait")
    window.wait_for("Win.Wait", _COMPLETE_OF, *_completion(window, origins))
    _unexpose(window, origins)


def test(window: Window) -> bool:
    """Run MPI_Win_test."""
    origins = window.epochs.wait("Win.Test")
    fiber = current.running()
    fiber.sync()
    comm = window.comm
    ready, peers = _completion(window, origins)
    if ready():
        end_poll(comm, "Win.Test")
        _unexpose(window, origins)
        return True
    wanted = WindowWait(window, "Win.Test", _COMPLETE_OF, ready, peers)
    detect_by_polling(comm, "Win.Test", wanted.depends_on)
    if comm.fabric.failure_seen:
        for place in peers():
            comm.fabric.guard.admit(comm, comm.ranks[place])
    unsuccessful_poll(fiber, window, wanted)
    return False


def _completion(window: Window, origins: Collection[int]) -> tuple[Callable[[], bool], Callable[[], list[int]]]:
    """Return two functions: whether all origins have called Complete, and which ranks have not."""
    done = window.completions
    return lambda: all(done[place] for place in origins), lambda: [place for place in origins if not done[place]]


def _unexpose(window: Window, origins: Collection[int]) -> None:
    window.completions.subtract(origins)
    window.epochs.unexpose()


# --------------------------------------------------------------------------------------- passive target synchronisation


def _check_rank(window: Window, target: int, call: str) -> None:
    if not 0 <= target < len(window.comm.ranks):
        fail(c.ERR_RANK, f"{call}: rank {target} is not in 0..{len(window.comm.ranks) - 1}")


def _acquire(window: Window, targets: Sequence[int], mode: int, call: str) -> None:
    for target in targets:
        _send(window, target, LOCK, mode)
    granted = window.granted
    window.wait_for(
        call,
        LOCK_OF,
        lambda: granted.issuperset(targets),
        lambda: [place for place in targets if place not in granted],
    )


def lock(window: Window, target: int, mode: int, assertion: int) -> None:
    """Run MPI_Win_lock."""
    if mode not in (c.LOCK_SHARED, c.LOCK_EXCLUSIVE):
        fail(c.ERR_LOCKTYPE, f"Win.Lock: expected LOCK_SHARED or LOCK_EXCLUSIVE, got {mode}")
    _assert(assertion, c.MODE_NOCHECK, "Win.Lock")
    if target == c.PROC_NULL:
        return
    _check_rank(window, target, "Win.Lock")
    window.epochs.lock(target)
    if assertion & c.MODE_NOCHECK:
        window.unchecked.add(target)
        return
    try:
        _acquire(window, (target,), mode, "Win.Lock")
    except Error:  # its rank has failed: there is no such epoch
        window.epochs.unlock(target)
        raise


def unlock(window: Window, target: int) -> None:
    """Run MPI_Win_unlock.

    The release follows the operations, so other ranks need not wait for their acknowledgements.
    """
    if target == c.PROC_NULL:
        return
    _check_rank(window, target, "Win.Unlock")
    window.epochs.unlock(target)
    if target in window.unchecked:
        window.unchecked.remove(target)
    else:
        window.granted.discard(target)
        _send(window, target, UNLOCK)
    window.wait_until_done("Win.Unlock", (target,))


def lock_all(window: Window, assertion: int) -> None:
    """Run MPI_Win_lock_all."""
    _assert(assertion, c.MODE_NOCHECK, "Win.Lock_all")
    window.epochs.lock_all()
    all_targets = range(len(window.comm.ranks))
    if assertion & c.MODE_NOCHECK:
        window.unchecked.update(all_targets)
        return
    touched = all_targets if window.flavor == c.WIN_FLAVOR_SHARED else (window.comm.me,)
    window.acquired.update(touched)
    _acquire(window, touched, c.LOCK_SHARED, "Win.Lock_all")


def unlock_all(window: Window) -> None:
    """Run MPI_Win_unlock_all."""
    window.epochs.unlock_all()
    for target in sorted(window.acquired):
        _send(window, target, UNLOCK)
    window.acquired.clear()
    window.granted.clear()
    window.unchecked.clear()
    window.wait_until_done("Win.Unlock_all")


def flush(window: Window, target: int | None, call: str) -> None:
    """Run MPI_Win_flush or, without a target, MPI_Win_flush_all."""
    if target == c.PROC_NULL:
        return
    if target is not None:
        _check_rank(window, target, call)
    window.epochs.passive(call)
    window.wait_until_done(call, None if target is None else (target,))


def flush_local(window: Window, target: int | None, call: str) -> None:
    """Run MPI_Win_flush_local or, without a target, MPI_Win_flush_local_all."""
    if target == c.PROC_NULL:
        return
    if target is not None:
        _check_rank(window, target, call)
    window.epochs.passive(call)
    window.wait_until_reusable(call, None if target is None else (target,))


def sync(window: Window) -> None:
    """Run MPI_Win_sync: it sees all earlier stores of others, and costs as much as an unsuccessful poll."""
    window.epochs.passive("Win.Sync")
    fiber = current.running()
    unsuccessful_poll(fiber, window, None)
    fiber.sync()
