"""What a program finds in its environment by which it sees that a launcher has started it."""

import io
import os
from typing import Any

import pytest

from xsim_py import simulate

NAMES = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_UNIVERSE_SIZE")


def printed(text: str, *, ranks: int, **told: Any) -> list[str]:
    out = io.StringIO()
    assert simulate(f"import os\n{text}", kind="code", ranks=ranks, stdout=out, **told).exit_status == 0
    return sorted(out.getvalue().splitlines())


def test_each_rank_finds_its_own_numbers():
    found = printed(f"print(*map(os.environ.get, {NAMES}))", ranks=4, set={"machine.cores_per_node": 3})
    assert found == ["0 4 0 3 6", "1 4 1 3 6", "2 4 2 3 6", "3 4 0 1 6"]


def test_they_come_before_those_of_a_real_launcher_which_come_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "7")
    assert printed("print(os.environ['OMPI_COMM_WORLD_RANK'])", ranks=2) == ["0", "1"]
    assert os.environ["OMPI_COMM_WORLD_RANK"] == "7"
    assert "XSIM_RANK" not in os.environ


def test_they_are_seen_however_the_environment_is_looked_at():
    text = "print('PMI_RANK' in os.environ, len(os.environ) == len(list(os.environ)) == len({**os.environ}),"
    text += " os.environb[b'PMI_RANK'], os.environ.copy()['PMI_RANK'], os.getenv('PMI_RANK'))"
    assert printed(text, ranks=2) == ["True True b'0' 0 0", "True True b'1' 1 1"]


def test_a_rank_may_change_them_for_itself():
    text = "del os.environ['PMI_SIZE']\nos.environ['PMI_RANK'] += 'x'\n"
    text += (
        "import time; time.sleep(1)\nprint(os.environ['PMI_RANK'], os.environ.get('PMI_SIZE'), os.environ['XSIM_RANK'])"
    )
    assert printed(text, ranks=2) == ["0x None 0", "1x None 1"]


def test_those_who_are_started_later_have_numbers_of_their_own_world():
    text = """
import sys
from mpi4py import MPI
here = MPI.Comm.Get_parent()
if not here:
    here = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", PROGRAM], 2)
else:
    print(os.environ["PMI_RANK"], os.environ["PMI_SIZE"], os.environ["XSIM_RANK"])
here.Disconnect()
"""
    program = f"import os\n{text}"
    assert printed(f"PROGRAM = {program!r}\n{text}", ranks=1, set={"spawn.universe": 4}) == ["0 2 1", "1 2 2"]
