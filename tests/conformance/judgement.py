"""What outcomes mean: which tests have to pass, and the table."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

KNOWN = Path(__file__).with_name("known.yaml")
COMPILED_KNOWN = KNOWN.with_name("compiled.yaml")

Outcomes = dict[str, str]
"""``passed``, ``skipped`` or ``failed``, by the name of the test (``module.Class.method``).

A module that was cut off has also `CUT`, by its name and ``.*``.
"""

CUT = "did not end"

_LINE = re.compile(r"outcome (passed|skipped|failed) (.+?)\s*$", re.MULTILINE)
_WORST = ("passed", "skipped", "failed")


class Known(NamedTuple):
    """A test that cannot pass.

    Attributes
    ----------
    test : str
        Its name, or a pattern as in a shell.
    reason : str
        Why.
    """

    test: str
    reason: str


def known_failures(path: Path = KNOWN) -> list[Known]:
    """Read the list of what cannot pass."""
    entries: list[Mapping[str, Any]] = yaml.safe_load(path.read_text()) or []
    return [Known(str(entry["test"]), str(entry["reason"])) for entry in entries]


def outcomes_of(output: str) -> Outcomes:
    """Read what all ranks said; a test is as good as at the rank where it went worst."""
    found: Outcomes = {}
    for outcome, test in _LINE.findall(output):
        found[test] = max(found.get(test, "passed"), outcome, key=_WORST.index)
    return found


def counts(outcomes: Outcomes) -> str:
    """``run/passed/skipped/failed``."""
    count = Counter(outcomes.values())
    return "/".join(map(str, (len(outcomes) - count[CUT], count["passed"], count["skipped"], count["failed"])))


def reason_for(test: str, known: Iterable[Known]) -> str | None:
    """Why a test cannot pass; None: it can."""
    return next((entry.reason for entry in known if fnmatch.fnmatchcase(test, entry.test)), None)


def broken(ours: Outcomes, real: Iterable[Outcomes], known: Iterable[Known]) -> list[str]:
    """The tests that pass under a real MPI and not under ours, without those that are known.

    Where no real MPI has been heard of a test, it is broken if it fails; and so is a module that does not end.
    """
    known, others = list(known), list(real)
    required = {test for outcomes in others for test, outcome in outcomes.items() if outcome == "passed"}
    heard = set().union(*others)
    required |= {test for test, outcome in ours.items() if outcome in ("failed", CUT) and test not in heard}
    missed = [test for test in required if ours.get(test, CUT) != "passed"]
    return sorted(test for test in missed if reason_for(test, known) is None)
