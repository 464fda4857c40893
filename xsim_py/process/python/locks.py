"""Locks of virtual processes: a waiting fiber is parked, and no operating system thread blocks.

Everything else in `threading` and `queue` that blocks is Python code based on these two kinds of locks, except
`queue.SimpleQueue`, which is also here. Waiting fibers are served first come, first served, at the virtual time of the
thread that releases the lock; with a timeout, at the latest then. So a run is reproducible bit for bit.

Real processes share no locks. A lock used by more than one rank, such as those of installed packages, is therefore a
separate lock in each of them; outside of ranks it is a real one.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from queue import Empty
from queue import SimpleQueue as _RealQueue
from types import GenericAlias
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

from xsim_py.process.descriptors.child_processes import REAL_LOCKS, serves_children, waits_for_real_thread
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber
from xsim_py.process.ranks.queues import QueuedFiber, sync_threads, wait_in_queue, wake_next

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

_real_lock, _real_rlock = _thread.allocate_lock, threading._CRLock  # type: ignore[attr-defined]
_MOST_S: float = threading.TIMEOUT_MAX


def _real(lock: object) -> object:
    """Register and return a real lock, created for code that serves child processes."""
    REAL_LOCKS.add(lock)
    return lock


class _LockState:
    """The state of a lock in one process: its owner and its queue."""

    __slots__ = ("depth", "free_ps", "line", "owner")

    def __init__(self) -> None:
        self.depth = 0  # the number of acquisitions not yet released
        self.free_ps = 0  # when it was last released
        self.owner: Fiber | None = None  # the fiber that holds it, or held it last
        self.line: deque[QueuedFiber] = deque()


class _AnyLock:
    """The base of both kinds of locks: `Lock` and `RLock`."""

    __slots__ = ("__weakref__", "_held", "_rank", "_real")

    _name = "lock"

    def __init__(self) -> None:
        fiber = current.here()
        self._rank = None if fiber is None else fiber.rank
        self._held = _LockState()
        self._real: object = None

    def _in(self, rank: Rank) -> _LockState:
        """Return this lock's state in `rank`."""
        if rank is self._rank:
            return self._held
        # Locks of installed packages get here if another rank imported the package; the program's own locks do not.
        table: WeakKeyDictionary[_AnyLock, _LockState] = rank.private("locks", WeakKeyDictionary)
        held = table.get(self)
        if held is None:
            held = table[self] = _LockState()
        return held

    def _outside(self) -> Any:
        raise NotImplementedError

    def _take(self, fiber: Fiber, held: _LockState, blocking: bool, timeout: float) -> bool:
        """Acquire a lock that the fiber does not hold yet."""
        if held.depth == 0:
            held.depth = 1
            held.owner = fiber
            # A thread whose clock is behind may run later: it gets the lock at its release in virtual time, not before.
            if held.free_ps > fiber.clock_ps:
                fiber.clock_ps = held.free_ps
            return True
        if not blocking or timeout == 0:
            return False
        return wait_in_queue(fiber, held.line, self, None if timeout < 0 else timeout).called

    def _hand_over(self, held: _LockState) -> None:
        """Hand the lock to the first waiting fiber, if any."""
        if held.line:
            held.owner = held.line[0].fiber
            held.depth = 1
            wake_next(held.line)
        else:
            held.depth = 0
            fiber = current.fiber
            held.free_ps = fiber.clock_ps if fiber is not None else 0

    def described(self, rank: Rank) -> str:
        """Return the deadlock report's description of a fiber waiting for this lock."""
        from .threads import name_of

        held = self._in(rank)
        return f"a {self._name} that {name_of(held.owner)} holds" if held.owner is not None else f"a {self._name}"

    def release(self) -> None:
        """Release the lock, as `threading.Lock.release` does."""
        raise NotImplementedError

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, as `threading.Lock.acquire` does."""
        raise NotImplementedError

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._held = _LockState()
        self._real = None

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '_thread.{self._name}' object")


def _check(blocking: bool, timeout: float) -> None:
    if not blocking and timeout != -1:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0 and timeout != -1:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > _MOST_S:
        raise OverflowError("timeout value is too large")


class Lock(_AnyLock):
    """`threading.Lock` in a rank; outside of ranks the name creates a real one."""

    __slots__ = ()

    def __new__(cls) -> Any:
        """Create a lock."""
        if cls is Lock:
            if current.here() is None:
                return _real_lock()
            if serves_children(1):
                return _real(_real_lock())
        return super().__new__(cls)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, waiting in virtual time, as `threading.Lock.acquire` does."""
        fiber = current.here()
        if fiber is None:
            taken: bool = self._outside().acquire(blocking, timeout)
            return taken
        if timeout != -1 or not blocking:
            _check(blocking, timeout)
        sync_threads(fiber)
        return self._take(fiber, self._in(fiber.rank), blocking, timeout)

    def release(self) -> None:
        """Release the lock, as `threading.Lock.release` does."""
        fiber = current.here()
        if fiber is None:
            self._outside().release()
            return
        held = self._in(fiber.rank)
        if not held.depth:
            raise RuntimeError("release unlocked lock")
        self._hand_over(held)

    def locked(self) -> bool:
        """Return True if the lock is held."""
        fiber = current.here()
        if fiber is None:
            return bool(self._outside().locked())
        sync_threads(fiber)
        return self._in(fiber.rank).depth > 0

    def _outside(self) -> Any:
        if self._real is None:
            self._real = _real_lock()
        return self._real

    acquire_lock, release_lock, locked_lock = acquire, release, locked


