"""Comparison of recovery schemes of one program under the same failures: `xsim compare-recovery`.

A scheme consists of some settings of the machine and of the job. All have the same detection timeout and the same
binary tree: the paper's experiments (appendix D) ran with Open MPI's Allreduce, a reduction and a broadcast over a
tree. First every scheme runs without failures; its trace determines the call that the failures hit, and its start.
Then each failure is a separate run. All runs are traced, and the phases are measured in the trace
(`xsim_py.report.phases`).

The schemes of a program with an option `--recovery` are the choices of that option. Each run sets one of them,
otherwise as under `ulfm`, and measures the entire job, as a scheme need not repeat a call.
"""

from __future__ import annotations

import ast
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py.atomic_files import atomic_file, scratch_folder
from xsim_py.config import MachineSpec, load_machine
from xsim_py.config.entries import Location, Problem
from xsim_py.config.loader import bundled_apps
from xsim_py.errors import ConfigError, OptionProblem
from xsim_py.failure import CallSite, FailureModel
from xsim_py.failure.statements import parse_statement, unknown_call
from xsim_py.machine import Machine
from xsim_py.mpi.failures.settings import detector_settings
from xsim_py.mpi.ftco.paper import ALLREDUCE
from xsim_py.mpi.ftco.shapes import Shapes, ftco_shapes
from xsim_py.network import make_network
from xsim_py.report.phases import find_call, find_middle, first_start_ps, measure_job, measure_phases
from xsim_py.study.capacity import runs_at_once
from xsim_py.study.recovery.comparison import Case, RecoveryComparison, RecoveryRun
from xsim_py.study.recovery.victims import Victim, victims_of
from xsim_py.units import PS_PER_S, format_time, ordinal
from xsim_py.workers import Crash, do_in_workers

if TYPE_CHECKING:
    from xsim_py.report import Result
    from xsim_py.trace import Trace

SCHEMES: Final = ("ftco", "ulfm", "legio", "restart")
"""The recovery schemes of a program that defines none."""

LOOP: Final = "allreduce_loop.py"
"""The default program, one of the included apps."""

