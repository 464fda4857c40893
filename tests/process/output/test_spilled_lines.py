"""Output that is too much for memory, or comes for ever."""

import errno
import io
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.process.launch import launch
from xsim_py import simulate
from xsim_py.process.output import collector, spilled_lines
from xsim_py.process.output.spilled_lines import Spill, SpilledRun, SpilledText, text_of

MUCH = """
import sys, time
for step in range(40):
    print(step, rank, "x" * 50)
    if step % 10 == rank:
        time.sleep(1e-6 * (4 - rank))
    if step == 20:
        comm.Barrier()
    for piece in range(30):
        print("unfinished", piece, end=" ", file=sys.stderr if piece > 20 else sys.stdout)
print("caf\\u00e9 \\udcff")
"""


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("label", [False, True])
def test_what_waits_in_a_file_comes_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int, label: bool
):
    expected = launch(tmp_path, MUCH, ranks=4, label=label)
    for name, small in (("_MOST_IN_MEMORY", 4000), ("_RELIEF_STEP", 500), ("_MOST_OF_A_LINE", 100)):
        monkeypatch.setattr(collector, name, small)
    kept = []
    put = Spill.put
    monkeypatch.setattr(Spill, "put", lambda self, data: kept.append(len(data)) or put(self, data))
    done = launch(tmp_path, MUCH, ranks=4, shards=shards, label=label)
    assert (done.out, done.err) == (expected.out, expected.err)
    assert done.result.digest == expected.result.digest
    assert len(kept) > 50


def test_what_waits_is_in_a_real_file_and_draws_nothing_beside_a_simulated_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    told: dict[str, Any] = {"ranks": 4, "set": ["storage.latency=1ms"]}
    text = MUCH + "print(__import__('os').urandom(4).hex())"
    expected = launch(tmp_path, text, **told)
    for name, small in (("_MOST_IN_MEMORY", 4000), ("_RELIEF_STEP", 500), ("_MOST_OF_A_LINE", 100)):
        monkeypatch.setattr(collector, name, small)
    done = launch(tmp_path, text, **told)
    assert (done.out, done.result.digest) == (expected.out, expected.result.digest)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print(['line'] * 99)", "other ranks may still print earlier"),
        ("print(['line'] * 99, end='')", "a line is written when it has come to its end"),
    ],
    ids=["lines", "one line"],
)
def test_a_run_ends_when_more_has_to_wait_than_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str, shards: int
):
    program = tmp_path / "prog.py"
    program.write_text(
        f"from mpi4py import MPI\nwhile MPI.COMM_WORLD.rank == 1: {text}\nprint('0')\nMPI.COMM_WORLD.Barrier()\n"
    )
    monkeypatch.setattr("xsim_py.job.LIMIT_BYTES", 1 << 20)
    for name, small in (("_MOST_IN_MEMORY", 100_000), ("_RELIEF_STEP", 50_000), ("_MOST_OF_A_LINE", 50_000)):
        monkeypatch.setattr(collector, name, small)
    sink = io.StringIO()
    with pytest.raises(OSError, match=rf"1 MiB are held back.*rank 1 prints .*prog.py:2 in <module>.*{why}") as raised:
        simulate(program, ranks=2, shards=shards, stdout=sink)
    assert raised.value.errno == errno.EFBIG
    assert sink.getvalue().startswith("0\n['line', ")
    assert sink.getvalue().count("line") > 9_999


@pytest.mark.parametrize("printing", [0, 1])
def test_endless_output_is_written_whole_up_to_the_wall_limit(tmp_path: Path, monkeypatch, printing: int):
    monkeypatch.setattr(collector, "_MOST_IN_MEMORY", 100_000)
    monkeypatch.setattr(collector, "_RELIEF_STEP", 50_000)
    sink = io.StringIO()
    program = tmp_path / "prog.py"
    program.write_text(
        "import itertools\nfrom mpi4py import MPI\n"
        f"for i in itertools.count() if MPI.COMM_WORLD.rank == {printing} else (): print(i)\nMPI.COMM_WORLD.Barrier()\n"
    )
    result = simulate(program, ranks=2, stdout=sink, wall_limit="300ms")
    lines = sink.getvalue().split()
    assert result.ended == "wall limit"
    assert len(lines) > 1000
    assert lines == [str(number) for number in range(len(lines))]


def test_room_is_used_again_and_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch):
    room = Spill(limit_bytes=1100)
    lines = [(time_ps, 0, time_ps, 0, str(time_ps) * 300) for time_ps in range(2)]
    for _ in range(3):
        assert list(room.keep(lines)) == lines
    run = room.keep(lines)
    assert run.first() == (0, 0, 0)
    room.put(b"x" * 200)
    with pytest.raises(OSError, match="0 MiB are held back"):
        room.put(b"x" * 400)
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(spilled_lines, "_unnamed_file", lambda: full)
        with pytest.raises(OSError, match="No space left"):
            Spill().put(b"x")


def test_what_is_in_the_file_goes_to_another_shard_by_name():
    room = Spill()
    long = SpilledText(room, [room.put(b"a"), room.put(b"\xff")], "c")
    run = room.keep([(0, 0, 1, 0, long)])
    assert run.first() is not None
    gone, text = pickle.loads(pickle.dumps((run, SpilledText(room, [room.put(b"b")], ""))))
    assert isinstance(gone, SpilledRun)
    assert gone is run
    assert [text_of(line[4]) for line in gone] == ["a\udcffc"]
    assert text_of(text) == "b"
    assert text_of("d") == "d"
    unclaimed = pickle.dumps(SpilledText(room, [], ""))
    spilled_lines.drop_unclaimed()
    with pytest.raises(KeyError):
        pickle.loads(unclaimed)
