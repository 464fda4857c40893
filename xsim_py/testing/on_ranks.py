"""A test on virtual ranks: for pytest, a call that returns or raises a rank's exception."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Any, cast

import pytest

from xsim_py.errors import ConfigError
from xsim_py.outcome import never_came_warnings
from xsim_py.process.python.watchers import separate_coverage_stacks
from xsim_py.run import simulate
from xsim_py.units import format_time, spans

from .body import ENDS, NO_FAILURES, Body, Raised
from .markers import RankRequest
from .outside_changes import Snapshot
from .rank_fixtures import fixture_info, uses_mpi_directly

OTHERS = pytest.StashKey[dict[str, list[tuple[str, str]]]]()
"""Exceptions of ranks that a test's report does not show, by phase: titles and tracebacks."""

WHEN = pytest.StashKey[str]()
"""The phase to which the report of the call belongs, if it is not the call."""

_LATE = pytest.StashKey[BaseException]()
"""Exceptions from the teardown of fixtures in ranks."""

UNTIL = pytest.StashKey[float]()
"""The deadline of a test by pytest-timeout, on the clock of `time.monotonic`."""

_SHARED = pytest.StashKey[set[str]]()
"""Shared objects of ranks that a warning has named."""

_IN_RANKS = "set up in each rank"
_LEAST_S = 0.01


def prepare(items: Sequence[tuple[Any, RankRequest]], options: dict[str, Any]) -> None:
    """Make these tests run on ranks; called after the collection.

    The `items` are tests with their requests. The `options` are default parameters of `simulate` for all tests.
    """
    snapshot = Snapshot({item.cls for item, _ in items if item.cls is not None})
    for item, requested in items:
        item.runtest = partial(_run_all, item, requested.numbers(item), {**options, **requested.options}, snapshot)


def defer_to_ranks(item: Any) -> None:
    """Leave the fixtures of a test that use MPI to its ranks; called before the setup."""
    for name in _inside(item):
        item.funcargs[name] = _IN_RANKS


def _inside(item: Any) -> list[str]:
    """Return the fixtures to set up in ranks: those that use MPI, directly or indirectly."""
    defs = fixture_info(item).name2fixturedefs
    found = {name for name, each in defs.items() if any(map(uses_mpi_directly, each))}
    more = True
    while more:
        dependents = {name for name, each in defs.items() if any(found.intersection(one.argnames) for one in each)}
        more = bool(dependents - found)
        found |= dependents
    return [name for name in item.fixturenames if name in found]


def _run_all(item: pytest.Function, numbers: Sequence[int], options: dict[str, Any], snapshot: Snapshot) -> None:
    for ranks in numbers:
        _run(item, ranks, options, snapshot)


def _run(item: pytest.Function, ranks: int, options: dict[str, Any], snapshot: Snapshot) -> None:
    """Run the body of a test, and raise the first exception of a rank unchanged."""
    body = Body(item, _inside(item), snapshot, int(options.get("seed", 0)))
    if UNTIL in item.stash:
        options = {"wall_limit": max(item.stash[UNTIL] - monotonic(), _LEAST_S), **options}
    separate_coverage_stacks()
    try:
        result = simulate(body, ranks=ranks, label=ranks > 1, **options)
    except ConfigError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    try:
        if result.ended == "interrupted":
            raise KeyboardInterrupt
        findings = [finding.report() for finding in getattr(result, "findings", ())]
        report = result.report if result.ended != "finished" else ""
        late = [each for each in body.raised if each.when == "teardown" and not isinstance(each.error, NO_FAILURES)]
        early = [each for each in body.raised if each.when != "teardown" or isinstance(each.error, ENDS)]
        only_late = late and all(isinstance(each.error, NO_FAILURES) for each in early)
        failure = _failure(item, early, body.passed, ranks, "" if only_late else report)
        if late and _LATE not in item.stash:
            item.stash[_LATE] = cast(Any, _failure(item, late, body.passed, ranks, report if only_late else ""))
        if failure is None and findings:
            failure = pytest.fail.Exception("\n".join(findings), pytrace=False)
        elif findings and failure is not None and not isinstance(failure, NO_FAILURES):
            _add(failure, "\n".join(findings))
        # A test of a failure that did not occur tests nothing.
        for text in (*never_came_warnings(result.never_came), *_shared_warnings(item, body.shared())):
            try:
                item.warn(pytest.PytestWarning(text))
            except pytest.PytestWarning as error:  # like all warnings, if so configured
                failure = error if failure is None else failure
        if failure is not None:
            raise failure
    finally:
        body.raised.clear()
        failure = None


def _shared_warnings(item: pytest.Item, shared: Sequence[str]) -> list[str]:
    """Return a warning about objects shared by ranks, unless the session has already issued it."""
    known = item.session.stash.setdefault(_SHARED, set())
    new = [each for each in shared if each not in known]
    known.update(new)
    text = "cannot be copied, so all ranks share one object: {}; a fixture that uses comm is set up on each rank"
    return [text.format(", ".join(new))] if new else []


def raise_late(item: pytest.Item) -> None:
    """Raise exceptions from the teardown of a test's fixtures in its ranks."""
    if _LATE in item.stash:
        error = item.stash[_LATE]
        del item.stash[_LATE]
        raise error


def _failure(item: pytest.Item, raised: list[Raised], passed: int, ranks: int, report: str) -> BaseException | None:
    """Return the exception of a test, with a note on its ranks and with the deadlock report."""
    raised.sort(key=lambda each: each[:2])
    ends = next((each.error for each in raised if isinstance(each.error, ENDS)), None)
    if ends is not None:
        return ends
    failed = [each for each in raised if not isinstance(each.error, NO_FAILURES)]
    if not failed:
        if report:
            quiet = [f"rank {each.rank}: {each.error}" for each in raised]
            return pytest.fail.Exception("\n".join([report, *quiet]), pytrace=False)
        expected = [each.error for each in raised if isinstance(each.error, pytest.xfail.Exception)]
        return next(iter(expected or [] if passed else [each.error for each in raised]), None)
    first = failed[0]
    groups: dict[str, list[int]] = {}
    for each in failed:
        groups.setdefault(_text(each.error), []).append(each.rank)
    alike = groups.pop(_text(first.error))
    when = format_time(first.clock_ps, digits=None)
    note = f"raised on {_named(alike)} of {ranks}, at {when}"
    _add(first.error, f"{note}\n{report}" if report else note)
    sections = [(f"Raised on {_named(others)}", text) for text, others in groups.items()]
    item.stash.setdefault(OTHERS, {})[first.when] = sections
    if first.when == "setup":
        item.stash[WHEN] = first.when
    return first.error


def _add(error: BaseException, text: str) -> None:
    """Add text to an exception, because pytest shows no notes of one without a traceback."""
    if isinstance(error, pytest.fail.Exception) and not error.pytrace:
        error.msg = f"{error.msg}\n{text}"
    else:
        error.add_note(text)


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {spans(sorted(ranks))}"


def _text(error: BaseException) -> str:
    """Return the traceback of an exception without addresses, which differ between ranks."""
    return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", "".join(traceback.format_exception(error)))
