"""The fixtures that a test on virtual ranks asks for; each rank has its own, for all of them look at MPI."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_mpi = import_module  # the simulated one in a rank, and under an mpiexec the real one


class CommFixtures:
    """`comm`, where no other plugin has one."""

    @pytest.fixture(scope="session")
    def comm(self) -> Any:
        """Return the communicator of all ranks of the test, ``MPI.COMM_WORLD``."""
        return _mpi("mpi4py.MPI").COMM_WORLD

    @pytest.fixture
    def mpi_ranks(self) -> int:
        """Return the number of ranks of the test."""
        size: int = _mpi("mpi4py.MPI").COMM_WORLD.size
        return size


class FolderFixtures:
    """The fixtures of pytest-mpi that pytest-isolate-mpi has, too."""

    @pytest.fixture
    def mpi_tmp_path(self, tmp_path: Path) -> Path:
        """Return a temporary folder that all ranks have in common."""
        return Path(_mpi("mpi4py.MPI").COMM_WORLD.bcast(str(tmp_path)))

    @pytest.fixture
    def mpi_tmpdir(self, tmpdir: Any) -> Any:
        """Return the same as a ``py.path.local``."""
        return type(tmpdir)(_mpi("mpi4py.MPI").COMM_WORLD.bcast(str(tmpdir)))


class FileNameFixture:
    """The other fixture of pytest-mpi."""

    @pytest.fixture
    def mpi_file_name(self, tmp_path: Path, request: pytest.FixtureRequest) -> str:
        """Return the name of a file in a folder that all ranks have in common."""
        return str(_mpi("mpi4py.MPI").COMM_WORLD.bcast(str(tmp_path / f"{request.node}.hdf5")))
