"""The cost of one message between two ranks: functions of numbers, without an engine.

A layer (same node, across the network) has these parameters, in picoseconds and bytes::

    o_s(n) = send_overhead + n * send_overhead_per_byte      the sender's CPU
    o_r(n) = recv_overhead + n * recv_overhead_per_byte      the receiver's CPU
    W(n)   = (n + header) * time per byte                    on the wire; n-1 if count_first_byte is false
    B(n)   = max(gap, W)                                     how long the message occupies the sender's NIC
    L      = latency + hops * per_hop                        the latency of the route

Products with fractions of a picosecond are rounded half up, once, at the end. A message of n bytes that is sent at t0,
with an idle NIC and its receive already posted, ends at the receiver at

* eager (n <= threshold): ``t0 + o_s + W + L + o_r``; the sender is free at ``t0 + o_s``, its NIC at ``t0 + o_s + B``;
* rendezvous (n > threshold): ``t0 + o_s + 3 L + W + o_r``: RTS and CTS take L each, then come the data.

If the receive is posted later, at r, the reply leaves at ``max(t0 + o_s + L, r)``. The sender's request completes when
its data have left, W after they began to.

If a layer has ``segments``, a message has the parameters of its size, and the L of the smallest messages: any
additional latency of a larger message counts as time on its wire (but does not occupy the NIC). If a layer has measured
``times`` T(n), W is the remainder: T - o_s - L - o_r, or T - o_s - 3 L - o_r for a rendezvous.

Hockney's model has o = gap = 0, LogP has W = 0 and B = g, and LogGP has count_first_byte false and W(n) = (n-1) G.
Prior art: Culler et al. (LogP, 1993), Alexandrov et al. (LogGP, 1995), Hoefler et al. (LogGOPSim, 2010).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from xsim_py.config import LayerSpec
from xsim_py.units import round_half_up

if TYPE_CHECKING:
    from pathlib import Path

    from xsim_py.network.measured_times import MeasuredTimes

_MOST_SIZES: Final = 4096  # bounds the memory of a program that uses many message sizes; most use few


@dataclass(slots=True)
class Cost:
    """The cost of a message of one size: times in picoseconds, named o_s, W, B, L and o_r above."""

    # Hot path: CPython 3.11 reads a slot in a fifth of the time of a named tuple's field.
    send_ps: int
    """CPU time of the sender."""
    wire_ps: int
    """Time of its bytes on the wire."""
    busy_ps: int
    """How long it occupies the sender's NIC."""
    latency_ps: int
    receive_ps: int
    """CPU time of the receiver."""
    eager: bool
    """True if its data leave at once, without a rendezvous."""
    bytes_ps: int = field(default=0, compare=False)
    """Time of its bytes at the injection bandwidth; latencies of segments may make `wire_ps` differ."""


