"""Records of each rank's messages, collectives and window accesses."""

from __future__ import annotations

from itertools import product
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from .signatures import Signature, of_elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType

Place = tuple["CodeType", int, str] | tuple[str, int, str]
"""A location in the program (see `transport.call_sites`), and the rank's activity there (`Control.doing`)."""

READ, WRITE, ACCUMULATE = "reads", "writes", "updates"
"""The ways in which an access uses the memory of a window."""


_BUFFERED = frozenset(f"Comm.{name}" for name in ("Bsend", "bsend", "Ibsend", "ibsend", "Bsend_init"))


class RankAction:
    """An action that a rank has begun, which other ranks may wait for or learn of.

    Attributes
    ----------
    posted : bool
        Whether it has begun in the replay; see `ordering`.
    clock : array or None
        Its beginning; see `clocks`.
    """

    __slots__ = ("clock", "posted")

    def __init__(self) -> None:
        self.posted = False
        self.clock: Any = None


@final
class MessageSide(RankAction):
    """One side of a program's message: a send or a receive.

    Attributes
    ----------
    rank : int
        The world rank of this side.
    name : str
        The call.
    place : Place
        The place of the call.
    comm : Communicator
        The communicator.
    peer, tag : int
        As passed to the call, including ANY_SOURCE and ANY_TAG.
    signature : Signature or None
        The elements sent, or the room for elements.
    partner : MessageSide or None
        The other side, once matched.
    next_side : MessageSide or None
        A further side that the same call begins and waits for.
    """

    __slots__ = (
        "comm",
        "name",
        "next_side",
        "partner",
        "peer",
        "place",
        "rank",
        "sends",
        "signature",
        "tag",
    )

    rank: int
    name: str
    place: Place
    comm: Any
    peer: int
    tag: int
    signature: Signature | None
    sends: bool
    partner: MessageSide | None
    next_side: MessageSide | None

    @property
    def buffered(self) -> bool:
        """True if the call asks for a buffered send, which completes without its receive."""
        return self.name in _BUFFERED

    def listed(self) -> list[MessageSide]:
        """Return this side and the others that the same call begins and waits for."""
        return [self] if self.next_side is None else [self, *self.next_side.listed()]


class RequestWait(RankAction):
    """The arrival of a rank at a call that completes requests; no rank waits for it.

    Attributes
    ----------
    name, place : str, Place
        The call and its place.
    """

    __slots__ = ("name", "place")

    def __init__(self, name: str, place: Place) -> None:
        super().__init__()
        self.name = name
        self.place = place


@final
class CollectiveCall(RankAction):
    """One rank's call of a collective: its name, root, operation, and blocks sent and expected.

    Attributes
    ----------
    place : Place
        The place of the call.
    name : str
        The call, as mpi4py spells it.
    root, op : int, str or None
        The root and operation, if the call has one.
    signatures : tuple of Signature
        The blocks of a call in which all members' blocks are equal.
    sent_blocks, expected_blocks : dict of int to Signature
        For a call with a count for each rank: the blocks sent to and expected from each rank.
    same : str
        The arguments that must agree on all members, in words.
    group : sequence of int
        The world ranks for which it creates a communicator.
    """

    __slots__ = (
        "expected_blocks",
        "group",
        "instance",
        "name",
        "op",
        "place",
        "rank",
        "root",
        "same",
        "sent_blocks",
        "signatures",
    )

    def __init__(
        self,
        rank: int,
        name: str,
        place: Place,
        root: int | None = None,
        op: str | None = None,
        signatures: tuple[Signature | None, ...] = (),
        sent_blocks: dict[int, Signature] | None = None,
        expected_blocks: dict[int, Signature] | None = None,
        same: str = "",
        group: Any = (),
    ) -> None:
        self.posted = False  # hot path: one call fewer than with `super`
        self.clock = None
        self.same = same
        self.group = group
        self.rank = rank
        self.name = name
        self.place = place
        self.root = root
        self.op = op
        self.signatures = tuple([each for each in signatures if each is not None]) if signatures else ()
        self.sent_blocks = sent_blocks
        self.expected_blocks = expected_blocks
        self.instance: Any = None


class CollectiveCalls:
    """One collective of a communicator, with the calls of the members that have entered it.

    Attributes
    ----------
    members : sequence of int
        The world ranks of the members.
    calls : dict of int to CollectiveCall
        The calls of the members that have entered, by their ranks in the communicator.
    posted : int
        How many of them have begun in the replay; see `ordering`.
    clock : array or None
        The joint knowledge after all of them have begun; see `clocks`.
    """

    __slots__ = ("calls", "clock", "members", "posted")

    def __init__(self, members: Any) -> None:
        self.members = members
        self.clock: Any = None
        self.calls: dict[int, CollectiveCall] = {}
        self.posted = 0


