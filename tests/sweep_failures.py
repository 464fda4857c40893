"""Kill a rank before every one of its calls, and then another one, and judge what comes of it.

The engine is that of `xsim explore failures`; what is right is judged here, for each program in its own way.
`python -m tests.sweep_failures [PROGRAM...]` makes every pair of deaths of each program, or of all: hours. With
`--singles` it makes every death of one rank alone, with `--times N` at N times in place of calls, with `--pairs N` N
pairs by chance; with `--ranks N` on N ranks.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.cases import ROOT
from xsim_py.explore import failures
from xsim_py.explore.runs import RunSummary, RunTask, execute
from xsim_py.report.failure_space import FailureSpace

APPS, PROGRAMS = ROOT / "apps", ROOT / "tests" / "ulfm_programs"
RESULT = re.compile(r"^(?!lost: ).*\b(result|state)\b|^right: ")
LOST = re.compile(r"^lost: |^\d+ lost ", re.MULTILINE)
PLACES = 64  # so that processes can be named before they are started


class Death(NamedTuple):
    """A rank, numbered through with those that are started later, dies before one of its calls, counted from 1."""

    rank: int
    call: int

    def __str__(self) -> str:
        return f"rank={self.rank} before its {self.call}th call"


class Moment(NamedTuple):
    """A rank dies at a virtual time, in picoseconds."""

    rank: int
    time: int

    def __str__(self) -> str:
        return f"rank={self.rank}@{self.time}ps"


class Outcome(NamedTuple):
    """What became of a run."""

    came: frozenset[int]
    results: frozenset[str]
    lost: bool
    ended: str
    status: int
    said: str
    digest: str
    time: int

    @classmethod
    def of(cls, seen: RunSummary) -> "Outcome":
        """Return what became of a run that was explored."""
        lines = [text for _, text in seen.lines]
        said = "\n".join([*lines, seen.report])
        return cls(
            frozenset(rank for rank, cause in seen.died if cause.startswith("injected")),
            frozenset(line.partition("result ")[2] or line for line in lines if RESULT.search(line)),
            LOST.search(said) is not None,
            seen.ended,
            seen.exit_status,
            said,
            seen.digest,
            seen.virtual_time_ps,
        )


def nothing(dead: frozenset[int]) -> bool:
    """Return that no deaths take data along for good."""
    return False


def falanx_loses(dead: frozenset[int]) -> bool:
    """Return whether two of the three storage ranks have died, before copies could be made."""
    return len(dead & {1, 2, 3}) >= 2


def a_pair(dead: frozenset[int]) -> bool:
    """Return whether two neighbours have died of whom each has the data of the other: 0 and 1, 2 and 3, ..."""
    return any(rank + 1 in dead for rank in dead if rank % 2 == 0)


def several(dead: frozenset[int]) -> bool:
    """Return whether more than one has died."""
    return len(dead) > 1


class Sweep(NamedTuple):
    """A program that is to get over failures, and what it cannot get over."""

    path: Path
    ranks: int
    args: tuple[str, ...] = ()
    buddies: bool = False
    """Whether the data of a rank are with its right neighbour, and nowhere else."""
    needed: frozenset[int] = frozenset()
    """Ranks without which it cannot go on."""
    loses: Callable[[frozenset[int]], bool] = nothing
    """Whether data may be lost for good by the deaths of these ranks, where it is neither of these two rules."""
    newcomers: int = 0
    """How many of those that are started later are killed, too."""
    kills: bool = False
    """Whether it kills processes itself, so that with two more none may be left who prints anything, or none at all."""

    def __str__(self) -> str:
        return ".".join([self.path.stem, *self.args])

    def run(self, deaths: Iterable[Death | Moment] = (), *, shards: int = 1) -> Outcome:
        """Run the program with these deaths."""
        return Outcome.of(execute(RunTask({**self.options(), "fail": list(map(str, deaths)), "shards": shards})))

    def options(self) -> dict[str, Any]:
        """Return what `simulate` is told."""
        return {
            "program": str(self.path),
            "ranks": self.ranks,
            "args": self.args,
            "machine": "gige",
            "set": {"spawn.universe": PLACES},
            "ft": True,
        }

    def explore(self, deaths: int = 2, budget: int | None = None) -> FailureSpace:
        """Judge up to so many deaths at any calls, or as many as the budget allows of each number."""
        told = {"deaths": deaths, "budget": budget, "victims": self.victims, "judge": self.judge}
        return failures(**self.options(), **told, when=["before"])

    def judge(self, right: RunSummary, seen: RunSummary) -> str:
        """Return the class of a run: it survives where failures have done no more than to take data along."""
        if not self.wrong(Outcome.of(right), Outcome.of(seen)):
            return "survived"
        return "stalled" if seen.ended == "stalled" else "aborted" if seen.ended == "aborted" else "wrong result"

    def wrong(self, right: Outcome, outcome: Outcome) -> str:
        """Return what is wrong with an outcome, if anything: all that failures may do is to take data along."""
        may_be_lost = outcome.lost and self.may_be_lost(outcome.came)
        if outcome.lost and not outcome.results:
            lawful = may_be_lost and outcome.ended in {"aborted", "finished"} and outcome.status == 1
            return "" if lawful else f"lost by the deaths of {sorted(outcome.came)}, and {outcome.ended}"
        if self.kills and "no process is left" in outcome.said:
            return ""
        if outcome.ended != "finished" and not may_be_lost:  # what is lost after the result has no use any more
            return f"{outcome.ended}: {outcome.said[-1500:]}"
        if not outcome.results <= right.results or not (outcome.results or self.kills):
            return f"{set(outcome.results)} in place of {set(right.results)}"
        return ""

    def may_be_lost(self, dead: frozenset[int]) -> bool:
        """Return whether so much may be lost by these deaths that the program cannot go on."""
        if self.buddies and any((rank + 1) % self.ranks in dead for rank in dead if rank < self.ranks):
            return True
        return bool(self.needed & dead) or self.loses(dead)

    @property
    def victims(self) -> range:
        """Who is to die."""
        return range(self.ranks + self.newcomers)

    def at_times(self, times: int) -> Iterator[tuple[Moment, str]]:
        """Yield what is wrong with the death of each rank at each of so many times, evenly over the quiet run."""
        right = self.run()
        for rank in range(self.ranks):
            for number in range(times):
                death = Moment(rank, right.time * number // times)
                yield death, self.wrong(right, self.run([death]))


def program(name: str, ranks: int, *args: str, **what: Any) -> Sweep:
    """Return a program of tests/ulfm_programs, which is to end in MPI_Finalize."""
    return Sweep(PROGRAMS / f"{name}.py", ranks, (*args, "finalize"), **what)


FACTORS = ("--block", "2", "--groups", "1")


def both_copies(dead: frozenset[int]) -> bool:
    """Return whether a finest grid of sparse_grid.py and its copy are gone, with 3 of them on 8 ranks."""
    return any({rank, rank + 5} <= dead for rank in range(3))


LATTICE = ("--columns", "16", "--steps", "6", "--every", "2")
SAMPLES = ("--subdomains", "1", "--samples", "6", "--cells", "5")
SMALL = ("--level", "3", "--finest", "3", "--nodes", "3", "--steps", "4", "--every", "2")

SAMPLED = ("--walkers=2", "--rounds=1", "--checks=4", "--steps=2", "--tolerance=99", "--ln-f=9")
FEW_POINTS = ("--rows", "1", "--columns", "3", "--tolerance", "1e-8", "--every", "2")
SWEEPS = [
    Sweep(APPS / "ft_replace.py", 4, ("--steps", "4", "--every", "2"), buddies=True, newcomers=2),
    Sweep(APPS / "lattice_boltzmann.py", 4, LATTICE, newcomers=2),
    Sweep(APPS / "lattice_boltzmann.py", 4, (*LATTICE, "--recovery", "buddy"), buddies=True, newcomers=2),
    Sweep(
        APPS / "fampi.py",
        4,
        ("--nodes", "2", "--tolerance", "1e-2", "--block", "2"),
        buddies=True,
        newcomers=2,
    ),
    Sweep(APPS / "fampi.py", 4, ("--recovery", "forward", "--nodes", "2", "--tolerance", "1e-2", "--block", "2")),
    Sweep(APPS / "bag_of_tasks.py", 4, ("--tasks", "8", "--points", "10"), needed=frozenset([0])),
    *(
        Sweep(APPS / "resilient_pde.py", 8, (*SAMPLES, "--recovery", scheme), needed=frozenset([0, 4]))
        for scheme in ("ignore", "again")
    ),
    Sweep(APPS / "propagate.py", 4, ("--laps", "2", "--spares", "1")),
    *(
        Sweep(
            APPS / "ft_cg.py",
            4,
            ("--recovery", recovery, "--solver", solver, *FEW_POINTS),
            buddies=recovery == "rollback",
            newcomers=2,
        )
        for recovery, solver in (("li", "cg"), ("lossy", "lanczos"), ("rollback", "cg"), ("restart", "power"))
    ),
    Sweep(APPS / "falanx.py", 8, ("--fragments", "3", "--points", "8"), needed=frozenset([0]), loses=falanx_loses),
    Sweep(APPS / "ft_mlmc.py", 6, ("--samples", "16,8,4", "--units", "2")),
    Sweep(APPS / "ft_mlmc.py", 6, ("--samples", "16,8,4", "--units", "2", "--save", "intermediate")),
    Sweep(APPS / "wang_landau.py", 4, SAMPLED, loses=a_pair, newcomers=2),
    Sweep(APPS / "sparse_grid.py", 8, ("--recovery", "rc", *SMALL), loses=both_copies, newcomers=2),
    Sweep(APPS / "sparse_grid.py", 8, ("--recovery", "ac", *SMALL), newcomers=2),
    Sweep(APPS / "sparse_grid.py", 8, ("--recovery", "cr", *SMALL), newcomers=2),
    Sweep(APPS / "schwarz.py", 5, ("--subdomains", "4", "--tolerance", "1e-1"), newcomers=2),
    Sweep(APPS / "schwarz.py", 4, ("--subdomains", "2", "--synchronous", "--tolerance", "3e-2"), newcomers=2),
    Sweep(APPS / "repartition.py", 4, ("--vertices", "36", "--tolerance", "0.01")),
    Sweep(
        APPS / "repartition.py",
        4,
        ("--mesh", "chain", "--vertices", "24", "--tolerance", "0.1", "--recovery", "initial"),
    ),
    Sweep(APPS / "ft_qr.py", 4, FACTORS, loses=several, newcomers=2),
    Sweep(APPS / "ft_qr.py", 4, (*FACTORS, "--recovery", "buddy"), buddies=True, newcomers=2),
    program("respawn", 4, newcomers=2),
    program("respawn_reorder", 4, newcomers=2),
    program("buddy_restart", 4, "3", buddies=True, newcomers=2),
    program("transactions", 4),
    program("uniform_dup", 5),
    program("kill_until_one_is_left", 6, kills=True),
    program("kill_and_replace", 4, "2", newcomers=1, kills=True),
    program("jacobi_buddies", 4, "2", buddies=True, newcomers=2),
    program("bag_of_tasks", 4, "blank", needed=frozenset([0])),
    program("bag_of_tasks", 4, "shrink", needed=frozenset([0])),
    program("manager_of_spares", 6),
    program("create_without_parent", 5),
]


def bad(space: FailureSpace) -> list[str]:
    """Return the cases of a sweep that went wrong."""
    cases = [case for case in space.cases if case.outcome != "survived"]
    return [f"{' and '.join(case.fail)}: {case.outcome}: {case.said}" for case in cases]


def main() -> None:
    """Sweep, and say what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PROGRAM")
    parser.add_argument("--singles", action="store_true")
    parser.add_argument("--times", type=int, default=0, metavar="N", help="every rank at each of N times")
    parser.add_argument("--pairs", type=int, metavar="N")
    parser.add_argument("--ranks", type=int, metavar="N", help="how many ranks each program has")
    options = parser.parse_args()
    wrong = 0
    for sweep in SWEEPS:
        if options.names and not {sweep.path.stem, str(sweep)} & {*options.names}:
            continue
        if options.ranks:
            sweep = sweep._replace(ranks=options.ranks)
        begin = time.time()
        if options.times:
            judged = list(sweep.at_times(options.times))
            found, told = [f"{death}: {what}" for death, what in judged if what], f"{len(judged):,} cases"
        else:
            space = sweep.explore(1 if options.singles else 2, options.pairs)
            found, told = bad(space), f"{len(space.cases):,} cases, {space.never_came:,} could not come"
        wrong += len(found)
        print(*(f"{sweep}: {text}" for text in found), sep="\n", end="\n" * bool(found))
        print(f"{sweep}: {told}, {len(found):,} wrong, {time.time() - begin:.0f} s", flush=True)
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
