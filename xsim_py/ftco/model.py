"""The formal model of FTCO: configurations, random draws, and outcomes of runs.

Margolin and Barak (section 5.2) count steps of one message overhead each. Rules that their paper leaves open have names
(`Rules`): ``reference`` are those of the authors' own simulator, ``paper`` those printed in the paper.

Every draw is a function of the run's seed and of its purpose (a counter rather than a sequence). So a sleeping node
draws nothing, and the plain step model and the compiled one agree bit for bit. The generator is the finaliser of
SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA'14), twice. The numeric
functions at the end of this module do the same on Python integers, on NumPy arrays of ``uint64``, and compiled for
``uint64``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim_py.errors import ConfigError, OptionProblem
from xsim_py.mpi.ftco.doubling import RECURSIVE_DOUBLING
from xsim_py.mpi.ftco.trees import KINDS, ROOTS, Timing, Tree, best_radix, tree
from xsim_py.rng import derive_seed

OPERATIONS = ("allreduce", "reduce", "bcast")
IMBALANCES = ("none", "uniform", "normal")
TREE = "tree"
ALGORITHMS = (TREE, RECURSIVE_DOUBLING, "hierarchical", "gossip", "rerouting", "lookup_avoiding", "rebalancing")
MAX_NODES = 1_000_000
MAX_RUNS = 1_000_000
"""Maximum number of runs of a configuration, because the outcome of each is kept."""
MAX_STEPS = 100_000
"""Maximum of a latency, timeout, window or imbalance, because a run visits every step."""
NEVER = 1 << 62
"""The failure step of a node that does not fail."""


def _one_of(*choices: str) -> Any:
    return field(metadata={"choices": choices})


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Decisions on points that the paper leaves open.

    Attributes
    ----------
    order : str
        Order of work of a node without DATA to send. ``code``: take DATA, send ACK, send KEEPALIVE, take KEEPALIVE,
        take ACK. ``printed`` (Algorithm 1): take DATA, KEEPALIVE, ACK, send ACK, send KEEPALIVE.
    keepalive : str
        Receivers of KEEPALIVE queries: ``all`` contacts, or those whose message has ``not_arrived`` (Algorithm 4, line
        20).
    control_latency : str
        Steps that ACK and KEEPALIVE take: their ``distance`` in the tree, or the ``full`` L+1 of DATA.
    service : str
        Service distance (appendix A): ``rsd`` random, ``disd`` deterministic intervals, ``none`` always any.
    streams : str
        Whether all nodes have ``shared`` random service distances, or each its ``own``.
    draw : str
        Whether failing nodes are drawn with ``replacement`` or ``distinct``.
    eta : str
        Whether a node's expected times of arrival are ``reset`` to 0 by the first failure that it learns of, or
        ``kept``.
    traversal : str
        Tree traversal and repair: ``reference`` (some failures in the downward phase hang it; node 0 is immune) or
        ``paper`` (correct regardless of which nodes fail, and when).
    """

    order: str = _one_of("code", "printed")
    keepalive: str = _one_of("all", "not_arrived")
    control_latency: str = _one_of("distance", "full")
    service: str = _one_of("rsd", "disd", "none")
    streams: str = _one_of("shared", "own")
    draw: str = _one_of("replacement", "distinct")
    eta: str = _one_of("reset", "kept")
    traversal: str = _one_of("reference", "paper")

    def problems(self) -> list[OptionProblem]:
        """Return the invalid choices and combinations."""
        problems = [
            OptionProblem(
                "rules",
                f"{each.name}: expected {' or '.join(each.metadata['choices'])}, got {getattr(self, each.name)}",
            )
            for each in fields(self)
            if getattr(self, each.name) not in each.metadata["choices"]
        ]
        if self.traversal == "paper":
            problems += [
                OptionProblem("rules", f"{name}={choice} needs traversal=reference")
                for name, choice in (("keepalive", "all"), ("eta", "reset"))
                if getattr(self, name) == choice
            ]
        return problems


RULES = {
    "reference": Rules(
        order="code",
        keepalive="all",
        control_latency="distance",
        service="rsd",
        streams="shared",
        draw="replacement",
        eta="reset",
        traversal="reference",
    ),
    "paper": Rules(
        order="printed",
        keepalive="not_arrived",
        control_latency="full",
        service="rsd",
        streams="own",
        draw="distinct",
        eta="kept",
        traversal="paper",
    ),
}


