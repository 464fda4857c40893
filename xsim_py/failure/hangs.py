"""Transient failures: processes that hang for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xsim_py.config.entries import Location
from xsim_py.config.value_kinds import TIME, option
from xsim_py.failure.fault import Fault
from xsim_py.units import format_time


@dataclass(frozen=True, kw_only=True)
class Hang(Fault):
    """One entry of ``failures.hangs``: a process that hangs for some time (a transient failure)."""

    word = "hang"
    example = "for=2ms"
    carrier = "xsim_py.mpi.transport.hanging:Hangs"
    columns = "until_s:ps killed"
    not_with_ftco = "FTCO's timeouts are not simulated for hanging processes; drop the hang or these collectives"

    for_ps: int = option(
        TIME,
        "Duration. If it exceeds the timeout of the failure detector, the process is declared failed, and killed "
        "when it resumes.",
        default=0,
        required=True,
    )

    def problem(self) -> tuple[str, str] | None:
        """Return the problem of a hang without a duration."""
        return None if self.for_ps else ("for", "0 is out of range: a hang needs a duration, e.g. 2ms")

    @staticmethod
    def contradictions(faults: Iterable[tuple[Location, Hang]]) -> Iterator[tuple[Location, str]]:
        """Yield hangs of processes that already hang."""
        until_ps: dict[int, int] = {}
        for place, hang in sorted(faults, key=lambda item: item[1].at_ps):
            if until_ps.get(hang.rank, -1) >= hang.at_ps:
                yield place, f"rank {hang.rank} hangs already until {format_time(until_ps[hang.rank])}"
            until_ps[hang.rank] = hang.at_ps + hang.for_ps

    @staticmethod
    def line(row: Mapping[str, Any]) -> str:
        """Return the times of a hang; a killed process has failed."""
        begin, end = (format_time(row[name], digits=None) for name in ("time_s", "until_s"))
        return "" if row["killed"] else f"rank {row['rank']} hung from {begin} to {end}"