_PLAIN_TREE: Final = {
    "mpi.collectives.allreduce": "nonoverlapping",
    "mpi.collectives.reduce": "binary",
    "mpi.collectives.bcast": "binary_tree",
}
_FTCO: Final = {"mpi.collectives": "ftco"}
_LEGIO: Final = {"mpi.resilience.type": "legio"}
_NO_LAYER: Final = {"mpi.resilience": None}
_BINARY: Final = {"mpi.ftco.tree": "kary", "mpi.ftco.radix": 2, "mpi.ftco.roots": "single"}
_OPTION: Final = "--recovery"
_NO_SCHEME: Final = "none"
_IMPORTS: Final = ("xsim_py.run",)
_FUNCTION: Final = "xsim_py.study.recovery.experiment:do"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The specification of a comparison."""

    program: str | None = None
    kind: str = "script"
    args: Sequence[str] = ()
    """All three as for `xsim_py.simulate`; in an argument, ``{scheme}`` is replaced by the scheme, ``{folder}`` by the
    caller's directory, as each run has a separate empty one. Default program: the included loop of Allreduce.
    """
    machines: Mapping[str, str] = field(default_factory=lambda: {"gige": "gige"})
    """Presets or files, by their names in tables."""
    ranks: Sequence[int] = (64,)
    """Numbers of ranks."""
    failures: Sequence[str] = ("none", "1", "2p", "2s", "3m")
    """See `victims_of`."""
    schemes: Sequence[str] = ()
    """Some of `SCHEMES`, or of the program's own; default: all, except ``none`` among the latter."""
    whole: bool = False
    """Measure the entire job instead of one call, as always for a program with its own schemes."""
    timeout_ps: int = 2 * PS_PER_S
    """The detection timeout: a process that does not answer is then considered failed."""
    restart_delay_ps: int = 10 * PS_PER_S
    """The time from an abort to the restart."""
    call: tuple[str, int] | None = None
    """The call that failures hit, by name and number, from 1; default: the middle one of the program's most frequent
    collective call.
    """
    after_ps: int | None = None
    """The delay of the failure after the start of the call; default: right before the call."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Entries of every machine."""
    seed: int = 0
    shards: int = 1
    isolation: str = "greenlets"
    wall_limit_s: float | None = None
    """All four as for `xsim_py.simulate`."""

    @property
    def title(self) -> str:
        """A short description of the program."""
        what = {"module": f"-m {self.program}", "code": "-c ..."}.get(self.kind, self.program or LOOP)
        return " ".join([Path(what).name if self.kind == "script" else what, *self.args])

    @cached_property
    def own_schemes(self) -> tuple[str, ...]:
        """The program's own schemes; none if its arguments select one."""
        if self.program is None or self.kind != "script":
            return ()
        if any(word == _OPTION or word.startswith(f"{_OPTION}=") for word in self.args):
            return ()
        return own_schemes(self.program)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The compared schemes."""
        return tuple(self.schemes) or tuple(each for each in self.own_schemes if each != _NO_SCHEME) or SCHEMES

    @property
    def of_jobs(self) -> bool:
        """True if entire jobs are measured."""
        return self.whole or bool(self.own_schemes)


def own_schemes(program: str | Path) -> tuple[str, ...]:
    """Return the choices of a program's option `--recovery`, if it has that option.

    The source is parsed, not run: the choices must be a list or tuple of strings in the call that adds the option.
    """
    try:
        tree = ast.parse(Path(program).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()  # the run reports the problem
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(isinstance(a, ast.Constant) and a.value == _OPTION for a in node.args):
            for keyword in node.keywords:
                words = getattr(keyword.value, "elts", []) if keyword.arg == "choices" else []
                found = [word.value for word in words if isinstance(word, ast.Constant)]
                if found and all(isinstance(word, str) for word in found):
                    return tuple(map(str, found))
    return ()


class RecoveryTask(NamedTuple):
    """One run, for a separate process."""

    run: RecoveryRun
    """Its case and its failed ranks, for the outcome."""
    arguments: dict[str, Any]
    """The arguments of `xsim_py.simulate`."""
    call: tuple[str, int] | None
    """The measured call; None: find one."""
    usual: int | None
    """The number of times that a rank makes the call without failures."""
    whole: bool = False
    """True if the entire job is measured, false if one call is."""


class Report(NamedTuple):
    """The outcome of a task, as plain data."""

    run: RecoveryRun
    output: str = ""
    call: tuple[str, int] | None = None
    usual: int | None = None
    start_ps: int | None = None
    """The time at which the first rank makes the call; half of the duration of a job with few such calls."""


def plan_recovery(experiment: Experiment) -> dict[Case, tuple[Victim, ...]]:
    """Return every requested run, and its failures; raise ConfigError with every problem."""
    known = experiment.own_schemes or SCHEMES
    problems: dict[object, None] = {
        OptionProblem("schemes", f"unknown scheme {scheme!r}; known: {', '.join(known)}"): None
        for scheme in experiment.wanted
        if scheme not in known
    }
    planned: dict[Case, tuple[Victim, ...]] = {}
    for name, machine in experiment.machines.items():
        for ranks in experiment.ranks:
            for scheme in experiment.wanted:
                try:
                    if "legio" not in experiment.wanted and any(map(_is_of_layer, experiment.overrides)):
                        load_machine(machine, overrides=_overrides(experiment, "legio"))  # which rejects invalid ones
                    spec = load_machine(machine, overrides=_entries(experiment, scheme))
                    of_machine, shapes = _check(spec, ranks)
                    shape = shapes.tree(ranks, ALLREDUCE)
                except ConfigError as error:
                    problems |= dict.fromkeys(map(_as_option, error.problems))
                    continue
                for code in experiment.failures:
                    try:
                        victims = victims_of(code, shape, ranks)
                        _check_victims(spec, of_machine, code, victims)
                        planned[Case(name, ranks, code, scheme)] = victims
                    except ValueError as error:
                        said = f"{error} (with {ranks} rank{'s' * (ranks > 1)})"
                        problems[OptionProblem("failures", said)] = None
    if problems:
        raise ConfigError(*problems)
    order = {code: place for place, code in enumerate(experiment.failures)}
    names = {name: place for place, name in enumerate(experiment.machines)}
    keys = sorted(planned, key=lambda case: (case.ranks, names[case.machine], order[case.failures]))
    return {case: planned[case] for case in keys}


def _as_option(problem: Any) -> object:
    """Convert a problem of an entry that an option of the experiment sets to one of that option."""
    ours = isinstance(problem, Problem) and problem.path == problem.place.entry == "mpi.detector.timeout"
    return OptionProblem("timeout", problem.message) if ours else problem


def compare_recovery(
    experiment: Experiment,
    *,
    jobs: int | None = None,
    out: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RecoveryComparison:
    """Run a program under each scheme with the same failures, and measure the phases.

    Parameters
    ----------
    experiment : Experiment
        The specification of the comparison.
    jobs : int, optional
        The number of concurrent runs; default: the number of cores.
    out : path, optional
        A directory for the program's output in each run.
    progress : callable, optional
        Called with the numbers of completed and of all runs, initially and after each.

    Raises
    ------
    ConfigError
        The input is invalid and nothing was run, or the program makes no call that failures could hit.
    """
    planned = plan_recovery(experiment)
    at_once = runs_at_once(jobs, [{"ranks": case.ranks, "isolation": experiment.isolation} for case in planned])
    first = list(dict.fromkeys(case._replace(failures="none") for case in planned))
    later = [case for case, victims in planned.items() if victims]
    total = len(first) + len(later)
    done = 0

    def run(cases: Sequence[Case], tasks: Sequence[RecoveryTask]) -> Iterator[tuple[Case, Report]]:
        nonlocal done
        with closing(do_in_workers(_FUNCTION, tasks, at_once, imports=_IMPORTS)) as outcomes:
            for number, found in outcomes:
                done += 1
                if progress is not None:
                    progress(done, total)
                yield cases[number], _crashed(tasks[number], found) if isinstance(found, Crash) else found

    if progress is not None:
        progress(0, total)
    before = dict(run(first, [_task(experiment, case, (), None) for case in first]))
    refused = {report.run.said: None for report in before.values() if _is_refused(report)}
    if refused:
        raise ConfigError(*refused)
    later = [case for case in later if before[case._replace(failures="none")].start_ps is not None]
    tasks = [_task(experiment, case, planned[case], before[case._replace(failures="none")]) for case in later]
    reports = before | dict(run(later, tasks))
    if out is not None:
        for case, report in reports.items():
            with atomic_file(Path(out) / f"{case.name}.txt", follow=False) as file:
                file.write(report.output)
    runs = []
    for case, victims in planned.items():  # a case whose scheme does not run without failures gets that outcome
        without = before[case._replace(failures="none")]
        report = reports.get(case) or without
        runs.append(_told(report.run._replace(case=case), victims, without))
    return RecoveryComparison(runs, title=experiment.title)


def measure_case(experiment: Experiment) -> RecoveryRun:
    """Execute the only run of an experiment in this process, after one without failures.

    Raise ConfigError if the program makes no call that failures could hit.
    """
    ((case, victims),) = plan_recovery(experiment).items()
    before = report = do(_task(experiment, case, (), None))
    if _is_refused(before):
        raise ConfigError(before.run.said)
    if victims and before.start_ps is not None:
        report = do(_task(experiment, case, victims, before))
    return _told(report.run, victims, before)


def _told(run: RecoveryRun, victims: Sequence[Victim], before: Report) -> RecoveryRun:
    """Return a run with its failures, and their cost."""
    times = run.virtual_time_ps, before.run.virtual_time_ps
    both_finished = run.ended == before.run.ended == "finished"
    lost_ps = times[0] - times[1] if both_finished and times[0] is not None and times[1] is not None else None
    return run._replace(victims=tuple(map(str, victims)), lost_ps=lost_ps)


def _is_refused(report: Report) -> bool:
    """Return True if a run without failures shows invalid input: no start, or no call to hit."""
    run = report.run
    return run.ended == "refused" or (report.start_ps is None and run.ended == "finished" and not run.exit_status)


def _crashed(task: RecoveryTask, crash: Crash) -> Report:
    ended = "wall limit" if crash.was_hanging else "crashed"
    return Report(task.run._replace(ended=ended, exit_status=crash.exit_status, said=crash.said))


# ------------------------------------------------------------------------------------------------- settings of a run


def _entries(experiment: Experiment, scheme: str) -> dict[str, Any]:
    """Return the machine's entries under a scheme; for a program's own schemes, those of `ulfm`."""
    return _overrides(experiment, "ulfm" if experiment.own_schemes else scheme)


def _overrides(experiment: Experiment, scheme: str) -> dict[str, Any]:
    """Return the entries of the machine under a scheme; the user's have precedence.

    Only the scheme legio has the layer and its options, also if the machine sets them.
    """
    timeout = format_time(experiment.timeout_ps, digits=None).replace(" ", "")
    settings = {"mpi.detector.timeout": timeout, **_BINARY, "mpi.ftco.timeout": timeout}
    given = dict(experiment.overrides)
    chosen = [name for name in given if name.startswith("mpi.collectives")]
    if scheme == "legio":
        return {**settings, **({} if chosen else _PLAIN_TREE), **given, **_LEGIO}
    given = {name: value for name, value in given.items() if not _is_of_layer(name)} | _NO_LAYER
    if scheme != "ftco":
        return {**settings, **({} if chosen else _PLAIN_TREE), **given}
    return {**settings, **_FTCO, **{name: value for name, value in given.items() if name not in chosen}}


def _is_of_layer(name: str) -> bool:
    return name.split(".")[:2] == ["mpi", "resilience"]


def _check(spec: MachineSpec, ranks: int) -> tuple[Machine, Shapes]:
    """Return the machine, with room for ranks, time for survivors to answer, and FTCO's trees."""
    machine = Machine(spec, ranks=ranks)
    network = make_network(spec, places=machine)
    detector_settings(spec, network)
    return machine, ftco_shapes(spec, network)


