"""Network jitter; see `network.noise`.

Messages between two ranks stay in order: one that would overtake its predecessor arrives with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fabric import Carrier

if TYPE_CHECKING:
    from xsim_py.network.noise import NoiseModel
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class Jitter(Carrier):
    """Adds the jitter of a noise model to latencies and to times on the wire."""

    def __init__(self, noise: NoiseModel) -> None:
        self.noise = noise
        self._due: dict[tuple[int, int], int] = {}

    def launch(
        self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int
    ) -> tuple[int, int, int]:
        """Delay an envelope by jitter, during which the NIC is busy as well."""
        of_latency, of_wire = self.noise.parts(rank.number, message.to, rank.key + 1)
        links = self.fabric.links
        more_ps = int(wire_ps * of_wire)
        if links is None or links.fifo:
            rank.nic_free_ps += more_ps
        wire_ps += more_ps
        more_ps = int(latency_ps * of_latency)
        pair = rank.number, message.to
        late_ps = self._due.get(pair, 0) - (start_ps + wire_ps + latency_ps + more_ps)
        more_ps += max(late_ps, 0)
        self._due[pair] = start_ps + wire_ps + latency_ps + more_ps
        if links is None:
            return start_ps, wire_ps, latency_ps + more_ps
        return start_ps + more_ps, wire_ps, latency_ps  # shared links compute wire time and latency themselves

    def answer(self, rank: Rank, message: Message, when_ps: int) -> int:
        """Delay a reply without data."""
        of_latency, _ = self.noise.parts(rank.number, message.origin, rank.key + 1)
        return when_ps + int(self.fabric.link(rank.number, message.origin).latency_ps * of_latency)
