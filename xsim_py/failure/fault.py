"""The kinds of faults besides failures of processes, such as bit flips and hangs.

A kind is a subclass of `Fault`, listed as a field of `config.FailuresSpec`, and a `FaultCarrier`, which simulates it in
the transport of messages. Everything else follows from these two: the keys of an entry in section ``failures``, the
statement of ``--fail``, the checks, the table of the result, and what the run prints.

The failure of a process is not such a kind. One statement kills all ranks of a component, and draws and traces have no
list of single faults; the launcher, the restart of the job and fault tolerance depend on it; and vectorised collectives
must know its time in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xsim_py.config import FAULTS
from xsim_py.config.entries import Location
from xsim_py.config.value_kinds import TIME, integer, option, options
from xsim_py.units import format_time


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of one rank, from the time that its clock reaches on: an entry of ``failures``, or a statement."""

    word: ClassVar[str]
    """The beginning of a statement, before the colon."""
    first: ClassVar[str] = ""
    """The key whose value stands first in a statement, without the key; empty: all values have their keys."""
    example: ClassVar[str]
    """A key and value for the message about an invalid statement."""
    carrier: ClassVar[str]
    """The `FaultCarrier`, as ``module:Class``."""
    columns: ClassVar[str] = ""
    """Further columns of the table of the faults that have occurred, as in `report.table.COLUMNS`."""
    not_with_ftco: ClassVar[str] = ""
    """The reason why a run with collectives by FTCO cannot have such faults, if any."""

    rank: int = option(integer(0, 2**31 - 1), "Rank of the process.", default=0, required=True)
    at_ps: int = option(TIME, "Virtual time of the start, by that rank's own clock.", default=0, required=True)
    number: int = 0
    """Its index among all faults of its kind as written, which may name a stream of random draws."""

    def __str__(self) -> str:
        """Return it in the form of a statement."""
        values = {key.key: _written(key.name, getattr(self, key.name)) for key in options(type(self))}
        first = [values.pop(self.first)] if self.first else []
        return f"{self.word}:{','.join([*first, *(f'{key}={value}' for key, value in values.items() if value)])}"

    def problem(self) -> tuple[str, str] | None:
        """Return a key that contradicts the others and the problem, or None."""
        return None

    @staticmethod
    def contradictions(faults: Iterable[tuple[Location, Any]]) -> Iterator[tuple[Location, str]]:
        """Yield the faults of this kind in a run that cannot occur because of others, and the problems."""
        yield from ()

    @staticmethod
    def line(row: Mapping[str, Any]) -> str:
        """Return what a run prints about a row of the table, with times in picoseconds; empty: nothing."""
        raise NotImplementedError


def fault_kinds() -> dict[str, type[Fault]]:
    """Return the kinds of faults, by the name of their list in section ``failures`` and of their table."""
    return {name: entry.cls for name, entry in FAULTS.items()}


def _written(name: str, value: Any) -> str:
    if value is None:
        return ""
    return format_time(value, digits=None).replace(" ", "") if name.endswith("_ps") else str(value)
