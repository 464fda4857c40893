"""A run's files on a simulated storage: what they cost, who sees what when, and what is left at the end."""

import builtins
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.process.launch import Launched, launch
from tests.real_mpi import ENVIRONMENT, MPIEXEC

LATENCY_PS = 10**9
PS_PER_BYTE = 1000

STORAGE: dict[str, Any] = {"latency": "1ms", "bandwidth": "1GB/s"}
NOW = "def now():\n    return round(MPI.Wtime() * 1e12)\n"


def on_storage(folder: Path, text: str, storage: Mapping[str, Any] = STORAGE, **told: Any) -> Launched:
    """Simulate a program, in its folder, where ``now()`` is the time in picoseconds."""
    machine = {"network": {"latency": "10us"}, "storage": dict(storage), **told.pop("machine", {})}
    (folder / "helper.py").write_text(f"from mpi4py import MPI\n{NOW}")
    with chdir(folder):
        return launch(folder, f"from helper import now\n{dedent(text)}", machine=machine, **told)


def test_ranks_that_write_together_share_the_bandwidth(tmp_path: Path):
    ranks, size = 5, 3_000_000
    done = on_storage(
        tmp_path,
        f"""
        with open(f"out{{rank}}", "wb", buffering=0) as file:
            file.write(bytes({size}))
            print(now())
        """,
        ranks=ranks,
    )
    # Each opens at the same time; then the server takes their bytes one after the other.
    assert [int(line) for line in done.lines] == [
        2 * LATENCY_PS + (rank + 1) * size * PS_PER_BYTE for rank in range(ranks)
    ]


def test_each_node_has_its_own_bandwidth_where_each_has_a_server(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        with open(f"out{rank}", "wb", buffering=0) as file:
            file.write(bytes(1000))
            print(now())
        """,
        {**STORAGE, "layout": "node"},
        machine={"machine": {"cores_per_node": 2}, "same_node": {"latency": "1us"}},
        ranks=4,
    )
    alone, second = 2 * LATENCY_PS + 1000 * PS_PER_BYTE, 2 * LATENCY_PS + 2000 * PS_PER_BYTE
    assert sorted(int(line) for line in done.lines) == [alone, alone, second, second]


def test_each_operation_costs_the_latency_and_closing_nothing(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        import os
        os.mkdir("d"); print(now())
        os.path.exists("no"); print(now())
        file = open("d/f", "w"); print(now())
        file.write("x"); file.tell(); print(now())
        file.close(); print(now())
        os.replace("d/f", "d/g"); print(now())
        os.listdir("d"); print(now())
        """,
    )
    assert [int(line) for line in done.lines] == [
        LATENCY_PS,
        2 * LATENCY_PS,
        3 * LATENCY_PS,
        4 * LATENCY_PS + PS_PER_BYTE,
        4 * LATENCY_PS + PS_PER_BYTE,
        5 * LATENCY_PS + PS_PER_BYTE,
        6 * LATENCY_PS + PS_PER_BYTE,
    ]


def test_small_writes_and_reads_go_in_blocks(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        with open("lines", "w") as file:
            for number in range(1000):
                file.write(f"{number:07}\\n")
        print(now())
        print(sum(int(line) for line in open("lines")))
        print(now())
        """,
        {**STORAGE, "block": "4KiB"},
    )
    written = 3 * LATENCY_PS + 8000 * PS_PER_BYTE  # open and two blocks
    assert done.lines == [str(written), "499500", str(written + 4 * LATENCY_PS + 8000 * PS_PER_BYTE)]


def test_the_block_is_what_a_program_says_if_it_says_so(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        with open("file", "wb", buffering=10) as file:
            for _ in range(40):
                file.write(b"x")
        print(now())
        """,
    )
    assert done.lines == [str(5 * LATENCY_PS + 40 * PS_PER_BYTE)]


