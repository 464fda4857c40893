"""Conduct of a study: from its file to its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from xsim_py.clashes import InputFile, OutputFile, failure_files, machine_files, program_files, refuse_clashes
from xsim_py.errors import ConfigError
from xsim_py.report.style import Look
from xsim_py.study.capacity import runs_at_once
from xsim_py.study.condition import Condition
from xsim_py.study.description import StudySpec
from xsim_py.study.loader import load_study
from xsim_py.study.plan import PlannedRun, plan_runs
from xsim_py.study.results import FILES, StudyResults, tables_beside
from xsim_py.study.schedule import RunQueue
from xsim_py.study.store import NAME, Store
from xsim_py.study.task import Outcome, StudyTask
from xsim_py.study.workers import do_in_executor, do_in_workers, mpi_executor


def run_study(
    study: str | Path | Mapping[str, Any] | StudySpec,
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    only: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    fresh: bool = False,
    progress: Callable[[int, int, int, float | None], None] | None = None,
    executor: Executor | None = None,
    look: Look | None = None,
) -> StudyResults:
    """Run the missing runs of a study, and write and draw its results.

    Parameters
    ----------
    study : str, path, mapping or StudySpec
        A YAML file, a preset such as ``xsim-fig1``, or the contents of such a file.
    out : path, optional
        The directory for the results, created if necessary; default: the study's name and ``-results``. Runs whose
        results are in it are not repeated.
    jobs : int, optional
        The number of concurrent runs; default: the number of cores.
    only : sequence of str, optional
        Conditions, such as ``ranks<=64`` or ``repetition=0``, on the runs to execute.
    overrides : mapping, optional
        Entries of every machine, as ``set`` of `xsim_py.simulate`.
    fresh : bool, optional
        Discard existing results.
    progress : callable, optional
        Called initially and after each run with the numbers of completed, planned and failed runs, and with the
        estimated seconds left; None before the first run is completed.
    executor : concurrent.futures.Executor, optional
        Executes the runs instead of local worker processes, such as that of ``mpiexec python -m mpi4py.futures``.
    look : Look, optional
        Size, text and legend of the figures, as differences from those of the study.

    Returns
    -------
    StudyResults
        The tables; also written to the directory, with the figures.

    Raises
    ------
    ConfigError
        The input is invalid; nothing was run.
    StudyInterrupted
        Ctrl-C, a KeyboardInterrupt. Completed runs are on disk, and the same call continues with the rest.
    """
    spec = study if isinstance(study, StudySpec) else load_study(study)
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs: {jobs} is out of range (at least 1)")
    planned = plan_runs(spec, only=conditions(only), overrides=overrides)
    folder = results_folder(spec, out)
    refuse_clashes(_outputs(spec, folder), lambda: _inputs(spec, planned))
    at_once = runs_at_once(jobs, [run.arguments for run in planned] if spec.command is None else [])
    with Store(folder, fresh=fresh) as store, nullcontext(executor) if executor else mpi_executor(jobs) as executor:
        todo = list({run.key: run for run in planned if _is_missing(run, store.outcomes.get(run.key))}.values())
        schedule = RunQueue(spec, todo, _measured(planned, store.outcomes), workers=0 if executor else at_once)
        tasks = (_task(spec, run) for run in schedule)
        work = do_in_executor(tasks, executor) if executor else do_in_workers(tasks, at_once)
        interrupted = False
        try:
            with closing(work) as outcomes:
                _collect(StudyResults(spec, planned, store.outcomes), schedule, outcomes, store, progress)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            results = StudyResults(spec, planned, store.outcomes)
            results.write(folder)
    if interrupted:
        raise StudyInterrupted(results)
    results.draw_all(folder, look=look)
    return results


def _outputs(spec: StudySpec, folder: Path) -> list[OutputFile]:
    """Return every file that a study writes."""
    names = [NAME, *FILES, *(name for plot in spec.plots for name in (plot.file, *tables_beside(plot)))]
    return [OutputFile(str(folder / name), folder / name, follow=False) for name in names]


def _inputs(spec: StudySpec, planned: Sequence[PlannedRun]) -> Iterator[InputFile]:
    """Yield every file that a study reads, if known."""
    yield InputFile("the study", spec.places[""].name)
    if spec.published is not None:
        yield InputFile("what was published", spec.folder / spec.published.file)
    told = [run.arguments for run in planned] if spec.command is None else []
    for program, kind in {(each["program"], each["kind"]) for each in told}:
        yield from program_files(program, kind)
    for machine, overrides in {each["machine"]: each["set"] for each in told}.items():
        yield from machine_files(machine, overrides)
    yield from failure_files({text for each in told for text in each["fail"]})


class StudyInterrupted(KeyboardInterrupt):
    """Ctrl-C during a study; `results` are those of the completed runs, which are on disk."""

    def __init__(self, results: StudyResults) -> None:
        super().__init__()
        self.results = results


def results_folder(spec: StudySpec, out: str | Path | None) -> Path:
    """Return the directory of the results: the requested one, or one with the study's name."""
    return Path(f"{spec.name}-results" if out is None else out)


def conditions(texts: Sequence[str]) -> list[Condition]:
    """Return the user's conditions, in addition to the study's."""
    try:
        return [Condition(text) for text in texts]
    except ValueError as error:
        raise ConfigError(f"--only: {error}") from None


def _is_missing(run: PlannedRun, outcome: Outcome | None) -> bool:
    """Return True if a run must be executed: new, or failed only for lack of a local resource."""
    if outcome is None or outcome["ended"] in ("crashed", "error"):
        return True
    limit_s, before_s = run.arguments.get("wall_limit"), outcome.get("wall_limit_s")
    return outcome["ended"] == "wall limit" and before_s is not None and (limit_s is None or limit_s > before_s)


def _measured(planned: Sequence[PlannedRun], outcomes: Mapping[str, Outcome]) -> Iterator[tuple[PlannedRun, float]]:
    """Yield the finished runs with their wall-clock times."""
    for run in {run.key: run for run in planned if run.key in outcomes}.values():
        seconds = outcomes[run.key].get("wall_s")
        if isinstance(seconds, int | float):
            yield run, seconds


def _task(spec: StudySpec, run: PlannedRun) -> StudyTask:
    captures = {name: (capture.pattern.pattern, capture.take) for name, capture in spec.capture.items()}
    return StudyTask(run.arguments, captures, str(spec.folder) if spec.run_in == "study" else None, spec.command)


def _collect(
    before: StudyResults,
    schedule: RunQueue,
    outcomes: Iterable[tuple[int, Outcome]],
    store: Store,
    progress: Callable[[int, int, int, float | None], None] | None,
) -> None:
    """Store each outcome immediately, and report progress."""
    missing = {run.key for run in schedule.todo}
    rows = Counter(run.key for run in before.planned)
    done = sum(run.key not in missing for run in before.planned)
    failed = sum(run.key not in missing for run in before.failed)
    if progress is not None:
        progress(done, len(before.planned), failed, None)
    for number, outcome in outcomes:
        run = schedule.todo[schedule.begun[number]]
        schedule.finished(number, outcome.get("wall_s"))
        outcome["wall_limit_s"] = run.arguments.get("wall_limit")
        store.add(run.key, run.settings, run.columns, outcome)
        done += rows[run.key]
        failed += 0 if before.is_good(outcome) else rows[run.key]
        if progress is not None:
            progress(done, len(before.planned), failed, schedule.left_s())
