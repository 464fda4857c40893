"""The package beside `MPI`: options, module names, and mpi4py's own utilities."""

from __future__ import annotations

import ast
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import xsim_py.mpi4py as package
import xsim_py.mpi4py.typing as our_types
import xsim_py.mpi4py.util as util
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
