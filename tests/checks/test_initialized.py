"""Calls before MPI is initialized are found, and those of sessions, which need it not to be."""

from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.findings import CALL_ORDERING

LATE = "import mpi4py\n\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\n\n"
OWN = "own = MPI.Intracomm.Create_from_group(group)\ngroup.Free()\nown.Barrier()\nown.Free()\nsession.Finalize()\n"


def _found(folder: Path, body: str) -> list[tuple[str, int, str]]:
    program = folder / "program.py"
    program.write_text(LATE + body, encoding="utf-8")
    result = simulate(program, ranks=2, check=True)
    return [(each.category, each.line, each.text) for each in result.findings]


@pytest.mark.parametrize("call", ["Barrier()", "bcast(1)", "Get_rank()", "Dup()"])
def test_call_before_init(tmp_path: Path, call: str) -> None:
    assert _found(tmp_path, f"MPI.COMM_WORLD.{call}\nMPI.Init()\n") == [
        (CALL_ORDERING, 6, "MPI is used before MPI_Init")
    ]


@pytest.mark.parametrize(
    "body",
    [
        "MPI.Init()\nMPI.COMM_WORLD.Barrier()\nMPI.Finalize()\n",
        "MPI.Info.Create().Free()\nMPI.Init_thread()\nMPI.COMM_WORLD.Barrier()\n",
        "assert not MPI.Is_initialized()\n",
        "session = MPI.Session.Init()\ngroup = session.Create_group('mpi://WORLD')\n" + OWN,
    ],
)
def test_calls_in_time(tmp_path: Path, body: str) -> None:
    assert _found(tmp_path, body) == []


def test_what_comes_of_sessions_is_followed(tmp_path: Path) -> None:
    assert _found(tmp_path, "MPI.Session.Init()\n") == [
        ("ResourceLeak", 6, "the session of Session.Init is never freed")
    ]


def test_ended_without_finalize(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import mpi4py\n\nmpi4py.rc.finalize = False\nfrom mpi4py import MPI\n\nMPI.COMM_WORLD.Barrier()\n"
    )
    (found,) = simulate(program, ranks=2, check=True).findings
    assert (found.category, found.line) == (CALL_ORDERING, 6)
