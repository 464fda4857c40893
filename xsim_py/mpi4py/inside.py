"""The door to the inside of handles, for this package, the checks and Legio.

The classes have exactly the public names of mpi4py, so whatever else they offer is reached by the functions here. They
are made in C, and look names up when called: `misplaced_calls` replaces some of these methods during a run.
"""

from __future__ import annotations

from operator import attrgetter, methodcaller

__all__ = [
    "comm_of",
    "completion_of",
    "file_of",
    "handler_owner_of",
    "impl_of",
    "live_impl",
    "members_of",
    "null_of",
    "plain_class_of",
    "task_of",
    "window_of",
]

impl_of = attrgetter("_impl")
"""Return the object behind a handle; it may be null."""

live_impl = methodcaller("_live")
"""Return the object behind a handle, which must not be null."""

null_of = attrgetter("_null")
"""Return the object of the null handles of a class."""

comm_of = methodcaller("_comm")
"""Return the running rank's communicator of a `Comm`."""

plain_class_of = methodcaller("_plain_class")
"""Return `Intracomm` or `Intercomm`, whichever a `Comm` is."""

members_of = attrgetter("_members")
"""Return the members of a `Group`."""

handler_owner_of = methodcaller("_handler_owner")
"""Return what keeps the error handler of a communicator, window, file or session."""

task_of = methodcaller("_task")
"""Return the task of a `Request`; a null request has an inactive one."""

completion_of = attrgetter("_completed")
"""Return the function that ends a completed `Request`: it fills a status, and returns the outcome."""

window_of = methodcaller("_window")
"""Return the window of a `Win`."""

file_of = methodcaller("_file")
"""Return the open file of a `File`."""
