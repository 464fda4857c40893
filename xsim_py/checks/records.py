"""The sides of a message, and the calls that make up a collective: records of what each rank has said."""

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
"""A place of the program (see `transport.call_sites`), and what the rank was doing there (`Control.doing`)."""

READ, WRITE, ACCUMULATE = "reads", "writes", "updates"
"""How an access uses the memory of a window."""


_BUFFERED = frozenset(f"Comm.{name}" for name in ("Bsend", "bsend", "Ibsend", "ibsend", "Bsend_init"))


class Deed:
    """Something that a rank has begun, and that another one may wait for or learn of.

    Attributes
    ----------
    posted : bool
        Whether it has begun where the calls are gone through again; see `ordering`.
    clock : array or None
        When it began; see `clocks`.
    """

    __slots__ = ("clock", "posted")

    def __init__(self) -> None:
        self.posted = False
        self.clock: Any = None


@final
class MessageSide(Deed):
    """One side of a message of the program: a send, or a receive.

    Attributes
    ----------
    rank : int
        Whose side it is, in the whole run.
    name : str
        The call.
    place : Place
        Where it was made.
    comm : Communicator
        On which.
    peer, tag : int
        As the call names them; ANY_SOURCE and ANY_TAG stay what they are.
    signature : Signature or None
        The elements that are sent, or that there is room for.
    partner : MessageSide or None
        The other side, once they have met.
    also : MessageSide or None
        A further side that the same call begins and waits for.
    """

    __slots__ = (
        "also",
        "comm",
        "name",
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
    also: MessageSide | None

    @property
    def buffered(self) -> bool:
        """Say if it completes without its receive, by what the program asks for."""
        return self.name in _BUFFERED

    def listed(self) -> list[MessageSide]:
        """Return this side and those that the same call begins and waits for."""
        return [self] if self.also is None else [self, *self.also.listed()]


class RequestWait(Deed):
    """A rank has come to a call that completes requests; nobody waits for that.

    Attributes
    ----------
    name, place : str, Place
        The call, and where it was made.
    """

    __slots__ = ("name", "place")

    def __init__(self, name: str, place: Place) -> None:
        super().__init__()
        self.name = name
        self.place = place


@final
class CollectiveCall(Deed):
    """One rank says this of a collective: its name, root and operation, and what it gives and takes.

    Attributes
    ----------
    place : Place
        Where it was made.
    name : str
        The call, as mpi4py spells it.
    root, op : int, str or None
        Where the call has one.
    signatures : tuple of Signature
        The blocks of a call in which the blocks of all members are equal.
    gives, takes : dict of int to Signature
        Of a call with a count for each rank: what goes to whom, and what is expected of whom.
    same : str
        The arguments that are to be the same at all members, in words.
    group : sequence of int
        The ranks in the whole run for which it makes a communicator.
    """

    __slots__ = (
        "gives",
        "group",
        "meeting",
        "name",
        "op",
        "place",
        "rank",
        "root",
        "same",
        "signatures",
        "takes",
    )

    def __init__(
        self,
        rank: int,
        name: str,
        place: Place,
        root: int | None = None,
        op: str | None = None,
        signatures: tuple[Signature | None, ...] = (),
        gives: dict[int, Signature] | None = None,
        takes: dict[int, Signature] | None = None,
        same: str = "",
        group: Any = (),
    ) -> None:
        self.posted = False  # hot path: with one call less than by `super`
        self.clock = None
        self.same = same
        self.group = group
        self.rank = rank
        self.name = name
        self.place = place
        self.root = root
        self.op = op
        self.signatures = tuple([each for each in signatures if each is not None]) if signatures else ()
        self.gives = gives
        self.takes = takes
        self.meeting: Any = None


class MembersCalls:
    """One collective of a communicator, as the members that have come so far say.

    Attributes
    ----------
    members : sequence of int
        The ranks in the whole run that are to come.
    calls : dict of int to CollectiveCall
        What those have said that have come, by their ranks in the communicator.
    posted : int
        How many of them have begun where the calls are gone through again; see `ordering`.
    clock : array or None
        What is known once all of them have begun; see `clocks`.
    """

    __slots__ = ("calls", "clock", "members", "posted")

    def __init__(self, members: Any) -> None:
        self.members = members
        self.clock: Any = None
        self.calls: dict[int, CollectiveCall] = {}
        self.posted = 0


@final
class Signal(Deed):
    """A rank tells another one to go on, by a call on a window: Post to Start, or Complete to Wait.

    Attributes
    ----------
    given : bool
        Whether it has been.
    since, until : int, float
        Of a Post: the moments of its rank at which it was given, and at which the accesses were over that it allows.
    """

    __slots__ = ("given", "since", "until")

    def __init__(self) -> None:
        super().__init__()
        self.given = False
        self.since = 0
        self.until = inf


@final
class Access(Deed):
    """An access to the memory that a rank shows in a window.

    Attributes
    ----------
    rank, title, place : int, str, Place
        Who made it, by which call, and where.
    ended : int
        When it was complete; see `clocks`.
    of : str
        What it is an access to: a window, or a file.
    how, what : str
        Whether it reads, writes or accumulates; and of an accumulation, the operation and the type.
    datatype : Type or None
        That of the elements at the target, of an accumulation.
    pieces : list of (int, int)
        The bytes of the window, from and to, in ascending order.
    exclusive : bool
        Whether an exclusive lock protects it.
    epoch : int
        How many fences its rank has called on the window before.
    since, until : int, float
        The moments of its rank at which it began, and at which it was complete; see `RankState`.
    shown_by : Signal or None
        The Post of the target that allows it.
    used : RequestRecord, Unnamed or None
        What has the buffers of the origin, until the access is complete there.
    is_local, is_passive : bool
        Whether it is a load or a store of the rank itself; whether who makes it has a lock, or a lock of itself.
    polls : bool
        Of a load: whether the rank looks until a value is there. Of a store, and of a read of another rank's memory:
        whether it is one of several, so that readers may look until a value is there, or make do with any.
    was_polled : bool
        Of one that is local: whether the rank has looked before at the same bytes until a value was there, so that what
        others have begun to put there, as it knows, is there.
    after : list of Access
        Of one that fetches: the accumulations whose results it may have seen, after which it comes.
    latest : dict of int to Access
        Of one that fetches: the last accumulation of each rank there, until now.
    """

    of = "a window"
    used: Any = None
    datatype: Any = None
    ended = since = 0
    until = inf
    shown_by: Signal | None = None
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
        """True if it changes nothing."""
        return self.how == READ or self.what.startswith("NO_OP ")

    @property
    def shown(self) -> tuple[int, float]:
        """Return between which moments of the rank whose memory it is it may look there or change it."""
        if self.is_local:
            return self.since, self.until
        return (0, inf) if self.shown_by is None else (self.shown_by.since, self.shown_by.until)

    def conflicts(self, other: Access, *, through_two: bool = False) -> bool:
        """Return whether two accesses to the same bytes at the same time would conflict, perhaps `through_two` windows.

        Two windows know nothing of each other: neither do their locks keep apart what goes through them, nor is one
        accumulation atomic beside another one (MPI 4.1, 12.2.1).
        """
        if self.only_reads and other.only_reads:
            return False
        if through_two:
            return True
        if self.is_local != other.is_local:
            local, remote = (self, other) if self.is_local else (other, self)
            looked = local.polls if local.how == READ else remote.only_reads and (local.polls or remote.polls)
            if looked and remote.is_passive:
                return False  # 12.7, of the unified memory model: the rank may look, and store where others look
            apart = local.is_passive
        else:
            apart = True
        if apart and (self.exclusive or other.exclusive) and self.rank != other.rank:
            return False
        if self.how == other.how == ACCUMULATE:
            return not _compatible(self.what, other.what) or self._cuts(other)
        return True

    def _cuts(self, other: Access) -> bool:
        """Return whether elements of one type have only a part in common with elements of another access."""
        elements = of_elements(self.datatype, 1)
        if len(elements) != 1:
            return False
        size_bytes = self.datatype.size // elements[0][1]
        if len({start % size_bytes for start, _ in (*self.pieces, *other.pieces)}) == 1:
            return False  # mostly
        pairs = product(self.pieces, other.pieces)
        return any((a - b) % size_bytes for (a, a_end), (b, b_end) in pairs if a < b_end and b < a_end)


def _compatible(mine: str, theirs: str) -> bool:
    """Return whether two accumulations may be concurrent: one operation and one type, or one of them only looks."""
    (op, kind), (other_op, other_kind) = mine.split(" on "), theirs.split(" on ")
    return kind == other_kind and (op == other_op or "NO_OP" in (op, other_op))
