"""The environment variables by which a process can tell that a launcher has started it, and which one it is.

Nothing in MPI says what they are called. Programs and plugins look for those of Open MPI, and of MPICH's Hydra and what
follows it (Intel MPI, MVAPICH), so a rank has both. What a real library would use to reach its launcher is not there
(``PMI_FD``, ``PMIX_NAMESPACE``; and ``PMIX_RANK``, with which alone MPICH would look for one): a child of a rank is no
process of the job, and may use a real MPI for itself.
"""

from __future__ import annotations

from collections import Counter

from xsim_py.engine import OF_VIRTUAL_RANK
from xsim_py.machine import Machine
from xsim_py.process.ranks.rank import Rank

from .launcher import Launcher


def launched(rank: int, size: int, local: int, local_size: int, *, universe: int, number: int) -> dict[str, str]:
    """The variables of a process.

    Parameters
    ----------
    rank, size : int
        In its COMM_WORLD.
    local, local_size : int
        Among those on its node.
    universe : int
        How many there can be.
    number : int
        Its rank in the whole run.
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
    """The variables that each rank finds in its environment, from one start of the job on.

    Parameters
    ----------
    machine : Machine
        Says on which node a rank is.
    ranks : int
        How many there are at the start.
    """

    def __init__(self, machine: Machine, ranks: int) -> None:
        self._machine = machine
        self._first_ranks = range(ranks)
        self._local: dict[range, tuple[list[int], Counter[int]]] = {}

    def of(self, asking: Rank) -> dict[str, str]:
        """The variables of a rank."""
        number = asking.number
        worlds = asking.shard.fabric.part(Launcher).worlds.values()
        later = (world.ranks for world in worlds if number in world.ranks)
        world = self._first_ranks if number in self._first_ranks else next(later)
        here, counts = self._places(world)
        rank, size, local = number - world.start, len(world), here[number - world.start]
        local_size = counts[self._machine.node_of[number]]
        return launched(rank, size, local, local_size, universe=self._machine.universe, number=number)

    def _places(self, world: range) -> tuple[list[int], Counter[int]]:
        """Count for each rank of a world the lower ones on its node, and for each node the ranks that it has."""
        if world not in self._local:
            counts: Counter[int] = Counter()
            here = []
            for number in world:
                node = self._machine.node_of[number]
                here.append(counts[node])
                counts[node] += 1
            self._local[world] = here, counts
        return self._local[world]
