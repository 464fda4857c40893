"""The fixtures of a test on virtual ranks; each rank has its own, as all use MPI."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NAMES = ("comm", "mpi_ranks", "mpi_tmp_path", "mpi_tmpdir", "mpi_file_name")

_mpi = import_module  # the simulated one in a rank, the real one under mpiexec


def plugin_of(*names: str) -> ModuleType:
    """Return a plugin with some of these fixtures, as a module to keep them unbound."""
    made = ModuleType("xsim_py_fixtures")
    vars(made).update({name: globals()[name] for name in names})
    return made


@pytest.fixture(scope="session")
def comm() -> Any:
    """Return the communicator of all ranks of the test, ``MPI.COMM_WORLD``."""
    return _mpi("mpi4py.MPI").COMM_WORLD


@pytest.fixture
def mpi_ranks() -> int:
    """Return the number of ranks of the test."""
    size: int = _mpi("mpi4py.MPI").COMM_WORLD.size
    return size


@pytest.fixture
def mpi_tmp_path(tmp_path: Path) -> Path:
    """Return a temporary directory shared by all ranks."""
    return Path(_mpi("mpi4py.MPI").COMM_WORLD.bcast(str(tmp_path)))


@pytest.fixture
def mpi_tmpdir(tmpdir: Any) -> object:
    """Return the shared temporary directory as a ``py.path.local``."""
    return type(tmpdir)(_mpi("mpi4py.MPI").COMM_WORLD.bcast(str(tmpdir)))


@pytest.fixture
def mpi_file_name(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Return the name of a file in a directory shared by all ranks."""
    return str(_mpi("mpi4py.MPI").COMM_WORLD.bcast(str(tmp_path / f"{request.node}.hdf5")))
