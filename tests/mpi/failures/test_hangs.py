"""Transient failures: a process that stands still is late, or it is taken for dead and killed when it comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim_py import simulate
from xsim_py.errors import ConfigError

LATENCY, PERIOD, TIMEOUT = 1_000_000, 20_000_000, 50_000_000  # ps
MACHINE: dict[str, Any] = {
    "machine": {"nodes": 8},
    "topology": {"type": "switch"},
    "network": {"latency": f"{LATENCY}ps", "bandwidth": "unlimited"},
    "mpi": {"detector": {"timeout": f"{TIMEOUT}ps"}, "fault_tolerance": True},
}
HEARTBEAT = {"mpi.detector.type": "heartbeat", "mpi.detector.period": f"{PERIOD}ps"}
WAYS: list[dict[str, Any]] = [*({"shards": shards} for shards in (1, 2, 3, 7)), {"isolation": "process"}]
WAYS += [{"trace": True}]


def steps(size: int = 8) -> list[tuple[str, int]]:
    """Compute and exchange in turn, repair what is broken, and tell what happened when."""
    import time

    import numpy as np
    from mpi4py import MPI

    comm, told = MPI.COMM_WORLD, []
    there = np.empty(size)
    for _ in range(6):
        time.sleep(10e-6)
        try:
            if comm.rank % 2 == 0 and comm.rank + 1 < comm.size:
                comm.Send(np.ones(size), comm.rank + 1)
            elif comm.rank % 2:
                comm.Recv(there, comm.rank - 1)
            comm.Allreduce(np.ones(1), np.empty(1))
            said = "done"
        except MPI.Exception as error:
            said = error.Get_error_string().partition(":")[0]
            comm.Revoke()
        if said != "done":
            comm = comm.Shrink()
        told.append((said, round(MPI.Wtime() * 1e12)))
    return told


def run(hang: str, **options: Any) -> Any:
    return simulate(steps, ranks=7, machine=MACHINE, fail=hang, **options)


def asleep() -> int:
    """Wait as rank 0 for rank 1, which works for 1 ms; return the time when that is over, or minus that of an error."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    try:
        if comm.rank == 1:
            time.sleep(1e-3)
            comm.send(None, 0)
        else:
            comm.recv(source=1)
    except MPI.Exception:
        return -round(MPI.Wtime() * 1e12)
    return round(MPI.Wtime() * 1e12)


@pytest.mark.parametrize("more_ps", [-1, 0, 1])
@pytest.mark.parametrize("hang_ps", [PERIOD, PERIOD + 1, 5 * PERIOD - 1])
def test_the_heartbeat_detector_gives_up_when_the_next_sign_of_life_is_too_late(hang_ps: int, more_ps: int) -> None:
    last_ps = hang_ps // PERIOD * PERIOD
    for_ps = last_ps + TIMEOUT - hang_ps + more_ps
    hang = f"hang:rank=1,at={hang_ps}ps,for={for_ps}ps"
    result = simulate(asleep, ranks=2, machine=MACHINE, set=HEARTBEAT, fail=hang)
    ends_ps = result.tables["ranks"].picoseconds["end_s"]
    if more_ps <= 0:
        assert not result.failures
        assert ends_ps[1] == 10**9 + for_ps
        assert result.values[0] == 10**9 + for_ps + LATENCY
    else:
        (known_ps,) = result.tables["learned"].picoseconds["time_s"]
        assert known_ps == last_ps + LATENCY + TIMEOUT
        assert ends_ps[1] == hang_ps + for_ps, "it is killed when it comes back"
        assert result.values[0] == -known_ps
    assert result.tables["hangs"]["killed"] == [more_ps > 0]


