"""Ising's model on a square torus: Wang-Landau walkers in a window, and exact results.

Energies are numbered: level l is E = 4 l - 2 N, for N spins; there are no levels 1 and N - 1. `wang_landau.py` uses
this system, which knows nothing of other processes except the data to average or exchange.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

EXACT_4X4 = {0: 20524, 4: 13568, 8: 6688, 12: 1728, 16: 424, 20: 64, 24: 32, 32: 2}  # of either sign
CRITICAL = 2.269185
FLAT = 0.8
CHANGES = 5  # a flip changes the level by -2 to 2
SMALL = 3e-4  # of differences in 1/T


# ------------------------------------------------------------------------------------------------------------- windows


def levels_of(side: int) -> list[int]:
    """Return the existing levels."""
    return [each for each in range(side * side + 1) if each not in (1, side * side - 1)]


def windows_of(side: int, count: int) -> list[tuple[int, int]]:
    """Return the first and last level of each window; windows overlap by three quarters."""
    levels = levels_of(side)
    width = 4 * len(levels) / (count + 3)
    starts = [each * width / 4 for each in range(count)]
    return [(levels[round(start)], levels[min(round(start + width), len(levels)) - 1]) for start in starts]


def most_windows(side: int) -> int:
    """Return the maximum number of windows, each with five levels for the walkers to move in."""
    return 4 * len(levels_of(side)) // (CHANGES + 1) - 3


def tilt(side: int, bounds: tuple[int, int]) -> np.ndarray:
    """Return the weights -ln w of the check: one temperature per window, 1/T = 0 at E = 0."""
    return (1 - sum(bounds) / side**2) / CRITICAL * 4 * np.arange(side**2 + 1)


# ------------------------------------------------------------------------------------------------------------- walkers


class Found(NamedTuple):
    """The results of a window."""

    ln_g: np.ndarray
    ln_f: float
    visits: np.ndarray
    """Visits of each level in the check."""
    tried: int
    """Exchanges with the window above in the check: attempted and accepted."""
    accepted: int
    names: np.ndarray
    """The final configurations."""
    astray: int


class Offer(NamedTuple):
    """The data of a process's walkers for an exchange."""

    level: np.ndarray
    spins: np.ndarray
    name: np.ndarray
    """A unique number for each configuration."""
    chance: np.ndarray
    """Random numbers for the decisions, of which those of the lower window count."""


