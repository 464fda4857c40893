"""One rank's knowledge of failures and revocations, and its sessions that deal with them.

A rank gets a `Knowledge` when it first learns of a failure or revocation. Until then, and in every run without
failures, the only cost is one test of ``fabric.failure_seen`` per call.

All ranks of a large run may learn the same at the same time, and a dictionary or a set of one entry takes more than 200
bytes. So a table is created with its first entry, and equal knowledge is one object for several ranks.
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

_EMPTY: Mapping[Any, Any] = MappingProxyType({})


class Knowledge:
    """One rank's knowledge of failures."""

    __slots__ = ("_own", "busy_ps", "called", "done", "early", "known", "revoked", "sessions", "spread")

    def __init__(self) -> None:
        # The failed ranks that it knows of, in the order of learning: when, and how. See `note`.
        self.known: Mapping[int, tuple[int, str]] = _EMPTY
        self._own: dict[int, tuple[int, str]] | None = None  # `known`, once it is not shared
        # Failed ranks of which it has notified others (heartbeat), without those learnt from an agreement.
        self.spread: Collection[int] = NOBODY
        # The communicators that it knows to be revoked; one object for all ranks with equal knowledge.
        self.revoked = NOBODY
        # Agreements and FTCO operations, by communicator, number on it, and round or step.
        self.sessions: Mapping[tuple[int, int, int], Any] = _EMPTY
        # Packets of agreements that this rank has not entered yet.
        self.early: Mapping[tuple[int, int, int], list[tuple[int, Any, str]]] = _EMPTY
        # For FTCO, the number below which all survivors are done, by collective context.
        self.done: Mapping[int, int] = _EMPTY
        # The last pending `RepairCall`, of agree or shrink, of each communicator; it enters after those before it.
        self.called: tuple[Any, ...] = ()
        self.busy_ps = 0  # until when its MPI library is busy with such messages

    def note(self, fresh: Mapping[int, tuple[int, str]]) -> None:
        """Record new failures; `fresh` may become `known`, so it must not change later."""
        if self._own is not None:
            self._own.update(fresh)
        elif self.known:
            self.known = self._own = {**self.known, **fresh}
        else:
            self.known = fresh

    def must_spread(self, number: int) -> bool:
        """Return True, once, if others must be notified of a rank's failure."""
        if number in self.spread:
            return False
        if not isinstance(self.spread, set):
            self.spread = set()
        self.spread.add(number)
        return True

    def keep(self, table: str, key: object, value: object) -> None:
        """Put an entry into `sessions`, `early` or `done`."""
        entries = getattr(self, table)
        if entries is _EMPTY:
            setattr(self, table, {key: value})
        else:
            entries[key] = value

    def drop(self, table: str, key: object) -> Any | None:
        """Remove and return an entry of one of these tables, or None if it is absent."""
        entries = getattr(self, table)
        found = entries.pop(key, None) if entries else None
        if not entries:
            setattr(self, table, _EMPTY)
        return found


def knowledge_of(box: Mailbox) -> Knowledge:
    """Return the rank's knowledge, created on first use."""
    known: Knowledge | None = box.knowledge
    if known is None:
        known = box.knowledge = Knowledge()
    return known


def members_of(comm: Communicator) -> Sequence[int]:
    """Return all members as world ranks, in the same order on all of them.

    For an intercommunicator these are both groups, the one with the lower first rank in front.
    """
    if comm.local is None:
        return comm.ranks
    groups = sorted((tuple(comm.ranks), tuple(comm.remote)))
    return (*groups[0], *groups[1])


def is_revoked(comm: Communicator) -> bool:
    """Return True if this rank knows that the communicator is revoked (MPI_Comm_is_revoked)."""
    state = comm.box.knowledge
    return state is not None and ((comm.outer or comm).cid in state.revoked or is_revoked_by_failure(comm))


def is_revoked_by_failure(comm: Communicator) -> bool:
    """Return True if this rank knows of a failure in the communicator's error range.

    It is False for the range ``local``.
    """
    outer = comm.outer or comm
    if outer.implicit.range == "local" or comm.box.knowledge is None:
        return False
    return bool(outer.failed_members() if outer.implicit.range == "group" else comm.box.knowledge.known)


def revoked_error(comm: Communicator) -> errors.Exception:
    """Return the error of a call or an operation on a revoked communicator."""
    return errors.error(c.ERR_REVOKED, _is_revoked((comm.outer or comm).label()))


@lru_cache(maxsize=16)
def _is_revoked(label: str) -> str:
    """Return one text for all ranks."""
    return f"{label} has been revoked"
