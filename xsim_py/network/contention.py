"""Messages that meet on the links of a network: virtual cut-through.

A message holds each directed link of its route for as long as its bytes take on the wire, and its head moves on one hop
after it got the link. It waits where an earlier one holds the link; while it waits, it is taken to be buffered at that
router and holds no link behind it for longer (virtual cut-through, Kermani and Kleinrock 1979; wormhole routing would
block backwards), nor any link ahead. A message that meets nobody arrives exactly when the closed form of
`xsim_py.network.link` says.

A link goes to whose head is there first. So the hops of all messages have to be made in the order of time:
`LinkContention` keeps what is at its next link when, and makes all hops of one time in one go, however many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from xsim_py.network.link import Link

# Its place in the order of what happens at one time, the links ahead of it (the next one last), how long it holds each
# of them, how long it takes from the last hop until the last byte has arrived, and whose it is.
_Passage: TypeAlias = tuple[int, list[Any], int, int, Any]


class _FreeSinceStart(dict[Hashable, int]):
    """The times from which links are free: virtual time zero for every link that no message has used."""

    __slots__ = ()

    def __missing__(self, link: Hashable) -> int:
        return 0


class LinkContention:
    """The links of the network, each with the time until which it is taken, and the messages on their way.

    Parameters
    ----------
    per_hop_ps
        What each hop takes.

    Attributes
    ----------
    wake : callable
        Told of each time at which `advance` has to be called; set by the caller.
    arrive : callable
        Told when the last byte of a message arrives, of its place and whose it is; set by the caller.
    fifo : bool
        Whether messages take a link one after the other.
    """

    wake: Callable[[int], None]
    arrive: Callable[[int, int, Any], None]
    fifo = True

    def __init__(self, *, per_hop_ps: int) -> None:
        self._per_hop_ps = per_hop_ps
        self._free_ps: Any = _FreeSinceStart()
        self._at: dict[int, list[_Passage]] = {}

    def number(self, links: int) -> None:
        """Keep the times of links in a list, as links have numbers below that: half as long as a dictionary takes."""
        if links:
            self._free_ps = [0] * links

    def enter(self, time_ps: int, place: int, ahead: list[Any], unshared: Link, size_bytes: int, message: Any) -> None:
        """Let a message come to the first link of its way.

        Parameters
        ----------
        time_ps
            When that is: when its injection begins.
        place
            Its own place in the order of what happens at one time, the same for every number of shards.
        ahead
            Its route: one directed link or more, the last one first. The list belongs to the message from now on.
        unshared
            Its costs but for those links: see `Network.unshared`.
        size_bytes
            What it takes on the wire depends on that.
        message
            Whose it is, for `arrive`.
        """
        cost = unshared.cost(size_bytes)
        passage = (place, ahead, cost.bytes_ps, cost.latency_ps + cost.wire_ps, message)
        there = self._at.get(time_ps)
        if there is not None:
            there.append(passage)
        else:
            self._at[time_ps] = [passage]
            self.wake(time_ps)

    def advance(self, now_ps: int) -> list[Any]:
        """Let all messages that are at a link at this time have it as soon as it is free, in the order of their places.

        A head comes to the link after that one hop after it got the link, and the last byte arrives one hop, the
        latency and the time on the wire after the head has got the last link.

        Returns
        -------
        list
            Whose hops these were.
        """
        at, free_ps, per_hop_ps = self._at, self._free_ps, self._per_hop_ps
        here = at.pop(now_ps)
        here.sort()  # places differ, so nothing else is compared
        movers = [passage[4] for passage in here]
        last_ps, last = now_ps, here  # to be at its next link then, as most that come after it
        # Hot path: a message on a large torus makes ten hops.
        for passage in here:
            place, ahead, wire_ps, rest_ps, message = passage
            while True:
                link = ahead.pop()
                next_ps = free_ps[link]
                if next_ps < now_ps:
                    next_ps = now_ps
                free_ps[link] = next_ps + wire_ps
                next_ps += per_hop_ps
                if not ahead:
                    self.arrive(next_ps + rest_ps, place, message)
                elif next_ps > now_ps:
                    if next_ps != last_ps:
                        last_ps = next_ps
                        last = at.setdefault(next_ps, [])
                        if not last:
                            self.wake(next_ps)
                    last.append(passage)
                else:  # a hop takes no time: the next one is before all that is left here
                    movers.append(message)
                    continue
                break
        return movers