def parse_rules(text: str) -> Rules:
    """Return rules by name, with changes: ``reference,keepalive=not_arrived``.

    Raises
    ------
    ConfigError
        For unknown names, rules or choices; all of them at once.
    """
    name, *changes = (part.strip() for part in text.split(","))
    problems = [] if name in RULES else [OptionProblem("rules", f"expected {' or '.join(RULES)}, got {name!r}")]
    rules = RULES.get(name, RULES["reference"])
    known = [each.name for each in fields(Rules)]
    for change in changes:
        key, _, value = change.partition("=")
        if key in known:
            rules = replace(rules, **{key: value})
        else:
            problems.append(OptionProblem("rules", f"unknown key {key!r}; known: {', '.join(known)}"))
    problems += rules.problems()
    if problems:
        raise ConfigError(*problems)
    return rules


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The parameters of an ensemble of runs.

    Attributes
    ----------
    nodes : int
        Number of nodes, including failed ones; the paper's P.
    tree : str
        ``knomial`` or ``kary``.
    radix : int or str
        The tree's parameter k, at least 2; ``auto`` is the one with the smallest fault-free latency.
    roots : str
        ``single``, or ``multi``: nodes 0 to k-1 are roots and know each other.
    L, o : int
        Latency of the network and overhead of a message, in the same unit; L is a multiple of o. A step lasts o.
    inactive : int
        Number of nodes that have failed before the start.
    failures : int
        Number of nodes that fail at run time.
    window : tuple of int or None
        The steps ``[first, end)`` of these failures; None is the reference's, from 0 to L/o * (1 + floor(log10 P)).
    imbalance : str
        Start steps of nodes: ``none`` (all at 0), ``uniform:S`` (from 0 to S-1) or ``normal:S`` (standard deviation
        S/10, the smallest possible value is 0).
    operation : str
        ``allreduce``, ``reduce`` (to node 0) or ``bcast`` (from node 0).
    rules : Rules
        Choices where the paper is open.
    timeout : int or None
        Timeout of a query in steps, at any distance; None is the paper's function of the distance.
    algorithm : str
        ``tree``, which is FTCO, or another fault-tolerant algorithm; see `xsim_py.ftco.baselines`.
    group : int
        Under ``hierarchical``: number of neighbours that share memory.
    topmost : tuple of int or None
        Positions ``[first, end)`` in the `ranking` of the nodes that must contain the first of all failed nodes; None
        is any. Draws are those of all nodes under that condition, see `xsim_py.ftco.strata`.

    Raises
    ------
    ConfigError
        For invalid parameters; all problems at once, one per line.
    """

    nodes: int
    tree: str = "knomial"
    radix: int | str = "auto"
    roots: str = "multi"
    L: int = 10
    o: int = 1
    inactive: int = 0
    failures: int = 0
    window: tuple[int, int] | None = None
    imbalance: str = "none"
    operation: str = "allreduce"
    rules: Rules = RULES["reference"]
    timeout: int | None = None
    algorithm: str = TREE
    group: int = 16
    topmost: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        problems = self.rules.problems() + self._problems_of_the_tree() + self._problems_of_time()
        if self.inactive < 0:
            problems.append(OptionProblem("inactive", f"{self.inactive} is out of range (at least 0)"))
        if self.failures < 0:
            problems.append(OptionProblem("failures", f"{self.failures} is out of range (at least 0)"))
        faults = max(0, self.inactive) + max(0, self.failures)
        if 1 <= self.nodes <= faults:
            asked = "failures" if self.failures else "inactive"
            problems.append(
                OptionProblem(asked, f"{faults} faults of {self.nodes} nodes; at least one node must survive")
            )
        if self.operation not in OPERATIONS:
            problems.append(OptionProblem("operation", f"expected {' or '.join(OPERATIONS)}, got {self.operation!r}"))
        problems += self._problems_of_the_algorithm()
        if self.topmost is not None:
            problems += self._problems_of_the_topmost(*self.topmost)
        if problems:
            raise ConfigError(*problems)

    def _problems_of_the_tree(self) -> list[OptionProblem]:
        problems = []
        if self.nodes < 1:
            problems.append(OptionProblem("nodes", f"{self.nodes} is out of range (at least 1)"))
        if self.nodes > MAX_NODES:
            problems.append(OptionProblem("nodes", f"{self.nodes:,} is out of range (at most {MAX_NODES:,})"))
        if self.tree not in KINDS:
            problems.append(OptionProblem("tree", f"expected {' or '.join(KINDS)}, got {self.tree!r}"))
        if self.roots not in ROOTS:
            problems.append(OptionProblem("roots", f"expected {' or '.join(ROOTS)}, got {self.roots!r}"))
        if isinstance(self.radix, str):
            if self.radix != "auto":
                problems.append(OptionProblem("radix", f"expected a number or auto, got {self.radix!r}"))
        elif self.radix < 2:
            problems.append(OptionProblem("radix", f"{self.radix} is out of range (at least 2)"))
        elif self.roots == "multi" and self.radix > self.nodes > 1:
            problems.append(OptionProblem("radix", f"a tree with {self.radix} roots does not fit {self.nodes} nodes"))
        return problems

    def _problems_of_the_algorithm(self) -> list[OptionProblem]:
        name = self.algorithm
        if name not in ALGORITHMS:
            return [OptionProblem("algorithm", f"unknown algorithm {name!r}; known: {', '.join(ALGORITHMS)}")]
        problems = [] if self.group > 0 else [OptionProblem("group", f"{self.group} is out of range (at least 1)")]
        only = {RECURSIVE_DOUBLING: "allreduce", "hierarchical": "allreduce", "gossip": "bcast"}.get(name)
        if only not in (None, self.operation):
            problems.append(OptionProblem("algorithm", f"{name} needs --operation {only}, got {self.operation}"))
        if self.failures > 0 and name not in (TREE, RECURSIVE_DOUBLING, "gossip"):
            problems.append(
                OptionProblem(
                    "algorithm", f"{name} cannot be combined with --failures: it knows all failed nodes in advance"
                )
            )
        return problems

    def _problems_of_the_topmost(self, first: int, end: int) -> list[OptionProblem]:
        faults = self.inactive + self.failures
        distinct = self.rules.draw == "distinct"
        if not self.first_mortal <= first < end <= self.nodes:
            return [OptionProblem("topmost", f"no node that can fail has an index from {first} to {end - 1}")]
        if faults < 1 or (distinct and self.nodes - first < faults):
            return [OptionProblem("topmost", f"{faults} faults cannot be drawn from index {first} on")]
        return []

    def _problems_of_time(self) -> list[OptionProblem]:
        problems = []
        if self.o < 1:
            problems.append(OptionProblem("o", f"{self.o} is out of range: it must be positive"))
        elif self.L < 1 or self.L % self.o:
            problems.append(OptionProblem("L", f"expected a positive multiple of o = {self.o}, got {self.L}"))
        if self.timeout is not None and self.timeout < 1:
            problems.append(OptionProblem("timeout", f"{self.timeout} steps is out of range: it must be positive"))
        if self.window is not None and not 0 <= self.window[0] < self.window[1]:
            problems.append(
                OptionProblem("window", f"empty window: no step from {self.window[0]} to before {self.window[1]}")
            )
        kind, _, spread = self.imbalance.partition(":")
        if kind not in IMBALANCES or (kind == "none") != (not spread):
            problems.append(OptionProblem("imbalance", f"expected none, uniform:S or normal:S, got {self.imbalance!r}"))
        elif spread and not re.fullmatch("[0-9]{1,18}", spread):
            problems.append(OptionProblem("imbalance", f"expected a whole number of steps, got {spread!r}"))
        return problems or self._too_long(int(spread or 0))

    def _too_long(self, spread: int) -> list[OptionProblem]:
        window = self.window[1] if self.window is not None else 0
        lengths = {"L": self.latency, "timeout": self.timeout or 0, "window": window, "imbalance": spread}
        return [
            OptionProblem(name, f"{steps:,} steps is out of range (at most {MAX_STEPS:,})")
            for name, steps in lengths.items()
            if steps > MAX_STEPS
        ]

    @property
    def has_tree(self) -> bool:
        """True if the algorithm uses a tree; otherwise kind, radix and roots are meaningless."""
        return self.algorithm not in (RECURSIVE_DOUBLING, "gossip")

    @property
    def first_mortal(self) -> int:
        """The smallest number of a node that can fail: node 0 is immune under the reference's rules."""
        return 1 if self.rules.traversal == "reference" else 0

    @property
    def k(self) -> int:
        """The radix, resolved."""
        if isinstance(self.radix, int):
            return self.radix
        return best_radix(self.nodes, self.tree, self.roots, self.latency, 1, self.operation)

    def shape(self) -> Tree:
        """The tree."""
        return tree(self.nodes, self.tree, radix=self.k, roots=self.roots)

    def timing(self) -> Timing:
        """Timeouts, in steps."""
        return Timing(self.shape(), latency=self.latency, overhead=1, timeout=self.timeout)

    @property
    def latency(self) -> int:
        """Latency in steps: a message sent in step t can be taken in step t + latency + 1."""
        return self.L // self.o

    @property
    def spread(self) -> int:
        """The range of start steps; approximate for normal imbalance."""
        return int(self.imbalance.partition(":")[2] or 0)

    @property
    def failure_window(self) -> tuple[int, int]:
        """The first step in which nodes may fail, and the first in which no node fails any longer."""
        return self.window or (0, self.latency * len(str(self.nodes)))

    @property
    def step_limit(self) -> int:
        """The step after which a run is taken to hang."""
        last = max(self.failure_window[1] if self.failures else 0, 2 * self.spread)
        return last + 1000 * (self.nodes + self.latency + (self.timeout or 0))


