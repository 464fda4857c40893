"""One run of the formal model, message by message."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Final

import numpy as np

from xsim_py.errors import ConfigError
from xsim_py.ftco.model import NEVER, Configuration, Outcome, Plan, plan, run_seed
from xsim_py.ftco.steps import StepModel
from xsim_py.mpi.ftco.node import SendAction, TreeNode
from xsim_py.report.messageflow import Arrow, MessageFlow

_KINDS: Final = ("DATA", "KEEPALIVE", "ACK")
_REST: Final = 30  # steps shown after the end, in which the last messages are taken


def trace_run(
    configuration: Configuration, *, seed: int = 0, run: int = 0, deaths: Mapping[int, int] | None = None
) -> tuple[Outcome, MessageFlow]:
    """Do one run of an ensemble, and record every message.

    Parameters
    ----------
    configuration : Configuration
        The configuration of the run.
    seed, run : int, optional
        The ensemble's seed, and the number of the run.
    deaths : mapping of int to int, optional
        Failing nodes with their steps, instead of random ones.

    Returns
    -------
    tuple of Outcome and MessageFlow
        The outcome is that of the run. The flow continues for some steps, in which the last messages are taken, and
        ends when no node acts any longer.

    Raises
    ------
    ConfigError
        When a node in `deaths` does not exist, cannot fail, or all nodes are in it.
    """
    drawn = plan(configuration, run_seed(seed, run))
    if deaths is not None:
        _check(configuration, deaths)
        steps = np.full(configuration.nodes, NEVER, np.int64)
        steps[list(deaths)] = list(deaths.values())
        drawn = Plan(drawn.seed, steps, drawn.start_step)
    traced = _TracedModel(configuration, drawn)
    return traced.run(), traced.flow()


def _check(configuration: Configuration, deaths: Mapping[int, int]) -> None:
    nodes = configuration.nodes
    problems = [
        f"{node} is out of range: expected a node from 0 to {nodes - 1:,}" for node in deaths if not 0 <= node < nodes
    ]
    if 0 in deaths and configuration.rules.traversal == "reference":
        problems.append("0: node 0 never fails under these rules; use --rules paper")
    if len(deaths) >= nodes:
        problems.append(f"{max(deaths)}: all {nodes:,} nodes would fail; at least one must survive")
    if problems:
        raise ConfigError(*problems)


class _TracedModel(StepModel):
    """The step model with a record of all messages."""

    def __init__(self, configuration: Configuration, plan: Plan) -> None:
        self._arrows: list[Arrow] = []
        self._in_flight: defaultdict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        self._learned: list[tuple[int, int, int]] = []
        self._result: Outcome | None = None
        self._end = -1
        super().__init__(configuration, plan)

    def _make(self, node: int) -> TreeNode:
        created = super()._make(node)
        created.__class__ = _recording(type(created), self._learned)
        return created

    def _send(self, node: int, action: SendAction, now: int) -> None:
        super()._send(node, action, now)
        dest, packet = action
        is_near = _KINDS[packet.kind] != "DATA" and self._rules.control_latency == "distance"
        arrival = now + (packet.distance if is_near else self.configuration.latency + 1)
        self._in_flight[node, dest, packet.kind].append(len(self._arrows))
        self._arrows.append(Arrow(_KINDS[packet.kind], node, now, dest, arrival, None))

    def _record_take(self, node: int, kind: int, source: int, now: int) -> None:
        super()._record_take(node, kind, source, now)
        index = self._in_flight[source, node, kind].popleft()
        self._arrows[index] = self._arrows[index]._replace(taken=now)

    def _is_over(self) -> bool:
        if self._result is None and super()._is_over():
            self._ended = True
            self._result = super()._outcome()
            self._end = self._last_step
        return self._result is not None and self._last_step >= self._end + _REST

    def _outcome(self) -> Outcome:
        return self._result or super()._outcome()

    def flow(self) -> MessageFlow:
        """The flow of the recorded messages."""
        config, shown = self.configuration, self._end if self._end >= 0 else self._last_step
        busy = [arrow.taken or arrow.arrived for arrow in self._arrows if arrow.sent <= shown]
        end = max([shown, *busy])
        finishes = {number: node.finish_time for number, node in enumerate(self.nodes) if node.finish_time >= 0}
        tree = f"{config.tree}:{config.k} tree, {config.roots} root{'s' if config.roots == 'multi' else ''}"
        shape = tree if config.has_tree else config.algorithm.replace("_", " ")
        return MessageFlow(
            nodes=config.nodes,
            title=f"{config.operation.capitalize()}, {config.nodes:,} nodes, {shape}, L = {config.L}, o = {config.o}",
            arrows=[arrow for arrow in self._arrows if arrow.sent <= end],
            deaths={node: step for node, step in enumerate(self.plan.dead_step.tolist()) if step <= end},
            starts={node: step for node, step in enumerate(self.plan.start_step.tolist()) if step},
            finishes={node: step for node, step in finishes.items() if step <= end},
            learned=[each for each in self._learned if each[0] <= end],
            end=end,
        )


def _recording(kind: type[TreeNode], learned: list[tuple[int, int, int]]) -> type[TreeNode]:
    """Return a kind of node that records failure notices with their steps."""

    class Recording(kind):  # type: ignore[misc, valid-type]
        __slots__ = ()

        def died(self, other: int, now: int) -> None:
            if other not in self.dead:
                learned.append((now, self.me, other))
            super().died(other, now)

    return Recording