class SharedLock(Lock):
    """A lock used by ranks, wherever it is created."""

    __slots__ = ()


class Notice(Lock):
    """A lock on which a condition's waiter waits; the notifying thread releases it."""

    __slots__ = ()

    def __new__(cls) -> Any:
        """Create a lock."""
        if current.here() is None:
            return _real_lock()
        return _real(_real_lock()) if waits_for_real_thread(1) else super().__new__(cls)

    def described(self, rank: Rank) -> str:
        """Return the deadlock report's description of a fiber waiting for this lock."""
        return "another thread to notify or set what it waits for"


class RLock(_AnyLock):
    """`threading.RLock` in a rank."""

    __slots__ = ()

    _name = "RLock"

    def __new__(cls) -> Any:
        """Create a lock."""
        if current.here() is None:
            return _real_rlock()
        return _real(_real_rlock()) if serves_children(1) else super().__new__(cls)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, again if this thread holds it, as `threading.RLock.acquire` does."""
        fiber = current.here()
        if fiber is None:
            taken: bool = self._outside().acquire(blocking, timeout)
            return taken
        if timeout != -1 or not blocking:
            _check(blocking, timeout)
        held = self._in(fiber.rank)
        # Before the other threads catch up: a fiber that already holds it cannot lose it to them.
        if held.depth and held.owner is fiber:
            held.depth += 1
            return True
        sync_threads(fiber)
        return self._take(fiber, held, blocking, timeout)

    def release(self) -> None:
        """Release the lock, as `threading.RLock.release` does."""
        fiber = current.here()
        if fiber is None:
            self._outside().release()
            return
        held = self._owned(fiber)
        if held.depth > 1:
            held.depth -= 1
        else:
            self._hand_over(held)

    def locked(self) -> bool:
        """Return True if the lock is held."""
        fiber = current.here()
        return self._held.depth > 0 if fiber is None else self._in(fiber.rank).depth > 0

    def _owned(self, fiber: Fiber) -> _LockState:
        held = self._in(fiber.rank)
        if not held.depth or held.owner is not fiber:
            raise RuntimeError("cannot release un-acquired lock")
        return held

    def _outside(self) -> Any:
        if self._real is None:
            self._real = _real_rlock()
        return self._real

    # Methods required by `threading.Condition`.

    def _is_owned(self) -> bool:
        fiber = current.here()
        if fiber is None:
            return bool(self._outside()._is_owned())
        held = self._in(fiber.rank)
        return held.depth > 0 and held.owner is fiber

    def _recursion_count(self) -> int:
        fiber = current.here()
        if fiber is None:
            return int(self._outside()._recursion_count())
        return self._in(fiber.rank).depth if self._is_owned() else 0

    def _release_save(self) -> object:
        fiber = current.here()
        if fiber is None:
            return self._outside()._release_save()
        held = self._owned(fiber)
        depth = held.depth
        self._hand_over(held)
        return depth

    def _acquire_restore(self, state: Any) -> None:
        fiber = current.here()
        if fiber is None:
            self._outside()._acquire_restore(state)
            return
        self.acquire()
        self._in(fiber.rank).depth = state


class SimpleQueue:
    """`queue.SimpleQueue` in a rank, where putting never waits; outside of ranks the name creates a real one."""

    __class_getitem__: Any = classmethod(GenericAlias)

    def __new__(cls) -> Any:
        """Create a queue."""
        return _RealQueue() if current.here() is None or serves_children(1) else super().__new__(cls)

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._line: deque[QueuedFiber] = deque()

    def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
        """Put an item into the queue, as `queue.SimpleQueue.put` does."""
        if self._line:
            wake_next(self._line, item)
        else:
            self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        """Remove and return the oldest item, waiting in virtual time, as `queue.SimpleQueue.get` does."""
        if block and timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        fiber = current.here()
        if fiber is not None:
            sync_threads(fiber)
            if block and not self._items and timeout != 0:
                place = wait_in_queue(fiber, self._line, "something to be put into a SimpleQueue", timeout)
                if place.called:
                    return place.item
        try:
            return self._items.popleft()
        except IndexError:
            raise Empty from None

    def put_nowait(self, item: object) -> None:
        """Put an item into the queue."""
        self.put(item)

    def get_nowait(self) -> object:
        """Remove and return the oldest item; raise `queue.Empty` if there is none."""
        return self.get(block=False)

    def empty(self) -> bool:
        """Return True if there are no items."""
        return self.qsize() == 0

    def qsize(self) -> int:
        """Return the number of items."""
        fiber = current.here()
        if fiber is not None:
            sync_threads(fiber)
        return len(self._items)
