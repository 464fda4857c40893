"""The payloads of FTCO messages: contributions, folded or separate, and their lengths.

A commutative reduction that the library can compute by itself is folded on the way up, as in any tree. Where the order
counts, or the program's code is needed (which the library cannot run while the rank does something else), contributions
travel uncombined and each rank that receives them folds them in rank order. Gathers do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .doubling import BlockValue
from .node import NodePacket, TreeResult
from .paper import Up

HEADER_BYTES = 16
"""Kind, distance and number of the operation; as for other messages, MPI's matching data are not counted."""

_ITEM_BYTES = 4

Fold = Callable[[bytes, bytes], bytes]


class Folded(NamedTuple):
    """Contributions folded into one."""

    low: int
    """All contributors have completed the operations before this number on the communicator; 0: unknown."""
    data: bytes
    """The fold."""

    @property
    def size_bytes(self) -> int:
        """Length on the network."""
        return len(self.data)


class Contributions(NamedTuple):
    """Contributions that are not combined."""

    low: int
    """As in `Folded`."""
    parts: Mapping[int, bytes]
    """The contributions by rank in the communicator."""
    bytes_in_parts: int
    """Their total length in bytes."""
    plain: bool = False
    """Whether they are pickles of numbers or arrays, which can be folded without running the program's code."""

    @property
    def size_bytes(self) -> int:
        """Length on the network: each contribution with its rank and length."""
        return self.bytes_in_parts + 2 * _ITEM_BYTES * len(self.parts)


def folding(fold: Fold) -> Callable[[Mapping[int, Any]], Folded]:
    """Return a function that combines `Folded` payloads."""

    def combine(payloads: Mapping[int, Folded]) -> Folded:
        values = iter(payloads.values())
        low, data = next(values)
        for other in values:
            low = min(low, other.low)
            data = fold(data, other.data)
        return Folded(low, data)

    return combine


def gathering(fold: Fold | None = None) -> Callable[[Mapping[int, Any]], Contributions]:
    """Return a function that combines `Contributions`.

    `fold` folds plain ones, under the lowest of their ranks.
    """

    def combine(payloads: Mapping[int, Contributions]) -> Contributions:
        parts: dict[int, bytes] = {}
        for each in payloads.values():
            parts.update(each.parts)
        low = min(each.low for each in payloads.values())
        plain = fold is not None and all(each.plain for each in payloads.values())
        if plain:
            assert fold is not None
            try:
                parts = {min(parts): fold_parts(parts, fold)}
            except Exception:  # the ranks that receive the result will raise it, too
                plain = False
        return Contributions(low, parts, sum(map(len, parts.values())), plain)

    return combine


def fold_parts(parts: Mapping[int, bytes], fold: Fold) -> bytes:
    """Fold contributions in rank order; there must be at least one."""
    ranks = iter(sorted(parts))
    data = parts[next(ranks)]
    for rank in ranks:
        data = fold(data, parts[rank])
    return data


def packet_bytes(packet: NodePacket) -> int:
    """Return the length of a message: a header, the value, and 4 bytes per failed node.

    That a failed node is absent from a value, or known to all its contributors, is a flag in its 4 bytes.
    """
    size = HEADER_BYTES + _ITEM_BYTES * len(packet.dead)
    value = packet.value
    if isinstance(value, Up):
        for piece in value.pieces:
            size += payload_bytes(piece.payload)
        return size + _ITEM_BYTES * (len(value.pieces) - 1) if value.pieces else size
    return size + payload_bytes(value.payload) if isinstance(value, TreeResult | BlockValue) else size


def payload_bytes(payload: Any) -> int:
    """Return the length of a payload in bytes."""
    if payload is None:
        return 0
    if isinstance(payload, bytes):
        return len(payload)
    size: int = payload.size_bytes
    return size
