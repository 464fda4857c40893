"""Run pshmem's tests with windows of which Get returns when its data is there, as pshmem takes it for granted."""

import sys

import pytest
from mpi4py import MPI


class Flushed(MPI.Win):
    """A window that flushes after each Get."""

    def Get(self, origin, target_rank, target=None):  # noqa: N802  its name is mpi4py's
        """Get, and wait for it."""
        super().Get(origin, target_rank, target)
        self.Flush(target_rank)


MPI.Win = Flushed
sys.exit(pytest.main(sys.argv[1:]))
