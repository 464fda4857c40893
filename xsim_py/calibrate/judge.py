"""Validation of a machine: simulated benchmarks against real ones that it was not fitted to."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xsim_py.calibrate.benchmarks import read_osu
from xsim_py.calibrate.measured import PINGPONG, SAME_NODE, STREAM, Measured
from xsim_py.config import load_machine
from xsim_py.config.loader import bundled_apps
from xsim_py.errors import ConfigError
from xsim_py.run import simulate

PROGRAM: Final = "network_benchmarks.py"
_BENCHMARKS: Final = {PINGPONG: "latency", STREAM: "bw"}
_KNOWN: Final = (
    *("latency", "bw", "barrier"),
    *("allreduce", "reduce", "bcast", "allgather", "gather", "scatter", "alltoall"),
)
_AS_MANY_AS_RANKS: Final = ("allgather", "alltoall")
_MOST_BUFFER_BYTES: Final = 2**31  # total of all ranks


@dataclass(frozen=True)
class Judged:
    """One size of a benchmark: measured time and prediction, in seconds."""

    benchmark: str
    ranks: int
    size_bytes: int
    measured_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        """The relative error of the prediction."""
        return self.predicted_s / self.measured_s - 1


def reproducible(series: Sequence[Measured]) -> tuple[list[Measured], list[str]]:
    """Separate the series that our benchmarks can reproduce from the others.

    Return the series that can be validated, and the other operations by file: ``a.csv: isend, recv``. Raise ConfigError
    if no series can be validated.
    """
    rest: dict[str, list[str]] = {}
    known = []
    for each in series:
        if _BENCHMARKS.get(each.operation, each.operation) in _KNOWN:
            known.append(each)
        else:
            rest.setdefault(each.file, []).append(each.operation)
    lines = [f"{file}: {', '.join(dict.fromkeys(operations))}" for file, operations in rest.items()]
    if lines and not known:
        raise ConfigError(f"cannot validate {'; '.join(lines)}; known: {', '.join(_KNOWN)}")
    return known, lines


def predict(
    series: Measured, machine: str | Path, *, ranks: int | None = None, ranks_per_node: int | None = None
) -> tuple[list[Judged], list[int]]:
    """Simulate a measured benchmark on a machine.

    A collective whose series has no rank count needs `ranks`; by default a node has as many ranks as the machine's
    nodes have cores. Return the simulated sizes, and those omitted because their buffers would not fit. Raise
    ConfigError if the number of ranks is unknown, or the benchmark did not run.
    """
    benchmark = _BENCHMARKS.get(series.operation, series.operation)
    changes = {}
    if series.operation in _BENCHMARKS:
        ranks, ranks_per_node = 2, 2 if series.layer == SAME_NODE else 1
    else:
        ranks = series.ranks or ranks
    if ranks is None:
        raise ConfigError(f"{series.file}: unknown number of ranks of {benchmark}; add -n")
    if ranks_per_node is not None and load_machine(machine).topology.type != "single":
        changes["machine.cores_per_node"] = ranks_per_node
    share = 2 * ranks * (ranks if benchmark in _AS_MANY_AS_RANKS else 1)
    sizes = [size for size in series.seconds if size or benchmark in ("latency", "barrier")]  # 0 bytes: no operation
    fitting = [size for size in sizes if size * share <= _MOST_BUFFER_BYTES]
    predicted = _run(benchmark, fitting, machine, ranks, changes) if fitting else {}
    rows = [Judged(benchmark, ranks, size, series.seconds[size], time_s) for size, time_s in predicted.items()]
    return rows, [size for size in sizes if size not in predicted]


def _run(
    benchmark: str, sizes: list[int], machine: str | Path, ranks: int, changes: dict[str, int]
) -> dict[int, float]:
    printed, complaint = io.StringIO(), io.StringIO()
    words = [benchmark, "--repetitions", "1"]
    if benchmark != "barrier":
        words += ["--sizes", *map(str, sizes)]
    program = bundled_apps() / PROGRAM
    result = simulate(program, ranks=ranks, machine=machine, args=words, set=changes, stdout=printed, stderr=complaint)
    found = list(read_osu(printed.getvalue().splitlines(), PROGRAM))
    if result.ended != "finished" or not found:
        raise ConfigError(
            f"{PROGRAM} {' '.join(words)}: it did not run on this machine\n{complaint.getvalue()}".rstrip()
        )
    return dict(found[0].seconds)


def lines_of(rows: list[Judged]) -> Iterator[str]:
    """Yield one line for each benchmark: mean, 95th percentile and largest of the errors."""
    import numpy as np

    for benchmark, ranks in dict.fromkeys((row.benchmark, row.ranks) for row in rows):
        errors = [row for row in rows if (row.benchmark, row.ranks) == (benchmark, ranks)]
        sizes = [100 * abs(row.error) for row in errors]
        mean, most = np.mean(sizes), np.percentile(sizes, 95)
        worst = max(errors, key=lambda row: abs(row.error))
        size = "" if benchmark == "barrier" else f" at {worst.size_bytes:,} B"
        yield (
            f"{benchmark}, {ranks:,} ranks: mean error {mean:.1f} %, 95th percentile {most:.1f} %, largest "
            f"{100 * worst.error:+.1f} %{size}"
        )
