"""Ranks lock files."""

from pathlib import Path

import pytest

from tests.process.launch import launch


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])
HEAD = "import fcntl, os, struct, threading, time\nnow = lambda: round(MPI.Wtime(), 2)\n"


@SHARDS
@pytest.mark.parametrize("lock", ["flock", "lockf"])
def test_ranks_take_turns_and_closing_the_file_is_enough(tmp_path: Path, lock: str, shards: int):
    text = """
for _ in range(2):
    with open("lock", "a+") as file:
        fcntl.LOCK(file.fileno(), fcntl.LOCK_EX)
        print(rank, now())
        time.sleep(0.1)
        print(rank, now())
    comm.Barrier()
"""
    done = launch(tmp_path, HEAD + text.replace("LOCK(", f"{lock}("), ranks=3, shards=shards)
    turns = [
        f"{rank} {0.3 * again + 0.1 * (rank + end):.1f}" for again in (0, 1) for rank in range(3) for end in (0, 1)
    ]
    assert done.lines == turns


@SHARDS
def test_who_does_not_want_to_wait_is_refused(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        HEAD
        + """
file = open("lock", "a+")
(fcntl.flock if rank < 2 else fcntl.lockf)(file, fcntl.LOCK_SH if rank < 2 else fcntl.LOCK_EX)  # of two kinds
comm.Barrier()
for wanted in (fcntl.LOCK_SH, fcntl.LOCK_EX):
    try:
        fcntl.flock(file, wanted | fcntl.LOCK_NB)
    except BlockingIOError:
        print(rank, wanted == fcntl.LOCK_EX)
    comm.Barrier()
if rank == 0:
    told = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 3, 4, 0)
    print(struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, told)))
""",
        ranks=3,
        shards=shards,
    )
    assert sorted(done.lines) == ["(1, 0, 0, 0, 10002)", "0 True", "1 True", "2 True"]


@SHARDS
def test_a_rank_that_ends_or_dies_holds_nothing(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        HEAD
        + """
file = os.open("lock", os.O_CREAT | os.O_RDWR)
time.sleep(rank)
fcntl.flock(file, fcntl.LOCK_EX)
print(rank, now())
if rank == 0:
    time.sleep(9)
""",
        ranks=3,
        shards=shards,
        fail="rank=0@5s",
    )
    assert done.lines == ["0 0.0", "1 5.0", "2 5.0"]


def test_duplicates_are_one_lock_and_an_open_of_its_own_is_another(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
file = os.open("lock", os.O_CREAT | os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
copy, other = os.dup(file), os.open("lock", os.O_RDWR)
fcntl.flock(copy, fcntl.LOCK_EX)
def locked():
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
os.close(file)
print(locked())
os.close(copy)
print(locked())
fcntl.fcntl(other, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
third = os.open("lock", os.O_RDWR)
try:
    fcntl.lockf(third, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as error:
    print(type(error).__name__)
""",
    )
    assert done.lines == ["True", "None", "BlockingIOError"]


def test_a_child_process_is_kept_out_and_keeps_out(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
import multiprocessing, sys
def child(out):
    file = open("lock", "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os._exit(7)
    os.write(out, b"x")
    os.read(go[0], 1)
    os._exit(0)
with open("lock", "a+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    process = multiprocessing.get_context("fork").Process(target=child, args=(1,))
    process.start()
    process.join()
    print(process.exitcode)
go, come = os.pipe(), os.pipe()
process = multiprocessing.get_context("fork").Process(target=child, args=(come[1],))
process.start()
print(os.read(come[0], 1))
file = open("lock", "a+")
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("refused")
os.write(go[1], b"x")
fcntl.flock(file, fcntl.LOCK_EX)
process.join()
print(process.exitcode)
""",
    )
    assert (done.lines, done.err) == (["7", "b'x'", "refused", "0"], "")


def test_files_of_the_simulated_storage_are_locked_too(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
with open("lock", "a+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    start = MPI.Wtime()
    time.sleep(1)
    print(rank, round(MPI.Wtime() - start, 2))
with open("lock", "a+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(rank, now() >= rank + 1)
""",
        ranks=2,
        machine="shmem",
        set={"storage.latency": "1us"},
    )
    assert sorted(done.lines) == ["0 1.0", "0 True", "1 1.0", "1 True"]


def test_a_stall_says_who_has_what(tmp_path: Path):
    text = 'import fcntl\nfile = open("lock", "a+")\nfcntl.flock(file, fcntl.LOCK_EX)\ncomm.Barrier()\n'
    done = launch(tmp_path, text, ranks=2)
    assert "rank 1 at 0 s: waits for the lock of lock (exclusive): rank 0 has it" in done.result.report
