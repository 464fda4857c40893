"""The choice of calls that can be computed for all their ranks at once, and of their schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xsim_py.mpi.calls import CollectiveChannel, pick
from xsim_py.mpi.collectives import alltoall
from xsim_py.mpi.collectives.channel import EqualBlocks, equal_sizes
from xsim_py.mpi.op import foldable

from .batch import Batch, Pending
from .costs import MessageCosts
from .forms import BLOCKS, OBJECTS, OBJECTS_TO_SCAN, PACKED, PACKED_PARTS, PARTS, Form
from .formulas import EXCHANGES, Gather, formula
from .pending import MOST_MESSAGES, ObjectReduction, ObjectScan, PickleExchange, PickleGather, VariedExchange
from .schedule import CollectiveSchedule, Marks
from .trees import tree

# All bytes of a call are in one array, in addition to the ranks' data.
_MOST_BYTES = 1 << 28
_MOST_COSTS = 1 << 23  # messages whose costs are looked up individually
_HEAD_BYTES = 8
# Below these, messages are as fast; `tests.bench.collectives` compares the two.
_LEAST_PER_ROUND = 16
_LEAST_RANKS_OF_TREE = 48  # also of reductions and scans of objects
_LEAST_RANKS_OF_VARIED = 32  # of blocks with different sizes, whose costs are looked up in each call


def bind(
    ch: CollectiveChannel,
    form: Form,
    algorithm: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    always: bool,  # whether to compute it even if that is slower
    local: Marks | None,  # which of the ranks are in this shard, as booleans; None: all
) -> Pending[Any] | None:
    """Return how to compute a call for all ranks; None if that is impossible or does not pay."""
    if form.varies:
        return _pending(ch, form, algorithm, args, always, local)
    size, fold = ch.size, form.fold(args)
    if fold is not None and not foldable(fold):
        return None
    unit = 0 if fold is None else fold.unit_bytes
    key = form.key(args)
    shape = key if fold is None else key[0]
    schedule = formula(algorithm, size, shape, unit)
    if schedule is not None:
        if not always and schedule.messages < _LEAST_PER_ROUND * schedule.stage_count:
            return None
        varied = isinstance(schedule, Gather) and not schedule.equal
        far = varied or not ch.comm.fabric.equally_far
        return None if far and schedule.messages > _MOST_COSTS else _batch(ch, schedule, local)
    listed = tree(algorithm, size, shape) if always or size >= _LEAST_RANKS_OF_TREE else None
    return None if listed is None or listed.total_bytes > _MOST_BYTES else _batch(ch, listed, local)


def _batch(ch: CollectiveChannel, schedule: CollectiveSchedule[Any], local: Marks | None) -> Batch | None:
    ranks = ch.comm.ranks
    costs = MessageCosts(ch.comm.fabric, ranks).costs(schedule)
    return None if costs is None else Batch(schedule, costs, ranks, ch.check, local)


def _pending(
    ch: CollectiveChannel,
    form: Form,
    algorithm: Callable[..., Any],
    args: tuple[Any, ...],
    always: bool,
    local: Marks | None,
) -> Pending[Any] | None:
    """Return a call whose messages are known when all ranks have entered."""
    size, comm = ch.size, ch.comm
    if size < 2:
        return None
    if form is OBJECTS or form in OBJECTS_TO_SCAN.values():
        if form.key(args) is None or not (always or size >= _LEAST_RANKS_OF_TREE):
            return None
        if form is OBJECTS:
            return ObjectReduction(ch, local)
        return None if size & (size - 1) else ObjectScan(ch, local, form is OBJECTS_TO_SCAN[True])
    if form not in (PACKED, PACKED_PARTS):
        fits = algorithm in EXCHANGES and size * size <= MOST_MESSAGES
        if not always and algorithm is alltoall.pairwise and size < _LEAST_RANKS_OF_VARIED:
            return None
        return VariedExchange(ch, local, algorithm) if fits else None
    options: Any = {"always": always, "local": local}
    if form is PACKED:
        contribution = b"", equal_sizes(_HEAD_BYTES, size)
        first = bind(ch, BLOCKS, pick(comm, "allgather", _HEAD_BYTES), contribution, **options)
        return PickleGather(ch, local, first) if isinstance(first, Batch) else None
    blocks = EqualBlocks(b"", _HEAD_BYTES, size)
    first = bind(ch, PARTS, pick(comm, "alltoall", _HEAD_BYTES), (blocks,), **options)
    return PickleExchange(ch, local, first) if isinstance(first, Batch) else None
