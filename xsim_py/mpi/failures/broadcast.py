"""Reliable broadcast without a root: every receiver forwards it, so no failure can stop it.

Each member sends to those 1, 2, 4, ... places after and before it in a ring, up to half of the members away (Open MPI's
``comm_ft_reliable_bcast``; Bosilca et al., SC'16): n 2 (floor(log2(n / 2)) + 1) messages in all. The next surviving
neighbour replaces one that is known to have failed. If a receiver had already failed, the sender detects this (its
message bounces) and notifies the next member in the ring: so all survivors are notified, however many ranks fail at
once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def neighbours(me: int, members: Sequence[int], dead: Collection[int]) -> Iterator[int]:
    """Yield the members that member `me` notifies, in order, as indices in `members`.

    `me` is an index in `members`. `dead` has the failed members that this member knows of; members, not indices.
    """
    size = len(members)
    step = 1
    while 2 * step <= size:
        for sign in (1, -1):
            dest = (me + sign * step) % size
            if step == 1:
                dest = next_survivor(me, members, dead, me=me, sign=sign)
            if dest != me and members[dest] not in dead:
                yield dest
        step *= 2


def next_survivor(place: int, members: Sequence[int], dead: Collection[int], *, me: int, sign: int = 1) -> int:
    """Return the first index after (or before) `place` whose member has not failed, or `me`."""
    size = len(members)
    dest = (place + sign) % size
    while members[dest] in dead and dest != me:
        dest = (dest + sign) % size
    return dest
