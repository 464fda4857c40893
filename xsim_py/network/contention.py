"""Messages that meet on the links of a network: virtual cut-through.

A message holds each directed link of its route for as long as its bytes take on the wire, and its head moves on one hop
after it got the link. It waits where an earlier one holds the link; while it waits, it is taken to be buffered at that
router and holds no link behind it for longer (virtual cut-through, Kermani and Kleinrock 1979; wormhole routing would
block backwards). A message that meets nobody arrives exactly when the closed form of `xsim_py.network.link` says.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from xsim_py.network.link import Link

__all__ = ["LinkContention"]


class LinkContention:
    """Until when each link of the network is taken.

    The result depends on the order of calls: the caller makes them in the order of the injections, by time and then by
    a key that is the same for every number of shards.

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
        self._free_ps: dict[Hashable, int] = {}

    def traverse(self, route: Iterable[Hashable], *, time_ps: int, size_bytes: int) -> int:
        """Send a message along ``route`` (directed links, in order) and return when its last byte arrives.

        Parameters
        ----------
        route
            As ``topology.route(a, b)`` gives it.
        time_ps
            When its injection begins.
        size_bytes
            Its size.
        """
        _, wire_ps, _, latency_ps, _, _ = self._link.times(size_bytes)
        free_ps = self._free_ps
        head_ps = time_ps
        for link in route:
            start_ps = max(head_ps, free_ps.get(link, 0))
            if wire_ps:  # no bytes hold nothing, not even for a message that comes sooner
                free_ps[link] = start_ps + wire_ps
            head_ps = start_ps + self._per_hop_ps
        return head_ps + latency_ps + wire_ps
