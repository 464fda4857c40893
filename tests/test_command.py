"""The command as people use it: in a process of its own."""

import csv
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import ROOT
from tests.process.launch import PRELUDE, write
from tests.real_mpi import ENVIRONMENT, MPIEXEC
from tests.warm import client
from xsim_py.report.result import SUMMARY

TEXT = """
import sys
print("rank", rank, "of", comm.size, sys.argv[1:])
print("careful", file=sys.stderr)
comm.allreduce(rank)
if rank == 1:
    sys.exit(5)
"""
RUN = [sys.executable, "-m", "xsim_py", "run"]


def xsim(
    folder: Path, *words: str, launcher: list[str] | None = None, run: list[str] = RUN
) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    line = [*(launcher or []), *run, *words]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, input="")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {"prog.py": PRELUDE + TEXT})
    return tmp_path


def test_a_run_prints_its_provenance_the_output_and_what_it_cost(folder: Path):
    done = xsim(folder, "-n", "3", "--seed", "7", "prog.py", "-n", "--json", "x y")
    assert done.returncode == 5
    assert done.stdout.splitlines() == [f"rank {rank} of 3 ['-n', '--json', 'x y']" for rank in range(3)]
    first, *careful, last = done.stderr.splitlines()
    assert first.startswith("xsim: version ")
    assert "seed 7" in first
    assert "3 ranks on gige" in first
    assert careful == ["careful"] * 3
    assert last.startswith("xsim: finished: virtual time ")
    assert "digest " in last


def test_json_and_out_hold_the_results(folder: Path):
    done = xsim(folder, "-n", "3", "--json", "-", "--out", "results", "--quiet", "prog.py")
    summary = json.loads(done.stdout)
    assert set(summary) >= set(SUMMARY)
    assert (summary["ranks"], summary["exit_status"], summary["ended"]) == (3, 5, "finished")
    assert "rank 0 of 3 []" in done.stderr
    written = json.loads((folder / "results" / "result.json").read_text())
    assert written["digest"] == summary["digest"]
    with (folder / "results" / "ranks.csv").open() as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))
    assert len(rows) == 4


ENDINGS = {
    "0": ([], "pass", 0, ""),
    "own": ([], "raise SystemExit(77)", 77, ""),
    "raised": ([], "1 / 0", 1, "ZeroDivisionError: division by zero"),
    "no program": ([], None, 2, "xsim: prog.py: cannot read the program: No such file or directory"),
    "no ranks": (["-n", "0"], "pass", 2, "0 is out of range (at least 1)"),
    "no machine": (["--machine", "no-such-machine"], "pass", 2, "no-such-machine"),
    "negative latency": (["--set", "network.latency=-5us"], "pass", 2, "network.latency"),
    "too small a machine": (["--set", "machine.nodes=1", "-n", "9"], "pass", 2, "9 ranks"),
    "not Python": ([], "if:", 2, "prog.py:4: not a Python program: invalid syntax"),
    "stall": ([], "comm.recv(source=0)", 3, "prog.py:4 in <module>: comm.recv(source=0)"),
    "wall limit": (["--wall-limit", "1s"], "while True: pass", 4, "prog.py:4 in <module>: while True: pass"),
}


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command as a fork of a process that has loaded the simulator, which takes a quarter of the time."""
    program = tmp_path_factory.mktemp("bin") / "xsim"
    program.write_text(client())
    program.chmod(0o755)
    return [str(program), "run"]


@pytest.mark.parametrize(("options", "text", "status", "said"), ENDINGS.values(), ids=list(ENDINGS))
def test_exit_status_says_how_it_ended(
    tmp_path: Path, forked: list[str], options: list[str], text: str | None, status: int, said: str
):
    if text is not None:
        write(tmp_path, {"prog.py": PRELUDE + text + "\n"})
    done = xsim(tmp_path, "-n", "1", *options, "prog.py", run=forked)
    assert done.returncode == status
    assert said in done.stderr
    assert "xsim_py/" not in done.stderr
    assert done.stdout == ""


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path):
    write(tmp_path, {"prog.py": "import time\nwhile True:\n    print('line')\n    time.sleep(1)\n"})
    line = [*RUN, "-n", "2", "--quiet", str(tmp_path / "prog.py")]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "line\n"
    process.stdout.close()
    assert process.wait(timeout=300) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_modules_and_code_are_programs_too(folder: Path):
    module = xsim(folder, "-n", "2", "--quiet", "-m", "prog", "--flag")
    assert module.stdout.splitlines() == [f"rank {rank} of 2 ['--flag']" for rank in (0, 1)]
    code = xsim(folder, "-n", "2", "--quiet", "-c", PRELUDE + "print(rank)", "--flag")
    assert (code.stdout, code.stderr) == ("0\n1\n", "")


if MPIEXEC.exists():

    def test_real_mpi_ranks_print_and_write_once(folder: Path):
        words = ("-n", "3", "--json", "summary.json", "--out", "results", "prog.py")
        alone, real = xsim(folder, *words), xsim(folder, *words, launcher=[str(MPIEXEC), "-n", "2"])
        assert real.returncode == alone.returncode == 5
        assert real.stdout == alone.stdout
        assert real.stderr.splitlines()[-1] == alone.stderr.splitlines()[-1]
        assert real.stderr.count("xsim: version") == 1
        assert json.loads((folder / "summary.json").read_text())["shards"] == 2


def test_real_threads_that_a_program_leaves_behind_end_with_it():
    start = "import threading; threading.Thread(target=threading.Event().wait).start()"
    code = f"exec({start!r}, dict(__name__='multiprocessing.test')); print('main is done')"
    command = [sys.executable, "-m", "xsim_py", "run", "-n", "1", "--quiet", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "main is done\n"
    assert done.stderr == "xsim: threads left running by the program, ended now: 1\n"


def test_much_output_at_one_time_is_not_sorted_again_for_every_line():
    code = "for line in range(20_000): print(line)"
    command = [sys.executable, "-m", "xsim_py", "run", "-n", "2", "--quiet", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == [str(line) for _ in range(2) for line in range(20_000)]


EARLY = """
import os, signal, sys

class Interrupts:
    def find_spec(name, path=None, target=None):
        if name == "xsim_py.cli":
            os.kill(os.getpid(), signal.SIGINT)

from xsim_py.__main__ import command
sys.meta_path.insert(0, Interrupts)
command()
"""


def test_an_interrupt_before_the_command_has_begun_prints_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("command", [["calibrate", "-o", "m.yaml", "--probe"], ["mpiexec", "-n", "1"]])
def test_what_a_command_has_started_ends_with_it_also_when_it_is_killed(tmp_path: Path, command: list[str]) -> None:
    script, fifo = tmp_path / "script.sh", tmp_path / "fifo"
    script.write_text(f"#!/bin/sh\necho $$ > {fifo}\nexec sleep 600\n")
    script.chmod(0o700)
    os.mkfifo(fifo)
    words = [*command, str(script)]
    with subprocess.Popen([sys.executable, "-m", "xsim_py", *words], cwd=tmp_path) as started:
        child = int(fifo.read_text())
        gone = os.pidfd_open(child)
        started.kill()
    try:
        assert select.select([gone], [], [], 60)[0]
    finally:
        os.close(gone)
