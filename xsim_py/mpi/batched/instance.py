"""A collective instance; see `instances`."""

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
"""Read in half the time of a NumPy array, with a quarter of the memory of a list."""


class MemberHomes:
    """The shards of a communicator's ranks, not all of which are in this shard.

    Attributes
    ----------
    here : (n,) array
        The ranks of this shard, as ranks in the communicator.
    local : (ranks,) array of bool
        Whether a rank is in this shard.
    elsewhere : dict
        The ranks of each other shard with members.
    """

    def __init__(self, homes: NDArray[np.int64], number: int) -> None:
        self.local = homes == number
        self.here = np.flatnonzero(self.local)
        others = np.unique(homes[~self.local]).tolist()
        self.elsewhere = {other: np.flatnonzero(homes == other) for other in others}


@dataclass(slots=True, eq=False)  # hot path: without a dictionary each
class CollectiveInstance:
    """A collective that some of its ranks have begun.

    Attributes
    ----------
    comm, note : Communicator, Note
        Of the first rank to begin.
    where : (int, int)
        Its context, and its number there.
    members : MemberHomes or None
        The shards of its ranks; None: all in this shard.
    first : Opened
        Its description in the deadlock report.
    missing, inside : int
        The number of ranks of this shard that have not begun yet, and that have not entered to wait; later, that have
        not left.
    undone, computed : bool
        Whether it is simulated individually; whether the last rank has entered.
    signature, pending, fold : tuple, Pending or None, object
        The call of the first rank that waits here, its computation, and the reduction operation, if there is one.
    clock_ps, nic_free_ps, keys : list of int
        Of each rank on entry: its clock, when its NIC was free, and its last event key.
    entry_ps, entry_key : list of int
        The time and the key of the event at which it entered.
    contributions : list of bytes
        Its contribution.
    fibers : list
        Of the waiting ranks; None for a rank that has not entered, has left, or is in another shard.
    absent : int
        The number of other shards not known to have all of their ranks in the call.
    parts : list
        The contributions of other shards: their ranks, the first three columns of these, and the last.
    announced : list or None
        The announcement to other shards: `where`, the note, and a token of the signature, None if it is simulated
        individually.
    announcements : list of (Note, token)
        Their announcements.
    bound, times, memory, results
        The computation and its results.
    exits : list of array
        Of each rank on exit: the first three columns, and its waiting time.
    latest_ps : int
        When the last of all ranks leaves.
    events : int
        The number of message events on ranks of this shard.
    inline : int
        The rank that continued at once, because all its messages had arrived; -1: none.
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
    announced: list[Any] | None = None
    announcements: list[Any] = field(default_factory=list)
    clock_ps: list[int] = field(init=False)
    nic_free_ps: list[int] = field(init=False)
    keys: list[int] = field(init=False)
    entry_ps: list[int] = field(init=False)
    entry_key: list[int] = field(init=False)
    contributions: list[bytes] = field(init=False)
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
        """Prepare for waiting ranks, on entry of the first of them."""
        size = self.comm.context.size
        self.signature = signature
        self.pending = pending
        self.fold = fold
        self.clock_ps, self.nic_free_ps, self.keys, self.entry_ps, self.entry_key = ([0] * size for _ in range(5))
        self.contributions = [b""] * size
        self.fibers = [None] * size
        self.parts = []

    def close(self) -> None:
        """Drop the contributions of ranks, when no rank waits and nothing was computed."""
        self.clock_ps = self.nic_free_ps = self.keys = self.entry_ps = self.entry_key = []
        self.contributions = []
        self.fibers = []
        self.parts = []

    def all_ranks(self) -> tuple[Any, Any, Any, list[bytes]]:
        """Return clocks, NICs, keys and contributions of all ranks, including those of other shards."""
        columns = [np.array(column, np.int64) for column in (self.clock_ps, self.nic_free_ps, self.keys)]
        contributions = self.contributions
        for places, part, data in self.parts:
            for column, numbers in zip(columns, part, strict=True):
                column[places] = numbers
            if data is not None:
                for place, each in zip(places.tolist(), data, strict=True):
                    contributions[place] = each
        return *columns, contributions  # type: ignore[return-value]

    def local_count(self) -> int:
        """Return the number of its ranks in this shard."""
        return len(self.fibers) if self.members is None else len(self.members.here)

    def departed(self) -> list[int]:
        """Return the ranks of this shard that have left a computed call."""
        places = range(len(self.fibers)) if self.members is None else self.members.here.tolist()
        return [place for place in places if self.fibers[place] is None]

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return f"{self.note} on {self.comm.shown.label()}"
