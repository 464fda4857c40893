"""Knowledge of failures and revocations, as one rank has it, and what that has in progress to deal with them.

A rank gets a `Knowledge` when it first learns of something. Until then, and in every run without failures, the only
cost is one test of ``fabric.troubled`` in each call.

All ranks of a large run may come to know the same at the same time, and a dictionary or a set of one entry takes more
than 200 bytes. So a table is made when something is put into it, and what several ranks know is one object for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import NOBODY, errors
from xsim_py.mpi import constants as c

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.transport.mailbox import Mailbox

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Knowledge:
    """One rank's knowledge of failures.

    Attributes
    ----------
    known : mapping of int to (int, str)
        The failed ranks that it knows of, in the order in which it learnt of them: when, and how. See `note`.
    spread : set of int
        Those of whom it has told others (heartbeat); an agreement tells of a failure without that.
    revoked : frozenset of int
        The communicators that it knows to be revoked; one object for all ranks that know of the same.
    sessions : dict
        Agreements and FTCO's operations, by communicator, number on it, and round or step.
    early : dict
        Packets of agreements that this rank has not entered yet.
    done : dict
        Of FTCO, the number below which everybody is done, by collective context.
    called : tuple of Call
        The last call of agree or shrink that is not over, of each communicator; it enters after those before it.
    busy_ps : int
        Until when its MPI library is at work on such messages.
    """

    __slots__ = ("_own", "busy_ps", "called", "done", "early", "known", "revoked", "sessions", "spread")

    def __init__(self) -> None:
        self.known: Mapping[int, tuple[int, str]] = _NOTHING
        self._own: dict[int, tuple[int, str]] | None = None  # `known`, once nobody shares it
        self.spread: Collection[int] = NOBODY
        self.revoked = NOBODY
        self.sessions: Mapping[tuple[int, int, int], Any] = _NOTHING
        self.early: Mapping[tuple[int, int, int], list[tuple[int, Any, str]]] = _NOTHING
        self.done: Mapping[int, int] = _NOTHING
        self.called: tuple[Any, ...] = ()
        self.busy_ps = 0

    def note(self, fresh: Mapping[int, tuple[int, str]]) -> None:
        """Learn of failures that it does not know of; `fresh` must not change any more, for it may become `known`."""
        if self._own is not None:
            self._own.update(fresh)
        elif self.known:
            self.known = self._own = {**self.known, **fresh}
        else:
            self.known = fresh

    def tells_of(self, number: int) -> bool:
        """Return whether a rank's failure is news; it has told others of it from now on."""
        if number in self.spread:
            return False
        if not isinstance(self.spread, set):
            self.spread = set()
        self.spread.add(number)
        return True

    def keep(self, table: str, key: Any, value: Any) -> None:
        """Put something into `sessions`, `early` or `done`."""
        there = getattr(self, table)
        if there is _NOTHING:
            setattr(self, table, {key: value})
        else:
            there[key] = value

    def drop(self, table: str, key: Any) -> Any:
        """Take something out of there again; None where it is not there."""
        there = getattr(self, table)
        found = there.pop(key, None) if there else None
        if not there:
            setattr(self, table, _NOTHING)
        return found


def knowledge_of(box: Mailbox) -> Knowledge:
    """Return the rank's knowledge, made on first use."""
    known: Knowledge | None = box.knowledge
    if known is None:
        known = box.knowledge = Knowledge()
    return known


def members_of(comm: Communicator) -> Sequence[int]:
    """Return all members, as ranks of the whole run, in an order that is the same at all of them.

    Those of an intercommunicator are both groups, the one with the lower first rank in front.
    """
    if comm.local is None:
        return comm.ranks
    groups = sorted((tuple(comm.ranks), tuple(comm.remote)))
    return (*groups[0], *groups[1])


def is_revoked(comm: Communicator) -> bool:
    """Return whether this rank knows that the communicator is revoked (MPI_Comm_is_revoked)."""
    state = comm.box.knowledge
    return state is not None and ((comm.outer or comm).cid in state.revoked or is_revoked_by_failure(comm))


def is_revoked_by_failure(comm: Communicator) -> bool:
    """Return whether this rank knows of a failure in the communicator's error range, if that is not ``local``."""
    whole = comm.outer or comm
    if whole.implicit.range == "local" or comm.box.knowledge is None:
        return False
    return bool(whole.failed_members() if whole.implicit.range == "group" else comm.box.knowledge.known)


def revoked_error(comm: Communicator) -> errors.Exception:
    """Return what a call or an operation on a revoked communicator ends with."""
    return errors.error(c.ERR_REVOKED, _is_revoked((comm.outer or comm).label()))


@lru_cache(maxsize=16)
def _is_revoked(label: str) -> str:
    """Return one text for all ranks."""
    return f"{label} has been revoked"
