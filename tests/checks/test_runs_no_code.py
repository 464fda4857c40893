"""A check runs no code of the program: operators of its own classes are called as often as in a plain run."""

import io
from typing import Any

import pytest

from xsim_py import simulate

PROGRAM = """
import numpy as np
from mpi4py import MPI

seen = {"add": 0, "hash": 0, "eq": 0}

class Index(int):
    def __add__(self, other):
        seen["add"] += 1
        return 1
    def __hash__(self):
        seen["hash"] += 1
        return 1
    def __eq__(self, other):
        seen["eq"] += 1
        return True

comm, one, i = MPI.COMM_WORLD, 1, Index(1)
into = np.zeros(10)
blocks, plain, odd, index_of = [into] * 4, {1: into, 2: into}, {Index(3): into}, np.array([i, i])
requests = [comm.Irecv(into, 1 - comm.rank), comm.Isend(np.ones(10), 1 - comm.rank)]
EXPRESSION[0:0]
MPI.Request.Waitall(requests)
print(*seen.values())
"""


@pytest.mark.parametrize(
    "expression", ["blocks[i + 1]", "plain[i]", "odd[one]", "blocks[(index_of + 1)[0]]", "blocks[[i][0] + 1]"]
)
def test_operators_are_called_as_often(expression: str, tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("EXPRESSION", expression), encoding="utf-8")
    said = []
    for check in (False, True):
        out: Any = io.StringIO()
        simulate(program, ranks=2, check=check, stdout=out, stderr=out)
        said.append(out.getvalue())
    assert said[0] == said[1]
