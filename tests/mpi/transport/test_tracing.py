"""The trace of a run says what happened, when, and what could have caused it, and changes nothing."""

import itertools

import numpy as np
import pytest

from xsim_py import simulate

LINKS = {
    "topology": {"type": "torus", "dims": [4]},
    "network": {
        "latency": "1us",
        "per_hop": "100ns",
        "bandwidth": "8Gbps",
        "eager_threshold": "4KiB",
        "contention": "links",
    },
}
FLOWS = {**LINKS, "network": {**LINKS["network"], "contention": "flows"}}
MACHINES = {"gige": "gige", "shmem": "shmem", "shared links": LINKS, "fair shares": FLOWS}


def everything():
    """Messages of every kind: both protocols, unexpected, probed, with wildcards, in collectives and never received."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    long = np.zeros(60_000)
    if rank == 0:
        comm.Send(long, 1)
        comm.Ssend(long[:2], 1, tag=4)
        comm.send("x", 1, tag=9)
    elif rank == 1:
        comm.Recv(long, 0)
        comm.Recv(long, MPI.ANY_SOURCE, tag=4)
        comm.mprobe(tag=9).recv()
    request = comm.Irecv(long, (rank - 1) % size)
    comm.Send(long[:1], (rank + 1) % size)
    request.Wait()
    comm.allreduce(rank)
    comm.Iallreduce(long[:3].copy(), np.zeros(3)).Wait()
    part = comm.Split(rank % 2)
    part.Barrier()
    if rank == 2:
        comm.Send(long[:5], 0, tag=77)


@pytest.fixture(scope="module", params=MACHINES, name="runs")
def traced_runs(request):
    """Return the runs of `everything` on one machine: without a trace, and traced in 1, 2 and 3 shards."""
    machine = MACHINES[request.param]
    plain = simulate(everything, ranks=4, machine=machine)
    return plain, [simulate(everything, ranks=4, machine=machine, shards=shards, trace=True) for shards in (1, 2, 3)]


def test_a_trace_changes_nothing(runs):
    plain, traced = runs
    assert plain.trace is None
    for result in traced:
        assert (result.digest, result.events, result.messages, result.virtual_time_s) == (
            plain.digest,
            plain.events,
            plain.messages,
            plain.virtual_time_s,
        )
        assert result.tables == {**plain.tables, "waits": result.tables["waits"]}


def test_a_trace_is_the_same_for_every_number_of_shards(runs):
    first, *others = (result.trace for result in runs[1])
    for other in others:
        assert (other.spans, other.messages, other.marks) == (first.spans, first.messages, first.marks)


def test_every_message_is_in_it_with_its_bytes(runs):
    plain, (result, *_) = runs
    assert len(result.trace.messages) == plain.messages
    assert sum(message.size_bytes for message in result.trace.messages) == plain.bytes
    senders = [message.source for message in result.trace.messages]
    assert [senders.count(rank) for rank in range(4)] == plain.tables["ranks"]["messages"]


def test_messages_leave_arrive_and_are_taken_in_this_order(runs):
    _, (result, *_) = runs
    kinds = set()
    for message in result.trace.messages:
        kinds.add(message.kind)
        assert message.arrival_ps > message.sent_ps
        if message.tag == 77:
            assert message.taken_ps is None
        elif message.kind == "rendezvous":
            assert message.sent_ps < message.taken_ps < message.arrival_ps
        else:
            assert message.taken_ps >= message.arrival_ps
    assert kinds == {"eager", "synchronous", "rendezvous"}


def test_the_calls_of_a_rank_follow_each_other(runs):
    _, (result, *_) = runs
    ends = result.tables["ranks"]["end_s"]
    for rank in range(4):
        calls = [span for span in result.trace.spans if span.rank == rank]
        assert all(span.start_ps <= span.end_ps for span in calls)
        assert all(one.end_ps <= two.start_ps for one, two in itertools.pairwise(calls))
        assert calls[-1].end_ps <= ends[rank] * 1e12 + 1
        names = [span.name for span in calls]
        last = 9 if rank == 2 else 8
        assert names[-last:][:8] == ["Irecv", "Send", "Wait", "allreduce", "Iallreduce", "Wait", "Split", "Barrier"]
        assert "Get_rank" not in names


def test_a_receive_ends_when_its_message_is_there():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        comm.Send(b"12345678", 1) if comm.rank == 0 else comm.Recv(bytearray(8), 0)

    (message,) = (trace := simulate(program, ranks=2, trace=True).trace).messages
    assert message[:6] == (0, 1, 0, 8, 2, False)
    (call,) = (span for span in trace.spans if span.name == "Recv")
    assert (call.rank, call.end_ps) == (1, message.arrival_ps)
    assert message.taken_ps == message.arrival_ps == message.sent_ps + 20_064_000


def test_messages_of_collectives_say_so():
    def program():
        from mpi4py import MPI

        MPI.COMM_WORLD.Bcast(bytearray(3))
        MPI.COMM_WORLD.Dup().barrier()

    messages = simulate(program, ranks=3, trace=True).trace.messages
    assert all(message.collective for message in messages)
    assert {message.call for message in messages} >= {"Comm.Bcast", "Comm.Dup", "Comm.Barrier"}
    assert len({message.communicator for message in messages if message.call == "Comm.Barrier"}) == 1
    assert {message.communicator for message in messages if message.call == "Comm.Bcast"} == {2}


def test_an_error_is_in_the_span_of_its_call():
    def program():
        from mpi4py import MPI

        with pytest.raises(MPI.Exception):
            MPI.COMM_SELF.Send(b"", 3)
        with pytest.raises(TypeError):
            MPI.COMM_SELF.Send(5, 0)

    spans = simulate(program, ranks=1, trace=True).trace.spans
    assert [span.detail for span in spans] == ["ERR_RANK", "TypeError"]


def test_calls_that_did_not_return_are_cut_where_their_rank_ended():
    def program():
        from mpi4py import MPI

        if MPI.COMM_WORLD.Get_rank() == 0:
            MPI.COMM_WORLD.Recv(bytearray(1), 1)
        MPI.COMM_WORLD.Abort(4)

    trace = simulate(program, ranks=2, trace=True).trace
    abort, receive = sorted(trace.spans, key=lambda span: span.name)
    assert (abort.name, abort.end_ps, abort.detail) == ("Abort", 0, "did not return")
    assert (receive.name, receive.end_ps, receive.detail) == ("Recv", 20_000_000, "did not return")
    ((rank, time_ps, kind, text, *_),) = trace.marks
    assert (rank, time_ps, kind) == (1, 0, "aborted")
    assert "Abort(4)" in text


def test_a_call_that_would_never_return_has_no_end():
    def program():
        from mpi4py import MPI

        MPI.COMM_WORLD.Recv(bytearray(1), 0)

    result = simulate(program, ranks=1, trace=True)
    assert result.ended == "stalled"
    ((name, end_ps),) = {(span.name, span.end_ps) for span in result.trace.spans}
    assert (name, end_ps) == ("Recv", None)


# ------------------------------------------------------------------------------------------------ with failures


def recovering():
    """Exchange with neighbours and agree on a number, and again without those who died meanwhile."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    done = 0
    while done < 4:
        try:
            time.sleep(30e-6)
            room = np.zeros(200)
            comm.Sendrecv(room, (comm.rank + 1) % comm.size, 0, room.copy(), (comm.rank - 1) % comm.size, 0)
            done = least(comm, done + 1)
        except MPI.Exception:
            comm.Revoke()
            comm = comm.Shrink()
            done = least(comm, done)
    return comm.size