def test_this_computers_files_are_read_at_a_cost_and_changed_at_the_end_only(tmp_path: Path):
    (tmp_path / "parameters").write_text("steps 5")
    (tmp_path / "log").write_text("old\n")
    (tmp_path / "away").write_text("")
    done = on_storage(
        tmp_path,
        """
        import os, posix
        if rank == 0:
            print(open("parameters").read(), now())
            with open("log", "a") as file:
                file.write("new\\n")
            os.remove("away")
            os.makedirs("made/deep")
            open("made/deep/file", "w").write("made")
            os.chmod("made/deep/file", 0o600)
        comm.Barrier()
        if rank == 1:
            print(open("log").read().split(), os.listdir("made"), os.path.exists("away"))
            print(posix.stat("log").st_size, sorted(posix.listdir(".")))
        """,
        ranks=2,
    )
    reading = 3 * LATENCY_PS + 7 * PS_PER_BYTE  # open, read, and read that it is at its end
    assert done.lines[0] == f"steps 5 {reading - LATENCY_PS}"
    assert done.lines[1] == "['old', 'new'] ['deep'] False"
    assert done.lines[2] == "4 ['away', 'helper.py', 'log', 'parameters', 'prog.py']"
    assert (tmp_path / "log").read_text() == "old\nnew\n"
    assert not (tmp_path / "away").exists()
    assert (tmp_path / "made/deep/file").read_text() == "made"
    assert (tmp_path / "made/deep/file").stat().st_mode & 0o777 == 0o600


