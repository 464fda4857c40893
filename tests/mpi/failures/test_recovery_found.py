"""What random programs have found (see `test_recovery_properties`), each as a program of its own."""

import io
from typing import Any

import numpy as np
import pytest

from xsim_py import simulate

OVERHEADS = {"network": {"latency": "2us", "bandwidth": "8Gbps", "send_overhead": "300ns", "recv_overhead": "700ns"}}
HEARTBEAT = {"mpi.detector.type": "heartbeat", "mpi.detector.period": "4us", "mpi.detector.timeout": "34us"}


def run(program: Any, ranks: int, **options: Any) -> Any:
    return simulate(program, ranks=ranks, ft=True, trace=True, stdout=io.StringIO(), stderr=io.StringIO(), **options)


@pytest.mark.parametrize("members", [(0, 2), (1, 4, 7), (7, 4, 1)])
def test_members_that_are_equally_spaced_agree_and_shrink(members):
    """Their ranks in the whole run are a range with a step, in which a place is no difference."""

    def program():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank not in members:
            return None
        comm = world.Create_group(world.group.Incl(members))
        return comm.Agree(~(1 << comm.rank)), comm.Shrink().rank

    result = run(program, 9)
    assert result.ended == "finished"
    everyone = -(1 << len(members))
    assert [result.values[rank] for rank in members] == [(everyone, place) for place in range(len(members))]


@pytest.mark.parametrize("failures", [[], ["rank=0@21us"], ["rank=2@3us"], ["rank=0@0us", "rank=1@25us"]], ids=str)
@pytest.mark.parametrize("agree", ["two_phase", "early_returning"])
def test_many_agreements_in_progress_at_once_all_end(agree, failures):
    """A member that was forgotten as soon as two more were entered left the others of the first waiting."""

    def program():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        flags = [np.array([~(1 << world.rank) & ~(number << 10)], "i4") for number in range(4)]
        requests = [world.Iagree(flag) for flag in flags]
        made, request = world.Ishrink()
        errors = []
        for each in [*requests, request]:
            try:
                each.Wait()
                errors.append(0)
            except MPI.Exception as error:
                errors.append(error.Get_error_class())
        return [int(flag[0]) for flag in flags], errors, made.size

    overrides = {"mpi.ulfm.agree": agree}
    result = run(program, 5, machine=OVERHEADS, fail=failures, set=overrides)
    assert result.ended == "finished", result.report
    survivors = [value for value in result.values if value is not None]
    assert len(survivors) == 5 - len(failures)
    assert all(value == survivors[0] for value in survivors)
    flags, errors, size = survivors[0]
    *errors, of_shrink = errors
    assert errors == sorted(errors)  # who is missing in one is missing in those after it
    assert of_shrink == 0
    assert size == len(survivors)
    assert [~flag >> 10 for flag in flags] == [0, 1, 2, 3]


def test_what_an_observer_has_noticed_is_found_out_again_when_it_dies_before_it_could_tell():
    """Rank 1 misses the heartbeats of rank 0, and dies of the error that this gives it."""

    def program():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        try:
            world.Barrier()
        except MPI.Exception:
            if world.rank == 1:
                raise RuntimeError("dies of it") from None
        return world.Shrink().size

    result = run(program, 4, machine=OVERHEADS, fail=["rank=0@1ns"], set=HEARTBEAT)
    assert result.ended == "finished", result.report
    assert result.values == [None, None, 2, 2]
    died = {mark.rank: mark.time_ps for mark in result.trace.marks if mark.kind == "failed"}
    assert not [message for message in result.trace.messages if message.sent_ps > died.get(message.source, 10**15)]
    # Two more timeouts: rank 2 misses rank 1 first, and then whom rank 1 had looked after.
    known = [mark for mark in result.trace.marks if mark.kind == "learned" and mark.text.startswith("rank 0")]
    assert [mark.rank for mark in known] == [1, 2, 3]
    assert known[1].time_ps > died[1] + 34 * 10**6


def test_notices_that_a_rank_has_not_come_to_die_with_it():
    """Each costs its processor 300 ns; it revokes and dies at once, which is before the second has left."""

    def revoke():
        import time

        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank == 3:
            world.Revoke()
        elif world.rank == 2:  # hears of it at 3.764 us, and passes it on
            time.sleep(3.9e-6)
            raise RuntimeError("dies while its library is at work")
        else:
            time.sleep(1e-3)
        return world.Is_revoked()

    result = run(revoke, 8, machine=OVERHEADS)
    died_ps = next(mark.time_ps for mark in result.trace.marks if mark.kind == "failed")
    assert died_ps == 3_900_000
    assert all(message.sent_ps <= died_ps for message in result.trace.messages if message.source == 2)
    assert all(value for rank, value in enumerate(result.values) if rank != 2)


