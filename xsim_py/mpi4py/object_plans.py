"""The lower-case collectives of `MPI.Comm` and `MPI.Intracomm`, which move pickled objects.

The messages are those of mpi4py (``msgpickle.pxi``): first the sizes, then the pickles. Reductions use mpi4py's
algorithm, so operands are combined in the same order, and run on a duplicate of the communicator (`object_context`) by
point-to-point messages, each of which fails only with its peer. All ranks get copies, including a root that sends to
itself.
Pickles may differ between runs with different hash seeds (sets), so the digest excludes them.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from xsim_py.mpi.batched import forms
from xsim_py.mpi.calls import CollectiveChannel, channel, ftco_serves, note, perform, pick
from xsim_py.mpi.collectives.channel import SharedBlocks, VariedBlocks
from xsim_py.mpi.collectives.rounds import doubled
from xsim_py.mpi.comm import Communicator

from . import object_ftco as ftco
from .collective_plans import Plan, algorithm_for, role_of, root_of
from .object_context import duplicate_of, open_channel
from .object_fold import fold_of_objects, is_plain, pickles_by_default
from .options import current_options
from .pickling import dump, dump_each, load, load_each
from .plain_arguments import integer

__all__ = [
    "allgather",
    "allreduce",
    "alltoall",
    "bcast",
    "dump_all",
    "gather",
    "packed_size",
    "reduce",
    "scan",
    "scatter",
]

Operator: TypeAlias = Callable[[Any, Any], Any]

_COUNT = struct.Struct("<q")
_TUPLES = frozenset((tuple,))


def packed_size(data: bytes) -> bytes:
    """Return the size message that precedes a pickle."""
    return _COUNT.pack(len(data))


def sizes_of(messages: Sequence[bytes]) -> list[int]:
    """Return the sizes in such messages."""
    return [_COUNT.unpack(message)[0] for message in messages]


def dump_all(objects: Any, count: int) -> list[bytes]:
    """Return the pickles of a sequence of `count` objects, or of `count` times None."""
    items = [None] * count if objects is None else list(objects)
    if len(items) != count:
        raise ValueError(f"expecting {count} items, got {len(items)}")
    return dump_each(items)


# ------------------------------------------------------------------------------------------------- moving objects


def bcast(comm: Communicator, name: str, obj: Any, root: int, packed: bool = False) -> Plan:
    """Plan a broadcast; with `packed` the object is a pickle and stays one."""
    root = integer(root)
    if ftco_serves(comm, "bcast"):
        return ftco.bcast(comm, name, obj, root)
    role = role_of(comm, root)
    data = None if role != "root" else obj if packed else dump(obj)
    ch = channel(comm, note(name, root_of(comm, root)), check=False)

    def body() -> object:
        size = None if data is None else packed_size(data)
        size = algorithm_for(ch, "bcast", _COUNT.size, role=role)(ch, size, root, _COUNT.size) or size
        size_bytes = 0 if size is None else sizes_of([size])[0]
        received = algorithm_for(ch, "bcast", size_bytes, role=role)(ch, data, root, size_bytes)
        return received if received is None or packed else load(received)

    return 0 if data is None else len(data), body, ch


def gather(comm: Communicator, name: str, obj: object, root: int) -> Plan:
    """Plan a gather into a list on the root."""
    root = integer(root)
    if ftco_serves(comm, "gather"):
        return ftco.gather(comm, name, obj, root)
    role = role_of(comm, root)
    sends = role == "member" or (role == "root" and comm.local is None)
    data = dump(obj) if sends else None
    ch = channel(comm, note(name, root_of(comm, root)), check=False)

    def body() -> list[Any] | None:
        size = None if data is None else packed_size(data)
        algorithm_for(ch, "gather", _COUNT.size, role=role)(ch, size, root)
        parts = algorithm_for(ch, "gatherv", role=role)(ch, data, root)
        return None if parts is None else load_each(parts)

    return 0 if data is None else len(data), body, ch


def scatter(comm: Communicator, name: str, objects: object, root: int) -> Plan:
    """Plan a scatter of the root's objects."""
    root = integer(root)
    role = role_of(comm, root)
    parts = dump_all(objects, len(comm.remote)) if role == "root" else None
    if ftco_serves(comm, "scatter"):
        return ftco.scatter(comm, name, parts, root)
    ch = channel(comm, note(name, root_of(comm, root)), check=False)

    def body() -> object:
        sizes = None if parts is None else [packed_size(part) for part in parts]
        algorithm_for(ch, "scatter", _COUNT.size, role=role)(ch, sizes, root)
        received = algorithm_for(ch, "scatterv", role=role)(ch, parts, root)
        return None if received is None else load(received)

    return 0 if parts is None else sum(map(len, parts)), body, ch


