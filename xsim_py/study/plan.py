"""The runs of a study: every combination of the variables' values, with its fingerprint.

The fingerprint covers everything that can change the result of a run: the settings, the machine's fingerprint, the
text of the program and of the files named in its arguments, the captures, and the version of xsim_py. A repeated call
finds existing results by it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from xsim_py import __version__
from xsim_py.config import FailuresSpec, MachineSpec, config_hash, load_machine, machine_name, machine_names
from xsim_py.config.contradictions import MOST_RANKS
from xsim_py.config.entries import Location, Problem, from_python, raise_all
from xsim_py.config.loader import bundled_apps
from xsim_py.config.value_kinds import REFUSED, Reading
from xsim_py.engine import most_shards, problem_of_processes
from xsim_py.errors import ConfigError, OptionProblem, advice
from xsim_py.failure import FailureModel, RestartPolicy
from xsim_py.input_files import is_file
from xsim_py.machine import Machine
from xsim_py.parameters import COMPUTE, RunArguments, isolation, read
from xsim_py.study.columns import key_columns
from xsim_py.study.commands import COMMANDS
from xsim_py.study.condition import Condition
from xsim_py.study.description import OPTIONS, StudySpec, option_kind
from xsim_py.study.grouping import hidden_by, scale_problem
from xsim_py.study.template import Scalar, Value, text_of
from xsim_py.study.value_kinds import ANY, PLAIN, Given, Swept
from xsim_py.units import PS_PER_S

_MOST_RUNS: Final = 1_000_000
_DEFAULTS: Final[dict[str, Scalar]] = {"machine": "gige", "kind": "script", "seed": 0}
_OF_EACH_RUN: Final = ("repetition", "seed")
_FOLDERS: Final = ("folder", "apps")
_IN_FOLDER: Final = re.compile(r"\{(?:folder|apps)\}.*", re.DOTALL)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study."""

    columns: dict[str, Scalar]
    """The first columns of its row: the combination, the repetition, the seed."""
    settings: dict[str, Any]
    """Its settings, as plain data identical on every computer."""
    arguments: dict[str, Any]
    """The arguments of `xsim_py.simulate`, or of the command."""
    key: str
    """Its fingerprint."""


def plan_runs(
    spec: StudySpec, *, only: Sequence[Condition] = (), overrides: Mapping[str, Any] | None = None
) -> list[PlannedRun]:
    """Return the runs of a study, in the order of its variables; the last one varies fastest.

    `only` are conditions, also on the repetition and the seed; `overrides` are entries of every machine, in addition to
    the study's.

    Raises
    ------
    ConfigError
        With every invalid value.
    """
    total = math.prod(map(len, spec.dimensions), start=spec.repetitions)
    if total > _MOST_RUNS:
        count = f"{total:,}" if total < 10**30 else "more than 10^30"
        raise ConfigError(spec.problem("sweep", f"{count} runs are too many (at most {_MOST_RUNS:,})"))
    for condition in only:
        try:
            condition.check(dict.fromkeys((*key_columns(spec), *_OF_EACH_RUN)))
        except ValueError as error:
            raise ConfigError(f"--only: {error}") from None
    if spec.command is None:
        return _Planner(spec, [*spec.only, *only], overrides or {}).runs()
    return _CommandPlanner(_with_options(spec, overrides or {}), [*spec.only, *only], {}).runs()


def _with_options(spec: StudySpec, changes: Mapping[str, Any]) -> StudySpec:
    """Return a study with other options of its command."""
    known = COMMANDS[str(spec.command)].options
    problems = [
        OptionProblem(f"--set {name}", f"unknown option of {spec.command}; {advice(name, known)}")
        for name in changes
        if name not in known
    ]
    problems += [
        OptionProblem(f"--set {name}", "the study sweeps over it; select values with --only")
        for name in changes
        if name in {name for _, name, _ in spec.swept()}
    ]
    if problems:
        raise ConfigError(*problems)
    given = {
        name: Given(from_python(value, place=Location.in_option(f"--set {name}", name)), ANY)
        for name, value in changes.items()
    }
    return dataclasses.replace(spec, command_options={**spec.command_options, **given})