def test_what_is_written_is_seen_when_it_has_come_and_not_before(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        import os, time
        if rank == 0:
            with open("file", "wb", buffering=0) as file:
                file.write(bytes(5_000_000))          # from 1 ms to 6 ms; known at 7 ms
        else:
            time.sleep(rank * 1e-3 - 1e-5)            # just before each whole millisecond
            print(rank, os.path.getsize("file") if os.path.exists("file") else None, now() // 10**6)
        """,
        ranks=9,
    )
    seen = {int(line.split()[0]): line.split()[1:] for line in done.lines}
    # The first asks whether it exists before the server is busy, and then queues behind the 5 MB, as do the others.
    assert seen[1] == ["5000000", "7000"]
    assert all(seen[rank][0] == "5000000" for rank in range(2, 9))
    assert seen[8] == ["5000000", "9990"]


def test_a_program_that_ends_has_written_everything_and_one_that_aborts_has_not(tmp_path: Path):
    text = """
        import os, time
        left = open("left", "w")
        left.write("all of it")
        flushed = open("flushed", "w")
        flushed.write("this")
        flushed.flush()
        flushed.write(" and that")
        {end}
        """
    on_storage(tmp_path, text.format(end=""))
    assert (tmp_path / "left").read_text() == "all of it"
    assert (tmp_path / "flushed").read_text() == "this and that"
    for end in ("comm.Abort(3)", "os._exit(3)"):
        result = on_storage(tmp_path, text.format(end=end)).result
        assert result.ended == "aborted"
        assert (tmp_path / "left").read_text() == ""
        assert (tmp_path / "flushed").read_text() == "this"


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_an_abort_tears_what_is_being_written(tmp_path: Path, shards: int):
    # The file is open at 1 ms; its bytes come until 11 ms. The launcher's signal is there 10 us after the abort.
    done = on_storage(
        tmp_path,
        """
        import time
        if rank == 2:
            time.sleep(4e-3 - 10e-6)
            comm.Abort(1)
        elif rank == 0:
            open("file", "wb").write(b"x" * 10_000_000)
        comm.Barrier()
        """,
        ranks=3,
        shards=shards,
    )
    assert done.result.ended == "aborted"
    assert (tmp_path / "file").read_bytes() == b"x" * 3_000_000


def test_a_rank_that_is_killed_tears_its_write_and_frees_the_server(tmp_path: Path):
    text = """
        if rank < 2:
            with open(f"file{rank}", "wb") as file:
                file.write(b"x" * 1_000_000)
            print(rank, now())
        """
    seen = set()
    for shards in (1, 2, 3):
        done = on_storage(tmp_path, text, ranks=3, fail=["rank=0@1.25ms"], shards=shards)
        # Rank 0's first quarter had come; rank 1 had waited for its turn since 1 ms.
        assert done.lines == [f"1 {1_250_000_000 + 1_000_000 * PS_PER_BYTE + LATENCY_PS}"]
        assert (tmp_path / "file0").read_bytes() == b"x" * 250_000
        assert (tmp_path / "file1").read_bytes() == b"x" * 1_000_000
        seen.add((done.result.digest, done.result.events))
    assert len(seen) == 1


def test_a_job_that_is_started_again_finds_its_files(tmp_path: Path):
    text = """
        import os
        steps = 0
        if os.path.exists("checkpoint"):
            steps = int(open("checkpoint").read())
        if rank == 0:
            print("begins at", steps)
        while steps < 30:
            comm.Barrier()
            steps += 1
            if rank == 0:
                with open("new", "w") as file:
                    file.write(str(steps))
                os.replace("new", "checkpoint")
        """
    for shards in (1, 3):
        done = on_storage(
            tmp_path, text, ranks=3, fail=["rank=1@20ms"], restart="on-abort,delay=1s", ft=False, shards=shards
        )
        assert done.result.ended == "finished"
        assert done.lines == ["begins at 0", "begins at 6"]
        assert (tmp_path / "checkpoint").read_text() == "30"
        (tmp_path / "checkpoint").unlink()


def test_one_digest_for_every_number_of_shards_and_it_knows_the_files(tmp_path: Path):
    text = """
        import os, random
        random.seed(rank)
        for step in range(6):
            with open(f"shared{random.randrange(3)}", "a") as file:
                file.write(f"{rank} {step}\\n" * random.randrange(200))
            names = sorted(name for name in os.listdir(".") if name.startswith("shared"))
            print(rank, step, now(), [os.path.getsize(name) for name in names])
        """
    results = []
    for shards in (1, 2, 3, 4):
        done = on_storage(tmp_path, text, ranks=4, shards=shards)
        results.append((done.result.digest, done.out, done.result.events, done.result.tables["storage"].rows()))
        for number in range(3):
            (tmp_path / f"shared{number}").unlink()
    assert all(result == results[0] for result in results)
    other = on_storage(tmp_path, text.replace('f"{rank} {step}', 'f"{rank}:{step}'), ranks=4)
    assert other.out == results[0][1]
    assert other.result.digest != results[0][0]


if MPIEXEC.exists():

    def test_real_mpi_processes_have_the_same_files(tmp_path: Path):
        text = """
            from mpi4py import MPI
            for step in range(5):
                with open(f"shared{(MPI.COMM_WORLD.rank + step) % 2}", "a") as file:
                    file.write(f"{MPI.COMM_WORLD.rank} {step} {MPI.Wtime()}\\n")
            MPI.COMM_WORLD.Barrier()
            """
        (tmp_path / "p.py").write_text(dedent(text))
        words = ["-n", "3", "--set", "storage.latency=1ms", "--set", "storage.bandwidth=1MB/s", "p.py"]
        words = ["-m", "xsim_py", "run", *words, "--fail", "rank=1@3.02ms", "--no-ft", "--restart", "on-abort"]
        left = []
        for launcher in ([], [str(MPIEXEC), "-n", "2"]):
            command = [*launcher, sys.executable, *words]
            done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True)
            files = sorted(tmp_path.glob("shared*"))
            left.append((done.stderr.split("digest ")[1], [file.read_bytes() for file in files]))
            for file in files:
                file.unlink()
        assert left[0] == left[1]
        assert len(left[0][1]) == 2


def test_a_storage_faster_than_the_network_is_as_exact(tmp_path: Path):
    text = """
        for step in range(5):
            open("file", "a").write(f"{rank}")
            comm.Barrier()
        print(open("file").read(), now())
        """
    outs = []
    for shards in (1, 3):
        outs.append(on_storage(tmp_path, text, {"latency": "1ns"}, ranks=3, shards=shards).out)
        (tmp_path / "file").unlink()
    assert outs[0] == outs[1] != ""


def test_only_the_folders_that_it_says_are_on_it(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        import os, posix
        os.mkdir("here"); os.mkdir("there")
        print(now())
        open("here/file", "w").write("x")
        print(now(), posix.listdir("."))
        """,
        {**STORAGE, "path": ["there"]},
    )
    assert done.lines[0] == str(LATENCY_PS)
    assert done.lines[1].startswith(f"{LATENCY_PS} ")
    assert "'here'" in done.lines[1]
    assert "'there'" not in done.lines[1]
    assert (tmp_path / "there").is_dir()


def test_each_node_has_its_own_files_where_each_has_a_server(tmp_path: Path):
    done = on_storage(
        tmp_path,
        """
        import os
        with open("same", "w") as file:
            file.write("same")
        with open("own", "a") as file:
            file.write(f"{rank}")
        comm.Barrier()
        print(rank, open("own").read())
        """,
        {**STORAGE, "layout": "node"},
        ranks=3,
    )
    assert sorted(done.lines) == ["0 0", "1 1", "2 2"]
    assert (tmp_path / "same").read_text() == "same"
    assert [path.name for path in sorted(tmp_path.glob("own*"))] == ["own", "own.node1", "own.node2"]
    assert [path.read_text() for path in sorted(tmp_path.glob("own*"))] == ["0", "1", "2"]


def test_what_each_rank_has_moved_is_counted(tmp_path: Path):
    table = on_storage(
        tmp_path,
        """
        if rank == 1:
            open("file", "wb").write(bytes(5000))
            open("file", "rb").read()
        """,
        ranks=2,
    ).result.tables["storage"]
    assert table.rows()[0] == (0, 0, 0, 0, 0.0)
    # Opened twice, written, read.
    assert table.rows()[1] == (1, 4, 5000, 5000, (4 * LATENCY_PS + 10_000 * PS_PER_BYTE) / 1e12)


def test_a_deadlock_report_says_who_waits_for_the_storage(tmp_path: Path):
    result = on_storage(
        tmp_path,
        """
        import time
        others = comm.Split(int(rank > 0))
        if rank == 0:
            open("file", "wb", 0).write(bytes(10**6))
        else:
            time.sleep(1.5e-3)
            others.Barrier() if rank == 1 else others.allreduce(1)
        """,
        ranks=3,
    ).result
    assert result.ended == "stalled"
    assert "waits for the storage: write file" in result.report


def test_a_file_that_cannot_be_written_at_the_end_is_a_warning_and_status_74(tmp_path: Path):
    (tmp_path / "taken").mkdir()
    done = on_storage(
        tmp_path,
        """
        import posix
        with open("file", "w") as file:
            file.write("x")
        posix.mkdir("file")
        posix.mkdir("file/full")
        """,
    )
    assert (done.result.ended, done.result.exit_status) == ("finished", 74)
    (warning,) = done.result.warnings
    assert warning == f"{tmp_path}/file could not be written at the end of the run: Directory not empty"


def test_nothing_is_left_of_a_run(tmp_path: Path):
    def state() -> list[object]:
        functions = [getattr(os, name) for name in dir(os) if callable(getattr(os, name))]
        return [builtins.open, io.open, os.path.realpath, shutil._use_fd_functions, *functions]

    before = state()
    on_storage(tmp_path, "open('x', 'w').write('x')")
    assert state() == before
    (tmp_path / "after").write_text("real")
    assert os.path.exists(tmp_path / "after")


def test_without_a_storage_files_cost_nothing(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        open(__file__).read()
        print(MPI.Wtime())
        """,
    )
    assert done.lines == ["0.0"]
    assert "storage" not in done.result.tables
