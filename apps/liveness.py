"""Liveness discovery: the members of a group determine its survivors, without other ranks.

The algorithm of Rocco and Palermo, "Fault-Aware Non-Collective Communication Creation and Reparation in MPI", 2022, and
the calls that they build on it: agreement and shrinking of a group, and communicators of a group with failed members.
There are four variants:

naive     the paper's Algorithm 1 (with the shift corrected): a process whose partner has failed is cut off
legio     that of the library Legio: the next survivor replaces a failed process; hangs for some sets of failures
repaired  each process replies exactly to those it has received from: correct for all failures before the discovery
safe      correct also for failures during it: a replacement queries, and finished processes reply until the end

The first three receive from one partner after the other, as published. The last one receives from any rank, and is
notified of all failures meanwhile; its messages travel on a separate communicator.

Processes kill themselves (--dead, --die), or are killed from outside. Run it for real, and simulated:

    mpirun --with-ft ulfm --oversubscribe -n 8 python liveness.py --variant safe --die 2 --die 5
    xsim run -n 8 --ft liveness.py --variant safe --die 2 --die 5
    xsim run -n 8 --fail rank=2@20us --fail rank=5@30us liveness.py --variant safe
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING)
VARIANTS = ("naive", "legio", "repaired", "safe")
TAG = 17
PAUSE_S = 1e-3
DATA, RESULT, REQUEST = range(3)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=VARIANTS, default="safe", help="the algorithm")
    parser.add_argument("--group", type=int, help="size of the group, which has the first ranks (default: all)")
    parser.add_argument("--dead", type=float, default=0, help="percentage of the group that dies before the discovery")
    parser.add_argument("--die", type=int, action="append", default=[], help="a rank that dies before the discovery")
    parser.add_argument("--seed", type=int, default=0, help="seed of --dead")
    parser.add_argument("--settle", type=float, default=0.05, help="seconds between the deaths and the discovery")
    parser.add_argument("--calls", type=int, default=0, help="also measure this number of calls of each kind")
    return parser.parse_args()


class Block:
    """Knowledge about a part of the group: its survivors, and the OR of their flags."""

    def __init__(self, alive: set[int], flag: int) -> None:
        self.alive = alive
        self.flag = flag

    def merge(self, other: Block) -> None:
        """Merge the knowledge of another process."""
        self.alive |= other.alive
        self.flag |= other.flag


class Place:
    """A process's place in the tree: its rank in the group, and its current role."""

    def __init__(self, me: int, size: int) -> None:
        self.me = self.role = me
        self.size = size
        self.top = (size - 1).bit_length()
        self.level = 1

    def zeros(self, rank: int) -> int:
        """Count the trailing zero bits of a rank: the number of levels of which it is a root."""
        return (rank & -rank).bit_length() - 1 if rank else self.top

    def is_leaf(self) -> bool:
        """Return True if its role sends at this level."""
        return self.zeros(self.role) < self.level

    def before(self) -> range:
        """Return the members of its block that may be the root, in order."""
        return range(self.role >> self.level << self.level, self.role)

    def behind(self, role: int | None = None, level: int | None = None) -> range:
        """Return the block whose leader sends to the role at this level."""
        low = (self.role if role is None else role) + (1 << (level or self.level) - 1)
        return range(min(low, self.size), min(low + (1 << (level or self.level) - 1), self.size))


def received(comm: MPI.Comm, source: int) -> Block | None:
    """Receive from a process; return None if it has failed."""
    try:
        block: Block = comm.recv(source=source, tag=TAG)
    except MPI.Exception as error:
        if error.Get_error_class() not in FAILURES:
            raise
        return None
    return block


def send(comm: MPI.Comm, what: Any, dest: int) -> None:
    """Send to a process that may have failed."""
    try:
        comm.send(what, dest=dest, tag=TAG)
    except MPI.Exception as error:
        if error.Get_error_class() not in FAILURES:
            raise


def published(comm: MPI.Comm, ranks: Sequence[int], flag: int, variant: str) -> Block:
    """Run the discovery of the paper or of Legio: one blocking receive after the other."""
    place = Place(ranks.index(comm.rank), len(ranks))
    mine = Block({place.me}, flag)
    heard: list[int] = []
    while place.level <= place.top:
        if not place.is_leaf():
            for child in place.behind()[: 1 if variant == "naive" else None]:
                if child == place.me:
                    break
                block = received(comm, ranks[child])
                if block is not None:
                    mine.merge(block)
                    heard.append(child)
                    break
            place.level += 1
            continue
        for root in place.before()[: 1 if variant == "naive" else None]:
            send(comm, mine, ranks[root])
            result = received(comm, ranks[root])
            if result is not None:
                mine = result
                break
        else:
            if variant != "naive":
                place.role = place.before()[0]  # all of them have failed: it replaces them
                continue
        break
    for child in worked_out(place, mine) if variant == "legio" else reversed(heard):
        send(comm, mine, ranks[child])
    return mine


