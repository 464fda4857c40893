"""Lattice Boltzmann: failed processes are replaced, their fluid by averages.

A fluid on a periodic lattice (D2Q9, one relaxation time), in strips of rows, one per rank; its Taylor-Green vortices
decay. When processes fail, new ones take over their strips, whose data are lost entirely. Density and velocity of a
lost row are the means of those of the nearest surviving rows above and below it (`--average column`), or over the whole
neighbouring strips (`--average block`), and the populations are their equilibrium. The survivors keep their own strips
at the last step that all have reached, which costs a copy and a barrier every few steps, and no message. So a failure
costs accuracy instead of time, little if the flow is smooth, and viscosity reduces the error. With `--recovery buddy`
the neighbours have copies, and only the time changes.

HemeLB, the flow solver of University College London, planned this recovery in the CRESTA project ("re-initialize
substitute processor with average mass flow, velocity from neighbors", ULFM tutorials of 2014). Lattice, failures and
recovery are real; HemeLB's three-dimensional blood vessels are reduced to a plane for which there is a formula.

    xsim run -n 16 lattice_boltzmann.py --die 8@64
    xsim run -n 16 --fail "rank=8@20ms" lattice_boltzmann.py --recovery buddy
    mpirun --with-ft ulfm -n 16 python lattice_boltzmann.py --die 8@64

Validation: the velocity is that of the formula (Taylor, Green 1937), except for the lattice's own error and for the
effect of the same averages in the formula's velocity. The mass is conserved, except for their effect in the formula's
density. Without losses rank 0 also computes all steps alone, if these are not too many, and the bits are the same.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UP, DOWN, MEANS = 1, 2, 3
MOST_TWIN_PLACES = 4_000_000  # of all steps: a second or two of one core
X = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
Y = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)[:, None, None]
TO_UP, TO_DOWN = [2, 5, 6], [4, 7, 8]  # the populations that move to the next row, and to the previous one


def parse_arguments(ranks: int) -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--columns", type=recovery.number(int, 4), default=64, help="the length of a row, and of a vortex pair")
    add("--rows", type=recovery.positive, help="a multiple of --columns (default: the smallest with two rows per rank)")
    add("--steps", type=recovery.positive, default=256, help="number of time steps")
    add("--every", type=recovery.positive, default=8, help="steps between copies")
    add(
        "--tau",
        type=recovery.number(float, above=0.5),
        default=0.8,
        help="relaxation time, which determines the viscosity",
    )
    add(
        "--speed",
        type=recovery.number(float, above=0, below=0.2),
        default=0.02,
        help="largest velocity at the beginning",
    )
    add("--recovery", choices=["average", "buddy"], default="average", help="source of lost strips")
    add("--average", choices=["column", "block"], default="column", help="average over a column or over a block")
    add("--work", type=recovery.seconds, default=0.0, metavar="SECONDS", help="duration of a step")
    args = parser.parse_args()
    if args.rows is None:
        args.rows = args.columns * -(-2 * ranks // args.columns)
    if args.rows < ranks or args.rows % args.columns:
        parser.error(f"--rows {args.rows}: not a multiple of --columns {args.columns} from {ranks} on, a row a rank")
    return args


# ----------------------------------------------------------------------------------------------------------- the fluid


def equilibrium(density: np.ndarray, across: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Return the populations to which a fluid of this density and velocity relaxes."""
    flow = X[:, None, None] * across + Y[:, None, None] * along
    return WEIGHTS * density * (1 + 3 * flow + 4.5 * flow * flow - 1.5 * (across * across + along * along))


