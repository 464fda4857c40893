"""Components that fail as a whole, such as cabinets and nodes, and the ranks in each.

Failures of real systems are correlated: a power supply takes a cabinet with it. So the machine is a tree of levels, and
a failure of a component kills all ranks in it. Components of a level are numbered from 0, like nodes; the numbers of a
node's parts continue those of the previous node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from xsim_py.config import ComponentSpec

_MAX_DRAWN: Final = 2**24
_WORDS: Final = ("machine", "node", "rank")
_RESERVED: Final = (*_WORDS, "core", "time", "time_s", "cause", "trace")


class Level(NamedTuple):
    """One level of the tree; the machine's level has no size."""

    name: str
    nodes: int = 0
    """Number of nodes of a component; 0 if it is smaller than a node."""
    cores: int = 0
    """Number of cores of a component that is smaller than a node."""


def levels(components: Sequence[ComponentSpec]) -> dict[str, Level]:
    """Return the levels by name, from the machine down to the rank, which is a core."""
    specified = [Level(spec.name, spec.nodes or 0, spec.cores or 0) for spec in components]
    ordered = [
        Level("machine"),
        *sorted((level for level in specified if level.nodes), key=lambda level: -level.nodes),
        Level("node", nodes=1),
        *sorted((level for level in specified if not level.nodes), key=lambda level: -level.cores),
        Level("rank", cores=1),
    ]
    return {level.name: level for level in ordered}


def component_problems(components: Sequence[ComponentSpec]) -> Iterator[tuple[int, str]]:
    """Yield the index of each entry that cannot be a level of the tree, and the problem."""
    seen: set[str] = set()
    for index, spec in enumerate(components):
        if spec.name in _RESERVED:
            advice = "write rank, which means one" if spec.name == "core" else "choose another"
            yield index, f"the name {spec.name} is reserved; {advice}"
        elif not spec.name.replace("_", "").replace("-", "").isalnum():
            yield index, f"expected a name of letters, digits, - and _, got {spec.name!r}"
        elif not spec.name[0].isalpha():
            yield index, f"expected a name that starts with a letter, got {spec.name!r}"
        elif spec.name in seen:
            yield index, f"duplicate component {spec.name}; rename one"
        if (spec.nodes is None) == (spec.cores is None):
            yield index, f"expected either nodes or cores, the number that form a {spec.name}"
        seen.add(spec.name)
    yield from _uneven(components, "nodes")
    yield from _uneven(components, "cores")


def _uneven(components: Sequence[ComponentSpec], unit: str) -> Iterator[tuple[int, str]]:
    """Yield components that are not made of whole smaller ones."""
    sizes = [(getattr(spec, unit), index, spec.name) for index, spec in enumerate(components)]
    ordered = sorted(size for size in sizes if size[0] is not None)
    for (less, _, inner), (size, index, name) in pairwise(ordered):
        if size % less:
            yield index, f"{size} {unit} make a {name} and {less} a {inner}; a {name} is made of whole {inner}s"


class Components:
    """The components of a machine and the ranks in each."""

    def __init__(self, levels: dict[str, Level], *, node_of: Sequence[int], cores_per_node: int | None = None) -> None:
        self._levels = levels  # see `levels`
        self._node_of = node_of  # by rank
        # The number of ranks that fit on a node; None: as many as on the fullest node.
        self._cores_per_node = cores_per_node
        self._of_ranks: dict[str, Sequence[int]] = {}
        self._members: dict[str, dict[int, list[int]]] = {}

    def of_ranks(self, name: str) -> Sequence[int]:
        """Return the number of each rank's component of a level."""
        if name not in self._of_ranks:
            self._of_ranks[name] = self._number(self._levels[name])
        return self._of_ranks[name]

    def count(self, name: str) -> int:
        """Return the number of components of a level, up to the last one with a rank."""
        return max(self.of_ranks(name)) + 1

    def too_many(self, name: str) -> str:
        """Return the problem of drawing a failure for each component of a level, or an empty text."""
        if (count := self.count(name)) <= _MAX_DRAWN:
            return ""
        return f"too many components of level {name}: {count:,} (at most {_MAX_DRAWN:,}, with or without ranks)"

    def of_spawned(self, name: str, number: int, node: int) -> int | None:
        """Return the number of a spawned rank's component of a level, on a node.

        It is None for parts of a node, because the core of a spawned rank is not specified.
        """
        level = self._levels[name]
        if name == "rank":
            return number
        if name == "machine":
            return 0
        return node // level.nodes if level.nodes else None

    def members(self, name: str, number: int) -> Sequence[int]:
        """Return the ranks in a component; none if it is empty or does not exist."""
        if name == "rank":
            return range(number, number + 1) if 0 <= number < len(self._node_of) else ()
        if name not in self._members:
            found: dict[int, list[int]] = defaultdict(list)
            for rank, component in enumerate(self.of_ranks(name)):
                found[component].append(rank)
            self._members[name] = dict(found)
        return self._members[name].get(number, ())

    def _number(self, level: Level) -> Sequence[int]:
        if level.name == "machine":
            return [0] * len(self._node_of)
        if level.name == "rank":
            return range(len(self._node_of))
        if level.nodes:
            return [node // level.nodes for node in self._node_of]
        cores_per_node = self._cores_per_node or max(self._core_of) + 1
        parts = -(-cores_per_node // level.cores)
        placed = zip(self._node_of, self._core_of, strict=True)
        return [node * parts + core // level.cores for node, core in placed]

    @cached_property
    def _core_of(self) -> list[int]:
        """The core of each rank: a node's cores are assigned in the order of ranks."""
        used_cores: dict[int, int] = defaultdict(int)
        cores = []
        for node in self._node_of:
            cores.append(used_cores[node])
            used_cores[node] += 1
        return cores
