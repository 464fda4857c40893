"""The virtual rank that is running now: one module global, set whenever the simulator switches to a rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Protocol

from xsim_py.errors import ConfigError, XsimError

if TYPE_CHECKING:
    from .fiber import Fiber
    from .rank import Rank


class Events(Protocol):
    """Notified of events in the running rank that are not calls: the checks."""

    def completed(self, task: object, operation: object) -> None:
        """Note a request that a call has completed, and its operation."""

    def handled(self, error: object) -> None:
        """Note an MPI error that goes to an error handler."""

    def misplaced(self, when: str) -> None:
        """Note a call before MPI_Init or after MPI_Finalize."""

    def accessing(self, file: object) -> Callable[[Any, bool], None] | None:
        """Return what to call with the pieces of a file that a call accesses, and whether it writes them."""

    def uncaught(self, error: BaseException) -> None:
        """Note an exception that the program has not caught, before it is shown."""

    def unfinalized(self, rank: Rank) -> None:
        """Note a rank that ends without MPI_Finalize."""


fiber: Fiber | None = None
"""The running fiber; None while the simulator itself runs."""

installed: Rank | None = None
"""The rank whose modules, streams and settings are in the interpreter now (see `context`)."""

host: Fiber | None = None
"""The fiber of this process itself outside of a run, if it is a job of one rank; see `testing.single_rank`."""

events: Events | None = None
"""What is notified of events that are not calls; None in most runs."""

thread = 0
"""The operating system thread that runs the simulation; 0 in a process that one of its ranks has forked."""


def running() -> Fiber:
    """Return the running fiber; only for code called by programs, unless 40 ns matter."""
    return fiber  # type: ignore[return-value]


def here() -> Fiber | None:
    """Return the running fiber; None outside of ranks and in other threads of this process, which run concurrently."""
    return fiber if fiber is not None and get_ident() == thread else None


@contextmanager
def outside() -> Iterator[None]:
    """Return a context in which simulator code inside a rank uses real files, entropy and everything else."""
    global fiber
    before, fiber = fiber, None
    try:
        yield
    finally:
        fiber = before


@contextmanager
def exclusive() -> Iterator[None]:
    """Let this thread simulate: only one run per process at a time, because a run patches shared objects.

    Raises a `ConfigError` if another run is active.
    """
    global fiber, thread
    if here() is not None and fiber is not host:
        raise ConfigError("simulate() was called by a program that is being simulated itself")
    if not _simulating.acquire(blocking=False):
        raise ConfigError("simulate() is already running in another thread; only one run per process at a time")
    before, thread, fiber = thread, get_ident(), None
    try:
        yield
    finally:
        fiber = host
        if host is not None:
            thread = before
        _simulating.release()


_simulating = Lock()
_forked = False


def _leave_simulation() -> None:
    global fiber, thread, _forked
    _forked = fiber is not None
    fiber, thread = None, 0


# A child that a program forks (multiprocessing) is a real process: nothing in it is simulated.
os.register_at_fork(after_in_child=_leave_simulation)


def rank() -> Rank:
    """Return the virtual rank that is running; raises `XsimError` outside of a simulated program."""
    if fiber is None and _forked:
        raise XsimError(
            "a process that a virtual rank has forked is a real one, outside of the simulation: it has no MPI"
        )
    if fiber is None:
        raise XsimError("needs a simulated program; run it with `xsim run` or `simulate`")
    return fiber.rank


def rank_number() -> int:
    """Return the number of the running rank in the whole run."""
    return rank().number
