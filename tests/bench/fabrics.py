"""What a fat tree costs the simulator beside one switch, where messages do not share links.

A ring runs on a switch and on fat trees, by turns in one process. First the answer is checked, which is a closed form:
a rank has its k-th message when the slowest way of k steps along the ring has been gone. Then the least CPU time of
each is compared; a fat tree may cost 1 us more for a message than a switch.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import Any

from xsim_py import simulate

PROGRAM = Path(__file__).parent / "programs" / "ring.py"
RANKS, ROUNDS, TURNS = 512, 20, 15
AT_MOST_US = 1.0
NETWORK = {"latency": "1us", "per_hop": "100ns", "bandwidth": "1GB/s"}
FABRICS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "switch": ({"type": "switch"}, ()),
    "fat tree, 2 levels": ({"type": "fattree", "leaves": 32, "nodes_per_leaf": 16}, (16,)),
    "fat tree, 3 levels": ({"type": "fattree", "arity": 8, "levels": 3}, (8, 64)),
    "fat tree, 36 x 18": ({"type": "fattree", "radix": 36, "levels": 2}, (18,)),  # no powers of two
}
"""The topologies, and how many nodes are below a switch of each level but the topmost."""


def expected_s(below: tuple[int, ...]) -> float:
    """Return when the last rank has its last message."""
    hops = [2 + 2 * sum(rank // block != (rank + 1) % RANKS // block for block in below) for rank in range(RANKS)]
    most = max(sum(hops[(rank + step) % RANKS] for step in range(ROUNDS)) for rank in range(RANKS))
    return ROUNDS * (1e-6 + 1024e-9) + most * 100e-9


def run(name: str) -> tuple[float, float]:
    """Return the virtual seconds and the CPU seconds of one run."""
    gc.collect()
    before = time.process_time()
    machine = {"topology": FABRICS[name][0], "network": NETWORK}
    result = simulate(PROGRAM, ranks=RANKS, machine=machine, args=[str(ROUNDS)])
    spent = time.process_time() - before
    if result.summary["messages"] != RANKS * ROUNDS:
        raise SystemExit(f"{name}: {result.summary['messages']} messages")
    return result.virtual_time_s, spent


def main() -> int:
    """Compare them; the exit status says whether all is as it must be."""
    wrong: list[str] = []
    least = dict.fromkeys(FABRICS, float("inf"))
    for _ in range(TURNS):
        for name, (_, below) in FABRICS.items():
            took, spent = run(name)
            expected = expected_s(below)
            if abs(took / expected - 1) > 1e-9:
                wrong.append(f"{name}: {took:.9f} s, and a ring takes {expected:.9f} s")
            least[name] = min(least[name], spent)
    wrong = list(dict.fromkeys(wrong))
    for name, spent in least.items():
        more_us = (spent - least["switch"]) / (RANKS * ROUNDS) * 1e6
        print(f"fabrics: {name}: {spent / (RANKS * ROUNDS) * 1e6:.2f} us a message, {more_us:+.2f} us beside a switch")
        if name.startswith("fat tree") and more_us > AT_MOST_US:
            wrong.append(f"{name}: more than {AT_MOST_US} us a message above a switch")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
