"""Contention on links with different bandwidths and latencies.

See `xsim_py.network.contention`. A message holds a link for the time its bytes take there. If its bytes arrive more
slowly, because of its rank or of an earlier link, other messages are assumed to be interleaved; so its last byte
arrives after its head by the time that its bytes take on the slowest link.

A full-duplex NIC that is slower while both of its directions are busy then has ``2 * both_ways`` of its bandwidth in
total. The first message has the whole bandwidth of one direction, and an overlapping one has the remainder, ``2 *
both_ways - 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from xsim_py.network.contention import LinkContention
from xsim_py.network.link import Link
from xsim_py.units import round_half_up


class LinkParameters(NamedTuple):
    """How long a message holds a link of one layer, and how much later it reaches the next link."""

    ps_per_byte: Fraction
    latency_ps: int
    least_ps: int = 0
    rest: Fraction | None = None
    """The remaining fraction of its bandwidth while its `partner` is busy; None: all of it."""
    counts: bool = True
    """False if messages do not wait for it."""


class UnevenContention(LinkContention):
    """The links of a network of several layers."""

    def __init__(
        self,
        *,
        layer_of: Callable[[Any], int],  # returns the index of a link's layer
        parameters: Sequence[LinkParameters],  # of each layer
        partner: Callable[[Any], Any] | None = None,  # returns the link in the opposite direction of a NIC
    ) -> None:
        super().__init__(per_hop_ps=0)
        self._layer_of, self._by_layer, self._partner = layer_of, parameters, partner
        self._layers: dict[Any, LinkParameters] = {}

    def enter(
        self, time_ps: int, order: int, ahead: list[Any], unshared: Link, size_bytes: int, message: object
    ) -> None:
        """Bring a message to the first link of its route; see `LinkContention.enter`."""
        cost = unshared.cost(size_bytes)
        hops = []
        for link in ahead:
            parameters = self._layers.get(link)
            if parameters is None:
                parameters = self._layers[link] = self._by_layer[self._layer_of(link)]
            if parameters.counts:
                ps_per_byte = parameters.ps_per_byte
                own_bytes = size_bytes + unshared.header_bytes if size_bytes >= 0 else 0
                own_ps = round_half_up(own_bytes * ps_per_byte.numerator, ps_per_byte.denominator)
                hops.append((link, own_ps, parameters))
        rest_ps = cost.latency_ps + cost.wire_ps - cost.bytes_ps
        self._wait_at(time_ps, (order, hops, cost.bytes_ps, rest_ps, message))

    def advance(self, now_ps: int) -> list[Any]:
        """Give each message at a link that link in the order of `order`; see `LinkContention.advance`."""
        here = sorted(self._at.pop(now_ps), key=lambda passage: passage[0])
        movers = [passage[4] for passage in here]
        for order, ahead, slowest_ps, rest_ps, message in here:
            while True:
                link, own_ps, parameters = ahead.pop()
                begin_ps = max(self._free_ps[link], now_ps)
                if parameters.rest is not None and self._partner is not None:
                    own_ps = _with_busy_partner(own_ps, self._free_ps[self._partner(link)] - begin_ps, parameters.rest)
                slowest_ps = max(slowest_ps, own_ps)
                self._free_ps[link] = begin_ps + max(own_ps, parameters.least_ps)
                next_ps = begin_ps + parameters.latency_ps
                if not ahead:
                    self.arrive(next_ps + rest_ps + slowest_ps, order, message)
                elif next_ps > now_ps:
                    self._wait_at(next_ps, (order, ahead, slowest_ps, rest_ps, message))
                else:  # a hop without duration: the next one comes before all remaining messages
                    movers.append(message)
                    continue
                break
        return movers


def _with_busy_partner(alone_ps: int, busy_ps: int, rest: Fraction) -> int:
    """Return the time of a message whose link has a reduced bandwidth for the first `busy_ps`."""
    if busy_ps <= 0:
        return alone_ps
    if busy_ps * rest >= alone_ps:
        return round_half_up(alone_ps * rest.denominator, rest.numerator)
    return alone_ps + busy_ps - int(busy_ps * rest)
