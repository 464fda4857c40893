"""Files of MPI in simulated runs: what calls cost, what is in the files, and what is left where a rank dies."""

from contextlib import chdir
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from tests.process.launch import Launched, launch

US, MS = 10**6, 10**9
LATENCY, BYTE = MS, 1000
MACHINE = {"network": {"latency": "1us"}, "storage": {"latency": "1ms", "bandwidth": "1GB/s"}}
REAL = {"network": {"latency": "1us"}}

PRELUDE = """
import os
import time
import numpy as np

def now():
    return round(MPI.Wtime() * 1e12)

def opened(name="data", amode=MPI.MODE_CREATE | MPI.MODE_RDWR):
    return MPI.File.Open(comm, name, amode)

def together():
    time.sleep(int(MPI.Wtime()) + 1 - MPI.Wtime())
    return now()
"""


def run(folder: Path, text: str, *, machine: Any = MACHINE, **told: Any) -> Launched:
    """Simulate a program in its folder; ``now()`` is the time in ps, ``together()`` the same time at all ranks."""
    with chdir(folder):
        done = launch(folder, PRELUDE + dedent(text), machine=machine, **told)
    assert done.result.ended != "failed", done.err
    return done


def numbers(done: Launched) -> list[list[int]]:
    assert done.result.ended == "finished", done.err + str(done.result.report)
    return sorted([int(word) for word in line.split()] for line in done.lines)


# ------------------------------------------------------------------------------------------------------- times


def test_rank_0_opens_first_and_then_all_others(tmp_path: Path):
    done = run(tmp_path, "opened(); print(rank, now())", ranks=2)
    # There and back twice; between that, rank 0's operation of the storage, and then the others'.
    assert numbers(done) == [[0, 2 * LATENCY + 3 * US], [1, 2 * LATENCY + 4 * US]]


def test_independent_writes_share_the_bandwidth(tmp_path: Path):
    text = """
    file = opened()
    begin = together()
    file.Write_at(1000 * rank, bytes(1000))
    print(rank, now() - begin)
    """
    assert numbers(run(tmp_path, text, ranks=3)) == [[rank, LATENCY + (rank + 1) * 1000 * BYTE] for rank in range(3)]


def test_pieces_with_holes_are_read_changed_and_written_back(tmp_path: Path):
    text = """
    file = opened()
    file.Set_size(100_000)
    file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_vector(10, 100, 1000).Commit())
    begin = together()
    file.Write(bytes(1000))
    written = now()
    file.Read_at(0, bytearray(1000))
    print(written - begin, now() - written)
    """
    span = LATENCY + 9100 * BYTE
    assert numbers(run(tmp_path, text)) == [[2 * span, span]]


def test_without_data_sieving_each_piece_is_an_operation(tmp_path: Path):
    text = """
    file = opened()
    file.info = MPI.Info.Create({"romio_ds_write": "disable", "romio_ds_read": "DISABLE", "unknown": "ignored"})
    file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_vector(10, 100, 1000).Commit())
    begin = together()
    file.Write(bytes(1000))
    written = now()
    file.Read_at(0, bytearray(1000))
    print(written - begin, now() - written)
    """
    assert numbers(run(tmp_path, text)) == [[10 * LATENCY + 1000 * BYTE] * 2]


def test_ranks_whose_pieces_meet_write_and_read_in_two_phases(tmp_path: Path):
    text = """
    file = opened()
    file.Set_view(100 * rank, MPI.BYTE, MPI.BYTE.Create_vector(10, 100, 100 * comm.size).Commit())
    begin = together()
    file.Write_all(bytes(1000))
    written, again = now(), together()
    file.Read_at_all(0, bytearray(1000))
    print(rank, written - begin, now() - again)
    """
    # Rank 0 has one operation for all, after two messages: the ranges, and the data or what is wanted. Rank 1 hears of
    # what came of it, or gets its data.
    first = LATENCY + 2000 * BYTE + 2 * US
    assert numbers(run(tmp_path, text, ranks=2)) == [[0, first, first], [1, first + US, first + US]]


