"""Fabrics with network jitter; see `network.noise`.

Messages between two ranks stay in order: one that would overtake its predecessor arrives with it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from .fabric import Fabric

if TYPE_CHECKING:
    from xsim_py.network.noise import NoiseModel
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class NoisyFabric(Fabric):
    """A fabric that adds the jitter of its `noise` to latencies and to times on the wire."""

    def __init__(self, *args: Any, noise: NoiseModel, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.noise = noise
        self.inline_end = -1
        self._due: dict[tuple[int, int], int] = {}

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Send an envelope, delayed by jitter, during which the NIC is busy as well."""
        of_latency, of_wire = self.noise.parts(rank.number, message.to, rank.key + 1)
        more_ps = int(wire_ps * of_wire)
        if self.links is None or self.links.fifo:
            rank.nic_free_ps += more_ps
        wire_ps += more_ps
        more_ps = int(latency_ps * of_latency)
        pair = rank.number, message.to
        late_ps = self._due.get(pair, 0) - (start_ps + wire_ps + latency_ps + more_ps)
        more_ps += max(late_ps, 0)
        self._due[pair] = start_ps + wire_ps + latency_ps + more_ps
        if self.links is None:
            super().launch(rank, message, start_ps, wire_ps, latency_ps + more_ps)
        else:  # shared links compute time on the wire and latency themselves
            super().launch(rank, message, start_ps + more_ps, wire_ps, latency_ps)

    def answer(self, rank: Rank, message: Message, handler: str, when_ps: int) -> None:
        """Send a reply without data to the sender of a message."""
        of_latency, _ = self.noise.parts(rank.number, message.origin, rank.key + 1)
        more_ps = int(self.link(rank.number, message.origin).latency_ps * of_latency)
        super().answer(rank, message, handler, when_ps + more_ps)


@cache
def noisy(kind: type[Fabric]) -> type[NoisyFabric]:
    """Return a subclass of a fabric class with jitter."""
    return type(f"Noisy{kind.__name__}", (NoisyFabric, kind), {})
