"""Runs with other inputs find what is wrong with some of them only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xsim_py.errors import ConfigError
from xsim_py.explore import inputs
from xsim_py.explore.input_space import InputMistake

START = "import sys\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nn = int(sys.argv[1])\n"


def explored(tmp_path: Path, body: str, **told: object) -> list[InputMistake]:
    program = tmp_path / "program.py"
    program.write_text(START + body)
    told = {"ranks": [2], "args": ["{n}"], "values": {"n": [1, 2, 3]}, **told}
    return list(inputs(program, jobs=0, **told).mistakes)  # type: ignore[arg-type]


def test_what_some_inputs_lead_to_is_a_hazard_at_its_line(tmp_path: Path) -> None:
    (mistake,) = explored(tmp_path, "if n > 1 and comm.rank == 0:\n    comm.send(n, 1)\n")
    assert (Path(mistake.file).name, mistake.line, mistake.what) == ("program.py", 6, "CallOrdering")
    assert [case.values for case in mistake.inputs] == [(("n", "2"),), (("n", "3"),)]
    assert [case.args for case in mistake.others] == [("1",)]
    finding = mistake.finding()
    assert finding.category == "InputHazard"
    assert finding.text == "CallOrdering with 2 ranks, n=2, and not with 2 ranks, n=1"


def test_what_all_inputs_lead_to_has_its_own_class(tmp_path: Path) -> None:
    (mistake,) = explored(tmp_path, "if comm.rank == 0:\n    comm.send(n, 1)\n")
    assert mistake.finding().category == "CallOrdering"


def test_numbers_of_ranks_are_inputs(tmp_path: Path) -> None:
    (mistake,) = explored(tmp_path, "comm.bcast(n, root=2)\n", ranks=[2, 3, 4], values={"n": [1]})
    assert (mistake.line, mistake.what) == (5, "InvalidParameter")
    assert [case.ranks for case in mistake.inputs] == [2]
    assert [str(case) for case in mistake.others] == ["3 ranks, n=1", "4 ranks, n=1"]


def test_an_exception_is_found_in_the_line_of_the_program(tmp_path: Path) -> None:
    (mistake,) = explored(tmp_path, "import json\njson.loads('[]' if n < 3 else '[')\n")
    assert (mistake.line, mistake.what) == (6, "json.decoder.JSONDecodeError")


def test_a_program_may_refuse_an_input(tmp_path: Path) -> None:
    assert explored(tmp_path, "if n > 1:\n    sys.exit('too many')\n") == []
    assert explored(tmp_path, "if n > 1:\n    comm.Abort(3)\n") == []


def test_a_loop_without_an_end_waits_for_ever(tmp_path: Path) -> None:
    (mistake,) = explored(tmp_path, "while n > 2 and not comm.iprobe():\n    pass\n", wall_limit=0.5)
    assert (mistake.what, mistake.line) == ("deadlock", 5)


def test_a_name_has_to_stand_in_an_argument(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape("no argument of the program has {m} in it")):
        explored(tmp_path, "", values={"m": [1]})
