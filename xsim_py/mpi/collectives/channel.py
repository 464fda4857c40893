"""The interface of collective algorithms to the communicator, and steps that many algorithms share.

An algorithm is a plain function that every rank of a communicator runs. It knows its rank, the number of ranks and how
to send immutable ``bytes`` to another rank; it knows neither time nor cost, so the same function serves blocking and
non-blocking collectives, any network, and the tests' toy network.

No algorithm receives from "any source": the algorithm determines the next message of each rank, hence the result
(including the rounding of floating-point sums) cannot depend on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Protocol, TypeAlias, cast

Bytes: TypeAlias = "bytes | None"
Handle: TypeAlias = Any  # whatever isend and irecv of the channel return; opaque to algorithms


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
        """Send and receive at the same time, without risk of deadlock."""

    def isend(self, dest: int, data: bytes) -> Handle:
        """Start to send `data`."""

    def irecv(self, source: int) -> Handle:
        """Post the receive of the next message of `source`."""

    def wait(self, handles: Sequence[Handle]) -> list[bytes | None]:
        """Complete all `handles`; return the received data in their order, None for sends."""


class Fold(Protocol):
    """A reduction operation bound to a datatype, working on packed elements."""

    @property
    def commutative(self) -> bool:
        """True if the operands may be swapped."""

    @property
    def unit_bytes(self) -> int:
        """The packed size of one element; vectors are only cut at multiples of it."""

    def __call__(self, left: bytes, right: bytes) -> bytes:
        """Combine element by element; `left` comes from the lower ranks."""


class _Blocks(Sequence[bytes]):
    """Blocks stored as one run of bytes; they are rarely accessed individually."""

    __slots__ = ("data",)
    data: bytes

    def listed(self) -> list[bytes]:
        """Return the blocks as a list."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        return self.listed()[index]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.listed())


class EqualBlocks(_Blocks):
    """Blocks of equal size, stored as one run of bytes."""

    __slots__ = ("block_bytes", "blocks")

    def __init__(self, data: bytes, block_bytes: int, blocks: int) -> None:
        self.data = data
        self.block_bytes = block_bytes  # the size of each
        self.blocks = blocks  # their number

    def __len__(self) -> int:
        return self.blocks

    def listed(self) -> list[bytes]:
        """Return the blocks as a list."""
        data, n = self.data, self.block_bytes
        return [data[i * n : (i + 1) * n] for i in range(self.blocks)]


class VariedBlocks(_Blocks):
    """Blocks of different sizes, stored as one run of bytes."""

    __slots__ = ("sizes",)

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data = data
        self.sizes = sizes  # the size of each in bytes

    def __len__(self) -> int:
        return len(self.sizes)

    def listed(self) -> list[bytes]:
        """Return the blocks as a list."""
        return cut(self.data, self.sizes)


class SharedBlocks(tuple[bytes, ...]):
    """Blocks for several ranks, in one object that they share."""

    found: Any = None
    """The cached result of examining them, for all ranks; None: not examined yet."""


@lru_cache(maxsize=64)
def equal_sizes(size_bytes: int, blocks: int) -> Sequence[int]:
    """Return equal sizes, as one tuple shared by all ranks."""
    return (size_bytes,) * blocks


Bcast: TypeAlias = Callable[[Channel, Bytes, int, int], bytes]
Reduce: TypeAlias = Callable[[Channel, bytes, Fold, int], Bytes]
Gather: TypeAlias = Callable[[Channel, bytes, int], "list[bytes] | None"]
Scatter: TypeAlias = Callable[[Channel, "Sequence[bytes] | None", int], bytes]


def send_all(ch: Channel, dests: Sequence[int], data: bytes) -> None:
    """Send the same `data` to each of `dests`, concurrently."""
    if len(dests) == 1:  # hot path: half of a tree's inner nodes have one child, and a handle costs more than a send
        ch.send(dests[0], data)
    elif dests:
        ch.wait([ch.isend(dest, data) for dest in dests])


def receive_all(ch: Channel, sources: Sequence[int]) -> list[bytes]:
    """Receive one message from each of `sources`, posting all receives first."""
    if len(sources) == 1:
        return [ch.recv(sources[0])]
    if not sources:
        return []
    return cast("list[bytes]", ch.wait([ch.irecv(source) for source in sources]))


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Cut `data` into consecutive pieces of the given sizes in bytes."""
    ends = list(accumulate(sizes, initial=0))
    return [data[start:end] for start, end in pairwise(ends)]


def blocks_of(data: bytes, sizes: Sequence[int]) -> Sequence[bytes]:
    """Return a run of bytes as blocks, cut on first access; `sizes` may come from `equal_sizes`."""
    if type(data) is bytes and sizes is equal_sizes(sizes[0], len(sizes)):
        return EqualBlocks(data, sizes[0], len(sizes))
    return cut(data, sizes)


def block_sizes(size_bytes: int, *, unit_bytes: int, blocks: int) -> list[int]:
    """Return the bytes of `blocks` nearly equal runs of elements, longer ones first, as in Open MPI."""
    each, longer = divmod(size_bytes // unit_bytes, blocks)
    return [(each + (block < longer)) * unit_bytes for block in range(blocks)]
