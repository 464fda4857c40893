"""Runs with other inputs find what is wrong with some of them only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xsim_py.errors import ConfigError
from xsim_py.explore import inputs
from xsim_py.explore.input_space import InputMistake, Inputs

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
    assert finding.text == "CallOrdering with 2 ranks, n=2 but not with 2 ranks, n=1"


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
    with pytest.raises(ConfigError, match=re.escape("no argument of the program contains {m}")):
        explored(tmp_path, "", values={"m": [1]})


def compared(tmp_path: Path, body: str, same: str = r"sum (\d+)", ranks: tuple[int, ...] = (2, 1, 3)) -> Inputs:
    program = tmp_path / "program.py"
    program.write_text(START + body)
    return inputs(program, ranks=ranks, args=["{n}"], values={"n": [4, 5]}, same=same, jobs=0)


def test_a_result_that_has_to_be_the_same_is_compared_between_numbers_of_ranks(tmp_path: Path) -> None:
    total = "total = comm.allreduce(sum(range(comm.rank * (n // comm.size), (comm.rank + 1) * (n // comm.size))))\n"
    found = compared(tmp_path, f"{total}print('sum', total, 'of', comm.size)\n")
    assert found.mistakes == ()
    assert found.difference is not None
    assert [(case.ranks, result) for case, result in found.difference.results] == [
        (1, ("6",)),
        (2, ("6",)),
        (3, ("3",)),
    ]
    assert [str(case) for case in found.difference.smallest] == ["1 rank, n=4", "3 ranks, n=4"]
    (finding,) = found.findings
    assert str(finding).endswith("program.py: InputHazard: 3 ranks, n=4 print a different result than 1 rank, n=4")
    assert finding.details == ("'6' with 1 rank, n=4; 2 ranks, n=4", "'3' with 3 ranks, n=4")


def test_the_same_result_is_no_finding_and_other_values_may_have_another(tmp_path: Path) -> None:
    assert compared(tmp_path, "print('sum', n, 'of', comm.size)\n").findings == ()
    assert compared(tmp_path, "if comm.size == 3: sys.exit(4)\nprint('sum', n)\n").findings == ()


def test_a_line_that_is_missing_is_a_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, "if comm.size < 3: print('sum', n)\n", same="sum")
    assert found.findings[0].details[1] == "no such line with 3 ranks, n=4"


def test_results_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    for same, ranks, said in [
        ("(", (1, 2), "same: invalid regular expression '(': missing ), unterminated subpattern at position 0"),
        ("x", (2,), "same: needs at least two rank counts to compare"),
        ("x", (1, 2), "same: 'x' matches no line of the output"),
    ]:
        with pytest.raises(ConfigError, match=re.escape(said)):
            compared(tmp_path, "", same, ranks)
