"""Messages that meet on the links of a network: virtual cut-through.

A message holds each directed link of its route for as long as its bytes take on the wire, and its head moves on one hop
after it got the link. It waits where an earlier one holds the link; while it waits, it is taken to be buffered at that
router and holds no link behind it for longer (virtual cut-through, Kermani and Kleinrock 1979; wormhole routing would
block backwards), nor any link ahead. A message that meets nobody arrives exactly when the closed form of
`xsim_py.network.link` says.

A link goes to whose head is there first. So each hop is an event of its own: this file says what one hop takes, and
`xsim_py.mpi.p2p` makes the hops of all messages happen in the order of time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from xsim_py.network.link import Link

__all__ = ["LinkContention", "Passage"]


class Passage:
    """A message on its way through the network.

    Attributes
    ----------
    ahead : list
        The links that it has not come to yet; the next one is the last of the list.
    wire_ps : int
        How long it holds each of them.
    latency_ps : int
        What is left after its last hop, until the first byte arrives.
    number, place, message : int, int, object
        Whose it is, and where in the order of events; for the caller.
    """

    __slots__ = ("ahead", "latency_ps", "message", "number", "place", "wire_ps")

    number: int
    place: int
    message: Any

    def __init__(self, ahead: list[Any], wire_ps: int, latency_ps: int) -> None:
        self.ahead = ahead
        self.wire_ps = wire_ps
        self.latency_ps = latency_ps


class _Since0(dict[Hashable, int]):
    """What is not in it has been free since the beginning."""

    __slots__ = ()

    def __missing__(self, link: Hashable) -> int:
        return 0


class LinkContention:
    """Until when each link of the network is taken.

    Parameters
    ----------
    link
        The costs of the network; its latency is the part that does not depend on the hops.
    per_hop_ps
        What each hop takes.
    """

    def __init__(self, link: Link, *, per_hop_ps: int) -> None:
        self._link = link
        self._per_hop_ps = per_hop_ps
        self._free_ps: Any = _Since0()

    def number(self, links: int) -> None:
        """Links have numbers below that: what is known of them is in a list then, which takes half as long."""
        if links:
            self._free_ps = [0] * links

    def passage(self, ahead: list[Any], size_bytes: int) -> Passage:
        """Begin to follow a message of `size_bytes` along a route: one directed link or more, the last one first.

        The list is the passage's own from now on.
        """
        _, wire_ps, _, latency_ps, _, _ = self._link.times(size_bytes)
        return Passage(ahead, wire_ps, latency_ps)

    def hop(self, passage: Passage, head_ps: int) -> int:
        """Let a message have the next link of its way, as soon as that is free.

        The caller makes the hops of all messages in the order of their times, and of equal times in an order that is
        the same for every number of shards.

        Parameters
        ----------
        passage
            Whose head has come to the link; it has one link less ahead afterwards.
        head_ps
            When that is: for the first link, when the injection begins.

        Returns
        -------
        int
            When the head comes to the link after that; where none is ahead any more, when the last byte arrives, which
            is at least one hop and the latency after `head_ps`.
        """
        ahead = passage.ahead
        link = ahead.pop()
        start_ps: int = self._free_ps[link]
        if start_ps < head_ps:
            start_ps = head_ps
        self._free_ps[link] = start_ps + passage.wire_ps
        next_ps = start_ps + self._per_hop_ps
        return next_ps if ahead else next_ps + passage.latency_ps + passage.wire_ps
