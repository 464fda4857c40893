"""Repartition: a failed process gets weight 0, and the work is repartitioned over the survivors.

A system of equations is solved on a mesh by Jacobi's method, and every few iterations a part of the mesh is processed:
two stages with differently distributed costs. `partition.py` cuts the mesh so that each process has its share of both.
When processes fail, the survivors revoke and shrink the communicator, partition the mesh again with weight 0 for the
failed ranks, and migrate the values of vertices. The values on failed ranks are lost: they start as means of their
neighbours (`--recovery neighbours`), or as at the beginning (`--recovery initial`). No other rank goes back. As the
method converges from any state, the result is the same.

PPStee (German Aerospace Center) planned this recovery in the CRESTA project ("trigger re-distribution of work on
remaining processors, weight=0 on the failed processor", ULFM tutorials of 2014). The partitions, the moves, the
recovery and the solution are real; `--work` declares the seconds per unit of a vertex's weight.

    xsim run -n 12 repartition.py --die 5@10
    xsim run -n 12 --fail "rank=0@2ms" repartition.py --recovery initial
    mpirun --with-ft ulfm -n 8 python repartition.py --mesh chain --die 5@10

Validation: each partition leaves nothing on failed ranks, and no surviving part has more than 1.05 of its share of a
stage, or of all (or one vertex more). Its edge cut is at most 1.3 times that of one made for the survivors alone, and
1.3 times that of pairs of squares, at least that of the isoperimetric inequality, and exact for a chain. The number of
migrated vertices of a chain with the order kept is that of the formula. The solution is the one from which the
right-hand side was computed, within the bound of the residual.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from typing import NamedTuple

import numpy as np
import partition
import recovery
from mpi4py import MPI

VALUES, MOVES = 1, 2
CHECKED, SHOWN = 5, 10  # iterations between checks of the residual, and between pictures


def parse_arguments(ranks: int) -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--mesh", choices=["square", "chain"], default="square", help="a chain has one stage")
    add("--vertices", type=recovery.positive, help="minimum number of vertices (default: 200 per rank)")
    add("--steps", type=recovery.positive, default=500, help="maximum number of iterations")
    add("--shift", type=recovery.above_0, default=2.0, help="number added to the diagonal")
    add("--tolerance", type=recovery.above_0, default=1e-10, help="largest error of the solution")
    add("--recovery", choices=["neighbours", "initial"], default="neighbours", help="source of lost values")
    add("--work", type=recovery.seconds, default=0.0, metavar="SECONDS", help="work per unit of weight")
    args = parser.parse_args()
    if args.vertices is None:
        args.vertices = 200 * ranks
        if args.mesh == "chain" and ranks > 1:  # divisible before and after a failure
            args.vertices = ranks * (ranks - 1) * -(-200 // (ranks - 1))
    if args.vertices < ranks:
        parser.error(f"--vertices {args.vertices}: fewer than one for each of {ranks} ranks")
    return args


# ------------------------------------------------------------------------------------------------------------ the mesh


class Mesh(NamedTuple):
    """A mesh whose vertices are numbered along a curve."""

    graph: partition.Graph
    x: np.ndarray
    y: np.ndarray
    side: int

    def steering(self) -> partition.Steering:
        """Return its partitioner."""
        made, edges = partition.Steering(), np.ones(len(self.graph.adjacent))
        made.submit_graph(self.graph)
        for kind, weights in costs(self.x, self.y, self.side, square=len(self.x) > self.side).items():
            made.set_weights(weights, edges)
            made.submit_stage(kind)
        return made

    def borders(self, parts: np.ndarray) -> int:
        """Count the edges between parts by the positions of vertices, independently of the graph."""
        sheet = np.full((self.x.max() + 1, self.y.max() + 1), -1)
        sheet[self.x, self.y] = parts
        return int((sheet[1:] != sheet[:-1]).sum() + (sheet[:, 1:] != sheet[:, :-1]).sum())


def mesh(args: argparse.Namespace) -> Mesh:
    """Make a chain, or a square with vertices along Hilbert's curve."""
    if args.mesh == "chain":
        side, x, y = args.vertices, np.arange(args.vertices), np.zeros(args.vertices, np.int64)
    else:
        side = int(np.ceil(np.sqrt(args.vertices)))
        y, x = np.divmod(np.arange(side * side), side)
        order = np.argsort(along_the_curve(x, y, side))
        x, y = x[order], y[order]
    number = np.full((side + 2, side + 2 if y.any() else 3), -1)
    number[x + 1, y + 1] = np.arange(len(x))
    around = np.stack([number[x + 1 + right, y + 1 + up] for right, up in ((1, 0), (-1, 0), (0, 1), (0, -1))], axis=1)
    around.sort(axis=1)
    degrees = (around >= 0).sum(axis=1)
    return Mesh(partition.Graph(np.concatenate(([0], degrees.cumsum())), around[around >= 0]), x, y, side)


