"""Resilient PDE: clients solve samples for servers; those of failed clients are omitted.

-(k u')' = 1 with k = 1 / (1 + x) and u(0) = u(1) = 0, on overlapping subdomains. On each, the solution is an affine
function of its values at the subdomain's two ends, u = alpha + beta u_L + gamma u_R. A sample is a client's solution
for given values at the ends, sent back to the server. Any three samples give the function by regression. The servers
combine these functions, and solve for the values at all ends, and so for the solution. When a client fails, its current
sample is missing, no rank waits for it, and the regression has fewer samples. With `--recovery again` another client
solves it.

This is the preconditioner of Rizzi, Morris, Sargsyan, Mycek, Safta, Debusschere, Le Maitre and Knio (ULFM-MPI
implementation of a resilient task-based partial differential equations preconditioner, FTXS 2016). Servers, clients,
sampling, regression and failures are real. The plane is reduced to a line, where one round is exact, and the random
samples to points on a circle, of which no three are collinear. Corrupted samples are omitted.

    xsim run -n 12 --fail "rank=3 before its 2nd Send" resilient_pde.py
    xsim run -n 12 --fail rank=5@2ms resilient_pde.py --recovery again --work 1e-3
    mpirun --with-ft ulfm -n 12 python resilient_pde.py --die 3@1 --die 5@0

Ranks form crews: a server, which is the first rank, and its clients. Any clients may fail while each subdomain keeps
three samples. The state of a server is lost with it: the others then report this and end. They also end if a subdomain
has too few samples. Validation: the solution at all nodes is the polynomial that solves the equation, up to round-off,
which grows with the square of the number of subdomains.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import deque
from typing import NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

WORK = 1
HOME = -1  # instead of a task
NEEDED = 3  # samples for an affine function of two values


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--clients", type=recovery.positive, default=3, help="minimum number of clients per server")
    add("--subdomains", type=recovery.positive, default=4, help="subdomains per server")
    add("--total", type=recovery.positive, help="subdomains of all servers, instead of --subdomains")
    add("--samples", type=recovery.number(int, NEEDED), default=8, help="samples per subdomain")
    add("--cells", type=recovery.positive, default=16, help="grid cells of a subdomain without its overlap")
    add("--overlap", type=recovery.positive, default=2, help="further grid cells at each end")
    add("--recovery", choices=["ignore", "again"], default="ignore", help="recovery of lost samples")
    add("--work", type=recovery.seconds, default=0.0, metavar="SECONDS", help="duration of a sample")
    add("--dying", type=recovery.number(float, 0, below=1), default=0.0, help="probability that a client dies at once")
    add("--seed", type=recovery.natural, default=0, help="seed of the failures of --dying")
    args = parser.parse_args()
    if args.cells <= 2 * args.overlap:
        parser.error(f"--cells {args.cells}: not above {2 * args.overlap}, which is twice the overlap")
    ranks = MPI.COMM_WORLD.size
    if ranks < 2:
        parser.error("needs a server and a client, at least two ranks")
    args.servers = max(1, ranks // (args.clients + 1))
    args.total = args.total or args.servers * args.subdomains
    if args.total < args.servers:
        parser.error(f"--total {args.total}: {args.servers} servers need a subdomain each")
    rank = MPI.COMM_WORLD.rank
    if rank != first_of(crew_of(rank, args), args) and np.random.default_rng([args.seed, rank]).random() < args.dying:
        args.die.append((rank, 0))
    return args


def crew_of(rank: int, args: argparse.Namespace) -> int:
    """Return the crew of a rank of COMM_WORLD."""
    return ((rank + 1) * args.servers - 1) // MPI.COMM_WORLD.size


def first_of(crew: int, args: argparse.Namespace) -> int:
    """Return the rank in COMM_WORLD of a crew's server, its first rank."""
    return crew * MPI.COMM_WORLD.size // args.servers


# --------------------------------------------------------------------------------------------------------- the equation


def exact(x: np.ndarray) -> np.ndarray:
    """Return the solution."""
    return 5 / 9 * (x + x * x / 2) - x * x / 2 - x**3 / 3


