"""The shapes of operations, their timeouts on a network, and the service of distances."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from xsim_py.units import format_time

from .doubling import RECURSIVE_DOUBLING, DoublingTiming, Halves
from .node import ANY, Limits
from .paper import ALLREDUCE
from .payload import HEADER_BYTES
from .trees import Timing, Tree, best_radix, tree

if TYPE_CHECKING:
    from xsim_py.config import MachineSpec
    from xsim_py.config.description import FtcoSpec
    from xsim_py.network import Network
    from xsim_py.network.link import Link

_MIN_SHARE = 16  # of the latency counts as overhead at least: where messages cost processors no time, the best tree
# would have one level and flood its root. The paper has a tenth; its values for InfiniBand are a twelfth.
_MASK = (1 << 64) - 1


class TreeCosts(NamedTuple):
    """The costs of a message of one size, in picoseconds: the paper's L and o."""

    latency_ps: int
    overhead_ps: int


class Shapes:
    """Trees and timeouts for the communicators of a run."""

    def __init__(self, spec: FtcoSpec, link: Link) -> None:
        self.spec = spec  # an `FtcoSpec`: the section `mpi.ftco` of the machine's description
        self._link = link  # a `Link`: the costs of messages between the most distant ranks
        self._trees = lru_cache(maxsize=64)(self._tree)
        self._halves = lru_cache(maxsize=64)(Halves)
        self._timings = lru_cache(maxsize=64)(self._timing)

    def costs(self, size_bytes: int) -> TreeCosts:
        """Return the costs of a message between the most distant ranks.

        Time at the NIC counts as overhead.
        """
        cost = self._link.cost(size_bytes)
        least_ps = max(cost.latency_ps // _MIN_SHARE, 1)
        return TreeCosts(cost.latency_ps, max(cost.send_ps, cost.receive_ps, cost.busy_ps, least_ps))

    def shape(self, size: int, operation: str, size_bytes: int = 0) -> Tree | Halves:
        """Return `Halves` for an allreduce by recursive doubling, else the `tree`."""
        if self.spec.algorithm == RECURSIVE_DOUBLING and operation == ALLREDUCE:
            return self._halves(size)
        return self.tree(size, operation, size_bytes)

    def tree(self, size: int, operation: str, size_bytes: int = 0) -> Tree:
        """Return the tree of a communicator of `size` ranks for messages of about `size_bytes`.

        Several roots are useful only if all ranks get a value. The longer the messages, the narrower the best tree,
        because a rank sends one message after the other.
        """
        return self._trees(size, operation, _rounded(size_bytes) if self.spec.radix is None else 0)

    def _tree(self, size: int, operation: str, size_bytes: int) -> Tree:
        spec = self.spec
        roots = spec.roots if operation == ALLREDUCE else "single"
        radix = spec.radix
        if radix is None:
            radix = best_radix(size, spec.tree, roots, *self.costs(HEADER_BYTES + size_bytes), operation)
        return tree(size, spec.tree, radix=max(2, min(radix, size)), roots=roots)

    def limits(self, shape: Tree | Halves, size_bytes: int) -> Limits:
        """Return the timeouts for messages of about `size_bytes`."""
        return self._timings(shape, _rounded(size_bytes))

    def _timing(self, shape: Tree | Halves, size_bytes: int) -> Limits:
        latency_ps, overhead_ps = self.costs(HEADER_BYTES + size_bytes)
        latency_ps += self._link.cost(HEADER_BYTES + size_bytes).wire_ps
        limit_ps = self.spec.timeout_ps
        if isinstance(shape, Halves):
            return DoublingTiming(shape, latency=latency_ps, overhead=overhead_ps, timeout=limit_ps)
        return Timing(shape, latency=latency_ps, overhead=overhead_ps, timeout=limit_ps)


def _rounded(size_bytes: int) -> int:
    """Return the next power of two, to keep the number of different sizes small."""
    return 1 << (size_bytes - 1).bit_length() if size_bytes > 1 else 0


class Service:
    """The service distance of one rank in one operation (appendix A)."""

    __slots__ = ("degree", "kind", "seed", "slot_ps")

    def __init__(self, kind: str, *, seed: int, degree: int, slot_ps: int) -> None:
        self.kind = kind  # ``rsd``, ``disd`` or ``none``
        self.seed = seed  # of the random distances
        self.degree = degree  # the number of neighbours in the tree
        self.slot_ps = slot_ps  # the duration of an action: a step of the formal model

    def __call__(self, me: int, now_ps: int) -> int:
        """Return the distance to serve first now."""
        if self.kind == "none":
            return ANY
        if self.kind == "rsd":
            drawn = _mix(_mix(self.seed + me) + now_ps)
            return 65 - drawn.bit_length()  # 1 with probability 1/2, 2 with 1/4, ...
        interval = 4 * max(self.degree, 1)
        remaining = interval - now_ps // self.slot_ps % interval  # half of an interval for 1, a quarter for 2, ...
        return max(1, (interval // remaining).bit_length())


def _mix(number: int) -> int:
    """Scatter 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA'14)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return number ^ number >> 31


def ftco_shapes(spec: MachineSpec, network: Network) -> Shapes:
    """Return the FTCO shapes of the description for this network.

    Raises a `ConfigError` if the timeout is below the longest round trip, so that an answer could still be in flight.
    """
    link = network.longest()
    timeout_ps, least_ps = spec.mpi.ftco.timeout_ps, 2 * link.latency_ps
    if timeout_ps is not None and timeout_ps < least_ps:
        shown, least = format_time(timeout_ps, digits=None), format_time(least_ps, digits=None)
        message = f"{shown} is out of range: below the longest round trip ({least}), surviving ranks would be suspected"
        raise spec.error("mpi.ftco.timeout", message)
    return Shapes(spec.mpi.ftco, link)
