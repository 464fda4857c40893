"""Readers of the output of OSU and Intel micro-benchmarks, netgauge and mpi4py's benchmarks.

Layouts: OSU micro-benchmarks 5.4 to 7 (``osu_util.c``) and OMB-Py, ``demo/osu_*.py`` of mpi4py, IMB-MPI1 2018 to
2021, netgauge 2.4 (patterns ``loggp`` and ``one_one``), ``mpi4py.bench`` 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isfinite

from xsim_py.calibrate.measured import PINGPONG, STREAM, Measured, median_by_size, number_of, size_of, time_of
from xsim_py.errors import ConfigError

MANY_PAIRS = "mbwmr"
"""The operation of ``osu_mbw_mr``: several pairs of ranks send at once, each a stream of messages."""

_US = 1e-6
_MB = 1e6
_OSU_HEAD = re.compile(r"#\s*(?:(?:OSU|OMB-Py)\s+)?(?:(?:MPI|UPC|OpenSHMEM|NCCL)(?:-\w+)*\s+)?(.*?)\s*Test\b")
_OSU_COLUMN = re.compile(
    r"(?:Avg |P50 |Median )?(?:Latency|Bandwidth|Overall)[^()\[]*[(\[](us|ms|MB/s)[)\]]|(?=MB/s)(MB/s)", re.IGNORECASE
)
MPI4PY_ROW = re.compile(r"\s*(\d+) \s*\S+ \| (\S+) (?:\N{PLUS-MINUS SIGN} \S+ )?\s*\d+$")
"""A row of ``python -m mpi4py.bench pingpong``: size, bandwidth, mean one-way time in seconds, deviation, samples."""
_OSU_PAIRS = re.compile(r"#\s*\[\s*pairs:\s*(\d+)")
_IMB_NAME = re.compile(r"#\s*Benchmarking\s+(\S+)")
_IMB_LEFT_OUT = re.compile(r"int-overflow|out-of-mem")
_IMB_RANKS = re.compile(r"#\s*#processes\s*=\s*(\d+)")
_BLOCK = r"- +{} +{} +{} +{} +(?:\([^)]*\) +)?"
NETGAUGE_PAIR = re.compile(
    r"\s*(\d+) +"
    + _BLOCK.format(*[r"\S+"] * 4)
    + _BLOCK.format(r"\S+", r"\S+", r"(\S+)", r"\S+")
    + r"-|\s*(\d+) bytes\s+-> +(\S+) us\b"
)
"""A row of netgauge's pattern ``one_one``, long or short."""


def operation_named(said: str) -> str:
    """Return our name of a benchmark's operation: ``Latency``, ``PingPong``, ``MPI_Allreduce``."""
    name = re.sub(r"[^a-z]", "", said.lower().removeprefix("mpi_").removeprefix("osu_").replace("latency", ""))
    known = {"": PINGPONG, "pp": PINGPONG, "bw": STREAM, "bandwidth": STREAM, "stream": STREAM, "oneway": PINGPONG}
    known |= {"multiplebandwidthmessagerate": MANY_PAIRS, "broadcast": "bcast"}
    known |= {f"allto{all_}personalizedexchange": f"allto{all_}" for all_ in ("all", "allv", "allw")}
    return known.get(name, name)


