"""The virtual MPI: matching, communicators, groups, collectives; everything that has no mpi4py name."""

from typing import Final

__all__ = ["NOBODY"]

NOBODY: Final[frozenset[int]] = frozenset()
"""No rank. One object for all: since Python 3.10 each empty set takes 200 bytes, and each rank has some."""
