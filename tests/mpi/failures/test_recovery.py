"""Failures and recovery: who learns of what when, what it costs, and what calls then do."""

import time
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from xsim_py import simulate
from xsim_py.errors import ConfigError

LATENCY_ONLY = {"network": {"latency": "1us"}}
US = 10**6
NETWORKS_US = {"gige": ("network", 20), "shmem": ("same_node", 6), "torus3d": ("network", 7)}


def run(program: Any, ranks: int, *args: Any, machine: Any = LATENCY_ONLY, **options: Any) -> Any:
    options.setdefault("ft", True)
    return simulate(program, ranks=ranks, machine=machine, args=args, **options)


def attempt(function: Any, *args: Any) -> tuple[str, int]:
    """What a call ends with, and when: its value or the class of its error, and picoseconds."""
    from mpi4py import MPI

    names = {MPI.ERR_PROC_FAILED: "failed", MPI.ERR_PROC_FAILED_PENDING: "pending", MPI.ERR_REVOKED: "revoked"}
    try:
        said = str(function(*args))
    except MPI.Exception as error:
        said = names.get(error.Get_error_class(), str(error))
    return said, round(MPI.Wtime() * 10**12)


def learned(result: Any) -> dict[tuple[int, int], tuple[int, str]]:
    """Who knows of whose failure: (failed, rank) to picoseconds and how."""
    table = result.tables["learned"].columns
    rows = zip(table["failed"], table["rank"], table["time_s"], table["how"], strict=True)
    return {(failed, rank): (round(time_s * 10**12), how) for failed, rank, time_s, how in rows}


# ------------------------------------------------------------------------------------------------ closed forms


def agree_and_shrink() -> tuple[int, int]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.Agree(7)
    agreed = MPI.Wtime()
    time.sleep(1 - agreed)
    world.Shrink()
    return round(agreed * 10**12), round((MPI.Wtime() - 1) * 10**12)


@pytest.mark.parametrize(
    ("agree", "shrink", "sweeps"),
    [("two_phase", "two_phase", 2), ("early_returning", "agreement", 2), ("liveness", "liveness", 1)],
)
@pytest.mark.parametrize("network", NETWORKS_US)
def test_agree_takes_two_latencies_a_level_and_shrink_four(network: str, agree: str, shrink: str, sweeps: int):
    """The three networks of the xSim paper with their latency only; 1,024 ranks, of a campaign: 10 levels up and down.

    A shrink by liveness discovery takes as long as an agreement.
    """
    layer, latency_us = NETWORKS_US[network]
    levels = 10 if CAMPAIGN else 6
    overrides = {f"{layer}.bandwidth": "unlimited", "mpi.ulfm.agree": agree, "mpi.ulfm.shrink": shrink}
    result = run(agree_and_shrink, 1 << levels, machine=network, set=overrides)
    agreed, shrunk = zip(*result.values, strict=True)
    assert (max(agreed), max(shrunk)) == (2 * levels * latency_us * US, sweeps * 2 * levels * latency_us * US)
    assert result.messages == (1 + sweeps) * 2 * ((1 << levels) - 1)


@pytest.mark.parametrize(
    ("agree", "parent"), [("two_phase", "binomial"), ("early_returning", "binary"), ("liveness", "binomial")]
)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 13, 33, 100] + [1000] * CAMPAIGN)
def test_agree_goes_up_and_down_its_tree(ranks: int, agree: str, parent: str):
    result = run(agree_and_shrink, ranks, set={"mpi.ulfm.agree": agree})
    height = max(n.bit_count() if parent == "binomial" else (n + 1).bit_length() - 1 for n in range(ranks))
    assert max(agreed for agreed, _ in result.values) == 2 * height * US


def revoke() -> int:
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 0:
        MPI.COMM_WORLD.Revoke()
    said, time_ps = attempt(MPI.COMM_WORLD.Recv, bytearray(1), 0, 99)
    assert said == "revoked"
    return time_ps


