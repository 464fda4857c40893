"""The same executable here and on the MPICH of the package index: each rank writes the same lines."""

import io
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.cli.cc import command_line

PROGRAMS = Path(__file__).parent / "programs"
TWINS = ("files", "processes", "topologies", "windows")
MPIEXEC = Path(sys.executable).parent / "mpiexec"
MPICH = Path(sysconfig.get_path("data")) / "lib"


def by_rank(output: str) -> dict[str, list[str]]:
    """Return the lines of each rank, which begin with its number."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        rank, _, text = line.partition(": ")
        found.setdefault(rank, []).append(text)
    return found


@pytest.mark.parametrize("name", [*sorted(f"both/{path.stem}" for path in PROGRAMS.glob("both/*.c")), *TWINS])
def test_each_rank_writes_what_it_writes_on_mpich(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / Path(name).stem
    subprocess.run(command_line("cc", ["-g", "-O1", str(PROGRAMS / f"{name}.c"), "-o", str(program)]), check=True)
    output = io.StringIO()
    result = simulate(program, ranks=3, machine="shmem", stdout=output, stderr=output)
    assert result.ended == "finished", f"{result.report}\n{output.getvalue()}"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(MPICH)}
    words = [str(MPIEXEC), "-n", "3", str(program)]
    pipes = {"stdin": subprocess.DEVNULL, "capture_output": True}
    real = subprocess.run(words, env=environment, text=True, check=True, timeout=60, **pipes)
    assert by_rank(output.getvalue()) == by_rank(real.stdout)
