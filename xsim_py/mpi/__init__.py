"""The virtual MPI: matching, communicators, groups, collectives; everything without an mpi4py name."""

from typing import Final

__all__ = ["NOBODY"]

NOBODY: Final[frozenset[int]] = frozenset()
"""The empty set of ranks, shared: since Python 3.10 each empty set takes 200 bytes, and each rank has some."""