class Link:
    """The costs between all pairs of ranks at equal distance; a run has few of these objects.

    `costs` are the parameters of the layer named `layer`. The route has `hops` links, which contribute `route_ps` to
    each latency. `slowest` has the picoseconds per byte of the slowest link: a lower limit for the injection time.
    """

    __slots__ = (
        "_base_ps",
        "_from_bytes",
        "_parameters",
        "_slowest",
        "_times",
        "cache",
        "header_bytes",
        "hops",
        "latency_ps",
        "layer",
        "shares_port",
    )

    def __init__(
        self, costs: LayerSpec, *, layer: str, hops: int, route_ps: int, slowest: Fraction = Fraction(0)
    ) -> None:
        self.layer = layer
        self.hops = hops
        # The costs computed so far, by size; the hot path reads ``link.cache.get(n) or link.cost(n)``.
        self.cache: dict[int, Cost] = {}
        # Whether messages share the injection port of their sender, and wait only for the gap; see `fair_contention`.
        self.shares_port = False
        self._from_bytes, self._parameters = by_size(costs)
        self._slowest = slowest
        self.header_bytes = costs.header_bytes or 0  # of a message on the wire, in addition to its data
        self._times = None if costs.times is None else _measured(costs.times)
        self._base_ps = self._parameters[0].latency_ps
        if self._times is not None and self._base_ps == 0:
            self._base_ps = max(self._times.of(0) - costs.send_overhead_ps - costs.recv_overhead_ps, 1)
        self.latency_ps = self._base_ps + route_ps  # the smallest L of any message, which control messages have

    def cost(self, size_bytes: int) -> Cost:
        """Return the cost of a message of that size, from the cache if possible."""
        found = self.cache.get(size_bytes)
        if found is None:
            if len(self.cache) >= _MOST_SIZES:
                self.cache.clear()
            found = self.cache[size_bytes] = self._fresh(size_bytes)
        return found

    def _fresh(self, size_bytes: int) -> Cost:
        cost = self.computed(size_bytes)
        if self.shares_port:
            cost.busy_ps = self._parameters[bisect_right(self._from_bytes, size_bytes) - 1].gap_ps
        return cost

    def computed(self, size_bytes: int) -> Cost:
        """Compute the cost of a message of that size; other models override this.

        A size of -1 denotes the request (RTS) of a rendezvous, which takes one latency and nothing else.
        """
        if size_bytes < 0:
            return Cost(0, 0, 0, self.latency_ps, 0, True, 0)
        costs = self._parameters[bisect_right(self._from_bytes, size_bytes) - 1]
        eager = costs.eager_threshold_bytes is None or size_bytes <= costs.eager_threshold_bytes
        send_ps = costs.send_overhead_ps + _of_bytes(size_bytes, costs.send_overhead_ps_per_byte)
        receive_ps = costs.recv_overhead_ps + _of_bytes(size_bytes, costs.recv_overhead_ps_per_byte)
        ps_per_byte = max(costs.ps_per_byte, self._slowest)
        injected_ps = _of_bytes(max(size_bytes - (not costs.count_first_byte), 0) + self.header_bytes, ps_per_byte)
        latency_ps = self.latency_ps
        if self._times is None:
            wire_ps = injected_ps + costs.latency_ps - self._base_ps
        else:
            wire_ps = self._times.of(size_bytes) - send_ps - receive_ps - (1 if eager else 3) * self._base_ps
            injected_ps = injected_ps or max(wire_ps, 0)
        if wire_ps < 0:  # it is faster than an empty one
            latency_ps, wire_ps = max(latency_ps + wire_ps, 1), 0
        return Cost(send_ps, wire_ps, max(costs.gap_ps, injected_ps), latency_ps, receive_ps, eager, injected_ps)

    def one_way_ps(self, size_bytes: int) -> int:
        """Return the time from the send of a message to the end of a receive posted in time."""
        cost = self.cost(size_bytes)
        asking_ps = 0 if cost.eager else 2 * self.latency_ps
        return cost.send_ps + asking_ps + cost.wire_ps + cost.latency_ps + cost.receive_ps

    @property
    def least_ps(self) -> int:
        """The minimum time from the first byte's injection to the arrival."""
        costs = map(self.computed, self._breakpoints())
        return min(self.latency_ps, *(cost.latency_ps + cost.wire_ps for cost in costs))

    @property
    def in_order(self) -> bool:
        """True if messages between two ranks arrive in order by themselves: similar times suffice."""
        costs = [self._fresh(size_bytes) for size_bytes in self._breakpoints()]
        most_ps = max(cost.wire_ps + cost.latency_ps - cost.busy_ps for cost in costs)
        return most_ps <= self.least_ps

    def _breakpoints(self) -> list[int]:
        """Return the sizes between which all costs are linear."""
        threshold = self._parameters[0].eager_threshold_bytes
        known = [*self._from_bytes, *([] if self._times is None else self._times.sizes)]
        known += [] if threshold is None else [threshold, threshold + 1]
        return sorted({*known, *(size_bytes - 1 for size_bytes in known if size_bytes)})

    def __repr__(self) -> str:
        return f"Link({self.layer}, hops={self.hops}, latency_ps={self.latency_ps})"


def by_size(costs: LayerSpec) -> tuple[list[int], list[LayerSpec]]:
    """Return the sizes from which parameters apply, beginning with 0, and the parameters."""
    from_bytes, parameters = [0], [costs]
    for segment in costs.segments or ():
        own = {
            each.name: value
            for each in fields(segment)
            if each.name != "from_bytes" and (value := getattr(segment, each.name)) is not None
        }
        if segment.from_bytes == 0:
            from_bytes, parameters = [], []
        from_bytes.append(segment.from_bytes)
        parameters.append(replace(costs, **own))
    return from_bytes, parameters


def least_ps_per_byte(costs: LayerSpec) -> Fraction:
    """Return the time per byte of the fastest messages: the default bandwidth of a link."""
    if costs.times is None:
        return min((each.ps_per_byte for each in by_size(costs)[1] if each.ps_per_byte), default=Fraction(0))
    times = _measured(costs.times)
    most = times.sizes[-1]
    return costs.ps_per_byte or Fraction(times.of(most) if most else 0, max(most, 1))


def _measured(path: Path) -> MeasuredTimes:
    from xsim_py.network.measured_times import measured_times  # few machines have any

    return measured_times(path)


def _of_bytes(size_bytes: int, ps_per_byte: Fraction) -> int:
    return round_half_up(size_bytes * ps_per_byte.numerator, ps_per_byte.denominator)