class Plan(NamedTuple):
    """The random draws of one run: arrays of shape (nodes,), and the seed of service distances.

    A node fails at the start of its `dead_step`: 0 for inactive ones, `NEVER` for survivors. It begins in its
    `start_step`.
    """

    seed: int
    dead_step: NDArray[np.int64]
    start_step: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one run; steps count from the start of the first node.

    Attributes
    ----------
    latency_steps : int
        From the last start of a survivor until every survivor except node 0 has detected its completion; for a
        reduction, until node 0 has.
    messages, data, keepalives, acks : int
        Messages sent up to the last step: all, and by kind.
    input_spread, output_spread : int
        Steps between the first and the last start, and between the first and the last finish, of survivors.
    longest_queue : int
        Maximum number of waiting messages on one surviving node.
    dead : int
        Number of failed nodes at the end.
    hung : bool
        Whether the operation never ended. The other values then describe its last state.
    first_start_step, last_start_step, first_finish_step, last_step : int
        Steps of survivors; the last finish is in the last step. -1 if none has finished.
    """

    latency_steps: int
    messages: int
    data: int
    keepalives: int
    acks: int
    input_spread: int
    output_spread: int
    longest_queue: int
    dead: int
    hung: bool
    first_start_step: int
    last_start_step: int
    first_finish_step: int
    last_step: int


def run_seed(seed: int, run: int) -> int:
    """Return the seed of one run of an ensemble, as a number below 2**64."""
    return derive_seed(seed, "ftco", run) & _MASK


def plan(configuration: Configuration, seed: int) -> Plan:
    """Draw the failing nodes and the start and failure steps of a run, by its `run_seed`."""
    nodes = configuration.nodes
    dead_step = np.full(nodes, NEVER, np.int64)
    count = configuration.inactive + configuration.failures
    first, end = configuration.failure_window
    for index, node in enumerate(_victims(configuration, seed, count)):
        step = 0
        if index >= configuration.inactive:
            step = first + below(mix(seed, FAILURE_STEP, index - configuration.inactive), end - first)
        # A node drawn twice fails at the first.
        dead_step[node] = min(step, int(dead_step[node]))
    return Plan(seed, dead_step, _starts(configuration, seed))


def _victims(configuration: Configuration, seed: int, count: int) -> list[int]:
    """Draw inactive nodes and then failing ones, without node 0 if it is immune."""
    if configuration.topmost is not None:
        return _victims_from(configuration, seed, count, *configuration.topmost)
    safe = configuration.first_mortal
    pool = configuration.nodes - safe
    draws = [mix(seed, INACTIVE, index) for index in range(configuration.inactive)]
    draws += [mix(seed, FAILURES, index) for index in range(count - configuration.inactive)]
    if configuration.rules.draw == "replacement":
        return [safe + below(bits, pool) for bits in draws]
    # Fisher and Yates's shuffle, of a list stored only where it differs from its index.
    moved: dict[int, int] = {}
    victims = []
    for index, bits in enumerate(draws):
        other = index + below(bits, pool - index)
        victims.append(safe + moved.get(other, other))
        moved[other] = moved.get(index, index)
    return victims


def _victims_from(configuration: Configuration, seed: int, count: int, first: int, end: int) -> list[int]:
    """Draw inactive and failing nodes, none before position `first`, at least one before `end`.

    First the number of the first draw before `end` is drawn, then the positions: those of earlier draws are from `end`
    on.
    """
    nodes, distinct = configuration.nodes, configuration.rules.draw == "distinct"
    weights, beyond = [], 1.0
    for index in range(count):
        remaining = nodes - first - index * distinct
        weights.append(beyond * (end - first) / remaining)
        beyond *= (nodes - end - index * distinct) / remaining
    point = mix(seed, TOPMOST, 0) / 2**64 * math.fsum(weights)
    hit = 0
    while hit < count - 1 and (weights[hit + 1] > 0) and point >= weights[hit]:
        point -= weights[hit]
        hit += 1
    indices: list[int] = []
    draw = 0
    while len(indices) < count:
        drawn, draw = len(indices), draw + 1
        low, high = (end, nodes) if drawn < hit else (first, end) if drawn == hit else (first, nodes)
        index = low + below(mix(seed, TOPMOST, draw), high - low)
        if not distinct or index not in indices:
            indices.append(index)
    order = ranking(nodes, configuration.tree, configuration.k, configuration.roots)[0]
    return [int(order[index]) for index in indices]


@lru_cache(maxsize=4)
def ranking(nodes: int, kind: str, radix: int, roots: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order the nodes of a tree from the top: by level, and within it by distance from a root.

    A level of a k-nomial tree consists of the nodes added to k^h to make k^(h+1); that of a k-ary tree of all at the
    same distance. Return the nodes, equal ones by number, so that node 0 comes first; and the positions at which the
    level or distance changes, including 0 and `nodes`.
    """
    shape = tree(nodes, kind, radix=radix, roots=roots)
    level, depth = np.zeros((2, nodes), np.int64)
    for number, (first, end, above) in enumerate(shape.rounds()):
        level[first:end] = 1 + number // (radix - (kind == "knomial"))
        depth[first:end] = depth[above : above + end - first] + 1
    order = np.lexsort((depth, level))
    key = (level * nodes + depth)[order]
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(key)) + 1, [nodes]))
    return order.astype(np.int64), bounds.astype(np.int64)