def least(comm, number):
    """Return the smallest number that a member has given."""
    from mpi4py import MPI

    found = np.empty(1, int)
    comm.Allreduce(np.array([number]), found, MPI.MIN)
    return int(found[0])


@pytest.fixture(scope="module", params=["timeout", "heartbeat"], name="failing")
def traced_failures(request):
    """Return the traced runs of `recovering` in 1, 2 and 3 shards, rank 5 of 12 dying, and the run without a trace."""
    options = {"ranks": 12, "fail": ["rank=5@300us"], "set": {"mpi.detector.type": request.param}}
    plain = simulate(recovering, **options)
    return plain, [simulate(recovering, **options, shards=shards, trace=True) for shards in (1, 2, 3)]


def test_a_trace_of_a_failure_changes_nothing_and_is_the_same_in_every_shard(failing):
    plain, traced = failing
    assert {value for value in plain.values if value is not None} == {11}
    first = traced[0].trace
    for result in traced:
        assert (result.digest, result.events, result.messages) == (plain.digest, plain.events, plain.messages)
        trace = result.trace
        assert (trace.spans, trace.messages, trace.marks) == (first.spans, first.messages, first.marks)


def test_the_dead_do_nothing_more(failing):
    _, (result, *_) = failing
    (death,) = (mark for mark in result.trace.marks if mark.kind == "failed")
    assert (death.rank, death.time_ps) == (5, 300_000_000)
    last = [span for span in result.trace.spans if span.rank == 5][-1]
    assert (last.end_ps, last.detail) == (death.time_ps, "did not return")
    assert max(message.sent_ps for message in result.trace.messages if message.source == 5) < death.time_ps
    for message in result.trace.messages:
        if message.dest == 5 and message.arrival_ps is not None and message.arrival_ps >= death.time_ps:
            assert message.taken_ps is None


