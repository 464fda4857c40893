"""One program under several ways to recover, with the same failures: what `xsim compare-recovery` does.

A scheme is a few settings of the machine and of the job. All have the same time limit for finding out that a process is
dead, and the same binary tree: the paper's experiments (appendix D) ran with Open MPI's Allreduce that is a reduction
and a broadcast over one. First every scheme runs without failures; from that trace comes which call the failures hit,
and when it begins. Then each failure is a run of its own. All runs are traced, and the phases are measured in the
trace (`xsim_py.report.phases`).

A program with an option `--recovery` has schemes of its own, which are the choices of that option. It is given one of
them in each run, all as under `ulfm`, and the whole job is measured, for a scheme need not repeat a call.
"""

from __future__ import annotations

import ast
import io
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
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
from xsim_py.report.recovery import Case, RecoveryComparison, RecoveryRun
from xsim_py.study.capacity import runs_at_once
from xsim_py.study.victims import Victim, victims_of
from xsim_py.units import PS_PER_S, format_time, ordinal
from xsim_py.workers import Crash, do_in_workers

if TYPE_CHECKING:
    from xsim_py.report import Result
    from xsim_py.trace import Trace

SCHEMES: Final = ("ftco", "ulfm", "legio", "restart")
"""The ways to recover of a program that has none of its own."""

LOOP: Final = "allreduce_loop.py"
"""The program that is run by default, one of those that come with xsim_py."""

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
_FUNCTION: Final = "xsim_py.study.recovery:do"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A comparison that is asked for."""

    program: str | None = None
    kind: str = "script"
    args: Sequence[str] = ()
    """All three as for `xsim_py.simulate`; ``{scheme}`` in an argument is replaced by the scheme, ``{folder}`` by the
    folder in which this was called, for each run takes place in an empty folder of its own. Without a program, the loop
    of Allreduce that comes with xsim_py."""
    machines: Mapping[str, str] = field(default_factory=lambda: {"gige": "gige"})
    """Presets or files, by the name that tables have for them."""
    ranks: Sequence[int] = (64,)
    """Numbers of ranks."""
    failures: Sequence[str] = ("none", "1", "2p", "2s", "3m")
    """See `victims_of`."""
    schemes: Sequence[str] = ()
    """Some of `SCHEMES`, or of the program's own; default: all but a ``none`` among the latter."""
    whole: bool = False
    """Measure the whole job in place of one call, as is always done with a program that has schemes of its own."""
    timeout_ps: int = 2 * PS_PER_S
    """After how long a process that does not answer counts as dead."""
    restart_delay_ps: int = 10 * PS_PER_S
    """From an abort to the new start."""
    call: tuple[str, int] | None = None
    """The call that failures hit, by name and number, from 1; default: the middle one of the program's collective calls
    that it makes most."""
    after_ps: int | None = None
    """Die so long after the call begins, in place of right before it."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Entries of every machine."""
    seed: int = 0
    shards: int = 1
    isolation: str = "greenlets"
    wall_limit_s: float | None = None
    """All four as for `xsim_py.simulate`."""

    @property
    def title(self) -> str:
        """The program in a few words."""
        what = {"module": f"-m {self.program}", "code": "-c ..."}.get(self.kind, self.program or LOOP)
        return " ".join([Path(what).name if self.kind == "script" else what, *self.args])

    @cached_property
    def own_schemes(self) -> tuple[str, ...]:
        """The program's own schemes; none where its arguments say already which one it is to use."""
        if self.program is None or self.kind != "script":
            return ()
        if any(word == _OPTION or word.startswith(f"{_OPTION}=") for word in self.args):
            return ()
        return own_schemes(self.program)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The schemes that are compared."""
        return tuple(self.schemes) or tuple(each for each in self.own_schemes if each != _NO_SCHEME) or SCHEMES

    @property
    def of_jobs(self) -> bool:
        """True if whole jobs are measured."""
        return self.whole or bool(self.own_schemes)


def own_schemes(program: str | Path) -> tuple[str, ...]:
    """Return the choices of a program's option `--recovery` as they stand in its source, none without such an option.

    The source is read, not run: the choices have to be a list or tuple of strings in the call that adds the option.
    """
    try:
        tree = ast.parse(Path(program).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()  # who runs it says what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(isinstance(a, ast.Constant) and a.value == _OPTION for a in node.args):
            for keyword in node.keywords:
                words = getattr(keyword.value, "elts", []) if keyword.arg == "choices" else []
                found = [word.value for word in words if isinstance(word, ast.Constant)]
                if found and all(isinstance(word, str) for word in found):
                    return tuple(map(str, found))
    return ()


class RecoveryTask(NamedTuple):
    """One run, for a process of its own."""

    run: RecoveryRun
    """Its case and its victims, for the outcome."""
    arguments: dict[str, Any]
    """For `xsim_py.simulate`."""
    call: tuple[str, int] | None
    """Which call is measured; None: find one."""
    usual: int | None
    """How often a rank makes it without failures."""
    whole: bool = False
    """True if the whole job is measured, false if one call is."""


class Report(NamedTuple):
    """The outcome of a task, as plain data."""

    run: RecoveryRun
    output: str = ""
    call: tuple[str, int] | None = None
    usual: int | None = None
    start_ps: int | None = None
    """When the first rank makes the call; half of the time of a job that makes few of them."""


def plan_recovery(experiment: Experiment) -> dict[Case, tuple[Victim, ...]]:
    """Return every run that is wanted, and who dies in it.

    Raises
    ------
    ConfigError
        With everything that is wrong; nothing was run.
    """
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
                        load_machine(machine, overrides=_overrides(experiment, "legio"))  # which refuses wrong ones
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


def _as_option(problem: Any) -> Any:
    """Return a problem of an entry that an option of the experiment sets as one of that option."""
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
        What to compare.
    jobs : int, optional
        How many runs at once; default: as many as there are cores.
    out : path, optional
        A folder for what the program prints in each run.
    progress : callable, optional
        Called with the number of runs that are done and of all, at first and after each.

    Raises
    ------
    ConfigError
        The input is wrong; nothing was run, or the program makes no call that failures could hit.
    """
    planned = plan_recovery(experiment)
    at_once = runs_at_once(jobs, [{"ranks": case.ranks, "isolation": experiment.isolation} for case in planned])
    first = list(dict.fromkeys(case._replace(failures="none") for case in planned))
    later = [case for case, victims in planned.items() if victims]
    total = len(first) + len(later)
    done = 0

    def run(cases: Sequence[Case], tasks: Sequence[RecoveryTask]) -> Iterator[tuple[Case, Report]]:
        nonlocal done
        for number, found in _in_order(tasks, at_once):
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
    for case, victims in planned.items():  # one whose scheme does not run without failures has what came of that
        without = before[case._replace(failures="none")]
        report = reports.get(case) or without
        runs.append(_told(report.run._replace(case=case), victims, without))
    return RecoveryComparison(runs, title=experiment.title)