def read_osu(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield the series of OSU micro-benchmarks; a launcher's lines around them are skipped."""
    operation, rows, unit, column, sized, pairs = "", list[tuple[int, float]](), "", 0, True, 1

    def ended() -> Iterator[Measured]:
        if rows:
            streams = operation == MANY_PAIRS and pairs == 1
            yield Measured(STREAM if streams else operation, median_by_size(rows), file)
            rows.clear()

    for number, line in enumerate(lines, 1):
        if head := _OSU_HEAD.match(line):
            yield from ended()
            operation, unit, pairs = operation_named(head[1]), "", 1
        elif found := _OSU_PAIRS.match(line):
            pairs = int(found[1])
        elif line.lstrip().startswith("#") and (found := _OSU_COLUMN.search(line)):
            yield from ended()
            columns = re.split(r"\s{2,}|\t", line.lstrip("# ").strip())
            sized = columns[0].lower().startswith("size")
            unit = found[1] or found[2]
            column = next((at for at, name in enumerate(columns) if _OSU_COLUMN.match(name)), int(sized))
        elif unit and line[:1].strip() != "#" and re.match(r"\s*[-+.\d]", line):
            row = _osu_row(line.split(), f"{file}:{number}", unit=unit, column=column, sized=sized)
            if rows and row[0] <= rows[-1][0]:  # another run, whose header is missing
                yield from ended()
            rows.append(row)
    yield from ended()


def _osu_row(cells: Sequence[str], place: str, *, unit: str, column: int, sized: bool) -> tuple[int, float]:
    if len(cells) <= column:
        raise ConfigError(f"{place}: expected at least {column + 1} columns, got {len(cells)}")
    size = size_of(cells[0], place) if sized else 0
    if unit.lower() != "mb/s":
        return size, time_of(cells[column], place, unit_s=_US if unit.lower() == "us" else 1e-3)
    return size, size / (time_of(cells[column], place) * _MB)


def read_mpi4py(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield the one-way times printed by ``python -m mpi4py.bench pingpong``."""
    found = ((number, MPI4PY_ROW.match(line)) for number, line in enumerate(lines, 1))
    rows = [(size_of(row[1], f"{file}:{number}"), time_of(row[2], f"{file}:{number}")) for number, row in found if row]
    yield Measured(PINGPONG, median_by_size(rows), file)


def read_imb(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield one series per benchmark and process count in output of the Intel MPI Benchmarks."""
    operation, ranks, columns = "", None, list[str]()
    rows: dict[tuple[str, int | None], list[tuple[int, float]]] = {}
    for number, line in enumerate(lines, 1):
        if head := _IMB_NAME.match(line):
            operation, columns, ranks = operation_named(head[1]), [], None
        elif found := _IMB_RANKS.match(line):
            ranks = int(found[1])
        elif "usec]" in line:
            columns = [name.strip("#") for name in line.split()]
        elif columns and re.match(r"\s*\d", line) and not _IMB_LEFT_OUT.search(line):
            cells, place = line.split(), f"{file}:{number}"
            if len(cells) < len(columns):
                raise ConfigError(f"{place}: expected {len(columns)} numbers ({', '.join(columns)}), got {len(cells)}")
            at = next(columns.index(name) for name in ("t_avg[usec]", "t[usec]", columns[-1]) if name in columns)
            size = size_of(cells[columns.index("bytes")], place) if "bytes" in columns else 0
            if number_of(cells[at]) != 0:  # 0.00 means a collective of 0 bytes, which does nothing
                rows.setdefault((operation, ranks), []).append((size, time_of(cells[at], place, unit_s=_US)))
        elif columns and line.strip() and not line.lstrip().startswith("#"):
            columns = []
    for (name, count), of_it in rows.items():
        yield Measured(name, median_by_size(of_it), file, ranks=count)


def read_netgauge(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield half of the round-trip times of netgauge's table.

    Its o_s and o_r are ignored: they overlap with the time on the wire, so the sum of its parameters counts some time
    twice. Rows without a round trip are skipped.
    """
    rows = []
    for number, line in enumerate(lines, 1):
        cells = line.split()
        if not re.match(r"\s*[-+.\d]", line):
            continue
        place = f"{file}:{number}"
        size = size_of(cells[0], place)
        if len(cells) < 3:
            raise ConfigError(f"{place}: expected netgauge's columns size, n and PRTT(1,0,s), got {len(cells)} columns")
        round_trip_us = number_of(cells[2])
        if round_trip_us is None:
            raise ConfigError(f"{place}: expected PRTT(1,0,s) in microseconds, got {cells[2]!r}")
        if isfinite(round_trip_us) and round_trip_us > 0:
            rows.append((size, round_trip_us * _US / 2))
    if rows:
        yield Measured(PINGPONG, median_by_size(rows), file)


def read_netgauge_pairs(lines: Sequence[str], file: str) -> Iterator[Measured]:
    """Yield half of netgauge's ``one_one`` round trips: medians, or values of its short output.

    A row is ``A - B C D E (F G) - H I J K (L M) - N O P Q`` with the size in A and the median of half the round trip in
    J, in microseconds, or ``A bytes -> H us == P Mbit/s``.
    """
    rows = []
    for number, line in enumerate(lines, 1):
        place = f"{file}:{number}"
        if found := NETGAUGE_PAIR.match(line):
            size, half = (found[1], found[2]) if found[1] else (found[3], found[4])
            rows.append((size_of(size, place), time_of(half, place, unit_s=_US)))
    if rows:
        yield Measured(PINGPONG, median_by_size(rows), file)