class Subdomain(NamedTuple):
    """A piece of the grid: the nodes of its cells and of its overlaps, from end to end."""

    left: int
    right: int
    cells: int  # of the whole grid
    to_left: int  # the node where the subdomain to the left ends
    to_right: int

    @property
    def nodes(self) -> np.ndarray:
        """The coordinates of all nodes, with both ends."""
        return np.arange(self.left, self.right + 1) / self.cells

    def solve(self, at_left: float, at_right: float) -> np.ndarray:
        """Solve the equation between values at the ends; return the values at all nodes.

        Finite volumes, with the integral of 1 / k as the resistance between two nodes, and bounds between the volumes
        at their centres of resistance: this scheme has no error at the nodes.
        """
        x, h = self.nodes, 1 / self.cells
        middle = (x[:-1] + x[1:]) / 2
        resistance = h * (1 + middle)
        bound = middle + h * h / 12 / (1 + middle)
        conduct = 1 / resistance
        matrix = np.diag(conduct[:-1] + conduct[1:]) - np.diag(conduct[1:-1], 1) - np.diag(conduct[1:-1], -1)
        load = np.diff(bound)
        load[0] += conduct[0] * at_left
        load[-1] += conduct[-1] * at_right
        return np.concatenate([[at_left], np.linalg.solve(matrix, load), [at_right]])

    def seen_from(self, function: np.ndarray) -> np.ndarray:
        """Return the rows of an affine function for the neighbours' ends in this subdomain."""
        return function[[self.to_left - self.left, self.to_right - self.left]]


def subdomain(number: int, args: argparse.Namespace) -> Subdomain:
    """Return one of the subdomains, numbered from the left."""
    cells, low, high = args.total * args.cells, number * args.cells, (number + 1) * args.cells
    left, right = max(0, low - args.overlap), min(cells, high + args.overlap)
    return Subdomain(left, right, cells, min(low + args.overlap, right), max(high - args.overlap, left))


def ends(sample: int, samples: int) -> tuple[float, float]:
    """Return the end values of a sample: a point on a circle."""
    angle = 2 * math.pi * sample / samples
    return math.cos(angle), math.sin(angle)


