"""`simulate`: run a program on a simulated machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from pickle import dumps
from typing import TYPE_CHECKING, Any, TextIO

from xsim_py.compiled import program as compiled
from xsim_py.config import load_machine
from xsim_py.errors import ConfigError, OptionProblem
from xsim_py.job import Job
from xsim_py.parameters import PARAMETERS, RunArguments, RunParameters, read
from xsim_py.process.output.simulator_descriptors import separate_streams
from xsim_py.process.output.spilled_lines import drop_unclaimed
from xsim_py.process.profiler import Profile
from xsim_py.process.programs.apps import App, load, wrong
from xsim_py.process.programs.mpi_packages import with_packages
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import dismiss_workers

if TYPE_CHECKING:
    from xsim_py.checks.monitor import Monitor
    from xsim_py.report import Result
    from xsim_py.schedules import MatchSchedule

compiled.register()

_PLAIN = (str, int, float, Path, None.__class__)


def simulate(
    program: str | Path | Callable[..., Any] | Sequence[App],
    *,
    ranks: int,
    machine: str | Path | Mapping[str, Any] = "gige",
    args: Sequence[Any] = (),
    kind: str | None = None,
    seed: int = 0,
    shards: int = 1,
    set: Mapping[str, Any] | Sequence[str] = (),
    wall_limit: float | str | None = None,
    compute: str | Path | None = None,
    collectives: str | Sequence[str] = (),
    fail: str | Sequence[str] = (),
    ft: bool | None = None,
    restart: str | None = None,
    clock_from: str | Path | Result | None = None,
    resilience: str | None = None,
    isolation: str = "greenlets",
    label: bool = False,
    trace: bool = False,
    profile: bool = False,
    links: bool = False,
    check: bool | str | Sequence[str] = False,
    private: str | Sequence[str] = (),
    share: str | Sequence[str] = (),
    schedule: object = None,
    background: Sequence[Callable[[Any], Any]] = (),
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    progress: Callable[[int, int, int, int], None] | None = None,
    started: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Run an MPI program on `ranks` virtual ranks of a simulated machine.

    The options of ``xsim run`` are parameters with the same names: ``--wall-limit 5min`` is ``wall_limit="5min"``.

    Parameters
    ----------
    program : path, str, callable, or list of `App`
        A script, or an executable that uses MPI; a module's name or Python text, according to `kind`; or a function,
        which each rank calls with `args`.
        Or several of these, each with its number of ranks: ``[App("a.py", 2), App("b.py", 3)]``.
    ranks : int
        The size of ``COMM_WORLD``.
    machine : str, path or mapping
        A preset, a YAML file, or the contents of such a file.
    args : sequence
        ``sys.argv[1:]`` of the program, or the arguments of the function.
    kind : str, optional
        ``script``, ``module``, ``code`` or ``callable``; by default a callable is one and everything else a script.
    seed : int
        Seed of all random streams of the run.
    shards : int
        Number of parts to simulate in this process: at most 64, or one per rank up to 1,024. Under a real ``mpiexec``
        each process simulates one part.
    set : mapping, or sequence of str
        Changed keys of the machine: ``{"network.latency": "5us"}``, or ``["network.latency=5us"]``.
    wall_limit : float or str, optional
        Wall-clock time after which the run ends with a report: seconds, or a time such as ``"5min"``.
    compute : str, optional
        Cost of the program's computation: ``none``, ``measured``, ``record=FILE`` (measured, and written to a file), or
        the name of such a file, which gives the times. Default: the machine's.
    collectives : str, or sequence of str
        Algorithms of collective operations, as in the machine's ``mpi.collectives``: ``tuned``, ``ftco``. Or the method
        of simulation, with the same result: ``messages``, message by message; ``arrays``, for all ranks at once if
        there is a formula; ``auto`` (default), like ``arrays`` where it is faster.
    fail : str, or sequence of str
        Process failures, in addition to the machine's section ``failures``: ``"rank=5@1.2ms"``, ``"rank=3 before its
        2nd Allreduce"``, ``"exponential:node,mtbf=6.7h"``.
    ft : bool, optional
        Whether the job survives a process failure, as under ``mpirun --with-ft ulfm``. Default: the machine's setting;
        else true if failures are injected and `restart` is not set.
    restart : str, optional
        ``"on-abort[,max=N,delay=TIME]"``: restart an aborted job, in the same virtual time.
    clock_from : Result or path, optional
        The result of an earlier run, or the file or directory that it was written to. This run begins at the virtual
        time at which that one ended, like a resubmitted job, and skips earlier failures.
    resilience : str, optional
        ``"legio"``: a layer lets the unmodified program survive failures, by the options of ``mpi.resilience``.
    isolation : str
        How ranks are isolated: ``greenlets`` (the default) in this process, ``process`` with each rank in its own
        process, or ``process:8`` with eight in each; ``spawn`` and ``spawn:8`` start a new interpreter for each
        process, with its own hash seed. The result is the same, unless the program depends on state shared by ranks. A
        function's changes to objects of the caller are visible with greenlets only.
    label : bool
        Prefix each printed line with ``[rank]``.
    trace : bool
        Record every call and message: ``result.trace``, `Result.to_perfetto`, `Result.timeline`.
    profile : bool
        Measure the wall time per shard and part of the simulator: the table ``profile`` (see `process.profiler`).
    links : bool
        Record the traffic of each network link: the table ``links`` (see `link_loads.links_table`).
    check : bool, str or list of str
        Check for MPI usage errors: `Result.findings`, and exit status 5 if there are any. ``"ResourceLeak"`` reports
        only this class, ``"-ResourceLeak"`` all others; ``"races"`` also lists message races without effect. All ranks
        are in one shard, as greenlets.
    private : str, or sequence of str
        Installed packages whose modules are separate for each rank, in addition to those that import mpi4py and the
        machine's ``process.private``; ``"all-imported"`` tries all pure-Python packages.
    share : str, or sequence of str
        Packages that all ranks share even if they import mpi4py or belong to the program.
    background : sequence of callables, optional
        Each gets the `simpy.Environment` (picoseconds) and returns a generator, a SimPy process alongside the ranks.
    schedule : path, or sequence of (int, int), optional
        Prescribed nondeterministic choices of ranks (see `xsim_py.schedules`); ``result.choices`` has the actual ones.
    stdout, stderr : text file, optional
        Destination of the program's output.
    progress, started : callable, optional
        `progress` is called a few times per second with the virtual time (ps), events, finished ranks and ranks.
        `started` is called once, before the run begins, with the data to reproduce it.

    Returns
    -------
    Result
        Also if the program failed, deadlocked or was stopped: see ``result.ended``. All processes of a job get it.

    Raises
    ------
    ConfigError
        Invalid input; nothing was run.
    """
    given = RunArguments(
        ranks=ranks, machine=machine, args=args, kind=kind, seed=seed, shards=shards, set=set, wall_limit=wall_limit,
        compute=compute, collectives=collectives, fail=fail, ft=ft, restart=restart, clock_from=clock_from,
        resilience=resilience, isolation=isolation, label=label, trace=trace, profile=profile, links=links, check=check,
        private=private, share=share, schedule=schedule
    )  # fmt: skip
    settings = _settings(program, given)
    outside = (sys.stdout if stdout is None else stdout, sys.stderr if stderr is None else stderr)
    once = partial(_once, settings, program, machine, background)
    if not settings.check:
        result = once(outside, progress=progress, started=started)
    else:
        from xsim_py.checks.rerun import checked  # not above: most runs are not checked

        result = checked(once, outside, settings, repeats=not callable(program), progress=progress, started=started)
    result.set_origin(command=_call(program, given))
    return result