def worked_out(place: Place, mine: Block) -> list[int]:
    """Return the receivers of Legio's replies, which it derives from the last role only."""
    told, role = [], place.role
    for level in range(place.zeros(role), 0, -1):
        role = place.me if level == place.zeros(place.me) else role
        first = next((child for child in place.behind(role, level) if child in mine.alive), None)
        if first is not None and first != place.me:
            told.append(first)
    return told


class Safe:
    """The safe variant, for several discoveries of one group, with replies to late ranks.

    Parameters
    ----------
    comm : MPI.Comm
        A separate communicator.
    ranks : sequence of int
        The group, as ranks of that communicator.
    """

    def __init__(self, comm: MPI.Comm, ranks: Sequence[int]) -> None:
        self.comm = comm
        self.ranks = ranks
        self.me = ranks.index(comm.rank)
        self.dead: set[int] = set()
        self.number = 0
        self.results: dict[int, Block] = {}
        self.early: list[tuple[int, int, int, Any]] = []
        self.request: Any = None

    def discover(self, flag: int) -> Block:
        """Return the survivors, and the OR of their flags."""
        self.number += 1
        self.place = Place(self.me, len(self.ranks))
        self.mine = Block({self.me}, flag)
        self.heard: list[int] = []
        self.blocks: dict[int, Block] = {}
        self.asked: set[int] = set()
        self.sent_to: int | None = None
        early, self.early = self.early, []
        for message in early:
            self.take(*message)
        self.advance()
        while self.number not in self.results:
            self.take(*self.next())
        return self.results[self.number]

    def next(self) -> tuple[int, int, int, Any]:
        """Wait for the next message; learn of failures meanwhile."""
        while True:
            if self.request is None:
                self.request = self.comm.irecv(source=MPI.ANY_SOURCE, tag=TAG)
            try:
                message: tuple[int, int, int, Any] = self.request.wait()
            except MPI.Exception as error:
                self.learn(error)
                if self.number in self.results:
                    return self.me, self.number, RESULT, None
                continue
            self.request = None
            return message

    def learn(self, error: MPI.Exception) -> None:
        """Record failures; the same request continues once they are acknowledged."""
        if error.Get_error_class() not in FAILURES:
            raise error
        if error.Get_error_class() == MPI.ERR_PROC_FAILED:
            self.request = None
        self.comm.Ack_failed()
        failed = set(self.comm.Get_failed().Translate_ranks(None, self.comm.Get_group()))
        self.dead = {place for place, rank in enumerate(self.ranks) if rank in failed}
        if self.number not in self.results:
            self.advance()

    def post(self, to: int, kind: int, what: Any, number: int | None = None) -> None:
        """Send a message of a discovery."""
        if to not in self.dead:
            send(self.comm, (self.me, number or self.number, kind, what), self.ranks[to])

    def take(self, source: int, number: int, kind: int, what: Any) -> None:
        """Handle a message: finished processes reply, and messages of failed processes do not count."""
        if number > self.number:
            self.early.append((source, number, kind, what))
        elif number in self.results:
            if kind != RESULT:
                self.post(source, RESULT, self.results[number], number)
        elif source in self.dead:
            pass
        elif kind == RESULT:
            self.finish(what)
        else:
            if source not in self.heard:
                self.heard.append(source)
            if kind == DATA:
                self.blocks[source] = what
            self.advance()

    def finish(self, result: Block) -> None:
        """Store the result, and send it to all known waiting processes."""
        self.results[self.number] = result
        for source in reversed(self.heard):
            self.post(source, RESULT, result)

    def advance(self) -> None:
        """Advance as far as possible in the tree."""
        place = self.place
        while place.level <= place.top:
            if place.is_leaf():
                root = next((root for root in place.before() if root not in self.dead), None)
                if root is not None:
                    if root != self.sent_to:
                        self.sent_to = root
                        self.post(root, DATA, self.mine)
                    return
                place.role = place.before()[0]
                continue
            block = place.behind()
            if self.me not in block:
                sent = [self.blocks[child] for child in block if child in self.blocks]
                child = next((child for child in block if child not in self.dead), None)
                if not sent and child is not None:
                    if place.role != self.me and child not in self.asked:
                        self.asked.add(child)
                        self.post(child, REQUEST, None)
                    return
                for each in sent:
                    self.mine.merge(each)
            place.level += 1
        self.finish(self.mine)

    def serve(self) -> None:
        """Reply to late ranks until all survivors are here, as no rank does in other calls."""
        over = self.comm.Iagree(array("i", [1]))
        while True:
            try:
                if over.Test():
                    break
            except MPI.Exception:
                break  # a failure is not acknowledged by all: all survivors are here
            if self.request is None:
                self.request = self.comm.irecv(source=MPI.ANY_SOURCE, tag=TAG)
            try:
                done, message = self.request.test()
            except MPI.Exception as error:
                self.learn(error)
                continue
            if done:
                self.request = None
                self.take(*message)

    def close(self) -> None:
        """Stop receiving."""
        if self.request is not None:
            self.request.Cancel()
            self.request.Wait()
            self.request = None


