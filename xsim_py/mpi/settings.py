"""Settings of the MPI library for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xsim_py.config import MpiSpec

from .algorithm_selection import Selection


class Settings(NamedTuple):
    """Settings of the MPI library, from a run and its machine."""

    ranks: int
    """The size of COMM_WORLD."""
    collectives: Selection
    """The algorithm of each collective operation; others are chosen by size. See `algorithm_selection`."""
    mpi: MpiSpec
    """The part of the machine's description about MPI."""
    pairs: bool
    """Whether messages are counted for each pair of ranks."""
    machine: Any
    """Has ``processor_name(rank)`` and ``node_of[rank]``."""
    firsts: Sequence[int] = (0,)
    """The first rank of each program of the job."""
    seed: int = 0
    """The seed of the run's random streams."""
    counts_memory: bool = False
    """Whether the memory of ranks' arrays is counted."""
    segments: Any = None
    """Memory shared by ranks, by the number of its window, if all shards are in this process; else None."""
    folder: str | None = None
    """A directory private to this run, if its processes are on one host: shared memory is in files there."""

    @property
    def discovers(self) -> bool:
        """True if the members of a group discover which of them are alive before they make a communicator."""
        return self.mpi.create_group == "liveness" or self.mpi.resilience is not None
