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

from .fabric import FaultCarrier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from xsim_py.failure.flips import Flip
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class BitFlips(FaultCarrier):
    """Flips bits of messages, and of the arrays of ranks."""

    def schedule(self, faults: Sequence[Flip]) -> None:
        """Schedule the flips of one start of the job in all shards."""
        self.fabric.alike &= all(flip.target == "array" for flip in faults)
        super().schedule(faults)

    def install(self, rank: Rank, fault: Flip) -> None:
        """Wait for the next message of a rank, or stop the rank at the time of the flip."""
        if fault.target == "message":
            super().install(rank, fault)
        else:
            stop_at(rank, fault.at_ps)
            self.fabric.kernel.post(fault.at_ps, fault.rank, partial(self._flip_array, rank), fault)

    def _chance(self, flip: Flip) -> Random:
        return stream(self.fabric.settings.seed, "flip", flip.number)

    def launch(
        self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int
    ) -> tuple[int, int, int]:
        """Flip a bit of a message's data for each pending flip."""
        awaited = self.pending.get(rank.number)
        if awaited and message.data:
            for flip in [flip for flip in awaited if flip.at_ps <= start_ps]:
                size_bits = 8 * len(message.data)
                bit = self._chance(flip).randrange(size_bits) if flip.bit is None else flip.bit
                if bit < size_bits:
                    awaited.remove(flip)
                    data = bytearray(message.data)
                    data[bit // 8] ^= 1 << bit % 8
                    message.data = bytes(data)
                    self._note(flip, start_ps, bit, len(data), message.to, None)
        return start_ps, wire_ps, latency_ps

    def _flip_array(self, rank: Rank, flip: Flip) -> None:
        """Flip a bit of an array when the rank's clock has reached that time, in any state of the rank."""
        continue_after_stop(rank)
        if rank.exit_status is None:
            found = flip_exposed(rank, flip.array, flip.bit, self._chance(flip))
            if found is not None:
                array, bit, size_bytes = found
                self._note(flip, flip.at_ps, bit, size_bytes, None, array)

    def _note(self, flip: Flip, time_ps: int, bit: int, *cells: object) -> None:
        self.note(flip, time_ps, bit, *cells, str(flip))
        fabric = self.fabric
        fabric.digest += hash((time_ps, flip.rank, bit))
        if fabric.trace is not None:
            fabric.trace.mark(flip.rank, time_ps, "flipped", f"{flip}: bit {bit}")
