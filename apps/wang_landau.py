"""Replica-exchange Wang-Landau sampling: the window of energies in which a process dies repairs itself, others go on.

The density of states g(E) of Ising's model on a square lattice is sampled in windows of energies, which overlap by
three quarters.  A window has some walkers, one a process, and a communicator of its own, on which they average ln g
after each round.  Then walkers of neighbouring windows may exchange their configurations, by turns with the window
above and the one below.

If a process dies, its window revokes its communicator, shrinks it, spawns a process, merges, puts all in the old order,
and goes back to the last checkpoint, which each walker has with the next one of its window.  Other windows never leave
their loop; a neighbour waits at the next exchange.  What is exchanged goes from the first living of three doors of a
window to all doors of the other one, over a communicator that is never repaired.  Walkers draw the same random numbers
again after a roll-back, and what a window has sent last is in its checkpoint, and sent again.  So all windows end bit
by bit as without the failure.  What cannot be got over are the deaths of a walker and of the next one in its window at
the same time, and those of all doors of a window.

This is the pattern of the University of Georgia's Wang-Landau code in the slides on ULFM (Vogel, Li, Wuest, Landau).
There a window connects anew to its neighbours with MPI_Comm_connect, here the doors need no new connection.  Real are
the sampling and everything of the recovery; the lattice is small, and `--work` says what a round costs.

    xsim run -n 8 wang_landau.py
    xsim run -n 8 --fail "rank=3 before its 20th Allgather" wang_landau.py
    mpirun --with-ft ulfm -n 8 python wang_landau.py --die 3@20

Judged is g(E) of the whole, by the exact numbers of states of the 4x4 lattice, or the first ones of a larger one.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT_4X4 = {0: 20524, 4: 13568, 8: 6688, 12: 1728, 16: 424, 20: 64, 24: 32, 32: 2}  # of both signs
CRITICAL = 2.269185
FLAT = 0.8
UP, DOWN = 1, -1
LOST = 1 << 30  # the number of a message that says which data are lost


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    parser.add_argument("--side", type=int, default=4, help="the lattice's side, an even number")
    parser.add_argument("--windows", type=int, help="how many windows there are (as many as 4, with two walkers each)")
    parser.add_argument("--rounds", type=int, default=100, help="how often windows average")
    parser.add_argument("--sweeps", type=int, default=400, help="sweeps of a walker in a round")
    parser.add_argument("--tolerance", type=float, default=0.2, help="how far ln g may be off")
    parser.add_argument("--work", type=float, default=0.0, help="seconds of work that a round is")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers")
    parser.add_argument("--window", type=int, help=argparse.SUPPRESS)  # in which a new process is
    arguments = parser.parse_args()
    if arguments.side < 4 or arguments.side % 2:
        parser.error("--side is an even number from 4 on")
    if min(arguments.rounds, arguments.sweeps) < 1 or arguments.windows == 0 or arguments.work < 0:
        parser.error("--rounds, --sweeps and --windows are at least 1, and --work is at least 0")
    return arguments


# ------------------------------------------------------------------------------------------------------------- windows


def levels_of(side: int) -> list[int]:
    """Return the numbers of the energies that there are: number e is of E = 4 e - 2 N, for N spins."""
    return [each for each in range(side * side + 1) if each not in (1, side * side - 1)]


def windows_of(side: int, count: int) -> list[tuple[int, int]]:
    """Return the first and last level of each window."""
    levels = levels_of(side)
    width = 4 * len(levels) / (count + 3)
    starts = [each * width / 4 for each in range(count)]
    return [(levels[round(start)], levels[min(round(start + width), len(levels)) - 1]) for start in starts]


class Layout(NamedTuple):
    """Which ranks are in which window; the last window has those that are left over."""

    ranks: int
    windows: int

    @property
    def walkers(self) -> int:
        """Return how many walkers a window has, but the last one."""
        return self.ranks // self.windows

    def window(self, rank: int) -> int:
        """Return the window of a rank."""
        return min(rank // self.walkers, self.windows - 1)

    def doors(self, window: int) -> range:
        """Return the ranks that receive what is sent to a window."""
        first = window * self.walkers
        last = self.ranks if window == self.windows - 1 else first + self.walkers
        return range(first, min(first + 3, last)) if 0 <= window < self.windows else range(0)


# ------------------------------------------------------------------------------------------------------------- walkers


class Walker:
    """A configuration that wanders through a window of energies, and its estimate of ln g."""

    def __init__(self, arguments: argparse.Namespace, window: int, bounds: tuple[int, int], number: int) -> None:
        self.side, (self.low, self.high) = arguments.side, bounds
        self.window = slice(self.low, self.high + 1)
        self.levels = [each for each in levels_of(self.side) if self.low <= each <= self.high]
        self.rng = random.Random(f"{arguments.seed} {window} {number}")
        self.ln_g, self.visits = np.zeros(self.side**2 + 1), np.zeros(self.side**2 + 1)
        self.ln_f, self.steps = 1.0, 0
        self.neighbours = _neighbours(self.side)
        sites = range(self.side**2)
        ordered = self.low + self.high <= self.side**2  # begin at the lowest energy, or at the highest
        self.spins = [1 if ordered or (site + site // self.side) % 2 else -1 for site in sites]
        self.level = 0 if ordered else self.side**2
        while not self.low <= self.level <= self.high:
            self._approach()

    def _change(self, site: int) -> int:
        """Return by how many levels the energy rises when a spin is flipped."""
        return self.spins[site] * sum(self.spins[each] for each in self.neighbours[site]) // 2

    def _approach(self) -> None:
        site = self.rng.randrange(len(self.spins))
        change = self._change(site)
        if change * (self.level - self.low) <= 0 or self.rng.random() < 0.1:
            self.spins[site] *= -1
            self.level += change

    def walk(self, steps: int) -> None:
        """Make steps, of which each adds to ln g where the walker is then."""
        rng, spins, level, ln_f = self.rng.random, self.spins, self.level, self.ln_f
        ln_g, visits = self.ln_g.tolist(), self.visits.tolist()
        neighbours, low, high, sites, exp = self.neighbours, self.low, self.high, len(self.spins), math.exp
        for _ in range(steps):
            site = int(rng() * sites)
            a, b, c, d = neighbours[site]
            new = level + spins[site] * (spins[a] + spins[b] + spins[c] + spins[d]) // 2
            if low <= new <= high:
                ahead = ln_g[new] - ln_g[level]
                if ahead <= 0 or rng() < exp(-ahead):
                    spins[site] = -spins[site]
                    level = new
            ln_g[level] += ln_f
            visits[level] += 1
        self.level, self.ln_g, self.visits = level, np.array(ln_g), np.array(visits)
        self.steps += steps

    def average(self, estimates: np.ndarray, visits: np.ndarray) -> None:
        """Take the mean of a window's estimates, and make smaller steps in ln g when all levels were visited alike."""
        self.ln_g[self.window] = sum(estimates) / len(estimates)
        counts = sum(visits)[np.array(self.levels) - self.low]
        if self.ln_f > len(self.levels) / self.steps:
            if counts.min() > FLAT * counts.mean():
                self.ln_f, self.visits = self.ln_f / 2, np.zeros(len(self.visits))
        else:
            self.ln_f = len(self.levels) / self.steps

    def offer(self) -> tuple[int, bytes, float]:
        """Return what an exchange takes: the level, the spins, and a random number."""
        return self.level, np.array(self.spins, np.int8).tobytes(), self.rng.random()

    def exchange(self, theirs: np.ndarray, bounds: tuple[int, int], mine: Any, offered: Any, chance: float) -> None:
        """Take over the other walker's configuration, where both come to the same decision."""
        here, there = mine[0], offered[0]
        if not (self.low <= there <= self.high and bounds[0] <= here <= bounds[1]):
            return
        ratio = self.ln_g[here] - self.ln_g[there] + (theirs[there] - theirs[here])
        if ratio >= 0 or chance < math.exp(ratio):
            self.level, self.spins = there, np.frombuffer(offered[1], np.int8).tolist()

    def state(self) -> tuple[Any, ...]:
        """Return what changes."""
        return (self.rng.getstate(), self.ln_g, self.visits, self.ln_f, self.steps, self.level, self.spins.copy())

    def become(self, state: tuple[Any, ...]) -> None:
        """Go back to a state."""
        self.rng.setstate(state[0])
        self.ln_g, self.visits, self.ln_f, self.steps, self.level, self.spins = *state[1:-1], state[-1].copy()


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