def refuse_wrong_input(program: object, *, machine: str | Path | Mapping[str, Any] = "gige", **parameters: Any) -> None:
    """Raise the ConfigError of `simulate` for invalid input, without running anything."""
    make_job(_settings(program, RunArguments(machine=machine, **parameters)), program, machine)


def _settings(program: object, given: RunArguments) -> RunParameters:
    begin_ps = 0 if given.clock_from is None else _end_ps(given.clock_from)
    return read(given, wrong(program, given.ranks, wall_limit=given.wall_limit), begin_ps=begin_ps)


def _end_ps(result: str | Path | Result) -> int:
    """Return the virtual time at which the run of a result ended, in picoseconds."""
    if isinstance(result, str | Path):
        from xsim_py.report.result import Result as Loaded  # not above: few runs need it

        path = Path(result)
        try:
            return Loaded.load(path / "result.json" if path.is_dir() else path).virtual_time_ps
        except ConfigError as error:
            raise ConfigError(OptionProblem("clock_from", str(error))) from None
    return result.virtual_time_ps


def _call(program: object, given: RunArguments) -> str:
    """Return the call of `simulate` as text, with its non-default arguments."""
    words = [getattr(program, "__qualname__", "...") if callable(program) else _written(program)]
    for name in ("ranks", *(simulate.__kwdefaults__ or {})):
        row = PARAMETERS.get(name)
        if row is not None and not row.only_output:
            value = getattr(given, name)
            if value is not row.default and (value or row.default):
                words.append(f"{name}={_written(value)}")
    return f"simulate({', '.join(words)})"


