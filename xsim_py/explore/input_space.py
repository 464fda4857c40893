"""Exploration of inputs: arguments, rank counts, and the errors only some of them cause.

Each run is a checked one. An error found with some inputs but not with others is an InputHazard at its line: an MPI
usage error, an uncaught exception, or a deadlock. A program that rejects an input with a message and its own exit
status has none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from xsim_py.code_origin import of_program, shown
from xsim_py.errors import ConfigError
from xsim_py.explore.runs import Progress, Runner, RunSummary, RunTask, simulate_arguments
from xsim_py.findings import INPUT_HAZARD, Finding, by_place

LIMIT_S: Final = 60.0
"""Default wall-clock limit: a run that takes longer counts as deadlocked."""

_FINDING: Final = re.compile(r"(.+?):(\d+): (\w+): (.*)")
_FRAME: Final = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)
_ERROR: Final = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception|Exit|Interrupt|Warning|Iteration)\b.*)$", re.MULTILINE)
_WAITING: Final = re.compile(r"ranks? [\d, -]+, (.+?):(\d+) in ")


_Mistake: TypeAlias = tuple[str, int, str, str]
"""The file and line, the class in a word, and the description."""


class Input(NamedTuple):
    """One input of a program."""

    ranks: int
    values: tuple[tuple[str, str], ...]
    """The names in the command line, with their values."""
    args: tuple[str, ...]
    """The arguments with these values filled in."""

    def __str__(self) -> str:
        ranks = f"{self.ranks:,} rank{'s' * (self.ranks > 1)}"
        return ", ".join([ranks, *(f"{name}={value}" for name, value in self.values)])


class InputMistake(NamedTuple):
    """An error at one line, and the inputs that cause it.

    `what` is its class, as named by the checks, or the exception type, or ``deadlock``. `text` is the description from
    the first of the inputs; `others` do not cause it.
    """

    file: str
    line: int
    what: str
    text: str
    inputs: tuple[Input, ...]
    others: tuple[Input, ...]

    def finding(self) -> Finding:
        """Return the error as a finding: an InputHazard, or its own class if all inputs cause it."""
        if not self.others:
            return Finding(self.what, self.file, self.line, self.text, details=("with all inputs",))
        text = f"{self.what} with {self.inputs[0]} but not with {self.others[0]}"
        details = [self.text, *(f"{word} {_some(which)}" for word, which in self._both())]
        return Finding(INPUT_HAZARD, self.file, self.line, text, details=tuple(details))

    def _both(self) -> Iterator[tuple[str, Sequence[Input]]]:
        yield "with", self.inputs
        yield "not with", self.others

    @property
    def smallest(self) -> tuple[Input, ...]:
        """The inputs of the runs to repeat."""
        return self.inputs[:1]


class InputDifference(NamedTuple):
    """Results that differ between rank counts, for the first values for which they do.

    `results` are the inputs, by increasing rank count, each with its distinct matched texts.
    """

    file: str
    results: tuple[tuple[Input, tuple[str, ...]], ...]
    what: str = "difference"

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs whose results are compared."""
        return tuple(case for case, _ in self.results)

    @property
    def smallest(self) -> tuple[Input, Input]:
        """The first input, and the first one with a different result."""
        case, result = self.results[0]
        return case, next(other for other, found in self.results if found != result)

    def finding(self) -> Finding:
        """Return the difference as an InputHazard of the whole program."""
        cases: dict[tuple[str, ...], list[Input]] = {}
        for case, result in self.results:
            cases.setdefault(result, []).append(case)
        first, second = self.smallest
        details = [f"{_quoted(result)} with {_some(which)}" for result, which in cases.items()]
        return Finding(
            INPUT_HAZARD, self.file, 0, f"{second} print a different result than {first}", details=tuple(details)
        )


class Inputs(NamedTuple):
    """The runs of a program with all inputs."""

    inputs: tuple[Input, ...]
    mistakes: tuple[InputMistake, ...]
    """Sorted by file and line."""
    difference: InputDifference | None = None
    """Differing results of rank counts that must agree."""

    @property
    def found(self) -> tuple[InputMistake | InputDifference, ...]:
        """The errors and the difference."""
        return (*self.mistakes, *filter(None, [self.difference]))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return tuple(sorted((each.finding() for each in self.found), key=by_place))


