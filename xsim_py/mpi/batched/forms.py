"""The forms of algorithms' arguments: the contribution of a rank, and what must agree on all ranks."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

    from xsim_py.mpi.collectives.channel import Fold


class Form:
    """The form of an algorithm that is called with a channel only: a barrier."""

    varies = False
    """Whether the messages depend on the contributions of ranks."""

    def key(self, args: tuple[Any, ...]) -> Any:
        """Return the arguments that must be equal on all ranks."""
        return 0

    def contribution(self, args: tuple[Any, ...]) -> bytes:
        """Return the contribution of a rank."""
        return b""

    def key_and_contribution(self, args: tuple[Any, ...]) -> tuple[Any, bytes]:
        """Return key and contribution."""
        return self.key(args), self.contribution(args)

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments for an algorithm that works on bytes."""
        return args

    def fold(self, args: tuple[Any, ...]) -> Fold | None:
        """Return the reduction operation, if there is one."""
        return None


class Vector(Form):
    """``(data, fold)``, of equal length on all ranks."""

    def key(self, args: tuple[Any, ...]) -> Hashable:
        return len(args[0]), args[1]

    def contribution(self, args: tuple[Any, ...]) -> bytes:
        data: bytes = args[0]
        return data

    def key_and_contribution(self, args: tuple[Any, ...]) -> tuple[Any, bytes]:  # hot path
        data, fold = args
        return (len(data), fold), data

    def fold(self, args: tuple[Any, ...]) -> Any:
        return args[1]


class Blocks(Form):
    """``(data, sizes)``: a block per rank, of known sizes."""

    def key(self, args: tuple[Any, ...]) -> Hashable:
        return args[1] if type(args[1]) is tuple else tuple(args[1])

    def contribution(self, args: tuple[Any, ...]) -> bytes:
        data: bytes = args[0]
        return data


class Parts(Form):
    """``(parts,)``: a block for each rank, all of one size, as `EqualBlocks`."""

    def key(self, args: tuple[Any, ...]) -> Any:
        return args[0].block_bytes

    def contribution(self, args: tuple[Any, ...]) -> bytes:
        whole: bytes = args[0].data
        return whole

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].listed(),)


class UnequalParts(Form):
    """``(parts, sizes)``: a block of any size for each rank (`VariedBlocks`), and all received sizes.

    A rank's contribution begins with both sizes for each rank; see `pending.VariedExchange`.
    """

    varies = True

    def contribution(self, args: tuple[Any, ...]) -> bytes:
        parts, sizes = args
        return b"".join((array("q", parts.sizes), array("q", sizes), parts.data))

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args[0].listed(), args[1]


class Packed(Form):
    """``(data,)``: a pickled object, of any size; see `pending.PickleGather`."""

    varies = True

    def contribution(self, args: tuple[Any, ...]) -> bytes:
        data: bytes = args[0]
        return data


class PackedParts(Form):
    """``(parts,)``: a pickled object for each rank, as `VariedBlocks`.

    A rank's contribution begins with their sizes.
    """

    varies = True

    def contribution(self, args: tuple[Any, ...]) -> bytes:
        parts = args[0]
        return b"".join((array("q", parts.sizes), parts.data))

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].listed(),)


class _Objects(Form):
    """``(obj, op, fold, ranks)``: an object, and the operation that combines it.

    See `pending.ObjectFold`. `fold` is None if the operation would run code of the program.
    """

    varies = True

    def key(self, args: tuple[Any, ...]) -> Hashable:
        """Return the operation and the kind of object; None if it cannot be computed."""
        obj, _, fold, ranks = args
        kind = None if fold is None else fold.kind(obj, ranks)
        return None if kind is None else (fold.name, kind)

    def key_and_contribution(self, args: tuple[Any, ...]) -> tuple[Any, bytes]:
        key = self.key(args)
        return key, b"" if key is None else args[2].packed(args[0])

    def plain(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args[:2]

    def fold(self, args: tuple[Any, ...]) -> Any:
        return args[2]


BARRIER, VECTOR, BLOCKS, PARTS, UNEQUAL_PARTS = Form(), Vector(), Blocks(), Parts(), UnequalParts()
PACKED, PACKED_PARTS, OBJECTS = Packed(), PackedParts(), _Objects()
OBJECTS_TO_SCAN = {exclusive: _Objects() for exclusive in (False, True)}
