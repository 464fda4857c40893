"""Threads of a virtual process: each is another fiber of its rank, with its own clock.

A thread begins at the virtual time of the thread that starts it and runs until it waits: for a message, a lock, a time.
Then the thread that is next in virtual time continues. The order does not depend on the host, so a program with threads
is as reproducible as any other. It is the order of a machine with one core per thread, on which computation takes the
time that the run specifies.

The class `threading.Thread` stays Python's own; only functions that create, join and identify threads are replaced.
Outside of ranks they are unchanged.
"""

from __future__ import annotations

import _thread
import concurrent.futures.thread as pools
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from xsim_py.process.descriptors.child_processes import REAL_THREADS, serves_children
from xsim_py.process.descriptors.waits import wake
from xsim_py.process.output import tracebacks
from xsim_py.process.output.tracebacks import report, say, without_simulator
from xsim_py.process.ranks import current
from xsim_py.process.ranks.dead_objects import DEAD_GREENLET
from xsim_py.process.ranks.fiber import Fiber
from xsim_py.process.ranks.meter import begin_thread, end_thread, metered
from xsim_py.process.ranks.patches import Patches, Table, Wrapper, in_ranks
from xsim_py.process.ranks.queues import QueuedFiber, sync_threads, wait_in_queue, wake_next
from xsim_py.process.ranks.rank import FIRST_PID, Rank

from .locks import Lock, Notice, RLock, SharedLock, SimpleQueue
from .thread_locals import Local, Tables, keep

# The lower bits of a thread's number count the threads of its rank; those above are the rank's number plus 1.
_IDENT_BITS = 20
_real: Any = SimpleNamespace(**vars(_thread))  # which importlib continues to use: one thread runs all ranks


class ThreadHandle:
    """A thread of a rank in the simulator; also what Python 3.13 calls a thread handle."""

    __slots__ = ("attributes", "done", "ident", "joiners", "rank", "thread")

    def __init__(self, rank: Rank, ident: int, thread: Any) -> None:
        self.rank = rank
        self.ident = ident
        self.thread = thread  # None for a thread that was started without an object and has not asked for it
        self.done = False
        self.joiners: deque[QueuedFiber] = deque()  # the fibers that wait for its end
        # Of objects whose attributes differ in each thread; see `thread_locals`.
        self.attributes: Tables = WeakKeyDictionary()

    def is_done(self) -> bool:
        """Return True if the thread has ended."""
        return self.done

    def described(self, _: Rank) -> str:
        """Return the deadlock report's description of a fiber that waits for this thread's end."""
        return f"the end of thread {self.thread.name}"

    def finish(self) -> None:
        """Mark the thread as ended and resume the fibers that wait for it."""
        self.done = True
        if self.thread is not None:
            self.thread._is_stopped = True  # until Python 3.12
        while self.joiners:
            wake_next(self.joiners)


class _Threads:
    """The threads of one rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.alive: dict[Fiber, ThreadHandle] = {}  # those except `main` that have been started and have not ended
        self.names = itertools.count(1)  # counts unnamed threads
        self.pools = itertools.count()  # counts unnamed pools
        self.numbers = itertools.count(1)  # counts all threads
        # Functions to call at the end of the process before it waits for its threads.
        self.exits: list[Callable[[], object]] = []
        self._idents = itertools.count((rank.number + 1) << _IDENT_BITS)
        self.main = self.handle(None)  # of the program's own thread

    def handle(self, thread: object) -> ThreadHandle:
        """Create a handle."""
        return ThreadHandle(self.rank, next(self._idents), thread)

    def of(self, fiber: Fiber) -> ThreadHandle:
        """Return the handle of a fiber; a fiber that continues an MPI call has that of the program's own thread."""
        return self.alive.get(fiber, self.main)


def _threads(rank: Rank) -> _Threads:
    table: _Threads = rank.private("threads", partial(_Threads, rank))
    return table


def is_program(fiber: Fiber) -> bool:
    """Return True if a fiber runs the program, not an MPI call in progress."""
    rank = fiber.rank
    return fiber is rank.fiber or fiber in others(rank)


def others(rank: Rank) -> dict[Fiber, ThreadHandle]:
    """Return the threads of a rank besides its program's own, in the order in which they were started."""
    return _threads(rank).alive if rank.extra is not None and "threads" in rank.extra else {}


