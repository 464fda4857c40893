"""Thousands of runs of the formal model, on all cores.

Run number i of an ensemble has its own seed, derived from the ensemble's seed and i. So the distribution of runs over
processes does not matter: a summary is the same for any number of processes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim_py.errors import ConfigError, XsimError
from xsim_py.ftco.backend import is_compiled, is_worth_it, measure, prepare
from xsim_py.ftco.model import MAX_RUNS, Configuration
from xsim_py.ftco.options import with_radix
from xsim_py.ftco.strata import SAMPLINGS, Stratum, combine, strata
from xsim_py.ftco.summary import Summary, summarise
from xsim_py.rng import derive_seed
from xsim_py.workers import Crash, cores, do_in_workers

_NODES_PER_CHUNK: Final = 1 << 18  # half a second or so
_NODES_PER_PLAIN_CHUNK: Final = 1 << 12
_MAX_JOBS: Final = 1_000
_FUNCTION: Final = "xsim_py.ftco.ensemble:do_chunk"


class _Chunk(NamedTuple):
    """Runs of one configuration that one process does as a unit."""

    task: int
    configuration: Configuration
    seed: int
    runs: range
    plain: bool
    exhaustive: bool = False


def run_ensemble(
    configurations: Sequence[Configuration],
    *,
    runs: int,
    seed: int = 0,
    jobs: int | None = None,
    overhead_s: float | None = None,
    sampling: str = "plain",
    progress: Callable[[int, int], None] | None = None,
) -> list[Summary]:
    """Run each configuration many times.

    Parameters
    ----------
    configurations : sequence of Configuration
        The configurations. A radix of ``auto`` becomes the best one.
    runs : int
        Number of runs. If nothing is drawn all are equal, and one is done.
    seed : int, optional
        Seed of the ensemble; equal for all configurations, so that two that differ in one parameter meet the same
        faults.
    jobs : int, optional
        Number of processes; default: one per core.
    overhead_s : float, optional
        Duration of a step, for latencies in seconds.
    sampling : str, optional
        ``plain``: each run draws from all possibilities. ``strata``: by the topmost level of the tree that a fault
        hits, which gives the same means with much smaller errors; see `xsim_py.ftco.strata`. Plain without a tree.
    progress : callable, optional
        Called periodically with the number of finished runs and of all runs.

    Returns
    -------
    list of Summary
        In the order of the configurations.

    Raises
    ------
    ConfigError
        For fewer than one run or process, or more than `MAX_RUNS` runs or a thousand processes.
    XsimError
        When a process dies.
    """
    for name, number, most in (("runs", runs, MAX_RUNS), ("jobs", 1 if jobs is None else jobs, _MAX_JOBS)):
        if number < 1:
            raise ConfigError(f"{name}: {number} is out of range (at least 1)")
        if number > most:
            raise ConfigError(f"{name}: {number:,} is out of range (at most {most:,})")
    if sampling not in SAMPLINGS:
        raise ConfigError(f"sampling: expected {' or '.join(SAMPLINGS)}, got {sampling!r}")
    made = [with_radix(configuration) for configuration in configurations]
    divided = [_divide(each, runs, sampling) for each in made]
    summaries = iter(_measure([part for parts in divided for part in parts], seed, jobs, overhead_s, progress))
    found = []
    for each, parts in zip(made, divided, strict=True):
        summaries_of_parts = [next(summaries) for _ in parts]
        found.append(
            summaries_of_parts[0] if each == parts[0].configuration else combine(each, parts, summaries_of_parts)
        )
    return found


def _divide(configuration: Configuration, runs: int, sampling: str) -> list[Stratum]:
    if sampling == "strata" and configuration.has_tree and configuration.inactive + configuration.failures:
        return strata(configuration, runs)
    return [Stratum(configuration, 1.0, runs, 0, False)]


def _measure(
    parts: Sequence[Stratum],
    seed: int,
    jobs: int | None,
    overhead_s: float | None,
    progress: Callable[[int, int], None] | None,
) -> list[Summary]:
    """Do the runs of all parts, and those without faults that the penalties refer to."""
    tasks: dict[tuple[Configuration, int, int, bool], int] = {}  # each once: strata share the runs without faults
    task_pairs = []
    for part in parts:
        fault_free = replace(part.configuration, inactive=0, failures=0, topmost=None)
        own = (part.configuration, part.runs if _is_random(part.configuration) else 1, part.stream, part.exhaustive)
        without = (fault_free, part.runs, part.stream, False) if _is_random(fault_free) else (fault_free, 1, 0, False)
        task_pairs.append([tasks.setdefault(task, len(tasks)) for task in (own, without)])
    plain = not is_worth_it([task[0] for task in tasks], max((task[1] for task in tasks), default=0))
    chunks: list[_Chunk] = []
    for (configuration, count, stream, exhaustive), task in tasks.items():
        own_seed = derive_seed(seed, "stratum", stream) if stream else seed
        chunks += _chunks(task, configuration, own_seed, range(count), plain, exhaustive=exhaustive)
    found = _collect(chunks, cores() if jobs is None else jobs, progress)
    summaries = []
    for part, (own_task, fault_free_task) in zip(parts, task_pairs, strict=True):
        measured = found[own_task]
        if len(measured) == 1:
            measured = np.repeat(measured, part.runs, axis=0)
        summaries.append(
            summarise(
                part.configuration, seed, measured, found[fault_free_task], overhead_s, exhaustive=part.exhaustive
            )
        )
    return summaries


def do_chunk(chunk: _Chunk) -> NDArray[np.int64]:
    """Do some runs, in any process; return one row of `summary.COLUMNS` per run."""
    if not chunk.exhaustive:
        return measure(chunk.configuration, chunk.seed, chunk.runs, plain=chunk.plain)
    assert chunk.configuration.topmost is not None
    first = chunk.configuration.topmost[0]
    return np.concatenate(
        [
            measure(
                replace(chunk.configuration, topmost=(first + run, first + run + 1)),
                chunk.seed,
                range(run, run + 1),
                plain=chunk.plain,
            )
            for run in chunk.runs
        ]
    )


def _is_random(configuration: Configuration) -> bool:
    """Return True if two runs can differ: without faults, service distances have no effect."""
    return bool(
        configuration.algorithm == "gossip"
        or configuration.inactive
        or configuration.failures
        or configuration.spread > 1
    )


def _chunks(
    task: int, configuration: Configuration, seed: int, runs: range, plain: bool, *, exhaustive: bool = False
) -> Iterator[_Chunk]:
    fast = is_compiled(configuration) and not plain
    size = max(1, (_NODES_PER_CHUNK if fast else _NODES_PER_PLAIN_CHUNK) // configuration.nodes)
    for first in range(0, len(runs), size):
        yield _Chunk(task, configuration, seed, runs[first : first + size], plain, exhaustive)


def _collect(
    chunks: Sequence[_Chunk], jobs: int, progress: Callable[[int, int], None] | None
) -> dict[int, NDArray[np.int64]]:
    """Do all chunks, and join those of each configuration, in the order of the runs."""
    total, done = sum(len(chunk.runs) for chunk in chunks), 0
    pieces: dict[int, NDArray[np.int64]] = {}
    if progress is not None:
        progress(0, total)
    with closing(_results(chunks, jobs)) as results:
        for number, result in results:
            if isinstance(result, Crash):
                raise XsimError(f"runs of {chunks[number].configuration.nodes:,} nodes: {result.said}")
            pieces[number] = result
            done += len(chunks[number].runs)
            if progress is not None:
                progress(done, total)
    found: dict[int, list[NDArray[np.int64]]] = {}
    for number, chunk in enumerate(chunks):
        found.setdefault(chunk.task, []).append(pieces[number])
    return {task: np.concatenate(parts) for task, parts in found.items()}


def _results(chunks: Sequence[_Chunk], jobs: int) -> Generator[tuple[int, NDArray[np.int64] | Crash]]:
    if any(is_compiled(chunk.configuration) and not chunk.plain for chunk in chunks):
        _prepare()
    if min(jobs, len(chunks)) == 1:
        for number, chunk in enumerate(chunks):
            yield number, do_chunk(chunk)
    else:
        # The longest ones first, so that no process runs one alone at the end.
        order = sorted(range(len(chunks)), key=lambda number: -_cost(chunks[number]))
        for task, result in do_in_workers(_FUNCTION, [chunks[number] for number in order], jobs):
            yield order[task], result


def _prepare() -> None:
    """Compile all uncompiled code.

    An interrupt in a callback of the compiler is printed there and dropped, so it is recorded here.
    """
    if threading.current_thread() is not threading.main_thread():
        prepare()
        return
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        prepare()
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


def _cost(chunk: _Chunk) -> int:
    return chunk.configuration.nodes * len(chunk.runs)
