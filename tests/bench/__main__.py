"""How fast and how small: ``make bench``.

Each case runs in a process of its own. First its answer is checked (events, messages, virtual time and digest, against
``expected.json``), then its cost is printed: CPU time for a message, also as a multiple of the bare ring's
(`tests.bench.bare`) that was measured next to it in the same run, and memory for a rank. What depends on this computer
is printed and not judged; what does not (answers, growth with the number of ranks, memory) fails the command.

``python -m tests.bench --record`` writes the expected answers anew, after a change that is meant to change them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
ANSWERS = ("events", "messages", "bytes", "virtual_time_s", "digest", "exit_status")
CASES = [("ring", 1024), ("ring", 16384), ("allreduce", 1024), ("allreduce", 16384), ("empty", 65536)]
REPEATS = 5
GROWTH_AT_MOST = 2.0
EMPTY_RANK_AT_MOST_BYTES = 12 * 1024
START_UP_AT_MOST_S = 0.4

# A first run of two ranks loads what is loaded on first use.
_RUN = """
import json, sys
from xsim_py import simulate
simulate(sys.argv[1], ranks=2)
print(json.dumps(simulate(sys.argv[1], ranks=int(sys.argv[2])).summary))
"""


def python(*arguments: object) -> str:
    """Run Python in a process of its own and return what it prints."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(name: str, ranks: int) -> dict[str, Any]:
    """The best of some runs of one case, with the bare ring's cost beside each."""
    best: dict[str, Any] = {}
    for _ in range(REPEATS):
        summary = json.loads(python("-c", _RUN, HERE / "programs" / f"{name}.py", ranks))
        summary["bare_us"] = float(python("-m", "tests.bench.bare", ranks, 10)) / (ranks * 10) * 1e6
        if not best or summary["cpu_s"] < best["cpu_s"]:
            best = summary
    return best


def start_up_s() -> float:
    """What the command adds to Python's and numpy's own start, in CPU seconds; the least of some runs."""
    empty = HERE / "programs" / "empty.py"

    def cpu_s(*arguments: object) -> float:
        before = _children_s()
        python(*arguments)
        return _children_s() - before

    with_us = min(cpu_s("-m", "xsim_py", "run", "-n", 1, "--quiet", empty) for _ in range(5))
    without = min(cpu_s("-c", "import numpy") for _ in range(5))
    return with_us - without


def _children_s() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Run all cases; the exit status says whether all is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the expected answers")
    record = parser.parse_args().record
    began_s = time.monotonic()
    expected = {} if record else json.loads(EXPECTED.read_text(encoding="utf-8"))
    failures = []
    costs: dict[tuple[str, int], float] = {}
    print(f"{'case':10} {'ranks':>7} {'messages':>9} {'CPU us/message':>15} {'x bare ring':>12} {'memory B/rank':>14}")
    for name, ranks in CASES:
        summary = measure(name, ranks)
        answers = {key: summary[key] for key in ANSWERS}
        case = f"{name} {ranks}"
        if record:
            expected[case] = answers
        elif answers != expected[case]:
            failures.append(f"{case}: the answer is {answers} and should be {expected[case]}")
        messages = summary["messages"]
        cost = costs[name, ranks] = summary["cpu_s"] / (messages or ranks) * 1e6
        times = f"{cost:15.2f} {cost / summary['bare_us']:12.2f}" if messages else f"{'':15} {'':12}"
        print(f"{name:10} {ranks:7} {messages:9} {times} {summary['peak_rss_bytes'] / ranks:14.0f}", flush=True)
        if name == "empty" and summary["peak_rss_bytes"] / ranks > EMPTY_RANK_AT_MOST_BYTES:
            failures.append(f"{case}: more than {EMPTY_RANK_AT_MOST_BYTES} bytes a rank")
    for name in ("ring", "allreduce"):
        growth = costs[name, 16384] / costs[name, 1024]
        print(f"{name}: CPU for a message grows {growth:.2f} times from 1,024 to 16,384 ranks")
        if growth > GROWTH_AT_MOST:
            failures.append(f"{name}: grows more than {GROWTH_AT_MOST} times")
    start_s = start_up_s()
    print(f"start of `xsim run -n 1`: {start_s:.3f} s beyond Python's and numpy's own")
    if start_s > START_UP_AT_MOST_S:
        failures.append(f"start-up takes more than {START_UP_AT_MOST_S} s")
    if subprocess.run([sys.executable, "-m", "tests.bench.formal"], check=False).returncode:
        failures.append("the formal model of FTCO is not as it must be")
    if subprocess.run([sys.executable, "-m", "tests.bench.packing"], check=False).returncode:
        failures.append("datatypes are not packed as they must be")
    if record:
        EXPECTED.write_text(json.dumps(expected, indent=2) + "\n", encoding="utf-8")
    print(*failures, sep="\n")
    print(f"{len(CASES)} cases in {time.monotonic() - began_s:.0f} s: {'failed' if failures else 'as expected'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
