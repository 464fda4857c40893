"""How fast and how small: ``make bench``.

Each case runs in a process of its own. First its answer is checked (events, messages, virtual time and digest, against
``expected.json``), then its cost is printed: CPU time for a message, also as a multiple of the bare ring's
(`tests.bench.bare`) that was measured next to it in the same run, and memory for a rank. What depends on this computer
is printed and not judged; what does not (answers, growth with the number of ranks, memory, ratios to something that is
measured in the same run) fails the command.

``python -m tests.bench --long`` has also a ring of 262,144 ranks, an alltoall of a million messages both ways, and
barriers and allreduces of a million ranks: 20 minutes, and 10 GB. ``--record`` writes the expected answers of what it
runs, after a change that is meant to change them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
ANSWERS = ("events", "messages", "bytes", "virtual_time_s", "digest", "exit_status")


class Case(NamedTuple):
    """A program on so many ranks.

    Attributes
    ----------
    name : str
        What the expected answers call it, before the number of ranks.
    program : str
        In ``programs/``.
    network : dict of str to str
        Entries of the machine, if it is the torus.
    rounds : int
        How often the program does what it does; None: as often as it does by itself.
    collectives : str
        See `simulate`.
    """

    name: str
    program: str
    ranks: int
    network: dict[str, str] | None = None
    rounds: int | None = None
    collectives: str = "auto"


TORUS = {"topology.dims": "[64, 64, 64]"}
ROUTED = {**TORUS, "network.per_hop": "100ns"}
CASES = [
    Case("ring", "ring", 1024),
    Case("ring", "ring", 16384),
    Case("ring", "ring", 65536),
    Case("objects", "objects", 1024),
    Case("allreduce", "allreduce", 1024),
    Case("allreduce", "allreduce", 16384),
    Case("far", "far", 4096, TORUS),
    Case("routed", "far", 4096, ROUTED),
    Case("contended", "far", 4096, {**ROUTED, "network.contention": "links"}),
    Case("empty", "empty", 65536),
    Case("idle", "idle", 65536),
]
LONG = [Case("ring", "ring", 262144)]
# What a program costs that does something less often than another is no part of what that costs: name, ranks, network,
# how often in the two programs, and by which ways.
FURTHER = [
    ("alltoall", 1024, {"mpi.collectives.alltoall": "pairwise"}, (0, 1), ("messages", "arrays")),
    ("barrier", 1 << 20, {}, (1, 3), ("arrays",)),
    ("allreduce", 1 << 20, {}, (1, 3), ("arrays",)),
]
BESIDE = {
    "isolation": "ranks in processes of their own are not as they must be",
    "formal": "the formal model of FTCO is not as it must be",
    "packing": "datatypes are not packed as they must be",
    "fabrics": "fat trees do not cost what they may",
    "flight": "messages in flight cost more the more there are",
    "checked": "checks do not cost what they may",
    "collectives": "collectives with auto take longer than message by message",
    "trees": "arrays of trees do not cost what they may",
}
REPEATS, REPEATS_OF_MANY, MANY = 5, 2, 10_000
GROWTH_AT_MOST = 1.8
OBJECTS_AT_MOST = 1.6  # times what a message in upper case costs
MEMORY_AT_MOST = {"empty": 4 * 1024, "idle": 10 * 1024, "ring": 14 * 1024}  # bytes a rank, with 65,536 of them
FRAMES = 2 * 1024 * (sys.version_info >= (3, 12))  # as many more: from there on greenlet makes an object of each frame
START_UP_AT_MOST = 4.0  # times the start of Python with numpy

# A first run of two ranks loads what is loaded on first use.
_RUN = """
import json, sys
from xsim_py import simulate
network = json.loads(sys.argv[3])
machine = {} if network is None else {"machine": "torus3d", "set": network}
simulate(sys.argv[1], ranks=2)
done = simulate(sys.argv[1], ranks=int(sys.argv[2]), args=sys.argv[5:], collectives=sys.argv[4], **machine)
print(json.dumps(done.summary))
"""


def python(*arguments: object) -> str:
    """Run Python in a process of its own and return what it prints."""
    command = [sys.executable, *map(str, arguments)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout


def run(case: Case) -> dict[str, Any]:
    """The summary of one case."""
    program = HERE / "programs" / f"{case.program}.py"
    rounds = [] if case.rounds is None else [case.rounds]
    summary: dict[str, Any] = json.loads(
        python("-c", _RUN, program, case.ranks, json.dumps(case.network), case.collectives, *rounds)
    )
    return summary


def measure(case: Case) -> dict[str, Any]:
    """The best of some runs of one case, with the bare ring's cost beside each."""
    best: dict[str, Any] = {}
    for _ in range(REPEATS_OF_MANY if case.ranks > MANY else REPEATS):
        summary = run(case)
        if summary["messages"]:
            summary["bare_us"] = float(python("-m", "tests.bench.bare", case.ranks, 10)) / (case.ranks * 10) * 1e6
        if not best or summary["cpu_s"] < best["cpu_s"]:
            best = summary
    return best


