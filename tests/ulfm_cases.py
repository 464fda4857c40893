"""Programs in which processes die, what the real Open MPI with ULFM made of them, and what the rules allow.

A program of tests/ulfm_programs prints lines `rank key value`, and says in comments at its top how it is judged:

    # number of ranks: N
    # arguments of a run: A B; A C; ...      a case each (may stand more than once)
    # free: RANKS KEY VALUE VALUE -- why     values that the rules allow, be they seen or not
    # quirk: RANKS KEY SEEN is VALUE -- why  what the real one shows where the rules ask for something else
    # rule: RANKS KEY VALUE -- why           what the rules ask for where the real one shows nothing of use
    # only here: why                         the real one cannot run it: every line has a rule
    # by heartbeat only: why                 a detector that says nothing unless somebody waits is not enough

RANKS is a list such as 0,2 or *; KEY may hold * as in file names. A record in tests/ulfm_programs/expected holds each
value that the real one gave in several runs. What is expected of a simulation is the record, mended by quirks and
rules, and widened by what is free; the real one may show its quirks besides.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).parent / "ulfm_programs"
EXPECTED = PROGRAMS / "expected"
BETWEEN = " | "
WORDS = {
    "number of ranks",
    "arguments of a run",
    "free",
    "quirk",
    "rule",
    "only here",
    "by heartbeat only",
}

# The real one knows of a killed process after some 30 ms: not yet when a program has slept for 10 ms, surely when one
# of its phases is over.
HEARTBEAT = {"mpi.detector.type": "heartbeat", "mpi.detector.period": "10ms", "mpi.detector.timeout": "30ms"}
TIMEOUT = {"mpi.detector.type": "timeout", "mpi.detector.timeout": "30ms", "mpi.poll_time": "1us"}  # some poll so long


def recovery(agree: str, shrink: str, revoke: str) -> dict[str, str]:
    return {"mpi.ulfm.agree": agree, "mpi.ulfm.shrink": shrink, "mpi.ulfm.revoke": revoke}


VARIANTS = {
    "as_open_mpi": HEARTBEAT | recovery("early_returning", "agreement", "reliable_broadcast"),
    "two_phase": HEARTBEAT | recovery("two_phase", "two_phase", "direct"),
    "liveness": HEARTBEAT | recovery("liveness", "liveness", "reliable_broadcast"),
    "as_xsim": TIMEOUT | recovery("two_phase", "two_phase", "local"),
}

Place = tuple[int, str]
Values = dict[Place, set[str]]


class Remark(NamedTuple):
    """One line at the top of a program: `free`, `quirk` or `rule`, for the lines that it concerns."""

    ranks: frozenset[int] | None
    key: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Remark":
        head, _, why = text.partition(" -- ")
        assert why, f"{text}: a reason is missing"
        ranks, key, rest = head.split(" ", 2)
        values = tuple(rest.split(" is ")) if " is " in rest else tuple(re.findall(r"\[.*?\]|\S+", rest))
        return cls(None if ranks == "*" else frozenset(map(int, ranks.split(","))), key, values)

    def concerns(self, place: Place) -> bool:
        rank, key = place
        return (self.ranks is None or rank in self.ranks) and fnmatchcase(key, self.key)


class UlfmCase(NamedTuple):
    """One run of a program in which processes die."""

    path: Path
    ranks: int
    args: tuple[str, ...]
    free: tuple[Remark, ...]
    quirks: tuple[Remark, ...]
    rules: tuple[Remark, ...]
    only_here: bool
    by_heartbeat_only: bool

    def __str__(self) -> str:
        return ".".join([self.path.stem, *self.args])

    @property
    def record(self) -> Path:
        """Where the real MPI's values are kept."""
        return EXPECTED / f"{self}.txt"

    def recorded(self) -> Values:
        """Read what the real MPI printed."""
        if self.only_here:
            return {}
        lines = (line.split(" ", 2) for line in self.record.read_text(encoding="utf-8").splitlines())
        return {(int(rank), key): set(values.split(BETWEEN)) for rank, key, values in lines}

    def expected(self) -> Values:
        """What the rules allow, for every line that a run has to print."""
        expected = {place: self._lawful(place, seen) for place, seen in self.recorded().items()}
        for remark in self.rules:
            for place in self._places(remark, expected):
                expected[place] = {" ".join(remark.values)}
        return expected

    def _lawful(self, place: Place, seen: set[str]) -> set[str]:
        mended = {remark.values[0]: remark.values[1] for remark in self.quirks if remark.concerns(place)}
        free = {value for remark in self.free if remark.concerns(place) for value in remark.values}
        return {mended.get(value, value) for value in seen} | free

    def _places(self, remark: Remark, there: Iterable[Place]) -> list[Place]:
        if remark.ranks is None or "*" in remark.key:
            return [place for place in there if remark.concerns(place)]
        return [(rank, remark.key) for rank in sorted(remark.ranks)]

    def differences(self, values: Values) -> list[str]:
        """What a simulation printed that the rules do not allow, and what it left out."""
        return list(_differences(self.expected(), values))

    def surprises(self, values: Values) -> list[str]:
        """What a real MPI printed that is neither allowed nor recorded; no rule is needed where it has no use."""
        allowed = self.expected()
        for place, seen in self.recorded().items():
            allowed[place] = allowed.get(place, set()) | seen
        ruled = {place for place in allowed for remark in self.rules if remark.concerns(place)}
        for place in ruled:
            allowed.pop(place)
        return list(_differences(allowed, {place: seen for place, seen in values.items() if place not in ruled}))