@pytest.mark.parametrize(
    ("hints", "operations"),
    [({}, 1), ({"cb_nodes": "2"}, 2), ({"romio_cb_write": "disable"}, 8), ({"cb_buffer_size": "50000"}, 8)],
)
def test_hints_say_who_writes_how_much_at_once(tmp_path: Path, hints: dict[str, str], operations: int):
    text = f"""
    file = MPI.File.Open(comm, "data", MPI.MODE_CREATE | MPI.MODE_RDWR, MPI.Info.Create({hints or {"cb_nodes": "1"}}))
    file.Set_view(1000 * rank, MPI.BYTE, MPI.BYTE.Create_vector(100, 1000, 1000 * comm.size).Commit())
    file.Write_all(bytes(100_000))
    print(file.info["cb_nodes"])
    """
    done = run(tmp_path, text, ranks=4)
    asked = sum(row[1] for row in done.result.tables["storage"].rows())
    assert asked == 4 + operations  # all have opened it
    assert (tmp_path / "data").stat().st_size == 400_000


def test_ranges_that_do_not_meet_are_written_by_each_rank(tmp_path: Path):
    text = """
    file = opened()
    begin = together()
    file.Write_at_all(1000 * rank, bytes(1000))
    print(rank, now() - begin)
    """
    took = numbers(run(tmp_path, text, ranks=2))
    assert took == [[rank, US + LATENCY + (rank + 1) * 1000 * BYTE] for rank in range(2)]


def test_the_shared_pointer_is_a_round_trip_to_rank_0(tmp_path: Path):
    text = """
    file = opened()
    begin = together()
    file.Get_position_shared()
    print(rank, now() - begin)
    """
    assert numbers(run(tmp_path, text, ranks=3)) == [[0, 0], [1, 2 * US], [2, 2 * US]]


def test_what_goes_on_in_the_background_costs_no_time_here(tmp_path: Path):
    text = """
    file = opened()
    begin = together()
    requests = [file.Iwrite_at(5000 * part, bytes(5000)) for part in range(3)]
    started = now()
    file.Write_all_begin(bytes(10))
    time.sleep(0.1)
    waited = now()
    MPI.Request.Waitall(requests)
    file.Write_all_end(bytes(10))
    print(started - begin, now() - waited)
    """
    assert numbers(run(tmp_path, text)) == [[0, 0]]


def test_a_file_of_this_computer_costs_the_time_of_a_look(tmp_path: Path):
    text = """
    file = opened()
    begin = together()
    file.Write(bytes(10**6))
    print(now() - begin)
    while file.Get_size() < 10**6:
        pass
    """
    assert numbers(run(tmp_path, text, machine={**REAL, "mpi": {"poll_time": "3us"}})) == [[3 * US]]


# ------------------------------------------------------------------------------------------------------ contents


@pytest.mark.parametrize("machine", [MACHINE, REAL], ids=["storage", "this computer"])
def test_open_and_mpi_see_the_same_files(tmp_path: Path, machine: Any):
    text = """
    if rank == 0:
        with open("data", "w") as plain:
            plain.write("0123456789")
    comm.Barrier()
    file = opened(amode=MPI.MODE_RDWR)
    found = bytearray(4)
    file.Read_at(2 * rank, found)
    comm.Barrier()
    file.Write_at(3 * rank, b"abc"[:2])
    file.Close()
    comm.Barrier()
    print(rank, found.decode(), open("data").read(), os.path.getsize("data"))
    os.makedirs("folder", exist_ok=True)
    os.chdir("folder")
    MPI.File.Open(MPI.COMM_SELF, f"inner{rank}", MPI.MODE_CREATE | MPI.MODE_WRONLY).Close()
    comm.Barrier()
    print(rank, sorted(os.listdir(".")))
    comm.Barrier()
    if rank == 0:
        MPI.File.Delete("../data")
    """
    done = run(tmp_path, text, machine=machine, ranks=2)
    assert done.result.ended == "finished", done.err
    assert sorted(done.lines) == [
        "0 0123 ab2ab56789 10",
        "0 ['inner0', 'inner1']",
        "1 2345 ab2ab56789 10",
        "1 ['inner0', 'inner1']",
    ]
    assert not (tmp_path / "data").exists()
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["inner0", "inner1"]


