"""The memory of a node is a limit for the arrays of its ranks, and nothing else is counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim_py import simulate

NODE = 1_000_000
LIMIT = {"machine.cores_per_node": "2", "machine.memory_per_node": f"{NODE}B"}


def program() -> tuple[str, float]:
    """Have what fits, ask for what does not, exchange arrays of both kinds, and give all back."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    kept = [np.zeros(25_000)]  # 200,000 bytes
    MPI.Pcontrol(1000)
    said = ""
    try:
        kept.append(np.ones(37_501))
    except MemoryError as error:
        said = str(error)
    when = MPI.Wtime()
    kept += comm.allgather(np.ones(1000))
    total = np.empty(1000)
    comm.Allreduce(np.ones(1000), total)
    kept.clear()
    kept.append(np.empty(50_000 if comm.rank == 0 else 30_000))
    return said, when


def test_what_does_not_fit_raises_on_that_rank_at_its_time() -> None:
    ways: list[dict[str, Any]] = [{"shards": 1}, {"shards": 3}, {"isolation": "process"}, {"collectives": "messages"}]
    peaks = []
    for way in ways:
        result = simulate(program, ranks=4, set=LIMIT, **way)
        said = "Unable to allocate 293. KiB for an array with shape (37501,) and data type float64"
        assert result.values == [(said, 1e-6)] * 4
        assert result.tables["ranks"]["peak_bytes"] == [408_000, 248_000, 248_000, 248_000]
        roomy = simulate(program, ranks=4, set=LIMIT | {"machine.memory_per_node": "1200000B"}, **way)
        assert roomy.values == [("", 1e-6)] * 4
        peaks.append(roomy.tables["ranks"]["peak_bytes"])
    most = 200_000 + 300_008 + 2 * 8_000  # and scalars, of which numpy makes arrays; what allgather gives lies in bytes
    assert all(most <= peak <= most + 64 for peak in peaks[0])
    assert peaks == [peaks[0]] * len(ways)
    alone = simulate(program, ranks=3, set=LIMIT).values[2]
    assert alone == ("", 1e-6), "a rank that is alone on its node has all of it"


def unwinds() -> list[str]:
    """Meet errors while other arrays are freed."""
    import numpy as np

    said = []
    calls = (
        lambda: [np.zeros(1 << 15) for _ in range(3)],
        lambda: np.arange(1 << 15) * 2.0,
        lambda: np.ones(3) + np.ones((4, 5)) * 2,
        lambda: np.ones(1 << 15)[np.arange(3.0) + 1],
    )
    for call in calls * 2:
        try:
            call()
        except (MemoryError, ValueError, IndexError) as error:
            said.append(f"{type(error).__name__}: {str(error)[:18]}")
    return said


def test_errors_are_those_of_numpy_also_where_arrays_are_freed_meanwhile() -> None:
    memory = "MemoryError: Unable to allocate"
    (said,) = simulate(unwinds, ranks=1, set={"machine.memory_per_node": "500000B"}).values
    assert said == [memory, memory, "ValueError: operands could not", "IndexError: arrays used as ind"] * 2


def test_what_is_freed_is_freed_at_the_next_array_and_at_the_end() -> None:
    import resource

    def program() -> None:
        import numpy as np

        for _ in range(200):
            np.ones(500_000)

    simulate(program, ranks=2, set={"machine.memory_per_node": "100MB"})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    simulate(program, ranks=2, set={"machine.memory_per_node": "100MB"})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB; all arrays are 1.6 GB


def test_without_the_key_nothing_is_counted() -> None:
    result = simulate(program, ranks=2)
    assert "peak_bytes" not in result.tables["ranks"]
    assert result.ended == "finished"


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(["zeros", "empty", "resize", "drop"]), st.integers(1, 80_000)), max_size=12))
def test_the_peak_is_that_of_the_sizes_and_the_limit_is_never_passed(steps: list[tuple[str, int]]) -> None:
    def allocates() -> tuple[int, int]:
        import numpy as np

        arrays: list[Any] = []
        used = peak = refused = 0
        for what, count in steps:
            size = 8 * count
            try:
                if what == "drop" and arrays:
                    used -= arrays.pop().nbytes
                elif what == "resize" and arrays:
                    before = arrays[-1].nbytes
                    arrays[-1].resize(count, refcheck=False)
                    used += size - before
                elif what in ("zeros", "empty"):
                    arrays.append(getattr(np, what)(count))
                    used += size
            except MemoryError:
                refused += 1
            peak = max(peak, used)
            assert used <= NODE
        return peak, refused

    result = simulate(allocates, ranks=1, set={"machine.memory_per_node": f"{NODE}B"})
    assert result.ended == "finished"
    assert result.tables["ranks"]["peak_bytes"] == [result.values[0][0]]


@pytest.mark.parametrize("size", ["-1B", "much"])
def test_a_size_has_to_be_one(size: str) -> None:
    from xsim_py.errors import ConfigError

    with pytest.raises(ConfigError, match="memory_per_node"):
        simulate(program, ranks=1, set={"machine.memory_per_node": size})
