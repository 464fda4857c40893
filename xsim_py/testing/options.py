"""The options of a session, checked once before it begins rather than in every test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.parameters import PARAMETERS


def refuse_bad(options: Mapping[str, Any]) -> None:
    """Raise an error if options are invalid for any number of ranks.

    The `options` are parameters of `xsim_py.simulate`. Raises a `pytest.UsageError` with one problem per line.
    """
    problems = list(_problems(options))
    if problems:
        raise pytest.UsageError(*problems)


def _problems(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        try:
            if (read := PARAMETERS[name].read) is not None:
                read(value)
        except ValueError as error:
            yield f"--xsim-{name}: {error}"
    if options.get("check") and options.get("shards", "1") != "1":
        yield "--xsim-check: cannot be combined with --xsim-shards; drop one"
    if options.keys() & {"machine", "fail"}:
        yield from _problems_of_the_machine(options.get("machine", "gige"), options.get("fail", ()))


def _problems_of_the_machine(machine: str, failures: Sequence[str]) -> Iterator[str]:
    try:
        spec = load_machine(machine)
    except ConfigError as error:
        for each in map(str, error.problems):
            text, _, presets = each.partition("\n")  # which it has listed, unless one of them is similar
            yield f"--xsim-machine: {text}" + (f"; {presets.rpartition('; ')[2]}" if presets else "")
        return
    if not failures:
        return
    from xsim_py.failure.sources import read_failures  # not above: slow to import, and few sessions need it
    from xsim_py.mpi4py.door import known_calls

    for problem in read_failures(spec, failures, known_calls()).problems:
        text = str(problem)
        yield f"--xsim-fail{text.removeprefix('--fail')}" if text.startswith("--fail ") else f"--xsim-fail: {text}"