# ------------------------------------------------------------------------------------------------------------ recovery


class Doors:
    """How a process of the beginning sends to the neighbouring windows, and receives from them.

    A message goes to all doors of a window.  So a door that takes the place of another one has what that had received.
    """

    def __init__(self, mail: MPI.Intracomm, layout: Layout) -> None:
        window = layout.window(mail.rank)
        self.mail, self.is_door = mail, mail.rank in layout.doors(window)
        self.doors = {side: layout.doors(window + side) for side in (UP, DOWN)}
        self.gone: set[int] = set()
        self.received: dict[int, dict[int, Any]] = {UP: {}, DOWN: {}}
        self.sent: list[MPI.Request] = []

    def send(self, side: int, number: int, content: Any) -> None:
        """Send a numbered message to all doors of a neighbour."""
        for door in self.doors[side]:
            if self.is_door:
                self.sent.append(recovery.attempt(self.mail.isend, (number, content), door)[0])

    def receive(self, side: int, number: int) -> Any:
        """Return a neighbour's message of that number, or raise `Lost`; it comes from the first door that lives."""
        received = self.received[side]
        while number not in received:
            if LOST in received:
                raise recovery.Lost(received[LOST])
            living = [door for door in self.doors[side] if door not in self.gone]
            if not living:
                raise recovery.Lost(f"all doors of a window: ranks {[*self.doors[side]]}")
            self._take(side, living[0])
        return received[number]

    def take(self, before: int) -> None:
        """Take what has come so far, as doors do that are no gates, and forget what is older than some number."""
        for side, doors in self.doors.items():
            for door in doors:
                while door not in self.gone and recovery.attempt(self.mail.iprobe, door)[0]:
                    self._take(side, door)
            self.received[side] = {each: content for each, content in self.received[side].items() if each >= before}

    def _take(self, side: int, door: int) -> None:
        letter, well = recovery.attempt(self.mail.recv, source=door)
        if well:
            self.received[side][letter[0]] = letter[1]
        else:
            self.gone.add(door)


