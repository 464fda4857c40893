"""The table of the parameters of a run, and their checks.

A parameter is a field of `RunArguments`, whose row has everything that a front end needs. `simulate` has all parameters
as arguments, ``xsim run`` and other commands have options, studies have keys, and the mark `ranks` of tests has
keywords. The command line passes text, and Python passes values; a function here accepts both, or raises a
`ValueError` that describes the error.
"""

# ruff: noqa: RUF009 - `parameter` makes a dataclasses.field, as a default here must be

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py.code_origin import ALL_IMPORTED, package_name
from xsim_py.errors import ConfigError, close_match
from xsim_py.input_files import is_file
from xsim_py.units import PS_PER_S, parse_time_ps

if TYPE_CHECKING:
    from pathlib import Path

    from xsim_py.findings import Checks
    from xsim_py.schedules import MatchSchedule

ALGORITHMS: Final = ("tuned", "ftco")
"""Names of algorithm sets for all collective operations."""

WAYS: Final = ("messages", "arrays", "auto")
"""How collectives can be simulated."""

COLLECTIVES: Final = (*ALGORITHMS, *WAYS)
COMPUTE: Final = ("none", "measured")
"""The cost of computation; alternatively ``record=FILE``, or a file."""
RECORD: Final = "record="
RESILIENCE: Final = ("legio",)
"""The layers under which an unmodified program survives failures."""

_APART: Final = ("process", "spawn")
"""How ranks are put into separate processes: forked ones, or new interpreters."""

MOST: Final = 2**63 - 1
"""The largest accepted number."""
_MOST_DIGITS: Final = 100
_LARGEST_PART: Final = 1000
_DIGITS: Final = re.compile(r"[-+]?[0-9]+")
_LONGEST_WAIT_PS: Final = 10**9 * PS_PER_S  # supported by every timer
_KINDS: Final = ("script", "module", "code", "callable")


def positive(value: object) -> int:
    """Return an integer from 1 to 2**63 - 1."""
    return _whole(value, least=1)


def seed(value: object) -> int:
    """Return a seed: an integer from 0 to 2**63 - 1."""
    return _whole(value, least=0)


def _whole(value: object, *, least: int) -> int:
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value):
            raise ValueError(f"expected an integer, got {value!r}")
        number = int(value[:_MOST_DIGITS])  # with more digits, these are too large as well
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"expected an integer, got {value!r}")
    else:
        number = operator.index(value)
    if number < least:
        raise ValueError(f"{value} is out of range (at least {least})")
    if number > MOST:
        raise ValueError(f"{value if isinstance(value, str) else 'it'} is out of range (at most {MOST})")
    return number


def part(value: str | float) -> float:
    """Return a fraction, or a value without a unit: a number above zero, up to 1,000."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"expected a number, got {value!r}") from None
    if not 0 < number <= _LARGEST_PART:
        raise ValueError(f"{value} is out of range (above 0, at most {_LARGEST_PART:,})")
    return number


def seconds(value: object) -> float:
    """Return the seconds of a wall-clock time such as 60s or 5min; a bare number means seconds."""
    time_ps = parse_time_ps(value)
    if time_ps > _LONGEST_WAIT_PS:
        raise ValueError(f"{value} is out of range (at most thirty years); omit it for no limit")
    return time_ps / PS_PER_S


def assignment(value: object) -> tuple[str, str]:
    """Return the two sides of ``path=value``."""
    path, equals, right = value.partition("=") if isinstance(value, str) else ("", "", "")
    if not path or not equals:
        raise ValueError(f"expected path=value, got {value!r}")
    return path, right


def isolation(value: object) -> int:
    """Return the number of ranks per process: 0 for ``greenlets``, 8 for ``process:8``."""
    word, colon, number = value.partition(":") if isinstance(value, str) else ("", "", "")
    if word in _APART and colon:
        return positive(number)
    return {"greenlets": 0}.get(one_of("greenlets", *_APART, "process:8")(value), 1)


def isolation_mode(value: object) -> str:
    """Check an isolation mode, and return it as given."""
    isolation(value)
    return str(value)


def way_of(each: int, *, spawned: bool = False) -> str:
    """Return the isolation mode, as `isolation` parses it, for a number of ranks per process."""
    return "greenlets" if not each else _APART[spawned] + (f":{each}" if each > 1 else "")


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a function that accepts one of these words."""

    def read(value: object) -> str:
        if value in words:
            return str(value)
        near = close_match(str(value), words)
        hint = f"; did you mean {near}?" if near else ""
        known = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        raise ValueError(f"expected {known}, got {value!r}{hint}")

    return read