def regression(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the affine function closest to the samples, as a row (alpha, beta, gamma) per node."""
    matrix = np.column_stack([np.ones(len(points)), points])
    return np.linalg.lstsq(matrix, values, rcond=None)[0].T


def chained(seen: np.ndarray) -> np.ndarray:
    """Chain pieces; return the values at all their ends as affine functions of the outermost two.

    `seen[i]` has the values for piece i's left and right neighbour, as functions of piece i's own ends.
    """
    count = len(seen)
    found = np.zeros((count, 2, 3))
    found[0, 0], found[-1, 1] = (0, 1, 0), (0, 0, 1)
    if count == 1:
        return found
    # Between pieces i and i + 1: the right end of i, and then the left end of i + 1.
    unknowns = 2 * (count - 1)
    matrix, known = np.eye(unknowns), np.zeros((unknowns, 3))
    for row in range(unknowns):
        piece = row // 2 + 1 - row % 2
        constant, *slopes = seen[piece, row % 2]
        known[row, 0] = constant
        for slope, column, outermost in zip(slopes, (2 * piece - 1, 2 * piece), (1, 2), strict=True):
            if 0 <= column < unknowns:
                matrix[row, column] -= slope
            else:
                known[row, outermost] += slope
    solution = np.linalg.solve(matrix, known)
    found[:-1, 1], found[1:, 0] = solution[0::2], solution[1::2]
    return found


def at(functions: np.ndarray, left: float, right: float) -> np.ndarray:
    """Return the values of affine functions."""
    return functions @ np.array([1, left, right])


# ------------------------------------------------------------------------------------------------------------- sampling


class Server:
    """The state of some subdomains: available samples, and the samples in work."""

    def __init__(self, crew: MPI.Intracomm, number: int, args: argparse.Namespace) -> None:
        self.crew, self.args = crew, args
        self.mine = range(number * args.total // args.servers, (number + 1) * args.total // args.servers)
        self.subdomains = {each: subdomain(each, args) for each in self.mine}
        self.bag = deque((each, sample) for sample in range(args.samples) for each in self.mine)
        self.samples: dict[int, dict[int, np.ndarray]] = {each: {} for each in self.mine}
        self.idle = deque(range(1, crew.size))
        self.doing: dict[int, tuple[int, int]] = {}
        self.dead: set[int] = set()
        self.taken = 0

    def sample(self) -> None:
        """Distribute samples until none is pending, and dismiss the clients."""
        answer, status, request = np.zeros(self.args.cells + 2 * self.args.overlap + 3), MPI.Status(), MPI.REQUEST_NULL
        self.give()
        while self.doing:
            request = request or self.crew.Irecv(answer, MPI.ANY_SOURCE, WORK)
            if recovery.attempt(request.Wait, status)[1]:
                self.take(status.source, answer)
            else:
                do_without(self)
            self.give()
        for client in range(1, self.crew.size):
            send_in_spite(self.crew, (HOME, HOME), client)

    def give(self) -> None:
        """Give each idle client a sample, while there are any."""
        while self.bag and self.idle:
            client = self.idle.popleft()
            self.doing[client] = self.bag.popleft()
            send_in_spite(self.crew, self.doing[client], client)

    def take(self, client: int, answer: np.ndarray) -> None:
        """Store a sample."""
        number, sample = answer[:2].astype(int)
        self.samples[number][sample] = answer[2 : 2 + len(self.subdomains[number].nodes)].copy()
        if self.doing.pop(client, None) is not None:
            self.idle.append(client)
        self.taken += 1
        recovery.die_at(self.args.die, self.taken)

    @property
    def count(self) -> int:
        """The number of available samples."""
        return sum(map(len, self.samples.values()))

    def poor(self) -> int:
        """Return the number of subdomains with too few samples."""
        return sum(len(samples) < NEEDED for samples in self.samples.values())

    def solve(self, servers: MPI.Intracomm) -> tuple[float, float]:
        """Solve with the other servers; return the local maximum error and value."""
        functions = {}
        for each, samples in self.samples.items():
            points = np.array([ends(sample, self.args.samples) for sample in samples])
            functions[each] = regression(points, np.array([*samples.values()]))
        seen = np.array([self.subdomains[each].seen_from(functions[each]) for each in self.mine])
        inside = chained(seen)
        # All of this server's subdomains together are a piece like one of them.
        whole = np.array([seen[0, 0] @ _of_ends(inside[0]), seen[-1, 1] @ _of_ends(inside[-1])])
        all_seen = np.zeros((servers.size, 2, 3)) if servers.rank == 0 else None
        servers.Gather(whole, all_seen, root=0)
        outermost = np.ascontiguousarray(at(chained(all_seen), 0, 0)) if all_seen is not None else None
        own = np.zeros(2)
        servers.Scatter(outermost, own, root=0)
        error = largest = 0.0
        for each, (left, right) in zip(self.mine, at(inside, *own), strict=True):
            solution = at(functions[each], left, right)
            error = max(error, float(np.abs(solution - exact(self.subdomains[each].nodes)).max()))
            largest = max(largest, float(solution.max()))
        return error, largest


def _of_ends(functions: np.ndarray) -> np.ndarray:
    """Return the matrix from functions of a piece's ends to functions of the outermost ends."""
    return np.vstack([[1, 0, 0], functions])


def serve(server: Server, servers: MPI.Intracomm) -> np.ndarray:
    """Run a server; return the values for `concluded`: sums and maxima."""
    server.sample()
    poor = np.zeros(1, int)
    servers.Allreduce(np.array([server.poor()]), poor)
    error, largest = (0.0, 0.0) if poor[0] else server.solve(servers)
    return np.array([1, server.poor(), server.count, MPI.Wtime(), error, largest])


def toil(crew: MPI.Intracomm, args: argparse.Namespace) -> None:
    """Solve samples until dismissed."""
    task, number = np.zeros(2, int), 0
    while True:
        crew.Recv(task, 0, WORK)
        if task[0] == HOME:
            return
        recovery.die_at(args.die, number)
        number += 1
        values = subdomain(int(task[0]), args).solve(*ends(int(task[1]), args.samples))
        if args.work:
            time.sleep(args.work)
        crew.Send(np.concatenate([task, values]), 0, WORK)


# ------------------------------------------------------------------------------------------------------------- recovery


def send_in_spite(crew: MPI.Intracomm, task: tuple[int, int], client: int) -> None:
    """Send a client a task; if it is known to have failed, the next wait reports that, too."""
    recovery.attempt(crew.Send, np.array(task), client, WORK)


def do_without(server: Server) -> None:
    """Drop or requeue samples of newly failed clients, and acknowledge the failures."""
    server.crew.Ack_failed()
    for client in {*recovery.known_dead(server.crew)} - server.dead:
        server.dead.add(client)
        if client in server.idle:
            server.idle.remove(client)
        task = server.doing.pop(client, None)
        if task is not None and task[1] not in server.samples[task[0]] and server.args.recovery == "again":
            server.bag.append(task)


def crews(comm: MPI.Intracomm, args: argparse.Namespace) -> tuple[MPI.Intracomm, MPI.Intracomm]:
    """Make a communicator of each crew, and one of the servers, from the survivors."""
    rank = MPI.COMM_WORLD.rank
    crew = crew_of(rank, args)
    return comm.Split(crew, rank), comm.Split(0 if rank == first_of(crew, args) else MPI.UNDEFINED, rank)


def concluded(comm: MPI.Intracomm, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Combine the results of the servers."""
    sums, largest = np.zeros(3), np.zeros(3)
    comm.Allreduce(part[:3].copy(), sums)
    comm.Allreduce(part[3:].copy(), largest, MPI.MAX)
    return sums, largest


def dead_servers(comm: MPI.Intracomm, args: argparse.Namespace) -> list[int]:
    """Return the ranks of the failed servers."""
    ranks = [first_of(crew, args) for crew in range(args.servers)]
    there = MPI.Group.Translate_ranks(MPI.COMM_WORLD.group, ranks, comm.group)
    return [rank for rank, now in zip(ranks, there, strict=True) if now == MPI.UNDEFINED]


# ----------------------------------------------------------------------------------------------------------------- main


def report(comm: MPI.Intracomm, args: argparse.Namespace, sums: np.ndarray, largest: np.ndarray) -> None:
    """Print the solution or the loss, and end."""
    whole, poor, count = map(int, sums)
    if whole < args.servers:
        recovery.give_up(comm, f"the data of the servers on ranks {dead_servers(comm, args)}")
    if poor:
        recovery.give_up(comm, f"{poor} of {args.total} subdomains, with fewer than {NEEDED} of {args.samples} samples")
    when, error, value = map(float, largest)
    bound = math.ceil(math.log10(max(error, 1e-16)))
    clients, wanted = MPI.COMM_WORLD.size - args.servers, args.total * args.samples
    lines = [
        f"# {wanted - count} of {wanted} samples are missing, error below 1e{bound}",
        f"# time: solved after {when * 1e6:.6f} us, {100 * count * args.work / (when or 1) / clients:.2f} % of it work",
        f"resilient_pde: {args.total} subdomains of {args.servers} servers, largest value {value:.6f}",
    ]
    recovery.conclude(comm, lines, error <= 1e-13 + 1e-15 * args.total**2)


def main() -> None:
    """Run a server or a client, and end together."""
    args = parse_arguments()
    (crew, servers), comm = recovery.until_agreed(MPI.COMM_WORLD, lambda comm: crews(comm, args), recovery.shrink)
    number, part = crew_of(MPI.COMM_WORLD.rank, args), np.zeros(6)
    if servers != MPI.COMM_NULL:
        found, well = recovery.attempt(serve, Server(crew, number, args), servers)
        if well:
            part = found
        else:
            servers.Revoke()
    elif MPI.Group.Translate_ranks(crew.group, [0], MPI.COMM_WORLD.group)[0] == first_of(number, args):
        recovery.attempt(toil, crew, args)
    for part_of in (crew, servers):
        if part_of != MPI.COMM_NULL:
            part_of.Free()
    (sums, largest), comm = recovery.until_agreed(comm, lambda comm: concluded(comm, part), recovery.shrink)
    report(comm, args, sums, largest)


if __name__ == "__main__":
    main()