def start_up_s() -> tuple[float, float]:
    """The start of the command, and that of Python with numpy, in CPU seconds; the least of some runs by turns."""
    empty = HERE / "programs" / "empty.py"

    def cpu_s(*arguments: object) -> float:
        before = _children_s()
        python(*arguments)
        return _children_s() - before

    turns = [(cpu_s("-m", "xsim_py", "run", "-n", 1, "--quiet", empty), cpu_s("-c", "import numpy")) for _ in range(5)]
    with_us, without = map(min, zip(*turns, strict=True))
    return with_us, without


def _children_s() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compared(costs: dict[tuple[str, int], float]) -> list[str]:
    """Print what follows from the costs of several cases in CPU us, and return what is not as it must be."""
    failures = []
    for name, many in [key for key in costs if key[0] in ("ring", "allreduce") and key[1] > 1024]:
        growth = costs[name, many] / costs[name, 1024]
        print(f"{name}: CPU for a message grows {growth:.2f} times from 1,024 to {many:,} ranks")
        if growth > GROWTH_AT_MOST:
            failures.append(f"{name}: grows more than {GROWTH_AT_MOST} times")
    dearer = costs["objects", 1024] / costs["ring", 1024]
    print(f"objects: {dearer:.2f} times the CPU for a message in upper case")
    if dearer > OBJECTS_AT_MOST:
        failures.append(f"objects: more than {OBJECTS_AT_MOST} times as much as in upper case")
    far, routed, contended = (costs[name, 4096] for name in ("far", "routed", "contended"))
    print(f"torus: routing adds {routed - far:.2f} us to a message, links that are shared {contended - routed:.2f} us")
    start, idle = costs["empty", 65536], costs["idle", 65536]
    print(f"ranks: {start:.1f} us to start and end one, {idle:.1f} us with a message to wait for")
    with_us, without = start_up_s()
    print(f"start of `xsim run -n 1`: {with_us:.3f} s, {with_us / without:.1f} times that of Python with numpy")
    if with_us > START_UP_AT_MOST * without:
        failures.append(f"start-up takes more than {START_UP_AT_MOST} times that of Python with numpy")
    return failures


class Judge:
    """The answers that cases must have, from the file or for it."""

    def __init__(self, record: bool) -> None:
        self.record = record
        self.expected: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
        self.failures: list[str] = []
        self._seen: dict[str, Any] = {}

    def look(self, label: str, summary: dict[str, Any]) -> None:
        """Compare, or note for the file."""
        answers = {key: summary[key] for key in ANSWERS}
        if self.record:
            self.expected[label] = self._seen.setdefault(label, answers)
        if answers != self.expected[label]:
            self.failures.append(f"{label}: the answer is {answers} and should be {self.expected[label]}")


def further(judge: Judge) -> None:
    """Measure and print what one more call of a collective costs: by the least CPU time of some runs by turns."""
    for name, ranks, network, (few, many), ways in FURTHER:
        for way in ways:
            cpu_s = dict.fromkeys((few, many), float("inf"))
            for _ in range(REPEATS_OF_MANY):
                for rounds in cpu_s:
                    summary = run(Case(name, name, ranks, network, rounds, way))
                    judge.look(f"{name} {ranks} x{rounds}", summary)
                    cpu_s[rounds] = min(cpu_s[rounds], summary["cpu_s"])
            each_s = (cpu_s[many] - cpu_s[few]) / (many - few)
            way = "message by message" if way == "messages" else "as arrays"
            print(f"{name} on {ranks:,} ranks {way}: {each_s:.2f} s, beside {cpu_s[few]:.2f} s with {few}", flush=True)


def main() -> int:
    """Run all cases; the exit status says whether all is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="also what takes minutes and 10 GB")
    parser.add_argument("--record", action="store_true", help="write the expected answers")
    options = parser.parse_args()
    began_s = time.monotonic()
    judge = Judge(options.record)
    failures = judge.failures
    costs: dict[tuple[str, int], float] = {}
    cases = CASES + LONG * options.long
    print(f"{'case':10} {'ranks':>7} {'messages':>9} {'CPU us/message':>15} {'x bare ring':>12} {'memory B/rank':>14}")
    for case in cases:
        summary = measure(case)
        label = f"{case.name} {case.ranks}"
        judge.look(label, summary)
        messages = summary["messages"]
        cost = costs[case.name, case.ranks] = summary["cpu_s"] / (messages or case.ranks) * 1e6
        times = f"{cost:15.2f} {cost / summary['bare_us']:12.2f}" if messages else f"{'':15} {'':12}"
        memory = summary["peak_rss_bytes"] / case.ranks
        print(f"{case.name:10} {case.ranks:7} {messages:9} {times} {memory:14.0f}", flush=True)
        if case.ranks == 65536 and memory > (at_most := MEMORY_AT_MOST[case.name] + FRAMES):
            failures.append(f"{label}: more than {at_most} bytes a rank")
    failures += compared(costs)
    if options.long:
        further(judge)
    for module, failure in BESIDE.items():
        if subprocess.run([sys.executable, "-m", f"tests.bench.{module}"], check=False).returncode:
            failures.append(failure)
    if options.record:
        EXPECTED.write_text(json.dumps(judge.expected, indent=2) + "\n", encoding="utf-8")
    print(*failures, sep="\n")
    print(f"{len(cases)} cases in {time.monotonic() - began_s:.0f} s: {'failed' if failures else 'as expected'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
