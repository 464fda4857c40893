"""Schedules: the nondeterministic choices of a run, as lists of small integers.

A rank makes its choices in its own order, independent of other ranks: its wildcard receives and probes as they begin,
and its waits for any of several requests. So a schedule has a list for each rank, and means the same for any number of
shards. A line of a file has a rank and its next choice:

    0 2     # the first choice of rank 0: the message of rank 2
    0 -1    # the second one is left to the simulator, which takes the first message to arrive

The choice of a receive or probe is the sender's rank in the communicator; of a wait for any of several requests the
index in the list; of a wait for some of them the sum of 2**index over all indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from xsim_py.input_files import MIB, read_input

_INLINE: Final = re.compile(r"\d{1,9}:-?\d{1,99}( \d{1,9}:-?\d{1,99})*")
_MOST_BYTES: Final = 16 * MIB
FREE: Final = -1
"""Represents a choice that is left to the simulator."""


class Shake(NamedTuple):
    """Random delays that make a different order of messages likely, for one run.

    A rank falls behind all others `changes` times, drawn among the approximate number of `messages`; 0: each message
    has a separate delay (a random walk). A delay lasts `span_ps`.
    """

    seed: int
    span_ps: int
    changes: int
    messages: int


class MatchSchedule(NamedTuple):
    """The prescribed nondeterministic choices of a run."""

    wanted: Mapping[int, tuple[int, ...]]
    """The choices of each rank, in its order; missing ones are free."""
    watch: bool = False
    """Whether to record the alternatives of each choice; in one shard only."""
    shake: Shake | None = None

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], *, watch: bool = False, shake: Shake | None = None) -> MatchSchedule:
        """Create a schedule from pairs of a rank and its next choice."""
        wanted: dict[int, list[int]] = {}
        for rank, choice in pairs:
            wanted.setdefault(rank, []).append(choice)
        return cls({rank: tuple(choices) for rank, choices in wanted.items()}, watch, shake)


class MadeChoice(NamedTuple):
    """A choice made by a run."""

    rank: int
    number: int
    """The index of the choice among those of the rank, from 0."""
    kind: str
    """``receive``, ``probe``, ``any`` or ``some``."""
    taken: int
    """The choice made; `FREE` if nothing ever matched."""
    place: str
    """The line of the program, ``file:line``."""
    begun_ps: int
    alternatives: tuple[int, ...] = ()
    """The alternatives, in a watched run."""
    bit: int = 0
    """Represents it in `after` of others."""
    after: int = 0
    """The bits of all choices that this one depends on."""
    candidates: int = 0
    """The number of ranks or requests to choose from, as far as known."""

    @property
    def key(self) -> tuple[int, int]:
        """Its rank and number."""
        return self.rank, self.number


def pairs_of(choices: Iterable[MadeChoice]) -> list[tuple[int, int]]:
    """Return the schedule that reproduces these choices, in the order in which they began."""
    ordered = sorted(choices, key=lambda choice: (choice.begun_ps, choice.rank, choice.number))
    return [(choice.rank, choice.taken) for choice in ordered]


def pairs_of_map(forced: Mapping[tuple[int, int], int]) -> list[tuple[int, int]]:
    """Return a schedule that forces these choices and leaves others free."""
    last: dict[int, int] = {}
    for rank, number in forced:
        last[rank] = max(number, last.get(rank, 0))
    return [(rank, forced.get((rank, number), FREE)) for rank in sorted(last) for number in range(last[rank] + 1)]


def unchanged(choices: Iterable[MadeChoice], changed: MadeChoice) -> dict[tuple[int, int], int]:
    """Return the choices that do not depend on a changed one."""
    return {
        choice.key: choice.taken
        for choice in choices
        if choice.taken != FREE and not choice.after & changed.bit and choice.key != changed.key
    }


def otherwise(choices: Iterable[MadeChoice], changed: MadeChoice, taken: int) -> MatchSchedule:
    """Return the schedule of a watched run with one choice changed.

    Choices that do not depend on it stay the same; those that do are free.
    """
    return MatchSchedule.of(pairs_of_map({**unchanged(choices, changed), changed.key: taken}), watch=True)


def impossible(schedule: MatchSchedule, ranks: int, choices: Iterable[MadeChoice]) -> list[str]:
    """Return a sentence for each rank or request in a schedule that a run did not have.

    This is checked after the run, because ranks may be spawned during it.
    """
    wrong = [
        f"choice {inline([(rank, wanted[0])])} was never made: rank {rank} is out of range (0 to {ranks - 1})"
        for rank, wanted in schedule.wanted.items()
        if rank >= ranks
    ]
    for choice in choices:
        wanted = schedule.wanted.get(choice.rank, ())[choice.number : choice.number + 1]
        if not wanted or not choice.candidates:
            continue
        most = (1 << choice.candidates) - 1 if choice.kind == "some" else choice.candidates - 1
        if not FREE <= wanted[0] <= most:
            what = "rank" if choice.kind in ("receive", "probe") else "request"
            said = f"no {what} is {wanted[0]}" if choice.kind != "some" else f"{wanted[0]} is not a sum of 2**request"
            wrong.append(
                f"choice {inline([(choice.rank, wanted[0])])} cannot be made: "
                f"at {choice.place} is a choice among {choice.candidates} {what}s, 0 to {choice.candidates - 1}: {said}"
            )
    return wrong


def read_schedule(schedule: Any) -> MatchSchedule | None:
    """Parse a schedule: pairs, a file, ``0:2 0:-1``, a `MatchSchedule`, or None.

    Raise ValueError if it is anything else, or the file is not a schedule.
    """
    if schedule is None or isinstance(schedule, MatchSchedule):
        return schedule
    if isinstance(schedule, str) and _INLINE.fullmatch(schedule):
        return MatchSchedule.of(tuple(map(int, pair.split(":"))) for pair in schedule.split())  # type: ignore[misc]
    if isinstance(schedule, str | Path):
        return MatchSchedule.of(_read_lines(Path(schedule)))
    try:
        pairs = [(int(rank), int(choice)) for rank, choice in schedule]
    except (TypeError, ValueError):
        raise ValueError(f"expected a file or a list of pairs of a rank and its choice, got {schedule!r}") from None
    return MatchSchedule.of(pairs)


def _read_lines(path: Path) -> Iterable[tuple[int, int]]:
    try:
        text = read_input(path, most_bytes=_MOST_BYTES).decode(errors="replace")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            rank, choice = map(int, words)
        except ValueError:
            raise ValueError(f"{path}:{number}: expected a rank and its choice, e.g. 0 2, got {line!r}") from None
        yield rank, choice


def inline(choices: Iterable[tuple[int, int]]) -> str:
    """Return a schedule in its command-line form."""
    return " ".join(f"{rank}:{choice}" for rank, choice in choices)


def text_of(choices: Iterable[tuple[int, int]], remarks: Mapping[int, str] | None = None) -> str:
    """Return a schedule in its file form, with remarks after some lines, by their index."""
    lines = []
    for number, (rank, choice) in enumerate(choices):
        remark = (remarks or {}).get(number, "")
        lines.append(f"{rank} {choice}{remark and '  # '}{remark}\n")
    return "".join(lines)
