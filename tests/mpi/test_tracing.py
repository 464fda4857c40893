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
MACHINES = {"gige": "gige", "shmem": "shmem", "shared links": LINKS}


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
        assert result.tables == plain.tables


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
    assert (receive.name, receive.end_ps, receive.detail) == ("Recv", None, "did not return")
    ((rank, time_ps, kind, text),) = trace.marks
    assert (rank, time_ps, kind) == (1, 0, "aborted")
    assert "Abort(4)" in text