def _starts(configuration: Configuration, seed: int) -> NDArray[np.int64]:
    nodes = configuration.nodes
    kind = configuration.imbalance.partition(":")[0]
    if kind == "none" or configuration.spread == 0:
        return np.zeros(nodes, np.int64)
    bits = mix(seed, START, np.arange(nodes, dtype=np.uint64))
    if kind == "uniform":
        return np.asarray(below(bits, configuration.spread), np.int64)
    # 31 bits, as in the reference's generator: no draw is further from the mean than 6.12 standard deviations.
    deviation = configuration.spread // 10
    points = 2**31 + 1
    quantile = NormalDist().inv_cdf
    mean = -quantile(1 / points)
    steps = [math.floor(deviation * (mean + quantile((draw + 1) / points))) for draw in (bits >> 33).tolist()]
    return np.array(steps, np.int64)


# ------------------------------------------------------------------------------ functions of 64-bit numbers

_MASK = 0xFFFFFFFFFFFFFFFF
_WEYL = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_TOP = 0x8000000000000000

INACTIVE, FAILURES, FAILURE_STEP, START, SERVICE, TOPMOST = range(1, 7)
"""The purpose of a draw."""


def mix(seed: int, stream: int, index: Any) -> Any:
    """Return draw number `index` of a stream: 64 bits, in the type of the arguments."""
    bits = (seed + stream * _WEYL) & _MASK
    bits = (((bits ^ (bits >> 30)) & _MASK) * _FIRST) & _MASK
    bits = (((bits ^ (bits >> 27)) & _MASK) * _SECOND) & _MASK
    bits = ((bits ^ (bits >> 31)) + index * _WEYL) & _MASK
    bits = (((bits ^ (bits >> 30)) & _MASK) * _FIRST) & _MASK
    bits = (((bits ^ (bits >> 27)) & _MASK) * _SECOND) & _MASK
    return bits ^ (bits >> 31)


def below(bits: Any, bound: Any) -> Any:
    """Return a whole number from 0 to below `bound` (at most 2**32), uniform to within 2**-32."""
    return ((bits >> 32) * bound) >> 32


def service_index(now: Any, node: Any) -> Any:
    """Return a node's draw of stream `SERVICE` in a step; `node` is 0 if all share them."""
    return (now << 32) | node


def service_distance(bits: int) -> int:
    """Return the random service distance: 1 with probability 1/2, 2 with 1/4, ... (appendix A)."""
    distance = 1
    while distance < 64 and bits < _TOP:
        bits = (bits << 1) & _MASK
        distance += 1
    return distance


def interval_distance(now: int, degree: int) -> int:
    """Return the deterministic service distance: 1 in half of 4 * degree steps, 2 in a quarter."""
    interval = 4 * max(1, degree)
    rest = interval - now % interval
    distance = 1
    while 2 * rest <= interval:
        rest *= 2
        distance += 1
    return distance
