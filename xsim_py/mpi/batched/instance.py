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
    """The shards of a communicator's ranks, not all of which are in this shard."""

    def __init__(self, homes: NDArray[np.int64], number: int) -> None:
        self.local = homes == number  # whether each rank is in this shard
        self.here = np.flatnonzero(self.local)  # the ranks of this shard, as ranks in the communicator
        others = np.unique(homes[~self.local]).tolist()
        # The ranks of each other shard with members.
        self.elsewhere = {other: np.flatnonzero(homes == other) for other in others}


@dataclass(slots=True, eq=False)  # hot path: without a dictionary each
class CollectiveInstance:
    """A collective that some of its ranks have begun."""

    comm: Communicator
    """That of the first rank to begin."""
    where: tuple[int, int]
    """Its context, and its number there."""
    note: Note
    """That of the first rank to begin."""
    members: MemberHomes | None
    """The shards of its ranks; None: all in this shard."""
    first: Any = None
    """Its description in the deadlock report, an `Opened`."""
    missing: int = field(init=False)
    """The number of ranks of this shard that have not begun yet."""
    inside: int = field(init=False)
    """The number of ranks of this shard that have not entered to wait; later, that have not left."""
    absent: int = field(init=False)
    """The number of other shards not known to have all of their ranks in the call."""
    undone: bool = False
    """Whether it is simulated individually."""
    computed: bool = False
    """Whether the last rank has entered."""
    signature: tuple[Any, ...] | None = None
    """The call of the first rank that waits here, a tuple."""
    pending: Pending[Any] | None = None
    """Its computation."""
    inline: int = -1
    """The rank that continued at once, because all its messages had arrived; -1: none."""
    announced: list[Any] | None = None
    """The announcement to other shards: `where`, the note, and a token of the signature.

    The token is None if it is simulated individually.
    """
    announcements: list[Any] = field(default_factory=list)
    """Those of other shards, each a `Note` and a token."""
    clock_ps: list[int] = field(init=False)
    """The clock of each rank on entry."""
    nic_free_ps: list[int] = field(init=False)
    """When the NIC of each rank was free, on entry."""
    keys: list[int] = field(init=False)
    """The last event key of each rank on entry."""
    entry_ps: list[int] = field(init=False)
    """The time of the event at which each rank entered."""
    entry_key: list[int] = field(init=False)
    """The key of the event at which each rank entered."""
    contributions: list[bytes] = field(init=False)
    """That of each rank."""
    fibers: list[Fiber | None] = field(init=False)
    """Those of waiting ranks; None for a rank that has not entered, has left, or is in another shard."""
    parts: list[Any] = field(init=False)
    """The contributions of other shards: their ranks, the first three columns of these, and the last."""
    bound: Batch = field(init=False)
    """The computation, whose results are `times`, `memory` and `results`."""
    exits: list[Column] = field(init=False)
    """Of each rank on exit: the first three columns, and its waiting time."""
    times: Times = field(init=False)
    memory: object = field(init=False)
    results: Sequence[Any] = field(init=False)
    latest_ps: int = field(init=False)
    """When the last of all ranks leaves."""
    events: int = field(init=False)
    """The number of message events on ranks of this shard."""
    fold: object = field(init=False)
    """The reduction operation, if there is one."""

    def __post_init__(self) -> None:
        members = self.members
        self.missing = self.inside = self.comm.context.size if members is None else len(members.here)
        self.absent = 0 if members is None else len(members.elsewhere)

    def open(self, signature: tuple[Any, ...], pending: Pending[Any], fold: object) -> None:
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
