"""The forms of algorithms' arguments: what of them a rank contributes, and what all ranks must agree on."""

from __future__ import annotations

from array import array
from typing import Any

from xsim_py.mpi.collectives import bcast, reduce, scan
from xsim_py.mpi.collectives.channel import join


class Form:
    """The form of an algorithm that is called with a channel only: a barrier.

    Attributes
    ----------
    many_results : bool
        Whether each rank gets a block from each.
    varies : bool
        Whether ranks say by what they contribute which messages there are.
    """

    many_results = False
    varies = False

    def key(self, args: Any) -> Any:
        """Return what has to be the same at all ranks."""
        return ()

    def contribution(self, args: Any) -> bytes:
        """Return the bytes that a rank puts in."""
        return b""

    def given(self, args: Any) -> tuple[Any, bytes]:
        """Return key and contribution."""
        return self.key(args), self.contribution(args)

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments for an algorithm that works on bytes."""
        return args

    def fold(self, args: Any) -> Any:
        """Return the reduction operation, if there is one."""
        return None

    def sizes(self, key: Any, ranks: int) -> list[int]:
        """Return how many bytes each rank puts in."""
        return [0] * ranks

    def symbols(self, key: Any, recording: Any, rank: int, fold: Any) -> tuple[Any, ...]:
        """Return the arguments with symbols in the place of bytes."""
        return ()


class Vector(Form):
    """``(data, fold)``, of the same length everywhere."""

    def key(self, args: Any) -> Any:
        return len(args[0]), args[1]

    def contribution(self, args: Any) -> bytes:
        data: bytes = args[0]
        return data

    def given(self, args: Any) -> tuple[Any, bytes]:  # hot path
        data, fold = args
        return (len(data), fold), data

    def fold(self, args: Any) -> Any:
        return args[1]

    def sizes(self, key: Any, ranks: int) -> list[int]:
        return [key[0]] * ranks

    def symbols(self, key: Any, recording: Any, rank: int, fold: Any) -> tuple[Any, ...]:
        return recording.contribution(rank), fold


class FromRoot(Form):
    """``(data, root, size_bytes)``; data is None but at the root."""

    def key(self, args: Any) -> Any:
        return args[1:]

    def contribution(self, args: Any) -> bytes:
        return args[0] or b""

    def sizes(self, key: Any, ranks: int) -> list[int]:
        return [key[1] if rank == key[0] else 0 for rank in range(ranks)]

    def symbols(self, key: Any, recording: Any, rank: int, fold: Any) -> tuple[Any, ...]:
        return recording.contribution(rank) if rank == key[0] else None, *key


class ToRoot(Vector):
    """``(data, fold, root)``, of the same length everywhere."""

    def key(self, args: Any) -> Any:
        return (len(args[0]), args[2]), args[1]

    def given(self, args: Any) -> tuple[Any, bytes]:
        return self.key(args), args[0]

    def sizes(self, key: Any, ranks: int) -> list[int]:
        return [key[0][0]] * ranks

    def symbols(self, key: Any, recording: Any, rank: int, fold: Any) -> tuple[Any, ...]:
        return recording.contribution(rank), fold, key[0][1]


class Blocks(Form):
    """``(data, sizes)``: a block of everybody, of known sizes."""

    many_results = True

    def key(self, args: Any) -> Any:
        return args[1] if type(args[1]) is tuple else tuple(args[1])

    def contribution(self, args: Any) -> bytes:
        data: bytes = args[0]
        return data

    def sizes(self, key: Any, ranks: int) -> list[int]:
        return list(key)

    def symbols(self, key: Any, recording: Any, rank: int, fold: Any) -> tuple[Any, ...]:
        return recording.contribution(rank), key


class Parts(Form):
    """``(parts,)``: a block for everybody, all of one size, as `EqualBlocks`."""

    many_results = True

    def key(self, args: Any) -> Any:
        return args[0].block_bytes

    def contribution(self, args: Any) -> bytes:
        whole: bytes = args[0].whole
        return whole

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].listed(),)

    def sizes(self, key: Any, ranks: int) -> list[int]:
        return [key * ranks] * ranks

    def symbols(self, key: Any, recording: Any, rank: int, fold: Any) -> tuple[Any, ...]:
        return (recording.blocks(rank, [key] * recording.size),)


class UnequalParts(Form):
    """``(parts, sizes)``: a block of any size for everybody, as `VariedBlocks`, and how large those of everybody are.

    What a rank contributes begins with both sizes for each rank; see `unequal`.
    """

    varies = True

    def contribution(self, args: Any) -> bytes:
        parts, sizes = args
        return b"".join((array("q", parts.sizes), array("q", sizes), parts.whole))

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args[0].listed(), args[1]


class Packed(Form):
    """``(data,)``: a pickled object, of any size; see `packed`."""

    varies = True

    def contribution(self, args: Any) -> bytes:
        data: bytes = args[0]
        return data


class PackedParts(Form):
    """``(parts,)``: a pickled object for everybody, as `VariedBlocks`.

    What a rank contributes begins with their sizes.
    """

    varies = True

    def contribution(self, args: Any) -> bytes:
        parts = args[0]
        return b"".join((array("q", parts.sizes), parts.whole))

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].listed(),)


class _Objects(Form):
    """``(obj, op, fold, ranks)``: an object, and what it is combined with others by; see `objects`.

    `fold` is None where the program's own code would run.
    """

    varies = True

    def key(self, args: Any) -> Any:
        """Return the operation and the kind of object; None where it can not be computed."""
        obj, _, fold, ranks = args
        kind = None if fold is None else fold.kind(obj, ranks)
        return None if kind is None else (fold.name, kind)

    def given(self, args: Any) -> tuple[Any, bytes]:
        key = self.key(args)
        return key, b"" if key is None else args[2].packed(args[0])

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args[:2]

    def fold(self, args: Any) -> Any:
        return args[2]


class PartsToFold(Form):
    """``(parts, fold)`` of a Reduce_scatter: a block for each rank, and how to combine them; the sizes are alike."""

    def key(self, args: Any) -> Any:
        return tuple(map(len, args[0])), args[1]

    def contribution(self, args: Any) -> bytes:
        return join(args[0])

    def fold(self, args: Any) -> Any:
        return args[1]

    def sizes(self, key: Any, ranks: int) -> list[int]:
        return [sum(key[0])] * ranks

    def symbols(self, key: Any, recording: Any, rank: int, fold: Any) -> tuple[Any, ...]:
        return recording.blocks(rank, key[0]), fold


BARRIER, VECTOR, BLOCKS, PARTS, PARTS_TO_FOLD = Form(), Vector(), Blocks(), Parts(), PartsToFold()
FROM_ROOT, TO_ROOT, UNEQUAL_PARTS = FromRoot(), ToRoot(), UnequalParts()
PACKED, PACKED_PARTS, OBJECTS = Packed(), PackedParts(), _Objects()
OBJECTS_TO_SCAN = {exclusive: _Objects() for exclusive in (False, True)}
SOME_NEED_ALL = frozenset(
    (
        bcast.scatter_allgather,
        bcast.scatter_allgather_ring,
        reduce.rabenseifner,
        scan.exscan_recursive_doubling,
        scan.scan_recursive_doubling,
    )
)
"""The rooted operations and scans in which every rank needs all others, on some numbers of ranks and of bytes.

Each of these calls asks by itself: a function for all would be a frame more at each rank that waits, of 500 bytes.
"""
