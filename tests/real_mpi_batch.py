"""Runs inside one real MPI job: many programs one after the other, each rank's output in a file of its own.

    mpiexec -n N python real_mpi_batch.py FOLDER

FOLDER holds jobs.json, a list of [program, arguments].  Rank r writes what job j printed to j.r.out and j.r.err, and,
once it has ended, its exit status to j.r.status: a job whose status is missing took the whole batch down.  A list of
one job is run as python itself would run it: it may end the MPI job as it likes.
"""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from mpi4py import MPI


def redirect(folder: Path, job: int, rank: int) -> None:
    """Let the standard streams of this process, Python's and C's, end in files."""
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        stream.flush()
        stream.reconfigure(encoding="utf-8", line_buffering=True)
        file = os.open(folder / f"{job}.{rank}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream.fileno())
        os.close(file)


def run(path: str, args: list[str]) -> None:
    """Run a program as python would, and forget the modules it brought along."""
    before = set(sys.modules)
    sys.argv = [path, *args]
    sys.path[0] = str(Path(path).parent)
    runpy.run_path(path, run_name="__main__")
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(sys.path[0]):
            del sys.modules[name]


def status_of(path: str, args: list[str]) -> int:
    """Run a program and return the exit status that python would have had."""
    try:
        run(path, args)
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        print(ending.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Run all jobs of the folder."""
    folder, comm = Path(sys.argv[1]), MPI.COMM_WORLD
    jobs = json.loads((folder / "jobs.json").read_text())
    if len(jobs) == 1:
        redirect(folder, 0, comm.rank)
        run(*jobs[0])
        return
    for job, (path, args) in enumerate(jobs):
        redirect(folder, job, comm.rank)
        status = status_of(path, args)
        sys.stdout.flush()
        (folder / f"{job}.{comm.rank}.status").write_text(str(status))
        comm.Barrier()


if __name__ == "__main__":
    main()
