"""Environment variables by which a process recognises its launcher and its rank.

MPI does not define their names. Programs and plugins look for those of Open MPI, and of MPICH's Hydra and its
derivatives (Intel MPI, MVAPICH), so a rank has both. The variables that a real library would use to reach its launcher
are absent (``PMI_FD``, ``PMIX_NAMESPACE``; and ``PMIX_RANK``, with which alone MPICH would look for one): a child of a
rank is not a process of the job, and may use a real MPI.
"""

from __future__ import annotations

from collections import Counter

from xsim_py.engine import OF_VIRTUAL_RANK
from xsim_py.machine import Machine
from xsim_py.process.ranks.rank import Rank

from .launcher import Launcher


def launched(rank: int, size: int, local: int, local_size: int, *, universe: int, number: int) -> dict[str, str]:
    """Return the variables of a process.

    `rank` and `size` are those in its COMM_WORLD, `local` and `local_size` those among the ranks of its node.
    `universe` is the maximum number of processes, and `number` its rank in the whole run.
    """
    values = {
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_LOCAL_RANK": local,
        "OMPI_COMM_WORLD_LOCAL_SIZE": local_size,
        "OMPI_COMM_WORLD_NODE_RANK": local,
        "OMPI_UNIVERSE_SIZE": universe,
        "PMI_RANK": rank,
        "PMI_SIZE": size,
        "MPI_LOCALRANKID": local,
        "MPI_LOCALNRANKS": local_size,
        OF_VIRTUAL_RANK: number,
    }
    return {name: str(value) for name, value in values.items()}


NAMES = frozenset(launched(0, 1, 0, 1, universe=1, number=0))
"""The names of these variables."""


class Variables:
    """The variables in each rank's environment, for one start of the job."""

    def __init__(self, machine: Machine, ranks: int) -> None:
        self._machine = machine  # maps ranks to nodes
        self._first_ranks = range(ranks)  # the initial ranks
        self._local: dict[range, tuple[list[int], Counter[int]]] = {}

    def of(self, querying: Rank) -> dict[str, str]:
        """Return the variables of a rank."""
        number = querying.number
        worlds = querying.shard.fabric.part(Launcher).worlds.values()
        later = (world.ranks for world in worlds if number in world.ranks)
        world = self._first_ranks if number in self._first_ranks else next(later)
        on_node, counts = self._locations(world)
        rank, size, local = number - world.start, len(world), on_node[number - world.start]
        local_size = counts[self._machine.node_of[number]]
        return launched(rank, size, local, local_size, universe=self._machine.universe, number=number)

    def _locations(self, world: range) -> tuple[list[int], Counter[int]]:
        """Return each rank's index on its node, and the number of ranks per node, in a world."""
        if world not in self._local:
            counts: Counter[int] = Counter()
            on_node = []
            for number in world:
                node = self._machine.node_of[number]
                on_node.append(counts[node])
                counts[node] += 1
            self._local[world] = on_node, counts
        return self._local[world]
