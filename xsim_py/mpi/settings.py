"""Settings of the MPI library for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xsim_py.config import ResilienceSpec

from .algorithm_selection import Selection


class Settings(NamedTuple):
    """Settings of the MPI library, from a run and its machine."""

    ranks: int
    """The size of COMM_WORLD."""
    collectives: Selection
    """The algorithm of each collective operation; others are chosen by size. See `algorithm_selection`."""
    poll_ps: int
    """The cost of an unsuccessful poll."""
    pairs: bool
    """Whether messages are counted for each pair of ranks."""
    machine: Any
    """Has ``processor_name(rank)`` and ``node_of[rank]``."""
    firsts: Sequence[int] = (0,)
    """The first rank of each program of the job."""
    discovers: bool = False
    """Whether the members of a group discover which of them are alive before they make a communicator."""
    library_version: str = ""
    """The reported library version; empty for the real one."""
    resilience: ResilienceSpec | None = None
    """The options of the layer that lets programs tolerate failures, if there is one."""
    seed: int = 0
    """The seed of the run's random streams."""
    counts_memory: bool = False
    """Whether the memory of ranks' arrays is counted."""
    segments: Any = None
    """Memory shared by ranks, by the number of its window, if all shards are in this process; else None."""
    folder: str | None = None
    """A directory private to this run, if its processes are on one host: shared memory is in files there."""
