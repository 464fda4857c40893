"""Reliable broadcast without a root: everyone who hears of something tells others, so no single death can stop it.

Each member sends to those 1, 2, 4, ... places after and before it in a ring, up to half of the members away (Open MPI's
``comm_ft_reliable_bcast``; Bosilca et al., SC'16): n 2 (floor(log2(n / 2)) + 1) messages in all. A neighbour that is
known to be dead is replaced by the next one that is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

__all__ = ["spread"]


def spread(me: int, members: Sequence[int], dead: Collection[int]) -> Iterator[int]:
    """The members that member `me` tells, in order, as places in `members`.

    Parameters
    ----------
    me : int
        A place in `members`.
    dead : collection of int
        Whom this member knows to have failed; members, not places.
    """
    size = len(members)
    step = 1
    while 2 * step <= size:
        for sign in (1, -1):
            dest = (me + sign * step) % size
            while step == 1 and members[dest] in dead and dest != me:
                dest = (dest + sign) % size
            if dest != me and members[dest] not in dead:
                yield dest
        step *= 2
