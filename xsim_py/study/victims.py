"""Which ranks die when, in a comparison of ways to recover: short names for failures, and what they mean in a tree.

The names are those of table 1 of the FTCO paper (``docs/why/ftco.md``): parallel failures are in different subtrees of
the tree that the collective operations use, so that their detections overlap, and serial ones are a parent and its
child, found out one after the other. The paper does not say which ranks it killed; here they are the highest ones below
the root, which itself is spared as in the paper.

===============  ================================================================================================
``none``         nobody
``1``            the root's first child
``2p``           the root's first two children
``2s``           the root's first child that has children, and the first of these
``3m``           those, and another child of the root
``RANK@TIME``    a rank, at a virtual time; ``RANK@before``: right before the call; ``RANK@half``: at half of the
                 virtual time of the job without failures
===============  ================================================================================================

Several of the last form are joined by ``+``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from xsim_py.units import format_time, parse_time_ps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Shape(Protocol):
        """A tree, as far as it matters here."""

        def children(self, n: int, /) -> Sequence[int]:
            """Return the children of a node, in the order in which they are sent to."""


CODES: Final = ("none", "1", "2p", "2s", "3m")

_OWN: Final = re.compile(r"(\d+)@(.+)")
_BEFORE: Final = "before"
_HALF: Final = "half"


class Victim(NamedTuple):
    """One rank that is to die."""

    rank: int
    """Who."""
    time_ps: int | None = None
    """When; None for the time of the call."""
    before: bool = False
    """Whether that is right before it, even where the others die some time after its beginning."""
    half: bool = False
    """True if it dies at half of the virtual time that the job takes without failures."""

    def __str__(self) -> str:
        if self.half:
            return f"{self.rank} at half"
        when = "" if self.time_ps is None else f" at {format_time(self.time_ps, digits=None)}"
        return f"{self.rank}{when}"


def victims_of(code: str, tree: Shape, ranks: int) -> tuple[Victim, ...]:
    """Return who dies, in ascending order, of so many ranks in a tree; `code` is one of the names above.

    Raises
    ------
    ValueError
        It is no such name, or there are no such ranks in the tree.
    """
    if code in CODES:
        return tuple(Victim(rank) for rank in sorted(_placed(code, tree)))
    found = [_own(word.strip(), ranks, code) for word in code.split("+")]
    if len({victim.rank for victim in found}) < len(found):
        raise ValueError(f"{code!r} names a rank twice, and it dies once")
    if len(found) == ranks:
        raise ValueError(f"{code!r} names all {ranks} ranks; somebody has to be left")
    return tuple(sorted(found, key=lambda victim: victim.rank))


def _own(word: str, ranks: int, code: str) -> Victim:
    match = _OWN.fullmatch(word)
    if match is None:
        forms = f"RANK@TIME such as 5@1.2ms, RANK@{_BEFORE}, and RANK@{_HALF}"
        raise ValueError(f"{code!r} is none of {', '.join(CODES)}, {forms}")
    rank = int(match[1])
    if rank >= ranks:
        raise ValueError(f"{code!r}: there is no rank {rank} among {ranks}")
    if match[2] in (_BEFORE, _HALF):
        return Victim(rank, before=match[2] == _BEFORE, half=match[2] == _HALF)
    return Victim(rank, parse_time_ps(match[2]))


def _placed(code: str, tree: Shape) -> set[int]:
    """Return the ranks that a name of the paper's table stands for."""
    below = tree.children(0)
    if code == "none":
        return set()
    if code == "1":
        return {_pick(code, below, 1)[0]}
    if code == "2p":
        return set(_pick(code, below, 2))
    parent = next((rank for rank in below if tree.children(rank)), None)
    if parent is None:
        raise ValueError(f"{code!r}: the tree has no two levels below its root")
    serial = {parent, tree.children(parent)[0]}
    if code == "2s":
        return serial
    return serial | set(_pick(code, [rank for rank in below if rank != parent], 1))


def _pick(code: str, ranks: Sequence[int], count: int) -> Sequence[int]:
    if len(ranks) < count:
        raise ValueError(f"{code!r}: the tree has not enough ranks right below its root")
    return ranks[:count]
