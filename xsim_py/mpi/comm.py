"""Communicators: a descriptor shared by the ranks of a shard, and a small view of it for each rank.

A context has a number (`cid`) that every member computes from shared information: the parent's number and the number of
communicators made from it. So numbers are not distributed by any rank, and do not depend on shards. The calls that make
communicators still exchange messages, as in a real MPI, for their duration and because the members must learn each
other's arguments.

An even `cid` carries point-to-point messages, ``cid | 1`` the collectives.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from xsim_py.mpi import NOBODY
from xsim_py.process.python.locks import SharedLock
from xsim_py.process.python.threads import is_program
from xsim_py.process.ranks import current

from . import errors
from .algorithm_selection import Preference, Selection, for_communicator

if TYPE_CHECKING:
    from .transport.fabric import Fabric
    from .transport.mailbox import Mailbox

WORLD_CID = 2
_NOTHING = Preference({})


def derive_cid(*parts: object) -> int:
    """Return an even number of 60 bits determined by `parts`, in practice different for different parts."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8, person=b"xsim_py.cid")
    return (int.from_bytes(digest.digest(), "little") >> 5) << 1 | 1 << 59


class Context:
    """The part of a communicator that all its members share.

    One object for all ranks of a process.
    """

    __slots__ = (
        "__weakref__",
        "_index",
        "_remote_ranks",
        "cid",
        "here",
        "peer_ranks",
        "ranks",
        "remote",
        "remote_size",
        "replaces",
        "size",
        "title",
    )

    def __init__(
        self, cid: int, ranks: Sequence[int], remote: Sequence[int] | None, *, like: Context | None = None
    ) -> None:
        self.cid = cid
        # The members, as world ranks; of the local group if this is one side of an intercommunicator.
        self.ranks = ranks
        # The world ranks of ranks in calls: the members of an intracommunicator, the other group of an
        # intercommunicator.
        self.remote = ranks if remote is None else remote
        self.peer_ranks = self.remote  # the same. Hot path: not as a range, which CPython indexes 55 ns slower
        if like is not None and self.remote == like.remote:
            self.peer_ranks = like.peer_ranks  # one list of a million numbers is enough
        elif isinstance(self.remote, range) and len(self.remote) > 1:
            self.peer_ranks = list(self.remote)
        self.size = len(ranks)
        self.remote_size = len(self.remote)
        self.here = 0  # the number of members in this shard; 0: not counted yet
        self.title = ""  # the name in reports of the COMM_WORLD of spawned ranks; else empty
        self.replaces: Context | None = None  # the program's context, if a layer replaced it by this one
        self._index: dict[int, int] | None = None
        self._remote_ranks: frozenset[int] | None = None

    def index(self, number: int) -> int:
        """Return the rank in this communicator of a world rank, which must be a member."""
        place = self.place(number)
        assert place >= 0
        return place

    def _indices(self) -> dict[int, int]:
        """Return the index of each rank; empty if the ranks ascend, and binary search is used."""
        if self._index is None:
            ascends = all(map(lt, self.ranks, islice(self.ranks, 1, None)))
            self._index = {} if ascends else {rank: index for index, rank in enumerate(self.ranks)}
        return self._index

    def place(self, number: int) -> int:
        """Return the rank in this communicator of a world rank.

        The result is -1 if it is not a member (of the local group).
        """
        ranks = self.ranks
        if isinstance(ranks, range):
            if not ranks.start and ranks.step == 1:
                return number if 0 <= number < ranks.stop else -1
            return ranks.index(number) if number in ranks else -1  # a group may be every third rank
        places = self._index or self._indices()
        if places:
            return places.get(number, -1)
        # A table of a million ranks, in each shard, would take more memory than all else that they know of each other.
        place = bisect_left(ranks, number)
        return place if place < len(ranks) and ranks[place] == number else -1

    def places(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return the ranks in this communicator of those of `numbers` that are members."""
        found = frozenset(place for number in numbers if (place := self.place(number)) >= 0)
        return found or NOBODY  # one object for all ranks: since Python 3.10 each empty set takes 200 bytes

    def is_remote(self, number: int) -> bool:
        """Return True if calls can address a world rank: a member, or one of the remote group."""
        if self.remote is self.ranks:
            return self.place(number) >= 0
        if self._remote_ranks is None:
            self._remote_ranks = frozenset(self.remote)
        return number in self._remote_ranks


def shared_context(fabric: Fabric, cid: int, ranks: Sequence[int], remote: Sequence[int] | None = None) -> Context:
    """Return the context of that number, one object per shard (and side of an intercommunicator).

    Members with different data get separate contexts.
    """
    key = (cid, ranks[0] if remote is not None and ranks else -1)
    context: Context | None = fabric.contexts.get(key)
    if context is not None and (fabric.alike or _is_of(context, ranks, ranks if remote is None else remote)):
        return context
    first = fabric.contexts.get((WORLD_CID, -1))
    like = first if first is not None and isinstance(ranks, range) and ranks == first.ranks else None
    made = Context(cid, ranks, remote, like=like)
    if context is None:
        fabric.contexts[key] = made
    return made


def _is_of(context: Context, ranks: Sequence[int], remote: Sequence[int]) -> bool:
    return context.ranks == ranks and context.remote == remote


def context_of_members(fabric: Fabric, cid: int, find: Callable[[], Sequence[int]]) -> Context:
    """Return the context of that number; the first rank determines its members, for all of them."""
    return (fabric.alike and fabric.contexts.get((cid, -1))) or shared_context(fabric, cid, find())


class ImplicitActions(NamedTuple):
    """The values of a communicator's two Info keys about failures."""

    range: str = "local"
    """The processes whose failures end its calls: ``local``, ``group`` or ``universe``."""
    uniform: str = "local"
    """The calls in which all members get the same error: ``local``, ``construct``, ``coll``; ``agreed`` within one."""


_LOCAL = ImplicitActions()


class ReportName:
    """The name in reports of a communicator that a layer has made to replace one of the program's."""

    __slots__ = ("counted", "of", "root", "skipped")

    def __init__(self, of: Communicator) -> None:
        self.of = of  # the program's communicator, whose label and ranks are reported
        self.root: int | None = None  # the root of the call in progress, as the program names it
        # An offset to the number of a collective: calls on earlier communicators, minus repeated attempts.
        self.skipped = 0
        self.counted = of.collectives  # the number of the program's completed calls

    def number(self, comm: Communicator) -> int:
        """Return the number of collectives that the program has begun, the last of them on `comm`."""
        return comm.collectives + self.skipped

    def done(self, comm: Communicator) -> None:
        """Count a completed call on `comm`."""
        self.counted = self.number(comm)

    def apply_to(self, comm: Communicator) -> None:
        """Apply this name to `comm` from now on; its earlier calls are not calls of the program."""
        comm.report_name = self
        self.skipped = self.counted - comm.collectives


class AttachedBuffer(NamedTuple):
    """A buffer for buffered sends."""

    buf: object
    """That of the program, returned on detach."""
    capacity_bytes: int | None
    """None for automatic buffering, which is unlimited."""


class _Hot:
    """The slots of a communicator that messages use: those of a base class share a cache line."""

    __slots__ = ("box", "cid", "fabric", "me", "peer_ranks")


class Communicator(_Hot):
    """One rank's view of a communicator."""

    __slots__ = (
        "acknowledged",
        "attributes",
        "buffer",
        "children",
        "collectives",
        "context",
        "errhandler",
        "examined",
        "failed",
        "freed",
        "groups_made",
        "implicit",
        "info",
        "local",
        "locks",
        "missing",
        "name",
        "object_context",
        "outer",
        "polled_since_ps",
        "preference",
        "remote",
        "replacement",
        "report_name",
        "topology",
    )

    def __init__(self, context: Context, box: Mailbox, *, me: int | None = None, local: Communicator | None = None):
        self.context = context
        self.cid = context.cid  # its number, even
        self.box = box
        self.fabric: Fabric = box.fabric
        # This rank's number in it (in the local group).
        self.me = context.index(box.rank.number) if me is None else me
        self.remote = context.remote  # the world ranks of ranks in calls, like `peer_ranks`; see `Context`
        self.peer_ranks = context.peer_ranks
        # The intracommunicator of the local group, for an intercommunicator; None for an intracommunicator.
        self.local = local
        # The communicator of which this is a part, such as the intercommunicator of a `local`: it shares its errors.
        self.outer: Communicator | None = None
        if local is not None:
            local.outer = self
        # Its failed members, among the first `examined` failures that the rank knows of; see `failed_members`.
        self.failed: tuple[int, ...] = ()
        self.examined = 0
        self.acknowledged = 0  # the number of its failed members that the program has acknowledged
        self.collectives = 0  # the number of collectives that this rank has begun on it
        self.children = 0  # the number of communicators that this rank has made from it
        self.groups_made: dict[object, int] | None = None
        self.report_name: ReportName | None = None  # its name in reports, if it replaces one of the program's
        # `errhandler`, `attributes`, `info`, `name` and `object_context` are local properties, defined by the mpi4py
        # layer.
        self.errhandler: Any = None
        self.implicit = _LOCAL  # the implicit actions of its library on failures; see `failures.implicit`
        self.attributes: Any = None
        self.info: Any = None
        self.name: str | None = None
        self.topology: Any = None  # a virtual topology: a `Cartesian`, `Graph` or `DistGraph`
        self.object_context: Any = None
        self.buffer: AttachedBuffer | None = None
        self.freed = False  # whether this rank has freed it: other handles may still refer to it
        # One for each lower-case collective that has been called; None unless the program has asked for them.
        self.locks: dict[Any, SharedLock] | None = None
        # The begins of unsuccessful polls; in fault-tolerant runs only (see `polling`).
        self.polled_since_ps: dict[Hashable, int] | None = None
        self.missing: frozenset[int] = NOBODY  # the ranks whose contributions are missing in its last FTCO operation
        # Their replacement, set by the program: a value, or a function of the rank; None: nothing.
        self.replacement: Any = None
        self.preference = _NOTHING  # the algorithms selected for its collectives; others are chosen by size
        selection = self.fabric.settings.collectives
        if selection:
            self.prefer(selection)
            if local is not None:
                local.prefer(selection)

    def prefer(self, selection: Selection) -> None:
        """Use these algorithms for its collectives from the next one on.

        All members must select the same.
        """
        inter = self.local is not None or self.outer is not None
        self.preference = for_communicator(selection, len(self.context.ranks), inter=inter)

    @property
    def ranks(self) -> Sequence[int]:
        """The members of the local group, as world ranks."""
        return self.context.ranks

    @property
    def is_inter(self) -> bool:
        """True for an intercommunicator."""
        return self.local is not None

    def holds(self, number: int) -> bool:
        """Return True if a world rank is a member, of either group."""
        return self.context.place(number) >= 0 or self.context.is_remote(number)

    def involves(self, number: int) -> bool:
        """Return True if a collective on it needs a world rank."""
        return (self.outer or self).holds(number)

    def expects(self, number: int) -> bool:
        """Return True if a receive from any source depends on a world rank.

        Acknowledged failures do not count.
        """
        return self.context.is_remote(number) and number not in self.acknowledged_members()

    def failed_members(self) -> Sequence[int]:
        """Return the members that this rank knows to have failed, in the order of detection.

        A later list begins with the earlier one (MPI_Comm_get_failed).
        """
        knowledge = self.box.knowledge
        if knowledge is not None and self.examined < len(knowledge.known):
            self.failed += tuple(rank for rank in islice(knowledge.known, self.examined, None) if self.holds(rank))
            self.examined = len(knowledge.known)
        return self.failed

    def acknowledged_members(self) -> Sequence[int]:
        """Return those of `failed_members` that the program has acknowledged; they come first there."""
        return self.failed_members()[: self.acknowledged] if self.acknowledged else ()

    def acknowledge(self, count: int | None) -> int:
        """Acknowledge the first `count` failed members (None: all).

        Return their number (MPI_Comm_ack_failed).
        """
        known = len(self.failed_members())
        self.acknowledged = max(self.acknowledged, known if count is None else min(count, known))
        return self.acknowledged

    def label(self) -> str:
        """Return its name in reports."""
        if self.name:
            return self.name
        if self.cid == WORLD_CID:
            return "MPI_COMM_WORLD"
        if self.context.title:
            return self.context.title
        kind = "an intercommunicator" if self.local is not None else "a communicator"
        return f"{kind} of {len(self.context.ranks)} ranks"

    @property
    def shown(self) -> Communicator:
        """The communicator to name in reports: the program's."""
        return self if self.report_name is None else self.report_name.of

    def named(self, place: int) -> int:
        """Return the name in reports of a rank that calls can address."""
        return place if self.report_name is None else self.report_name.of.context.place(self.remote[place])

    @property
    def number(self) -> int:
        """The number of the collective that was begun last, as the program counts."""
        return self.collectives if self.report_name is None else self.report_name.number(self)

    def fail(self, code: int, detail: str = "") -> NoReturn:
        """Report an error of a call that cannot continue to the error handler, and raise it."""
        error = errors.error(code, detail)
        self.report(error)
        raise error

    def reject(self, code: int, detail: str = "") -> None:
        """Report an error of a call that may do nothing instead.

        Return if a user handler has handled it.
        """
        error = errors.error(code, detail)
        if not self.report(error):
            raise error

    def report(self, error: errors.Exception) -> bool:
        """Call the error handler (MPI 4.1, 9.3).

        Returns True if a user handler has handled the error: the call then returns as if nothing had happened, as in
        MPICH. False means that the call must raise the error, as mpi4py does with ERRORS_RETURN, and also after the
        handler has seen a failure or a revocation, as in Open MPI: the call cannot have succeeded. A handler sees an
        error once, and where the program completes the call: not in the middle of a background one.
        """
        fiber, whole = current.fiber, self.outer or self
        if (fiber is not None and not is_program(fiber)) or (fiber, whole) in self.fabric.attempts:
            return False
        if not errors.report_once(error) or whole.errhandler is None:
            return False
        return whole.errhandler(whole, error) and not errors.is_about_failures(error)

    def next_child(self) -> int:
        """Count a communicator made from this one.

        The count is equal on every member, because such calls are collective.
        """
        self.children += 1
        return self.children


def world(box: Mailbox, size: int) -> Communicator:
    """Return this rank's view of COMM_WORLD of `size` initial ranks.

    Spawned ranks have theirs from the start.
    """
    made: Communicator | None = box.world
    if made is None:
        made = box.world = Communicator(shared_context(box.fabric, WORLD_CID, range(size)), box, me=box.rank.number)
    return made


def self_comm(box: Mailbox) -> Communicator:
    """Return this rank's COMM_SELF."""
    made: Communicator | None = box.self_comm
    if made is None:
        number = box.rank.number
        ranks = range(number, number + 1)
        made = box.self_comm = Communicator(Context(derive_cid("self", number), ranks, None), box, me=0)
        made.name = "MPI_COMM_SELF"
    return made
