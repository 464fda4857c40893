"""Propagation: a rank that detects a failure wakes all others by a revocation.

The slides on ULFM (Bosilca, Bouteiller and others, 2014) call this an application that uses propagation only. It has
only point-to-point messages: a token goes around a ring of ranks, and each waits for it from its predecessor. When P1
fails, only P2 detects it. P3 to Pn wait for surviving ranks, and would wait forever. P2 revokes the communicator. All
wake up, agree on the failed ranks, and pass the token over the gap, on a communicator that was duplicated beforehand.
There is no Shrink, and ranks do not change, while a duplicate is left (--spares).

On each lap each rank does its stage with the token, x -> a x + rank + 1 modulo 2^61 - 1; the next survivor does the
stages of failed ranks. Stages do not commute, so that the last token shows whether each was done once and in order;
there is a closed form for it. A token lost with its holder resumes from the last lap of the first survivor.

    xsim run -n 8 propagate.py
    xsim run -n 8 --fail rank=1@500us --timeline - propagate.py --work 20e-6
    mpirun --with-ft ulfm -n 8 python propagate.py --die 1@1 --die 4@2

Any ranks may fail, at any time, except the last one. The protocol and the arithmetic are real; a stage takes --work
seconds, in which the rank sleeps.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
import recovery
from mpi4py import MPI

PRIME = 2**61 - 1
FACTOR, START = 3**37, 20140617
PICOSECONDS = 10**12
NEVER = 2**62


class Token(NamedTuple):
    """The token: the number of finished stages and the value; then the number of informed ranks."""

    stages: int
    value: int
    informed: int
    revoked_ps: int
    woken_ps: int


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--laps", type=recovery.positive, default=5, help="rounds of the token")
    add("--work", type=recovery.seconds, default=0.0, help="duration of a stage in seconds")
    add("--spares", type=recovery.positive, default=3, help="number of communicators duplicated in advance")
    return parser.parse_args()


def closed_form(ranks: int, laps: int) -> int:
    """Return the last token: a lap is x -> A x + B with A = a^n, and B a sum of (r + 1) a^(n - 1 - r)."""

    def divided(number: int, by: int) -> int:
        return number * pow(by, -1, PRIME) % PRIME

    lap = pow(FACTOR, ranks, PRIME)
    added = divided(lap * FACTOR - (ranks + 1) * FACTOR + ranks, (FACTOR - 1) ** 2)
    power = pow(lap, laps, PRIME)
    return (power * START + divided(added * (power - 1), lap - 1)) % PRIME


def now_ps() -> int:
    """Return the time in picoseconds."""
    return round(MPI.Wtime() * PICOSECONDS)


class Ring:
    """One rank of the ring."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.ranks = MPI.COMM_WORLD.size
        self.kept = Token(0, START, 0, NEVER, 0)
        self.dead: set[int] = set()
        self.spares: list[MPI.Intracomm] = []
        self.revoked_ps, self.woken_ps = NEVER, 0

    def circulate(self, comm: MPI.Intracomm) -> int:
        """Pass the token on until all stages are done and this rank knows it; return its value.

        The first survivor starts it, informs the others on a final lap when all is done, and ends when it is back.
        """
        before, after = self.living(comm, -1), self.living(comm, 1)
        first, own = MPI.Group.Translate_ranks(comm.group, [before, comm.rank], MPI.COMM_WORLD.group)
        stages = range(first + 1, own + 1 if own > first else own + 1 + self.ranks)
        token = self.kept._replace(informed=0, revoked_ps=NEVER, woken_ps=0)
        is_first = comm.rank == next(rank for rank in range(comm.size) if rank not in self.dead)
        waits = not is_first
        buffer = np.zeros(len(token), np.int64)
        while True:
            if waits:
                comm.Recv(buffer, before)
                token = Token(*buffer.tolist())
            waits = True
            recovery.die_at(self.arguments.die, token.stages // self.ranks)
            token = self.kept = self.handled(token, stages, is_first)
            if is_first and token.informed >= comm.size - len(self.dead):
                return token.value
            comm.Send(np.array(token, np.int64), after)
            if token.informed and not is_first:
                return token.value

    def handled(self, token: Token, stages: range, is_first: bool) -> Token:
        """Do this rank's stages with a token, or count the informed ranks once all are done."""
        done, value = token.stages, token.value
        while done < self.ranks * self.arguments.laps and (done - stages.start) % self.ranks < len(stages):
            if self.arguments.work:
                time.sleep(self.arguments.work)
            value = (FACTOR * value + done % self.ranks + 1) % PRIME
            done += 1
        if done < self.ranks * self.arguments.laps:
            return token._replace(stages=done, value=value)
        revoked_ps, woken_ps = min(token.revoked_ps, self.revoked_ps), max(token.woken_ps, self.woken_ps)
        return Token(done, value, token.informed + int(is_first or token.informed > 0), revoked_ps, woken_ps)

    # -------------------------------------------------------------------------------------------------------- recovery

    def living(self, comm: MPI.Intracomm, step: int) -> int:
        """Return the next rank in one direction that is not known to have failed."""
        rank = (comm.rank + step) % comm.size
        while rank in self.dead:
            rank = (rank + step) % comm.size
        return rank

    def attempted(self, comm: MPI.Intracomm) -> int:
        """Circulate; note when this rank revokes after a failure, or is woken by a revocation."""
        try:
            return self.circulate(comm)
        except MPI.Exception as error:
            if error.Get_error_class() == MPI.ERR_REVOKED:
                self.revoked_ps, self.woken_ps = NEVER, now_ps()
            else:
                self.revoked_ps = self.woken_ps = now_ps()
            raise

    def skipped(self, comm: MPI.Intracomm) -> MPI.Intracomm:
        """Switch to a prepared communicator and exclude failed ranks; make new ones if none is left."""
        if not self.spares:
            self.prepare(comm.Shrink())
        comm = self.spares.pop()
        self.dead = {*recovery.agreed_dead(comm)}
        return comm

    def prepare(self, comm: MPI.Intracomm) -> None:
        """Duplicate a communicator once for each possible revocation."""

        def duplicates(comm: MPI.Intracomm) -> list[MPI.Intracomm]:
            return [comm.Dup() for _ in range(self.arguments.spares + 1)]

        self.spares, _ = recovery.until_agreed(comm, duplicates, recovery.shrink)


# ---------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Pass the token around, across any gaps."""
    arguments = parse_arguments()
    ring = Ring(arguments)
    ring.prepare(MPI.COMM_WORLD)
    value, comm = recovery.until_agreed(ring.spares.pop(), ring.attempted, ring.skipped)
    seconds = (ring.kept.woken_ps - ring.kept.revoked_ps) / PICOSECONDS
    lines = [f"propagate: {ring.ranks} ranks, {arguments.laps} laps, token {value}"]
    if ring.kept.revoked_ps <= ring.kept.woken_ps > 0:  # the rank that revoked may have failed, and its time with it
        lines.insert(0, f"# time: the last woke {seconds * 1e6:.6f} us after the revocation")
    living = comm.Shrink()
    for each in (comm, *ring.spares):
        each.Free()
    recovery.conclude(living, lines, value == closed_form(ring.ranks, arguments.laps))


if __name__ == "__main__":
    main()
