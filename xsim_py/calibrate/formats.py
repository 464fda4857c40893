"""Files of measurements, whose formats are detected from their content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from xsim_py.calibrate.benchmarks import (
    MPI4PY_ROW,
    NETGAUGE_PAIR,
    read_imb,
    read_mpi4py,
    read_netgauge,
    read_netgauge_pairs,
    read_osu,
)
from xsim_py.calibrate.measured import Measured
from xsim_py.calibrate.tables import is_raw, is_table, read_csv, read_raw
from xsim_py.errors import ConfigError
from xsim_py.input_files import MIB, read_input

_MOST_BYTES: Final = 256 * MIB
_LAUNCHER: Final = re.compile(r"\[[\d,]+\]<std(?:out|err)>:? ?|\d+: (?=#|\s*\d)")  # mpiexec --tag-output, srun --label
_QUOTED: Final = re.compile(r"^\s*(?:> ?)+")  # in e-mail
_Reader = Callable[[Sequence[str], str], Iterator[Measured]]
_KNOWN = (
    "output of OSU micro-benchmarks (# OSU MPI Latency Test), of mpi4py.bench pingpong or of IMB-MPI1 "
    "(# Benchmarking PingPong), netgauge's "
    "loggp table (# size n PRTT(1,0,s)) or pattern one_one, a table with a head (op,bytes,median_s), or lines of "
    "operation,bytes,start_s,duration_s"
)


def read_measurements(path: str) -> list[Measured]:
    """Read a file of measurements in any of the known formats."""
    try:
        lines = read_input(path, most_bytes=_MOST_BYTES).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file; expected {_KNOWN}") from None
    lines = [re.sub(r"^\s+(?=#)", "", _LAUNCHER.sub("", _QUOTED.sub("", line))) for line in lines]
    reader = _reader(lines)
    if reader is None:
        raise ConfigError(f"{path}:1: unknown format; expected {_KNOWN}")
    found = list(reader(lines, path))
    if not found:
        raise ConfigError(f"{path}: no measurement below the header")
    return found


def _reader(lines: Sequence[str]) -> _Reader | None:
    marks: tuple[tuple[str, _Reader], ...] = (
        ("# OSU ", read_osu),
        ("# OMB-Py ", read_osu),
        ("# Benchmarking ", read_imb),
        ("PRTT(1,0,s)", read_netgauge),
    )
    for line in lines:
        for mark, reader in marks:
            if mark in line:
                return reader
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    for row, reader in ((NETGAUGE_PAIR, read_netgauge_pairs), (MPI4PY_ROW, read_mpi4py)):
        if any(map(row.match, lines)):
            return reader
    if any(line.startswith("# MPI ") and line.rstrip().endswith(" Test") for line in lines):
        return read_osu  # mpi4py's demo/osu_*.py
    if is_raw(first):
        return read_raw
    return read_csv if any(sign in first for sign in ",;\t") or is_table(lines) else None