Discover = Callable[[int], Block]


def living_group(comm: MPI.Comm, ranks: Sequence[int], found: Block) -> MPI.Group:
    """Return the survivors as a group, in its order."""
    everybody = comm.Get_group()
    living = everybody.Incl([rank for place, rank in enumerate(ranks) if place in found.alive])
    everybody.Free()
    return living


def meet(comm: MPI.Comm) -> float:
    """Wait for all; return a time that is about the same for them."""
    latest: float = comm.allreduce(MPI.Wtime(), MPI.MAX)
    return latest


def sleep_until(comm: MPI.Comm, when: float) -> None:
    """Sleep until a shared clock's time; with separate clocks, continue as a barrier allows."""
    if comm.Get_attr(MPI.WTIME_IS_GLOBAL):
        time.sleep(max(0.0, when - MPI.Wtime()))


def measured(calls: dict[str, Callable[[], Any]], times: int, comm: MPI.Comm) -> dict[str, float]:
    """Return the mean time of each call in seconds; all survivors begin each together."""
    took = dict.fromkeys(calls, 0.0)
    for name, call in calls.items():
        for _ in range(times):
            sleep_until(comm, meet(comm) + PAUSE_S)
            start = MPI.Wtime()
            call()
            took[name] += (MPI.Wtime() - start) / times
    return took


def calls_of(comm: MPI.Intracomm, ranks: Sequence[int], discover: Discover, *, member: bool) -> dict[str, Any]:
    """Return the compared calls: those of a group, and ULFM's if the group has all ranks."""

    def from_group(group: MPI.Group) -> None:
        MPI.Intracomm.Create_from_group(group).Free()

    def nothing() -> None:
        """Do nothing: the process is not a member of the group."""

    calls = {}
    if len(ranks) == comm.size:
        calls = {"Agree": lambda: comm.Agree(1), "Shrink": lambda: comm.Shrink().Free()}
    if not member:
        return calls | dict.fromkeys(("agree_group", "shrink_group", "create"), nothing)
    group = living_group(comm, ranks, discover(0))
    return calls | {
        "agree_group": lambda: discover(1),
        "shrink_group": lambda: from_group(living_group(comm, ranks, discover(0))),
        "create": lambda: from_group(group),
    }


def print_report(comm: MPI.Comm, what: str, found: Block | None, took: dict[str, float]) -> bool:
    """Print the survivors and the longest times on the first survivor; return True if all agree."""
    everything = comm.gather((None if found is None else tuple(sorted(found.alive)), took), root=0)
    if everything is None:
        return True
    lists = {alive for alive, _ in everything if alive is not None}
    print(f"liveness: {what}")
    print(f"found: {min(map(len, lists))} alive, {len(lists)} list{'s' * (len(lists) > 1)}")
    for name in dict.fromkeys(name for _, each in everything for name in each):
        print(f"time: {name} {max(each.get(name, 0) for _, each in everything) * 1e6:.3f} us")
    return len(lists) == 1


def main() -> None:
    """Kill some processes, let the others of the group discover the survivors, and print times."""
    options = parse_arguments()
    world = MPI.COMM_WORLD
    world.Set_errhandler(MPI.ERRORS_RETURN)
    size = world.size if options.group is None else options.group
    wrong = [rank for rank in options.die if not 0 <= rank < world.size]
    if wrong or not 1 <= size <= world.size or not 0 <= options.dead < 100:
        if world.rank == 0:
            what = f"rank {wrong[0]}" if wrong else f"a group of {size} with {options.dead} % dead"
            print(f"liveness: {what} cannot be among {world.size} ranks", file=sys.stderr)
        raise SystemExit(2)
    ranks = range(size)
    dead = {*options.die, *random.Random(options.seed).sample(ranks, int(size * options.dead / 100))}
    everybody = world.Get_group()
    group = everybody.Incl(ranks)
    own = world.Create(group)  # no message of a discovery matches one of the program
    group.Free()
    everybody.Free()
    if own:
        own.Set_errhandler(MPI.ERRORS_RETURN)
    met = meet(world)
    if world.rank in dead:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(options.settle)
    sleep_until(world, met + options.settle + PAUSE_S)
    member = world.rank < size
    safe = Safe(own, ranks) if options.variant == "safe" and member else None
    discover = safe.discover if safe else lambda flag: published(own, ranks, flag, options.variant)
    start = MPI.Wtime()
    found = discover(0) if member else None
    took = {"discovery": MPI.Wtime() - start} if member else {}
    if safe:
        safe.serve()
    living = world.Shrink()
    world.Ack_failed()
    if options.calls:
        took |= measured(calls_of(world, ranks, discover, member=member), options.calls, living)
        took["overhead"] = took["shrink_group"] - took["create"]
    if safe:
        safe.close()
    what = f"{options.variant}, {world.size} ranks, {world.size - living.size} dead, a group of {size}"
    right = print_report(living, what, found, took)
    living.Free()
    if own and not dead:  # all of its members have to take part
        own.Free()
    if not right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
