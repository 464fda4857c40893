"""Propagation: who finds a failure wakes all others by a revocation, and they go on around the hole.

This is what the slides on ULFM (Bosilca, Bouteiller and others, 2014) call an application that uses propagation only.
It has point-to-point messages and nothing else: a token goes around a ring of ranks, and each waits for it from the
one before.  When P1 dies, P2 alone finds out.  P3 to Pn wait for ranks that live, and would wait for ever.  P2 revokes
the communicator, all wake up, agree on who is dead, and pass the token over the hole, on a communicator that was
duplicated beforehand.  There is no Shrink, and nobody gets another rank, while one is left (--spares).

On each lap each rank does its stage with the token, x -> a x + rank + 1 modulo 2^61 - 1; the stages of the dead are
done by the next one who lives.  Stages do not commute, so that the last token shows whether each was done once and in
order; there is a closed form for it.  A token that dies with its holder is taken up from the last lap of the first
who lives.

    xsim run -n 8 propagate.py
    xsim run -n 8 --fail rank=1@500us --timeline - propagate.py --work 20e-6
    mpirun --with-ft ulfm -n 8 python propagate.py --die 1@1 --die 4@2

Any ranks may die, at any time, as long as one is left.  The protocol and the arithmetic are real; how long a stage
takes is --work, in which the rank sleeps.
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
    """What goes around: how many stages are done, and what has come out; and then, how many have been told."""

    stages: int
    value: int
    told: int
    revoked_ps: int
    woken_ps: int


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    parser.add_argument("--laps", type=int, default=5, help="how often the token goes around")
    parser.add_argument("--work", type=float, default=0.0, help="seconds that a stage takes")
    parser.add_argument("--spares", type=int, default=3, help="communicators that are duplicated beforehand")
    arguments = parser.parse_args()
    if arguments.laps < 1 or arguments.work < 0 or arguments.spares < 1:
        parser.error("--laps and --spares must be positive, and --work not negative")
    return arguments


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
    """One rank's place in the ring."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.ranks = MPI.COMM_WORLD.size
        self.kept = Token(0, START, 0, NEVER, 0)
        self.dead: set[int] = set()
        self.spares: list[MPI.Intracomm] = []
        self.revoked_ps, self.woken_ps = NEVER, 0

    def circulate(self, comm: MPI.Intracomm) -> int:
        """Pass the token on whenever it comes, until all stages are done and this rank knows; return its value.

        The first who lives sends it off, tells the others on a lap of its own when all is done, and has it back then.
        """
        before, after = self.living(comm, -1), self.living(comm, 1)
        first, own = MPI.Group.Translate_ranks(comm.group, [before, comm.rank], MPI.COMM_WORLD.group)
        stages = range(first + 1, own + 1 if own > first else own + 1 + self.ranks)
        token = self.kept._replace(told=0, revoked_ps=NEVER, woken_ps=0)
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
            if is_first and token.told >= comm.size - len(self.dead):
                return token.value
            comm.Send(np.array(token, np.int64), after)
            if token.told and not is_first:
                return token.value

    def handled(self, token: Token, stages: range, is_first: bool) -> Token:
        """Do this rank's stages with a token, and when all are done count those who know."""
        done, value = token.stages, token.value
        while done < self.ranks * self.arguments.laps and (done - stages.start) % self.ranks < len(stages):
            if self.arguments.work:
                time.sleep(self.arguments.work)
            value = (FACTOR * value + done % self.ranks + 1) % PRIME
            done += 1
        if done < self.ranks * self.arguments.laps:
            return token._replace(stages=done, value=value)
        revoked_ps, woken_ps = min(token.revoked_ps, self.revoked_ps), max(token.woken_ps, self.woken_ps)
        return Token(done, value, token.told + int(is_first or token.told > 0), revoked_ps, woken_ps)

    # -------------------------------------------------------------------------------------------------------- recovery

    def living(self, comm: MPI.Intracomm, step: int) -> int:
        """Return the next rank in one direction that is not known to be dead."""
        rank = (comm.rank + step) % comm.size
        while rank in self.dead:
            rank = (rank + step) % comm.size
        return rank

    def attempted(self, comm: MPI.Intracomm) -> int:
        """Circulate, and note when this rank sees a failure, and so revokes, or is woken by another's revocation."""
        try:
            return self.circulate(comm)
        except MPI.Exception as error:
            if error.Get_error_class() == MPI.ERR_REVOKED:
                self.revoked_ps, self.woken_ps = NEVER, now_ps()
            else:
                self.revoked_ps = self.woken_ps = now_ps()
            raise

    def skipped(self, comm: MPI.Intracomm) -> MPI.Intracomm:
        """Go over to a communicator that was made beforehand, and leave out the dead; make new ones if none is left."""
        if not self.spares:
            self.prepare(comm.Shrink())
        comm = self.spares.pop()
        self.dead = {*recovery.agreed_dead(comm)}
        return comm

    def prepare(self, comm: MPI.Intracomm) -> None:
        """Duplicate a communicator, as often as one may be revoked."""

        def duplicates(comm: MPI.Intracomm) -> list[MPI.Intracomm]:
            return [comm.Dup() for _ in range(self.arguments.spares + 1)]

        self.spares, _ = recovery.until_agreed(comm, duplicates, recovery.shrink)


# ---------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Let the token go around, over whatever holes there are."""
    arguments = parse_arguments()
    ring = Ring(arguments)
    ring.prepare(MPI.COMM_WORLD)
    value, comm = recovery.until_agreed(ring.spares.pop(), ring.attempted, ring.skipped)
    seconds = (ring.kept.woken_ps - ring.kept.revoked_ps) / PICOSECONDS
    lines = [f"propagate: {ring.ranks} ranks, {arguments.laps} laps, token {value}"]
    if ring.kept.revoked_ps <= ring.kept.woken_ps > 0:  # who has revoked may be dead, and with it that time
        lines.insert(0, f"# time: the last woke {seconds * 1e6:.6f} us after the revocation")
    living = comm.Shrink()
    for each in (comm, *ring.spares):
        each.Free()
    recovery.conclude(living, lines, value == closed_form(ring.ranks, arguments.laps))


if __name__ == "__main__":
    main()
