"""Partition: weighted graphs are cut into parts of given shares, with each stage balanced.

    steering = Steering()
    steering.submit_graph(graph)
    steering.set_weights(what_each_vertex_costs, what_each_edge_carries)
    steering.submit_stage(COMPUTATION)
    steering.set_weights(what_each_vertex_costs_to_show, edges)
    steering.submit_stage(VISUALISATION)
    parts = steering.get_partitioning([1, 1, 0, 1])        # nothing for the third

The calls are those of PPStee (German Aerospace Center, CRESTA project: submitGraph, setWeightsData, submitNewStage,
getPartitioning), which passes graphs to ParMETIS, PTScotch or Zoltan. Here the vertices are ordered along a curve,
which is bisected recursively. If a single cut does not balance all stages, a piece is taken out of the middle: closed
to a circle, the curve always has an arc with a given share of two stages at once, up to a vertex (its share of the
second is right on average over all arcs with that share of the first). In the end border vertices change sides if this
reduces the cut or improves the balance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPUTATION, VISUALISATION, OTHER = "computation", "visualisation", "other"
TOLERANCE = 1.05  # by how much a part may exceed its share of a stage
PASSES = 4


class Graph(NamedTuple):
    """An undirected graph: the neighbours of vertex v are `adjacent[first[v]:first[v + 1]]`."""

    first: np.ndarray
    adjacent: np.ndarray

    @property
    def owners(self) -> np.ndarray:
        """The vertex at the beginning of each edge."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


class Steering:
    """A graph, the weights of its stages, and the resulting parts."""

    def __init__(self) -> None:
        self.stages: dict[str, np.ndarray] = {}

    def submit_graph(self, graph: Graph) -> None:
        """Take a graph with vertices numbered along a curve: neighbours have close numbers."""
        self.graph, self.edges = graph, np.zeros(len(graph.adjacent))

    def set_weights(self, vertices: np.ndarray, edges: np.ndarray) -> None:
        """Take the weights of a stage: the cost of each vertex, and the load of each edge."""
        self.weights = vertices, edges

    def submit_stage(self, kind: str) -> None:
        """Assign the current weights to a stage."""
        vertices, edges = self.weights
        self.stages[kind] = vertices.astype(float)
        self.edges = self.edges + edges

    def get_partitioning(self, shares: Sequence[float]) -> np.ndarray:
        """Return the part of each vertex; each part has its share of each stage, which may be 0."""
        targets, weights = np.array(shares, float), np.array(list(self.stages.values()))
        parts = np.empty(weights.shape[1], np.int64)
        divide(np.arange(len(parts)), weights, np.arange(len(targets)), targets, parts)
        refine(self, parts, limits(weights, targets), weights)
        return parts

    def cut(self, parts: np.ndarray) -> float:
        """Return the weight of all edges between parts."""
        crossing = parts[self.graph.owners] != parts[self.graph.adjacent]
        return float(self.edges[crossing].sum()) / 2


