"""Multilevel Monte Carlo that continues after failures, with fewer samples.

The mean of a geometric Brownian motion, dX = mu X dt + sigma X dW with X(0) = 1, is estimated on levels 0 to L: level l
takes 2**l Euler steps to time 1, and its samples are of the difference from level l - 1 along the same Brownian path.
Teams of processes make samples, some teams on each level, larger ones on finer levels, where each process of a team has
a part of the time axis. A team with a failed process stops, and no other team is affected. At the end a barrier and an
agreement determine the failed ranks. The lowest surviving process of a level is its root and collects the results of
its teams; the mean is that of the available samples. If a process fails meanwhile, new roots are elected, and repeat
the collection.

With `--save late` the samples of a team are lost when one of its processes fails, because each has its part of them.
With `--save intermediate` each process sends its sums to a keeper in another team after each portion: only the current
portion is lost. A level without remaining samples is missing from the mean, which is then wrong by the contribution of
that level.

This is FT-MLMC by Pauli, Kohler and Arbenz (ETH Zurich: "A fault tolerant implementation of multi-level Monte Carlo
methods", 2013), without its finite volumes. On 46 processes there are, as there, two teams of 16 on level 5, two of 4
on level 4, and two of one process each for level 3, for level 2, and for levels 1 and 0 together. The samples, the
distribution of work, saving, elections and collecting are real; `--work` declares the cost of a sample.

    xsim run -n 46 ft_mlmc.py
    xsim run -n 46 --fail rank=40@1ms --fail rank=41@1ms ft_mlmc.py
    mpirun --with-ft ulfm -n 10 python ft_mlmc.py --die 2@5 --save intermediate

Validation: one process recomputes the samples that the sums claim to contain, and the sums must agree bit for bit. At
time 1 they must also agree with a second method, in which X is a product, and some walks are flipped coin by coin. The
mean and the variance of each level must be within `WELL_WITHIN` standard errors of their closed forms. So must the
total mean, whose standard error is that of the remaining samples.
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MU, SIGMA = 0.05, 0.2
UNIT = 2.0**-32  # unit of all sums, which are whole numbers, so that their order does not matter
CHUNK = 4096  # samples made at once
WELL_WITHIN = 5.0  # standard errors
FLIPPED = 16  # samples per level whose walks are flipped coin by coin


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add(
        "--samples",
        type=_counts,
        default=(4096, 512, 256, 128, 64, 32),
        metavar="M0,M1,...",
        help="how many samples each level has, from the coarsest on",
    )
    add("--teams", type=recovery.positive, help="how many teams each level has (two for each 46 processes)")
    add("--units", type=recovery.positive, default=16, help="in how many portions a team makes a level")
    add("--save", choices=("late", "intermediate"), default="late", help="when samples are saved")
    add("--work", type=recovery.seconds, default=0.0, help="seconds that a finest sample takes one process")
    add("--seed", type=recovery.natural, default=0, help="which samples are drawn")
    add("--at", type=recovery.number(float, 0, 1), help="a time of which the mean is printed, too")
    return parser.parse_args()


def _counts(text: str) -> tuple[int, ...]:
    """Read numbers of samples."""
    counts = tuple(recovery.positive(word) for word in text.split(","))
    if len(counts) > 16:
        raise argparse.ArgumentTypeError(f"{text!r} is {len(counts)} levels, and at most 16 are allowed")
    return counts


# ------------------------------------------------------------------------------------------------------------- samples


def mixed(words: np.ndarray) -> np.ndarray:
    """Scramble 64-bit words, by the last step of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def walks(seed: int, level: int, samples: range, steps: range) -> np.ndarray:
    """Return the ends of walks of 64 coin flips, one for each sample and step.

    Divided by 8 they have exactly the mean and variance of Brownian motion at time 1, and nearly its distribution. They
    depend only on the arguments, so that any rank can compute them.
    """
    stream = mixed(mixed(np.array([seed], np.uint64)) + np.uint64(level))
    rows = mixed(stream + np.arange(samples.start, samples.stop, dtype=np.uint64))
    words = mixed(rows[:, None] + mixed(np.arange(steps.start + 1, steps.stop + 1, dtype=np.uint64)))
    words = words - ((words >> np.uint64(1)) & np.uint64(0x5555555555555555))
    words = (words & np.uint64(0x3333333333333333)) + ((words >> np.uint64(2)) & np.uint64(0x3333333333333333))
    words = (words + (words >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    ones = (words * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return 2 * ones.astype(np.int16) - 64


def euler(increments: np.ndarray) -> np.ndarray:
    """Return X after each of Euler's steps to time 1, given the increments of W."""
    steps = increments.shape[1]
    path, x = np.empty(increments.shape), np.ones(len(increments))
    for step in range(steps):
        x = x * (1 + MU / steps + SIGMA * increments[:, step])
        path[:, step] = x
    return path


def differences(level: int, walked: np.ndarray) -> np.ndarray:
    """Return X of a level minus X of the one below, interpolated linearly to the level's times."""
    increments = walked * (math.sqrt(0.5**level) / 8)
    fine = euler(increments)
    return fine - refined(euler(increments[:, ::2] + increments[:, 1::2])) if level else fine


def refined(path: np.ndarray) -> np.ndarray:
    """Return paths at twice the number of times."""
    before = np.hstack((np.ones((len(path), 1)), path[:, :-1]))
    return np.stack(((before + path) / 2, path), axis=2).reshape(len(path), -1)


def in_units(values: np.ndarray) -> np.ndarray:
    """Return sums of values, and of their squares, over the samples."""
    return np.array([np.rint(each / UNIT).astype(np.int64).sum(axis=0) for each in (values, values * values)])


# -------------------------------------------------------------------------------------------------------- closed forms


def mean_after(level: int, steps: float) -> float:
    """Return E[X] after some steps of a level."""
    return (1 + MU / 2**level) ** steps


def mean_of(level: int) -> float:
    """Return the contribution of a level to the mean at time 1: E[X_l - X_(l-1)]."""
    return mean_after(level, 2**level) - (mean_after(level - 1, 2 ** (level - 1)) if level else 0)


def variance_of(level: int) -> float:
    """Return Var[X_l - X_(l-1)] at time 1."""
    if not level:
        return SIGMA**2
    h = 1 / 2**level
    square = ((1 + MU * h) ** 2 + SIGMA**2 * h) ** 2**level
    square_below = ((1 + 2 * MU * h) ** 2 + 2 * SIGMA**2 * h) ** 2 ** (level - 1)
    product = ((1 + MU * h) ** 2 * (1 + 2 * MU * h) + 2 * (1 + MU * h) * SIGMA**2 * h) ** 2 ** (level - 1)
    return square - 2 * product + square_below - mean_of(level) ** 2


def kurtosis_of(level: int) -> float:
    """Return E[(D - E[D])^4] / Var[D]^2 of D = X_l - X_(l-1) at time 1, from a walk's distribution.

    From level 6 on it is constant up to round-off.
    """
    level = min(level, 6)
    h = 1 / 2**level
    chances = np.array([math.comb(64, heads) / 2.0**64 for heads in range(65)])
    step = 1 + MU * h + SIGMA * (np.arange(-64, 65, 2) * math.sqrt(h) / 8)
    if not level:
        return float((chances * (step - 1 - MU) ** 4).sum()) / SIGMA**4
    fine, coarse = np.outer(step, step), step[:, None] + step - 1
    mean, moments = mean_of(level), []
    for power in range(5):  # E[(fine path - coarse path)^power]
        terms = (
            (-1) ** k * math.comb(power, k) * (chances @ (fine ** (power - k) * coarse**k) @ chances) ** (2**level // 2)
            for k in range(power + 1)
        )
        moments.append(math.fsum(terms))
    centred = math.fsum(math.comb(4, k) * moments[k] * (-mean) ** (4 - k) for k in range(5))
    return centred / variance_of(level) ** 2


# -------------------------------------------------------------------------------------------------------------- layout


class Job(NamedTuple):
    """Samples that a team makes in one portion."""

    level: int
    samples: range


class Layout:
    """The distribution of work: stations have levels and teams of one size; ranks may be idle."""

    def __init__(self, ranks: int, arguments: argparse.Namespace) -> None:
        self.samples, self.units = arguments.samples, arguments.units
        finest = len(self.samples) - 1
        self.teams = min(ranks, arguments.teams or 2 * max(1, ranks // 46))
        alone = min(max(finest, 1), ranks // self.teams) - 1
        self.levels = [[finest - each] for each in range(alone)] + [[*range(finest - alone, -1, -1)]]
        self.sizes = [1] * len(self.levels)
        while self.teams * (sum(self.sizes) + 1) <= ranks:
            busiest = max(range(len(self.sizes)), key=self._load)
            if self.sizes[busiest] == 2 ** self.levels[busiest][0]:
                break
            self.sizes[busiest] += 1
        self.first = [self.teams * sum(self.sizes[:station]) for station in range(len(self.sizes) + 1)]

    def _load(self, station: int) -> float:
        return sum(self.samples[level] * 8.0**level for level in self.levels[station]) / self.sizes[station]

    def place(self, rank: int) -> Place | None:
        """Return the place of a rank, or None."""
        for station, (first, end) in enumerate(pairwise(self.first)):
            if first <= rank < end:
                return Place(station, *divmod(rank - first, self.sizes[station]))
        return None

    def jobs(self, station: int, team: int) -> Iterator[Job]:
        """Yield a team's jobs in order."""
        for level in self.levels[station]:
            block = _part(self.samples[level], team, self.teams)
            units = min(self.units, len(block))
            yield from (Job(level, block[each.start : each.stop]) for each in _parts(len(block), units))

    def steps(self, place: Place, level: int) -> range:
        """Return the steps of a level whose walks and sums belong to a process."""
        return _part(2**level, place.part, self.sizes[place.station])

    def offsets(self, place: Place) -> dict[int, slice]:
        """Return the offsets of the levels' sums in a joint array."""
        slices, end = {}, 0
        for level in self.levels[place.station]:
            length = 2 * len(self.steps(place, level))
            slices[level] = slice(end, end + length)
            end += length
        return slices

    def keeper(self, rank: int, distance: int = 1) -> int:
        """Return the keeper of a rank's sums, in a distant team, as a whole level may fail."""
        return (rank + distance * max(self.sizes)) % self.first[-1]


class Place(NamedTuple):
    """The place of a process: its part of a team of a station."""

    station: int
    team: int
    part: int


def _part(whole: int, number: int, parts: int) -> range:
    """Return one of several nearly equal parts of a range."""
    return range(whole * number // parts, whole * (number + 1) // parts)


def _parts(whole: int, parts: int) -> Iterator[range]:
    return (_part(whole, number, parts) for number in range(parts))


# ------------------------------------------------------------------------------------------------------------ sampling


class Sampler:
    """One process, with the sums of its part of its team's samples."""

    def __init__(self, arguments: argparse.Namespace, layout: Layout, place: Place) -> None:
        self.arguments, self.layout, self.place = arguments, layout, place
        self.offsets = layout.offsets(place)
        self.size = layout.sizes[place.station]
        self.sums = np.zeros(max(each.stop for each in self.offsets.values()), np.int64)

    def make(self, team: MPI.Intracomm, job: Job) -> None:
        """Make samples together with the rest of the team."""
        own = self.layout.steps(self.place, job.level)
        made = walks(self.arguments.seed, job.level, job.samples, own)
        finest = len(self.layout.samples) - 1
        time.sleep(self.arguments.work * len(job.samples) * 8.0 ** (job.level - finest) / self.size)
        everything = np.concatenate(team.allgather(made), axis=1) if self.size > 1 else made
        mine = differences(job.level, everything)[:, own.start : own.stop]
        self.sums = self.sums.copy()
        self.sums[self.offsets[job.level]] += in_units(mine).ravel()


# ------------------------------------------------------------------------------------------------------------ recovery


class Copies:
    """This process's sums in flight to their keeper, and those kept for another process.

    They travel on a separate communicator that is never revoked: ranks that have found a failure do not disturb ranks
    that are still working.
    """

    def __init__(self, mail: MPI.Intracomm, layout: Layout) -> None:
        self.mail, self.sent = mail, []
        rank, group = MPI.COMM_WORLD.rank, mail.group
        whose = layout.keeper(rank, -1)
        self.keeper, self.source = MPI.Group.Translate_ranks(MPI.COMM_WORLD.group, [layout.keeper(rank), whose], group)
        self.place = layout.place(whose)
        self.held: dict[int, np.ndarray] = {}
        size = 1 + max(each.stop for each in layout.offsets(self.place).values())
        jobs = layout.jobs(self.place.station, self.place.team) if self.source != MPI.UNDEFINED else ()
        letters = [np.zeros(size, np.int64) for _ in jobs]
        # All receives are posted now, because none can be posted for messages of a rank known to have failed.
        self.coming = [(recovery.attempt(mail.Irecv, letter, self.source)[0], letter) for letter in letters]

    def send(self, done: int, sums: np.ndarray) -> None:
        """Send the keeper the sums of a number of jobs."""
        if self.keeper != MPI.UNDEFINED:
            letter = np.concatenate(([done], sums))
            request, _ = recovery.attempt(self.mail.Isend, letter, self.keeper)
            self.sent.append((request, letter))

    def take(self) -> None:
        """Receive the available copies, of which the last two count."""
        while self.coming:
            request, letter = self.coming[0]
            come, well = recovery.attempt(request.Test) if request else (None, False)
            if not well:
                self.coming.clear()
            elif not come:
                return
            else:
                self.held = last_two(self.held, int(letter[0]), letter[1:])
                del self.coming[0]


def last_two(states: dict[int, np.ndarray], done: int, sums: np.ndarray) -> dict[int, np.ndarray]:
    """Return the sums after the last two jobs: a team may stop with ranks one job apart."""
    return {done: sums, **{jobs: each for jobs, each in states.items() if jobs == done - 1}}


class Survivor:
    """A process that samples while its team survives, and reports its sums."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.layout = Layout(MPI.COMM_WORLD.size, arguments)
        self.place = self.layout.place(MPI.COMM_WORLD.rank)
        self.states: dict[int, np.ndarray] = {}
        self.copies: Copies | None = None

    def divide(self, comm: MPI.Intracomm) -> tuple[MPI.Intracomm, MPI.Intracomm]:
        """Return the communicator of the team, and one for copies."""
        first = MPI.COMM_WORLD.rank - (self.place.part if self.place else 0)
        return comm.Split(first, comm.rank), comm.Dup()

    def sample(self, team: MPI.Intracomm, mail: MPI.Intracomm) -> None:
        """Make the team's samples; after a failure, its members wake each other and stop."""
        if not self.place:
            return
        sampler = Sampler(self.arguments, self.layout, self.place)
        if self.arguments.save == "intermediate" and self.layout.keeper(0):
            self.copies = Copies(mail, self.layout)
        for number, job in enumerate(self.layout.jobs(self.place.station, self.place.team)):
            recovery.die_at(self.arguments.die, number)
            _, well = recovery.attempt(sampler.make, team, job) if team.size == sampler.size else (None, False)
            if not well:
                team.Revoke()
                return
            self.states = last_two(self.states, number + 1, sampler.sums)
            if self.copies:
                self.copies.send(number + 1, sampler.sums)
                self.copies.take()

    def collect(self, comm: MPI.Intracomm) -> tuple[list[str], bool]:
        """Send all sums to the roots of their levels, from there to rank 0, and the result to all."""
        comm.Barrier()
        parcels = self.parcels()
        roots, counts = self.elected(comm, parcels)
        on_the_way = [comm.isend(parcel, roots[station], station) for station, parcel in parcels.items()]
        for station in (station for station, root in roots.items() if root == comm.rank):
            received = [parcel for _ in range(counts[station]) for parcel in comm.recv(tag=station)]
            on_the_way.append(comm.isend(summed(self.layout, station, received), 0, len(counts) + station))
        found = None
        if comm.rank == 0:
            sums = {station: comm.recv(source=root, tag=len(counts) + station) for station, root in roots.items()}
            found = judged(self.arguments, self.layout, sums)
        MPI.Request.waitall(on_the_way)
        found = comm.bcast(found)
        if not found:
            raise recovery.Lost("all samples of all levels")
        return found

    def parcels(self) -> dict[int, list[tuple[int, int, dict[int, np.ndarray]]]]:
        """Return the local sums for the root of each station: team, part, sums."""
        owned = [(self.place, self.states)] if self.place else []
        if self.copies:
            self.copies.take()
            owned.append((self.copies.place, self.copies.held))
        parcels: dict[int, list[tuple[int, int, dict[int, np.ndarray]]]] = {}
        for place, states in owned:
            parcels.setdefault(place.station, []).append((place.team, place.part, states))
        return parcels

    def elected(self, comm: MPI.Intracomm, stations: Iterable[int]) -> tuple[dict[int, int], np.ndarray]:
        """Elect the lowest survivor of each station, or the lowest with copies; count the senders."""
        candidates = np.full(len(self.layout.sizes), 2 * comm.size)
        senders = np.zeros(len(candidates), np.int64)
        for station in stations:
            candidates[station] = comm.rank + (comm.size if station != self.place.station else 0)
            senders[station] = 1
        comm.Allreduce(MPI.IN_PLACE, candidates, op=MPI.MIN)
        comm.Allreduce(MPI.IN_PLACE, senders, op=MPI.SUM)
        roots = {station: int(rank) % comm.size for station, rank in enumerate(candidates) if senders[station]}
        return roots, senders


class Summed(NamedTuple):
    """The sums of a station by level, with the number of jobs of each team in them."""

    sums: dict[int, np.ndarray]
    jobs: dict[int, int]


def summed(layout: Layout, station: int, parcels: Iterable[tuple[int, int, dict[int, np.ndarray]]]) -> Summed:
    """Add up the sums of complete teams, each with the number of jobs that all its parts have."""
    teams: dict[int, list[dict[int, np.ndarray]]] = {}
    for team, part, states in parcels:
        teams.setdefault(team, [{} for _ in range(layout.sizes[station])])[part].update(states)
    sums = {level: np.zeros((2, 2**level), np.int64) for level in layout.levels[station]}
    jobs = {}
    for team, parts in sorted(teams.items()):
        common = set.intersection(*map(set, parts))
        if common:
            jobs[team] = max(common)
            for part, states in enumerate(parts):
                place = Place(station, team, part)
                for level, where in layout.offsets(place).items():
                    own = layout.steps(place, level)
                    sums[level][:, own.start : own.stop] += states[jobs[team]][where].reshape(2, -1)
    return Summed(sums, jobs)


# ---------------------------------------------------------------------------------------------------------- validation


def judged(arguments: argparse.Namespace, layout: Layout, stations: dict[int, Summed]) -> tuple[list[str], bool] | None:
    """Return the lines to print and True if right, or None if there are no samples."""
    lines, right, spread, known, tails, path = [], True, 0.0, 0.0, 0.0, np.zeros(2)
    present = {level: station for station in stations for level in layout.levels[station]}
    for level, wanted in enumerate(layout.samples):
        done = _jobs_done(layout, level, present[level], stations[present[level]]) if level in present else []
        count = sum(len(samples) for samples in done)
        path = np.interp(np.linspace(0, 1, 2**level + 1), np.linspace(0, 1, len(path)), path)
        if count:
            sums = stations[present[level]].sums[level]
            mean, square = sums / count * UNIT
            variance = square[-1] - mean[-1] ** 2
            lines.append(f"level {level}: {count} of {wanted} samples, mean {mean[-1]:.7f}, variance {variance:.6e}")
            right &= np.array_equal(sums, serial(arguments.seed, level, done))
            right &= ends_are_right(arguments.seed, level, done, sums[:, -1])
            right &= moments_are_right(level, count, mean[-1], square[-1])
            known += mean_of(level)
            tails += tail(level, count)
            spread += variance_of(level) / count
            path += np.concatenate(([level == 0], mean))
        else:
            lines.append(f"level {level}: no samples, missing from the mean: {mean_of(level):.8f}")
    if spread == 0:
        return None
    right &= abs(path[-1] - known) <= WELL_WITHIN * math.sqrt(spread) + tails
    steps = len(path) - 1
    exact, off = mean_after(level, steps), abs(path[-1] - mean_after(level, steps))
    lines.append(f"mean {path[-1]:.7f}, exact {exact:.7f}, error {off:.7f}, expected {math.sqrt(spread):.7f}")
    if arguments.at is not None:
        there = np.interp(arguments.at * steps, np.arange(steps + 1), path)
        off = there - mean_after(level, arguments.at * steps)
        lines.append(f"at {arguments.at}: mean {there:.7f}, off by {off:+.7f}")
    return lines, bool(right)


def _jobs_done(layout: Layout, level: int, station: int, found: Summed) -> list[range]:
    """Return the samples of a level that the sums claim to contain."""
    return [
        job.samples
        for team, count in found.jobs.items()
        for job in list(layout.jobs(station, team))[:count]
        if job.level == level
    ]


def chunks(seed: int, level: int, done: Iterable[range]) -> Iterator[np.ndarray]:
    """Yield the differences of some samples, recomputed by one process."""
    for samples in done:
        for start in range(samples.start, samples.stop, CHUNK):
            part = range(start, min(start + CHUNK, samples.stop))
            yield differences(level, walks(seed, level, part, range(2**level)))


def serial(seed: int, level: int, done: Iterable[range]) -> np.ndarray:
    """Return the sums of some samples, recomputed by one process."""
    return sum((in_units(each) for each in chunks(seed, level, done)), np.zeros((2, 2**level), np.int64))


def ends_are_right(seed: int, level: int, done: Iterable[range], sums: np.ndarray) -> bool:
    """Verify the sums at time 1, the sums of squares by products, and some walks flip by flip."""
    found, count, steps = np.zeros(2), 0, range(2**level)
    for samples in done:
        for start in range(samples.start, samples.stop, CHUNK):
            part = range(start, min(start + CHUNK, samples.stop))
            walked = walks(seed, level, part, steps)
            few = part[: max(0, FLIPPED - count)]
            slow = [[flipped(seed, level, sample, step) for step in steps] for sample in few]
            if slow != walked[: len(few)].tolist():
                return False
            count += len(part)
            growth = 1 + MU * 0.5**level + SIGMA * math.sqrt(0.5**level) / 8 * walked
            ends = growth.prod(axis=1)
            if level:
                ends -= (growth[:, ::2] + growth[:, 1::2] - 1).prod(axis=1)
            found += ends.sum(), (ends * ends).sum()
    return bool((np.abs(found - sums * UNIT) <= count * UNIT).all())


def flipped(seed: int, level: int, sample: int, step: int) -> int:
    """Return the end of one walk, in whole numbers."""

    def mixed(word: int) -> int:
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        return word ^ word >> 31

    return 2 * mixed((mixed((mixed(mixed(seed) + level) + sample) % 2**64) + mixed(step + 1)) % 2**64).bit_count() - 64


def moments_are_right(level: int, count: int, mean: float, square: float) -> bool:
    """Check means of values and squares at time 1 against closed forms."""
    exact, expected, spread = mean_of(level), variance_of(level), kurtosis_of(level) - 1
    wrong = abs(square - 2 * mean * exact + exact**2 - expected) / expected
    few = WELL_WITHIN * math.sqrt(spread / count) + WELL_WITHIN**2 * spread / count
    within = WELL_WITHIN * math.sqrt(expected / count) + tail(level, count)
    return bool(abs(mean - exact) <= within and wrong <= few)


def tail(level: int, count: int) -> float:
    """Return the additional tolerance for a mean of few samples: the term of Bernstein's bound."""
    return WELL_WITHIN**2 / 2 * math.sqrt(variance_of(level) * max(0.0, kurtosis_of(level) / 3 - 1)) / count


def main() -> None:
    """Sample, continue after failures, and estimate the mean from the remaining samples."""
    arguments = parse_arguments()
    survivor = Survivor(arguments)
    (team, mail), comm = recovery.until_agreed(MPI.COMM_WORLD, survivor.divide, recovery.shrink)
    survivor.sample(team, mail)
    team.Free()
    mail.Free()
    (lines, right), comm = recovery.until_agreed(comm, survivor.collect, recovery.shrink)
    if comm.rank == 0:
        print(f"# {MPI.COMM_WORLD.size - comm.size} of {MPI.COMM_WORLD.size} processes have failed", flush=True)
    title = f"ft_mlmc: {MPI.COMM_WORLD.size} processes, teams of {', '.join(map(str, survivor.layout.sizes))}"
    recovery.conclude(comm, [title, *lines], right)


if __name__ == "__main__":
    main()