def test_nobody_learns_of_a_failure_or_revocation_before_it_could_reach_it(failing):
    _, (result, *_) = failing
    trace = result.trace
    death_ps = next(mark.time_ps for mark in trace.marks if mark.kind == "failed")
    learned = {mark.rank: mark.time_ps for mark in trace.marks if mark.kind == "learned"}
    assert set(learned) == set(range(12)) - {5}
    assert min(learned.values()) > death_ps
    revoked = {mark.rank: mark.time_ps for mark in trace.marks if mark.kind == "revoked"}
    assert set(revoked) == set(range(12)) - {5}
    asked = {span.rank: span.start_ps for span in reversed(trace.spans) if span.name == "Revoke"}
    for rank, time_ps in revoked.items():
        told = [
            message.arrival_ps for message in trace.messages if message.dest == rank and message.call == "revocation"
        ]
        assert time_ps == asked.get(rank) or any(arrival_ps <= time_ps for arrival_ps in told)


def test_calls_that_failed_say_with_which_error(failing):
    _, (result, *_) = failing
    details = {span.detail for span in result.trace.spans if span.detail}
    assert details <= {"ERR_PROC_FAILED", "ERR_REVOKED", "did not return"}
    assert "ERR_PROC_FAILED" in details


def test_a_job_that_is_started_again_has_one_trace():
    def program():
        import time

        from mpi4py import MPI

        time.sleep(50e-6)
        MPI.COMM_WORLD.Barrier()

    result = simulate(program, ranks=3, fail=["rank=1@40us"], restart="on-abort,delay=1ms", trace=True)
    assert (result.ended, result.restarts) == ("finished", 1)
    trace = result.trace
    kinds = [mark.kind for mark in trace.marks]
    assert (kinds.count("restart"), kinds.count("failed")) == (1, 1)
    (again,) = (mark for mark in trace.marks if mark.kind == "restart")
    first = [span for span in trace.spans if span.start_ps < again.time_ps]
    assert all(span.end_ps < again.time_ps and span.detail == "did not return" for span in first)
    assert len(trace.spans) - len(first) == 3
    rows = result.timeline_text(width=109).splitlines()[2:5]
    assert all(row[8 + 50] == " " for row in rows)