def _check_victims(spec: MachineSpec, machine: Machine, code: str, victims: Sequence[Victim]) -> None:
    """Raise ValueError if the machine has no such components, or a law is invalid."""
    extra = [each.law or f"{each.level}={each.rank}@0s" for each in victims if each.law or each.level != "rank"]
    try:
        FailureModel(
            spec,
            extra=extra,
            ranks=len(machine.node_of),
            node_of=machine.node_of,
            cores_per_node=machine.cores_per_node,
            seed=0,
        )
    except ConfigError as error:
        raise ValueError("; ".join(f"{code!r}: {problem.message}" for problem in error.problems)) from None


def _task(experiment: Experiment, case: Case, victims: Sequence[Victim], before: Report | None) -> RecoveryTask:
    """Return the run of a case; `before` is the run without failures, or None if this is it."""
    program = experiment.program
    args = [*experiment.args] if program is not None else ["--scheme", "{scheme}", *experiment.args]
    if experiment.own_schemes:
        args += [_OPTION, "{scheme}"]
    values = {"{scheme}": case.scheme, "{folder}": os.getcwd()}
    if experiment.kind == "script":
        program = str(Path(program).absolute() if program is not None else bundled_apps() / LOOP)
    machine = experiment.machines[case.machine]
    delay = format_time(experiment.restart_delay_ps, digits=None).replace(" ", "")
    arguments = {
        "program": program,
        "kind": experiment.kind,
        "args": [_filled(word, values) for word in args],
        "ranks": case.ranks,
        "machine": str(Path(machine).absolute()) if Path(machine).is_file() else machine,
        "set": _entries(experiment, case.scheme),
        "seed": experiment.seed,
        "shards": experiment.shards,
        "isolation": experiment.isolation,
        "wall_limit": experiment.wall_limit_s,
        "ft": True,
        "restart": f"on-abort,delay={delay}" if case.scheme == "restart" else None,
        "fail": [] if before is None else [_failure(experiment, victim, before) for victim in victims],
    }
    if before is None:
        return RecoveryTask(RecoveryRun(case, ()), arguments, experiment.call, None, experiment.of_jobs)
    return RecoveryTask(RecoveryRun(case, ()), arguments, before.call, before.usual, experiment.of_jobs)


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def _failure(experiment: Experiment, victim: Victim, before: Report) -> str:
    """Return the failure as an argument of `xsim_py.simulate`."""
    assert before.start_ps is not None
    if victim.law:
        return victim.law
    time_ps = victim.time_ps
    if victim.half:
        assert before.run.virtual_time_ps is not None
        time_ps = before.run.virtual_time_ps // 2
    elif time_ps is None and (before.call is None or victim.level != "rank"):
        time_ps = before.start_ps + (0 if victim.before else experiment.after_ps or 0)
    elif time_ps is None and experiment.after_ps is not None and not victim.before:
        time_ps = before.start_ps + experiment.after_ps
    if time_ps is not None:
        return f"{victim.level}={victim.rank}@{format_time(time_ps, digits=None).replace(' ', '')}"
    assert before.call is not None
    name, number = before.call
    return str(CallSite(victim.rank, True, number, name))


