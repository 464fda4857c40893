"""Options common to several commands, and their parsing."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from contextlib import contextmanager
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from xsim_py import parameters
from xsim_py.errors import FOUND, NOT_WRITTEN, ConfigError, OptionProblem
from xsim_py.parameters import PARAMETERS
from xsim_py.units import parse_time_ps

if TYPE_CHECKING:
    from argparse import Action, Namespace, _SubParsersAction
    from collections.abc import Callable, Iterator, Sequence

Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"
PROGRAM_USAGE = "(PROGRAM | -m MODULE | -c CODE) [ARGUMENT ...]"

_KINDS = {"-m": "module", "-c": "code"}
_FILES = ("--json", "--out", "--trace", "--timeline", "--waits", "--pairs", "--links", "--report")
_ABOUT_OUTPUT = (*_FILES, "--view", "--jobs", "-j")
_FLAGS_ABOUT_OUTPUT = ("--quiet", "--profile", "--fresh")
_STATUS = {"stalled": 3, "wall limit": 4, "interrupted": 130}


CHOSEN = "--check=CLASS[,...]"


class Parser(ArgumentParser):
    """An argument parser that raises `ConfigError`.

    Options cannot be abbreviated: an abbreviation that is unique today may become ambiguous.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})
        self._negative_number_matcher = re.compile(r"-\.?\d")  # -1s is a value, too, for its option to reject

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, Any]:
        """Parse arguments; a sub-command rejects unknown ones itself, to name itself in the error."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _parse_optional(self, arg_string: str) -> tuple[Action | None, str, str | None] | None:
        """Accept a value of ``--check`` only after ``=``, because the next word may be the program."""
        known = self._option_string_actions
        if arg_string.startswith("--check=") and CHOSEN in known and arg_string not in known:
            value = arg_string.partition("=")[2]
            self.add_argument(arg_string, action="store_const", const=value, dest="check", help=SUPPRESS)
        return super()._parse_optional(arg_string)

    def error(self, message: str) -> NoReturn:
        """Raise the error, with a pointer to the help."""
        unwanted = re.fullmatch(r"argument (?:\S+/)?(--[\w-]+): ignored explicit argument (.*)", message, re.DOTALL)
        if unwanted is not None:
            option, value = unwanted.groups()
            known = [each for each in self._option_string_actions if each.partition("=")[0] == option]
            message = f"unknown value {option}={value.strip(chr(39))}; write {' or '.join(known)}"
        raise ConfigError(f"{message}\ntry: {self.prog} --help")


class _Either(BooleanOptionalAction):
    """An option and its opposite, which exclude each other."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        super().__call__(parser, namespace, values, option_string)
        if before not in (None, getattr(namespace, self.dest)):
            parser.error(f"{' and '.join(self.option_strings)} cannot be combined; drop one")


class ProgramSpec(NamedTuple):
    """The program to simulate."""

    kind: str | None
    """``script``, ``module`` or ``code``; None for several programs."""
    target: Any
    """A file, a name or a text; or a list of `App`."""
    args: list[str]

    @property
    def name(self) -> str:
        """A short name of the program."""
        return {"module": f"-m {self.target}", "code": "-c ..."}.get(self.kind or "", str(self.target))


def split_program(argv: Sequence[str], options: Sequence[Action]) -> tuple[list[str], ProgramSpec | None]:
    """Split a command's arguments where the program begins, by Python's rule.

    argparse cannot do this: its REMAINDER could take an option of the program for one of ours. Returns the arguments
    before the program, of which `options` are known, and the program; None if there is none.
    """
    valued = {name for option in options if option.nargs != 0 for name in option.option_strings}
    place = 0
    while place < len(argv):
        word = argv[place]
        if word[:2] in _KINDS:
            return list(argv[:place]), _flagged(_KINDS[word[:2]], word, argv[place + 1 :])
        if word == "--" or not word.startswith("-"):
            rest = list(argv[place + (word == "--") :])
            return list(argv[:place]), ProgramSpec("script", rest[0], rest[1:]) if rest else None
        place += 2 if word in valued else 1
    return list(argv), None


def too_late(program: ProgramSpec | None, options: Sequence[Action]) -> str:
    """Return advice about a required option that comes after the program, if there is one."""
    needed = {name for option in options if option.required for name in option.option_strings}
    if program is not None:
        for word in program.args:
            if word.partition("=")[0] in needed:
                return f"; move {word} before {program.name}: options after the program are passed to it"
    return ""


def _flagged(kind: str, word: str, rest: Sequence[str]) -> ProgramSpec:
    """Return the program of ``-m MODULE`` or ``-c CODE``, also when written as one word."""
    if len(word) > 2:
        return ProgramSpec(kind, word[2:], list(rest))
    if not rest:
        raise ConfigError(f"{word} needs a {kind}")
    return ProgramSpec(kind, rest[0], list(rest[1:]))


