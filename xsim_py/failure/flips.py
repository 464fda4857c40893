"""Soft errors: bits of messages and arrays that flip without any notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xsim_py.config.value_kinds import NAME, TIME, choice, integer, option
from xsim_py.failure.fault import Fault
from xsim_py.units import format_time


@dataclass(frozen=True, kw_only=True)
class Flip(Fault):
    """One entry of ``failures.flips``: an unreported bit flip in a rank's data (a soft error)."""

    word = "flip"
    first = "target"
    example = "bit=17"
    carrier = "xsim_py.mpi.transport.flipping:BitFlips"
    columns = "bit size:B dest array cause"

    rank: int = option(integer(0, 2**31 - 1), "Rank that owns the data.", default=0, required=True)
    at_ps: int = option(TIME, "Virtual time, by that rank's own clock.", default=0, required=True)
    target: str = option(
        choice("message", "array"),
        "message: the next message that leaves the rank; array: an array that the program has exposed by "
        "xsim_py.expose.",
        default="message",
    )
    array: str | None = option(
        NAME, "Name of the exposed array.", shown="an array exposed by that time, determined by the seed"
    )
    bit: int | None = option(
        integer(0, 2**53),
        "Position: bit % 8 in byte bit // 8. Messages and arrays that are too short are skipped.",
        shown="determined by the seed",
    )

    def problem(self) -> tuple[str, str] | None:
        """Return the problem of a message with a name."""
        if self.array is None or self.target == "array":
            return None
        return "array", f"only an array has a name, not a {self.target}; write target: array"

    @staticmethod
    def line(row: Mapping[str, Any]) -> str:
        """Return the rank, bit, target and time of a flip."""
        target = f"array {row['array']}" if row["dest"] is None else f"a message to rank {row['dest']}"
        flipped = f"flipped at {format_time(row['time_s'], digits=None)}"
        return f"rank {row['rank']}: bit {row['bit']} of {target}, {row['size']:,} B, {flipped}"
