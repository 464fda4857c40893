"""Each rank has its own descriptors 0, 1 and 2."""

import os
from pathlib import Path

import pytest

from tests.process.launch import launch


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


SHARDS = pytest.mark.parametrize("shards", [1, 2])


@SHARDS
def test_what_goes_to_descriptor_1_is_among_what_the_rank_prints(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        """
import os, sys, time
time.sleep(1 - rank)
os.write(1, b"%d write\\n" % rank)
copy = os.dup(1)
os.write(copy, b"%d copy\\n" % rank)
os.close(copy)
with open(1, "w", closefd=False) as file:
    file.write(f"{rank} open\\n")
os.fdopen(os.dup(sys.stdout.fileno()), "w").write(f"{rank} fdopen\\n")
os.writev(2, [b"to ", b"stderr\\n"])
os.dup2(1, 2)
print(rank, "print", file=sys.stderr)
print(os.read(0, 9) if rank else b"")
""",
        ranks=2,
        shards=shards,
    )
    kinds = ("write", "copy", "open", "fdopen", "print")
    assert [line for line in done.lines if line != "b''"] == [f"{rank} {kind}" for rank in (1, 0) for kind in kinds]
    assert done.err == "to stderr\n" * 2


@SHARDS
def test_a_rank_redirects_itself_and_its_children_and_compiled_code(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        """
import ctypes, multiprocessing, os, subprocess, sys
saved = os.dup(1)
if rank != 2:
    file = os.open(f"file{rank}", os.O_CREAT | os.O_RDWR)
    os.dup2(file, 1)
    os.close(file)
comm.Barrier()
print(rank, "print")
comm.Barrier()
if rank != 2:
    os.write(1, b"write\\n")
    ctypes.CDLL(None).printf(b"printf\\n")
    comm.send(0, 1 - rank)
    comm.recv(source=1 - rank)
    subprocess.run(["echo", "subprocess"])
    os.system("echo system")
    child = multiprocessing.get_context("fork").Process(target=lambda: print("forked", flush=True))
    child.start()
    child.join()
comm.Barrier()
os.dup2(saved, 1)
comm.Barrier()
print(rank, "again")
""",
        ranks=3,
        shards=shards,
    )
    assert done.lines == ["2 print", "0 again", "1 again", "2 again"]
    kinds = ["write", "printf", "subprocess", "system", "forked"]
    for rank in (0, 1):
        assert (tmp_path / f"file{rank}").read_text().splitlines() == [f"{rank} print", *kinds]


def test_closed_descriptors_are_taken_by_what_is_opened_next(tmp_path: Path):
    done = launch(
        tmp_path,
        """
import os
saved = os.dup(1)
for number in (0, 1, 2):
    os.close(number)
try:
    os.close(1)
except OSError as error:
    problem = error
opened = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
comm.Barrier()
print("lost")
os.write(1, b"lost")
comm.Barrier()
os.dup2(saved, 1)
print(rank, opened, problem.errno)
os.close(1)
print("lost")
""",
        ranks=2,
    )
    assert (sorted(done.lines), done.result.ended) == ([f"{rank} [0, 1, 2] 9" for rank in (0, 1)], "finished")
    assert os.fstat(2)  # ours are as they were


def test_input_may_come_from_elsewhere(tmp_path: Path):
    done = launch(
        tmp_path,
        """
import os, sys
reader, writer = os.pipe()
os.write(writer, b"one two\\n")
os.close(writer)
os.dup2(reader, 0)
print(rank, os.read(0, 4), input())
""",
        ranks=2,
    )
    assert done.lines == ["0 b'one ' two", "1 b'one ' two"]


def test_pytest_captures_descriptors_in_several_ranks_at_a_time(tmp_path: Path):
    done = launch(
        tmp_path,
        """
import os, subprocess, sys
from _pytest.capture import FDCapture, MultiCapture
capture = MultiCapture(in_=FDCapture(0), out=FDCapture(1), err=FDCapture(2))
capture.start_capturing()
print("hi", rank)
comm.Barrier()
os.write(2, b"raw\\n")
subprocess.run(["echo", "child"])
comm.Barrier()
capture.suspend_capturing()
print("between", rank)
comm.Barrier()
capture.resume_capturing()
print("more")
comm.Barrier()
found = capture.readouterr()
capture.stop_capturing()
print(rank, found)
""",
        ranks=3,
    )
    said = [f"{rank} CaptureResult(out='hi {rank}\\nchild\\nmore\\n', err='raw\\n')" for rank in range(3)]
    assert done.lines == [*(f"between {rank}" for rank in range(3)), *said]
