"""Places in compiled programs, with debug information, without it, and without symbols."""

import io
import subprocess
from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.cli.cc import command_line

TEXT = """\
#include <mpi.h>
static void wait_for(int rank) {
  int x;
  MPI_Recv(&x, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  wait_for(0);
}
"""


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (["-g"], "hang.c:4 in wait_for: MPI_Recv(&x, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"),
        ([], "hang:1 in wait_for, 0x"),
        (["-s"], "hang:1 in 0x"),
    ],
    ids=["debug information", "symbols", "stripped"],
)
def test_a_report_names_what_the_executable_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], shown: str
):
    monkeypatch.chdir(tmp_path)
    words = command_line("cc", [*flags, "hang.c", "-o", "hang"])
    for _ in range(2):  # built again between two runs
        Path("hang.c").write_text(TEXT)
        subprocess.run(words, check=True)
        result = simulate("hang", ranks=1, stdout=io.StringIO(), stderr=io.StringIO())
        assert result.ended == "stalled"
        assert f"  rank 0, {shown}" in result.report
