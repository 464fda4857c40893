"""Programs that close and redirect the standard descriptors, in a process of its own."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO, cast

import pytest

from xsim_py import simulate
from xsim_py.atomic_files import moved
from xsim_py.errors import NO_ROOM
from xsim_py.process.output.simulator_descriptors import SeparateStream, apart, separate_streams

CALLER = """\
import sys
from xsim_py import simulate
result = simulate(sys.argv[1], ranks=3)
print("after", result.ended)
"""
PROGRAM = """\
import os, subprocess, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
os.closerange(3, 256)  # as a daemon does
subprocess.run(["echo", "from a child of rank", str(comm.rank)], stdout=sys.stdout, check=True)
comm.Barrier()
saved = os.dup(1), os.dup(2)
nothing = os.open(os.devnull, os.O_WRONLY)
for number in (1, 2):
    os.dup2(nothing, number)
comm.Barrier()
print("silent", comm.rank, sys.stdout.fileno())
comm.Barrier()
for number, was in zip((1, 2), saved):
    os.dup2(was, number)
if comm.rank == 2:
    os.close(1)
print("again", comm.rank)
"""
SAID = [*(f"from a child of rank {rank}" for rank in range(3)), *(f"again {rank}" for rank in (0, 1))]


@pytest.mark.parametrize("how", ["simulate", "xsim run"])
def test_what_the_simulator_says_goes_past_the_descriptors_of_the_process(tmp_path: Path, how: str):
    program = tmp_path / "prog.py"
    program.write_text(PROGRAM)
    words = ["-c", CALLER] if how == "simulate" else ["-m", "xsim_py", "run", "-n", "3"]
    done = subprocess.run([sys.executable, *words, str(program)], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == SAID + ["after finished"] * (how == "simulate")
    if how == "xsim run":
        assert (done.returncode, done.stderr.splitlines()[-1][:14]) == (0, "xsim: finished")


def test_a_descriptor_that_the_program_has_closed_is_told(tmp_path: Path):
    program = tmp_path / "prog.py"
    program.write_text("import os, sys\nprint('lost')\nos.close(int(sys.argv[1]))\n")
    file = os.open(os.devnull, os.O_WRONLY)
    stream = os.fdopen(os.dup(file), "w")
    with pytest.raises(OSError, match="the program has closed a descriptor") as raised:
        simulate(program, ranks=1, args=[stream.fileno()], stdout=stream)
    assert raised.value.errno in NO_ROOM
    os.dup2(file, stream.fileno())
    stream.close()
    os.close(file)


def test_other_streams_are_left_as_they_are(tmp_path: Path):
    with (tmp_path / "out").open("w") as file:
        for stream in (io.StringIO(), file):
            assert apart(stream) is stream
            with separate_streams(stream) as (same,):
                assert same is stream
            assert not stream.closed


def test_what_stands_before_a_standard_stream_stays():
    class Tee:
        def __getattr__(self, name: str) -> Any:
            return getattr(sys.__stdout__, name)

    class Own(io.TextIOWrapper): ...

    with open(1, "wb", closefd=False) as raw:
        for stream in (Tee(), Own(raw)):
            assert apart(cast("TextIO", stream)) is stream


def test_a_stream_is_apart_for_a_while():
    with open(1, "w", closefd=False) as stream:
        stream.reconfigure(write_through=True)  # as Python does with `-u`
        with separate_streams(stream, stream) as (own, same):
            assert same is own
            assert moved == {1: own.fileno()}
            assert own.line_buffering
            assert isinstance(own, SeparateStream)
            assert own.stands_for == 1
            assert own.fileno() > 256  # where a daemon does not close it
        assert own.closed
        assert not moved
        assert not stream.closed