class Member:
    """A process of a window: a walker, its checkpoints, and if it is there from the beginning, doors to the others."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.window, self.doors = arguments, arguments.window, None
        self.buddies = recovery.Buddies()

    def divide(self, world: MPI.Intracomm) -> tuple[MPI.Intracomm, MPI.Intracomm]:
        """Return the window's communicator, and one for what goes between windows."""
        layout = self.layout(world.size)
        return world.Split(layout.window(world.rank), world.rank), world.Dup()

    def layout(self, ranks: int) -> Layout:
        """Return the division of so many ranks into windows."""
        return Layout(ranks, min(self.arguments.windows or 4, max(1, ranks // 2)))

    def begin(self, comm: MPI.Intracomm, mail: MPI.Intracomm) -> None:
        """Begin as a first process of a window; those that will be started for it know by an argument which it is."""
        layout = self.layout(mail.size)
        self.window, self.doors = layout.window(mail.rank), Doors(mail, layout)
        sys.argv += ["--window", str(self.window)]
        self.start(comm, layout.windows)
        self.gate = 0

    def start(self, comm: MPI.Intracomm, windows: int) -> None:
        """Stand at the beginning."""
        self.bounds = windows_of(self.arguments.side, windows)
        self.walker = Walker(self.arguments, self.window, self.bounds[self.window], comm.rank)
        self.round, self.last_sent = 0, {}

    def compute(self, comm: MPI.Intracomm) -> list[np.ndarray]:
        """Sample all rounds from here on, and return ln g of this window and of all above."""
        return self.or_tell(self._compute, comm)

    def _compute(self, comm: MPI.Intracomm) -> list[np.ndarray]:
        arguments = self.arguments
        while self.round < arguments.rounds:
            self.buddies.save(comm, self.round, self.state())
            recovery.die_at(arguments.die, self.round)
            time.sleep(arguments.work)
            self.walker.walk(arguments.sweeps * arguments.side**2)
            self.average(comm)
            self.exchange(comm)
            self.round += 1
        self.buddies.save(comm, self.round, self.state())
        found = [self.walker.ln_g]
        if self.window + 1 < len(self.bounds):
            found += self.received(comm, UP, arguments.rounds + 1)
        if self.window and self.doors:
            self.doors.send(DOWN, arguments.rounds + 1, found)
        if self.window:
            self.received(comm, DOWN, arguments.rounds + 2)  # they have it, and know that all is right
        return found

    def average(self, comm: MPI.Intracomm) -> None:
        """Average over the window's walkers, in the order of the ranks, so that nothing depends on the MPI."""
        window = self.walker.window
        own = np.concatenate((self.walker.ln_g[window], self.walker.visits[window]))
        all_of_them = np.empty((comm.size, len(own)))
        comm.Allgather(own, all_of_them)
        self.walker.average(*np.split(all_of_them, 2, axis=1))

    def exchange(self, comm: MPI.Intracomm) -> None:
        """Exchange configurations with the window above in every other round, and with the one below between."""
        side = UP if (self.window + self.round) % 2 == 0 else DOWN
        if not 0 <= self.window + side < len(self.bounds):
            return
        mine = self.walker.offer()
        if self.doors and self.doors.is_door:
            self.doors.take(self.round - 2)
        self.last_sent[side] = (self.round, self.walker.ln_g, mine)
        self.send_again(comm, side)
        ln_g, offers = self.received(comm, side, self.round)
        if comm.rank < len(offers):
            theirs = offers[comm.rank]
            chance = mine[2] if side == UP else theirs[2]
            self.walker.exchange(ln_g, self.bounds[self.window + side], mine, theirs, chance)

    def send_again(self, comm: MPI.Intracomm, side: int) -> None:
        """Send what was last offered to a neighbour, for the first time, or because it may not have got it."""
        number, ln_g, mine = self.last_sent[side]
        offers = comm.gather(mine, root=self.gate)
        if comm.rank == self.gate:
            self.doors.send(side, number, (ln_g, offers))

    def received(self, comm: MPI.Intracomm, side: int, number: int) -> Any:
        """Return a message of a neighbour, which the gate receives for all; or raise `Lost`."""
        content = None
        if comm.rank == self.gate:
            try:
                content = self.doors.receive(side, number)
            except recovery.Lost as lost:
                content = str(lost)
        content = comm.bcast(content, root=self.gate)
        if isinstance(content, str):
            raise recovery.Lost(content)
        return content

    def or_tell(self, call: Callable[[MPI.Intracomm], Any], comm: MPI.Intracomm) -> Any:
        """Do something, and tell both neighbours if data are lost, for they would wait."""
        try:
            return call(comm)
        except recovery.Lost as lost:
            for side in (UP, DOWN):
                if self.doors:
                    self.doors.send(side, LOST, str(lost))
            raise

    def restore(self, comm: MPI.Intracomm) -> None:
        """Go back to the last checkpoint that all of the window have, and send again what may have been lost."""
        self.or_tell(self._restore, comm)

    def _restore(self, comm: MPI.Intracomm) -> None:
        there = comm.allgather((bool(self.doors and self.doors.is_door), self.doors and self.doors.mail.size))
        gates = [rank for rank, (is_door, _) in enumerate(there) if is_door]
        if not gates:
            raise recovery.Lost(f"all doors of window {self.window}, which has only new processes")
        self.gate = gates[0]
        saved = self.buddies.restore(comm)
        self.start(comm, self.layout(there[self.gate][1]).windows)
        if saved:
            self.round, (state, last_sent) = saved
            self.walker.become(state)
            self.last_sent = dict(last_sent)
            for side in sorted(self.last_sent):
                self.send_again(comm, side)

    def release(self) -> None:
        """Tell the window above that nobody below needs it any more."""
        if self.doors:
            self.doors.send(UP, self.arguments.rounds + 2, True)

    def state(self) -> tuple[Any, ...]:
        """Return what a checkpoint holds."""
        return self.walker.state(), dict(self.last_sent)


def repaired(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Replace the dead of a window, and say so."""
    made = recovery.replace(comm)
    dead = recovery.known_dead(comm)
    if comm.rank == min({*range(comm.size)}.difference(dead)):
        window = sys.argv[sys.argv.index("--window") + 1] if "--window" in sys.argv else "all"
        print(f"# window {window}: replaced {dead} after {MPI.Wtime():.3f} s", flush=True)
    return made


# ------------------------------------------------------------------------------------------------------------- judging


def joined(estimates: list[np.ndarray], bounds: list[tuple[int, int]], side: int) -> np.ndarray:
    """Return ln g of all levels: windows are joined where their slopes are most alike, and g of the lowest is 2."""
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


def exact(side: int) -> np.ndarray:
    """Return ln g of all levels as far as it is known, else nan."""
    energies = np.abs(4 * np.array(levels_of(side)) - 2 * side**2)
    known = EXACT_4X4 if side == 4 else {2 * side**2: 2, 2 * side**2 - 8: 2 * side**2, 2 * side**2 - 12: 4 * side**2}
    return np.log([known.get(energy, math.nan) for energy in energies.tolist()])


def at_temperature(ln_g: np.ndarray, side: int, temperature: float) -> tuple[float, float]:
    """Return the mean energy and the heat capacity of a spin."""
    energies = 4.0 * np.array(levels_of(side)) - 2 * side**2
    weights = ln_g - energies / temperature
    weights = np.exp(weights - weights.max())
    mean, square = (np.average(energies**power, weights=weights) for power in (1, 2))
    return mean / side**2, (square - mean**2) / temperature**2 / side**2


def judged(arguments: argparse.Namespace, member: Member, estimates: list[np.ndarray]) -> tuple[list[str], bool]:
    """Return what to print of ln g of all windows, and whether it is right."""
    side = arguments.side
    ln_g = joined(estimates, member.bounds, side)
    off = float(np.nanmax(np.abs(ln_g - exact(side))))
    energy, capacity = at_temperature(ln_g, side, CRITICAL)
    lines = [
        f"wang_landau: {side}x{side} spins, {len(estimates)} windows, ln f {member.walker.ln_f:.3e}",
        f"ln g is off by at most {off:.4f}; at T = {CRITICAL} E/N {energy:.6f}, C/N {capacity:.6f}",
        f"state {zlib.crc32(np.concatenate(estimates).tobytes()):08x}",
    ]
    return lines, off < arguments.tolerance


def main() -> None:
    """Sample, and let nobody's death change what comes out."""
    arguments = parse_arguments()
    member = Member(arguments)
    comm, new = recovery.joined(), arguments.window is not None
    if not new:
        (comm, mail), _ = recovery.until_agreed(comm, member.divide, repaired)
        member.begin(comm, mail)
    found, comm = recovery.roll_back_until_agreed(comm, member.compute, member.restore, repaired, restoring=new)
    if member.window == 0:
        try:
            recovery.conclude(comm, *judged(arguments, member, found))
        finally:
            member.release()
    member.release()


if __name__ == "__main__":
    main()
