"""The formal model, step by step: nodes driven by events of the simulator's kernel.

Time counts steps. In each step messages arrive, nodes fail, and nodes are notified of failures; then every node, in
numerical order, takes one action. A node without work sleeps, and steps without actions take no event.

An oracle notifies nodes of a failure exactly at the timeout of an unanswered message (section 2.6 of the description of
the authors' simulator). A live node is never declared failed. Under the rules ``reference`` a message counts as
unanswered only when it reaches a failed node, or is unread when the node fails. So a node may wait forever for one that
failed between reading and replying. Under ``paper`` that counts as unanswered, too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple, TypeVar

from xsim_py.engine.kernel import Kernel, first_key
from xsim_py.ftco.model import (
    NEVER,
    SERVICE,
    TREE,
    Configuration,
    Outcome,
    Plan,
    interval_distance,
    mix,
    plan,
    service_distance,
    service_index,
)
from xsim_py.mpi.ftco.doubling import RECURSIVE_DOUBLING, DoublingNode, DoublingTiming, Halves
from xsim_py.mpi.ftco.node import (
    ACK,
    ANY,
    DATA,
    KEEPALIVE,
    NodePacket,
    OperationNode,
    SendAction,
    TakeAction,
    TreeNode,
)
from xsim_py.mpi.ftco.paper import PaperNode
from xsim_py.mpi.ftco.reference import ReferenceNode

_Events = TypeVar("_Events")


class Action(NamedTuple):
    """The action of a node in a step.

    It is a ``send`` or ``take`` of a `DATA`, `KEEPALIVE` or `ACK` of `xsim_py.mpi.ftco.node`; the peer is the receiver
    or sender.
    """

    step: int
    node: int
    what: str
    kind: int
    peer: int


def run_steps(configuration: Configuration, seed: int, *, record: list[Action] | None = None) -> Outcome:
    """Do one run of the formal model, and append all actions of nodes to `record`.

    The seed is that of the run, see `model.run_seed`.
    """
    drawn = plan(configuration, seed)
    if configuration.algorithm not in (TREE, RECURSIVE_DOUBLING):
        from xsim_py.ftco.baselines import run_baseline

        return run_baseline(configuration, drawn)
    return StepModel(configuration, drawn, record=record).run()


class StepModel:
    """One run; all actions of nodes are appended to `record`.

    A node that has not begun takes a KEEPALIVE and replies in one step. `nodes` includes failed ones.
    """

    def __init__(self, configuration: Configuration, plan: Plan, *, record: list[Action] | None = None) -> None:
        self.configuration = configuration
        self.plan = plan
        self._record = record
        self._rules = configuration.rules
        self._is_doubling = configuration.algorithm == RECURSIVE_DOUBLING
        self._shape: Any = configuration.shape()
        self._timing: Any = configuration.timing()
        if self._is_doubling:
            self._shape = halves = Halves(configuration.nodes)
            latency, timeout = configuration.latency, configuration.timeout
            self._timing = DoublingTiming(halves, latency=latency, overhead=1, timeout=timeout)
        self._drawn: dict[int, int] = {}  # service distances of this step
        size = configuration.nodes
        self.nodes: list[TreeNode] = [self._make(node) for node in range(size)]
        self.alive = [True] * size
        self._fails = [step != NEVER for step in plan.dead_step.tolist()]
        self._found_finished = [False] * size
        self._root = -1 if self._is_doubling else 0  # receivers without a pending reply
        self._unfinished = size - (not self._is_doubling)
        self._others = size - 1
        self._sent = [0, 0, 0]
        self._last_step = -1
        self._ended = False
        # Events by step.
        self._kernel = Kernel(native_origin=size)
        self._deaths: defaultdict[int, list[int]] = defaultdict(list)
        self._starts: defaultdict[int, list[int]] = defaultdict(list)
        self._arrivals: defaultdict[int, list[tuple[int, NodePacket, int]]] = defaultdict(list)
        self._notices: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        self._awake: defaultdict[int, set[int]] = defaultdict(set)
        self._posted: set[int] = set()
        # For nodes that will fail: their unanswered messages, and when the senders will be notified.
        self._unread: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self._unanswered: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def _make(self, node: int) -> TreeNode:
        operation, order = self.configuration.operation, self._rules.order
        if self._is_doubling or self._rules.traversal == "paper":
            kind: Any = DoublingNode if self._is_doubling else PaperNode
            made: OperationNode = kind(
                node,
                self._shape,
                self._timing,
                operation=operation,
                combine=lambda parts: sum(parts.values()),
                service=self._service,
                order=order,
            )
            return made
        return ReferenceNode(
            node,
            self._shape,
            self._timing,
            operation=operation,
            ask_all=self._rules.keepalive == "all",
            reset_eta=self._rules.eta == "reset",
            order=order,
            service=self._service,
        )

    def _service(self, node: int, now: int) -> int:
        if self._rules.service == "none":
            return ANY
        if self._rules.service == "disd":
            return int(interval_distance(now, self._shape.degree(node)))
        index = service_index(now, node if self._rules.streams == "own" else 0)
        drawn = self._drawn.get(index)
        if drawn is None:
            drawn = self._drawn[index] = service_distance(mix(self.plan.seed, SERVICE, index))
        return drawn

    # ------------------------------------------------------------------------------------------------- the run

    def run(self) -> Outcome:
        """Run to the end, or until the run is known to hang."""
        for node, step in enumerate(self.plan.start_step.tolist()):
            self._events_at(self._starts, step).append(node)
        for node, step in enumerate(self.plan.dead_step.tolist()):
            if self._fails[node]:
                self._events_at(self._deaths, step).append(node)
        self._kernel.run_window(self.configuration.step_limit + 1)
        return self._outcome()

    def _events_at(self, events: defaultdict[int, _Events], step: int) -> _Events:
        self._post(step)
        return events[step]

    def _post(self, step: int) -> None:
        if step not in self._posted:
            self._posted.add(step)
            self._kernel.post(step, first_key(0), self._step, step)

    def _step(self, now: int) -> None:
        self._drawn.clear()
        awake = self._awake.pop(now, set())
        for node in self._deaths.pop(now, ()):
            self._fail(node, now)
        for dest, packet, limit in self._arrivals.pop(now, ()):
            if self.alive[dest]:
                self.nodes[dest].deliver(packet, now)
                awake.add(dest)
                if packet.kind != ACK and self._fails[dest]:
                    self._unread[dest].append((packet.source, packet.kind, limit))
            elif limit >= 0:
                self._events_at(self._notices, max(now, limit)).add((packet.source, dest))
        for node, dead in sorted(self._notices.pop(now, ())):
            if self.alive[node]:
                self.nodes[node].died(dead, now)
                awake.add(node)
        for node in self._starts.pop(now, ()):
            if self.alive[node]:
                self._enter(node, now)
                awake.add(node)
        for node in sorted(awake):
            if self.alive[node]:
                self._act(node, now)
        self._last_step = now
        if self._is_over():
            self._ended = True
            self._kernel.stop()

    def _enter(self, number: int, now: int) -> None:
        node = self.nodes[number]
        if isinstance(node, OperationNode):
            node.enter(now, 1 << number)
        else:
            node.enter(now)

    def _fail(self, node: int, now: int) -> None:
        self.alive[node] = False
        self._others -= node != 0
        if node != self._root:
            self._unfinished -= not self._found_finished[node]
        waiting = [(source, limit) for source, _, limit in self._unread.pop(node, ())]
        if self._is_doubling or self._rules.traversal == "paper":
            waiting += self._unanswered.pop(node, {}).items()
        for source, limit in waiting:
            if limit >= 0:
                self._events_at(self._notices, max(now, limit)).add((source, node))

    def _act(self, number: int, now: int) -> None:
        node = self.nodes[number]
        finished = node.finished
        if finished != self._found_finished[number]:
            self._found_finished[number] = finished
            if number != self._root:
                self._unfinished += 1 - 2 * finished
        entered = node.entered
        action = node.act(now)
        if isinstance(action, TakeAction):
            self._record_take(number, action.packet.kind, action.packet.source, now)
        elif action is not None:
            if not entered and isinstance(node, ReferenceNode):
                self._record_take(number, KEEPALIVE, action.dest, now)
            self._send(number, action, now)
        wake = node.wake(now + 1)
        if node.finished and not self._found_finished[number]:
            wake = now + 1  # it returns to that state after a failure has interrupted it
        if wake is not None:
            self._events_at(self._awake, max(wake, now + 1)).add(number)

    def _record_take(self, node: int, kind: int, source: int, now: int) -> None:
        if self._record is not None:
            self._record.append(Action(now, node, "take", kind, source))
        if kind != ACK and self._fails[node]:
            unread = self._unread[node]
            places = range(len(unread))
            if isinstance(self.nodes[node], ReferenceNode):  # the last arrival is read first
                places = places[::-1]
            place = next(place for place in places if unread[place][:2] == (source, kind))
            limit = unread.pop(place)[2]
            if limit >= 0:
                self._unanswered[node][source] = limit

    def _send(self, node: int, action: SendAction, now: int) -> None:
        dest, packet = action
        if self._record is not None:
            self._record.append(Action(now, node, "send", packet.kind, dest))
        self._sent[packet.kind] += 1
        if self._fails[node]:
            self._unanswered[node].pop(dest, None)
        if packet.kind == DATA or self._rules.control_latency == "full":
            arrival = now + self.configuration.latency + 1
        else:
            arrival = now + packet.distance
        limit = -1 if packet.kind == ACK else self.nodes[node].contacts[dest].deadline  # -1: no reply is pending
        self._events_at(self._arrivals, arrival).append((dest, packet, limit))

    # ------------------------------------------------------------------------------------------------- the end

    def _is_over(self) -> bool:
        if self.alive[0] and (self.configuration.operation == "reduce" or not self._others):
            root = self.nodes[0]
            return root.full_time >= 0 if isinstance(root, ReferenceNode) else self._found_finished[0]
        return self._unfinished == 0

    def _outcome(self) -> Outcome:
        survivors = [number for number, lives in enumerate(self.alive) if lives]
        starts = [int(self.plan.start_step[number]) for number in survivors]
        finishes = [
            time for number in survivors if number != self._root and (time := self.nodes[number].finish_time) >= 0
        ]
        first_finish = min(finishes, default=-1)
        return Outcome(
            latency_steps=self._last_step - max(starts),
            messages=sum(self._sent),
            data=self._sent[DATA],
            keepalives=self._sent[KEEPALIVE],
            acks=self._sent[ACK],
            input_spread=max(starts) - min(starts),
            output_spread=self._last_step - first_finish if finishes else 0,
            longest_queue=max(self.nodes[number].longest_queue for number in survivors),
            dead=len(self.alive) - len(survivors),
            hung=not self._ended,
            first_start_step=min(starts),
            last_start_step=max(starts),
            first_finish_step=first_finish,
            last_step=self._last_step,
        )
