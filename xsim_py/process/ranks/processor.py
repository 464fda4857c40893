"""The simulated processor: the time that a rank's work takes on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from xsim_py import rng
from xsim_py.units import PS_PER_S, round_half_up

from .shared_core import SharedCore

if TYPE_CHECKING:
    from xsim_py.config import ComputeNoiseSpec, ComputeSpec
    from xsim_py.machine import Machine

    from .fiber import Fiber
    from .rank import Rank
    from .shard import Shard


class Processor:
    """The cores of the machine, which are identical except for noise.

    Noise adds to each piece of computation and never shortens it. A draw depends on the rank and the number of pieces
    it has computed before, not on a common sequence, so it is the same for any number of shards.
    """

    def __init__(self, spec: ComputeSpec, *, seed: int, places: Machine) -> None:
        self.speed = spec.speed
        self._places = places  # the placement of ranks
        self._speeds = spec.speeds or ()
        self._cores: dict[tuple[int, int], SharedCore] = {}
        node_of = places.node_of
        self._noise = None if spec.noise is None else _Noise(spec.noise, seed, node_of)
        self._ps_per_flop = None if spec.flops is None else PS_PER_S / Fraction(spec.flops)
        self._ps_per_byte = spec.ps_per_byte
        self.complaints: set[str] = set()  # warnings to print at the end

    def update_nodes(self, node_of: Sequence[int]) -> None:
        """Use the node numbers of a run with more ranks."""
        if self._noise is not None:
            self._noise.node_of = node_of

    def compute(self, fiber: Fiber, duration_ps: float) -> None:
        """Let the time pass that a piece of computation takes, given in picoseconds at speed 1."""
        self._spend(fiber, round(duration_ps / self.speed))

    def work(self, fiber: Fiber, flops: float, size_bytes: float) -> None:
        """Let the time pass that operations and memory accesses take: the longer of the two."""
        parts = (flops, self._ps_per_flop, "flops"), (size_bytes, self._ps_per_byte, "bandwidth")
        longest = Fraction(0)
        for amount, cost, key in parts:
            if amount and cost is None:
                self.complaints.add(f"xsim_py.work: the machine has no compute.{key}, so that part took no time")
            elif amount and cost is not None:
                longest = max(longest, Fraction(amount) * cost)
        longest /= Fraction(self.speed)
        self._spend(fiber, round_half_up(longest.numerator, longest.denominator))

    def _spend(self, fiber: Fiber, duration_ps: int) -> None:
        rank = fiber.rank
        if self._speeds:
            duration_ps = round(duration_ps / self._speed_of(rank.number))
        if self._noise is not None:
            duration_ps += round(duration_ps * self._noise.part(rank))
        if self._places.oversubscribed:
            self._core_of(rank.number).compute(fiber, duration_ps)
        else:
            fiber.sleep(duration_ps)

    def _speed_of(self, number: int) -> float:
        """Return a rank's speed relative to the others."""
        node, product = self._places.node_of[number], 1.0
        for each in self._speeds:
            if _within(number, each.ranks) and _within(node, each.nodes):
                product *= each.speed
        return product

    def said(self) -> set[str]:
        """Return all warnings, including speeds that match no rank; the machine may grow up to the end."""
        unused = {
            f"compute.speeds[{index}]: matches no rank"
            for index, each in enumerate(self._speeds)
            if not any(
                _within(number, each.ranks) and _within(node, each.nodes)
                for number, node in enumerate(self._places.node_of)
            )
        }
        return self.complaints | unused

    def _core_of(self, number: int) -> SharedCore:
        places = self._places
        # A spawned rank occupies a free core and shares it with no other rank.
        place = (places.node_of[number], places.core_of[number]) if number < places.ranks else (-1, number)
        if place not in self._cores:
            self._cores[place] = SharedCore()
        return self._cores[place]

    def release(self, rank: Rank, now_ps: int) -> None:
        """Remove a failed rank from its core."""
        if self._places.oversubscribed:
            self._core_of(rank.number).leave(rank, now_ps)

    def pause(self, rank: Rank, now_ps: int, until_ps: int) -> None:
        """Free a rank's core for others while the rank hangs."""
        if self._places.oversubscribed:
            self._core_of(rank.number).pause(rank, now_ps, until_ps)

    def clear(self) -> None:
        """Forget which ranks compute, as at a restart of the job."""
        self._cores.clear()


def _within(number: int, ranges: Sequence[tuple[int, int]] | None) -> bool:
    return ranges is None or any(first <= number <= last for first, last in ranges)


class _Noise:
    """The draws of one run."""

    def __init__(self, spec: ComputeNoiseSpec, seed: int, node_of: Sequence[int]) -> None:
        self._spec = spec
        self._seed = seed
        self.node_of = node_of
        self._kept: dict[tuple[str, int], float] = {}

    def part(self, rank: Rank) -> float:
        """Return the fraction of a rank's next piece of computation that noise adds."""
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
        """Return a random number from the distribution, whose median is 1."""
        from xsim_py.network.noise import lognormal, uniform  # few machines have any

        bits: Any = rng.derive_seed(self._seed, "compute noise", *names)
        if self._spec.law == "exponential":
            return -math.log(uniform(bits)) / math.log(2)
        return lognormal(self._spec.sigma, bits)


class _Count:
    """The number of pieces that a rank has computed."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces = 0


def release_failed(shard: Shard, processor: Processor) -> None:
    """Remove failing ranks of a shard from their cores."""
    previous = shard.on_failure

    def on_failure(rank: Rank, cause: str, survivable: bool) -> None:
        processor.release(rank, shard.kernel.now_ps)
        previous(rank, cause, survivable)

    shard.on_failure = on_failure