@pytest.mark.parametrize("ranks", [2, 3, 8, 16, 64, 100])
def test_revocation_spreads_by_messages(ranks: int):
    """Messages and rounds of the reliable broadcast as counted on Open MPI's way of doing it."""
    rounds = {2: 1, 3: 1, 8: 2, 16: 2, 64: 3, 100: 4}
    counted = {8: 48, 16: 128, 64: 768, 100: 1200}
    result = run(revoke, ranks)
    assert result.messages == ranks * 2 * ((ranks // 2).bit_length())
    assert result.messages == counted.get(ranks, result.messages)
    assert max(result.values) == rounds[ranks] * US


def test_other_ways_to_revoke():
    direct = run(revoke, 6, set={"mpi.ulfm.revoke": "direct"})
    local = run(revoke, 6, set={"mpi.ulfm.revoke": "local"})
    assert (direct.messages, local.messages) == (30, 0)
    assert direct.values == local.values == [0, *[US] * 5]


# --------------------------------------------------------------------------------------------------- detectors


def sleep_on() -> None:
    time.sleep(10)


@pytest.mark.parametrize("dead", [["rank=3@4.1s"], ["rank=3@4.1s", "rank=4@1s"], ["rank=3@4.1s", "rank=4@4s"]])
def test_the_observer_misses_a_heartbeat_and_tells_everybody(dead: list[str]):
    """Rank 3's last sign of life is that of second 4; its observer is rank 4 or, where that is dead, rank 5."""
    overrides = {"mpi.detector.type": "heartbeat", "mpi.detector.period": "1s", "mpi.detector.timeout": "2s"}
    result = run(sleep_on, 8, set=overrides, fail=dead)
    told = {rank: when for (failed, rank), when in learned(result).items() if failed == 3}
    alive = {0, 1, 2, 5, 6, 7} if len(dead) > 1 else {0, 1, 2, 4, 5, 6, 7}
    assert set(told) == alive
    observer = 5 if len(dead) > 1 else 4
    noticed_ps, how = told[observer]
    assert how == "heartbeat"
    usual_ps = 6 * 10**12 + US
    assert noticed_ps == usual_ps if observer == 4 else noticed_ps > usual_ps
    assert {how for rank, (_, how) in told.items() if rank != observer} == {"broadcast"}
    assert max(time_ps for time_ps, _ in told.values()) <= noticed_ps + 3 * US


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"mpi.detector.timeout": "0.9us"}, "mpi.detector.timeout"),
        (
            {"mpi.detector.type": "heartbeat", "mpi.detector.period": "1s", "mpi.detector.timeout": "1s"},
            "longest latency",
        ),
    ],
)
def test_a_detector_that_takes_the_living_for_dead_is_refused(overrides: dict[str, str], words: str):
    with pytest.raises(ConfigError, match=words):
        run(sleep_on, 4, set=overrides)


# ----------------------------------------------------------------------------------- what the dead do, and do not


def test_a_rank_dies_when_its_own_clock_gets_there():
    """Rank 1 sends without waiting; each send takes it 1 us, so the third is not sent any more."""

    def program() -> Any:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank == 1:
            for number in range(5):
                world.send(number, 0)
                print("sent", number)
            return None
        return [attempt(world.recv, None, 1) for _ in range(3)]

    machine = {"network": {"latency": "1us", "send_overhead": "1us"}}
    result = run(program, 2, machine=machine, fail=["rank=1@2.5us"], set={"mpi.detector.timeout": "10us"})
    assert result.values[0] == [("0", 2 * US), ("1", 3 * US), ("failed", 13 * US)]


def test_nothing_of_a_dead_rank_runs(capsys: pytest.CaptureFixture[str]):
    def program() -> None:
        from mpi4py import MPI

        try:
            if MPI.COMM_WORLD.rank == 1:
                MPI.COMM_WORLD.recv()
        finally:
            print("the end of", MPI.COMM_WORLD.rank)

    run(program, 2, fail=["rank=1@1us"])
    assert capsys.readouterr().out == "the end of 0\n"