@pytest.mark.parametrize("more_ps", [-1, 0, 1])
def test_the_timeout_detector_gives_up_after_the_timeout(more_ps: int) -> None:
    hang_ps, for_ps = 300_000_000, TIMEOUT + more_ps
    result = simulate(asleep, ranks=2, machine=MACHINE, fail=f"hang:rank=1,at={hang_ps}ps,for={for_ps}ps")
    if more_ps <= 0:
        assert result.values == [10**9 + for_ps + LATENCY, 10**9 + for_ps]
    else:
        assert result.values[0] == -(hang_ps + TIMEOUT)
        assert result.tables["failures"].picoseconds["time_s"] == [hang_ps]
        assert result.virtual_time_ps == hang_ps + for_ps


@pytest.mark.parametrize("mpi", [{"fault_tolerance": False}, {}])
def test_a_hang_alone_kills_no_rank_in_a_run_that_is_not_said_to_be_fault_tolerant(mpi: dict[str, Any]) -> None:
    machine = {**MACHINE, "mpi": mpi}
    result = simulate(asleep, ranks=2, machine=machine, fail="hang:rank=1,at=300us,for=10s")
    assert result.values[1] == 10**9 + 10 * 10**12
    assert not result.failures


@pytest.mark.sampled
@pytest.mark.parametrize("detector", [{}, HEARTBEAT])
@pytest.mark.parametrize("hang", ["hang:rank=3,at=25us,for=30us", "hang:rank=3,at=25us,for=90us"])
def test_the_result_is_the_same_however_it_is_simulated(hang: str, detector: dict[str, str]) -> None:
    results = [run(hang, set=detector, **way) for way in WAYS]
    for result in results:
        assert result.ended == "finished"
        assert (result.digest, result.values) == (results[0].digest, results[0].values)
        assert result.tables["hangs"]["killed"] == ["90" in hang]
        assert len(result.failures) == ("90" in hang)
    assert {mark.kind for mark in results[5].trace.marks} >= {"failed" if "90" in hang else "hangs"}


@settings(max_examples=6)
@given(st.integers(0, 60_000_000), st.integers(0, 6), st.sampled_from([{}, HEARTBEAT]))
def test_to_the_others_it_is_as_if_a_process_that_comes_back_too_late_had_died(
    hang_ps: int, rank: int, detector: dict[str, str]
) -> None:
    hung = run(f"hang:rank={rank},at={hang_ps}ps,for=90us", set=detector)
    dead = run(f"rank={rank}@{hang_ps}ps", set=detector)
    assert hung.ended == dead.ended
    assert hung.tables["learned"] == dead.tables["learned"]
    assert hung.tables["failures"].picoseconds == dead.tables["failures"].picoseconds
    assert [v for each, v in enumerate(hung.values) if each != rank] == [
        v for each, v in enumerate(dead.values) if each != rank
    ]