@final
class Signal(RankAction):
    """A synchronisation of two ranks by calls on a window: Post to Start, or Complete to Wait.

    Attributes
    ----------
    sent : bool
        Whether it has been sent.
    since, until : int, float
        For a Post: the moments of its rank when it was made, and when the accesses it allows were complete.
    """

    __slots__ = ("sent", "since", "until")

    def __init__(self) -> None:
        super().__init__()
        self.sent = False
        self.since = 0
        self.until = inf


@final
class Access(RankAction):
    """An access to memory that a rank exposes in a window.

    Attributes
    ----------
    rank, title, place : int, str, Place
        The accessing rank, its call, and the place of the call.
    ended : int
        The step at which it was complete; see `clocks`.
    of : str
        The kind of object accessed: a window or a file.
    how, what : str
        Whether it reads, writes or accumulates; for an accumulation, the operation and type.
    datatype : Type or None
        The type of the target's elements, for an accumulation.
    pieces : list of (int, int)
        The start and end of each piece in the window, in ascending order.
    exclusive : bool
        Whether an exclusive lock protects it.
    epoch : int
        The number of fences its rank had called on the window before.
    since, until : int, float
        The moments of its rank when it began and when it was complete; see `RankState`.
    allowed_by : Signal or None
        The Post of the target that allows it.
    used : RequestRecord, Unnamed or None
        The record that holds the origin buffers until the access is complete there.
    is_local, is_passive : bool
        Whether it is a load or store by the rank itself; whether the accessing rank holds a lock.
    polls : bool
        For a load: whether the rank polls for a value. For a store, or a read of another rank's memory: whether it is
        one of several, so that readers may poll for a value or accept any.
    was_polled : bool
        For a local access: whether the rank has already polled the same bytes until a value arrived, so that puts known
        to have begun there are complete.
    after : list of Access
        For a fetching access: the accumulations whose results it may have seen, and so comes after.
    latest : dict of int to Access
        For a fetching access: the last accumulation of each rank at that location so far.
    """

    of = "a window"
    used: Any = None
    datatype: Any = None
    ended = since = 0
    until = inf
    allowed_by: Signal | None = None
    is_local = is_passive = polls = was_polled = False
    after: Sequence[Access] = ()
    latest: Mapping[int, Access] = MappingProxyType({})

    def __init__(
        self,
        rank: int,
        title: str,
        place: Place,
        how: str,
        what: str,
        pieces: list[tuple[int, int]],
        *,
        exclusive: bool,
        epoch: int = 0,
    ) -> None:
        super().__init__()
        self.epoch = epoch
        self.rank = rank
        self.title = title
        self.place = place
        self.how = how
        self.what = what
        self.pieces = pieces
        self.exclusive = exclusive

    @property
    def only_reads(self) -> bool:
        """True if the access changes nothing."""
        return self.how == READ or self.what.startswith("NO_OP ")

    @property
    def exposure(self) -> tuple[int, float]:
        """Return the moments of the exposing rank between which the access may take place."""
        if self.is_local:
            return self.since, self.until
        return (0, inf) if self.allowed_by is None else (self.allowed_by.since, self.allowed_by.until)

    def conflicts(self, other: Access, *, two_windows: bool = False) -> bool:
        """Return True if two accesses to the same bytes conflict when concurrent.

        Two windows are independent: locks of one do not order accesses through the other, and accumulations through
        both are not atomic with respect to each other (MPI 4.1, 12.2.1).
        """
        if self.only_reads and other.only_reads:
            return False
        if two_windows:
            return True
        if self.is_local != other.is_local:
            local, remote = (self, other) if self.is_local else (other, self)
            looked = local.polls if local.how == READ else remote.only_reads and (local.polls or remote.polls)
            if looked and remote.is_passive:
                # MPI 4.1, 12.7, of the unified memory model: the rank may poll, and may store where others poll
                return False
            is_excluded = local.is_passive
        else:
            is_excluded = True
        if is_excluded and (self.exclusive or other.exclusive) and self.rank != other.rank:
            return False
        if self.how == other.how == ACCUMULATE:
            return not _compatible(self.what, other.what) or self._cuts(other)
        return True

    def _cuts(self, other: Access) -> bool:
        """Return True if elements of one type partially overlap elements of another access."""
        elements = of_elements(self.datatype, 1)
        if len(elements) != 1:
            return False
        size_bytes = self.datatype.size // elements[0][1]
        if len({start % size_bytes for start, _ in (*self.pieces, *other.pieces)}) == 1:
            return False  # the usual case
        pairs = product(self.pieces, other.pieces)
        return any((a - b) % size_bytes for (a, a_end), (b, b_end) in pairs if a < b_end and b < a_end)


def _compatible(mine: str, theirs: str) -> bool:
    """Return True if two accumulations may be concurrent.

    Their operation and type are equal, or one is a NO_OP.
    """
    (op, kind), (other_op, other_kind) = mine.split(" on "), theirs.split(" on ")
    return kind == other_kind and (op == other_op or "NO_OP" in (op, other_op))