def _differences(allowed: Values, values: Values) -> Iterator[str]:
    for place in sorted(allowed.keys() | values.keys()):
        rank, key = place
        want, seen = allowed.get(place, set()), values.get(place, set())
        if not want or not seen or not seen <= want:
            yield f"rank {rank}: {key}: {_shown(seen)}, allowed: {_shown(want)}"


def _shown(values: set[str]) -> str:
    return BETWEEN.join(sorted(values)) or "no line"


def values_in(lines: Iterable[str]) -> Values:
    """Collect what was printed; a key that was printed twice has both values."""
    values: defaultdict[Place, set[str]] = defaultdict(set)
    for line in lines:
        rank, key, value = line.split(" ", 2)
        values[int(rank), key].add(value)
    return dict(values)


def as_text(values: Values) -> str:
    """The text of a record: key by key, so that the ranks' values stand below each other."""
    places = sorted(values, key=lambda place: (place[1], place[0]))
    return "".join(f"{rank} {key} {_shown(values[rank, key])}\n" for rank, key in places)


def all_cases() -> list[UlfmCase]:
    """Return every run of every program."""
    return [case for path in sorted(PROGRAMS.glob("*.py")) for case in _cases(path)]


def _cases(path: Path) -> Iterator[UlfmCase]:
    notes: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        word, _, text = line.removeprefix("# ").partition(": ")
        notes[word].append(text)
    if "number of ranks" not in notes:  # programs import it
        return
    unknown = notes.keys() - WORDS
    assert not unknown, f"{path.name}: what is {unknown}?"
    free, quirks, rules = (tuple(map(Remark.of, notes[word])) for word in ("free", "quirk", "rule"))
    for run in [run for line in notes["arguments of a run"] for run in line.split(";")] or [""]:
        args = tuple(run.split())
        (ranks,) = map(int, notes["number of ranks"])
        flags = ("only here" in notes, "by heartbeat only" in notes)
        yield UlfmCase(path, ranks, args, free, quirks, rules, *flags)


def runs() -> list[tuple[UlfmCase, str]]:
    """Return every case with every variant in which it can run."""
    return [
        (case, variant)
        for case in all_cases()
        for variant in VARIANTS
        if not (case.by_heartbeat_only and variant == "as_xsim")
    ]
