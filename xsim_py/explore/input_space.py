"""Runs with other inputs: other arguments, other numbers of ranks, and what is wrong with some of them only.

Each run is a checked one. What is found with some inputs and not with others is an InputHazard at the line where it
is found: a mistake of the checks, an exception that nobody has caught, ranks that wait for ever. A program that says
what it does not take, and leaves with a status of its own, has none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from xsim_py.code_origin import of_program, shown
from xsim_py.errors import ConfigError
from xsim_py.explore.runs import Progress, Runner, RunTask, Seen, told
from xsim_py.findings import INPUT_HAZARD, Finding, by_place

LIMIT_S: Final = 60.0
"""A run that takes longer than that waits for ever, where nothing else is said."""

_FINDING: Final = re.compile(r"(.+?):(\d+): (\w+): (.*)")
_FRAME: Final = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)
_ERROR: Final = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception|Exit|Interrupt|Warning|Iteration)\b.*)$", re.MULTILINE)
_WAITING: Final = re.compile(r"ranks? [\d, -]+, (.+?):(\d+) in ")


_Mistake: TypeAlias = tuple[str, int, str, str]
"""The file and the line, what it is in a word, and in a sentence."""


class Input(NamedTuple):
    """One input of a program."""

    ranks: int
    values: tuple[tuple[str, str], ...]
    """The names in the command line, and the texts that stand for them."""
    args: tuple[str, ...]
    """The arguments with these values."""

    def __str__(self) -> str:
        ranks = f"{self.ranks:,} rank{'s' * (self.ranks > 1)}"
        return ", ".join([ranks, *(f"{name}={value}" for name, value in self.values)])


class InputMistake(NamedTuple):
    """A mistake at one line, and the inputs that lead to it.

    Attributes
    ----------
    what : str
        Its class, as the checks name it; or the type of the exception, or ``deadlock``.
    text : str
        What is said of it with the first of the inputs.
    inputs, others : tuple of Input
        The inputs with which it is found, and all others.
    """

    file: str
    line: int
    what: str
    text: str
    inputs: tuple[Input, ...]
    others: tuple[Input, ...]

    def finding(self) -> Finding:
        """Return it as a finding: an InputHazard, or of its own class where all inputs lead to it."""
        if not self.others:
            return Finding(self.what, self.file, self.line, self.text, details=("with all inputs",))
        text = f"{self.what} with {self.inputs[0]}, and not with {self.others[0]}"
        details = [self.text, *(f"{word} {_some(which)}" for word, which in self._both())]
        return Finding(INPUT_HAZARD, self.file, self.line, text, details=tuple(details))

    def _both(self) -> Iterator[tuple[str, Sequence[Input]]]:
        yield "with", self.inputs
        yield "not with", self.others


class Inputs(NamedTuple):
    """The runs of a program with all inputs."""

    inputs: tuple[Input, ...]
    mistakes: tuple[InputMistake, ...]
    """By file and line."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The mistakes as findings."""
        return tuple(sorted((each.finding() for each in self.mistakes), key=by_place))


def inputs(
    program: Any,
    *,
    ranks: Sequence[int],
    args: Sequence[str] = (),
    values: Mapping[str, Sequence[Any]] | None = None,
    jobs: int | None = None,
    folder: str | None = None,
    progress: Progress | None = None,
    kind: str | None = None,
    **options: Any,
) -> Inputs:
    """Run a program, checked, with each number of ranks and each value of its arguments, and compare.

    Parameters
    ----------
    program, kind, options
        As for `xsim_py.simulate`.
    ranks : sequence of int
        The numbers of ranks.
    args : sequence of str
        The arguments; ``{NAME}`` in one of them stands for each value of that name.
    values : mapping of str to sequence, optional
        The values of each name.
    jobs : int, optional
        How many runs at once; default: as many as there are cores. 0: one after the other, in this process.
    folder, progress
        As for `wildcards`.

    Raises
    ------
    ConfigError
        A name stands in no argument, or a run refuses its input.
    """
    values = values or {}
    for name in values:
        if not any(f"{{{name}}}" in word for word in args):
            raise ConfigError(f"no argument of the program has {{{name}}} in it")
    chosen = [tuple(zip(values, map(str, each), strict=True)) for each in product(*values.values())]
    cases = [Input(number, each, _filled(args, each)) for number in ranks for each in chosen]
    arguments = {"wall_limit": None, **told(program, kind, options), "check": options.get("check") or True}
    if arguments["wall_limit"] is None and not callable(program):
        arguments["wall_limit"] = LIMIT_S
    came: dict[int, list[_Mistake]] = {}
    with Runner(program, jobs) as runner:
        for case in cases:
            runner.submit(RunTask({**arguments, "ranks": case.ranks, "args": list(case.args)}, folder=folder))
        for number, seen in runner.results():
            came[number] = list(_mistakes(seen))
            if progress is not None:
                progress(len(came), len(cases), sum(map(bool, came.values())))
    return Inputs(tuple(cases), tuple(_sorted_out(cases, came)))


def _sorted_out(cases: Sequence[Input], came: Mapping[int, Iterable[_Mistake]]) -> Iterator[InputMistake]:
    """Yield the mistakes by file and line, each with the inputs that lead to it."""
    start = os.getcwd()
    found: dict[tuple[str, int, str], tuple[str, dict[int, None]]] = {}
    for number in sorted(came):
        for file, line, what, text in came[number]:
            found.setdefault((shown(file, start), line, what), (text, {}))[1][number] = None
    for key, (text, numbers) in sorted(found.items()):
        others = (case for number, case in enumerate(cases) if number not in numbers)
        yield InputMistake(*key, text, tuple(cases[number] for number in numbers), tuple(others))


def _filled(args: Sequence[str], values: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    filled = tuple(args)
    for name, value in values:
        filled = tuple(word.replace(f"{{{name}}}", value) for word in filled)
    return filled


def _mistakes(seen: Seen) -> Iterator[_Mistake]:
    """Yield what is wrong with a run."""
    for text in seen.findings:
        if match := _FINDING.fullmatch(text):
            yield match[1], int(match[2]), match[3], match[4]
    if seen.findings:
        return
    if seen.ended in ("stalled", "wall limit"):
        place = _WAITING.search(seen.said)
        yield (
            *_at(place),
            "deadlock",
            "ranks wait for ever" if seen.ended == "stalled" else "the wall limit is reached",
        )
    elif seen.ended != "finished" or seen.exit_status:
        error = _ERROR.search(seen.said)
        places = [match for match in _FRAME.finditer(seen.said) if error and match.start() < error.start()]
        own = [match for match in places if of_program(match[1])]
        if error is not None and own:
            yield (*_at(own[-1]), error[1].partition(":")[0], error[1])
        elif seen.ended == "crashed":
            yield (*_at(None), "crash", seen.said)


def _at(match: re.Match[str] | None) -> tuple[str, int]:
    return ("", 0) if match is None else (match[1], int(match[2]))


def _some(cases: Sequence[Input], most: int = 4) -> str:
    more = f"; and {len(cases) - most:,} more" if len(cases) > most else ""
    return "; ".join(map(str, cases[:most])) + more
