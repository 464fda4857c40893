"""Compute intervals: what a rank computes between two calls of the simulator, identified by the lines at both ends.

A run can record their durations (`StretchRecorder`), and `write` saves these to a file. Another run can take the
durations from the file (`StretchTimes`) and is then the same on every computer, under any load. Ranks for which an
interval takes about the same time form a class: one value applies to all of them, the median over all their
repetitions.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Final

from xsim_py.atomic_files import atomic_file
from xsim_py.config import value_kinds as kinds
from xsim_py.config.described import Contradiction, Described, read_description
from xsim_py.config.document import read_yaml_file
from xsim_py.config.value_kinds import ListOf, Reading, Scalar, Section, integer, option

_MOST = 2**31 - 1
_MOST_REPETITIONS: Final = 4096  # per rank and interval; the median of more would be the same
_ALIKE: Final = 1.25
_ALIKE_NS: Final = 5_000  # as long as reading the clock takes, or a cold cache

Stretch = tuple[str, str]
"""The lines at both ends, each ``file:line``, or ``start`` and ``end`` of a thread of a rank."""
Recorded = dict[tuple[int, str, str], "array[int]"]
"""The nanoseconds of each repetition, by rank and both ends."""


@dataclass
class Computed:
    """A process's records of its ranks' computation."""

    recorded: Recorded
    """The durations of each compute interval, if recorded."""
    unknown: set[Stretch]
    """The intervals that were computed but are missing in the file."""
    complaints: set[str]
    """Other warnings for the user."""


class StretchRecorder:
    """A recorder of the durations of compute intervals."""

    def __init__(self) -> None:
        self.recorded: Recorded = {}

    def note(self, rank: int, stretch: Stretch, took_ns: int) -> None:
        """Record a compute interval of a rank."""
        times_ns = self.recorded.setdefault((rank, *stretch), array("q"))
        if len(times_ns) < _MOST_REPETITIONS:
            times_ns.append(took_ns)


def _numbers(value: object) -> tuple[range, ...]:
    """Return the ranges of ranks in a text such as ``0 2-5``."""
    try:
        ends = [[int(end) for end in part.split("-")] for part in str(value).split()]
        found = tuple(range(each[0], each[-1] + 1) for each in ends)
    except ValueError:
        found = ()
    if not found or not all(found) or any(len(each) > 2 for each in ends):
        raise ValueError(f"expected ranks such as 0 2-5, got {value!r}")
    return found


_RANKS: Final = Scalar(_numbers, {"type": ["string", "integer"]}, "ranks such as 0 2-5")


@dataclass(frozen=True, kw_only=True)
class StretchSpec:
    """One entry of ``stretches``: the duration of an interval on some ranks."""

    begin: str = option(kinds.TEXT, "The line at which it begins, file:line.", default="", required=True, key="from")
    end: str = option(kinds.TEXT, "The line at which it ends.", default="", required=True, key="to")
    ranks: tuple[range, ...] = option(_RANKS, "The ranks of which this is true.", default=(), required=True)
    repetitions: int = option(integer(1, 2**63 - 1), "How many were measured.", default=1, shown="1")
    time_ps: int = option(kinds.TIME, "The median of what they took.", default=0, required=True)


@dataclass(frozen=True, kw_only=True)
class TimesSpec(Described):
    """A file of measured computing times."""

    name: str = option(kinds.LINE, "A short name.", default="", shown="the file's name")
    program: str = option(kinds.TEXT, "The program that was measured.", default="")
    ranks: int = option(integer(1, _MOST), "How many ranks it had.", default=1, required=True)
    stretches: tuple[StretchSpec, ...] = option(
        ListOf(Section(StretchSpec), "a list of {from: prog.py:3, to: prog.py:5, ranks: 0-3, time: 2us}", least=0),
        "What was measured.",
        default=(),
        required=True,
    )


class StretchTimes:
    """The computing times of a file, charged to ranks; intervals missing in the file are recorded.

    If the run has a different number of ranks than the measured one, ranks are mapped by position: as many as both
    have, counted from the first and from the last, and the middle rank for the rest.

    Raises a `ConfigError` with the locations of the errors in the file.
    """

    def __init__(self, path: Path, ranks: int) -> None:
        reading = Reading()
        root = read_yaml_file(path, what="file of computing times", problems=reading.problems)
        spec = read_description(TimesSpec, "file of computing times", root, reading, _contradictions, name=path.stem)
        self._ranks = ranks
        self._recorded_ranks = spec.ranks
        self._figures: dict[Stretch, list[StretchSpec]] = {}
        for each in spec.stretches:
            self._figures.setdefault((each.begin, each.end), []).append(each)
        self._found: dict[tuple[int, Stretch], int | None] = {}
        self.unknown: set[Stretch] = set()
        self.complaints: set[str] = set()
        if ranks != spec.ranks:
            said = f"{path.name} was recorded with {spec.ranks:,} ranks, but this run has {ranks:,}"
            self.complaints.add(f"{said}: each is charged as the recorded one at its place")

    def of(self, rank: int, stretch: Stretch) -> int:
        """Return the time charged to a rank for an interval, in picoseconds; 0 if the file does not have it."""
        rank = self._place(rank)
        key = rank, stretch
        if key not in self._found:
            self._found[key] = self._look(rank, stretch)
        found = self._found[key]
        if found is None:
            self.unknown.add(stretch)
        return found or 0

    def _place(self, rank: int) -> int:
        ranks, recorded = self._ranks, self._recorded_ranks
        if ranks == recorded or rank >= ranks:  # spawned ranks are not mapped
            return rank
        both = min(ranks, recorded)
        half = (both + 1) // 2
        if rank < half:
            return rank
        from_end = ranks - 1 - rank
        return recorded - 1 - from_end if from_end < both - half else recorded // 2

    def _look(self, rank: int, stretch: Stretch) -> int | None:
        """Return the value of the nearest rank that has computed the interval: usually one of its class."""
        figures = self._figures.get(stretch)
        if figures is None:
            return None
        return min((_distance(each.ranks, rank), index, each.time_ps) for index, each in enumerate(figures))[2]


def _distance(ranks: Iterable[range], rank: int) -> int:
    return min(max(each.start - rank, rank - each.stop + 1, 0) for each in ranks)


def _contradictions(spec: TimesSpec) -> Iterator[Contradiction]:
    seen: set[tuple[Stretch, range]] = set()
    for index, each in enumerate(spec.stretches):
        here = {((each.begin, each.end), ranks) for ranks in each.ranks}
        if here & seen:
            path = f"stretches[{index}]"
            yield path, "duplicate compute interval of these ranks", (path,)
        seen |= here


def classes(recorded: Mapping[int, array[int]]) -> Iterator[tuple[list[int], array[int]]]:
    """Yield the ranks for which an interval takes about the same time, and all their repetitions in nanoseconds.

    Starting from the shortest median, a class includes ranks that take at most a quarter longer, or 5 us.
    """
    medians = sorted((median_low(times_ns), rank) for rank, times_ns in recorded.items())
    least = 0
    ranks: list[int] = []
    for middle, rank in medians:
        if ranks and middle > max(least * _ALIKE, least + _ALIKE_NS):
            yield _class(ranks, recorded)
            ranks = []
        if not ranks:
            least = middle
        ranks.append(rank)
    if ranks:
        yield _class(ranks, recorded)


def _class(ranks: list[int], recorded: Mapping[int, array[int]]) -> tuple[list[int], array[int]]:
    together = array("q")
    for rank in ranks:
        together.extend(recorded[rank])
    return sorted(ranks), together


def write(path: Path, recorded: Recorded, *, ranks: int, program: str, version: str) -> None:
    """Write the recorded times of a run to a file, as YAML."""
    by_stretch: dict[Stretch, dict[int, array[int]]] = {}
    for (rank, begin, end), times_ns in sorted(recorded.items()):
        by_stretch.setdefault((begin, end), {})[rank] = times_ns
    with atomic_file(path) as file:
        print(f"# Compute times between calls, measured by xsim_py {version} on the host.", file=file)
        print(f"program: {json.dumps(program)}\nranks: {ranks}\nstretches:{'' if by_stretch else ' []'}", file=file)
        for (begin, end), of_ranks in by_stretch.items():
            for members, times_ns in classes(of_ranks):
                ends = f"from: {json.dumps(begin)}, to: {json.dumps(end)}, ranks: {json.dumps(_shown(members))}"
                figures = f"repetitions: {len(times_ns)}, time: {median_low(times_ns)}ns"
                print(f"- {{{ends}, {figures}}}", file=file)


def _shown(ranks: list[int]) -> str:
    """Return ascending ranks as text, such as ``0 2-5``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
