"""The costs of a schedule's messages on this network, between these ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .schedule import CollectiveSchedule, Column, Stage
from .timing import Costs

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.network import Cost

_LONGEST_PS = 1 << 62  # calls that begin before `instances._LATEST_PS` end before 2**63


class MessageCosts:
    """The costs of messages between some ranks at constant distances."""

    def __init__(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        self._fabric = fabric
        self._ranks = ranks  # world ranks
        self._links: dict[Any, tuple[list[Any], list[Any]]] = {}
        self._answers: dict[Any, list[Any]] = {}
        self._eager_bytes = 0

    def eager(self, size_bytes: int, me: int) -> bool:
        """Return True if a message of that size to the preceding rank is eager."""
        if size_bytes > self._eager_bytes:
            if not self._fabric.link(self._ranks[me], self._ranks[me - 1]).cost(size_bytes).eager:
                return False
            # Smaller sizes are eager, too; this is called for every rank of an Alltoallv.
            self._eager_bytes = size_bytes
        return True

    def costs(self, schedule: CollectiveSchedule[Any]) -> list[Costs] | None:
        """Return the message costs of each stage, computed once for each distinct distance and size.

        None if a message takes no time, or could overtake an earlier one, or is above the eager threshold in a stage
        without rendezvous, or if the total of all messages in sequence could exceed 64 bits.
        """
        stages = list(schedule.stages())
        links, which = self._between(schedule.shape, stages)
        width = 1 + max(int(np.max(stage.size_bytes)) for stage in stages)
        codes = [far * width + stage.size_bytes for far, stage in zip(which, stages, strict=True)]
        there = np.unique(np.concatenate([np.ravel(code) for code in codes]))
        kinds = [links[code // width].cost(code % width) for code in there.tolist()]
        rows = [np.searchsorted(there, code) for code in codes]
        if any(
            not kind.eager and kind.latency_ps != links[code // width].latency_ps
            for kind, code in zip(kinds, there.tolist(), strict=True)
        ):
            return None  # their requests have another latency

        def answer_ps() -> list[Any]:
            key = schedule.shape
            if key not in self._answers or key is None:
                self._answers[key] = [self._back(far, stage) for far, stage in zip(which, stages, strict=True)]
            return self._answers[key]

        found = table(kinds, rows, [stage.may_be_rendezvous for stage in stages], answer_ps, schedule.messages)
        return found if found is not None and self.in_order(stages, found) else None

    def in_order(self, stages: Sequence[Stage], costs: Sequence[Costs]) -> bool:
        """Return True if messages between two ranks always arrive in order."""
        return self._fabric.in_order or not _overtaking(stages, costs)

    def _between(self, shape: object, stages: list[Stage]) -> tuple[list[Any], list[Any]]:
        """Return the links of messages, and for each stage the index of each message's link (0: all equal)."""
        found = self._links.get(shape) if shape is not None else None
        if found is None:
            link, ranks = self._fabric.link, self._ranks
            if self._fabric.equally_far and not any((stage.source == stage.dest).any() for stage in stages):
                found = [link(ranks[0], ranks[1])], [0] * len(stages)
            else:
                numbers: dict[Any, int] = {}
                which = [
                    np.array([numbers.setdefault(link(ranks[i], ranks[j]), len(numbers)) for i, j in _pairs(stage)])
                    for stage in stages
                ]
                found = list(numbers), which
            self._links[shape] = found
        return found

    def _back(self, far: Column, stage: Stage) -> object:
        """Return the latencies of the replies to the messages of a stage."""
        link, ranks = self._fabric.link, self._ranks
        if np.ndim(far) == 0:
            return link(ranks[0], ranks[1]).latency_ps
        return np.array([link(ranks[dest], ranks[source]).latency_ps for source, dest in _pairs(stage)], np.int64)


def _overtaking(stages: Sequence[Stage], costs: Sequence[Costs]) -> bool:
    """Return True if a message could overtake one sent just before it between the same ranks."""
    ways: list[Any] = [np.where(c.rendezvous, c.latency_ps, c.transit_ps) for c in costs]
    leads: list[Any] = [way - np.where(c.rendezvous, 0, c.busy_ps) for way, c in zip(ways, costs, strict=True)]
    if max(map(np.max, leads)) <= min(map(np.min, ways)):
        return False
    pair = np.concatenate([(stage.source.astype(np.int64) << 32) + stage.dest for stage in stages])
    way, lead = (
        np.concatenate([np.broadcast_to(each, len(stage)) for each, stage in zip(column, stages, strict=True)])
        for column in (ways, leads)
    )
    order = np.argsort(pair, kind="stable")
    pair, way, lead = pair[order], way[order], lead[order]
    group = np.cumsum(np.diff(pair, prepend=pair[:1]) != 0)
    above = int(lead.max()) + 1  # makes the running maximum restart with each pair
    before = np.maximum.accumulate(lead + group * above) - group * above
    same = group[1:] == group[:-1]
    return bool(np.any(same & (way[1:] < before[:-1])))


def _pairs(stage: Stage) -> Iterator[tuple[int, int]]:
    return zip(stage.source.tolist(), stage.dest.tolist(), strict=True)


def table(
    kinds: Sequence[Cost],
    rows: Sequence[Any],
    may_be_rendezvous: Sequence[bool],
    answer_ps: Callable[[], Sequence[Any]],
    messages: int,
) -> list[Costs] | None:
    """Return the costs of messages of several kinds; see `MessageCosts.costs`.

    `rows` has for each stage the kind of all its messages, or an array with that of each. `may_be_rendezvous` tells
    whether messages of a stage may be above the eager threshold. `answer_ps` returns for each stage the latencies of
    the replies.
    """
    if not all(kind.wire_ps + kind.latency_ps > 0 for kind in kinds):
        return None
    longest_ps = max((k.send_ps + k.wire_ps + k.busy_ps + k.latency_ps + k.receive_ps for k in kinds), default=0)
    if 3 * messages * longest_ps > _LONGEST_PS:
        return None
    rows_of = [(k.send_ps, k.busy_ps, k.wire_ps + k.latency_ps, k.receive_ps, not k.eager, k.latency_ps) for k in kinds]
    each = np.array(rows_of, np.int64).T
    columns: list[Any] = [int(column[0]) if (column == column[0]).all() else column for column in each]
    made: dict[int, Costs] = {}

    def of(row: Column) -> Costs:
        if np.ndim(row) == 0:
            known = made.get(int(row))
            if known is None:
                known = made[int(row)] = Costs(*(int(np.take(column, row)) for column in each))
            return known
        return Costs(*(column if type(column) is int else column[row] for column in columns))

    costs = [of(row) for row in rows]
    if not each[4].any():
        return [one._replace(rendezvous=False) for one in costs]
    each_is = (one.rendezvous for one in costs)
    which = [some.astype(bool) if isinstance(some, np.ndarray) else bool(some) for some in each_is]
    if not each[5].all() or not all(
        may or not np.any(some) for some, may in zip(which, may_be_rendezvous, strict=True)
    ):
        return None
    answers = zip(costs, which, answer_ps(), strict=True)
    return [one._replace(rendezvous=some, answer_ps=answer) for one, some, answer in answers]