def allgather(comm: Communicator, name: str, obj: object) -> Plan:
    """Plan a gather into a list on all ranks."""
    if ftco_serves(comm, "allgather"):
        return ftco.allgather(comm, name, obj)
    data = dump(obj)
    ch = channel(comm, note(name), check=False)
    return len(data), lambda: _load_all(_packed(ch, forms.PACKED, _gather_everywhere, data)), ch


def _gather_everywhere(ch: CollectiveChannel, data: bytes) -> Sequence[bytes]:
    """Gather the sizes, then the pickles, on all ranks."""
    comm = ch.comm
    blocks = len(comm.remote)
    algorithm = algorithm_for(ch, "allgather", _COUNT.size)
    sizes = sizes_of(algorithm(ch, packed_size(data), [_COUNT.size] * blocks))
    algorithm = algorithm_for(ch, "allgatherv", sum(sizes) // blocks)
    received: Sequence[bytes] = algorithm(ch, data, sizes)
    return received


def _packed(ch: CollectiveChannel, form: forms.Form, algorithm: Callable[..., Any], contribution: object) -> Any:
    """Exchange pickles; a batched collective supplies its algorithm."""
    received = perform(ch, form, algorithm, contribution)
    if ch.algorithm is None:
        ch.algorithm = ch.instance.bound.algorithm
    return received


def _load_all(parts: Sequence[bytes]) -> list[Any]:
    """Load the objects of messages.

    Immutable objects that several ranks receive are loaded once.
    """
    if type(parts) is not SharedBlocks:
        return load_each(parts)
    if parts.found:
        return list(parts.found)
    loaded = load_each(parts)
    if parts.found is None:
        parts.found = tuple(loaded) if pickles_by_default() and is_plain(tuple(loaded), _TUPLES) else ()
    return loaded


def alltoall(comm: Communicator, name: str, objects: object) -> Plan:
    """Plan an exchange of one object between each pair of ranks."""
    pickles = dump_all(objects, len(comm.remote))
    parts = VariedBlocks(b"".join(pickles), list(map(len, pickles)))  # most often they are not needed one by one
    ch = channel(comm, note(name), check=False)
    return len(parts.data), lambda: _load_all(_packed(ch, forms.PACKED_PARTS, _exchange, parts)), ch


def _exchange(ch: CollectiveChannel, parts: list[bytes]) -> Sequence[bytes]:
    """Exchange the sizes, then the pickles."""
    algorithm_for(ch, "alltoall", _COUNT.size)(ch, [packed_size(part) for part in parts])
    received: Sequence[bytes] = algorithm_for(ch, "alltoallv")(ch, parts)
    return received


# ----------------------------------------------------------------------------------------------- combining objects


def _send(ch: CollectiveChannel, dest: int, obj: object) -> None:
    data = dump(obj)
    ch.send(dest, packed_size(data))
    ch.send(dest, data)


def _receive(ch: CollectiveChannel, source: int) -> object:
    ch.recv(source)
    return load(ch.recv(source))


def _swap(ch: CollectiveChannel, peer: int, obj: object) -> object:
    data = dump(obj)
    ch.sendrecv(peer, packed_size(data), peer)
    return load(ch.sendrecv(peer, data, peer))


def _reduce_to(ch: CollectiveChannel, obj: object, op: Operator, root: int) -> object:
    """Reduce to rank 0, and send the result from there to the root.

    As in mpi4py a rank that has sent takes part in further rounds: only data that reaches rank 0 affects the result.
    """
    rank, size = ch.rank, ch.size
    result = load(dump(obj))
    for mask in doubled(size):
        if rank & mask:
            _send(ch, rank & ~mask, result)
        elif rank | mask < size:
            result = op(result, _receive(ch, rank | mask))
    if root != 0 and rank == 0:
        _send(ch, root, result)
    elif root != 0 and rank == root:
        result = _receive(ch, 0)
    return result if rank == root else None


def _bcast_from_0(ch: CollectiveChannel, obj: object) -> bytes:
    ch.note = note(*ch.note)  # this is a collective of the MPI library, which fails with any member
    data = dump(obj) if ch.rank == 0 else None
    size = packed_size(data) if data is not None else None
    (size_bytes,) = sizes_of([pick(ch.comm, "bcast", _COUNT.size)(ch, size, 0, _COUNT.size)])
    received: bytes = pick(ch.comm, "bcast", size_bytes)(ch, data, 0, size_bytes)
    return received


def _reduction(comm: Communicator, name: str) -> CollectiveChannel:
    before, duplicate = comm.collectives, duplicate_of(comm, name)
    return open_channel(comm, before, duplicate, name)


def _folded(items: list[Any] | None, op: Operator) -> Any | None:
    """Combine some items, if ``mpi4py.rc.fast_reduce`` is off; return None without items."""
    return None if items is None else functools.reduce(op, items)


def _scanned(items: list[Any] | None, op: Operator, exclusive: bool) -> list[Any] | None:
    """Return the scan results of all ranks for their items; None without items."""
    if items is None:
        return None
    results = [*accumulate(items, op)]
    return [None, *results[:-1]] if exclusive else results


def reduce(comm: Communicator, name: str, obj: object, op: Operator, root: int) -> Plan:
    """Plan a reduction to the root."""
    root = integer(root)
    if ftco_serves(comm, "reduce"):
        return ftco.reduce(comm, name, obj, op, root)
    if not current_options().fast_reduce:
        size_bytes, gathered, ch = gather(comm, name, obj, root)
        return size_bytes, lambda: _folded(gathered(), op), ch
    before, duplicate = comm.collectives, duplicate_of(comm, name)
    role = role_of(comm, root)
    ch = open_channel(comm, before, duplicate, name, root_of(comm, root))
    if ch.local is None:
        ch.algorithm = "binomial"
        return 0, lambda: _reduce_to(ch, obj, op, root), ch
    ch.algorithm = "inter"
    local = ch.local

    def body() -> object:
        if role == "root":
            return _receive(ch, 0)
        if role == "member":
            result = _reduce_to(local, obj, op, 0)
            if ch.rank == 0:
                _send(ch, root, result)
        return None

    return 0, body, ch


def allreduce(comm: Communicator, name: str, obj: object, op: Operator) -> Plan:
    """Plan a reduction to all ranks; on an intercommunicator each group gets the other's result."""
    if ftco_serves(comm, "allreduce"):
        return ftco.allreduce(comm, name, obj, op)
    if not current_options().fast_reduce:
        size_bytes, gathered, ch = allgather(comm, name, obj)
        return size_bytes, lambda: _folded(gathered(), op), ch
    ch = _reduction(comm, name)
    if ch.local is None:
        fold = fold_of_objects(op)
        ch.algorithm = "nonoverlapping"
        return 0, lambda: _load_one(perform(ch, forms.OBJECTS, _reduce_and_broadcast, obj, op, fold, ch.size)), ch
    ch.algorithm = "inter"
    local = ch.local

    def body() -> object:
        result = _reduce_to(local, obj, op, 0)
        if ch.rank == 0:
            result = _swap(ch, 0, result)
        return load(_bcast_from_0(local, result))

    return 0, body, ch


def _reduce_and_broadcast(ch: CollectiveChannel, obj: object, op: Operator) -> bytes:
    return _bcast_from_0(ch, _reduce_to(ch, obj, op, 0))


def _load_one(data: bytes | SharedBlocks) -> object:
    """Load the object of a message, which other ranks may receive, too."""
    return load(data) if isinstance(data, bytes) else _load_all(data)[0]


def scan(comm: Communicator, name: str, exclusive: bool, obj: object, op: Operator) -> Plan:
    """Plan a prefix reduction, without the rank's own contribution if `exclusive`."""
    if not current_options().fast_reduce:
        size_bytes, gathered, ch = gather(comm, name, obj, 0)
        return size_bytes, lambda: scatter(comm, name, _scanned(gathered(), op, exclusive), 0)[1](), ch
    ch = _reduction(comm, name)
    ch.algorithm = "recursive_doubling"
    fold = fold_of_objects(op)
    form, algorithm = forms.OBJECTS_TO_SCAN[exclusive], _exscan if exclusive else _scan

    def body() -> object:
        received = perform(ch, form, algorithm, obj, op, fold, ch.size)
        if type(received) is not SharedBlocks:
            return received
        result = load(received[0])
        is_combined = ch.rank & (ch.rank - 1) if exclusive else ch.rank
        return result.copy("K") if is_combined and type(result) is np.ndarray else result  # it has separate memory

    return 0, body, ch


def _scan(ch: CollectiveChannel, obj: object, op: Operator, exclusive: bool = False) -> object:
    total = load(dump(obj))  # of the ranks combined so far
    result = None if exclusive else total
    empty = exclusive
    for mask in doubled(ch.size):
        peer = ch.rank ^ mask
        if peer < ch.size:
            theirs = _swap(ch, peer, total)
            if ch.rank > peer:
                total = op(theirs, total)
                result = theirs if empty else op(theirs, result)
                empty = False
            else:
                total = op(total, theirs)
    return result


def _exscan(ch: CollectiveChannel, obj: object, op: Operator) -> object:
    return _scan(ch, obj, op, True)
