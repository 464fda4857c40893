"""Messages that meet on links whose bandwidths and latencies differ; see `xsim_py.network.contention`.

Behind a slow link, the bytes of a message come no faster: so it holds each link for as long as its bytes take on the
slowest of those that it has come over, and its last byte arrives so long after its head.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from xsim_py.network.contention import LinkContention
from xsim_py.network.link import Link
from xsim_py.units import round_half_up


class UnevenContention(LinkContention):
    """The links of a network of several layers.

    Parameters
    ----------
    layer_of
        The place of a link's layer.
    figures
        Picoseconds of a byte and of latency of each layer.
    """

    def __init__(self, *, layer_of: Callable[[Any], int], figures: tuple[tuple[Fraction, int], ...]) -> None:
        super().__init__(per_hop_ps=0)
        self._layer_of, self._figures = layer_of, figures
        self._layers: dict[Any, int] = {}

    def number(self, links: int) -> None:
        """Keep links by what they are: their numbers do not tell a layer."""

    def enter(self, time_ps: int, place: int, ahead: list[Any], unshared: Link, size_bytes: int, message: Any) -> None:
        """Let a message come to the first link of its way, as `LinkContention.enter`."""
        cost = unshared.cost(size_bytes)
        held_ps = cost.wire_ps
        hops = []
        for link in reversed(ahead):
            layer = self._layers.get(link)
            if layer is None:
                layer = self._layers[link] = self._layer_of(link)
            ps_per_byte, latency_ps = self._figures[layer]
            held_ps = max(held_ps, round_half_up(size_bytes * ps_per_byte.numerator, ps_per_byte.denominator))
            hops.append((link, held_ps, latency_ps))
        passage = (place, hops[::-1], held_ps, cost.latency_ps + held_ps, message)
        there = self._at.get(time_ps)
        if there is not None:
            there.append(passage)
        else:
            self._at[time_ps] = [passage]
            self.wake(time_ps)

    def advance(self, now_ps: int) -> list[Any]:
        """Let all messages that are at a link at this time have it, as `LinkContention.advance`."""
        here = sorted(self._at.pop(now_ps), key=lambda passage: passage[0])
        movers = [passage[4] for passage in here]
        for passage in here:
            place, ahead, _, rest_ps, message = passage
            while True:
                link, held_ps, latency_ps = ahead.pop()
                begin_ps = max(self._free_ps[link], now_ps)
                self._free_ps[link] = begin_ps + held_ps
                next_ps = begin_ps + latency_ps
                if not ahead:
                    self.arrive(next_ps + rest_ps, place, message)
                elif next_ps > now_ps:
                    if next_ps not in self._at:
                        self._at[next_ps] = []
                        self.wake(next_ps)
                    self._at[next_ps].append(passage)
                else:  # this hop takes no time: the next one is before all that is left here
                    movers.append(message)
                    continue
                break
        return movers
