"""Execution of a study's runs, by worker processes, an executor, or the ranks of a real MPI."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from concurrent.futures import Executor, Future, as_completed
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from xsim_py import workers
from xsim_py.engine import launched_by_mpiexec
from xsim_py.study.task import Outcome, StudyTask, do
from xsim_py.workers import Crash

_FUNCTION: Final = "xsim_py.study.task:do"
_IMPORTS: Final = ("xsim_py.run",)


def do_in_workers(tasks: Iterable[StudyTask], jobs: int) -> Generator[tuple[int, Outcome]]:
    """Execute tasks in `jobs` processes; yield each task's number and outcome on completion.

    Closing the generator kills the workers.
    """
    for number, result in workers.do_in_workers(_FUNCTION, tasks, jobs, imports=_IMPORTS):
        yield number, _crashed(*result) if isinstance(result, Crash) else result


def do_in_executor(tasks: Iterable[StudyTask], executor: Executor) -> Generator[tuple[int, Outcome]]:
    """Execute tasks with a `concurrent.futures` executor, such as ``MPIPoolExecutor`` of mpi4py."""
    futures: dict[Future[Outcome], int] = {executor.submit(do, task): number for number, task in enumerate(tasks)}
    try:
        for future in as_completed(futures):
            error = future.exception()
            yield futures[future], future.result() if error is None else _crashed(1, f"{type(error).__name__}: {error}")
    finally:
        for future in futures:
            future.cancel()


def mpi_executor(jobs: int | None) -> AbstractContextManager[Executor | None]:
    """Return the other ranks of a real MPI, if this is the master of ``-m mpi4py.futures``.

    That has imported the module before; our code never does. A program may have imported it, too, but without other
    ranks it would get only one worker: a thread of this process, which has one working directory.
    """
    futures: Any = sys.modules.get("mpi4py.futures") if launched_by_mpiexec() > 1 else None
    return futures.MPIPoolExecutor(jobs) if futures else nullcontext()


def _crashed(status: int, said: str, was_hanging: bool = False) -> Outcome:
    return {"ended": "wall limit" if was_hanging else "crashed", "exit_status": status, "said": said, "last_lines": []}