def parse_call(text: str) -> tuple[str, int]:
    """Return name and number of a call such as ``2nd Allreduce``.

    Raise ValueError if the text is not a call, or mpi4py has no such call.
    """
    from xsim_py.mpi4py.door import known_calls

    found = parse_statement(f"rank=0 before its {text}", Location.in_option("--call"))
    if not isinstance(found, CallSite):
        raise ValueError(f"expected a call, got {text!r}; write for example 2nd Allreduce")
    if problem := unknown_call(found.name, known_calls()):
        raise ValueError(problem)
    return found.name, found.ordinal


# --------------------------------------------------------------------------------------------- in a worker process


def do(task: RecoveryTask) -> Report:
    """Execute a run in an empty directory, and measure it."""
    from xsim_py.run import simulate

    output = io.StringIO()
    with scratch_folder(tempfile.gettempdir()) as folder, chdir(folder):
        try:
            result = simulate(**task.arguments, trace=True, stdout=output, stderr=output)
        except ConfigError as error:
            return Report(task.run._replace(ended="refused", exit_status=2, said=str(error)), output.getvalue())
    assert result.trace is not None
    run = task.run._replace(
        ended=result.ended,
        exit_status=result.exit_status,
        said="\n".join([*result.warnings, result.report, *_last_words(result, output.getvalue())]).strip(),
        virtual_time_ps=result.virtual_time_ps,
        messages=result.messages,
        digest=result.digest,
        **_judged(output.getvalue()),
    )
    if result.ended != "finished":
        return Report(run, output.getvalue())
    if task.whole:
        return _whole_job(task, run, result.trace, output.getvalue())
    try:
        # In a run with failures the first rank may have failed, and make fewer calls.
        if task.call is not None and task.usual is not None:
            call, usual, start_ps = task.call, task.usual, None
        else:
            call, usual = find_call(result.trace, task.call)
            start_ps = first_start_ps(result.trace, *call)
        phases = measure_phases(result.trace, call=call[0], ordinal=call[1], usual=task.usual)
    except ConfigError as error:
        return Report(run._replace(said=f"{error}\n{run.said}".strip()), output.getvalue())
    run = run._replace(phases=phases, call=f"{ordinal(call[1])} {call[0]}")
    return Report(run, output.getvalue(), call, usual, start_ps)


