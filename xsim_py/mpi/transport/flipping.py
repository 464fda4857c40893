"""Bits of messages that flip in transit, and of arrays: unreported soft errors.

The sender's copy stays intact. Flips affect the data of a message: those sent by a program or its collectives; not
control messages of the library, the envelope of a rendezvous, or one-sided data.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xsim_py.process.ranks.exposed import flip_exposed
from xsim_py.process.ranks.fiber import continue_after_stop, stop_at
from xsim_py.rng import stream

from .fabric import Carrier
from .message import FlippedData

if TYPE_CHECKING:
    from xsim_py.failure import Flip, Schedule
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class BitFlips(Carrier):
    """Flips bits of messages, and of the arrays of ranks."""

    def __init__(self, seed: int) -> None:
        self.seed = seed  # that of the run; each flip has a separate stream
        self.flipped: list[FlippedData] = []
        self._pending_flips: dict[int, list[Flip]] = {}

    def schedule(self, schedule: Schedule) -> None:
        """Schedule the flips of all shards; called before any rank runs.

        The ranks are stopped at those times. Their collectives are simulated individually (see `batched.instances`).
        """
        fabric = self.fabric
        for flip in schedule.flips:
            fabric.alike = fabric.alike and flip.target == "array"
            if fabric.instances is not None:
                fabric.instances.deaths.pop(flip.rank, None)
            if not fabric.shard.local(flip.rank):
                continue
            rank = fabric.shard.rank(flip.rank)
            if flip.target == "array":
                stop_at(rank, flip.time_ps)
                fabric.kernel.post(flip.time_ps, flip.rank, partial(self._flip_array, rank), flip)
            else:
                stop_at(rank, None)
                self._pending_flips.setdefault(flip.rank, []).append(flip)

    def launch(
        self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int
    ) -> tuple[int, int, int]:
        """Flip a bit of a message's data for each pending flip."""
        awaited = self._pending_flips.get(rank.number)
        if awaited and message.data:
            for flip in [flip for flip in awaited if flip.time_ps <= start_ps]:
                size_bits = 8 * len(message.data)
                bit = stream(self.seed, "flip", flip.number).randrange(size_bits) if flip.bit is None else flip.bit
                if bit < size_bits:
                    awaited.remove(flip)
                    data = bytearray(message.data)
                    data[bit // 8] ^= 1 << bit % 8
                    message.data = bytes(data)
                    self._note(FlippedData(start_ps, rank.number, message.to, None, bit, len(data), str(flip)))
        return start_ps, wire_ps, latency_ps

    def _flip_array(self, rank: Rank, flip: Flip) -> None:
        """Flip a bit of an array when the rank's clock has reached that time, in any state of the rank."""
        continue_after_stop(rank)
        if rank.exit_status is None:
            found = flip_exposed(rank, flip.array, flip.bit, stream(self.seed, "flip", flip.number))
            if found is not None:
                self._note(FlippedData(flip.time_ps, rank.number, None, *found, str(flip)))

    def _note(self, flipped: FlippedData) -> None:
        self.flipped.append(flipped)
        fabric = self.fabric
        fabric.digest += hash((flipped.time_ps, flipped.rank, flipped.bit))
        if fabric.trace is not None:
            fabric.trace.mark(flipped.rank, flipped.time_ps, "flipped", f"{flipped.cause}: bit {flipped.bit}")
