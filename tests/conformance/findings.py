"""What the checks find in mpi4py's own tests: what `findings.yaml` says with its reason, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import yaml

from xsim_py.findings import CATEGORIES

EXPECTED = Path(__file__).with_name("findings.yaml")
SIZES = (2, 3, 4)

_FINDING = re.compile(rf"^(?:test/)?(\S+)\.py:(\d+): ({'|'.join(CATEGORIES)}): (.*)$", re.MULTILINE)


class Place(NamedTuple):
    """A line of the suite, and the class of what is found there."""

    module: str
    line: int
    category: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.category}"


def findings_of(said: str) -> dict[Place, str]:
    """Read what the report of a checked run says of each line."""
    return {Place(module, int(line), category): text for module, line, category, text in _FINDING.findall(said)}


def expected(path: Path = EXPECTED) -> dict[Place, str]:
    """Read what is to be found, each with its reason."""
    places = {}
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        for module, lines in entry["lines"].items():
            for line in map(int, str(lines).split()):
                place = Place(module, line, entry["class"])
                assert place not in places, f"{place} stands twice in {path}"
                places[place] = entry["why"]
    return places


def alarms(found: dict[Place, str], known: Iterable[Place]) -> list[str]:
    """Return the findings that nobody has said to be right."""
    return [f"{place}: {found[place]}" for place in sorted(found.keys() - set(known))]


def never_found(modules: Collection[str], runs: Iterable[Collection[Place]]) -> list[Place]:
    """Return what was to be found in some modules, and none of the runs has found."""
    found = {place for run in runs for place in run}
    return sorted(place for place in expected() if place.module in modules and place not in found)