def packages(value: object) -> tuple[str, ...]:
    """Return names of packages, from a list or text; see `code_origin.package_name`."""
    names = [package_name(name.strip()) for each in _several(value) for name in text(each).split(",")]
    return tuple(dict.fromkeys(names))


def compute(value: object) -> str:
    """Return the cost of computation: ``none``, ``measured``, ``record=FILE`` or a file's path."""
    if value in COMPUTE:
        return str(value)
    name = str(value) if isinstance(value, os.PathLike) else text(value)
    if name.startswith(RECORD):
        if not name[len(RECORD) :]:
            raise ValueError(f"missing file name in {value!r}")
        return RECORD + os.path.abspath(name[len(RECORD) :])
    if not is_file(name):
        raise ValueError(f"expected {', '.join(COMPUTE)}, {RECORD}FILE or the name of a file, got {name!r}")
    return os.path.abspath(name)


def schedule(value: object) -> MatchSchedule | None:
    """Return the prescribed choices of ranks, from a file or pairs; see `xsim_py.schedules`."""
    from xsim_py.schedules import read_schedule  # rarely needed

    return read_schedule(value)


def flag(value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise ValueError(f"expected True or False, got {value!r}")
    return value


def _check(value: object) -> Checks | None:
    """Return the reported classes of MPI usage errors; None if the run is not checked."""
    if value is False:
        return None
    from xsim_py.findings import Checks, chosen  # most runs are not checked, and must start quickly

    if isinstance(value, Checks):
        return value
    if isinstance(value, str | list | tuple):
        return chosen(",".join(texts(value)))
    return Checks() if flag(value) else None


def text(value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {value!r}")
    return value


def texts(value: object) -> tuple[str, ...]:
    """Return the texts of one, several, or None."""
    return tuple(text(each) for each in _several(value))


def _several(value: Any) -> list[Any]:
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    try:
        return list(value)
    except TypeError:
        raise ValueError(f"expected text or a list of texts, got {value!r}") from None


def _list(value: object) -> list[Any]:
    if isinstance(value, str):
        raise ValueError(f"expected a list, got the text {value!r}")
    return _several(value)


def _entries(value: object) -> dict[str, Any]:
    """Return keys of the machine: from a mapping, or from texts as on the command line."""
    entries = dict(value) if isinstance(value, Mapping) else dict(map(assignment, _several(value)))
    for path in entries:
        text(path)
    return entries


def _words(value: object) -> list[str]:
    return [one_of(*COLLECTIVES)(each) for each in _several(value)]


class Parameter(NamedTuple):
    """A row of the table: everything about a parameter but its name, type and default."""

    read: Callable[[Any], Any] | None
    """Check a value from any front end and return it as in `RunParameters`; None if `run` reads it."""
    default: Any
    option: str = ""
    """The option of ``xsim run``, with the name of its value unless it is a flag; "" if there is none."""
    help: str = ""
    of: str = "simulation"
    """Its group among the options: ``description``, ``simulation``, ``run``, ``output``; "" if it is added singly."""
    each: Callable[[Any], Any] | None = None
    """Check one value of a repeatable option; each has several if this is `read`."""
    unit: str = ""
    """The unit of the value that `read` returns."""
    study: tuple[str, str] | None = None
    """The help and the shown default of its key in studies, if they have one."""
    not_in_marks: str = ""
    """Why the mark `ranks` does not support it; "" if it does."""
    only_output: bool = False
    """True if the simulation is the same for all values."""

    @property
    def flags(self) -> list[str]:
        """The words for the option, such as ``-n`` and ``--ranks``."""
        return [word for word in self.option.split() if word.startswith("-")]

    @property
    def metavar(self) -> str:
        """The name of the value of the option; "" for a flag."""
        return self.option.rpartition(self.flags[-1])[2].strip()


OF_PLUGIN: Final = "the plugin gives it"


def parameter(read: Callable[[Any], Any] | None, default: Any, *option: Any, **row: Any) -> Any:
    """Return a field of `RunArguments` with its row of the table; see `Parameter`."""
    return field(default=default, metadata={"row": Parameter(read, default, *option, **row)})


def _choice(words: Sequence[str]) -> str:
    return f"{{{','.join(words)}}}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunArguments:
    """The arguments of `simulate` as given, each with its row of the table, in the order of ``xsim run --help``."""

    # fmt: off
    ranks: int = parameter(
        positive, MISSING, "-n -np --ranks N", "set the number of virtual ranks", of="",
        study=("Number of virtual ranks.", ""), not_in_marks=OF_PLUGIN,
    )
    machine: str | Path | Mapping[str, Any] = parameter(
        None, "gige", "--machine MACHINE", "simulate this preset (see xsim models) or YAML file (default: gige)", of="",
        study=("A preset, or a YAML file next to the study.", "gige"),
    )
    args: Sequence[Any] = parameter(_list, (), study=("The program's arguments.", ""), not_in_marks=OF_PLUGIN)
    kind: str | None = parameter(one_of(*_KINDS), None, study=("Kind of program.", "script"), not_in_marks=OF_PLUGIN)
    seed: int = parameter(
        seed, 0, "--seed S", "seed every random stream (default: 0)", of="description",
        study=("Seed of the first repetition; the seed of each further repetition is one higher.", "0"),
    )
    set: Mapping[str, Any] | Sequence[str] = parameter(
        _entries, (), "--set PATH=VALUE", "override one key of the machine, e.g. network.latency=5us (repeatable)",
        of="description", each=assignment,
    )
    shards: int = parameter(
        positive, 1, "--shards K", "simulate in K shards in one process (default: 1)",
        study=("Number of shards of a run.", "1"),
    )
    wall_limit: float | str | None = parameter(
        seconds, None, "--wall-limit TIME", "end the run with a report after this wall-clock time, e.g. 60s", unit="s",
        study=("Wall-clock limit of a run.", "no limit"),
    )
    compute: str | Path | None = parameter(
        compute, None, "--compute " + _choice((*COMPUTE, f"{RECORD}FILE", "FILE")),
        "charge computation to virtual time: none, the measured CPU time (not reproducible), record=FILE to also"
        " save it, or FILE to charge saved times (default: none)",
        study=("Cost of computation in virtual time, as with --compute of xsim run.", "that of the machine"),
    )
    collectives: str | Sequence[str] = parameter(
        _words, (), f"--collectives {_choice(COLLECTIVES)}",
        "choose the algorithms, Open MPI's tuned or fault-tolerant FTCO (default: the machine's), and the"
        " simulation: individual messages, batched by formula, or the faster one (default: auto; same result;"
        " repeatable)",
        each=one_of(*COLLECTIVES),
    )
    fail: str | Sequence[str] = parameter(
        texts, (), "--fail SPEC",
        "inject a failure (repeatable), e.g. rank=5@1.2ms, node=3@10ms, 'rank=3 before its 2nd Allreduce', 'rank=3"
        " after its 7th call', exponential:node,mtbf=6.7h, weibull:rank,mtbf=1h,shape=0.7, trace=FILE.csv, or a soft"
        " error: flip:message,rank=3,at=1.2ms,bit=17",
        each=text, study=("Failures, in addition to those in the machine description.", ""),
    )
    ft: bool | None = parameter(
        flag, None, "--ft",
        "let the job survive process failures, as mpirun --with-ft ulfm does (default: the machine's; else yes"
        " with injected failures and no --restart)",
        study=("Whether the job survives process failures.", "as for xsim run"),
    )
    resilience: str | None = parameter(
        one_of(*RESILIENCE), None, f"--resilience {_choice(RESILIENCE)}",
        "add a resilience layer: legio agrees on each collective and repeats it without failed ranks (default: the"
        " machine's)",
    )
    isolation: str = parameter(
        isolation_mode, "greenlets", "--isolation WAY",
        "isolate ranks as greenlets in one process, as processes (process:8: eight ranks per process) or in new"
        " interpreters, each with its own hash seed (spawn, spawn:8; default: greenlets)",
        study=("Isolation of the ranks.", "greenlets"),
        not_in_marks="the ranks of a test live in the process of pytest",
    )
    restart: str | None = parameter(
        text, None, "--restart POLICY",
        "restart an aborted job in the same virtual time, e.g. on-abort or on-abort,max=3,delay=30s",
        study=("Restart of an aborted job: on-abort[,max=N,delay=TIME].", ""),
    )
    private: str | Sequence[str] = parameter(
        packages, (), "--private PACKAGE[,...]",
        "give each rank its own modules of these packages, as for packages that import mpi4py"
        f" ({ALL_IMPORTED}: all that are pure Python)",
        each=packages, study=("Packages of which each rank has its own modules, as with --private of xsim run.", ""),
    )
    share: str | Sequence[str] = parameter(
        packages, (), "--share PACKAGE[,...]",
        "share these packages between ranks, even if they import mpi4py or belong to the program",
        each=packages, study=("Packages shared by all ranks, as with --share of xsim run.", ""),
    )
    check: bool | str | Sequence[str] = parameter(
        _check, False, "--check", "report MPI usage errors on standard error, with exit status 5", of=""
    )
    schedule: Any = parameter(
        schedule, None, "--schedule FILE",
        "fix the choices that MPI leaves open: a file of xsim explore wildcards, or e.g. '0:2 0:-1'", of="run",
    )
    clock_from: Any = parameter(  # a path, or a `Result`, which is of a higher layer
        None, None, "--clock-from RESULT",
        "start at the virtual end time of an earlier run: its JSON file or --out directory", of="run",
    )
    label: bool = parameter(
        flag, False, "--label", "prefix each line of the program's output with its rank", of="run",
        not_in_marks=OF_PLUGIN, only_output=True,
    )
    profile: bool = parameter(
        flag, False, "--profile", "print each shard's wall-clock time by activity", of="output", only_output=True
    )
    trace: bool = parameter(flag, False, only_output=True)
    links: bool = parameter(flag, False, only_output=True)
    # fmt: on


PARAMETERS: Final[dict[str, Parameter]] = {each.name: each.metadata["row"] for each in fields(RunArguments)}
"""The table of the parameters of a run, by name."""


class RunParameters(NamedTuple):
    """The checked parameters of one run; their names end with their units."""

    ranks: int
    kind: str | None
    args: Sequence[Any]
    seed: int
    shards: int
    set: dict[str, Any]
    wall_limit_s: float | None
    compute: str | None
    collectives: Sequence[str]
    fail: tuple[str, ...]
    ft: bool | None
    restart: str | None
    resilience: str | None
    isolation: str
    label: bool
    trace: bool
    profile: bool
    links: bool
    check: Checks | None
    private: tuple[str, ...]
    schedule: MatchSchedule | None
    share: tuple[str, ...]
    """The packages that all ranks share; of those in `private`, each rank has its own modules."""
    begin_ps: int
    """The virtual time at which the ranks begin."""

    @property
    def overrides(self) -> dict[str, Any]:
        """The changed keys of the machine; `set` takes precedence over other options."""
        options = [("mpi.collectives", word) for word in self.collectives if word in ALGORITHMS]
        options += [] if self.resilience is None else [("mpi.resilience.type", self.resilience)]
        return dict(options) | self.set

    @property
    def way(self) -> str:
        """How collectives are simulated: one of `WAYS`."""
        return next((word for word in reversed(self.collectives) if word in WAYS), "auto")

    @property
    def ranks_per_process(self) -> int:
        """The number of ranks per process; 0: all in one, as greenlets."""
        return isolation(self.isolation)

    @property
    def spawned(self) -> bool:
        """True if each process is a new interpreter, with its own hash seed."""
        return self.isolation.startswith(_APART[True])


def read(given: RunArguments, problems: Sequence[str] = (), *, begin_ps: int = 0) -> RunParameters:
    """Check the arguments of `simulate`.

    Raise ConfigError with all errors, in addition to the given `problems`.
    """
    found: dict[str, Any] = {"begin_ps": begin_ps}
    wrong = list(problems)
    rows = {f"{name}_{row.unit}" if row.unit else name: (name, row) for name, row in PARAMETERS.items()}
    for key in RunParameters._fields[:-1]:
        name, row = rows[key]
        value = getattr(given, name)
        try:
            found[key] = value if row.read is None or value is row.default is None else row.read(value)
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    if getattr(found.get("schedule"), "watch", False) and (
        found.get("shards") != 1 or found.get("isolation", "greenlets") != "greenlets"
    ):
        wrong.append("schedule: recording alternatives needs a single shard; drop shards and isolation")
    if str(given.isolation).startswith(_APART[True]) and found.get("restart") is not None:
        wrong.append("restart: cannot be combined with isolation spawn; use isolation process")
    if wrong:
        raise ConfigError(*wrong)
    return RunParameters(**found)