def limits(weights: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the limits of the parts per stage: slightly above its share, or one vertex more."""
    shares = weights.sum(axis=1)[:, None] * targets / targets.sum()
    return np.where(targets > 0, np.maximum(TOLERANCE * shares, shares + weights.max(axis=1)[:, None]), 0.0)


def divide(
    vertices: np.ndarray, weights: np.ndarray, names: np.ndarray, targets: np.ndarray, parts: np.ndarray
) -> None:
    """Distribute a section of the curve to some parts by recursive bisection."""
    if len(names) == 1 or not len(vertices):
        parts[vertices] = names[0]
        return
    half = len(names) // 2
    share = targets[:half].sum() / targets.sum() if targets.any() else 0.0
    begin, end, first = piece(weights[:, vertices], share)
    inside, outside = vertices[begin:end], np.concatenate((vertices[:begin], vertices[end:]))
    both = (inside, outside) if first else (outside, inside)
    for some, those in zip(both, (slice(half), slice(half, None)), strict=True):
        divide(some, weights, names[those], targets[those], parts)


def piece(weights: np.ndarray, share: float) -> tuple[int, int, bool]:
    """Return begin and end of a piece with a share of each stage, or with its complement.

    It is the first that is right up to half a vertex.
    """
    count = weights.shape[1]
    if share in (0.0, 1.0):
        return 0, round(share) * count, True
    whole = np.maximum(weights.sum(axis=1), 1e-300)
    sums = np.concatenate((np.zeros((len(weights), 1)), np.cumsum(weights, axis=1) / whole[:, None]), axis=1)
    fine = weights.max(axis=1) / whole / 2 + 1e-12
    found = []
    for part, first in ((share, True), (1 - share, False)):
        begins, ends, wrong = arcs(sums, part)
        good = (wrong <= fine[:, None]).all(axis=0)
        best = int(good.argmax() if good.any() else wrong.max(axis=0).argmin())
        found.append(
            (not good.any(), wrong[:, best].max() * (not good.any()), int(begins[best]), int(ends[best]), first)
        )
    _, _, begin, end, first = min(found, key=lambda each: each[:2])
    return begin, end, first


def renamed(parts: np.ndarray, before: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Return the partition with equal parts relabelled, so that most vertices stay in place.

    Before, -1 is the part of a vertex without one.
    """
    count = len(shares)
    pairs = np.bincount((before * count + parts)[before >= 0], minlength=count * count).reshape(count, count)
    names, taken = np.full(count, -1), set[int]()
    for pair in np.argsort(-pairs, axis=None, kind="stable")[: np.count_nonzero(pairs)]:
        old, new = divmod(int(pair), count)
        if names[new] < 0 and old not in taken and shares[old] == shares[new]:
            names[new] = old
            taken.add(old)
    for new in np.flatnonzero(names < 0):
        names[new] = next(old for old in range(count) if old not in taken and shares[old] == shares[new])
        taken.add(int(names[new]))
    stay = [(each[before >= 0] == before[before >= 0]).sum() for each in (parts, names[parts])]
    return names[parts] if stay[1] > stay[0] else parts


def arcs(sums: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return begins and ends of all pieces with a share of the stages' mean, and their deviations."""
    mean = sums.mean(axis=0)
    begins = np.flatnonzero(mean + share <= 1 + 1e-12)
    wanted = mean[begins] + share
    ends = np.clip(np.searchsorted(mean, wanted), 1, len(mean) - 1)
    ends = np.maximum(ends - (wanted - mean[ends - 1] <= mean[ends] - wanted), begins)
    return begins, ends, np.abs(sums[:, ends] - sums[:, begins] - share)


def refine(steering: Steering, parts: np.ndarray, most: np.ndarray, weights: np.ndarray) -> None:
    """Move border vertices to other parts, in numerical order, as Fiduccia and Mattheyses do."""
    graph, edges, count = steering.graph, steering.edges, most.shape[1]
    loads = np.array([np.bincount(parts, each, count) for each in weights])
    most = np.maximum(most, 1e-300)
    for _ in range(PASSES):
        border = np.unique(graph.owners[parts[graph.owners] != parts[graph.adjacent]])
        moved = False
        for vertex in border:
            around = slice(graph.first[vertex], graph.first[vertex + 1])
            here, cost = parts[vertex], weights[:, vertex]
            ties: dict[int, float] = {}
            for part, tie in zip(parts[graph.adjacent[around]].tolist(), edges[around].tolist(), strict=True):
                ties[part] = ties.get(part, 0.0) + tie
            full = (loads[:, here] / most[:, here]).max()
            for part, tie in sorted(ties.items(), key=lambda each: (-each[1], each[0])):
                after = ((loads[:, part] + cost) / most[:, part]).max()
                gain = tie - ties.get(here, 0.0)
                if part != here and ((gain > 0 and after <= 1) or (full > 1 and after < full)):
                    loads[:, here] -= cost
                    loads[:, part] += cost
                    parts[vertex], moved = part, True
                    break
        if not moved:
            return
