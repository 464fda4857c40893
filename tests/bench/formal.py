"""How fast ensembles of FTCO's formal model are: CPU time for a run, beside what is known of two C programs.

``python -m tests.bench.formal`` prints a table. The figures of the C programs are from another computer: the authors'
simulator, and an independent program whose nodes sleep until something happens. They are printed, and not judged. What
is judged are the answers, and that the cost of a node does not grow with their number.
"""

from __future__ import annotations

import sys
import time

from xsim_py.ftco.compiled import COMPILED, run_many
from xsim_py.ftco.model import Configuration

# Configuration, runs, and CPU milliseconds a run of the authors' simulator (0: not known) and of the fastest C program.
CASES = [
    ("1K, 1 inactive", Configuration(nodes=1024, radix=11, inactive=1), 200, 6.8, 1.3),
    ("1K, 10 inactive", Configuration(nodes=1024, radix=11, inactive=10), 100, 18.0, 2.2),
    ("1K, 100 inactive", Configuration(nodes=1024, radix=11, inactive=100), 40, 104.0, 14.0),
    ("4K, 1 inactive", Configuration(nodes=4096, radix=9, inactive=1), 50, 66.0, 4.2),
    ("8K, 1 inactive", Configuration(nodes=8192, radix=10, inactive=1), 30, 225.0, 10.0),
    ("8K, 100 inactive", Configuration(nodes=8192, radix=10, inactive=100), 15, 1100.0, 45.0),
    ("16K, 1 inactive", Configuration(nodes=16384, radix=12, inactive=1), 15, 1440.0, 17.0),
    ("64K, fault-free", Configuration(nodes=65536, radix=9), 5, 29800.0, 110.0),
    ("64K, 1 inactive", Configuration(nodes=65536, radix=9, inactive=1), 5, 0.0, 150.0),
    ("64K, 100 inactive", Configuration(nodes=65536, radix=9, inactive=100), 5, 0.0, 300.0),
    ("64K, spread 256", Configuration(nodes=65536, radix=9, imbalance="uniform:256"), 1, 0.0, 2400.0),
]
REPEATS = 3
GROWTH_AT_MOST = 3.0
FAULT_FREE = (171, 196616)


def main() -> int:
    """Run all cases; the exit status says whether all is as it must be."""
    if not COMPILED:
        print("numba is not installed: nothing is compiled")
        return 1
    run_many(Configuration(nodes=16, radix=2), 0, range(1))
    failures = []
    costs_us: dict[str, float] = {}
    print(f"{'case':18} {'ms a run':>9} {'authors / ours':>15} {'ours / fastest C':>17}")
    for name, configuration, runs, authors_ms, fastest_ms in CASES:
        best_ms = float("inf")
        for _ in range(REPEATS):
            start_s = time.process_time()
            rows = run_many(configuration, 1, range(runs))
            best_ms = min(best_ms, (time.process_time() - start_s) / runs * 1e3)
        costs_us[name] = best_ms * 1e3 / configuration.nodes
        authors = f"{authors_ms / best_ms:15.1f}" if authors_ms else f"{'':15}"
        print(f"{name:18} {best_ms:9.2f} {authors} {best_ms / fastest_ms:17.2f}", flush=True)
        if name == "64K, fault-free" and (found := tuple(rows[0, :2].tolist())) != FAULT_FREE:
            failures.append(f"{name}: steps and messages are {found} and should be {FAULT_FREE}")
    growth = costs_us["64K, 1 inactive"] / costs_us["1K, 1 inactive"]
    print(f"CPU for a node grows {growth:.2f} times from 1K to 64K nodes")
    if growth > GROWTH_AT_MOST:
        failures.append(f"a node's cost grows more than {GROWTH_AT_MOST} times")
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
