"""The simulated processor: how long the work of a rank takes on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from xsim_py import rng
from xsim_py.units import PS_PER_S, round_half_up

if TYPE_CHECKING:
    from xsim_py.config import ComputeNoiseSpec, ComputeSpec

    from .rank import Rank


class Processor:
    """The cores of the machine, which are all alike but for noise.

    Noise adds to each piece of computing, and takes nothing away. A draw belongs to the rank and to how many pieces it
    has computed before, and not to a place in a common sequence: it is the same for any number of shards.

    Parameters
    ----------
    spec : ComputeSpec
        The section ``compute`` of the machine.
    seed : int
        Of the run.
    node_of : sequence of int
        The node of each rank; see `follow`.

    Attributes
    ----------
    complaints : set of str
        What the user is to be told at the end.
    """

    def __init__(self, spec: ComputeSpec, *, seed: int, node_of: Sequence[int]) -> None:
        self.speed = spec.speed
        self._noise = None if spec.noise is None else _Noise(spec.noise, seed, node_of)
        self._ps_per_flop = None if spec.flops is None else PS_PER_S / Fraction(spec.flops)
        self._ps_per_byte = spec.ps_per_byte
        self.complaints: set[str] = set()

    def follow(self, node_of: Sequence[int]) -> None:
        """Learn that there are more ranks."""
        if self._noise is not None:
            self._noise.node_of = node_of

    def compute(self, rank: Rank, duration_ps: float) -> int:
        """Return how long a piece of computing takes that would take so long at speed 1, in picoseconds."""
        return self._with_noise(rank, round(duration_ps / self.speed))

    def work(self, rank: Rank, flops: float, size_bytes: float) -> int:
        """Return how long so many operations on so many bytes take, in picoseconds: the longer of the two."""
        parts = (flops, self._ps_per_flop, "flops"), (size_bytes, self._ps_per_byte, "bandwidth")
        longest = Fraction(0)
        for amount, cost, key in parts:
            if amount and cost is None:
                self.complaints.add(f"xsim_py.work: the machine has no compute.{key}, so that part took no time")
            elif amount and cost is not None:
                longest = max(longest, Fraction(amount) * cost)
        return self._with_noise(rank, round_half_up(longest.numerator, longest.denominator))

    def _with_noise(self, rank: Rank, duration_ps: int) -> int:
        return duration_ps if self._noise is None else duration_ps + round(duration_ps * self._noise.part(rank))


class _Noise:
    """The draws of one run."""

    def __init__(self, spec: ComputeNoiseSpec, seed: int, node_of: Sequence[int]) -> None:
        self._spec = spec
        self._seed = seed
        self.node_of = node_of
        self._kept: dict[tuple[str, int], float] = {}

    def part(self, rank: Rank) -> float:
        """Return which part of its next piece of computing is added for a rank."""
        spec, number = self._spec, rank.number
        drawn = rank.private("computed", _Count)
        drawn.pieces += 1
        part = self._once("rank", number, spec.ranks) + self._once("node", self.node_of[number], spec.nodes)
        return part + (spec.work * self._draw("work", number, drawn.pieces) if spec.work else 0.0)

    def _once(self, what: str, number: int, median: float | None) -> float:
        if not median:
            return 0.0
        if (what, number) not in self._kept:
            self._kept[what, number] = self._draw(what, number)
        return median * self._kept[what, number]

    def _draw(self, *names: str | int) -> float:
        """Return a number of the law with median 1."""
        from xsim_py.network.noise import lognormal, uniform  # few machines have any

        bits: Any = rng.derive_seed(self._seed, "compute noise", *names)
        if self._spec.law == "exponential":
            return -math.log(uniform(bits)) / math.log(2)
        return lognormal(self._spec.sigma, bits)


class _Count:
    """How many pieces a rank has computed."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces = 0
