"""What ranks cost in processes of their own, beside greenlets: ``python -m tests.bench.isolation``, in ``make bench``.

The same commands run by turns both ways. First the digests are compared, then the least wall times. What depends on
this computer is printed; ratios and memory are judged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
APPS = HERE.parents[1] / "apps"
RANKS = 64
TURNS = 2
WAYS = ("greenlets", "process", "process:8")
MOST_PRIVATE_BYTES = 12e6


class Case(NamedTuple):
    """A program, and how many times longer it may take with a process for each rank."""

    name: str
    program: Path
    args: tuple[str, ...] = ()
    at_most: float | None = None


CASES = [
    Case("start", HERE / "programs" / "empty.py"),
    Case("ring of 1 KiB, 10 rounds", APPS / "ring.py"),
    Case("allreduce of 8 bytes, 100 times", HERE / "programs" / "allreduce.py", ("100",)),
    Case("heat2d", APPS / "heat2d.py", (), 5.0),
    Case("each rank computes", HERE / "programs" / "busy.py", ("100000",), 0.8 if (os.cpu_count() or 1) > 1 else None),
]


def run(program: Path, way: str, *args: str) -> tuple[float, str, str]:
    """Wall time in seconds, digest, and output."""
    command = [sys.executable, "-m", "xsim_py", "run", "-n", str(RANKS), "--quiet", "--json", "-", "--isolation", way]
    began_s = time.perf_counter()
    done = subprocess.run([*command, str(program), *args], check=True, capture_output=True, text=True)
    wall_s = time.perf_counter() - began_s
    return wall_s, json.loads(done.stdout)["digest"], done.stderr


def compare(case: Case) -> list[str]:
    """Print what one program takes, and return what is not as it must be."""
    wall_s = dict.fromkeys(WAYS, float("inf"))
    digests = set()
    for _ in range(TURNS):
        for way in WAYS:
            taken_s, digest, _ = run(case.program, way, *case.args)
            wall_s[way] = min(wall_s[way], taken_s)
            digests.add(digest)
    times = {way: wall_s[way] / wall_s["greenlets"] for way in WAYS}
    cells = "".join(f"{wall_s[way]:8.2f} s {times[way]:5.2f}x" for way in WAYS)
    print(f"{case.name:32} {cells}", flush=True)
    failures = [] if len(digests) == 1 else [f"{case.name}: the digests differ: {sorted(digests)}"]
    if case.at_most is not None and times["process"] > case.at_most:
        failures.append(f"{case.name}: more than {case.at_most} times what greenlets take")
    return failures


def private() -> list[str]:
    """Print how much memory a process has for itself, and return what is wrong with that."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        return []
    _, _, said = run(HERE / "programs" / "private.py", "process", str(APPS / "ring.py"))
    each = int(said.rpartition("private:")[2])
    print(f"{'memory of its own, a process':32} {each / 1e6:8.2f} MB")
    return [f"{each:,} bytes of memory of its own, a process"] if each > MOST_PRIVATE_BYTES else []


def main() -> int:
    """Run all cases; the exit status says whether all is as it must be."""
    print(f"{RANKS} ranks: " + ", ".join(WAYS))
    failures = [failure for case in CASES for failure in compare(case)] + private()
    for failure in failures:
        print(f"isolation: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