class Walkers:
    """Configurations that walk through a window of energies, with a common estimate of ln g.

    They try to flip the same site at the same time, and each of them decides for itself.
    """

    def __init__(self, side: int, bounds: tuple[int, int], count: int, seed: tuple[int, ...]) -> None:
        self.side, self.count, (self.low, self.high) = side, count, bounds
        self.levels = [each for each in levels_of(side) if self.low <= each <= self.high]
        self.rng = np.random.Generator(np.random.SFC64(seed))
        self.neighbours = _neighbours(side)
        spins, level = self._first()
        self.spins = np.repeat(np.array(spins, np.int8)[:, np.newaxis], count, axis=1)
        self.level, self.name = np.full(count, level), seed[-1] * count + np.arange(count)
        self.ln_g, self.visits = np.zeros(side**2 + 1), np.zeros(side**2 + 1)
        self.ln_f, self.steps, self.by_time = 1 / count, 0, False
        self.tried = self.accepted = 0
        self.found = self.ln_g, self.ln_f
        there = np.arange(side**2 + 1)[:, np.newaxis] + np.arange(CHANGES) - CHANGES // 2
        self.outside, self.there = (there < self.low) | (there > self.high), there.clip(self.low, self.high)

    def _first(self) -> tuple[list[int], int]:
        """Return a configuration in the window, from the lowest energy up or the highest down."""
        sites, ordered = self.side**2, self.low + self.high <= self.side**2
        spins = [1 if ordered or (site + site // self.side) % 2 == 0 else -1 for site in range(sites)]
        level = 0 if ordered else sites
        while not self.low <= level <= self.high:
            site = int(self.rng.random() * sites)
            change = spins[site] * sum(spins[each] for each in self.neighbours[site]) // 2
            if change * (level - self.low) <= 0 or self.rng.random() < 0.1:
                spins[site] *= -1
                level += change
        return spins, level

    def walk(self, steps: int) -> None:
        """Make steps, each of which adds to ln g at the walkers' levels."""
        spins, ln_g, chance = self.spins, self.ln_g, np.empty(self.count)
        sites, here = (self.rng.random(steps) * len(spins)).astype(int).tolist(), ln_g[:, np.newaxis]
        index, middle = self.level * CHANGES + CHANGES // 2, slice(CHANGES // 2, None, CHANGES)
        for site in sites:
            spin, (a, b, c, d) = spins[site], self.neighbours[site]
            change = spin * (spins[a] + spins[b] + spins[c] + spins[d]) >> 1
            ahead = np.minimum(here - ln_g.take(self.there), 0)
            ahead[self.outside] = -np.inf
            accepted = (self.rng.random(out=chance) < np.exp(ahead).take(index + change)).view(np.int8)
            index += CHANGES * (change * accepted)
            spin *= 1 - 2 * accepted
            visits = np.bincount(index, minlength=CHANGES * len(ln_g))[middle]
            ln_g += self.ln_f * visits
            self.visits += visits
        self.level = index // CHANGES
        self.steps += steps * self.count

    def average(self, estimates: np.ndarray, visits: np.ndarray) -> None:
        """Average a window's estimates; ln f is halved after uniform visits, and finally follows 1/t."""
        self.ln_g = sum(estimates) / len(estimates)
        counts, by_time = sum(visits)[self.levels], len(self.levels) / self.steps
        if not self.by_time and counts.min() > FLAT * counts.mean():
            self.ln_f, self.visits = self.ln_f / 2, np.zeros(len(self.visits))
        self.by_time = self.by_time or self.ln_f <= by_time
        if self.by_time:
            self.ln_f = by_time

    def freeze(self) -> None:
        """Sample by the fixed weights of the check from now on, once ln g has been found."""
        self.found = self.ln_g, self.ln_f
        self.ln_g, self.ln_f = tilt(self.side, (self.low, self.high)), 0.0

    def forget(self) -> None:
        """Reset the counts of visits and exchanges."""
        self.visits, self.tried, self.accepted = np.zeros(len(self.visits)), 0, 0

    def offer(self) -> Offer:
        """Return the data for an exchange."""
        return Offer(self.level, self.spins.copy(), self.name, self.rng.random(self.count))

    def exchange(
        self, theirs: np.ndarray, bounds: tuple[int, int], offered: Offer, chance: np.ndarray, *, counts: bool
    ) -> None:
        """Adopt configurations of other walkers where both sides reach the same decision."""
        here, there = self.level, offered.level
        both = (self.low <= there) & (there <= self.high) & (bounds[0] <= here) & (here <= bounds[1])
        ratio = self.ln_g[here] - self.ln_g[there] + (theirs[there] - theirs[here])
        accepted = both & (chance < np.exp(np.minimum(ratio, 0)))
        self.level, self.name = np.where(accepted, there, here), np.where(accepted, offered.name, self.name)
        self.spins = np.where(accepted, offered.spins, self.spins)
        self.tried += counts * self.count
        self.accepted += counts * int(accepted.sum())

    def astray(self) -> int:
        """Return the number of walkers outside the window, or whose spins contradict their level."""
        lattice = self.spins.reshape(self.side, self.side, -1).astype(int)
        bonds = lattice * (np.roll(lattice, 1, 0) + np.roll(lattice, 1, 1))
        level = (2 * self.side**2 - bonds.sum(axis=(0, 1))) // 4
        return int(np.sum((level != self.level) | (level < self.low) | (level > self.high)))

    def state(self) -> dict[str, Any]:
        """Return the variable state, for a checkpoint."""
        changing = ("ln_f", "steps", "by_time", "tried", "accepted", "level", "name", "found")
        copies = {each: getattr(self, each).copy() for each in ("spins", "ln_g", "visits")}
        return {each: getattr(self, each) for each in changing} | copies | {"rng": self.rng.bit_generator.state}

    def become(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        for name, value in state.items():
            if name == "rng":
                self.rng.bit_generator.state = value
            else:
                setattr(self, name, value.copy() if isinstance(value, np.ndarray) else value)


def _neighbours(side: int) -> list[tuple[int, int, int, int]]:
    """Return the four neighbours of each site of a torus."""
    return [
        (
            row * side + (column + 1) % side,
            row * side + (column - 1) % side,
            (row + 1) % side * side + column,
            (row - 1) % side * side + column,
        )
        for row in range(side)
        for column in range(side)
    ]


# ------------------------------------------------------------------------------------------------------- exact results


def exact(side: int) -> np.ndarray:
    """Return ln g of all levels if known, else NaN."""
    energies = np.abs(4 * np.array(levels_of(side)) - 2 * side**2)
    known = EXACT_4X4 if side == 4 else {2 * side**2: 2, 2 * side**2 - 8: 2 * side**2, 2 * side**2 - 12: 4 * side**2}
    return np.log([known.get(energy, math.nan) for energy in energies.tolist()])


def exact_at(side: int, temperature: float) -> tuple[float, float]:
    """Return the exact mean energy and heat capacity per spin, from Kaufman's partition function."""
    low, here, high = (_ln_z(side, 1 / temperature + shift) for shift in (-SMALL, 0.0, SMALL))
    energy = -(high - low) / (2 * SMALL)
    return energy / side**2, (high - 2 * here + low) / SMALL**2 / temperature**2 / side**2


def _ln_z(side: int, k: float) -> float:
    """Return ln Z of the torus at J/T = k (Kaufman, Phys. Rev. 76, 1232, 1949)."""
    angles = np.pi * np.arange(2 * side) / side
    gammas = np.arccosh(math.cosh(2 * k) / math.tanh(2 * k) - np.cos(angles))
    gammas[0] = 2 * k + math.log(math.tanh(k))  # with its sign
    signs, products = (1, 1, 1, math.copysign(1, gammas[0])), []
    for first, sign in ((1, 1), (1, -1), (0, 1), (0, -1)):  # cosh or sinh
        part = np.abs(gammas[first::2]) * side / 2
        products.append(np.sum(part + np.log1p(sign * np.exp(-2 * part))))
    total = sum(sign * math.exp(each - products[0]) for sign, each in zip(signs, products, strict=True))
    return side**2 / 2 * math.log(2 * math.sinh(2 * k)) + products[0] + math.log(total / 2)


def at_temperature(ln_g: np.ndarray, side: int, temperature: float) -> tuple[float, float]:
    """Return the mean energy and the heat capacity per spin from ln g."""
    energies = 4.0 * np.array(levels_of(side)) - 2 * side**2
    weights = ln_g - energies / temperature
    weights = np.exp(weights - weights.max())
    mean, square = (np.average(energies**power, weights=weights) for power in (1, 2))
    return mean / side**2, (square - mean**2) / temperature**2 / side**2


def joined(estimates: list[np.ndarray], bounds: list[tuple[int, int]], side: int) -> np.ndarray:
    """Return ln g of all levels, joined at similar slopes, with g = 2 for the lowest."""
    levels = np.array(levels_of(side))
    whole = estimates[0]
    for estimate, (low, high), (_, top) in zip(estimates[1:], bounds[1:], bounds, strict=False):
        common = levels[(low <= levels) & (levels <= top)]
        slopes = np.diff(whole[common]) - np.diff(estimate[common])
        at = common[np.abs(slopes).argmin()] if len(slopes) else common[0]
        rest = levels[(at < levels) & (levels <= high)]
        whole = whole.copy()
        whole[rest] = estimate[rest] - estimate[at] + whole[at]
    return whole[levels] - whole[0] + math.log(2)


def in_the_check(ln_g: np.ndarray, side: int, bounds: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected level visits of each window in the check, and acceptance of exchanges.

    All follows from ln g of the levels, because walkers of two windows are independent and in equilibrium.
    """
    whole = np.full(side**2 + 1, -np.inf)
    whole[levels_of(side)] = ln_g
    weights, visits = [tilt(side, each) for each in bounds], np.zeros((len(bounds), side**2 + 1))
    for visit, weight, (low, high) in zip(visits, weights, bounds, strict=True):
        inside = slice(low, high + 1)
        weighed = whole[inside] - weight[inside]
        visit[inside] = np.exp(weighed - weighed.max())
        visit /= visit.sum()
    shares = []
    for window, (low, _) in enumerate(bounds[1:]):
        common = slice(low, bounds[window][1] + 1)  # both levels are in both windows
        ahead = (weights[window] - weights[window + 1])[common]
        accepted = np.exp(np.minimum(ahead[:, np.newaxis] - ahead, 0))
        shares.append(visits[window][common] @ accepted @ visits[window + 1][common])
    return visits, np.array(shares)
