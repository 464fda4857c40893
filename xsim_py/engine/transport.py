"""Shards as the ranks of a real MPI: the one file that imports the real mpi4py, and only when a run needs it."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .kernel import INFINITY_PS
from .windows import Loopback, Shard, Transport

__all__ = ["Mpi", "launched_by_mpiexec", "make_transport"]

# What the launchers put into the environment of each process: MPICH's Hydra, PMIx (Open MPI 5), older Open MPI, Slurm.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")

# A launcher that is told to end the job does not read what the processes have written just before; so it gets a moment.
_FORWARDING_S = 0.2


def launched_by_mpiexec() -> bool:
    """Whether this process is one of several that a real ``mpiexec`` started."""
    for name in _SIZE_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value) > 1
    return False


def make_transport(shards: int) -> Transport:
    """Real MPI ranks under ``mpiexec``, else `shards` shards in this process."""
    if launched_by_mpiexec():
        return Mpi()
    return Loopback(shards)


class Mpi:
    """One shard in each rank of the real ``MPI.COMM_WORLD``."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = MPI.COMM_WORLD
        self.size = self._comm.Get_size()
        self.local = range(self._comm.Get_rank(), self._comm.Get_rank() + 1)

    @contextmanager
    def together(self) -> Iterator[None]:
        """See `Transport.together`; the others would wait for this process for ever."""
        try:
            yield
        except BaseException:
            sys.stderr.write(traceback.format_exc())
            sys.stderr.flush()
            time.sleep(_FORWARDING_S)
            self._comm.Abort(70)

    def run(self, shards: list[Shard], lookahead_ps: int) -> None:
        """See `Transport.run`."""
        shard = shards[0]
        self._exchange(shard)
        horizon = min(self._comm.allgather(shard.next_ps()))
        stop = False
        while horizon < INFINITY_PS and not stop:
            end = horizon + lookahead_ps
            shard.run_window(end)
            self._exchange(shard)
            # The earliest event anywhere is known only now: it may be a message, or what `window_done` makes of one.
            done = shard.window_done(horizon, end)
            summary = self._comm.allgather((shard.next_ps(), done))
            horizon = min(entry[0] for entry in summary)
            stop = any(entry[1] for entry in summary)

    def _exchange(self, shard: Shard) -> None:
        for batch in self._comm.alltoall(shard.take_outbox()):
            if batch is not None:
                shard.receive(batch)

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """See `Transport.gather`."""
        gathered: list[Any] | None = self._comm.gather(parts[0], root=0)
        return gathered

    def broadcast(self, value: Any) -> Any:
        """See `Transport.broadcast`."""
        return self._comm.bcast(value, root=0)
