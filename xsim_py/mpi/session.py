"""Sessions: MPI without COMM_WORLD (MPI 4.1, section 11.3).

A session has process sets, from which groups and then communicators are made. Here it is an object of one process and
costs no messages: the members of process sets are known from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from . import constants as c
from . import errors
from .comm import AttachedBuffer, Communicator, world

if TYPE_CHECKING:
    from .transport.mailbox import Mailbox

PROCESS_SETS = ("mpi://WORLD", "mpi://SELF")
"""The process sets that the standard requires of every process."""

_DERIVED = "communicators of sessions"


class SessionState:
    """One session of one process."""

    __slots__ = ("box", "buffer", "errhandler", "info")

    def __init__(self, box: Mailbox, info: Mapping[str, str]) -> None:
        self.box = box
        self.info = dict(info)  # its hints
        self.errhandler: Any = None  # called with the session and the error; None returns errors
        self.buffer: AttachedBuffer | None = None  # for buffered sends on its communicators

    def label(self) -> str:
        """Return its name in reports."""
        return "a session"

    def members(self, name: str) -> Sequence[int]:
        """Return the ranks of a process set; raises ERR_ARG if there is none of that name."""
        whole = world(self.box, self.box.fabric.settings.ranks).ranks
        if name.lower() == PROCESS_SETS[0].lower():
            return whole
        if name.lower() == PROCESS_SETS[1].lower():
            number = self.box.rank.number
            return range(number, number + 1)
        return self.fail(c.ERR_ARG, f"unknown process set {name!r}")

    def fail(self, code: int, detail: str) -> NoReturn:
        """Report an error to the error handler, and raise it."""
        error = errors.error(code, detail)
        self.report(error)
        raise error

    def report(self, error: errors.Exception) -> bool:
        """Call the error handler, which sees an error once; return True if a user handler has handled it."""
        return errors.report_once(error) and self.errhandler is not None and self.errhandler(self, error)


def note_session(comm: Communicator, session: SessionState) -> None:
    """Record that a communicator was made from a group of a session, whose buffer it uses."""
    comm.box.of_process(_DERIVED, dict)[comm.cid] = session


def session_of(comm: Communicator) -> SessionState | None:
    """Return the session that a communicator belongs to, if any."""
    private = comm.box.private
    found: SessionState | None = None if private is None else private.get(_DERIVED, {}).get(comm.cid)
    return found
