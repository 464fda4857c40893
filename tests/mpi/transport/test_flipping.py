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
        never = "never injected, because the ranks had ended or made no such call: "
        assert result.warnings == [f"{never}flip:array,rank=0,at=1s"]
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


def test_a_message_and_an_array_of_one_rank_are_hit_at_one_time() -> None:
    def program() -> None:
        import time

        import numpy as np
        from mpi4py import MPI

        xsim_py.expose("u", np.zeros(4))
        time.sleep(1e-3)
        MPI.COMM_WORLD.Sendrecv(np.zeros(4), 1 - MPI.COMM_WORLD.rank, recvbuf=np.zeros(4))

    fail = [f"flip:{target},rank=0,at=1ms,bit=3" for target in ("message", "array")]
    result = simulate(program, ranks=2, machine={"network": {"latency": "1us", "bandwidth": "1GB/s"}}, fail=fail)
    assert result.tables["flips"].picoseconds["time_s"] == [10**9, 10**9]
    assert sorted(result.tables["flips"]["cause"]) == sorted(fail)


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
        ("flip:message,rank=0,at=1ms,array=x", "only an array has a name, not a message; write target: array"),
        ("flip:packet,rank=0,at=1ms", "--fail flip:packet,rank=0,at=1ms: target: unknown value 'packet'"),
        ("flip:message,rank=0", "at: missing"),
        ("flip:message,at=1ms", "rank: missing"),
        ("flip:message,rank=0,at=1ms,bit=-1", "--fail flip:message,rank=0,at=1ms,bit=-1: bit: expected an integer"),
        ("flip:message,rank=0,at=1ms,bit", "expected key=value, each key once, got 'bit'; write bit=17"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simulate(checked, ranks=2, fail=text)
    assert said in str(caught.value)


def made(kind: str) -> list[Any]:
    """Make a window or a communicator, by messages that may be hit, and tell what this rank knows of it."""
    import time

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    told: list[Any] = []

    def attempt(act: Any, *args: Any) -> Any:
        try:
            told.append(act(*args))
        except MPI.Exception as error:
            told.append(error.Get_error_class())
            return None
        return told.pop()

    def others(group: Any) -> Any:
        return group.Translate_ranks(None, comm.group)

    time.sleep(1e-6 * comm.rank)
    if kind in ("Create", "Allocate"):
        memory = np.zeros(4 * (comm.rank % 4 + 1), int)
        window = MPI.Win.Create(memory, 8, comm=comm) if kind == "Create" else MPI.Win.Allocate(64, 8, comm=comm)
        for act in (window.Put, window.Get):
            window.Fence()
            attempt(act, np.full(4, comm.rank), (comm.rank + 2) % comm.size)
            attempt(window.Fence)
        told.append(bytes(window.tomemory()))
    elif kind == "Shared":
        shared = MPI.Win.Allocate_shared(64 * (comm.rank + 1), 8, comm=comm)
        told += [(len(memory), unit) for memory, unit in map(shared.Shared_query, range(comm.size))]
        np.frombuffer(shared.tomemory(), np.uint8)[:] = comm.rank  # so much is there at least
    elif kind == "Split":
        part = comm.Split(comm.rank % 2, -comm.rank)
        told += [part.rank, others(part.group)]
    else:
        half = comm.Split(comm.rank % 2)
        inter = attempt(half.Create_intercomm, 0, comm, 1 - comm.rank % 2)
        if inter:
            told.append(others(inter.remote_group))
            merged = attempt(inter.Merge, comm.rank % 2 == 1)
            told += [merged.rank, others(merged.group)] if merged else []
    return told


MADE = st.tuples(st.integers(0, RANKS - 1), st.sampled_from([0, 3, 8, 30, 45]), st.integers(0, 127))


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(["Create", "Allocate", "Shared", "Split", "Inter"]), MADE, st.integers(2, RANKS))
def test_a_flip_reaches_its_receiver_only_whatever_is_made_by_that_message(
    kind: str, flip: tuple[int, int, int], shards: int
) -> None:
    told, on = "flip:message,rank={},at={}us,bit={}".format(*flip), "shmem" if kind == "Shared" else "gige"
    alone, apart = (
        simulate(made, ranks=RANKS, args=[kind], fail=told, shards=each, machine=on) for each in (1, shards)
    )
    assert (alone.ended, alone.digest, alone.values) == (apart.ended, apart.digest, apart.values)


def test_what_a_window_s_owner_has_not_got_is_refused_there_if_the_origin_was_told_another_size() -> None:
    def program() -> list[int]:
        import time

        import numpy as np
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        time.sleep(1e-6 * comm.rank)
        window = MPI.Win.Create(np.zeros(4, int), 8, comm=comm)
        window.Lock_all()
        errors = []
        for target in range(comm.size):
            try:
                window.Put(np.ones(16, int), target)
                errors.append(0)
            except MPI.Exception as error:
                errors.append(error.Get_error_class())
        try:
            window.Flush_all()
        except MPI.Exception as error:
            errors.append(error.Get_error_class())
        window.Unlock_all()
        return errors

    from xsim_py.mpi.constants import ERR_RMA_RANGE

    for shards in (1, 2, 4):
        result = simulate(program, ranks=4, fail="flip:message,rank=2,at=0.5us,bit=10", shards=shards)
        refused = [ERR_RMA_RANGE] * 4
        believed = [ERR_RMA_RANGE, ERR_RMA_RANGE, 0, ERR_RMA_RANGE, ERR_RMA_RANGE]
        # Rank 3 has got the message, and passed on to rank 1 what it read there.
        assert result.values == [refused, believed, refused, believed]
