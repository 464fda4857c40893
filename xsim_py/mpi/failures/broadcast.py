"""Reliable broadcast without a root: everyone who hears of something tells others, so no single death can stop it.

Each member sends to those 1, 2, 4, ... places after and before it in a ring, up to half of the members away (Open MPI's
``comm_ft_reliable_bcast``; Bosilca et al., SC'16): n 2 (floor(log2(n / 2)) + 1) messages in all. A neighbour that is
known to be dead is replaced by the next one that is not. Whoever has told one that was dead already learns of that
(its message comes back) and tells the one after it in the ring: so all who live hear of it, however many die at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def neighbours(me: int, members: Sequence[int], dead: Collection[int]) -> Iterator[int]:
    """Yield the members that member `me` tells, in order, as places in `members`.

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
            if step == 1:
                dest = next_place(me, members, dead, me=me, sign=sign)
            if dest != me and members[dest] not in dead:
                yield dest
        step *= 2


def next_place(place: int, members: Sequence[int], dead: Collection[int], *, me: int, sign: int = 1) -> int:
    """Return the first place after (or before) `place` whose member is not in `dead`; `me` where it comes to that."""
    size = len(members)
    dest = (place + sign) % size
    while members[dest] in dead and dest != me:
        dest = (dest + sign) % size
    return dest
