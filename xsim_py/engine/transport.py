"""Shards as the ranks of a real MPI: the only file that imports the real mpi4py, on demand."""

from __future__ import annotations

import os
import sys
import time
import traceback
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pickle import dumps, loads  # the originals: a program may replace them
from typing import Any, NoReturn

from xsim_py.errors import NO_ROOM, NOT_WRITTEN, ConfigError, unwritten

from .kernel import INFINITY_PS
from .windows import Lookahead, Loopback, ShardProtocol, Transport, one_at_a_time, window_end_ps

OF_VIRTUAL_RANK = "XSIM_RANK"
"""A variable that virtual ranks have. A child that finds it has no part in a real launcher's job."""

# The variables that launchers set in each process: MPICH's Hydra and Slurm's PMI-2, Open MPI, Intel MPI. Slurm's PMIx
# sets the rank only; Slurm itself sets the number of tasks, but also in a job script outside of a step.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")

RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
"""The number of this process: of MPICH's Hydra and Slurm's PMI-2, Open MPI, and PMIx, as of ``srun --mpi=pmix``."""

_PMIX, _SLURM_SIZE = "PMIX_RANK", "SLURM_STEP_NUM_TASKS"

# A launcher that has to end the job does not read output written just before, so it gets a moment.
_FORWARDING_S = 0.2

_sleep = time.sleep  # the original: a rank has a virtual one


def launched_by_mpiexec() -> int:
    """Return the number of processes that a real ``mpiexec`` started together.

    The result is 0 without ``mpiexec``.
    """
    if OF_VIRTUAL_RANK in os.environ:
        return 0
    names = (*_SIZE_VARIABLES, _SLURM_SIZE) if _PMIX in os.environ else _SIZE_VARIABLES
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return 0


def forget_launcher() -> None:
    """Remove the launcher's variables, real or simulated, so that this process can begin a new job."""
    for name in (*_SIZE_VARIABLES, *RANK_VARIABLES, _SLURM_SIZE, OF_VIRTUAL_RANK):
        os.environ.pop(name, None)


def make_transport(shards: int) -> Transport:
    """Return the transport between real MPI ranks under ``mpiexec``, else between `shards` local shards.

    Under ``mpi4py.futures``, too, shards are local: there each process has separate runs.
    """
    if launched_by_mpiexec() > 1 and "mpi4py.futures" not in sys.modules:
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
        """End all processes if this one fails; the others would wait for it indefinitely."""
        try:
            yield
        except BrokenPipeError:  # the reader of the output has closed the pipe
            self.leave(141)
        except BaseException as error:
            status, message = 70, traceback.format_exc()
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                status, message = NOT_WRITTEN, f"xsim: {unwritten(error)}\n"
            if isinstance(error, ConfigError):
                status, message = 2, f"xsim: {error}\n"
            sys.stderr.write(message)
            sys.stderr.flush()
            self.leave(status)

    def simulate(self, work: Callable[[Sequence[int]], list[Any]], host: object) -> list[Any]:
        """Call `work` with the one shard of this process."""
        return work(self.local)

    def run(self, shards: list[ShardProtocol], lookahead: Lookahead) -> None:
        """Run windows of this process's shard, with an exchange after each; see `Transport.run`."""
        shard = shards[0]
        self._exchange(shard)
        stop = were_idle = False
        while True:
            # Only now is the earliest event known: it may be a message, or created by `window_done`.
            nexts, stop = self._agree(shard.next_ps(), stop)
            horizon = min(nexts)
            if stop or (horizon >= INFINITY_PS and were_idle):
                return
            were_idle = horizon >= INFINITY_PS
            if were_idle:
                shard.all_idle()
                continue
            number = self.local[0]
            end = one_at_a_time(nexts)[number] if shard.in_turn else window_end_ps(number, nexts, lookahead)
            shard.run_window(end)
            self._exchange(shard)
            stop = shard.window_done(horizon, end)

    def _agree(self, next_ps: int, stop: bool) -> tuple[list[int], bool]:
        """Wait for the other shards.

        Return each one's earliest event time, and True if any asks to stop.
        """
        # As two numbers: `INFINITY_PS` and similar bounds do not fit into 64 bits.
        high, low = divmod(next_ps, 1 << 62)
        table = array("q", bytes(24 * self.size))
        self._wait_for_peers(self._comm.Allgather, array("q", (high, low, stop)), table)
        return [(high << 62) + low for high, low in zip(table[::3], table[1::3], strict=True)], any(table[2::3])

    def _exchange(self, shard: ShardProtocol) -> None:
        """Send each peer its batch, if any, as one buffer; receive the peers' batches."""
        parcels = {to: dumps(batch, -1) for to, batch in shard.take_outbox().items()}
        going, coming = array("q", bytes(8 * self.size)), array("q", bytes(8 * self.size))
        for to, parcel in parcels.items():
            going[to] = len(parcel)
        self._wait_for_peers(self._comm.Alltoall, going, coming)
        received = {source: bytearray(size) for source, size in enumerate(coming) if size}
        requests = [self._comm.Irecv(buffer, source) for source, buffer in received.items()]
        requests += [self._comm.Isend(parcel, dest) for dest, parcel in parcels.items()]
        self._mpi.Request.Waitall(requests)
        for buffer in received.values():
            shard.receive(loads(buffer))

    @staticmethod
    def _wait_for_peers(collective: Callable[[Any, Any], None], mine: array[int], all_of_them: array[int]) -> None:
        """Run a collective of the real MPI.

        This name marks time spent waiting for other shards in a profile.
        """
        collective(mine, all_of_them)

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """Return the parts of all shards in shard 0's process, and None in the others."""
        gathered: list[Any] | None = self._comm.gather(parts[0], root=0)
        return gathered

    def broadcast(self, value: object) -> Any:
        """Return the value of shard 0's process."""
        return self._comm.bcast(value, root=0)

    def leave(self, status: int) -> NoReturn:
        """End every process of the real MPI job."""
        _sleep(_FORWARDING_S)
        self._comm.Abort(status)
