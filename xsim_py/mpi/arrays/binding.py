"""Which calls can be computed on arrays, and what they cost on this network between these ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.collectives.choose import REGISTRY
from xsim_py.mpi.op import foldable

from .building import built
from .compiling import compiled
from .hashing import hash_sum
from .recipe import Recipe
from .symbols import Fold, record
from .timetable import Costs, Times, Timetable

if TYPE_CHECKING:
    from xsim_py.mpi.calls import CollectiveChannel
    from xsim_py.mpi.p2p import Fabric

    from .forms import Form

__all__ = ["Bound", "bind"]

_MOST_BYTES = 1 << 28
_MOST_LISTS = 256  # ranks that each have as many results
_KNOWN = frozenset(algorithm for algorithms in REGISTRY.values() for algorithm in algorithms.values())


class Bound:
    """A compiled call on the ranks of one communicator.

    Attributes
    ----------
    costs : Costs
        Of its messages.
    source, dest, size_bytes : array
        Of its messages, as ranks of the whole run; what `Tally.add` takes.
    """

    def __init__(
        self, timetable: Timetable, recipe: Recipe, payloads: NDArray[np.int64], costs: Costs, ranks: Any, check: bool
    ) -> None:
        self.timetable = timetable
        self.recipe = recipe
        self.payloads = payloads
        self.costs = costs
        numbers = np.array(ranks, np.int64)
        self.source = numbers[timetable.source]
        self.dest = numbers[timetable.dest]
        self.size_bytes = timetable.size_bytes
        self.check = check

    def hashes(self, times: Times, tag: int, memory: NDArray[np.uint8]) -> int:
        """What the arrival of all messages adds to the digest; see `Fabric._deliver`."""
        checks: Any = self.recipe.checks(memory)[self.payloads] if self.check else 0
        table = self.timetable
        return hash_sum([times.arrival_ps, self.dest, table.source, tag, table.size_bytes, checks], len(table))


def bind(
    ch: CollectiveChannel,
    form: Form,
    algorithm: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    often: bool,
    always: bool,
) -> Bound | None:
    """How to compute a call on arrays; None where it has to go message by message, or where that is as fast.

    Parameters
    ----------
    often : bool
        Whether the call is made so often that it pays to find out what its algorithm does; else only the algorithms
        are taken of which that is known (`building`).
    always : bool
        Whether to take arrays also where that is slower.
    """
    fold = form.fold(args)
    if getattr(algorithm, "func", algorithm) not in _KNOWN or (fold is not None and not foldable(fold)):
        return None
    unit = 0 if fold is None else fold.unit_bytes
    key = form.key(args)
    shape = key if fold is None else key[0]
    made = built(algorithm, ch.size, shape)
    many = form.many_results and ch.size > _MOST_LISTS
    if made is None and often and (always or not many):
        made = _compiled(algorithm, ch.size, form, shape, unit)
    if made is None:
        return None
    timetable, recipe, payloads = made
    if recipe.total_bytes > _MOST_BYTES or not (timetable.received > 0).all():
        return None
    if not always and len(timetable) < 8 * len(timetable.steps):
        return None
    costs = _costs(ch.comm.fabric, ch.comm.ranks, timetable)
    return None if costs is None else Bound(timetable, recipe, payloads, costs, ch.comm.ranks, ch.check)


@lru_cache(maxsize=64)
def _compiled(
    algorithm: Callable[..., Any], size: int, form: Form, key: Any, unit_bytes: int
) -> tuple[Timetable, Recipe, NDArray[np.int64]] | None:
    """An algorithm on so many ranks, whichever they are."""
    fold = Fold(unit_bytes, True)
    whole = (key, fold) if unit_bytes else key
    recording = record(
        size,
        form.sizes(whole, size),
        lambda ch, recording: algorithm(ch, *form.symbols(whole, recording, ch.rank, fold)),
    )
    return None if recording is None else compiled(recording)


def _costs(fabric: Fabric, ranks: Any, timetable: Timetable) -> Costs | None:
    """What the messages cost; None where one of them does not go eagerly, or takes no time."""
    found: dict[tuple[Any, int], int] = {}
    kinds: list[Any] = []
    which = []
    for source, dest, size in zip(
        timetable.source.tolist(), timetable.dest.tolist(), timetable.size_bytes.tolist(), strict=True
    ):
        link = fabric.link(ranks[source], ranks[dest])
        kind = found.setdefault((link, size), len(kinds))
        if kind == len(kinds):
            kinds.append(link.times(size))
        which.append(kind)
    if not all(eager and wire_ps + latency_ps > 0 for _, wire_ps, _, latency_ps, _, eager in kinds):
        return None
    table = np.array([(kind[0], kind[2], kind[1] + kind[3], kind[4]) for kind in kinds], np.int64)
    columns = (int(column[0]) if (column == column[0]).all() else column[which] for column in table.T)
    return Costs(*columns)