SHUFFLED = """
random = np.random.default_rng(SEED)
size, unit = comm.size, int(random.integers(1, 6))
# Each of 300 records belongs to one of the ranks, or to nobody.
owner = random.integers(-1, size, 300)
mine = np.flatnonzero(owner == rank)
info = MPI.Info.Create(HINTS)
file = MPI.File.Open(comm, "data", MPI.MODE_CREATE | MPI.MODE_RDWR, info)
record = MPI.BYTE.Create_contiguous(unit).Commit()
whole = record.Create_indexed_block(1, mine.tolist()).Create_resized(0, 300 * unit).Commit()
file.Set_view(5, MPI.BYTE, whole)
data = random.integers(1, 200, 2 * 300 * unit).astype("u1").reshape(2, 300, unit)
file.Write_all(np.ascontiguousarray(data[:, mine]))
file.Set_view()
expected = np.where((owner >= 0)[None, :, None], data, 0).ravel()
last = np.flatnonzero(expected)[-1] + 1 if expected.any() else 0
found = np.zeros(5 + expected.size + 9, "u1")
status = MPI.Status()
comm.Barrier()
file.Read_at_all(0, found, status)
assert status.Get_count(MPI.BYTE) == (5 + last if last else 0) == file.size
assert (found[5:5 + last] == expected[:last]).all() and not found[:5].any()
file.Set_view(5, MPI.BYTE, whole)
back = np.zeros((2, len(mine), unit), "u1")
file.Read_all(back)
assert (back == data[:, mine]).all()
back[:] = 0
file.Read_at(0, back)
assert (back == data[:, mine]).all()
"""
HINTS = [
    {},
    {"romio_cb_write": "disable", "romio_cb_read": "disable"},
    {"romio_cb_write": "enable", "romio_cb_read": "enable", "cb_buffer_size": "64", "cb_nodes": "3"},
    {"romio_cb_read": "disable", "ind_rd_buffer_size": "50", "cb_buffer_size": "100"},
    {"romio_cb_write": "disable", "ind_wr_buffer_size": "33", "romio_ds_read": "disable"},
]


@pytest.mark.sampled
@pytest.mark.parametrize("hints", HINTS, ids=str)
@pytest.mark.parametrize("machine", [MACHINE, REAL], ids=["storage", "this computer"])
def test_records_dealt_out_at_random_are_where_they_belong(tmp_path: Path, machine: Any, hints: dict[str, str]):
    for seed, ranks in enumerate((1, 2, 5)):
        text = SHUFFLED.replace("SEED", str(seed)).replace("HINTS", str(hints))
        done = run(tmp_path, text, machine=machine, ranks=ranks)
        assert done.result.ended == "finished", done.err
        (tmp_path / "data").unlink()


def test_where_ranks_write_the_same_bytes_together_the_last_rank_wins(tmp_path: Path):
    text = """
    file = opened()
    file.Write_at_all(2 * rank, bytes([65 + rank]) * 4)
    file.Close()
    """
    done = run(tmp_path, text, ranks=3)
    assert done.result.ended == "finished"
    assert (tmp_path / "data").read_text() == "AABBCCCC"


