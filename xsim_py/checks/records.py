"""Records of each rank's messages, collectives and window accesses."""

from __future__ import annotations

from itertools import product
from math import inf
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any, final

from .signatures import Signature, of_elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Place = tuple["CodeType", int, str] | tuple[str, int, str]
"""A location in the program (see `transport.call_sites`), and the rank's activity there (`Control.doing`)."""

READ, WRITE, ACCUMULATE = "reads", "writes", "updates"
"""The ways in which an access uses the memory of a window."""


_BUFFERED = frozenset(f"Comm.{name}" for name in ("Bsend", "bsend", "Ibsend", "ibsend", "Bsend_init"))


class RankAction:
    """An action that a rank has begun, which other ranks may wait for or learn of."""

    __slots__ = ("clock", "posted")

    def __init__(self) -> None:
        self.posted = False  # whether it has begun in the replay; see `ordering`
        self.clock: Any = None  # its beginning, an array; see `clocks`


@final
class MessageSide(RankAction):
    """One side of a program's message: a send or a receive."""

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
    """The world rank of this side."""
    name: str
    place: Place
    comm: Any
    peer: int
    """As passed to the call, including ANY_SOURCE."""
    tag: int
    """As passed to the call, including ANY_TAG."""
    signature: Signature | None
    """The elements sent, or the room for elements."""
    sends: bool
    partner: MessageSide | None
    """The other side, once matched."""
    next_side: MessageSide | None
    """A further side that the same call begins and waits for."""

    @property
    def buffered(self) -> bool:
        """True if the call asks for a buffered send, which completes without its receive."""
        return self.name in _BUFFERED

    def listed(self) -> list[MessageSide]:
        """Return this side and the others that the same call begins and waits for."""
        return [self] if self.next_side is None else [self, *self.next_side.listed()]


class RequestWait(RankAction):
    """The arrival of a rank at a call that completes requests; no rank waits for it."""

    __slots__ = ("name", "place")

    def __init__(self, name: str, place: Place) -> None:
        super().__init__()
        self.name = name
        self.place = place


@final
class CollectiveCall(RankAction):
    """One rank's call of a collective: its name, root, operation, and blocks sent and expected."""

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
        name: str,  # as mpi4py spells it
        place: Place,
        *,
        root: int | None = None,
        op: str | None = None,
        signatures: tuple[Signature | None, ...] = (),  # the blocks of a call in which all members' blocks are equal
        # For a call with a count for each rank: the blocks sent to each.
        sent_blocks: dict[int, Signature] | None = None,
        expected_blocks: dict[int, Signature] | None = None,  # and those expected from each
        same: str = "",  # the arguments that must agree on all members, in words
        group: Sequence[int] = (),  # the world ranks for which it creates a communicator
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
    """One collective of a communicator, with the calls of the members that have entered it."""

    __slots__ = ("calls", "clock", "members", "posted")

    def __init__(self, members: Sequence[int]) -> None:
        self.members = members  # their world ranks
        self.clock: Any = None  # the joint knowledge after all of them have begun; see `clocks`
        # Of the members that have entered, by their ranks in the communicator.
        self.calls: dict[int, CollectiveCall] = {}
        self.posted = 0  # how many of them have begun in the replay; see `ordering`


@final
class Signal(RankAction):
    """A synchronisation of two ranks by calls on a window: Post to Start, or Complete to Wait."""

    __slots__ = ("sent", "since", "until")

    def __init__(self) -> None:
        super().__init__()
        self.sent = False
        self.since = 0  # for a Post: the moment of its rank when it was made
        self.until = inf  # for a Post: the moment of its rank when the accesses it allows were complete


@final
class Access(RankAction):
    """An access to memory that a rank exposes in a window."""

    of = "a window"  # the kind of object accessed: this or a file
    # The `RequestRecord` or `Unnamed` that holds the origin buffers until the access is complete there.
    used: Any = None
    datatype: Any = None  # of the target's elements, for an accumulation
    # The step at which it was complete, see `clocks`; the moment of its rank when it began, see `RankState`.
    ended = since = 0
    until = inf  # the moment of its rank when it was complete
    allowed_by: Signal | None = None  # the Post of the target that allows it
    # `is_local`: it is a load or store by the rank itself. `is_passive`: the accessing rank holds a lock.
    # `polls`: a load by which the rank polls for a value; for a store, or a read of another rank's memory, it is one of
    # several, so that readers may poll for a value or accept any. `was_polled`: for a local access, the rank has
    # already polled the same bytes until a value arrived, so that puts known to have begun there are complete.
    is_local = is_passive = polls = was_polled = False
    # For a fetching access: the accumulations whose results it may have seen, and so comes after.
    after: Sequence[Access] = ()
    # For a fetching access: the last accumulation of each rank at that location so far.
    latest: Mapping[int, Access] = MappingProxyType({})

    def __init__(
        self,
        rank: int,  # the accessing rank
        title: str,  # its call
        place: Place,
        how: str,  # whether it reads, writes or accumulates
        what: str,  # for an accumulation, the operation and type
        pieces: list[tuple[int, int]],  # the start and end of each piece in the window, in ascending order
        *,
        exclusive: bool,  # whether an exclusive lock protects it
        epoch: int = 0,  # the number of fences its rank had called on the window before
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