def repeated_by(command: str, own: Sequence[str], program: ProgramSpec | None = None) -> str:
    """Return a command as one line for a shell, without the options for output.

    `own` are its arguments before the program.
    """
    import shlex

    kept: list[str] = []
    words = iter(own)
    for word in words:
        if word in _ABOUT_OUTPUT:
            next(words, None)
        elif word not in _FLAGS_ABOUT_OUTPUT and word.partition("=")[0] not in _ABOUT_OUTPUT:
            kept.append(word)
    if program is not None:
        flag = next((flag for flag, kind in _KINDS.items() if kind == program.kind), None)
        kept += [*([] if flag is None else [flag]), str(program.target), *program.args]
    return shlex.join(["xsim", command, *kept])


def add_report_option(parser: ArgumentParser, *, of: str) -> Action:
    """Add the option for an HTML report, and return it."""
    return parser.add_argument(
        "--report",
        metavar="FILE",
        help=f"write an HTML report of {of}: figures, tables and the command that reproduces it (.html)",
    )


def check_report(name: str | None) -> None:
    """Check before the run that an HTML report can be written under that name."""
    if name is None:
        return
    from xsim_py.report.page.document import check_page

    try:
        check_page(name)
    except ConfigError as error:
        raise ConfigError(f"--report {error}") from error


def add_parameter(parser: ArgumentParser, name: str, **changes: object) -> Action:
    """Add the option for a parameter of a run, with changed settings of argparse, and return it."""
    row = PARAMETERS[name]
    settings: dict[str, Any] = {"help": row.help, "dest": name}
    if not row.metavar:
        settings["action"] = _Either if row.default is None else "store_true"
    else:
        read = row.each or row.read
        settings |= {"metavar": row.metavar, "type": read and reader(read)}
        if row.each is None:
            settings |= {"required": True} if row.default is MISSING else {"default": row.default}
        else:
            settings |= {"action": "extend" if row.each is row.read else "append", "default": []}
    return parser.add_argument(*row.flags, **{**settings, **changes})


def add_parameters(parser: ArgumentParser, *of: str) -> list[Action]:
    """Add the options for the parameters of a run in these groups, and return them."""
    return [
        add_parameter(parser, name)
        for group in of
        for name, row in PARAMETERS.items()
        if row.option and row.of == group
    ]


def add_sizes_option(parser: ArgumentParser) -> Action:
    """Add the option for several rank counts, and return it."""
    text = "run with these rank counts, e.g. 16,64"
    return add_parameter(parser, "ranks", type=sizes, metavar="N,M,...", help=text)


def add_check_options(parser: ArgumentParser) -> list[Action]:
    """Add the options for MPI usage checks, and return them."""
    return [
        add_parameter(parser, "check"),
        # One word for argparse, because the next one may be the program.
        parser.add_argument(
            CHOSEN,
            action="store_const",
            const=CHOSEN,
            dest="check",
            help="report only these classes, or all except -CLASS (races: also races that do not change the result)",
        ),
    ]


def simulation_arguments(args: Namespace) -> dict[str, Any]:
    """Return the arguments of `simulate` for these options and the program, without ranks and machine."""
    given = {
        name: getattr(args, name, row.default)
        for name, row in PARAMETERS.items()
        if row.option and name not in ("ranks", "machine") and (name in vars(args) or not row.only_output)
    }
    program = args.program
    return {"program": program.target, "kind": program.kind, "args": program.args, **given, "set": dict(args.set)}


@contextmanager
def options_named() -> Iterator[None]:
    """Name options in errors as on the command line: `OptionProblem` has them without dashes."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(
            *(
                each._replace(option=f"--{each.option.replace('_', '-')}") if isinstance(each, OptionProblem) else each
                for each in error.problems
            )
        ) from None


def first_line(provenance: dict[str, Any]) -> str:
    """Return the first line of a run, with everything needed to reproduce it."""
    noun = "rank" if provenance["ranks"] == 1 else "ranks"
    text = "xsim: version {version}, seed {seed}, config {config_hash}, {ranks:,} {noun} on {machine}"
    return text.format(**provenance, noun=noun)


def exit_status(ended: str, program_status: int) -> int:
    """Return the exit status; the simulator's reason for ending precedes the program's status."""
    return program_status if program_status in (NOT_WRITTEN, FOUND) else _STATUS.get(ended, program_status)


def reader(function: Callable[[Any], Any]) -> Callable[[str], Any]:
    """Wrap a function for argparse, which only reports messages of argparse errors."""

    def read(text: str) -> Any:
        try:
            return function(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return read


seed: Callable[[str], int] = reader(parameters.seed)
positive: Callable[[str], int] = reader(parameters.positive)
time_ps: Callable[[str], int] = reader(parse_time_ps)


def names(text: str) -> list[str]:
    """Return the words separated by commas."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ArgumentTypeError(f"empty name in {text!r}")
    return words


def sizes(text: str) -> list[int]:
    """Return the distinct numbers separated by commas, in ascending order."""
    return sorted({positive(number) for number in text.split(",")})


def machine_labels(machines: Sequence[str]) -> dict[str, str]:
    """Return the machines by name, for use in file names; raise ConfigError for equal names."""
    from xsim_py.config import machine_names

    labels: dict[str, str] = {}
    for machine, name in machine_names({machine: machine for machine in machines}).items():
        label = name.replace("/", "-")
        if label in labels:
            raise ConfigError(
                f"{labels[label]} and {machine} would both be named {label} in file names;"
                " give one of them another name, by `name:` in its description"
            )
        labels[label] = machine
    return labels
