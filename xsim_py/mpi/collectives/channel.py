"""The world as a collective algorithm sees it, and the few steps that many algorithms share.

An algorithm is a plain function that every rank of a communicator runs. It knows its rank, the number of ranks and
how to pass immutable ``bytes`` to another rank; it knows neither time nor cost, so the same function serves blocking
and non-blocking collectives, any network, and the tests' toy network.

Nothing here receives from "any source": which message a rank takes next is fixed by the algorithm, hence the result
(also the rounding of floating-point sums) cannot depend on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Protocol, TypeAlias, cast

Bytes: TypeAlias = "bytes | None"
Handle: TypeAlias = Any  # whatever the channel's isend/irecv return; only the channel looks inside


class Channel(Protocol):
    """One rank's view of one communicator for one collective call."""

    @property
    def rank(self) -> int:
        """The caller's rank, 0 <= rank < size."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    def send(self, dest: int, data: bytes) -> None:
        """Send `data`; may block until the receiver has posted its receive."""

    def recv(self, source: int) -> bytes:
        """Wait for the next message of `source` (messages of one pair never overtake)."""

    def sendrecv(self, dest: int, data: bytes, source: int) -> bytes:
        """Send and receive at once, without risk of deadlock."""

    def isend(self, dest: int, data: bytes) -> Handle:
        """Start to send `data`."""

    def irecv(self, source: int) -> Handle:
        """Post the receive of the next message of `source`."""

    def wait(self, handles: Sequence[Handle]) -> list[bytes | None]:
        """Complete all `handles`; the answers stand in their order, None for sends."""


class Fold(Protocol):
    """A reduction operation bound to a datatype, working on packed elements."""

    @property
    def commutative(self) -> bool:
        """True where the operands may be swapped."""

    @property
    def unit_bytes(self) -> int:
        """Packed size of one element; vectors are cut at multiples of it only."""

    def __call__(self, left: bytes, right: bytes) -> bytes:
        """Combine element by element; `left` comes from the lower ranks."""


class _Blocks(Sequence[bytes]):
    """Blocks as one run of bytes: most often nobody looks at them one by one."""

    __slots__ = ("whole",)
    whole: bytes

    def listed(self) -> list[bytes]:
        """Each by itself."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        return self.listed()[index]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.listed())


class EqualBlocks(_Blocks):
    """Blocks of one size, as one run of bytes.

    Parameters
    ----------
    whole : bytes
        All of them.
    block_bytes, blocks : int
        The size of each, and how many there are.
    """

    __slots__ = ("block_bytes", "blocks")

    def __init__(self, whole: bytes, block_bytes: int, blocks: int) -> None:
        self.whole = whole
        self.block_bytes = block_bytes
        self.blocks = blocks

    def __len__(self) -> int:
        return self.blocks

    def listed(self) -> list[bytes]:
        """Each by itself."""
        whole, n = self.whole, self.block_bytes
        return [whole[i * n : (i + 1) * n] for i in range(self.blocks)]


class VariedBlocks(_Blocks):
    """Blocks of any sizes, as one run of bytes.

    Parameters
    ----------
    whole : bytes
        All of them.
    sizes : list of int
        The size of each in bytes.
    """

    __slots__ = ("sizes",)

    def __init__(self, whole: bytes, sizes: list[int]) -> None:
        self.whole = whole
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def listed(self) -> list[bytes]:
        """Each by itself."""
        return cut(self.whole, self.sizes)


class SharedBlocks(tuple[bytes, ...]):
    """Blocks that several ranks get, one object for all of them.

    Attributes
    ----------
    found : object
        What one of these ranks has found in them, for the others; None: nobody has looked.
    """

    found: Any = None


@lru_cache(maxsize=64)
def equal_sizes(size_bytes: int, blocks: int) -> Sequence[int]:
    """Sizes that are all equal; one tuple for all ranks."""
    return (size_bytes,) * blocks


Bcast: TypeAlias = Callable[[Channel, Bytes, int, int], bytes]
Reduce: TypeAlias = Callable[[Channel, bytes, Fold, int], Bytes]
Gather: TypeAlias = Callable[[Channel, bytes, int], "list[bytes] | None"]
Scatter: TypeAlias = Callable[[Channel, "Sequence[bytes] | None", int], bytes]


def send_all(ch: Channel, dests: Sequence[int], data: bytes) -> None:
    """Send the same `data` to each of `dests`, all at once."""
    if len(dests) == 1:  # hot path: half of a tree's inner nodes have one child, and a handle costs more than a send
        ch.send(dests[0], data)
    elif dests:
        ch.wait([ch.isend(dest, data) for dest in dests])


def receive_all(ch: Channel, sources: Sequence[int]) -> list[bytes]:
    """Take one message from each of `sources`, posting all receives first."""
    if len(sources) == 1:
        return [ch.recv(sources[0])]
    if not sources:
        return []
    return cast("list[bytes]", ch.wait([ch.irecv(source) for source in sources]))


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Cut `data` into consecutive pieces of the given sizes in bytes."""
    ends = list(accumulate(sizes, initial=0))
    return [data[start:end] for start, end in pairwise(ends)]


def blocks_of(whole: bytes, sizes: Sequence[int]) -> Sequence[bytes]:
    """Return the pieces of some bytes, cut when somebody looks at them; `sizes` may come from `equal_sizes`."""
    if type(whole) is bytes and sizes is equal_sizes(sizes[0], len(sizes)):
        return EqualBlocks(whole, sizes[0], len(sizes))
    return cut(whole, sizes)


def block_sizes(size_bytes: int, *, unit_bytes: int, blocks: int) -> list[int]:
    """Sizes in bytes of `blocks` nearly equal runs of whole elements, the longer ones first (as Open MPI's rings)."""
    each, longer = divmod(size_bytes // unit_bytes, blocks)
    return [(each + (block < longer)) * unit_bytes for block in range(blocks)]


def floor_power(number: int) -> int:
    """Give the largest power of two <= number (number >= 1)."""
    return 1 << (number.bit_length() - 1)