def test_what_was_sent_before_death_arrives_unless_the_death_is_known():
    def program() -> Any:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank == 1:
            world.send("early", 0, tag=1)
            world.send("known", 0, tag=2)
            time.sleep(1)
        if world.rank != 0:
            return None
        first = attempt(world.recv, None, 1, 1)
        return first[0], attempt(world.recv, None, 1, 3)[0], attempt(world.recv, None, 1, 2)[0]

    assert run(program, 2, fail=["rank=1@5us"]).values[0] == ("early", "failed", "failed")


def test_without_fault_tolerance_the_launcher_ends_the_job():
    result = run(sleep_on, 4, fail=["rank=2@5us"], ft=False)
    assert (result.ended, result.aborted, result.exit_status) == ("aborted", True, 137)
    assert "rank 2 ended the job at 5 us: injected" in result.report
    assert [failure["rank"] for failure in result.failures] == [2]


def test_an_error_that_nobody_handles_ends_the_job_with_time_and_rank():
    def program() -> None:
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()
        MPI.COMM_WORLD.Barrier()

    result = run(program, 4, fail=["rank=2@1.5us"])
    assert result.aborted
    assert "MPI_ERR_PROC_FAILED" in result.report
    assert "rank 2 of MPI_COMM_WORLD failed at 1.5 us" in result.report


def test_errors_are_fatal_ends_the_job_with_time_and_rank():
    def program() -> None:
        from mpi4py import MPI

        MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        MPI.COMM_WORLD.Barrier()

    result = run(program, 4, fail=["rank=2@0s"])
    assert (result.aborted, "MPI_ERRORS_ARE_FATAL" in result.report) == (True, True)
    assert "rank 2 of MPI_COMM_WORLD failed at 0" in result.report


def test_a_job_whose_processes_are_all_dead_is_over():
    result = run(sleep_on, 3, fail=["rank=0@1us", "rank=1@2us", "rank=2@3us"])
    assert (result.ended, result.exit_status) == ("aborted", 137)
    assert "rank 2, the last of 3, failed at 3 us" in result.report


# ------------------------------------------------------------------------------------------------- starting again


def test_an_aborted_job_starts_again_later_and_the_clock_goes_on():
    def program() -> float:
        from mpi4py import MPI

        start = MPI.Wtime()
        time.sleep(1)
        MPI.COMM_WORLD.Barrier()
        return start

    failures = ["rank=1@0.5s", "rank=0@3s"]
    result = run(program, 2, fail=failures, ft=None, restart="on-abort,delay=2s")
    starts = result.tables["starts"].columns
    assert (result.ended, result.restarts) == ("finished", 2)
    assert starts["ended"] == ["aborted", "aborted", "finished"]
    assert result.values == [starts["start_s"][2]] * 2
    assert starts["start_s"] == [0, 2.500001, 5.000001]
    assert [failure["rank"] for failure in result.failures] == [1, 0]


def test_a_call_site_strikes_once():
    def program() -> int:
        from mpi4py import MPI

        return MPI.COMM_WORLD.allreduce(1)

    sites = ["rank=1 before its 1st allreduce", "rank=2 after its 1st allreduce"]
    result = run(program, 4, fail=sites, ft=None, restart="on-abort")
    assert (result.values, result.restarts) == ([4] * 4, 2)


def test_a_program_that_aborts_by_itself_is_not_started_for_ever():
    def program() -> None:
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(5)

    result = run(program, 2, ft=None, restart="on-abort,max=3")
    assert (result.restarts, result.ended, result.exit_status) == (3, "aborted", 5)


@pytest.mark.parametrize("text", ["always", "on-abort,max=x", "on-abort,delay=long", "on-abort,n=3", "on-abort,max=-1"])
def test_other_restarts_are_refused(text: str):
    with pytest.raises(ConfigError, match="on-abort,max=3,delay=30s"):
        run(sleep_on, 2, restart=text)