def name_of(fiber: Fiber) -> str:
    """Return the name of a fiber's thread, as the deadlock report prints it."""
    name: str = _object(_threads(fiber.rank).of(fiber)).name
    return name


# --------------------------------------------------------------------------------------------------- beginning and end


@metered
def _begin(fiber: Fiber, handle: ThreadHandle, work: Callable[[], object]) -> None:
    """Start a thread from the running fiber; it begins when the simulator's clock has reached that time."""
    rank = fiber.rank
    # Of the class of the rank's first fiber: a thread of a rank that will fail must stop at that time, too.
    child = type(rank.fiber)(rank, fiber.clock_ps)
    _threads(rank).alive[child] = handle
    rank.private("fibers", set).add(child)
    rank.shard.on_thread(rank, 1)
    rank.key += 1
    rank.shard.kernel.post(fiber.clock_ps, rank.key, _launch, (child, partial(_body, handle, work)))


def _launch(entry: tuple[Fiber, Callable[[Fiber], None]]) -> None:
    fiber, body = entry
    if fiber.greenlet is None:  # else its rank has failed meanwhile
        fiber.start(body)


def at_thread_start(before: Callable[[Fiber], object] | None) -> None:
    """Call ``before(fiber)`` in each thread that begins; None removes it."""
    global _before
    _before = before


_before: Callable[[Fiber], object] | None = None


def at_thread_error(after: Callable[[BaseException], object]) -> None:
    """Call ``after(error)`` in a thread that an unhandled exception has ended."""
    global _unhandled
    _unhandled = after


_unhandled: Callable[[BaseException], object] = id


def _body(handle: ThreadHandle, work: Callable[[], object], fiber: Fiber) -> None:
    begin_thread(fiber)
    if _before is not None:
        _before(fiber)
    work()
    end_thread(fiber)
    rank = fiber.rank
    if not current.thread:  # in a forked child of the program, after it has returned
        sys.stdout.flush()
        os._exit(0)
    del _threads(rank).alive[fiber]
    rank.private("fibers", set).discard(fiber)
    rank.shard.on_thread(rank, -1)
    handle.finish()


def _run_object(thread: Thread) -> None:
    context = getattr(thread, "_context", None)  # since Python 3.14
    try:
        if context is None:
            thread.run()
        else:
            context.run(thread.run)
    except BaseException as error:
        tracebacks.uncaught(error)
        without_simulator(error)
        try:
            if threading.excepthook is not threading.__excepthook__:
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
            elif not isinstance(error, SystemExit):
                report(error, f"Exception in thread {thread.name}:\n")
                _unhandled(error)
        except Exception as another:
            say("Exception in threading.excepthook:\n")
            report(another)


