"""The phase of a process with respect to MPI_Init and MPI_Finalize."""

from __future__ import annotations

from xsim_py.mpi import constants as c
from xsim_py.mpi.per_process import of_process

from .options import current_options

__all__ = ["of_process_now"]


class _Phase:
    """The phase of a process with respect to MPI_Init and MPI_Finalize.

    Importing MPI initialises it, unless ``mpi4py.rc.initialize`` is false.
    """

    __slots__ = ("finalized", "has_session", "initialized", "main", "thread_level")

    def __init__(self) -> None:
        options = current_options()
        self.initialized = options.initialize
        self.finalized = self.has_session = False  # the latter: whether the process has ever had a session
        self.thread_level = options.thread_level if options.threads else c.THREAD_SINGLE
        self.main: object = None  # the thread that has called MPI_Init, if not the program's main thread


def of_process_now() -> _Phase:
    """Return the phase of the running process."""
    return of_process("phase", _Phase)
