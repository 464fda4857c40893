"""The cost of a message in CPU time against the number of messages in flight, up to a million.

On machines whose messages could overtake each other: those with segments, with and without shared links. Each run has a
process of its own. The program checks what it received; the number of messages is checked here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "flight.py"
RANKS = 4096
NETWORKS = {"segments": {}, "segments, shared links": {"network.contention": "links"}}
FEW, PARTNERS = 4, (64, 244)  # messages per rank; 244 are 999,424 in flight
GROWTH_AT_MOST = 1.5

_RUN = """
import json, sys
from xsim_py import simulate
program, ranks, partners, network = sys.argv[1:]
simulate(program, ranks=2, args=["1"], machine="azure-hdr")
done = simulate(program, ranks=int(ranks), args=[partners], machine="azure-hdr", set=json.loads(network))
print(json.dumps([done.summary["messages"], done.summary["cpu_s"], done.exit_status]))
"""


def cpu_us(network: dict[str, str], partners: int) -> float:
    """Return the least CPU time of a message in two runs, in microseconds."""
    least = float("inf")
    for _ in range(2):
        command = [sys.executable, "-c", _RUN, PROGRAM, str(RANKS), str(partners), json.dumps(network)]
        messages, cpu_s, status = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if (messages, status) != (RANKS * partners, 0):
            raise SystemExit(f"flight: {messages} messages, status {status}")
        least = min(least, cpu_s / messages * 1e6)
    return least


def main() -> int:
    """Compare them; the exit status is 1 if the cost of a message grows."""
    grown = False
    for name, network in NETWORKS.items():
        few = cpu_us(network, FEW)
        for partners in PARTNERS:
            many = cpu_us(network, partners)
            print(
                f"flight: {name}: {RANKS * partners:,} messages in flight, {many:.1f} us a message, "
                f"{many / few:.2f} times that of {RANKS * FEW:,}",
                flush=True,
            )
            grown |= many > GROWTH_AT_MOST * few
    return grown


if __name__ == "__main__":
    sys.exit(main())
