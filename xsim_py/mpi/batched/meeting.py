"""A collective that is under way among ranks that meet; see `meetings`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from xsim_py.mpi.calls import Note
    from xsim_py.mpi.comm import Communicator
    from xsim_py.process.ranks.fiber import Fiber

    from .batch import Batch, Pending
    from .timing import Times

Column: TypeAlias = "array[int]"
"""Half as long to read from as an array of numpy, and a quarter of the memory of a list."""


class MemberHomes:
    """The homes of the ranks of a communicator, of which not all are in this shard.

    Attributes
    ----------
    here : (n,) array
        Those of this shard, by their ranks in the communicator.
    local : (ranks,) array of bool
        Whether a rank is one of them.
    elsewhere : dict
        Those of each other shard that has some.
    """

    def __init__(self, homes: NDArray[np.int64], number: int) -> None:
        self.local = homes == number
        self.here = np.flatnonzero(self.local)
        others = np.unique(homes[~self.local]).tolist()
        self.elsewhere = {other: np.flatnonzero(homes == other) for other in others}


@dataclass(slots=True, eq=False)  # hot path: without a dictionary each
class Meeting:
    """A collective that some of its ranks have begun.

    Attributes
    ----------
    comm, note : Communicator, Note
        Of the first to begin.
    where : (int, int)
        Its context and its number there.
    members : MemberHomes or None
        Where its ranks are; None: all in this shard.
    first : Opened
        What the deadlock report says of it.
    missing, inside : int
        How many ranks of this shard have not begun yet, and how many have not come to wait; later: have not left.
    undone, computed : bool
        Whether it goes message by message; whether the last rank has come.
    signature, pending, fold : tuple, Pending or None, object
        What the first to wait here does, how it is to be computed, and the reduction operation, if there is one.
    clock_ps, nic_free_ps, keys : list of int
        Of each rank when it came: its clock, when its interface was free, and its last event key.
    came_ps, came_key : list of int
        The time and the key of the event at which it came.
    given : list of bytes
        Its contribution.
    fibers : list
        Of the ranks that wait; None of one that has not come, has left, or lives elsewhere.
    absent : int
        Of how many other shards it is not known yet that all of their ranks have come.
    parts : list
        What the ranks of other shards have left there: who they are, the first three of theirs, and the last.
    said : list or None
        What the other shards have been told: `where`, the note, and a token for what is waited for, None where it goes
        message by message.
    heard : list of (Note, token)
        What they have said.
    bound, times, memory, results
        How it was computed, and what.
    exits : list of array
        What each rank takes with it: as the first three, and how long it has waited.
    latest_ps : int
        When the last of all ranks leaves.
    events : int
        How many events of messages happen at ranks of this shard.
    inline : int
        The rank that went on at once, as all that it gets had come; -1: none.
    """

    comm: Communicator
    where: tuple[int, int]
    note: Note
    members: MemberHomes | None
    first: Any = None
    missing: int = field(init=False)
    inside: int = field(init=False)
    absent: int = field(init=False)
    undone: bool = False
    computed: bool = False
    signature: Any = None
    pending: Pending | None = None
    inline: int = -1
    said: list[Any] | None = None
    heard: list[Any] = field(default_factory=list)
    clock_ps: list[int] = field(init=False)
    nic_free_ps: list[int] = field(init=False)
    keys: list[int] = field(init=False)
    came_ps: list[int] = field(init=False)
    came_key: list[int] = field(init=False)
    given: list[bytes] = field(init=False)
    fibers: list[Fiber | None] = field(init=False)
    parts: list[Any] = field(init=False)
    bound: Batch = field(init=False)
    exits: list[Column] = field(init=False)
    times: Times = field(init=False)
    memory: Any = field(init=False)
    results: Sequence[Any] = field(init=False)
    latest_ps: int = field(init=False)
    events: int = field(init=False)
    fold: Any = field(init=False)

    def __post_init__(self) -> None:
        members = self.members
        self.missing = self.inside = self.comm.context.size if members is None else len(members.here)
        self.absent = 0 if members is None else len(members.elsewhere)

    def open(self, signature: Any, pending: Pending, fold: Any) -> None:
        """Prepare for the ranks that wait, as the first of them comes."""
        size = self.comm.context.size
        self.signature = signature
        self.pending = pending
        self.fold = fold
        self.clock_ps, self.nic_free_ps, self.keys, self.came_ps, self.came_key = ([0] * size for _ in range(5))
        self.given = [b""] * size
        self.fibers = [None] * size
        self.parts = []

    def close(self) -> None:
        """Let go of what ranks have left, as nobody waits any more and nothing was computed."""
        self.clock_ps = self.nic_free_ps = self.keys = self.came_ps = self.came_key = []
        self.given = []
        self.fibers = []
        self.parts = []

    def everyone(self) -> tuple[Any, Any, Any, list[bytes]]:
        """Return clocks, interfaces, keys and contributions of all ranks, also of those elsewhere."""
        columns = [np.array(column, np.int64) for column in (self.clock_ps, self.nic_free_ps, self.keys)]
        contributions = self.given
        for places, part, data in self.parts:
            for column, numbers in zip(columns, part, strict=True):
                column[places] = numbers
            if data is not None:
                for place, each in zip(places.tolist(), data, strict=True):
                    contributions[place] = each
        return *columns, contributions  # type: ignore[return-value]

    def living(self) -> int:
        """Return how many of its ranks are in this shard."""
        return len(self.fibers) if self.members is None else len(self.members.here)

    def gone(self) -> list[int]:
        """Return the ranks of this shard that have left a call that is computed."""
        places = range(len(self.fibers)) if self.members is None else self.members.here.tolist()
        return [place for place in places if self.fibers[place] is None]

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return f"{self.note} on {self.comm.shown.label()}"
