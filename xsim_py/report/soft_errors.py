"""Soft errors and temporary hangs of a run, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.units import format_time

if TYPE_CHECKING:
    from xsim_py.report.result import Result


def hangs(result: Result) -> list[str]:
    """Return a line per process that has hung and resumed; killed ones are failures."""
    if "hangs" not in result.tables:
        return []
    table = result.tables["hangs"]
    columns = (table["rank"], table["killed"], table.picoseconds["time_s"], table.picoseconds["until_s"])
    return [
        f"rank {rank} hung from {format_time(time_ps, digits=None)} to {format_time(until_ps, digits=None)}"
        for rank, killed, time_ps, until_ps in zip(*columns, strict=True)
        if not killed
    ]


def soft_errors(result: Result) -> list[str]:
    """Return a line for each flipped bit in a message or an array: rank, bit, target and time."""
    if "flips" not in result.tables:
        return []
    table = result.tables["flips"]
    columns = (*(table[name] for name in ("rank", "bit", "size", "dest", "array")), table.picoseconds["time_s"])
    return [
        f"rank {rank}: bit {bit} of {f'array {array}' if dest is None else f'a message to rank {dest}'}, {size:,} B,"
        f" flipped at {format_time(time_ps, digits=None)}"
        for rank, bit, size, dest, array, time_ps in zip(*columns, strict=True)
    ]
