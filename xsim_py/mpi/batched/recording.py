"""Algorithms run on symbols: which messages a collective sends, and what is in them, before there is any data.

An algorithm of `mpi.collectives` sees its data only through what every bytes object can do: it is cut, joined, folded
and sent. So it runs on `Symbol` just as well, which remembers where each byte comes from; and as a receive gives a
symbol that stands for a message, whether it was sent yet or not, ranks can run one after the other without waiting. If
an algorithm asks for a length that is not known yet, its rank starts over after the others have come further.

What comes out says all about the call: for each rank what it sends and receives, in order, and for each message, fold
and result which bytes it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

Piece: TypeAlias = "tuple[Node, int, int]"
"""A node, the first byte of it and the one after the last; or a `MessageNode` as a whole, of a size not known: -1."""

# To record costs as much as a few calls message by message; beyond this a formula or a tree has to be known.
_MOST_MESSAGES = 1 << 17
Rope: TypeAlias = "tuple[Piece, ...]"


class NotYetError(Exception):
    """The length of a message is asked for before it was sent."""


class TooManyError(Exception):
    """There are more messages than are worth it."""


class Node:
    """Bytes that exist once: the contribution of a rank (`operands` is None), or the fold of two ropes.

    Attributes
    ----------
    rank : int
        Whose contribution it is; -1: a fold.
    """

    __slots__ = ("operands", "rank", "size_bytes")

    def __init__(self, rank: int, size_bytes: int, operands: tuple[Rope, Rope] | None = None) -> None:
        self.rank = rank
        self.size_bytes = size_bytes
        self.operands = operands


class MessageNode(Node):
    """The content of a message, for its receiver; `payload` is None until it was sent."""

    __slots__ = ("dest", "number", "payload")

    def __init__(self, dest: int) -> None:
        super().__init__(-1, -1)
        self.dest = dest
        self.payload: Symbol | None = None
        self.number = -1  # among all messages


class Symbol:
    """A symbol that stands for bytes, and behaves like them as far as algorithms look.

    Parameters
    ----------
    rope : tuple
        The pieces that it consists of.
    """

    __slots__ = ("rope",)

    def __init__(self, rope: Rope) -> None:
        self.rope = rope

    def known(self) -> Symbol:
        """Replace messages as a whole by what they contain, or raise `NotYetError`; return the symbol."""
        while any(stop < 0 for _, _, stop in self.rope):
            opened: list[Piece] = []
            for piece in self.rope:
                node = piece[0]
                if piece[2] >= 0:
                    opened.append(piece)
                elif node.payload is None:  # type: ignore[attr-defined]
                    raise NotYetError
                else:
                    opened += node.payload.rope  # type: ignore[attr-defined]
            self.rope = _joined(opened)
        return self

    def __len__(self) -> int:
        return sum(stop - start for _, start, stop in self.known().rope)

    def __getitem__(self, span: slice) -> Symbol:
        first, end, _ = span.indices(len(self))
        pieces = []
        at = 0
        for node, start, stop in self.rope:
            low, high = max(first - at, 0), min(end - at, stop - start)
            if low < high:
                pieces.append((node, start + low, start + high))
            at += stop - start
        return Symbol(tuple(pieces))

    def __add__(self, other: Symbol | bytes) -> Symbol:
        return Symbol.join((self, other))

    def __radd__(self, other: bytes) -> Symbol:
        return Symbol.join((other, self))

    @staticmethod
    def join(parts: Iterable[Symbol | bytes]) -> Symbol:
        """Join parts, as ``b"".join`` does with bytes."""
        pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, Symbol):
                pieces += part.rope
            else:
                assert not part, "an algorithm sends bytes of its own"
        return Symbol(_joined(pieces))


def _joined(pieces: list[Piece]) -> Rope:
    """Make one piece of adjacent pieces of one node."""
    rope: list[Piece] = []
    for piece in pieces:
        if rope and rope[-1][0] is piece[0] and rope[-1][2] == piece[1] > 0:
            rope[-1] = (piece[0], rope[-1][1], piece[2])
        else:
            rope.append(piece)
    return tuple(rope)


class Item(NamedTuple):
    """Messages that a rank sends before it waits, and messages that it waits for together."""

    sends: list[MessageNode]
    takes: list[MessageNode]


class SymbolicFold:
    """A symbolic reduction operation; the same operands have the same result."""

    def __init__(self, unit_bytes: int, commutative: bool) -> None:
        self.unit_bytes = unit_bytes
        self.commutative = commutative
        self.done: dict[tuple[Rope, Rope], Symbol] = {}

    def __call__(self, left: Symbol, right: Symbol) -> Symbol:
        """Return the symbol of a result; operands are of one length, so it is enough to know that of one of them."""
        try:
            size_bytes = len(left)
        except NotYetError:
            size_bytes = len(right)
        key = left.rope, right.rope
        symbol = self.done.get(key)
        if symbol is None:
            symbol = self.done[key] = Symbol(((Node(-1, size_bytes, key), 0, size_bytes),) if size_bytes else ())
        return symbol


class _Channel:
    """The `Channel` of one rank that writes down what is done with it."""

    def __init__(self, recording: Recording, rank: int) -> None:
        self.rank = rank
        self.size = recording.size
        self.items: list[Item] = []
        self._recording = recording
        self._sent: dict[int, int] = {}
        self._received: dict[int, int] = {}
        self._done = 0  # messages that have been sent or waited for
        self._posted: dict[MessageNode, int] = {}

    def isend(self, dest: int, data: Symbol | bytes) -> None:
        self._recording.one_at_a_time = False
        self.items.append(Item([self._send(dest, data)], []))

    def send(self, dest: int, data: Symbol | bytes) -> None:
        self.items.append(Item([self._send(dest, data)], []))

    def _send(self, dest: int, data: Symbol | bytes) -> MessageNode:
        self._done += 1
        nth = self._sent[dest] = self._sent.get(dest, -1) + 1
        message = self._recording.message(self.rank, dest, nth)
        message.payload = data if isinstance(data, Symbol) else Symbol.join((data,))
        return message

    def irecv(self, source: int) -> MessageNode:
        self._recording.one_at_a_time = False
        message = self._expected(source)
        self._posted[message] = self._done
        return message

    def _expected(self, source: int) -> MessageNode:
        nth = self._received[source] = self._received.get(source, -1) + 1
        return self._recording.message(source, self.rank, nth)

    def recv(self, source: int) -> Symbol:
        return self._take([], source)

    def sendrecv(self, dest: int, data: Symbol | bytes, source: int) -> Symbol:
        return self._take([self._send(dest, data)], source)

    def _take(self, sends: list[MessageNode], source: int) -> Symbol:
        message = self._expected(source)
        self.items.append(Item(sends, [message]))
        self._done += 1
        return Symbol(((message, 0, -1),))

    def wait(self, handles: Sequence[MessageNode | None]) -> list[Symbol | None]:
        messages = [handle for handle in handles if handle is not None]
        if messages:
            if any(self._posted[message] != self._done for message in messages):
                self._recording.early = True
            self.items.append(Item([], messages))
            self._done += len(messages)
        return [None if handle is None else Symbol(((handle, 0, -1),)) for handle in handles]


class Recording:
    """The doings of all ranks of a call.

    Attributes
    ----------
    inputs : list of Node
        The contribution of each rank.
    items : list of list of Item
        For each rank what it does, in order.
    results : list
        For each rank what the algorithm returns: a symbol, a list of them, or None.
    messages : dict
        Every message by source, destination and how many there were before it between the two.
    early : bool
        Whether a rank does something between posting a receive and waiting for it.
    one_at_a_time : bool
        Whether no rank ever has more than one message under way that it sends, and one that it receives.
    """

    def __init__(self, size: int, sizes: Sequence[int]) -> None:
        self.size = size
        self.inputs = [Node(rank, sizes[rank]) for rank in range(size)]
        self.items: list[list[Item]] = [[] for _ in range(size)]
        self.results: list[Any] = [None] * size
        self.messages: dict[tuple[int, int, int], MessageNode] = {}
        self.early = False
        self.one_at_a_time = True

    def message(self, source: int, dest: int, nth: int) -> MessageNode:
        """Return the message of that number between two ranks."""
        key = source, dest, nth
        message = self.messages.get(key)
        if message is None:
            if len(self.messages) >= _MOST_MESSAGES:
                raise TooManyError
            message = self.messages[key] = MessageNode(dest)
        return message

    def contribution(self, rank: int) -> Symbol:
        """Return what a rank puts in."""
        node = self.inputs[rank]
        return Symbol(((node, 0, node.size_bytes),) if node.size_bytes else ())

    def blocks(self, rank: int, sizes: Iterable[int]) -> list[Symbol]:
        """Return what a rank puts in, cut into consecutive blocks."""
        whole, ends = self.contribution(rank), [0, *accumulate(sizes)]
        return [whole[start:end] for start, end in pairwise(ends)]


def record(
    size: int, sizes: Sequence[int], body: Callable[[Any, Recording], Any], *, most_passes: int = 40
) -> Recording | None:
    """Run an algorithm for all ranks.

    Parameters
    ----------
    size : int
        The number of ranks.
    sizes : sequence of int
        How many bytes each rank contributes.
    body : callable
        ``body(channel, recording)`` runs it for the rank of a channel.

    Returns
    -------
    Recording or None
        None where it does not come to its end: ranks wait for each other, or for messages that nobody sends; or where
        there are too many of them.
    """
    recording = Recording(size, sizes)
    waiting = list(range(size))
    for _ in range(most_passes):
        again = []
        for rank in waiting:
            channel = _Channel(recording, rank)
            try:
                recording.results[rank] = body(channel, recording)
                recording.items[rank] = channel.items
            except NotYetError:
                again.append(rank)
            except TooManyError:
                return None
        if not again:
            complete = all(message.payload is not None for message in recording.messages.values())
            return recording if complete else None
        waiting = again
    return None