def _fingerprint(told: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


class _Values:
    """The values of all names in one run."""

    def __init__(self, spec: StudySpec, chosen: Mapping[str, Swept], repetition: int) -> None:
        self._spec = spec
        self._chosen = chosen
        self._repetition = repetition
        self._under_way: list[str] = []
        self._known: dict[str, Value | None] = {"repetition": repetition, **{name: f"{{{name}}}" for name in _FOLDERS}}

    def __call__(self, name: str) -> Value | None:
        """Return the value of a variable or option; ``{folder}`` is substituted at the run's start."""
        if name not in self._known:
            if name in self._under_way:
                raise ValueError(f"{name} is made from {' from '.join([*self._under_way[1:], name])}")
            self._under_way.append(name)
            given = self.given(name)
            value = _DEFAULTS.get(name) if given is None else given.fill(self)
            if name == "seed" and isinstance(value, int):
                value += self._repetition
            self._known[name] = value
            self._under_way.pop()
        return self._known[name]

    def given(self, name: str) -> Given | None:
        """Return the value of a variable or an option as written."""
        return self._chosen[name].given if name in self._chosen else self._spec.given(name)


class _Made(NamedTuple):
    """A machine that has been read and validated."""

    spec: MachineSpec
    hash: str


class _Planner:
    """The creation of the runs, with a cache of what they share."""

    def __init__(self, spec: StudySpec, only: list[Condition], overrides: Mapping[str, Any]) -> None:
        self.spec = spec
        self.only = only
        self.overrides = dict(overrides)
        self.reading = Reading()
        self.machines: dict[str, _Made | None] = {}
        self.sizes: set[tuple[str, int]] = set()
        self.programs: dict[str, Path | None] = {}
        self.failures: dict[tuple[Any, ...], bool] = {}
        self.contents: dict[Path, str] = {}
        self.paths: dict[str, str] = {}  # the sources of the current combination's values
        written = [str(swept.label) for swept in spec.variables.get("machine", ())]
        self.names = machine_names({name: self._machine_source(name) for name in written if "{" not in name})

    def runs(self) -> list[PlannedRun]:
        """Return all runs; ConfigError with every problem if one is invalid."""
        runs = [run for run in self._each() if run is not None]
        rows = [run.columns for run in runs]
        for index, plot in enumerate(self.spec.plots):
            if scaled := scale_problem(self.spec, plot, rows):
                self.reading.problems.append(self.spec.problem(f"plots[{index}].x_scale", scaled))
            hidden = hidden_by(self.spec, plot, rows)
            if hidden:
                names = " and ".join(hidden)
                message = f"points with different {names} would overlap; add it to series, or use only"
                self.reading.problems.append(self.spec.problem(f"plots[{index}].series", message))
        raise_all(self.reading.problems)
        if not runs:
            raise ConfigError(self.spec.problem("", "no combination of values meets the conditions"))
        return runs

    def _each(self) -> Iterator[PlannedRun | None]:
        for choices in itertools.product(*self.spec.dimensions):
            chosen = {name: swept for choice in choices for name, swept in choice.items()}
            self.paths = {name: swept.path for name, swept in chosen.items()}
            columns = self._columns(chosen)
            if columns is None:
                yield None
            elif all(condition.holds(columns) for condition in self.only if condition.names <= columns.keys()):
                later = [condition for condition in self.only if not condition.names <= columns.keys()]
                for repetition in range(self.spec.repetitions):
                    run = self._run(chosen, columns, repetition)
                    if run is None or all(condition.holds(run.columns) for condition in later):
                        yield run

    def _columns(self, chosen: Mapping[str, Swept]) -> dict[str, Scalar] | None:
        """Return the columns that identify a combination; None after a recorded problem."""
        columns: dict[str, Scalar] = {name: chosen[name].label for name in self.spec.variables}
        value_of = _Values(self.spec, chosen, 0)
        for name in key_columns(self.spec):
            if name not in columns:
                value = self._column(name, value_of, chosen)
                if value is REFUSED:
                    return None
                columns[name] = value
        swept = chosen["machine"] if "machine" in self.spec.variables else None
        if self.spec.command is None and swept is None:
            columns["machine"] = machine_name(self._machine_source(str(columns["machine"])))
        elif self.spec.command is None and swept is not None and swept.label == swept.given.entry.value:
            # It is in a list, without a separate label.
            columns["machine"] = self.names.get(str(swept.label), swept.label)
        return columns

    def _column(self, name: str, value_of: _Values, chosen: Mapping[str, Swept]) -> Any:
        value = self._option(name, value_of, chosen)
        return _DEFAULTS[name] if value is None else value

    def _run(self, chosen: Mapping[str, Swept], columns: dict[str, Scalar], repetition: int) -> PlannedRun | None:
        """Return one run; None after a recorded problem."""
        value_of = _Values(self.spec, chosen, repetition)
        before = len(self.reading.problems)
        options = {key: self._option(key, value_of, chosen) for key in OPTIONS}
        entries = self._machine_entries(value_of, chosen)
        if len(self.reading.problems) > before:
            return None
        options = {key: _DEFAULTS.get(key) if value is None else value for key, value in options.items()}
        seed = options["seed"] + repetition
        begin = {**columns, "repetition": repetition}
        begin.setdefault("seed", seed)
        return self._finish(begin, {**options, "seed": seed}, entries)

    def _option(self, key: str, value_of: _Values, chosen: Mapping[str, Swept]) -> Any:
        given = value_of.given(key)
        if given is None:
            return None
        return Given(given.entry, option_kind(key)).read(value_of, self.paths.get(key, key), self.reading)

    def _machine_entries(self, value_of: _Values, chosen: Mapping[str, Swept]) -> dict[str, Any]:
        """Return the machine's entries that this run changes; one without a value is unchanged."""
        entries = {}
        for name, given in self.spec.overrides.items():
            entries[name] = given.read(value_of, f"set.{name}", self.reading)
        for name, swept in chosen.items():
            if "." in name:
                entries[name] = Given(swept.given.entry, PLAIN).read(value_of, swept.path, self.reading)
        return {name: value for name, value in entries.items() if value is not None} | self.overrides

    def _finish(
        self, columns: dict[str, Scalar], options: dict[str, Any], entries: dict[str, Any]
    ) -> PlannedRun | None:
        program = self._program(options["program"], options["kind"])
        if not self._has_room(options):
            return None
        machine = self._machine(options["machine"], entries, options["ranks"])
        if program is None or machine is None or not self._can_fail(options, machine):
            return None
        times = self._times(options["compute"])
        if times is not None and not is_file(times):
            self._refuse(
                "compute", f"cannot find the file {times}; write {', '.join(COMPUTE)} or a file next to the study"
            )
            return None
        limit_ps = options.pop("wall_limit")
        settings = {
            **{key: value for key, value in options.items() if value is not None},
            "args": [text_of(word) for word in options["args"] or ()],
            "fail": list(options["fail"] or ()),
            "set": {name: list(value) if isinstance(value, tuple) else value for name, value in entries.items()},
        }
        arguments = settings | {
            "fail": [self._in_folders(failure) for failure in settings["fail"]],
            "program": program,
            "machine": self._machine_source(options["machine"]),
            "args": [self._in_folders(word) for word in settings["args"]],
            **({} if times is None else {"compute": str(times)}),
            "wall_limit": None if limit_ps is None else limit_ps / PS_PER_S,
        }
        try:
            read(RunArguments(**{name: value for name, value in arguments.items() if name != "program"}))
        except ConfigError as error:  # an error of one run, with its message
            for problem in map(str, error.problems):
                self._refuse(*problem.split(": ", 1))
            return None
        return PlannedRun(columns, settings, arguments, self._key(settings, arguments, machine.hash))

    def _key(self, settings: dict[str, Any], arguments: dict[str, Any], config: str) -> str:
        files = [Path(arguments["program"])] if settings["kind"] == "script" else []
        words = (*settings["args"], *settings["fail"])  # such as --input={folder}/x and trace={folder}/x
        files += [Path(self._in_folders(named[0])) for word in words if (named := _IN_FOLDER.search(word))]
        files += [times] if (times := self._times(settings.get("compute"))) is not None else []
        told = {
            **{key: value for key, value in settings.items() if key not in ("machine", "set")},
            "config": config,
            "version": __version__,
            "files": [self._content(file) for file in files],
            "capture": {name: [each.pattern.pattern, each.take] for name, each in self.spec.capture.items()},
            "run_in": self.spec.run_in,
        }
        return _fingerprint(told)

    def _times(self, compute: str | None) -> Path | None:
        """Return the file of recorded compute times, if any; it is next to the study."""
        return None if compute is None or compute in COMPUTE else self.spec.folder / self._in_folders(compute)

    def _content(self, file: Path) -> str:
        if file not in self.contents:
            path = file / "__main__.py" if os.path.isdir(file) else file
            self.contents[file] = ""
            if is_file(path):
                with open(path, "rb") as opened:
                    self.contents[file] = hashlib.file_digest(opened, "blake2b").hexdigest()
        return self.contents[file]

    def _program(self, name: str, kind: str) -> str | None:
        """Return the location of the program: next to the study, or among the included apps."""
        if kind != "script":
            return name
        if name not in self.programs:
            inside = name.removeprefix("apps/")
            places = [self.spec.folder / name, *([bundled_apps() / inside] if inside != name else [])]
            found = self.programs[name] = next((place for place in places if os.path.exists(place)), None)
            if found is not None and not is_file(found / "__main__.py" if os.path.isdir(found) else found):
                self.programs[name] = None
                self._refuse("program", f"expected a file or a directory with a __main__.py, got {found}")
            elif found is None:
                known = sorted(f"apps/{path.name}" for path in bundled_apps().glob("*.py"))
                missing = f"cannot find {name} in {self.spec.folder} or in xsim_py; {advice(name, known)}"
                self._refuse("program", missing)
        found = self.programs[name]
        return None if found is None else str(found)

    def _has_room(self, options: dict[str, Any]) -> bool:
        """Return True if these numbers of ranks, shards and processes can be simulated."""
        before = len(self.reading.problems)
        ranks, shards, way = options["ranks"], options["shards"] or 1, options["isolation"] or "greenlets"
        if ranks > MOST_RANKS:
            self._refuse("ranks", f"{ranks:,} is out of range (at most {MOST_RANKS:,})")
        if shards > (most := most_shards(ranks)):
            self._refuse("shards", f"{shards:,} is out of range for {ranks:,} ranks in one process (at most {most:,})")
        if (problem := problem_of_processes(ranks, isolation(way))) and ranks <= MOST_RANKS:
            self._refuse("isolation", problem)
        return len(self.reading.problems) == before

    def _machine_source(self, name: str) -> str:
        """Return the source of a machine: a file next to the study, or a preset without suffix."""
        return str(self.spec.folder / name) if name.endswith((".yaml", ".yml")) or "/" in name else name

    def _machine(self, name: str, entries: dict[str, Any], ranks: int) -> _Made | None:
        """Return the machine of a run, after checking that the ranks fit on it."""
        known = json.dumps([name, entries], sort_keys=True, default=list)
        if known not in self.machines:
            self.machines[known] = None
            with self._refusing("machine"):
                spec = load_machine(self._machine_source(name), overrides=entries)
                self.machines[known] = _Made(spec, config_hash(spec))
        machine = self.machines[known]
        if machine is not None and (known, ranks) not in self.sizes:
            self.sizes.add((known, ranks))
            with self._refusing("machine"):
                Machine(machine.spec, ranks=ranks)
        return machine

    def _can_fail(self, options: dict[str, Any], machine: _Made) -> bool:
        """Return True if the failures and restarts are valid."""
        ranks, failures = options["ranks"], tuple(map(self._in_folders, options["fail"] or ()))
        if not failures and machine.spec.failures == FailuresSpec() and options["restart"] is None:
            return True
        asked = (machine.hash, ranks, failures, options["restart"])
        if asked not in self.failures:
            from xsim_py.mpi4py.door import known_calls  # with all of the simulated MPI, which takes a while

            before = len(self.reading.problems)
            with self._refusing("fail"):
                there = Machine(machine.spec, ranks=ranks)
                FailureModel(
                    machine.spec,
                    extra=failures,
                    ranks=ranks,
                    node_of=there.node_of,
                    cores_per_node=there.cores_per_node,
                    seed=0,
                    known_calls=known_calls(),
                )
            if options["restart"] is not None:
                with self._refusing("restart"):
                    RestartPolicy.parse(options["restart"])
            self.failures[asked] = len(self.reading.problems) == before
        return self.failures[asked]

    @contextmanager
    def _refusing(self, key: str) -> Iterator[None]:
        """Convert errors to problems of an option, at the location of its value."""
        try:
            yield
        except ConfigError as error:
            for problem in error.problems:
                entry = problem.place.entry if isinstance(problem, Problem) else ""
                if entry in self.paths or entry in self.spec.overrides:
                    other = f"{problem.path}: " if problem.path not in ("", entry) else ""
                    self._refuse(f"set.{entry}", f"{other}{problem.message}")
                else:
                    said = problem.message if isinstance(problem, OptionProblem) else str(problem)
                    for line in said.splitlines():
                        self._refuse(key, line)

    def _refuse(self, key: str, message: str) -> None:
        """Record a problem of an option or an entry of the machine, at the location of its value."""
        path = self.paths.get(key.removeprefix("set."), key)
        self.reading.problems.append(self.spec.problem(path, message))

    def _in_folders(self, word: str) -> str:
        return word.replace("{folder}", str(self.spec.folder)).replace("{apps}", str(bundled_apps()))


class _CommandPlanner(_Planner):
    """The creation of the runs of a study of a command."""

    def _column(self, name: str, value_of: _Values, chosen: Mapping[str, Swept]) -> Any:
        value = self._filled(name, value_of, chosen)
        return " ".join(map(text_of, value)) if isinstance(value, list) else value

    def _run(self, chosen: Mapping[str, Swept], columns: dict[str, Scalar], repetition: int) -> PlannedRun | None:
        value_of = _Values(self.spec, chosen, repetition)
        before = len(self.reading.problems)
        command = COMMANDS[str(self.spec.command)]
        given = {name: self._filled(name, value_of, chosen) for name in command.options}
        given["seed"] = (self._option("seed", value_of, chosen) or 0) + repetition
        if len(self.reading.problems) > before:
            return None
        try:
            settings = command.check({name: value for name, value in given.items() if value is not None})
        except ConfigError as error:
            for problem in error.problems:
                named = isinstance(problem, OptionProblem)
                self._refuse_option(problem.option if named else "machine", problem.message if named else str(problem))
            return None
        begin = {**columns, "repetition": repetition}
        begin.setdefault("seed", given["seed"])
        told = {"command": self.spec.command, "version": __version__, **settings}
        return PlannedRun(begin, {"command": self.spec.command, **settings}, settings, _fingerprint(told))

    def _filled(self, name: str, value_of: _Values, chosen: Mapping[str, Swept]) -> Any:
        given = value_of.given(name)
        try:
            return None if given is None else given.fill(value_of)
        except ValueError as error:
            self._refuse_option(name, str(error))
            return REFUSED

    def _refuse_option(self, name: str, message: str) -> None:
        """Record a problem of an option once, at the location of its value."""
        problem = self.spec.problem(self.paths.get(name, f"options.{name}"), message)
        if problem not in self.reading.problems:
            self.reading.problems.append(problem)
