"""Settings of the MPI library, which it is told when a run begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .wanted_algorithms import Wanted


class Settings(NamedTuple):
    """Settings that a run and its machine make for the MPI library.

    Attributes
    ----------
    ranks : int
        The size of COMM_WORLD.
    collectives : mapping
        The algorithm of each collective operation; those not named are decided by size. See `preference`.
    poll_ps : int
        What a call costs that only looks.
    pairs : bool
        Whether messages are counted for each pair of ranks.
    machine : object
        Answers ``processor_name(rank)`` and ``node_of[rank]``.
    firsts : sequence of int
        The first rank of each program of the job.
    discovers : bool
        Whether the members of a group find out who of them is alive before they make a communicator.
    library_version : str
        What the library says that it is; empty for what it is.
    seed : int
        Of the run's random streams.
    counts_memory : bool
        Whether what the arrays of ranks take is counted.
    segments : mapping or None
        Memory that ranks share, by the number of its window, where all shards are in this process; else None.
    folder : str or None
        Of this run only, where its processes are on one computer: memory that they share are files in there.
    """

    ranks: int
    collectives: Wanted
    poll_ps: int
    pairs: bool
    machine: Any
    firsts: Sequence[int] = (0,)
    discovers: bool = False
    library_version: str = ""
    seed: int = 0
    counts_memory: bool = False
    segments: Any = None
    folder: str | None = None