def _written(value: object) -> str:
    if isinstance(value, Mapping) and all(isinstance(each, _PLAIN) for each in value.values()):
        return repr(dict(value))
    plain = isinstance(value, _PLAIN) or (isinstance(value, list | tuple) and all(isinstance(x, _PLAIN) for x in value))
    return repr(str(value) if isinstance(value, Path) else value) if plain else "..."


def _once(
    settings: RunParameters,
    program: object,
    machine: str | Path | Mapping[str, Any],
    background: Sequence[Callable[[Any], Any]],
    outside: tuple[TextIO, TextIO],
    *,
    monitor: Monitor | None = None,
    schedule: MatchSchedule | None = None,
    label: bool = False,
    cpu_limit_s: float | None = None,
    progress: Callable[[int, int, int, int], None] | None = None,
    started: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Run a program once, with an optional monitor; `simulate` documents the other parameters."""
    job = make_job(settings, program, machine, label=label, schedule=schedule)
    job.watch(monitor)
    job.cpu_limit_s = cpu_limit_s
    if settings.spawned:
        job.origin = _origin(settings, program, machine, label=label, schedule=schedule)
    with current.exclusive(), job.transport.together(), separate_streams(*outside) as job.sinks, job.rank_processes():
        try:
            result = job.go(settings.wall_limit_s, background, progress, started)
        finally:
            dismiss_workers()
            drop_unclaimed()
    if settings.schedule is not None and not settings.schedule.watch:  # may be written by hand
        _refuse_impossible(settings.schedule, result)
    result.set_origin(machine=deepcopy(job.spec.plain))  # the machine is kept for the next run
    return result


def make_job(
    settings: RunParameters,
    program: object,
    machine: str | Path | Mapping[str, Any],
    *,
    label: bool = False,
    schedule: MatchSchedule | None = None,
) -> Job:
    """Assemble a job."""
    spec, programs = load_machine(machine, overrides=settings.overrides), load(program, settings)
    job = Job(with_packages(spec, settings.private, settings.share, programs.programs), programs, settings)
    job.label, job.traced, job.schedule = settings.label or label, settings.trace, schedule or settings.schedule
    job.links = settings.links
    if settings.profile:
        has_processes = any(each.kind == "executable" for each in programs.programs)
        job.profile = Profile(job.transport.local[0], has_processes=has_processes)
    job.set_failures(settings.fail, ft=settings.ft, restart=settings.restart)
    return job


def _origin(settings: RunParameters, program: object, machine: object, **besides: object) -> bytes:
    """Return the pickled parameters from which a new interpreter builds the same job."""
    programs = [app.program for app in program] if isinstance(program, list | tuple) else [program]
    try:
        if any(map(callable, programs)):
            raise TypeError("a function exists in one interpreter only")
        return dumps((settings, program, machine, besides))
    except Exception as error:
        raise ConfigError(
            f"isolation: spawn cannot pass this program to a new interpreter: {error};"
            " name a script or a module, or use isolation process"
        ) from None


def _refuse_impossible(schedule: MatchSchedule, result: Result) -> None:
    """Raise a `ConfigError` if a schedule names ranks or requests that did not exist in the run."""
    from xsim_py.schedules import impossible

    problems = impossible(schedule, len(result.tables["ranks"]), result.choices)
    if problems:
        raise ConfigError("\n".join(f"schedule: {problem}" for problem in problems))
