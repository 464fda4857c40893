"""Checkpoint and restart: the total time of a job that restarts after each failure.

The job works in segments and writes a checkpoint after each. Work, checkpoint and restart are sleeps, so the program is
the model behind the theory of the optimal interval. Let failures be random, one in M seconds on average. A job of W
seconds of work, with checkpoints of C seconds after segments of S seconds and restarts of R seconds, takes on average

    M exp(R / M) (exp((S + C) / M) - 1) W / S

seconds. A failure may strike at any time, also during a checkpoint or a restart. It costs the work since the last
complete checkpoint. Every start except the first begins with a restart, even without a complete checkpoint, and the
last segment has a checkpoint as well.

A small file stores the number of complete segments until the job is done. A failing process must end the job at once,
so that the others do not continue to work until they notice.

    xsim run -n 4 --no-ft --restart on-abort --fail rank=2@400s checkpoint.py
    mpirun -n 4 python checkpoint.py --work 10 --interval 2 --checkpoint 0.5 --restart 1   # until it succeeds
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from typing import NamedTuple

from mpi4py import MPI


class State(NamedTuple):
    """The stored state of an unfinished job."""

    complete: int
    starts: int
    begun_s: float


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=float, default=1000.0, help="seconds of work to do")
    parser.add_argument("--interval", type=float, default=50.0, help="seconds of work in a segment")
    parser.add_argument("--checkpoint", type=float, default=5.0, help="seconds that a checkpoint takes")
    parser.add_argument("--restart", type=float, default=10.0, help="seconds that a restart takes")
    parser.add_argument("--state", metavar="FILE", default="checkpoint.state", help="file with the job's state")
    return parser.parse_args()


def complaints(arguments: argparse.Namespace) -> list[str]:
    """Return the problems of the arguments."""
    values = {name: getattr(arguments, name) for name in ("work", "interval", "checkpoint", "restart")}
    wrong = [
        f"--{name} {value} must be finite and not negative"
        for name, value in values.items()
        if not 0 <= value < math.inf
    ]
    return [*wrong, "--interval must be above 0"] if arguments.interval == 0 else wrong


def load(path: str) -> State | None:
    """Return the state of the job, or None if it has not begun."""
    try:
        with open(path, encoding="utf-8") as file:
            complete, starts, begun_s = file.read().split()
    except FileNotFoundError:
        return None
    return State(int(complete), int(starts), float(begun_s))


def save(path: str, state: State) -> None:
    """Replace the stored state atomically."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(f"{state.complete} {state.starts} {state.begun_s!r}\n")
    os.replace(f"{path}.new", path)


def start(comm: MPI.Comm, path: str) -> State:
    """Read the state of the job, count this start, and inform all ranks."""
    state = None
    if comm.rank == 0:
        state = load(path) or State(complete=0, starts=0, begun_s=time.time())
        state = state._replace(starts=state.starts + 1)
        save(path, state)
    return comm.bcast(state, root=0)


def run(comm: MPI.Comm, arguments: argparse.Namespace) -> State:
    """Continue the job from its last complete checkpoint to its end."""
    state = start(comm, arguments.state)
    if state.starts > 1:
        time.sleep(arguments.restart)
    segments = math.ceil(round(arguments.work / arguments.interval, 9))  # 0.3 is three times 0.1
    while state.complete < segments:
        time.sleep(min(arguments.interval, arguments.work - state.complete * arguments.interval))
        time.sleep(arguments.checkpoint)
        state = state._replace(complete=state.complete + 1)
        comm.Barrier()  # no rank is still writing its part
        if comm.rank == 0:
            save(arguments.state, state)
        comm.Barrier()
    return state


def main() -> None:
    """Run the job, and print the time since its first start."""
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
    arguments = parse_arguments()
    if wrong := complaints(arguments):
        if comm.rank == 0:
            print("\n".join(f"checkpoint: {line}" for line in wrong), file=sys.stderr)
        raise SystemExit(2)
    begin = MPI.Wtime()
    state = run(comm, arguments)
    if comm.rank == 0:
        os.remove(arguments.state)
        print(f"checkpoint: {state.complete} segments, {state.starts} starts")
        print(f"time: {MPI.Wtime() - begin:.6f} s since the last start")
        print(f"time: {time.time() - state.begun_s:.6f} s")


if __name__ == "__main__":
    main()