@pytest.mark.parametrize("revoked_s", [0.5e-6, 0.7e-6, 0.9e-6, 1.1e-6, 1.3e-6])
def test_a_send_that_waits_for_its_turn_hears_of_a_revocation(revoked_s):
    """It was asked for before the news came, and began to wait for its partner afterwards."""

    def program():
        import time

        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank == 1:
            time.sleep(revoked_s)
            world.Revoke()
            return None
        time.sleep(3e-6)
        begun = world.Issend(np.zeros(8), 1)
        try:
            world.Ssend(np.zeros(8), 1)
        except MPI.Exception as error:
            return begun is not None, error.Get_error_class() == MPI.ERR_REVOKED
        return "nobody has received it"

    result = run(program, 2, machine=OVERHEADS)
    assert (result.ended, result.values[0]) == ("finished", (True, True)), result.report


def test_a_collective_in_progress_ends_with_a_rank_that_raises():
    """As it does with one that is killed: its fiber sent on after the death."""

    def program():
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        request = world.Ialltoall(np.zeros(6), np.zeros(6))
        if world.rank == 2:
            raise RuntimeError("an error of the program")
        try:
            request.Wait()
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_PROC_FAILED
        return "a dead rank has taken part"

    result = run(program, 6, machine=OVERHEADS)
    assert result.values == [True, True, None, True, True, True]
    died_ps = next(mark.time_ps for mark in result.trace.marks if mark.kind == "failed")
    assert all(message.sent_ps <= died_ps for message in result.trace.messages if message.source == 2)


def test_a_receive_that_is_ahead_of_the_queue_takes_nothing_if_the_process_ends_before():
    """A thread is in the overhead of a receive, so its next call is ahead of the queue, when another one ends all."""

    def program(lives_s):
        import os
        import threading
        import time

        from mpi4py import MPI

        world = MPI.COMM_WORLD
        data = np.zeros(4000)
        if world.rank == 0:
            threading.Thread(target=lambda: [world.Recv(data, source) for source in (1, 2)]).start()
            time.sleep(lives_s)
            os._exit(1)
        try:
            world.Send(data, 0)
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_PROC_FAILED
        return None

    machine = {"network": {**OVERHEADS["network"], "eager_threshold": "1KiB"}}
    first, second = run(program, 3, machine=machine, args=[1.0]).trace.messages
    assert first.kind == second.kind == "rendezvous"
    assert second.taken_ps == first.arrival_ps + 700_000
    died_ps = second.taken_ps - 300_000
    result = run(program, 3, machine=machine, args=[died_ps / 1e12])
    assert [mark.time_ps for mark in result.trace.marks if mark.kind == "failed"] == [died_ps]
    assert [message.taken_ps for message in result.trace.messages] == [first.taken_ps, None]
    assert result.trace.messages[1].arrival_ps is None
    assert result.values[1:] == [None, True]


@pytest.mark.parametrize("how", ["raises", "exits", "aborts", "lacks Finalize"])
@pytest.mark.parametrize("size", [4, 4000], ids=["eager", "rendezvous"])
def test_a_rank_whose_end_ends_the_job_takes_nothing_more(how: str, size: int):
    """Without fault tolerance: the others run until the launcher notifies them, but its process no longer exists."""

    def program():
        import os
        import time

        from mpi4py import MPI

        world = MPI.COMM_WORLD
        data = np.zeros(size)
        if world.rank == 1:
            world.Isend(data, 0)
            time.sleep(1)
        request = world.Irecv(data, 1)
        time.sleep(1e-6)
        if how == "raises":
            raise RuntimeError("an error of the program")
        if how == "exits":
            os._exit(1)
        if how == "aborts":
            world.Abort(1)
        return request

    machine = {"network": {**OVERHEADS["network"], "eager_threshold": "1KiB"}}
    options: Any = {"stdout": io.StringIO(), "stderr": io.StringIO(), "machine": machine, "trace": True}
    if how == "lacks Finalize":
        options["compute"] = "none"

        def unfinalized():
            import mpi4py

            mpi4py.rc.finalize = False
            return program()

        result = simulate(unfinalized, ranks=2, **options)
    else:
        result = simulate(program, ranks=2, **options)
    assert result.ended == "aborted", result.report
    (message,) = result.trace.messages
    assert message.taken_ps is None
    assert message.arrival_ps is None or message.arrival_ps > message.sent_ps