def _run_function(function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    try:
        function(*args, **kwargs)
    except SystemExit:
        pass
    except BaseException as error:
        say(f"Exception ignored in thread started by: {function!r}\n")
        report(error)
        _unhandled(error)


def end(rank: Rank) -> None:
    """Wait for the non-daemon threads, as a process does at its end. Called in the program's own fiber."""
    if rank.extra is None or "threads" not in rank.extra:
        return
    threads = _threads(rank)
    exits = threads.exits
    while exits:
        exits.pop()()
    _end_pools(rank)
    threads.main.finish()
    while handles := [each for each in threads.alive.values() if each.thread is not None and not each.thread.daemon]:
        wait_in_queue(rank.fiber, handles[0].joiners, handles[0])


def abandon_daemons(rank: Rank) -> None:
    """Abandon the daemons of a rank whose process has ended."""
    for fiber in others(rank):
        fiber.abandon()
        fiber.greenlet = DEAD_GREENLET


def _pool_threads() -> Any:
    """Return the threads of pools, with their queues of tasks."""
    return pools._threads_queues


def _end_pools(rank: Rank) -> None:
    """Let pools finish their tasks, as `concurrent.futures` does at the end of a process."""
    for thread, tasks in list(_pool_threads().items()):
        handle = _handle(thread)
        if handle is not None and handle.rank is rank and not handle.done:
            pool = thread._args[0]()
            if pool is not None:
                pool._shutdown = True
            # As in ``concurrent.futures.thread._python_exit``: this wakes a worker that waits for a task.
            tasks.put(None)


def _forget_pools() -> None:
    """Make Python not wait for pool threads whose ranks have failed."""
    table = _pool_threads()
    for thread in list(table):
        if _handle(thread) is not None:
            del table[thread]


# ------------------------------------------------------------------------------------------ the methods of a thread


class _Main(Thread):
    """The object of the program's own thread."""

    def __init__(self, handle: ThreadHandle) -> None:
        handle.thread = self
        super().__init__(name="MainThread", daemon=False)
        _mark(self, handle)


class _Dummy(Thread):
    """The object of a thread that was started without one."""

    def __init__(self, handle: ThreadHandle) -> None:
        handle.thread = self
        super().__init__(name=f"Dummy-{next(_threads(handle.rank).names)}", daemon=True)
        _mark(self, handle)


_Main.__name__ = _Main.__qualname__ = "_MainThread"
_Dummy.__name__ = _Dummy.__qualname__ = "_DummyThread"


def _mark(thread: Any, handle: ThreadHandle) -> None:
    """Record in a thread's object that it has begun."""
    thread._simulated = thread._handle = handle  # the second name is Python's, since 3.13
    thread._ident = handle.ident
    thread._native_id = _native(handle)
    thread._is_stopped = handle.done
    thread._started.set()


_is_initialized = attrgetter("_initialized")


def _has_started(thread: Any) -> bool:
    started: bool = thread._started.is_set()
    return started


def _handle(thread: object) -> ThreadHandle | None:
    handle: ThreadHandle | None = vars(thread).get("_simulated")
    return handle


def _object(handle: ThreadHandle) -> Any:
    if handle.thread is None:
        main = handle is _threads(handle.rank).main
        (_Main if main else _Dummy)(handle)
    return handle.thread


def _start(thread: threading.Thread) -> None:
    fiber = current.here()
    if fiber is None or serves_children(1) or type(thread).__module__ == "concurrent.futures.process":
        _real_start(thread)
        if fiber is not None:
            fiber.rank.private(REAL_THREADS, list).append(thread)
            wake(fiber)  # a rank that waits for a pipe may wait for this thread
        return
    if not _is_initialized(thread):
        raise RuntimeError("thread.__init__() not called")
    if _has_started(thread):
        raise RuntimeError("threads can only be started once")
    handle = _threads(fiber.rank).handle(thread)
    _begin(fiber, handle, partial(_run_object, thread))
    _mark(thread, handle)


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    fiber = current.here()
    handle = _handle(thread) if _is_initialized(thread) else None
    if fiber is None or (handle is None and _has_started(thread)):
        _real_join(thread, timeout)
        return
    if not _is_initialized(thread):
        raise RuntimeError("Thread.__init__() not called")
    if handle is None:
        raise RuntimeError("cannot join thread before it is started")
    if handle is _threads(fiber.rank).of(fiber):
        raise RuntimeError("cannot join current thread")
    sync_threads(fiber)
    if not handle.done and (timeout is None or timeout > 0):
        wait_in_queue(fiber, handle.joiners, handle, timeout)


def _hash(thread: Any) -> int:
    """Number threads by rank: pools keep them in sets, whose order must not depend on addresses."""
    fiber = current.here()
    known = vars(thread).get("_number")
    if known is None:
        if fiber is None or _has_started(thread):  # not one that is being created by a rank
            return object.__hash__(thread)
        known = thread._number = next(_threads(fiber.rank).numbers)
    return int(known)


def _is_alive(thread: threading.Thread) -> bool:
    handle = _handle(thread) if _is_initialized(thread) else None
    if handle is None:
        alive: bool = _real_is_alive(thread)
        return alive
    fiber = current.here()
    if fiber is not None:
        sync_threads(fiber)
    return not handle.done


_real_start, _real_join, _real_is_alive = Thread.start, Thread.join, Thread.is_alive


class _Threading(ModuleType):
    """The class of `threading` during a run: each rank sets its own ``excepthook``."""

    @property
    def excepthook(self) -> object:
        """The rank's ``threading.excepthook``."""
        fiber = current.here()
        if fiber is None:
            return self.__dict__["excepthook"]
        return (fiber.rank.extra or {}).get("threading.excepthook", threading.__excepthook__)

    @excepthook.setter
    def excepthook(self, hook: object) -> None:
        fiber = current.here()
        if fiber is None:
            self.__dict__["excepthook"] = hook
        else:
            fiber.rank.extra = {**(fiber.rank.extra or {}), "threading.excepthook": hook}


# --------------------------------------------------------------------------------------------------- current thread


def _here() -> ThreadHandle:
    fiber = current.running()
    return _threads(fiber.rank).of(fiber)


def _native(handle: ThreadHandle) -> int:
    """Return the native ID of the thread: for the main thread, that of the process."""
    count = handle.ident & ((1 << _IDENT_BITS) - 1)
    return FIRST_PID + handle.rank.number + (count << _IDENT_BITS)


def _all_threads() -> list[Any]:
    """Return all threads of the running rank that have objects, creating the main thread's."""
    threads = _threads(current.rank())
    found = [_object(threads.main)] if not threads.main.done else []
    return found + [handle.thread for handle in threads.alive.values() if handle.thread is not None]


def _start_function(function: object, args: object = (), kwargs: Mapping[str, Any] | None = None, **_: object) -> int:
    fiber = current.running()
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    handle = _threads(fiber.rank).handle(None)
    _begin(fiber, handle, partial(_run_function, function, args, kwargs or {}))
    return handle.ident


def _new_name(template: str = "Thread-%d") -> str:
    return template % next(_threads(current.rank()).names)


def _pool_number() -> int:
    fiber = current.here()
    return next(_real_pool_number if fiber is None else _threads(fiber.rank).pools)


def _at_exit(function: Callable[..., object], *args: object, **kwargs: object) -> None:
    fiber = current.here()
    if fiber is None or getattr(function, "__module__", "") not in ("__main__", *(fiber.rank.modules or ())):
        _real_at_exit(function, *args, **kwargs)  # an installed package is registered for all ranks, and beyond them
        return
    threads = _threads(fiber.rank)
    if threads.main.done:
        raise RuntimeError("can't register atexit after shutdown")
    threads.exits.append(partial(function, *args, **kwargs))


_real_pool_number, _real_at_exit = itertools.count(), threading._register_atexit  # type: ignore[attr-defined]


_WHO = {"get_ident": in_ranks(lambda: _here().ident), "get_native_id": in_ranks(lambda: _native(_here()))}
_OWN = "virtual: threads of the rank, in virtual time"
PATCHED: Table = (
    ("_frozen_importlib", "real: for import locks, all ranks run in one thread", {"_thread": _real}),
    ("threading.Thread", _OWN, {"start": _start, "join": _join, "is_alive": _is_alive, "__hash__": _hash}),
    ("threading", _OWN, _WHO),
    ("threading", _OWN, {"current_thread": in_ranks(lambda: _object(_here()))}),
    ("threading", _OWN, {"main_thread": in_ranks(lambda: _object(_threads(current.rank()).main))}),
    ("threading", _OWN, {"enumerate": in_ranks(_all_threads), "active_count": in_ranks(lambda: len(_all_threads()))}),
    ("threading", _OWN, {"_newname": in_ranks(_new_name), "_register_atexit": _at_exit}),
    ("threading", _OWN, {"local": Local, "Lock": Lock, "RLock": RLock, "_allocate_lock": Notice}),
    ("threading", "private", {"__class__": _Threading}),
    ("_thread", _OWN, {**_WHO, "_count": in_ranks(lambda: len(others(current.rank())))}),
    ("_thread", _OWN, {"start_new_thread": in_ranks(_start_function), "start_new": in_ranks(_start_function)}),
    ("_thread", _OWN, {"allocate_lock": Lock, "allocate": Lock, "RLock": RLock}),
    ("queue", _OWN, {"SimpleQueue": SimpleQueue}),
    ("concurrent.futures.thread", _OWN, {"_global_shutdown_lock": Wrapper(lambda _: SharedLock())}),
    ("concurrent.futures.thread.ThreadPoolExecutor", "private", {"_counter": staticmethod(_pool_number)}),
)


def install(patches: Patches) -> None:
    """Replace the functions that create threads and those that wait, for the duration of a run."""
    patches.install(PATCHED)
    keep(lambda: _here().attributes)
    patches.at_end(_forget_pools)
