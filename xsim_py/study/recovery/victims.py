"""Failures in a comparison of recovery schemes: their short names, and the ranks that fail.

The names are those of table 1 of the FTCO paper (``docs/why/ftco.md``): parallel failures are in different subtrees of
the tree that the collective operations use, so that their detections overlap; serial ones are a parent and its child,
detected one after the other. The paper does not specify the failed ranks; here they are the highest ones below the
root, which itself does not fail, as in the paper.

===============  ================================================================================================
``none``         no rank
``1``            the root's first child
``2p``           the root's first two children
``2s``           the root's first child that has children, and the first of these
``3m``           those, and another child of the root
``RANK@TIME``    a rank, at a virtual time; ``RANK@before``: right before the call; ``RANK@half``: at half of the
                 virtual time of the job without failures
``node=1@TIME``  all ranks of a node, or of another component, at such a time
``LAW:...``      failures drawn from a law, as for ``xsim run --fail``: ``exponential:node,mtbf=10ms``
===============  ================================================================================================

Several of the last three forms are joined by ``+``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from xsim_py.units import format_time, parse_time_ps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Shape(Protocol):
        """A tree, as used here."""

        def children(self, n: int, /) -> Sequence[int]:
            """Return the children of a node, in sending order."""


CODES: Final = ("none", "1", "2p", "2s", "3m")

_OWN: Final = re.compile(r"(?:([A-Za-z][\w-]*)\s*=\s*)?(\d+)\s*@\s*(.+)")
_DRAWN: Final = re.compile(r"\w+:.*=.*")
_BEFORE: Final = "before"
_HALF: Final = "half"


class Victim(NamedTuple):
    """A rank or another component that fails, or a law for the failures of components."""

    rank: int
    """The number of the component; -1 for a law."""
    time_ps: int | None = None
    """The time; None for the time of the call."""
    before: bool = False
    """True if it fails right before the call, even if the others fail some time after its start."""
    half: bool = False
    """True if it fails at half of the virtual time of the job without failures."""
    level: str = "rank"
    """The level of the component."""
    law: str = ""
    """Randomly drawn failures, as for ``xsim run --fail``."""

    def __str__(self) -> str:
        which = str(self.rank) if self.level == "rank" else f"{self.level} {self.rank}"
        if self.law or self.half:
            return self.law or f"{which} at half"
        return which if self.time_ps is None else f"{which} at {format_time(self.time_ps, digits=None)}"


def victims_of(code: str, tree: Shape, ranks: int) -> tuple[Victim, ...]:
    """Return the failures of a code, which is one of the names above, in ascending order.

    Raise ValueError if it is not such a name, or the tree has no such ranks.
    """
    if code in CODES:
        return tuple(Victim(rank) for rank in sorted(_placed(code, tree)))
    found = [_own(word.strip(), ranks, code) for word in code.split("+")]
    named = [(victim.level, victim.rank) for victim in found if not victim.law]
    if len(set(named)) < len(named):
        raise ValueError(f"{code!r} names a {found[0].level} twice; drop one")
    if sum(level == "rank" for level, _ in named) == ranks:
        raise ValueError(f"{code!r} names all {ranks} ranks; at least one must survive")
    return tuple(sorted(found, key=lambda victim: (victim.level, victim.rank)))


def _own(word: str, ranks: int, code: str) -> Victim:
    if _DRAWN.fullmatch(word):
        return Victim(-1, law=word)
    match = _OWN.fullmatch(word)
    if match is None:
        forms = f"RANK@TIME such as 5@1.2ms, RANK@{_BEFORE}, RANK@{_HALF}, node=1@{_HALF}, exponential:node,mtbf=1ms"
        raise ValueError(f"unknown failure {code!r}; write {', '.join(CODES)}, {forms}")
    level, number, when = match[1] or "rank", int(match[2]), match[3]
    if level == "rank" and number >= ranks:
        raise ValueError(f"{code!r}: rank {number} is out of range (0 to {ranks - 1})")
    if when in (_BEFORE, _HALF):
        return Victim(number, before=when == _BEFORE, half=when == _HALF, level=level)
    return Victim(number, parse_time_ps(when), level=level)


def _placed(code: str, tree: Shape) -> set[int]:
    """Return the ranks of a name in the paper's table."""
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
        raise ValueError(f"{code!r}: the root of the tree has too few children")
    return ranks[:count]
