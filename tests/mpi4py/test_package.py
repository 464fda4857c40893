"""The package beside `MPI`: options, module names, and mpi4py's own utilities."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import xsim_py.mpi4py as package
import xsim_py.mpi4py.typing as our_types
import xsim_py.mpi4py.util as util
from tests.process.launch import simulated
from xsim_py import simulate
from xsim_py.mpi import per_process


@pytest.fixture
def new_process():
    """Keep tables as one process does, and forget them."""
    tables = {}

    def own(name, make):
        if name not in tables:
            tables[name] = make()
        return tables[name]

    per_process.bind(own)
    yield
    per_process.bind(None)


def stub(name: str) -> ast.Module:
    return ast.parse(distribution("mpi4py").locate_file(f"mpi4py/{name}").read_text(encoding="utf-8"))


def test_the_package_has_every_public_name():
    names = {node.name for node in stub("__init__.pyi").body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert not names - set(dir(package))
    assert package.__version__.startswith("4.1.2")
    assert package.__all__ == ["MPI"]


def test_typing_has_every_public_name():
    (names,) = (
        ast.literal_eval(node.value)
        for node in stub("typing.pyi").body
        if isinstance(node, ast.AnnAssign) and node.target.id == "__all__"
    )
    assert set(names) == set(our_types.__all__)
    assert all(hasattr(our_types, name) for name in names)


def test_options_have_the_defaults_of_mpi4py(new_process):
    (rc,) = (node for node in stub("__init__.pyi").body if isinstance(node, ast.ClassDef))
    for node in rc.body:
        if isinstance(node, ast.AnnAssign):
            assert getattr(package.rc, node.target.id) == ast.literal_eval(node.value)


def test_options_can_be_set_and_belong_to_a_process(new_process):
    package.rc.threads = False
    package.rc(irecv_bufsz=64, errors="fatal")
    assert (package.rc.threads, package.rc.irecv_bufsz, package.rc.errors) == (False, 64, "fatal")
    per_process.bind(lambda name, make: make())
    assert (package.rc.threads, package.rc.irecv_bufsz, package.rc.errors) == (True, 32768, "exception")


def test_an_unknown_option_is_a_mistake(new_process):
    with pytest.raises(TypeError, match="no attribute 'thread'"):
        package.rc.thread = False
    with pytest.raises(TypeError, match="unexpected argument 'thread'"):
        package.rc(threads=False, thread=False)
    assert package.rc.threads is True
    with pytest.raises(AttributeError, match="'Rc' object has no attribute 'thread'"):
        _ = package.rc.thread


def test_there_is_no_profiler(tmp_path):
    (tmp_path / "libmpe.so").touch()
    with pytest.warns(UserWarning, match="mpe"):
        package.profile("mpe", path=tmp_path)
    with pytest.raises(ValueError, match="not found"):
        package.profile("mpe")


def test_utilities_are_those_of_the_real_package():
    _, folder = util.__path__
    assert {"pkl5.py", "pool.py", "sync.py"} <= {path.name for path in Path(folder).iterdir()}


def test_large_messages_of_pkl5_are_those_of_each_rank():
    """It keeps datatypes in a global, for as long as it receives: another rank frees its own meanwhile."""

    def rank():
        from mpi4py import MPI
        from mpi4py.util import pkl5

        comm = pkl5.Intracomm(MPI.COMM_WORLD)
        pkl5._bigmpi.blocksize = 1000 * (comm.rank + 1)
        other, arrays = 1 - comm.rank, [np.full(size, comm.rank, np.uint8) for size in (1500, 2500, 3500, 1500)]
        got = comm.sendrecv(arrays, other, 1, None, other, 1)
        return pkl5._bigmpi.blocksize, [(len(each), int(each[0])) for each in got]

    result = simulate(rank, ranks=2, check=True)
    sizes = (1500, 2500, 3500, 1500)
    assert result.values == [(1000, [(size, 1) for size in sizes]), (2000, [(size, 0) for size in sizes])]
    assert result.findings == ()


NAMES = """
import mpi4py
from mpi4py import MPI
print(MPI.__name__, MPI.__package__, MPI.__spec__.name, MPI.__spec__.parent, mpi4py.__name__, mpi4py.__package__)
print(mpi4py.__spec__.name, mpi4py.__spec__.parent, repr(MPI.Comm), MPI.Comm.__name__, MPI.Comm.__qualname__)
class Own(MPI.Intracomm): pass
null = [MPI.COMM_NULL, MPI.WIN_NULL, MPI.FILE_NULL, MPI.INFO_NULL, MPI.REQUEST_NULL, MPI.DATATYPE_NULL, MPI.OP_NULL]
null += [MPI.GROUP_NULL, MPI.ERRHANDLER_NULL, MPI.MESSAGE_NULL, MPI.SESSION_NULL, MPI.Status(), MPI.Exception(), Own()]
calls = [hash, len, iter, lambda each: each + 1, lambda each: each < 1, lambda each: each[0]]
calls += [lambda each: each.nothing, lambda each: setattr(each, "nothing", 1), lambda each: type(each).nothing]
for each in null:
    for call in calls:
        try:
            print(type(each).__name__, call(each) and "can")
        except (AttributeError, KeyError, TypeError) as error:
            print(error)
try:
    MPI.nothing
except AttributeError as error:
    print(error)
"""


def test_modules_and_types_have_the_names_of_the_real_ones(tmp_path):
    program = tmp_path / "names.py"
    program.write_text(NAMES)
    real = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert simulated(program, ranks=1).lines == real.stdout.splitlines()