def along_the_curve(x: np.ndarray, y: np.ndarray, side: int) -> np.ndarray:
    """Return the index along Hilbert's curve of each point."""
    place, half = np.zeros_like(x), 1 << max(0, (side - 1).bit_length() - 1)
    while half:
        right, upper = (x & half) > 0, (y & half) > 0
        place += half * half * ((3 * right) ^ upper)
        x, y = x & (half - 1), y & (half - 1)
        turned = right & ~upper
        x, y = np.where(turned, half - 1 - x, x), np.where(turned, half - 1 - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        half >>= 1
    return place


def costs(x: np.ndarray, y: np.ndarray, side: int, *, square: bool) -> dict[str, np.ndarray]:
    """Return the vertex weights per stage: more to compute in the middle, more to show in a half."""
    if not square:
        return {partition.COMPUTATION: np.ones(len(x))}
    middle = (2 * x - side) ** 2 + (2 * y - side) ** 2 < side**2 / 4
    return {partition.COMPUTATION: 1.0 + 3 * middle, partition.VISUALISATION: 1.0 * (2 * y < side)}


def exact(x: np.ndarray, y: np.ndarray, side: int) -> np.ndarray:
    """Return the solution from which the right-hand side is computed."""
    wave = math.pi / side  # numpy's own functions differ between computers
    along, across = ((2 * x + 1) * wave).tolist(), ((y + 0.5) * wave).tolist()
    return np.array([1 + math.sin(one) * math.cos(other) for one, other in zip(along, across, strict=True)])


class Plan(NamedTuple):
    """The first rank's message to each: its vertices, those around them, and the moves."""

    own: np.ndarray
    degrees: np.ndarray
    adjacent: np.ndarray
    ranks: np.ndarray
    """Owners of the adjacent vertices."""
    holders: np.ndarray
    """Ranks that hold the values of its vertices, or -1."""
    leavers: np.ndarray
    """Destinations of its current vertices."""
    places: np.ndarray
    """Coordinates of its vertices and of the adjacent ones."""


class Part:
    """One rank's vertices, with the known values."""

    def __init__(self, plan: Plan, args: argparse.Namespace, side: int, me: int) -> None:
        self.own, self.step = plan.own, 0
        count = len(self.own)
        far, where = np.unique(np.stack((plan.ranks, plan.adjacent))[:, plan.ranks != me], axis=1, return_index=True)
        places = plan.places[:, count:][:, plan.ranks != me][:, where]
        self.x, self.y = np.concatenate((plan.places[:, :count], places), axis=1)
        self.known = np.concatenate((self.own, far[1]))
        order = np.argsort(self.known)
        self.adjacent = order[np.searchsorted(self.known, plan.adjacent, sorter=order)]
        self.rows = np.repeat(np.arange(count), plan.degrees)
        self.partners = []
        for rank in np.unique(far[0]).tolist():
            theirs = np.flatnonzero(far[0] == rank) + count
            ours = np.unique(self.rows[plan.ranks == rank])
            self.partners.append((rank, ours, slice(int(theirs[0]), int(theirs[-1]) + 1)))
        self.diagonal = plan.degrees + args.shift
        solution = exact(self.x, self.y, side)
        self.solution = solution[:count]
        self.right = self.diagonal * self.solution - self.around(solution)
        self.loads = costs(self.x[:count], self.y[:count], side, square=args.mesh == "square")
        self.values = np.zeros(len(self.known))

    def around(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the neighbours' values of each vertex."""
        return np.bincount(self.rows, values[self.adjacent], len(self.own))

    def exchange(self, comm: MPI.Intracomm, values: np.ndarray) -> None:
        """Receive the values of vertices on other ranks."""
        waiting = [comm.Irecv(values[theirs], source=rank, tag=VALUES) for rank, _, theirs in self.partners]
        waiting += [comm.Isend(values[ours], dest=rank, tag=VALUES) for rank, ours, _ in self.partners]
        for request in waiting:
            request.Wait()

    def solve(self, comm: MPI.Intracomm, args: argparse.Namespace) -> Solution:
        """Compute until the residual is small enough, and return the result."""
        count = len(self.own)
        while True:
            recovery.die_at(args.die, self.step)
            self.exchange(comm, self.values)
            new = (self.right + self.around(self.values)) / self.diagonal
            self.work(args, partition.COMPUTATION)
            if self.step % SHOWN == 0:
                self.show(comm, args, self.values)
            if self.step % CHECKED == 0:
                residual = float(np.abs((new - self.values[:count]) * self.diagonal).max(initial=0))
                if largest(comm, residual) <= args.tolerance * args.shift or self.step >= args.steps:
                    return self.judged(comm, args)
            self.values = np.concatenate((new, self.values[count:]))
            self.step += 1

    def work(self, args: argparse.Namespace, kind: str) -> None:
        """Let the time of a stage for these vertices pass."""
        if args.work:
            time.sleep(args.work * self.loads[kind].sum())

    def show(self, comm: MPI.Intracomm, args: argparse.Namespace, values: np.ndarray) -> float:
        """Process a part of the mesh, if there is any: find its largest value."""
        if partition.VISUALISATION not in self.loads:
            return 0.0
        self.work(args, partition.VISUALISATION)
        seen = self.loads[partition.VISUALISATION] > 0
        return largest(comm, float(values[: len(seen)][seen].max(initial=0)))

    def judged(self, comm: MPI.Intracomm, args: argparse.Namespace) -> Solution:
        """Compare with the solution."""
        values = self.values[: len(self.own)]
        mine, state = np.zeros(1, np.int64), np.zeros(1, np.int64)
        mine += sum(
            zlib.crc32(value.tobytes(), number) for number, value in zip(self.own.tolist(), values, strict=True)
        )
        comm.Allreduce(mine, state)
        error = largest(comm, float(np.abs(values - self.solution).max(initial=0)))
        seen = abs(self.show(comm, args, values) - self.show(comm, args, self.solution))
        return Solution(max(error, seen), int(state[0]) % 2**32, self.step)


class Solution(NamedTuple):
    """The result of the iterations."""

    error: float
    state: int
    iterations: int


def largest(comm: MPI.Intracomm, value: float) -> float:
    """Return the maximum over all ranks."""
    both = np.array([value, 0.0])
    comm.Allreduce(both[:1], both[1:], op=MPI.MAX)
    return float(both[1])


# ------------------------------------------------------------------------------------------------------------ recovery


class Cut(NamedTuple):
    """Quality of a partition, and the cost of reaching it from the last one."""

    living: list[int]
    moved: int
    in_order: int
    """Number of vertices that would move if the parts kept their order."""
    lost: int
    balance: dict[str, float]
    cut: float
    fresh: float
    lawful: bool


def depth_of(graph: partition.Graph, lost: np.ndarray) -> int:
    """Return the distance in edges of the deepest lost vertex from others, if there are any."""
    depth, owners = 0, graph.owners
    while lost.any() and not lost.all():
        lost = lost & (np.bincount(owners, ~lost[graph.adjacent], len(lost)) == 0)
        depth += 1
    return depth


class Recovery:
    """Partition the mesh for the survivors, and migrate values."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.count = args, MPI.COMM_WORLD.size
        self.part: Part | None = None
        self.cuts: list[Cut] = []

    def distributed(self, comm: MPI.Intracomm) -> tuple[Part, Cut]:
        """Return this rank's new part with values, and the partition; the old part is unchanged."""
        own = self.part.own if self.part else np.zeros(0, np.int64)
        have = comm.gather((MPI.COMM_WORLD.rank, own, self.part.step if self.part else 0), root=0)
        plans = cut = None
        if comm.rank == 0:
            plans, cut = self.planned([each[:2] for each in have], max(step for _, _, step in have))
        plan, side, step, depth = comm.scatter(plans, root=0)
        cut = comm.bcast(cut, root=0)
        part = Part(plan, self.args, side, comm.rank)
        part.step = step
        self.move(comm, plan, part)
        self.fill(comm, part, depth)
        return part, cut

    def planned(self, have: list[tuple[int, np.ndarray]], step: int) -> tuple[list[tuple[Plan, int, int, int]], Cut]:
        """Partition the mesh for the survivors, and send each its part and moves."""
        whole = mesh(self.args)
        rank_of, holders = np.full(self.count, -1), np.full(len(whole.x), -1)
        for rank, (name, own) in enumerate(have):
            rank_of[name], holders[own] = rank, rank
        parts, cut = self.recut(whole, holders, [name for name, _ in have])
        depth = depth_of(whole.graph, holders < 0) if self.args.recovery == "neighbours" else 0
        ranks, first = rank_of[parts], whole.graph.first
        places, degrees, plans = np.stack((whole.x, whole.y)), np.diff(first), []
        for rank, (_, before) in enumerate(have):
            own = np.flatnonzero(ranks == rank)
            adjacent = np.concatenate([whole.graph.adjacent[first[each] : first[each + 1]] for each in own] or [own])
            around = places[:, np.concatenate((own, adjacent))]
            plan = Plan(own, degrees[own], adjacent, ranks[adjacent], holders[own], ranks[before], around)
            plans.append((plan, whole.side, step, depth))
        return plans, cut

    def recut(self, whole: Mesh, holders: np.ndarray, names: list[int]) -> tuple[np.ndarray, Cut]:
        """Return the part of each vertex, with weight 0 for failed ranks."""
        steering = whole.steering()
        shares = np.zeros(self.count)
        shares[names] = 1
        before = np.where(holders < 0, -1, np.array(names)[holders])
        plain = steering.get_partitioning(shares)
        parts = partition.renamed(plain, before, shares)
        again = steering.cut(steering.get_partitioning(np.ones(len(names))))
        balance, kept, lawful = {}, before >= 0, True
        for kind, weights in {**steering.stages, "all": sum(steering.stages.values())}.items():
            loads = np.bincount(parts, weights, self.count)
            fair = weights.sum() / len(names)
            most = max(partition.TOLERANCE * fair, fair + weights.max())
            lawful &= loads.max() <= most and not loads[shares == 0].any()
            balance[kind] = float(loads.max() / fair)
        borders = whole.borders(parts)
        least, most = border_limits(whole, parts)
        lawful &= least <= borders <= most and borders * len(steering.stages) == steering.cut(parts)
        moved, in_order = (int((each != before)[kept].sum()) for each in (parts, plain))
        return parts, Cut(names, moved, in_order, int((~kept).sum()), balance, steering.cut(parts), again, bool(lawful))

    def move(self, comm: MPI.Intracomm, plan: Plan, part: Part) -> None:
        """Send the values of vertices to their new owners; lost values are NaN."""
        part.values[: len(part.own)] = np.nan
        sent = []
        if self.part:
            for rank in np.unique(plan.leavers).tolist():
                values = self.part.values[: len(self.part.own)][plan.leavers == rank]
                if rank == comm.rank:
                    part.values[: len(part.own)][plan.holders == rank] = values
                else:
                    sent.append(comm.Isend(values, dest=rank, tag=MOVES))
        for rank in sorted({*plan.holders.tolist()} - {-1, comm.rank}):
            places = np.flatnonzero(plan.holders == rank)
            values = np.empty(len(places))
            comm.Recv(values, source=rank, tag=MOVES)
            part.values[places] = values
        for request in sent:
            request.Wait()

    def fill(self, comm: MPI.Intracomm, part: Part, depth: int) -> None:
        """Replace lost values by means of neighbours, layer by layer from the border, or else by 0."""
        own = slice(len(part.own))
        for _ in range(depth):
            part.exchange(comm, part.values)
            known = ~np.isnan(part.values)
            neighbours = part.around(known * 1.0)
            new = ~known[own] & (neighbours > 0)
            sums = part.around(np.where(known, part.values, 0))
            part.values[own][new] = sums[new] / neighbours[new]
        part.values[np.isnan(part.values)] = 0

    def run(self, comm: MPI.Intracomm) -> tuple[Solution, MPI.Intracomm]:
        """Solve until all have the solution; failed ranks leave their parts to the others."""
        while True:
            (self.part, cut), comm = recovery.until_agreed(comm, self.distributed, recovery.shrink)
            self.cuts.append(cut)
            solution, well = recovery.attempt(self.part.solve, comm, self.args)
            if not well:
                comm.Revoke()
            if recovery.agree(comm, well):
                return solution, comm
            comm.Revoke()
            comm = recovery.shrink(comm)


# ---------------------------------------------------------------------------------------------------------- validation


def judged(args: argparse.Namespace, cuts: list[Cut], count: int) -> tuple[list[str], bool]:
    """Describe the partitions; return True if they meet their bounds."""
    lines, right = [f"repartition: {args.mesh} of at least {args.vertices} vertices, {count} ranks"], True
    for number, cut in enumerate(cuts):
        if number:
            gone = sorted({*cuts[number - 1].living} - {*cut.living})
            lines.append(f"without {gone}: {cut.lost} vertices lost, {cut.moved} moved ({cut.in_order} in order)")
        stages = ", ".join(f"{kind} {balance:.3f}" for kind, balance in cut.balance.items())
        lines.append(
            f"{len(cut.living)} parts, imbalance: {stages}; edge cut {cut.cut:.0f}, from scratch {cut.fresh:.0f}"
        )
        right &= cut.lawful and cut.cut <= 1.3 * cut.fresh and cut.moved <= cut.in_order
        even = args.mesh == "chain" and count > 1 and args.vertices % (count * (count - 1)) == 0
        if number == 1 and even and len(cut.living) == count - 1:
            (dead,) = {*range(count)} - {*cut.living}
            right &= cut.in_order == to_move(args.vertices, count, dead)
    return lines, right


def border_limits(whole: Mesh, parts: np.ndarray) -> tuple[float, float]:
    """Return lower and upper bounds on the edges between parts of these sizes.

    In a square of side s a part of m vertices has at least min(2 sqrt(m), 2 sqrt(s^2 - m), s) edges to others (Bollobas
    and Leader, Edge-isoperimetric inequalities in the grid, Combinatorica 1991). One balanced for two stages has two
    pieces; two squares of m / 2 vertices have 4 sqrt(2 m) edges.
    """
    sizes = np.bincount(parts)
    sizes, count = sizes[sizes > 0], len(parts)
    if count == whole.side:  # a chain
        return len(sizes) - 1, len(sizes) - 1
    least = np.minimum(2 * np.sqrt(np.minimum(sizes, count - sizes)), whole.side)
    return float(least.sum() / 2 - 1e-9), float(1.3 * 4 * np.sqrt(2 * sizes).sum() / 2)


def to_move(vertices: int, count: int, dead: int) -> int:
    """Return the migrated vertices of an even chain if one part is distributed in order."""
    stay = (dead * (count - 1) - dead**2 + count * (count - 1) / 2) / (count - 1)
    return round(vertices / count * (count - 1 - stay))


def main() -> None:
    """Solve, excluding failed ranks."""
    args = parse_arguments(MPI.COMM_WORLD.size)
    solver = Recovery(args)
    solution, comm = solver.run(MPI.COMM_WORLD)
    lines, right = judged(args, solver.cuts, MPI.COMM_WORLD.size)
    if len(solver.cuts) == 1:
        lines.append(f"{solution.iterations} iterations, state {solution.state:08x}")
    exact_enough = solution.error <= args.tolerance
    lines.append(f"solution and picture right to {args.tolerance:g}: {exact_enough}")
    recovery.conclude(comm, lines, right and exact_enough)


if __name__ == "__main__":
    main()
