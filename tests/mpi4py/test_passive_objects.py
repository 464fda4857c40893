"""Info, Group, Status, Errhandler and Exception do what they do in a real mpi4py, expression by expression."""

from __future__ import annotations

import json
import subprocess
import sys
from types import ModuleType

import pytest

from tests.mpi4py import expressions
from tests.versions import as_checked
from xsim_py.mpi import constants, errors, group
from xsim_py.mpi4py import datatype, errhandler, info, status
from xsim_py.mpi4py import group as face
from xsim_py.mpi4py.group import Group
from xsim_py.process.ranks import current

# Where ours differs, and means to.
OURS = {
    'null.Get("x")': "ERR_INFO",  # what the standard says of an invalid info; MPICH says ERR_ARG
    "null.Free()": "ERR_INFO",
    "g.Incl([0, 0])": "ERR_RANK",  # an erroneous program; MPICH makes a group that is not a set
}


@pytest.fixture
def mpi(monkeypatch) -> ModuleType:
    """A module of the passive objects alone, under the name that pickle looks for."""
    module = ModuleType("mpi4py.MPI")
    names = {name: value for name, value in vars(constants).items() if name.isupper()}
    for part in (face, info, errhandler, status):
        names |= {name: getattr(part, name) for name in part.__all__}
    vars(module).update(names | datatype.INSTANCES, Exception=errors.Exception, Datatype=datatype.Datatype)
    monkeypatch.setitem(sys.modules, "mpi4py", ModuleType("mpi4py"))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    monkeypatch.setattr(current, "rank_number", lambda: 0)
    return module


@pytest.fixture(scope="module")
def real() -> list[str]:
    run = subprocess.run([sys.executable, expressions.__file__], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


if as_checked("mpi4py", "mpich"):  # its answers are those of this version

    def test_every_expression_gives_what_it_gives_in_a_real_mpi(mpi, real):
        ours = expressions.outcomes(mpi, Group._of(group.Members(range(1))))
        different = {
            expression: (one, other)
            for expression, one, other in zip(expressions.EXPRESSIONS, ours, real, strict=True)
            if one != OURS.get(expression, other)
        }
        assert not different