# ------------------------------------------------------------------------------------------------------ recovery


def test_what_recovery_leaves_unreceived_is_no_fault_of_the_program():
    """Ranks that sent their part of a Reduce before the failure leave messages on the revoked communicator."""

    def program() -> int:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD.Dup()
        attempt(comm.reduce, comm.rank)
        attempt(comm.Barrier)
        comm.Revoke()
        return comm.Shrink().allreduce(1)

    result = run(program, 16, fail=["rank=3 before its 1st reduce"])
    assert (result.ended, result.report, result.warnings) == ("finished", "", [])
    assert {value for value in result.values if value is not None} == {15}


def test_groups_of_an_intercommunicator_agree_on_each_others_flags_and_shrink_together():
    def program() -> Any:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        half = world.Split(world.rank % 2, world.rank)
        both = half.Create_intercomm(0, world, 1 - world.rank % 2)
        said = [attempt(both.Agree, ~(1 << world.rank))[0]]
        said.append(attempt(both.Barrier)[0])
        said.append(attempt(both.Agree, -1)[0])
        said.append(str(both.Ack_failed()))
        said.append(attempt(both.Agree, ~(1 << world.rank))[0])
        both.Revoke()
        said.append(attempt(both.send, 1, 0)[0])
        left = both.Shrink()
        said.append(f"{left.size} {left.remote_size} {left.Merge(bool(world.rank % 2)).allreduce(world.rank)}")
        return said

    values = run(program, 6, fail=["rank=3 before its 1st Barrier"]).values
    even = [str(~0b101010), "failed", "failed", "1", str(~0b100010), "revoked", "3 2 12"]
    odd = [str(~0b010101), "failed", "failed", "1", str(~0b010101), "revoked", "2 3 12"]
    assert values == [even, odd, even, None, even, odd]


def test_an_error_handler_sees_a_failure_once_and_the_call_raises_it():
    def program() -> Any:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        seen: list[int] = []
        world.Set_errhandler(MPI.Comm.Create_errhandler(lambda comm, code: seen.append(code)))
        request = world.Ibarrier()
        said = [attempt(request.Wait)[0], attempt(world.Barrier)[0], attempt(world.send, 1, 1)[0]]
        return said, seen == [MPI.ERR_PROC_FAILED] * 3

    assert run(program, 3, fail=["rank=1@0s"]).values == [(["failed"] * 3, True), None, (["failed"] * 3, True)]


@pytest.mark.parametrize("call", ["Iagree", "Ishrink"])
def test_non_blocking_forms_overlap_with_computation(call: str):
    """The MPI library does it by itself: the wait after a long computation costs nothing."""

    def program() -> tuple[float, str]:
        import numpy as np
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        flag = np.array([~(1 << world.rank)], "i4")
        made, request = (None, world.Iagree(flag)) if call == "Iagree" else world.Ishrink()
        time.sleep(1)
        request.Wait()
        waited = MPI.Wtime()
        return waited, str(flag[0]) if made is None else str(made.allreduce(1))

    result = run(program, 16, fail=["rank=5@0s"])
    said = str(~0xFFDF) if call == "Iagree" else "15"
    if call == "Iagree":  # nobody had acknowledged
        assert result.aborted
        result = run(program, 16)
        said = str(~0xFFFF)
    assert {value for value in result.values if value is not None} == {(1.0, said)}


def test_an_injected_failure_that_never_comes_is_a_warning():
    def program() -> None:
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()

    sites = ["rank=1 before its 2nd Barrier", "rank=2@1s", "rank=3@1us"]
    result = run(lambda: attempt(program)[0], 4, fail=sites)
    assert result.ended == "finished"
    (warning,) = result.warnings
    assert "never injected, because the ranks had ended or made no such call" in warning
    assert warning.endswith("rank=2@1s; rank=1 before its 2nd Barrier")