def inputs(
    program: object,
    *,
    ranks: Sequence[int],
    args: Sequence[str] = (),
    values: Mapping[str, Sequence[Any]] | None = None,
    same: str | None = None,
    jobs: int | None = None,
    folder: str | None = None,
    progress: Progress | None = None,
    kind: str | None = None,
    **options: object,
) -> Inputs:
    """Run a program under the checks with each rank count and each value of its arguments.

    Parameters
    ----------
    program, kind, options
        As for `xsim_py.simulate`.
    ranks : sequence of int
        The rank counts.
    args : sequence of str
        The arguments; ``{NAME}`` in one of them is replaced by each value of that name.
    values : mapping of str to sequence, optional
        The values of each name.
    same : str, optional
        A regular expression: the text it matches in the output (its first group, if any) must be the same for all rank
        counts with the same values.
    jobs : int, optional
        Parallel runs; default: one per core. 0: one after the other, in this process.
    folder, progress
        As for `wildcards`.

    Raises
    ------
    ConfigError
        No argument contains a name, a run rejects its input, or `same` is not a regular expression, matches no line, or
        has only one rank count to compare.
    """
    pattern = _pattern(same, ranks)
    values = values or {}
    for name in values:
        if not any(f"{{{name}}}" in word for word in args):
            raise ConfigError(f"no argument of the program contains {{{name}}}")
    chosen = [tuple(zip(values, map(str, each), strict=True)) for each in product(*values.values())]
    cases = [Input(number, each, _filled(args, each)) for number in ranks for each in chosen]
    arguments = {
        "wall_limit": None,
        **simulate_arguments(program, kind, options),
        "check": options.get("check") or True,
    }
    if arguments["wall_limit"] is None and not callable(program):
        arguments["wall_limit"] = LIMIT_S
    errors_by_case: dict[int, list[_Mistake]] = {}
    results: dict[Input, tuple[str, ...]] = {}
    with Runner(program, jobs) as runner:
        for case in cases:
            runner.submit(RunTask({**arguments, "ranks": case.ranks, "args": list(case.args)}, folder=folder))
        for number, summary in runner.results():
            errors_by_case[number] = list(_mistakes(summary))
            if pattern is not None and summary.ended == "finished" and not summary.exit_status:
                results[cases[number]] = _matched(pattern, summary)
            if progress is not None:
                progress(len(errors_by_case), len(cases), sum(map(bool, errors_by_case.values())))
    mistakes = tuple(_by_line(cases, errors_by_case))
    if pattern is not None and not (mistakes or any(results.values())):
        raise ConfigError(f"same: {same!r} matches no line of the output")
    return Inputs(tuple(cases), mistakes, _difference(_named(program, kind), results))


def _pattern(same: str | None, ranks: Sequence[int]) -> re.Pattern[str] | None:
    if same is None:
        return None
    if len(set(ranks)) < 2:
        raise ConfigError("same: needs at least two rank counts to compare")
    try:
        return re.compile(same)
    except re.error as error:
        raise ConfigError(f"same: invalid regular expression {same!r}: {error}") from None


def _matched(pattern: re.Pattern[str], summary: RunSummary) -> tuple[str, ...]:
    """Return the distinct texts that a pattern matches in the output of any rank."""
    found = (match for text in summary.texts for match in pattern.finditer(text))
    return tuple(sorted({(match[1] or "") if pattern.groups else match[0] for match in found}))


def _difference(file: str, results: Mapping[Input, tuple[str, ...]]) -> InputDifference | None:
    alike: dict[tuple[tuple[str, str], ...], list[Input]] = {}
    for case in sorted(results, key=lambda case: case.ranks):
        alike.setdefault(case.values, []).append(case)
    for cases in alike.values():
        if len({results[case] for case in cases}) > 1:
            return InputDifference(file, tuple((case, results[case]) for case in cases))
    return None


def _named(program: object, kind: str | None) -> str:
    """Return the name of the program in findings."""
    if callable(program):
        return str(getattr(program, "__name__", program))
    return {"code": "-c", "module": f"-m {program}"}.get(kind or "", "") or shown(str(program), os.getcwd())


def _by_line(cases: Sequence[Input], errors_by_case: Mapping[int, Iterable[_Mistake]]) -> Iterator[InputMistake]:
    """Yield the errors by file and line, each with the inputs that cause it."""
    start = os.getcwd()
    found: dict[tuple[str, int, str], tuple[str, dict[int, None]]] = {}
    for number in sorted(errors_by_case):
        for file, line, what, text in errors_by_case[number]:
            found.setdefault((shown(file, start), line, what), (text, {}))[1][number] = None
    for key, (text, numbers) in sorted(found.items()):
        others = (case for number, case in enumerate(cases) if number not in numbers)
        yield InputMistake(*key, text, tuple(cases[number] for number in numbers), tuple(others))


def _filled(args: Sequence[str], values: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    filled = tuple(args)
    for name, value in values:
        filled = tuple(word.replace(f"{{{name}}}", value) for word in filled)
    return filled


def _mistakes(summary: RunSummary) -> Iterator[_Mistake]:
    """Yield the errors of a run."""
    for text in summary.findings:
        if match := _FINDING.fullmatch(text):
            yield match[1], int(match[2]), match[3], match[4]
    if summary.findings:
        return
    if summary.ended in ("stalled", "wall limit"):
        place = _WAITING.search(summary.report)
        yield (
            *_at(place),
            "deadlock",
            "ranks deadlock" if summary.ended == "stalled" else "the wall limit is reached",
        )
    elif summary.ended != "finished" or summary.exit_status:
        error = _ERROR.search(summary.report)
        places = [match for match in _FRAME.finditer(summary.report) if error and match.start() < error.start()]
        own = [match for match in places if of_program(match[1])]
        if error is not None and own:
            yield (*_at(own[-1]), error[1].partition(":")[0], error[1])
        elif summary.ended == "crashed":
            yield (*_at(None), "crash", summary.report)


def _at(match: re.Match[str] | None) -> tuple[str, int]:
    return ("", 0) if match is None else (match[1], int(match[2]))


def _quoted(result: Sequence[str], most: int = 4) -> str:
    more = f" and {len(result) - most:,} more" if len(result) > most else ""
    return ", ".join(map(repr, result[:most])) + more or "no such line"


def _some(cases: Sequence[Input], most: int = 4) -> str:
    more = f"; and {len(cases) - most:,} more" if len(cases) > most else ""
    return "; ".join(map(str, cases[:most])) + more