def test_external32_converts_elements_and_cuts_off_what_is_not_whole(tmp_path: Path):
    text = """
    file = opened()
    file.Set_view(0, MPI.LONG, MPI.LONG, "external32")
    file.Write(np.array([1, -2, 3]))
    file.Set_view(0, MPI.BYTE, MPI.BYTE)
    raw = np.zeros(12, "u1")
    file.Read(raw)
    print(*raw.view(">i4"), file.size)
    file.Set_size(10)
    file.Set_view(0, MPI.BYTE, MPI.BYTE, "external32")
    status, back = MPI.Status(), np.zeros(3, "i8")
    file.Read_at(0, back, status)
    print(*back, status.Get_count(MPI.LONG), status.Get_elements(MPI.LONG))
    """
    assert run(tmp_path, text).lines == ["1 -2 3 12", "1 -2 0 2 2"]


# ---------------------------------------------------------------------------------------------------- failures


def test_a_rank_that_dies_in_a_write_leaves_the_pieces_that_had_come(tmp_path: Path):
    text = """
    with open("data", "wb") as plain:
        plain.write(b"." * 4000)
    file = opened()
    file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_vector(4, 500, 1000).Commit())
    together()
    file.Write(b"x" * 2000)
    """
    # A read of the 3500 bytes, and then so many of those that are written back.
    for come in (0, 250, 1000, 2200):
        time = 1000 * MS + LATENCY + (3500 + come) * BYTE
        done = run(tmp_path, text, fail=[f"rank=0@{time}ps"], ft=False)
        assert done.result.ended == "aborted"
        expected = (b"x" * 500 + b"." * 500) * 2 + b"x" * 500 + b"." * 1500
        assert (tmp_path / "data").read_bytes() == expected[:come] + b"." * (4000 - come)


DYING = """
file = opened()
file.Set_view(100 * rank, MPI.BYTE, MPI.BYTE.Create_vector(10, 100, 100 * comm.size).Commit())
together()
try:
    file.Write_all(bytes([65 + rank]) * 1000)
    print(rank, "wrote")
except MPI.Exception as error:
    print(rank, error.Get_error_class() == MPI.ERR_PROC_FAILED)
file.Write_at(5_000, bytes([97 + rank]))
try:
    file.Write_shared(b"?")
except MPI.Exception as error:
    print(rank, error.Get_error_class() == MPI.ERR_PROC_FAILED)
"""


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_where_the_aggregator_dies_the_others_hear_of_it_and_can_go_on_alone(tmp_path: Path, shards: int):
    done = run(tmp_path, DYING, ranks=3, fail=["rank=0@1000.5ms"], ft=True, shards=shards)
    assert done.result.ended == "finished", done.err
    assert sorted(done.lines) == ["1 True", "1 True", "2 True", "2 True"]
    assert (tmp_path / "data").read_bytes()[14_000:].replace(b"\0", b"") == b"bc"


def test_ranks_that_wait_for_one_to_open_are_called(tmp_path: Path):
    text = "comm.recv(source=0) if rank == 2 else opened('results')"
    done = run(tmp_path, text, ranks=3)
    assert done.result.ended == "stalled"
    assert "File.Open() on file 'results' of 3 ranks" in done.result.report
    assert "rank 0 waits for rank 2 waits for rank 0" in done.result.report


def test_a_rank_that_writes_nothing_may_have_an_etype_of_another_size(tmp_path: Path):
    text = """
    pair = MPI.INT.Create_contiguous(2).Commit()
    file = opened()
    if rank == 1:
        file.Set_view(0, MPI.INT, MPI.INT.Create_contiguous(0).Commit())
    else:
        file.Set_view(0, pair, pair.Create_subarray([2], [1], [rank // 2]).Commit())
    file.Write_all(np.full(0 if rank == 1 else 2, rank, "i4"))
    file.Close()
    """
    run(tmp_path, text, ranks=3)
    assert np.fromfile(tmp_path / "data", "i4").tolist() == [0, 0, 2, 2]