def moments(populations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return density, and velocity along the rows and along the columns."""
    rest, east, north, west, south, ne, nw, sw, se = populations
    density = rest + east + north + west + south + ne + nw + sw + se
    across, along = (east + ne + se) - (west + nw + sw), (north + ne + nw) - (south + sw + se)
    return density, across / density, along / density


class Vortices(NamedTuple):
    """The formula: Taylor-Green vortices, which keep their shape and decay."""

    columns: int
    speed: float
    viscosity: float

    @property
    def wave(self) -> float:
        """The wave number."""
        return 2 * math.pi / self.columns

    def decay(self, steps: float) -> float:
        """Return the remaining share of the velocity after a number of steps."""
        return math.exp(-2 * self.viscosity * self.wave**2 * steps)

    def at(self, rows: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return density and velocity in some rows at a step."""
        x, y = np.arange(self.columns)[None, :], rows[:, None]
        speed = self.speed * self.decay(step)
        density = 1 - 0.75 * speed**2 * (self.wave_of(math.cos, 2 * x) + self.wave_of(math.cos, 2 * y))
        across = -speed * self.wave_of(math.cos, x) * self.wave_of(math.sin, y)
        return density, across, speed * self.wave_of(math.sin, x) * self.wave_of(math.cos, y)

    def wave_of(self, function: Callable[[float], float], places: np.ndarray) -> np.ndarray:
        """Return a wave at some sites, by own arithmetic: numpy's functions differ between computers."""
        return np.array([function(self.wave * place) for place in places.ravel().tolist()]).reshape(places.shape)


class Strip:
    """One rank's rows of the lattice."""

    def __init__(self, args: argparse.Namespace, rank: int, ranks: int) -> None:
        self.args = args
        self.rows = rows_of(rank, ranks, args.rows)
        self.vortices = Vortices(args.columns, args.speed, (args.tau - 0.5) / 3)
        self.copies = recovery.Buddies() if args.recovery == "buddy" else recovery.Copies()
        of, row, column = np.ogrid[:9, : len(self.rows), : args.columns]
        shape, origins = (9, len(self.rows) + 2, args.columns), (row + 1 - Y[of], (column - X[of]) % args.columns)
        self.sources = np.ravel_multi_index(np.broadcast_arrays(of, *origins), shape)  # the origin of populations
        self.start()

    def start(self) -> None:
        """Start at step 0."""
        self.step, self.lost = 0, frozenset[Loss]()
        self.populations = equilibrium(*self.vortices.at(self.rows, 0))

    def compute(self, comm: MPI.Intracomm) -> Result:
        """Compute all remaining steps, and return the result."""
        while self.step < self.args.steps:
            if self.step % self.args.every == 0:
                self.copies.save(comm, self.step, (self.populations, self.lost))
            recovery.die_at(self.args.die, self.step)
            self.advance(comm)
        return self.result(comm)

    def advance(self, comm: MPI.Intracomm) -> None:
        """Compute one step: relax, and move to the neighbouring sites."""
        if self.args.work:
            time.sleep(self.args.work)
        after = self.relaxed()
        up, down = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        below, above = np.empty((2, 3, self.args.columns))
        comm.Sendrecv(after[TO_UP, -1], up, UP, below, down, UP)
        comm.Sendrecv(after[TO_DOWN, 0], down, DOWN, above, up, DOWN)
        self.move(after, below, above)

    def relaxed(self) -> np.ndarray:
        """Return the populations after a step's collisions."""
        return self.populations + (equilibrium(*moments(self.populations)) - self.populations) / self.args.tau

    def move(self, after: np.ndarray, below: np.ndarray, above: np.ndarray) -> None:
        """Move all populations by one site, including those of the neighbours' nearest rows."""
        wide = np.empty((9, len(self.rows) + 2, self.args.columns))
        wide[:, 1:-1], wide[TO_UP, 0], wide[TO_DOWN, -1] = after, below, above
        self.populations = wide.take(self.sources)
        self.step += 1

    def state(self) -> int:
        """Return the sum of the checksums of all rows."""
        rows = zip(self.rows, self.populations.swapaxes(0, 1), strict=True)
        return sum(zlib.crc32(row.tobytes(), int(number)) for number, row in rows)

    def result(self, comm: MPI.Intracomm) -> Result:
        """Return the data for validation."""
        density, *velocity = moments(self.populations)
        exact = self.vortices.at(self.rows, self.step)[1:]
        wrong = sum(((have - want) ** 2).sum() for have, want in zip(velocity, exact, strict=True))
        sums, mine = np.empty(4), np.array([wrong, sum((want**2).sum() for want in exact), density.sum(), 0.0])
        mine[3] = self.vortices.at(self.rows, 0)[0].sum()
        comm.Allreduce(mine, sums)
        check, state = np.array([self.state()]), np.zeros(1, np.int64)
        comm.Allreduce(check, state)
        return Result(math.sqrt(sums[0] / sums[1]), sums[2] / sums[3] - 1, int(state[0]) % 2**32, self.lost)


def rows_of(rank: int, ranks: int, rows: int) -> np.ndarray:
    """Return the numbers of a rank's rows."""
    return np.arange(rank * rows // ranks, (rank + 1) * rows // ranks)


# ----------------------------------------------------------------------------------------------------------- recovery


class Loss(NamedTuple):
    """Rows lost without a copy."""

    step: int
    first: int
    count: int


class Recovery:
    """Recovery of strips after processes have been replaced."""

    def __init__(self, strip: Strip) -> None:
        self.strip = strip

    def restore(self, comm: MPI.Intracomm) -> None:
        """Go back to the last step that all have, with averages for lost strips."""
        strip = self.strip
        if isinstance(strip.copies, recovery.Buddies):
            saved = strip.copies.restore(comm)
            step, data = saved or (0, None)
        else:
            step, data = self.averaged(comm, strip.copies)
        if step == 0:
            strip.start()
        else:
            strip.step, (strip.populations, strip.lost) = step, data

    def averaged(self, comm: MPI.Intracomm, copies: recovery.Copies) -> tuple[int, Any]:
        """Return the last step that all have, and this rank's strip at it, its own or an average."""
        step, there = copies.last(comm)
        if step == 0:
            copies.kept = {}
            return 0, None
        losers, args = np.flatnonzero(~there).tolist(), self.strip.args
        lost = comm.gather(copies.kept[step][1] if step in copies.kept else frozenset(), root=0)
        rows = [rows_of(rank, comm.size, args.rows) for rank in losers]
        lost = comm.bcast(frozenset().union(*lost) if comm.rank == 0 else None, root=0)
        lost = lost.union(Loss(step, int(each[0]), len(each)) for each in rows)
        populations = copies.kept[step][0] if step in copies.kept else None
        mine = self.exchanged(comm, losers, populations)
        if populations is None:
            means = [np.broadcast_to(mean, (len(self.strip.rows), args.columns)) for mean in mine]
            populations = equilibrium(*means)
        copies.kept = {step: (populations, lost)}
        return step, copies.kept[step]

    def exchanged(self, comm: MPI.Intracomm, losers: list[int], populations: np.ndarray | None) -> Any:
        """Send averages to ranks with lost strips; on such a rank, return the mean of those received."""
        given, givers = [], []
        for loser in losers:
            for way in (-1, 1):
                giver = nearest(loser, way, losers, comm.size)
                if populations is not None and giver == comm.rank:
                    given.append(comm.isend(self.means(populations, way), dest=loser, tag=MEANS))
                if loser == comm.rank:
                    givers.append(giver)
        both = [comm.recv(source=giver, tag=MEANS) for giver in givers]
        MPI.Request.waitall(given)
        return [(low + high) / 2 for low, high in zip(*both, strict=True)] if both else None

    def means(self, populations: np.ndarray, way: int) -> list[np.ndarray]:
        """Return density and velocity of the row next to a lost strip, or their means over all rows."""
        if self.strip.args.average == "block":
            return [field.mean(keepdims=True) for field in moments(populations)]
        row = slice(-1, None) if way < 0 else slice(0, 1)
        return list(moments(populations[:, row]))


def nearest(rank: int, way: int, losers: Sequence[int], ranks: int) -> int:
    """Return the nearest rank in one direction that has its strip."""
    while rank in losers:
        rank = (rank + way) % ranks
    return rank


# ---------------------------------------------------------------------------------------------------------- validation


class Result(NamedTuple):
    """The result of a run."""

    error: float
    """The root mean square error of the velocity, relative to the velocity."""
    mass: float
    """The change of the mass, relative to the mass."""
    state: int
    lost: frozenset[Loss]


def allowed(args: argparse.Namespace, vortices: Vortices, lost: frozenset[Loss]) -> tuple[float, float]:
    """Return the bounds on the error of the velocity and on the change of the mass.

    The lattice's own error is of second order in the wave number and in the speed. The error of averages decays as its
    waves do, and each of their edges lacks the viscous stress of a step.
    """
    wave, decayed = vortices.wave, 2 * vortices.viscosity * vortices.wave**2 * args.steps
    error, mass = wave**2 * (abs(args.tau - 1) + decayed / 4) + args.speed**2 / 2, 1e-12
    ages = {args.steps - loss.step for loss in lost}
    for rows in runs(lost, args.rows):
        stress = 2 * vortices.viscosity * wave / math.sqrt(args.rows * vortices.decay(max(ages)))
        error += max(spoilt(args, vortices, rows, age) for age in ages) + stress
        mass += 2 * heavier(args, vortices, rows) + (args.speed * wave) ** 2 * len(rows) / args.rows
    return error, mass


def runs(lost: frozenset[Loss], rows: int) -> list[np.ndarray]:
    """Return the lost rows in runs of consecutive ones."""
    numbers = {row for loss in lost for row in range(loss.first, loss.first + loss.count)}
    begins = [row for row in sorted(numbers) if (row - 1) % rows not in numbers]
    if numbers and not begins:
        return [np.arange(rows)]
    ends = [next(row for row in range(begin, begin + rows) if row % rows not in numbers) for begin in begins]
    return [np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)]


def spoilt(args: argparse.Namespace, vortices: Vortices, rows: np.ndarray, age: int) -> float:
    """Return the relative error of the formula's velocity due to averages, after some steps."""
    if len(rows) == args.rows:  # the flow may disappear entirely
        return 2 / vortices.decay(age)
    total, waves = 0.0, 2 * math.pi * np.fft.fftfreq(args.rows)
    for profile in (np.sin, np.cos):  # of the two velocities, along the columns
        wrong, ends = np.zeros(args.rows), profile(vortices.wave * (rows[[0, -1]] + [-1, 1]))
        mean = 0.0 if args.average == "block" else ends.mean()
        wrong[rows % args.rows] = mean - profile(vortices.wave * rows)
        left = np.exp(2 * vortices.viscosity * (vortices.wave**2 - waves**2) * age)
        total += (np.abs(np.fft.fft(wrong)) ** 2 * left).sum()
    return math.sqrt(total) / args.rows


def heavier(args: argparse.Namespace, vortices: Vortices, rows: np.ndarray) -> float:
    """Return the bound on the relative change of the formula's mass by averages in some rows."""
    if args.average == "block" or len(rows) == args.rows:
        return 1.5 * args.speed**2 * len(rows) / args.rows
    ends, own = (vortices.at(some, 0)[0].mean(axis=1) for some in (rows[[0, -1]] + [-1, 1], rows))
    return float(np.abs(ends.mean() - own).sum()) / args.rows


def alone(args: argparse.Namespace) -> int:
    """Return the state that one process computes alone."""
    whole = Strip(args, 0, 1)
    while whole.step < args.steps:
        after = whole.relaxed()
        whole.move(after, after[TO_UP, -1], after[TO_DOWN, 0])
    return whole.state() % 2**32


def main() -> None:
    """Compute, with the smallest effect of failures."""
    comm = recovery.joined()
    args = parse_arguments(comm.size)
    strip = Strip(args, comm.rank, comm.size)
    result, comm = recovery.roll_back_until_agreed(comm, strip.compute, Recovery(strip).restore)
    error, mass = allowed(args, strip.vortices, result.lost)
    lines = [f"lattice_boltzmann: {comm.size} ranks, {args.rows} x {args.columns} places, {args.steps} steps"]
    lines += [f"rows {first} to {first + count - 1} averaged at step {at}" for at, first, count in sorted(result.lost)]
    lines += [f"error of the velocity {result.error:.6f}, at most {error:.6f}"]
    if result.lost:
        lines.append(f"mass changed by {result.mass:.2e}, at most {mass:.2e}")
    else:
        lines.append(f"state {result.state:08x}")
    right = bool(result.error <= error and abs(result.mass) <= mass)
    if not result.lost and comm.rank == 0 and args.rows * args.columns * args.steps <= MOST_TWIN_PLACES:
        right = right and alone(args) == result.state
    recovery.conclude(comm, lines, right)


if __name__ == "__main__":
    main()
