"""Checkpoint and restart: how long a job takes that is started again after each failure.

The job has to do some work, in segments, and writes a checkpoint after each.  Work, checkpoint and restart only take
their time, asleep, so the program is the model behind the theory of the best interval: with failures that come at
random, one in M seconds on average, a job of W seconds of work, checkpoints of C seconds after segments of S seconds
and restarts of R seconds takes

    M exp(R / M) (exp((S + C) / M) - 1) W / S

seconds on average.  A failure may strike at any time, also during a checkpoint or a restart; it costs what has been
done since the last complete checkpoint.  Every start but the first begins with a restart, also where there is no
complete checkpoint yet, and the last segment has a checkpoint as well.

The number of complete segments is kept in a small file, which is there as long as the job is not done.  A process that
dies has to end the job at once: then the others do not work on until they miss it.

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
    """What is known of a job that is under way."""

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
    parser.add_argument("--state", metavar="FILE", default="checkpoint.state", help="where the job's state is kept")
    return parser.parse_args()


def complaints(arguments: argparse.Namespace) -> list[str]:
    """Return what is wrong with the arguments."""
    values = {name: getattr(arguments, name) for name in ("work", "interval", "checkpoint", "restart")}
    wrong = [
        f"--{name} {value} must be finite and not negative"
        for name, value in values.items()
        if not 0 <= value < math.inf
    ]
    return [*wrong, "--interval must be above 0"] if arguments.interval == 0 else wrong


def load(path: str) -> State | None:
    """Return the state of the job, or None if it has not begun yet."""
    try:
        with open(path, encoding="utf-8") as file:
            complete, starts, begun_s = file.read().split()
    except FileNotFoundError:
        return None
    return State(int(complete), int(starts), float(begun_s))


def save(path: str, state: State) -> None:
    """Put the state in place of the one before, at once: there is always a complete one."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(f"{state.complete} {state.starts} {state.begun_s!r}\n")
    os.replace(f"{path}.new", path)


def start(comm: MPI.Comm, path: str) -> State:
    """Find out where the job stands, note one more start of it, and tell all ranks."""
    state = None
    if comm.rank == 0:
        state = load(path) or State(complete=0, starts=0, begun_s=time.time())
        state = state._replace(starts=state.starts + 1)
        save(path, state)
    return comm.bcast(state, root=0)


def run(comm: MPI.Comm, arguments: argparse.Namespace) -> State:
    """Go on with the job from its last complete checkpoint to its end."""
    state = start(comm, arguments.state)
    if state.starts > 1:
        time.sleep(arguments.restart)
    segments = math.ceil(round(arguments.work / arguments.interval, 9))  # 0.3 is three times 0.1
    while state.complete < segments:
        time.sleep(min(arguments.interval, arguments.work - state.complete * arguments.interval))
        time.sleep(arguments.checkpoint)
        state = state._replace(complete=state.complete + 1)
        comm.Barrier()  # nobody is still writing his part
        if comm.rank == 0:
            save(arguments.state, state)
        comm.Barrier()
    return state


def main() -> None:
    """Run the job, and print how long it took since its first start."""
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