def test_ranks_in_different_calls_of_a_file_are_named(tmp_path: Path):
    text = "file = opened(); file.Set_size(5) if rank else file.Close()"
    done = run(tmp_path, text, ranks=2)
    assert done.result.ended == "stalled"
    assert "collective mismatch on file 'data' of 2 ranks: rank 0 is in File.Close()" in done.result.report


# -------------------------------------------------------------------------------------------------- determinism

ALL_KINDS = """
file = opened()
file.Set_view(0, MPI.INT)
for turn in range(3):
    time.sleep((rank * 7 + turn * 3) % 5 * 1e-6)
    file.Write_shared(np.full(rank % 3 + 1, 10 * rank + turn, "i4"))
comm.Barrier()
file.Write_ordered(np.full(2, rank, "i4"))
requests = [file.Iwrite_shared(np.full(1, -rank, "i4")) for _ in range(2)]
MPI.Request.Waitall(requests)
comm.Barrier()
mine = MPI.INT.Create_vector(3, 1, comm.size).Create_resized(0, 12 * comm.size).Commit()
file.Set_view(4000 + 4 * rank, MPI.INT, mine)
file.Iwrite_all(np.arange(6, dtype="i4") + 100 * rank).Wait()
file.Read_all_begin(np.zeros(6, "i4"))
file.Read_all_end(np.zeros(6, "i4"))
file.Seek_shared(-1, MPI.SEEK_END)
print(rank, file.Get_position_shared(), now())
file.Sync()
file.Close()
if rank == 0:
    print(sum(open("data", "rb").read()))
    os.remove("data")
"""


@pytest.mark.parametrize("machine", [MACHINE, REAL], ids=["storage", "this computer"])
def test_any_number_of_shards_gives_the_same(tmp_path: Path, machine: Any):
    machine = {**machine, "machine": {"cores_per_node": 2}, "same_node": {"latency": "300ns"}}
    outcomes = []
    for shards in (1, 2, 3, 7):
        done = run(tmp_path, ALL_KINDS, machine=machine, ranks=8, shards=shards)
        assert done.result.ended == "finished", done.err
        outcomes.append((done.result.digest, done.out))
    assert outcomes[1:] == outcomes[:1] * 3


def test_records_through_the_shared_pointer_lie_in_the_order_of_arrival(tmp_path: Path):
    text = """
    file = opened()
    together()
    time.sleep((comm.size - rank) * 1e-4)
    file.Write_shared(bytes([65 + rank]) * 3)
    file.Close()
    """
    assert run(tmp_path, text, ranks=4).result.ended == "finished"
    assert np.fromfile(tmp_path / "data", "S3").tolist() == [b"DDD", b"CCC", b"BBB", b"AAA"]


def test_a_restarted_job_finds_what_was_written(tmp_path: Path):
    text = """
    file = opened()
    if file.size == 0:
        file.Write_at_all(4 * rank, b"done")
        comm.Barrier()
        time.sleep(1)
    print(rank, file.size)
    """
    done = run(tmp_path, text, ranks=2, fail=["rank=1@0.5s"], ft=False, restart="on-abort")
    assert done.result.ended == "finished", done.err
    assert sorted(done.lines) == ["0 8", "1 8"]


def test_each_node_with_files_of_its_own_has_no_file_for_all(tmp_path: Path):
    text = """
    try:
        opened()
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_NO_SUCH_FILE)
    MPI.File.Open(MPI.COMM_SELF, "own", MPI.MODE_CREATE | MPI.MODE_WRONLY).Write(bytes([65 + rank]))
    """
    machine = {**MACHINE, "storage": {**MACHINE["storage"], "layout": "node"}}
    done = run(tmp_path, text, machine=machine, ranks=2)
    assert done.lines == ["True", "True"]
    assert ((tmp_path / "own").read_text(), (tmp_path / "own.node1").read_text()) == ("A", "B")