def _whole_job(task: RecoveryTask, run: RecoveryRun, trace: Trace, output: str) -> Report:
    """Measure an entire job, and find the time of failures: its middle call, or half of the job."""
    call, usual, start_ps = task.call, task.usual, None
    end_ps = run.virtual_time_ps or 0
    try:
        if not task.arguments["fail"]:
            found = find_call(trace, call) if call is not None else find_middle(trace, task.run.case.ranks)
            call, usual = found if found is not None else (None, None)
            start_ps = end_ps // 2 if call is None else first_start_ps(trace, *call)
        name = "" if call is None else call[0]
        phases = measure_job(trace, ranks=task.run.case.ranks, end_ps=end_ps, call=name, usual=usual)
    except ConfigError as error:
        return Report(run._replace(said=f"{error}\n{run.said}".strip()), output)
    hit = "half time" if call is None else f"{ordinal(call[1])} {call[0]}"
    return Report(run._replace(phases=phases, call=hit), output, call, usual, start_ps)


def _last_words(result: Result, output: str) -> list[str]:
    """Return the last line of a program that exited with an error."""
    return output.splitlines()[-1:] if result.ended == "finished" and result.exit_status else []


def _judged(output: str) -> dict[str, Any]:
    """Return the program's last statement: `right: True`, `right: False` or `lost: WHAT`."""
    for line in reversed(output.splitlines()):
        name, _, said = line.partition(": ")
        if name == "right" and said in ("True", "False"):
            return {"right": said == "True"}
        if name == "lost":
            return {"data_lost": said}
    return {}
