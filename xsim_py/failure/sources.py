"""The sources of failures, read and checked: a description, the command line and traces."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from xsim_py.config import FAULTS, DrawSpec, MachineSpec
from xsim_py.config.entries import Location, Problem
from xsim_py.errors import advice
from xsim_py.failure.components import Components, Level, component_problems, levels
from xsim_py.failure.draws import draw_problem
from xsim_py.failure.fault import Fault, fault_kinds
from xsim_py.failure.schedule import CallSite
from xsim_py.failure.statements import Timed, parse_statement, unknown_call
from xsim_py.failure.trace import Event, read_trace

_MAX_SHOWN: Final = 100


class FailureSources(NamedTuple):
    """The failures of a run, by kind, and the problems of invalid ones."""

    levels: dict[str, Level]
    explicit: list[tuple[Location, Timed | CallSite]]
    events: list[tuple[Location, Event]]
    draws: list[tuple[Location, DrawSpec]]
    faults: dict[str, list[tuple[Location, Fault]]]
    problems: list[Problem]

    def add_trace(self, file: Path) -> None:
        """Add the failures in a file."""
        events = read_trace(file, levels=self.levels, problems=self.problems)
        self.events.extend((Location.in_file(file, event.line, 1), event) for event in events)

    def add_draw(self, draw: DrawSpec, place: Location, path: str) -> None:
        """Add the law of random failures."""
        problem = draw_problem(draw)
        if draw.per not in self.levels:
            problem = "per", f"unknown component {draw.per!r}; {advice(draw.per, self.levels)}"
        if problem is None:
            self.draws.append((place, draw))
        else:
            self._refuse(place, path, *problem)

    def add_fault(self, fault: Fault, place: Location, path: str) -> None:
        """Add a fault of one of the other kinds."""
        if problem := fault.problem():
            self._refuse(place, path, *problem)
        else:
            listed = next(self.faults[name] for name, kind in fault_kinds().items() if isinstance(fault, kind))
            listed.append((place, replace(fault, number=len(listed))))

    def _refuse(self, place: Location, path: str, key: str, message: str) -> None:
        self.problems.append(Problem(place, f"{path}.{key}" if path else key, message))

    def add_explicit(
        self, what: Timed | CallSite, place: Location, path: str, known_calls: Collection[str] | None
    ) -> None:
        """Add an explicit failure."""
        problem = ""
        if isinstance(what, Timed) and what.level not in self.levels:
            problem = f"unknown component {what.level!r}; {advice(what.level, self.levels)}"
        elif isinstance(what, CallSite) and known_calls is not None:
            problem = unknown_call(what.name, known_calls)
        if problem:
            self.problems.append(Problem(place, path, problem))
        else:
            self.explicit.append((place, what))


def read_failures(spec: MachineSpec, extra: Sequence[str], known_calls: Collection[str] | None) -> FailureSources:
    """Return all failures of a description and further texts, even of ranks that do not exist.

    `known_calls` are the valid names of calls, including the name for any call; None: all names are valid.
    """
    failures = spec.failures
    sources = FailureSources(levels(failures.components), [], [], [], {name: [] for name in FAULTS}, [])
    for index, message in component_problems(failures.components):
        path = f"failures.components[{index}]"
        sources.problems.append(spec.problem(path, message))
    for index, draw in enumerate(failures.draws):
        path = f"failures.draws[{index}]"
        sources.add_draw(draw, spec.place(path), path)
    for name in FAULTS:
        for index, fault in enumerate(getattr(failures, name) or ()):
            path = f"failures.{name}[{index}]"
            sources.add_fault(fault, spec.place(path), path)
    if failures.trace is not None:
        sources.add_trace(failures.trace)
    paths = [f"failures.at[{index}]" for index in range(len(failures.at))]
    texts = [(text, spec.place(path), path) for text, path in zip(failures.at, paths, strict=True)]
    texts += [(text, Location.in_option(f"--fail {text}"), "") for text in extra]
    for text, place, path in texts:
        what = parse_statement(text, place, path=path)
        if isinstance(what, list):
            sources.problems.extend(what)
        elif isinstance(what, DrawSpec):
            sources.add_draw(what, place, path)
        elif isinstance(what, Path):
            sources.add_trace(what)
        elif isinstance(what, Fault):
            sources.add_fault(what, place, path)
        else:
            sources.add_explicit(what, place, path, known_calls)
    return sources


def impossible_failures(sources: FailureSources, components: Components) -> Iterator[Problem]:
    """Yield failures that a machine cannot have: of missing or failed components, or too many."""
    for place, draw in sources.draws:
        if too_many := components.too_many(draw.per):
            yield Problem(place, "", too_many)
    for name, faults in sources.faults.items():
        yield from (Problem(place, "", text) for place, text in fault_kinds()[name].contradictions(faults))
    missing = list(islice(_missing_components(sources, components), _MAX_SHOWN))
    yield from missing or _repeated_failures(sources.explicit, components)


def _missing_components(sources: FailureSources, components: Components) -> Iterator[Problem]:
    found = [
        (place, "rank", what.rank) if isinstance(what, CallSite) else (place, what.level, what.number)
        for place, what in sources.explicit
    ]
    found += [(place, event.level, event.number) for place, event in sources.events]
    found += [(place, "rank", fault.rank) for faults in sources.faults.values() for place, fault in faults]
    for place, level, number in found:
        if not components.members(level, number):
            count = components.count(level)
            problem = "does not exist" if level == "rank" or number < 0 else "has no ranks"
            hint = f"only {level} 0 exists" if count == 1 else f"expected 0 to {count - 1}"
            yield Problem(place, "", f"{level} {number} {problem}; {hint}")


def _repeated_failures(
    explicit: Sequence[tuple[Location, Timed | CallSite]], components: Components
) -> Iterator[Problem]:
    """Yield explicit failures without a surviving rank: a rank fails once."""
    failed_by: dict[int, Timed] = {}
    named: dict[int, Timed | CallSite] = {}
    timed = [(what, place) for place, what in explicit if isinstance(what, Timed)]
    for what, place in sorted(timed, key=lambda item: item[0].time_ps):
        ranks = components.members(what.level, what.number)
        alive = [rank for rank in ranks if rank not in failed_by]
        if not alive:
            yield Problem(
                place, "", f"{what.level} {what.number} fails twice: it has failed by then, by {failed_by[ranks[0]]}"
            )
        failed_by |= dict.fromkeys(alive, what)
        if what.level == "rank":
            named[what.number] = what
    for place, site in explicit:
        if isinstance(site, CallSite):
            if site.rank in named:
                yield Problem(place, "", f"rank {site.rank} fails twice: also by {named[site.rank]}")
            named[site.rank] = site
