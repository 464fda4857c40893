import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.report.waits import PARTS

LATE_S = 1e-3
LATE_PS = 10**9
BIG = 1 << 20  # above the eager threshold
MACHINE = {
    "topology": {"type": "switch"},
    "network": {"latency": "1us", "bandwidth": "1GBps", "send_overhead": "2us", "recv_overhead": "3us"},
}


def table(program, ranks=4, **more):
    result = simulate(program, ranks=ranks, trace=True, **more)
    waits = result.tables["waits"]
    rows = [{name: waits.picoseconds[f"{name}_s"][rank] for name in (*PARTS, "total")} for rank in range(len(waits))]
    ends = result.tables["ranks"].picoseconds["end_s"]
    assert [sum(row[name] for name in PARTS) for row in rows] == [row["total"] for row in rows] == ends
    assert all(time_ps >= 0 for row in rows for time_ps in row.values())
    return rows


def late_sender(size_bytes):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            time.sleep(LATE_S)
            comm.Send(bytes(size_bytes), dest=1)
        else:
            comm.Recv(bytearray(size_bytes), source=0)

    return program


@pytest.mark.parametrize("size_bytes", [0, 8, BIG])
@pytest.mark.parametrize("shards", [1, 2])
def test_a_receive_waits_for_a_late_sender(size_bytes, shards):
    _, receiver = table(late_sender(size_bytes), ranks=2, shards=shards)
    assert receiver["late_sender"] == LATE_PS
    assert receiver["late_receiver"] == receiver["imbalance"] == receiver["computing"] == 0
    assert receiver["transfer"] == receiver["total"] - LATE_PS  # this machine's processors cost nothing


def test_what_messages_cost_is_overhead_and_transfer():
    sender, receiver = table(late_sender(1000), ranks=2, machine=MACHINE)
    # The receiver waits for 2 us of the sender's processor, 1 us on the wire, and 1 us of latency.
    expected = {"computing": LATE_PS, "overhead": 2_000_000, "total": LATE_PS + 2_000_000}
    assert sender == dict.fromkeys(PARTS, 0) | expected
    expected = {"late_sender": LATE_PS, "transfer": 4_000_000, "overhead": 3_000_000, "total": LATE_PS + 7_000_000}
    assert receiver == dict.fromkeys(PARTS, 0) | expected


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize(("name", "size_bytes"), [("Send", BIG), ("Ssend", 8)])
def test_a_send_that_is_answered_waits_for_a_late_receiver(name, size_bytes, shards):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            getattr(comm, name)(bytes(size_bytes), dest=1)
        else:
            time.sleep(LATE_S)
            comm.Recv(bytearray(size_bytes), source=0)

    sender, receiver = table(program, ranks=2, shards=shards)
    assert sender["late_receiver"] == LATE_PS
    assert sender["late_sender"] == sender["imbalance"] == sender["computing"] == 0
    assert receiver["computing"] == LATE_PS
    assert receiver["late_sender"] == receiver["late_receiver"] == 0


@pytest.mark.parametrize("collectives", ["messages", "arrays"])
@pytest.mark.parametrize("name", ["Barrier", "Allreduce"])
def test_all_wait_for_the_last_one_in_a_collective(name, collectives):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 2:
            time.sleep(LATE_S)
        getattr(comm, name)(*([] if name == "Barrier" else [bytes(8), bytearray(8)]))

    rows = table(program, collectives=[collectives])
    assert [row["imbalance"] for row in rows] == [LATE_PS, LATE_PS, 0, LATE_PS]
    assert [row["late_sender"] + row["late_receiver"] + row["other"] for row in rows] == [0] * 4


@pytest.mark.parametrize(
    ("call", "late", "expected"),
    [
        ("bcast", 0, [0, 1, 1, 1]),
        ("bcast", 3, [0, 0, 0, 0]),
        ("gather", 3, [1, 0, 0, 0]),
        ("gather", 0, [0, 0, 0, 0]),
        ("Scan", 1, [0, 0, 1, 1]),
    ],
)
def test_a_rooted_collective_waits_for_those_that_it_needs(call, late, expected):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == late:
            time.sleep(LATE_S)
        getattr(comm, call)(*([bytes(8), bytearray(8)] if call == "Scan" else [1]))

    assert [row["imbalance"] for row in table(program)] == [LATE_PS * share for share in expected]


def test_a_request_waits_only_where_it_is_waited_for():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            time.sleep(LATE_S)
            comm.Send(b"x", dest=1)
        else:
            request = comm.Irecv(bytearray(1), source=0)
            time.sleep(LATE_S / 4)
            request.Wait()

    receiver = table(program, ranks=2)[1]
    assert (receiver["computing"], receiver["late_sender"]) == (LATE_PS // 4, LATE_PS // 4 * 3)


@pytest.mark.parametrize("shards", [1, 2])
def test_a_collective_that_was_begun_before_waits_for_the_last_one(shards):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 2:
            time.sleep(LATE_S)
        request = comm.Ibarrier()
        time.sleep(LATE_S / 4)
        request.Wait()

    rows = table(program, shards=shards)
    assert [row["imbalance"] for row in rows] == [LATE_PS // 4 * share for share in (3, 3, 0, 3)]


def test_a_run_without_a_trace_has_no_waits(tmp_path):
    result = simulate(late_sender(8), ranks=2)
    assert "waits" not in result.tables
    with pytest.raises(ConfigError, match="not traced"):
        result.draw_waits(tmp_path / "waits.png")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ring", "big ring", "Barrier", "allreduce", "Bcast", "Ibarrier", "probe", "split"]),
        st.lists(st.integers(0, 5), min_size=3, max_size=3),
    ),
    max_size=6,
)


@settings(max_examples=25 if CAMPAIGN else 10, deadline=None)
@given(STEPS, st.sampled_from([1, 2]), st.sampled_from(["arrays", "messages"]))
def test_the_parts_add_up_whatever_the_program_does(steps, shards, collectives):
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for what, sleeps in steps:
            time.sleep(sleeps[comm.rank] * 1e-4)
            if "ring" in what:
                size_bytes = BIG if "big" in what else 8
                request = comm.Isend(bytes(size_bytes), dest=right)
                comm.Recv(bytearray(size_bytes), source=left)
                request.Wait()
            elif what == "probe":
                request = comm.isend("x", dest=right)
                comm.probe(source=left)
                comm.recv(source=left)
                request.wait()
            elif what == "Bcast":
                comm.Bcast(bytearray(100), root=1)
            elif what == "Ibarrier":
                request = comm.Ibarrier()
                time.sleep(1e-4)
                request.Wait()
            elif what == "split":
                comm.Split(comm.rank % 2).Free()
            else:
                getattr(comm, what)(*([] if what == "Barrier" else [1]))

    rows = table(program, ranks=3, shards=shards, collectives=[collectives], machine=MACHINE)
    assert rows == table(program, ranks=3, machine=MACHINE)


def test_a_picture_has_a_bar_for_each_rank(tmp_path):
    result = simulate(late_sender(8), ranks=2, trace=True)
    result.draw_waits(tmp_path / "waits.svg")
    assert ">late sender</text>" in (tmp_path / "waits.svg").read_text()
    result.draw_waits(tmp_path / "waits.csv")
    assert (tmp_path / "waits.csv").read_text().splitlines()[0].split(",")[:2] == ["rank", "computing_s"]
