"""The sides of a message, and the calls that make up a collective: records of what each rank has said."""

from __future__ import annotations

from typing import Any

from xsim_py.mpi.transport.call_sites import Place

from .signatures import Signature


class MessageSide:
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
    buffered : bool
        Whether it completes without its receive, by what the program asks for (Bsend).
    posted : bool
        Whether the call has begun where the calls are gone through again; see `ordering`.
    clock, ended : array or None, int
        When it began and when it was complete; see `clocks`.
    """

    __slots__ = (
        "buffered",
        "clock",
        "comm",
        "ended",
        "name",
        "partner",
        "peer",
        "place",
        "posted",
        "rank",
        "sends",
        "signature",
        "tag",
    )

    def __init__(
        self,
        rank: int,
        name: str,
        place: Place,
        comm: Any,
        peer: int,
        tag: int,
        signature: Signature | None,
        *,
        sends: bool,
    ) -> None:
        self.rank = rank
        self.name = name
        self.place = place
        self.comm = comm
        self.peer = peer
        self.tag = tag
        self.signature = signature
        self.sends = sends
        self.partner: MessageSide | None = None
        self.buffered = False
        self.posted = False
        self.clock: Any = None
        self.ended = 0


class CollectiveCall:
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
    """

    __slots__ = (
        "clock",
        "ended",
        "gives",
        "meeting",
        "name",
        "op",
        "place",
        "posted",
        "rank",
        "root",
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
    ) -> None:
        self.rank = rank
        self.name = name
        self.place = place
        self.root = root
        self.op = op
        self.signatures = tuple(dict.fromkeys(each for each in signatures if each is not None))
        self.gives = gives
        self.takes = takes
        self.meeting: Any = None
        self.posted = False
        self.clock: Any = None
        self.ended = 0


class Signal:
    """A rank tells another one to go on, by a call on a window: Post to Start, or Complete to Wait.

    Attributes
    ----------
    given : bool
        Whether it has been.
    clock, ended : array or None, int
        When; see `clocks`.
    """

    __slots__ = ("clock", "ended", "given")

    def __init__(self) -> None:
        self.given = False
        self.clock: Any = None
        self.ended = 0
