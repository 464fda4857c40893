"""Whether ``collectives="auto"`` is as fast as messages: ``python -m tests.bench.collectives``, in ``make bench``.

Each algorithm of each collective runs 4, 20 and 100 times, alternately with ``auto`` and with ``messages``, in this
process: on few ranks, where arrays pay least, and on more. First the answers are compared: the same virtual time,
digest, events and messages. Then the minimum CPU times are judged by their ratio. Operations in lower case, whose
algorithms follow from those of others, have separate rows.

``python -m tests.bench.collectives barrier allreduce/ring`` runs some of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from xsim_py import simulate
from xsim_py.mpi.collectives import REGISTRY
from xsim_py.report import Result

AT_MOST = 1.1
CALLS = (4, 20, 100)
RANKS = (24, 48)
TURNS, MOST_TURNS = 3, 30
MOST_MESSAGES = 120_000
"""More are not run: a call with that many messages takes the same time from the first repetition on."""
LOOKED_AT = ("events", "messages", "bytes", "virtual_time_s", "digest", "exit_status")

PROGRAM = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
n = comm.size
one, some, out, more = np.ones(1), np.ones(n), np.zeros(n), np.zeros(n)
ones, places, types = [1] * n, [8 * rank for rank in range(n)], [MPI.DOUBLE] * n
for _ in range({calls}):
    comm.{call}
"""
IN_UPPER_CASE = {
    "barrier": "Barrier()",
    "bcast": "Bcast(some)",
    "reduce": "Reduce(some, out)",
    "allreduce": "Allreduce(some, out)",
    "gather": "Gather(one, out)",
    "gatherv": "Gatherv(one, [out, ones])",
    "scatter": "Scatter(some, one)",
    "scatterv": "Scatterv([some, ones], one)",
    "allgather": "Allgather(one, out)",
    "allgatherv": "Allgatherv(one, [out, ones])",
    "alltoall": "Alltoall(some, out)",
    "alltoallv": "Alltoallv([some, ones], [out, ones])",
    "alltoallw": "Alltoallw([some, ones, places, types], [out, ones, places, types])",
    "reduce_scatter": "Reduce_scatter(some, one, ones)",
    "reduce_scatter_block": "Reduce_scatter_block(some, one)",
    "scan": "Scan(some, out)",
    "exscan": "Exscan(some, out)",
}
IN_LOWER_CASE = ("allgather(n)", "allgather([n])", "alltoall(ones)", "allreduce(1)", "scan(1)", "exscan(1)")


class Case(NamedTuple):
    """A call of an algorithm, or of an operation in lower case, on a number of ranks."""

    name: str
    call: str
    machine: dict[str, Any]
    ranks: int

    def run(self, calls: int, collectives: str) -> tuple[float, Result]:
        """Return the CPU time of one run in seconds, and the result."""
        began_s = time.process_time()
        program = PROGRAM.format(calls=calls, call=self.call)
        result = simulate(program, kind="code", ranks=self.ranks, machine=self.machine, collectives=collectives)
        return time.process_time() - began_s, result


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for ranks in RANKS:
        for operation, algorithms in REGISTRY.items():
            for name in algorithms:
                if name != "two_proc":
                    machine = {"network": {"latency": "1us"}, "mpi": {"collectives": {operation: name}}}
                    yield Case(f"{operation}/{name}", IN_UPPER_CASE[operation], machine, ranks)
        for call in IN_LOWER_CASE:
            yield Case(call, call, {"network": {"latency": "1us"}}, ranks)


def compare(case: Case, calls: int) -> tuple[float, str]:
    """Return the ratio of both CPU times, and what is not as it must be."""
    cpu_s = dict.fromkeys(("auto", "messages"), float("inf"))
    answers = set()
    for turn in range(MOST_TURNS):
        if turn >= TURNS and cpu_s["auto"] <= AT_MOST * cpu_s["messages"]:
            break
        for collectives in cpu_s:
            taken_s, result = case.run(calls, collectives)
            cpu_s[collectives] = min(cpu_s[collectives], taken_s)
            answers.add(tuple(result.summary[key] for key in LOOKED_AT))
    ratio = cpu_s["auto"] / cpu_s["messages"]
    label = f"{case.name} on {case.ranks} ranks, {calls} calls"
    if len(answers) > 1:
        return ratio, f"{label}: other answers than message by message: {answers}"
    return ratio, f"{label}: {ratio:.2f} times as long as message by message" if ratio > AT_MOST else ""


def main() -> int:
    """Run all cases, or those named; the exit status says whether all is as it must be."""
    failures = []
    print(f"CPU time with auto / message by message, for {', '.join(map(str, CALLS))} calls")
    for case in cases():
        if sys.argv[1:] and not {case.name, case.name.partition("/")[0]} & set(sys.argv[1:]):
            continue
        each = case.run(1, "auto")[1].summary["messages"]  # also loads what is loaded on first use
        found = [compare(case, calls) for calls in CALLS if calls * each <= MOST_MESSAGES or calls == CALLS[0]]
        print(f"{case.name:40} {case.ranks:3} ranks", *(f"{ratio:6.2f}" for ratio, _ in found), flush=True)
        failures += [failure for _, failure in found if failure]
    for failure in failures:
        print(f"collectives: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
