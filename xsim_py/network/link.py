"""The cost of one message between two ranks, by plain functions of numbers, without an engine.

A layer (same node, across the network) has these figures, in picoseconds and bytes::

    o_s(n) = send_overhead + n * send_overhead_per_byte      the sender's processor
    o_r(n) = recv_overhead + n * recv_overhead_per_byte      the receiver's processor
    W(n)   = n * time per byte                               on the wire; n-1 where count_first_byte is false
    B(n)   = max(gap, W)                                     how long the message takes the sender's NIC
    L      = latency + hops * per_hop                        the way

Products with fractions of a picosecond are rounded half up, once, at the end. A message of n bytes that is sent at t0,
with an idle NIC and its receive already posted, ends at the receiver at

* eager (n <= threshold): ``t0 + o_s + W + L + o_r``; the sender is free at ``t0 + o_s``, its NIC at ``t0 + o_s + B``;
* rendezvous (n > threshold): ``t0 + o_s + 3 L + W + o_r``: a request and its answer take L each, then the data go.
  With a receive that is posted later, at r, the answer leaves at ``max(t0 + o_s + L, r)``. The sender's request
  completes when its data have left, W after they began to.

Hockney's model has o = gap = 0, LogP has W = 0 and B = g, and LogGP has count_first_byte false and W(n) = (n-1) G.

Prior art: Culler et al. (LogP, 1993), Alexandrov et al. (LogGP, 1995), Hoefler et al. (LogGOPSim, 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xsim_py.config import LayerSpec
from xsim_py.units import round_half_up

_MOST_SIZES: Final = 4096  # a program uses few sizes of message; one that uses them all must not fill the memory


@dataclass(slots=True)
class Cost:
    """The cost of a message of one size: times in picoseconds, named o_s, W, B, L and o_r above.

    Attributes
    ----------
    send_ps
        What it takes the sender's processor.
    wire_ps
        How long its bytes are on the wire.
    busy_ps
        How long it takes the sender's network interface.
    latency_ps
        The way.
    receive_ps
        What it takes the receiver's processor.
    eager
        Whether its data leave at once, and not by rendezvous.
    """

    # Every message reads these: a read of a slot takes CPython 3.11 a fifth of one of a named tuple.
    send_ps: int
    wire_ps: int
    busy_ps: int
    latency_ps: int
    receive_ps: int
    eager: bool


class Link:
    """The costs between all pairs of ranks that are equally far apart; there are few of these objects.

    Attributes
    ----------
    layer
        ``"same_node"`` or ``"network"``.
    hops
        Links of the network on the way.
    latency_ps
        The smallest L of any message, which is that of control messages.
    cache
        The costs of sizes asked before. The hot path reads ``link.cache.get(n) or link.cost(n)``.
    """

    __slots__ = ("_bytes_before", "_costs", "_per_byte", "cache", "hops", "latency_ps", "layer")

    def __init__(self, costs: LayerSpec, *, layer: str, hops: int, latency_ps: int) -> None:
        self.layer = layer
        self.hops = hops
        self.latency_ps = latency_ps
        self.cache: dict[int, Cost] = {}
        self._costs = costs
        self._per_byte = costs.ps_per_byte.numerator, costs.ps_per_byte.denominator
        self._bytes_before = 0 if costs.count_first_byte else 1

    def cost(self, size_bytes: int) -> Cost:
        """Return the cost of a message of that size."""
        found = self.cache.get(size_bytes)
        if found is None:
            if len(self.cache) >= _MOST_SIZES:
                self.cache.clear()
            found = self.cache[size_bytes] = self.computed(size_bytes)
        return found

    def computed(self, size_bytes: int) -> Cost:
        """Compute the cost of a message of that size; another model has another rule."""
        costs = self._costs
        send, recv = costs.send_overhead_ps_per_byte, costs.recv_overhead_ps_per_byte
        numerator, denominator = self._per_byte
        wire_ps = round_half_up(max(size_bytes - self._bytes_before, 0) * numerator, denominator)
        return Cost(
            costs.send_overhead_ps + round_half_up(size_bytes * send.numerator, send.denominator),
            wire_ps,
            max(costs.gap_ps, wire_ps),
            self.latency_ps,
            costs.recv_overhead_ps + round_half_up(size_bytes * recv.numerator, recv.denominator),
            costs.eager_threshold_bytes is None or size_bytes <= costs.eager_threshold_bytes,
        )

    def __repr__(self) -> str:
        return f"Link({self.layer}, hops={self.hops}, latency_ps={self.latency_ps})"