def measure_case(experiment: Experiment) -> RecoveryRun:
    """Make the one run of an experiment in this process, after one without failures.

    Raises
    ------
    ConfigError
        The input is wrong, or the program makes no call that failures could hit.
    """
    ((case, victims),) = plan_recovery(experiment).items()
    before = report = do(_task(experiment, case, (), None))
    if _is_refused(before):
        raise ConfigError(before.run.said)
    if victims and before.start_ps is not None:
        report = do(_task(experiment, case, victims, before))
    return _told(report.run, victims, before)


def _told(run: RecoveryRun, victims: Sequence[Victim], before: Report) -> RecoveryRun:
    """Return a run with who was to die in it, and what that cost."""
    times = run.virtual_time_ps, before.run.virtual_time_ps
    both_finished = run.ended == before.run.ended == "finished"
    lost_ps = times[0] - times[1] if both_finished and times[0] is not None and times[1] is not None else None
    return run._replace(victims=tuple(map(str, victims)), lost_ps=lost_ps)


def _in_order(tasks: Sequence[RecoveryTask], jobs: int) -> Generator[tuple[int, Report | Crash]]:
    with closing(do_in_workers(_FUNCTION, tasks, jobs, imports=_IMPORTS)) as outcomes:
        yield from outcomes


def _is_refused(report: Report) -> bool:
    """Return whether a run without failures shows bad input: it could not begin, or failures have no call to hit."""
    run = report.run
    return run.ended == "refused" or (report.start_ps is None and run.ended == "finished" and not run.exit_status)


def _crashed(task: RecoveryTask, crash: Crash) -> Report:
    ended = "wall limit" if crash.was_stuck else "crashed"
    return Report(task.run._replace(ended=ended, exit_status=crash.exit_status, said=crash.said))


# ------------------------------------------------------------------------------------------------- settings of a run


def _entries(experiment: Experiment, scheme: str) -> dict[str, Any]:
    """Return the entries of the machine under a scheme; a program's own are like `ulfm` to the machine."""
    return _overrides(experiment, "ulfm" if experiment.own_schemes else scheme)


def _overrides(experiment: Experiment, scheme: str) -> dict[str, Any]:
    """Return the entries of the machine under a scheme; what the user says comes last.

    The layer is that of the scheme legio alone, also where the machine has one, and so are its options.
    """
    timeout = _timeout(experiment)
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


def _timeout(experiment: Experiment) -> str:
    return format_time(experiment.timeout_ps, digits=None).replace(" ", "")


def _check(spec: MachineSpec, ranks: int) -> tuple[Machine, Shapes]:
    """Return the machine, with room for the ranks and time for survivors to answer, and FTCO's trees on it."""
    machine = Machine(spec, ranks=ranks)
    network = make_network(spec, places=machine)
    detector_settings(spec, network)
    return machine, ftco_shapes(spec, network)


def _check_victims(spec: MachineSpec, machine: Machine, code: str, victims: Sequence[Victim]) -> None:
    """Raise ValueError if the machine has no such components, or a law makes no sense."""
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
    """Return the run of a case; `before` is that without failures, and None for that one itself."""
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
    """Return how `xsim_py.simulate` is told of a victim."""
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

    Raises
    ------
    ValueError
        It is something else, or there is no such call in mpi4py.
    """
    from xsim_py.mpi4py.call_hooks import known_calls

    found = parse_statement(f"rank=0 before its {text}", Location.in_option("--call"))
    if not isinstance(found, CallSite):
        raise ValueError(f"expected a call, got {text!r}; write for example 2nd Allreduce")
    if problem := unknown_call(found.name, known_calls()):
        raise ValueError(problem)
    return found.name, found.ordinal


# --------------------------------------------------------------------------------------------- in a worker process


def do(task: RecoveryTask) -> Report:
    """Make a run in an empty folder, and measure it."""
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
        # In a run with failures the first rank may be dead, and make fewer calls.
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
    """Measure a whole job, and say when failures hit it: in its middle call or, where it has none, at half time."""
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
    """Return the last line that a program has printed before it exited with an error of its own."""
    return output.splitlines()[-1:] if result.ended == "finished" and result.exit_status else []


def _judged(output: str) -> dict[str, Any]:
    """Return what a program says of its result: its last `right: True`, `right: False` or `lost: WHAT`."""
    for line in reversed(output.splitlines()):
        name, _, said = line.partition(": ")
        if name == "right" and said in ("True", "False"):
            return {"right": said == "True"}
        if name == "lost":
            return {"data_lost": said}
    return {}
