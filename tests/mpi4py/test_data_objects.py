"""Datatype, Op, buffer and Pickle do what they do in a real mpi4py, expression by expression."""

import sys
from types import ModuleType

import pytest

from tests.mpi4py import data_expressions
from tests.mpi4py.data_module import python, real_answers, simulated
from tests.versions import as_checked
from xsim_py import simulate
from xsim_py.mpi import per_process
from xsim_py.mpi4py.pickling import is_default


@pytest.fixture
def mpi(monkeypatch) -> ModuleType:
    module = simulated()
    monkeypatch.setitem(sys.modules, "mpi4py", ModuleType("mpi4py"))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    tables: dict = {}
    per_process.bind(lambda name, make: tables.setdefault(name, make()))
    yield module
    per_process.bind(None)


if as_checked("mpi4py", "mpich", "numpy"):  # its answers are those of this version

    def test_every_expression_gives_what_it_gives_in_a_real_mpi(mpi):
        real = real_answers(*python(data_expressions.__file__))[0]
        ours = data_expressions.outcomes(mpi)
        different = {
            expression: (one, other)
            for expression, one, other in zip(data_expressions.EXPRESSIONS, ours, real, strict=True)
            if one != other
        }
        assert not different


def test_what_one_process_calls_a_predefined_type_no_other_process_sees(mpi):
    names = []
    for _ in range(2):
        tables: dict = {}
        per_process.bind(lambda name, make, tables=tables: tables.setdefault(name, make()))
        names.append(mpi.INT.Get_name())
        mpi.INT.Set_name("mine")
        names.append(mpi.INT.Get_name())
    assert names == ["MPI_INT", "mine"] * 2


def test_what_one_process_does_to_the_pickler_no_other_process_sees(mpi):
    mpi.pickle.__init__(lambda obj: b"mine", lambda data: "mine")
    assert mpi.pickle.dumps(5) == b"mine"
    tables: dict = {}
    per_process.bind(lambda name, make: tables.setdefault(name, make()))
    assert mpi.pickle.loads(mpi.pickle.dumps(5)) == 5


def change() -> bool:
    from mpi4py import MPI

    MPI.pickle.PROTOCOL = 2
    return is_default()


def test_a_run_begins_with_the_usual_pickler():
    assert simulate(change, ranks=1).values == [False]
    assert simulate(is_default, ranks=1).values == [True]
