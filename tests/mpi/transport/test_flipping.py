"""Soft errors: each is found once by who checks what it gets, in whichever way the run is simulated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xsim_py
from xsim_py import simulate
from xsim_py.errors import ConfigError

STEPS, DOUBLES, RANKS = 4, 40, 7
LATE = 60_000_000  # ps
FLIP = st.tuples(st.integers(0, RANKS - 1), st.integers(0, LATE), st.none() | st.integers(0, 64 * DOUBLES - 1))


def checked(large: bool = False) -> list[tuple[int, int, int]]:
    """Send round a ring what everybody can compute, check it and an own array, and tell the bits that are wrong."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    size = 64 * DOUBLES if large else DOUBLES
    own, there = np.zeros(size), np.empty(size)
    xsim_py.expose("own", own)
    found: list[tuple[int, int, int]] = []

    def look(kind: int, data: Any, right: Any) -> None:
        bits = np.unpackbits((data.view(np.uint8) ^ right.view(np.uint8)), bitorder="little")
        found.extend((kind, comm.rank, int(bit)) for bit in np.flatnonzero(bits))

    for step in range(STEPS):
        MPI.Pcontrol(10_000)  # nanoseconds
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        comm.Sendrecv(np.arange(size) + float(step), right, recvbuf=there, source=left)
        look(left, there, np.arange(size) + float(step))
        look(-1, own, np.zeros(size))
        own[:] = 0
    return found


def found_and_told(**options: Any) -> tuple[list[Any], list[Any], Any]:
    result = simulate(checked, ranks=RANKS, **options)
    found = [each for value in result.values for each in value]
    table = result.tables.get("flips")
    told = []
    if table is not None:
        rows = zip(*(table[name] for name in ("rank", "dest", "bit")), strict=True)
        told = [(-1, rank, bit) if dest is None else (rank, dest, bit) for rank, dest, bit in rows]
    return sorted(found), sorted(told), result


@settings(max_examples=8)
@given(st.lists(FLIP, max_size=4), st.booleans())
def test_each_flip_is_found_once(flips: list[tuple[int, int, int | None]], large: bool) -> None:
    entries = [
        {"rank": rank, "at": f"{at_ps}ps", "target": target, **({} if bit is None else {"bit": bit})}
        for rank, at_ps, bit in {flip[0]: flip for flip in flips}.values()  # two in one place cancel out
        for target in ("message", "array")
    ]
    found, told, result = found_and_told(args=[large], set={"failures.flips": entries})
    assert found == told
    assert result.ended == "finished"
    came = len(entries) - sum(warning.count("flip:") for warning in result.warnings)
    assert len(told) == came


@pytest.mark.parametrize("large", [False, True])
def test_the_result_is_the_same_however_it_is_simulated(large: bool) -> None:
    fail = [
        "flip:message,rank=3,at=12us",
        "flip:array,rank=5,at=25us,array=own",
        "flip:message,rank=6,at=0,bit=17",
        "flip:array,rank=0,at=1",
    ]
    ways: list[dict[str, Any]] = [{"shards": shards} for shards in (1, 2, 3, 7)]
    ways += [{"isolation": "process"}, {"trace": True}]
    results = [found_and_told(args=[large], fail=fail, **way) for way in ways]
    for found, told, result in results:
        assert found == told == results[0][0]
        assert len(found) == 3
        assert result.digest == results[0][2].digest
        assert result.warnings == ["never came, for the ranks had ended or made no such call: flip:array,rank=0,at=1s"]
    assert {mark.kind for mark in results[-1][2].trace.marks} == {"flipped"}
    assert results[0][2].digest != found_and_told(args=[large])[2].digest


def test_a_collective_computed_on_arrays_elsewhere_is_hit_too() -> None:
    def program() -> list[float]:
        import numpy as np
        from mpi4py import MPI

        sums = []
        for _ in range(4):
            total = np.zeros(2)
            MPI.COMM_WORLD.Allreduce(np.ones(2), total)
            sums.append(float(total[0]))
        return sums

    results = [
        simulate(program, ranks=32, fail=["flip:message,rank=3,at=50us,bit=52"], **way)
        for way in ({"shards": 1}, {"shards": 3}, {"collectives": "messages"}, {"collectives": "arrays"})
    ]
    assert len({result.digest for result in results}) == 1
    wrong = {value for values in results[0].values for value in values} - {32.0}
    assert wrong, "a message of an Allreduce is that of nobody else"


def test_flips_alone_do_not_make_a_run_outlive_failures() -> None:
    def program() -> None:
        import os

        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 1:
            os._exit(3)
        MPI.COMM_WORLD.Barrier()

    assert simulate(program, ranks=2, fail="flip:message,rank=0,at=0").ended == "aborted"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flip:message,rank=9,at=1ms", "rank 9 does not exist"),
        ("flip:message,rank=0,at=1ms,array=x", "a message is no array; write target: array"),
        ("flip:packet,rank=0,at=1ms", "'packet' is not one of its values"),
        ("flip:message,rank=0", "at: missing"),
        ("flip:message,at=1ms", "rank: missing"),
        ("flip:message,rank=0,at=1ms,bit=-1", "'-1' is not a whole number"),
        ("flip:message,rank=0,at=1ms,bit", "'bit' is not a key and its value, each key once; write bit=17"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simulate(checked, ranks=2, fail=text)
    assert said in str(caught.value)