@settings(max_examples=5)
@given(st.integers(0, 90_000_000), st.integers(1, TIMEOUT), st.integers(0, 6), st.sampled_from([8, 20_000]))
def test_who_hangs_for_less_than_the_timeout_is_late_and_nothing_else(
    hang_ps: int, for_ps: int, rank: int, size: int
) -> None:
    hang = f"hang:rank={rank},at={hang_ps}ps,for={for_ps}ps"
    plain = simulate(steps, ranks=7, machine=MACHINE, args=[size], ft=True)
    late = simulate(steps, ranks=7, machine=MACHINE, args=[size], fail=hang)
    apart = simulate(steps, ranks=7, machine=MACHINE, args=[size], fail=hang, shards=3)
    assert late.digest == apart.digest
    assert not late.failures
    if "hangs" not in late.tables:
        assert late.virtual_time_ps == plain.virtual_time_ps
    for before, after in zip(plain.values, late.values, strict=True):
        for (_, before_ps), (said, after_ps) in zip(before, after, strict=True):
            assert said == "done"
            assert before_ps <= after_ps <= before_ps + for_ps
    assert late.messages == plain.messages


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (["hang:rank=9,at=1ms,for=1ms"], "rank 9 does not exist"),
        (["hang:rank=1,at=1ms"], "for: missing"),
        (["hang:rank=1,at=1ms,for=0s"], "for=0s: for: 0 is out of range: a hang needs a duration, e.g. 2ms"),
        (["hang:rank=1,at=1ms,for=1ms", "hang:rank=1,at=1.5ms,for=1ms"], "rank 1 hangs already until 2 ms"),
        (["hang:"], "expected key=value, each key once, got ''; write for=2ms"),
    ],
)
def test_what_is_wrong_is_said(fail: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simulate(steps, ranks=7, machine=MACHINE, fail=fail)
    assert said in str(caught.value)


def test_collectives_by_ftco_and_hangs_do_not_go_together() -> None:
    with pytest.raises(ConfigError) as caught:
        run("hang:rank=1,at=1ms,for=1ms", collectives="ftco")
    assert str(caught.value).startswith("--fail hang:rank=1,at=1ms,for=1ms: FTCO's timeouts")
    failures = {"hangs": [{"rank": 1, "at": "1ms", "for": "1ms"}]}
    with pytest.raises(ConfigError, match=r"failures|drop the hang"):
        simulate(steps, ranks=7, machine={**MACHINE, "failures": failures}, collectives="ftco")


def send_once(call: str) -> int:
    """Send from rank 0 to rank 1 in some way, and return when the receiver has it."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        comm.Isend(bytearray(8), 1).Wait() if call == "Isend" else getattr(comm, call)(bytearray(8), 1)
        return 0
    comm.Recv(bytearray(8), 0)
    return round(MPI.Wtime() * 1e12)


@pytest.mark.sampled
@pytest.mark.parametrize("call", ["Send", "Isend", "Ssend"])
@pytest.mark.parametrize(("hang_ps", "late"), [(1, True), (500_000, True), (999_999, True), (1_000_001, False)])
def test_a_message_that_a_hang_meets_in_the_overhead_of_its_send_leaves_after_it(
    call: str, hang_ps: int, late: bool
) -> None:
    told = {"network.send_overhead": "1us"}
    plain = simulate(send_once, ranks=2, machine=MACHINE, set=told, args=[call])
    hang = f"hang:rank=0,at={hang_ps}ps,for=40us"
    for way in WAYS[1::3]:
        hung = simulate(send_once, ranks=2, machine=MACHINE, set=told, args=[call], fail=hang, **way)
        assert hung.ended == "finished"
        assert hung.values[1] - plain.values[1] == 40_000_000 * late


@settings(max_examples=8)
@given(
    st.integers(0, 90_000_000),
    st.integers(1, TIMEOUT),
    st.integers(0, 6),
    st.sampled_from([8, 20_000]),
    st.integers(0, 4_000_000),
    st.sampled_from([2, 3, 7]),
)
def test_a_hang_within_overheads_gives_one_digest(
    hang_ps: int, for_ps: int, rank: int, size: int, overhead_ps: int, shards: int
) -> None:
    told = {"network.send_overhead": f"{overhead_ps}ps", "network.send_overhead_per_byte": "100ps"}
    hang = f"hang:rank={rank},at={hang_ps}ps,for={for_ps}ps"
    alone, apart = (
        simulate(steps, ranks=7, machine=MACHINE, args=[size], set=told, fail=hang, shards=each) for each in (1, shards)
    )
    assert alone.ended == "finished"
    assert (alone.digest, alone.values) == (apart.digest, apart.values)


def test_a_control_message_that_a_hang_meets_in_its_overhead_leaves_after_it() -> None:
    def program() -> int:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            comm.Revoke()
            return 0
        try:
            comm.recv(source=0)
        except MPI.Exception:
            return round(MPI.Wtime() * 1e12)
        return -1

    told = {"network.send_overhead": "1us"}
    plain = simulate(program, ranks=2, machine=MACHINE, set=told, ft=True)
    for way in WAYS[1::3]:
        hung = simulate(program, ranks=2, machine=MACHINE, set=told, fail="hang:rank=0,at=600ns,for=40us", **way)
        assert hung.values[1] - plain.values[1] == 40_000_000
