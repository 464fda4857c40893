"""Fortran: the entry points and files that programs use, and programs, if there is a compiler for them."""

import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.compiled import fortran
from xsim_py import simulate
from xsim_py.cli.cc import command_line
from xsim_py.compiled.build import INCLUDE, library

PROGRAMS = Path(__file__).parent / "programs"


def run(program: Path, **options: object) -> tuple[object, str]:
    output = io.StringIO()
    result = simulate(program, ranks=3, stdout=output, stderr=io.StringIO(), **options)  # type: ignore[arg-type]
    return result, output.getvalue()


def test_the_library_has_every_procedure():
    words = ["nm", "-D", "--defined-only", str(library() / "libmpi_abi.so.1")]
    defined = set(
        re.findall(r" (\w+)$", subprocess.run(words, capture_output=True, text=True, check=True).stdout, re.M)
    )
    names = {each.name.lower() for _, f90, f08, _ in fortran.procedures() for each in (f90, f08) if each is not None}
    assert len(names) > 400
    assert {f"{prefix}{name}_" for name in names for prefix in ("", "p")} <= defined
    text = (INCLUDE / "mpif.h").read_text()
    for name in (*re.findall(r"^ +external (\w+)", text, re.M), *re.findall(r"common /(\w+)/", text)):
        assert f"{name.lower()}_" in defined


def test_mpif_has_the_constants_of_c_and_fits_into_fixed_form(tmp_path: Path):
    lines = (INCLUDE / "mpif.h").read_text().splitlines()
    assert max(map(len, lines[1:])) <= 72
    found = re.findall(r"parameter \((MPI_\w+)=(-?\d+)(?:_8)?\)", "\n".join(lines))
    in_c = (INCLUDE / "mpi.h").read_text()
    fields = ("MPI_SOURCE", "MPI_TAG", "MPI_ERROR")
    checks = [
        f'_Static_assert((intptr_t){name} == {value}, "{name}");'
        for name, value in found
        if name not in fields and not name.startswith("MPI_MAX_") and re.search(rf"\b{name}\b", in_c)
    ]
    assert len(checks) > 250
    program = tmp_path / "constants.c"
    program.write_text("\n".join(["#include <mpi.h>", *checks]))
    subprocess.run(command_line("cc", ["-c", str(program), "-o", str(tmp_path / "constants.o")]), check=True)


AS_FORTRAN = """\
token 3 from 2 with 7 after 0.000100288 s, sum 3
around: 2 -2, then -32766 1
attribute 1099511627876 1
[name    ] 4
deleted 1099511627876 100
attribute 100 1
[......] 0
[valu  ] 1
extent 24
product 6, all to all 0 10, maximum 1 at 1, 0
deleted 1099511627776 100
"""


def test_c_can_call_as_fortran_does(tmp_path: Path):
    program = tmp_path / "program"
    subprocess.run(command_line("cc", ["-g", str(PROGRAMS / "as_fortran.c"), "-o", str(program)]), check=True)
    result, output = run(program)
    assert output == AS_FORTRAN, result
    result, _ = run(program, fail="rank=1 before its 1st Send")
    assert "as_fortran.c:" in result.report  # type: ignore[attr-defined]


OUTPUTS = {
    "old.f": (
        "some    4    1    2    3    4    2    2\nhandler  6\nhandler  6\n F\n1234567890123 T\nhandler  6\n"
        "MPI_ERR_RANK: invalid rank\nmaximum    1    1\nput    2\nprobe    1    4\n"
    ),
    "module.f90": ("child 0 2 one two\nchild 1 2 one two\ncodes 0 0\nshared 5 5 5 5\nown request 99\n[MPI_CO] 14\n"),
    "typed.f90": (
        "any 1 2 T\nrow  0  0  2  0  0  0  6  0  0  0 10  0  0  0 14  0 of 4\nproduct  6\ncart 3 0 T\n"
        "[a circle    ]  8\nT\n"
    ),
}

if shutil.which("gfortran") is not None:

    @pytest.fixture
    def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
        monkeypatch.setenv("FC", "gfortran")
        monkeypatch.chdir(tmp_path)
        words = ["-g", "-w", "-fallow-argument-mismatch", str(PROGRAMS / "fortran" / request.param), "-o", "program"]
        subprocess.run(command_line("fc", words), check=True)
        return tmp_path / "program"

    @pytest.mark.parametrize(("built", "expected"), OUTPUTS.items(), ids=OUTPUTS, indirect=["built"])
    def test_programs(built: Path, expected: str):
        result, output = run(built)
        assert output == expected, result

    @pytest.mark.parametrize("built", ["ring.f90"], indirect=True)
    def test_twins_of_one_digest(built: Path):
        (result, _), (twin, _) = run(built), run(PROGRAMS / "ring.py")
        assert result.digest == twin.digest  # type: ignore[attr-defined]

    @pytest.mark.parametrize("built", ["module.f90"], indirect=True)
    def test_error_stop_ends_the_rank(built: Path):
        result, _ = run(built)
        assert (result.ended, result.exit_status) == ("aborted", 3)  # type: ignore[attr-defined]
        assert "rank 1 ended the job" in result.report  # type: ignore[attr-defined]
