"""Step engine for algorithms other than FTCO in the formal model, written as generators.

In each step a node sends one message or takes one. A message that is sent in step t can be taken in step t + L + 1. No
node detects failures: these algorithms know them from the start, or do not ask.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from xsim_py.ftco.model import Configuration, Outcome, Plan


class ReceivedMessage(NamedTuple):
    """A message as it is taken."""

    source: int
    payload: object


class SendCommand(NamedTuple):
    """A request to send a message, in one step."""

    dest: int
    payload: object


class ReceiveCommand(NamedTuple):
    """A request to take the next message, in one step.

    The result is None if no message arrives before step `until`.
    """

    until: int | None = None


class WorkCommand(NamedTuple):
    """A request for other work of some steps."""

    steps: int


Process = Generator[SendCommand | ReceiveCommand | WorkCommand, Any, None]


class StepEngine:
    """One run of an algorithm.

    ``algorithm(node, engine)`` returns the process of a node, which calls `finish`, and may continue to serve others.
    `results` are those of finished nodes, `now` is the step, and `shared` is data that an algorithm has computed for
    all nodes.
    """

    def __init__(
        self, configuration: Configuration, plan: Plan, algorithm: Callable[[int, StepEngine], Process]
    ) -> None:
        self.configuration = configuration
        self.plan = plan
        self.size = configuration.nodes
        self.now = 0
        self.results: dict[int, Any] = {}
        self.shared: dict[str, Any] = {}
        self._latency = configuration.latency
        self._dead = plan.dead_step.tolist()
        self._starts = plan.start_step.tolist()
        self._queues: list[deque[ReceivedMessage]] = [deque() for _ in range(self.size)]
        self._processes = [algorithm(node, self) for node in range(self.size)]
        self._commands: list[SendCommand | ReceiveCommand | WorkCommand | None] = [None] * self.size
        self._ready = list(self._starts)
        self._finish: dict[int, int] = {}
        self._sent = 0
        self._longest = 0
        self._events: list[tuple[int, int, int, ReceivedMessage | None]] = []
        self._count = 0

    def finish(self, node: int, result: object) -> None:
        """Record the result of a node, which leaves the operation."""
        self.results[node] = result
        self._finish[node] = self.step_of(node)

    def step_of(self, node: int) -> int:
        """Return the current step of a node, or the one in which its current action ends."""
        return int(max(self.now, self._ready[node]))

    def run(self) -> Outcome:
        """Run to the end: all survivors have finished, or no node acts any longer."""
        for node in range(self.size):
            self._post(self._starts[node], node)
        survivors = [node for node in range(self.size) if self._dead[node] > self._starts[node]]
        while self._events and self._has_unfinished(survivors):
            self.now, _, node, message = heapq.heappop(self._events)
            if self._dead[node] <= self.now:
                continue
            if message is not None:
                self._queues[node].append(message)
                self._longest = max(self._longest, len(self._queues[node]))
            if self._ready[node] <= self.now:
                self._act(node)
        return self._outcome(hung=self._has_unfinished(survivors))

    def _has_unfinished(self, survivors: list[int]) -> bool:
        """Return True if a survivor has not finished; drop finished and failed nodes from the list."""
        while survivors and (survivors[-1] in self._finish or self._dead[survivors[-1]] <= self.now):
            survivors.pop()
        return bool(survivors)

    def _post(self, step: int, node: int, message: ReceivedMessage | None = None) -> None:
        self._count += 1
        # Messages of a step arrive before nodes act, each kind in the order of creation.
        heapq.heappush(self._events, (step, 2 * self._count + (message is None) * 2**60, node, message))

    def _act(self, node: int) -> None:
        result: object = None
        while True:
            if self._commands[node] is None:
                try:
                    self._commands[node] = self._processes[node].send(result)
                except StopIteration:
                    self._ready[node] = 2**62
                    return
            command = self._commands[node]
            if isinstance(command, ReceiveCommand):
                found, result = self._try_receive(node, command)
                if not found:
                    return
                self._commands[node] = None
                if isinstance(result, ReceivedMessage):
                    self._resume_after(node, 1, result)
                    return
                continue
            self._commands[node] = None
            if isinstance(command, SendCommand):
                self._sent += 1
                message = ReceivedMessage(node, command.payload)
                self._post(self.now + self._latency + 1, command.dest, message)
            self._resume_after(node, command.steps if isinstance(command, WorkCommand) else 1, None)
            return

    def _resume_after(self, node: int, steps: int, result: object) -> None:
        """Resume a node after its step; its next decision takes effect from there."""
        self._ready[node] = self.now + steps
        try:
            self._commands[node] = self._processes[node].send(result)
        except StopIteration:
            self._ready[node] = 2**62
            return
        self._post(self.now + steps, node)

    def _try_receive(self, node: int, command: ReceiveCommand) -> tuple[bool, ReceivedMessage | None]:
        if self._queues[node]:
            return True, self._queues[node].popleft()
        if command.until is not None:
            if command.until <= self.now:
                return True, None
            self._post(command.until, node)
        return False, None

    def _outcome(self, *, hung: bool) -> Outcome:
        last = max(self._finish.values(), default=self.now)
        survivors = [node for node in range(self.size) if self._dead[node] > max(last, self.now)]
        starts = [self._starts[node] for node in survivors] or [0]
        finishes = [self._finish[node] for node in survivors if node in self._finish]
        end = max(finishes, default=self.now)
        return Outcome(
            latency_steps=end - max(starts),
            messages=self._sent,
            data=self._sent,
            keepalives=0,
            acks=0,
            input_spread=max(starts) - min(starts),
            output_spread=end - min(finishes, default=end),
            longest_queue=self._longest,
            dead=self.size - len(survivors),
            hung=hung,
            first_start_step=min(starts),
            last_start_step=max(starts),
            first_finish_step=min(finishes, default=-1),
            last_step=end,
        )
