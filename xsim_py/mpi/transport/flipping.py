"""Fabrics on which a bit of a message may flip in transit: unreported soft errors.

The sender's copy stays intact. Flips affect the data of a message: those sent by a program or its collectives; not
control messages of the library, the envelope of a rendezvous, or one-sided data.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks.exposed import flip_exposed
from xsim_py.process.ranks.fiber import continue_after_stop, stop_at
from xsim_py.rng import stream

from .fabric import Fabric
from .message import FlippedData

if TYPE_CHECKING:
    from xsim_py.failure import Flip
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class FlippingFabric(Fabric):
    """A fabric that flips bits of its messages, and of the arrays of its ranks."""

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inline_end = -1
        self.seed = seed  # that of the run; each flip has a separate stream
        self._pending_flips: dict[int, list[Flip]] = {}
        self._flipped: list[FlippedData] = []

    def schedule_flips(self, flips: Iterable[Flip]) -> None:
        """Schedule the flips of all shards; called before any rank runs.

        The ranks are stopped at those times. Their collectives are simulated individually (see `batched.instances`).
        """
        for flip in flips:
            self.alike = self.alike and flip.target == "array"
            if self.instances is not None:
                self.instances.deaths.pop(flip.rank, None)
            if not self.shard.local(flip.rank):
                continue
            rank = self.shard.rank(flip.rank)
            if flip.target == "array":
                stop_at(rank, flip.time_ps)
                self.kernel.post(flip.time_ps, flip.rank, partial(self._flip_array, rank), flip)
            else:
                stop_at(rank, None)
                self._pending_flips.setdefault(flip.rank, []).append(flip)

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Send an envelope, with a bit flipped for each pending flip."""
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
        super().launch(rank, message, start_ps, wire_ps, latency_ps)

    def _flip_array(self, rank: Rank, flip: Flip) -> None:
        """Flip a bit of an array when the rank's clock has reached that time, in any state of the rank."""
        continue_after_stop(rank)
        if rank.exit_status is None:
            found = flip_exposed(rank, flip.array, flip.bit, stream(self.seed, "flip", flip.number))
            if found is not None:
                self._note(FlippedData(flip.time_ps, rank.number, None, *found, str(flip)))

    def _note(self, flipped: FlippedData) -> None:
        self._flipped.append(flipped)
        self.digest += hash((flipped.time_ps, flipped.rank, flipped.bit))
        if self.trace is not None:
            self.trace.mark(flipped.rank, flipped.time_ps, "flipped", f"{flipped.cause}: bit {flipped.bit}")

    def flipped(self) -> list[FlippedData]:
        """Return the flipped bits."""
        return self._flipped


@cache
def flipping(kind: type[Fabric]) -> type[FlippingFabric]:
    """Return a subclass of a fabric class that flips bits."""
    return type(f"Flipping{kind.__name__}", (FlippingFabric, kind), {})
