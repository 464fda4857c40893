"""The detector ``timeout``: a rank that waits for a failed process detects it by timing out.

An operation that waits for a failed process fails at max(its start, the time of failure) + timeout. In xSim (Naughton,
Engelmann et al., PDP 2014, III-A), it fails at the time of failure + timeout, possibly before it has begun. A
collective operation waits for every member in this sense, and a receive from any source for every member whose failure
is not acknowledged. A program that polls waits in the same sense from its first poll on: the first poll after that time
detects the failure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.transport.message import Receive
from xsim_py.process.ranks.fiber import UNTIL, Fiber

from .detector import Detector, DetectorSettings

if TYPE_CHECKING:
    from xsim_py.config import DetectorSpec
    from xsim_py.process.ranks.rank import Rank

    from .deaths import Death, Deaths

_TIMES_LATENCY = 10


class TimeoutDetector(Detector):
    """Ends operations after waiting for a failed rank for the timeout; see `detector.Detector`."""

    def __init__(self, deaths: Deaths, settings: DetectorSettings) -> None:
        super().__init__(deaths, settings)
        self._handlers: dict[int, Callable[[Any], None]] = {}  # `_expired` for each failed rank

    @staticmethod
    def settings(section: DetectorSpec, latency_ps: int) -> tuple[DetectorSettings, int, str]:
        """Return the settings; the default timeout is ten times the machine's longest latency."""
        timeout_ps = _TIMES_LATENCY * latency_ps if section.timeout_ps is None else section.timeout_ps
        return DetectorSettings("timeout", timeout_ps, 0), latency_ps, "the network's longest latency"

    def announced(self, rank: Rank, death: Death) -> None:
        """Watch the operations of a rank that depend on the failed rank."""
        if rank.exit_status is None:
            for operation in rank.mpi.pending():
                if operation.depends_on(death.rank):
                    self.expect(rank, death.rank, operation, operation.post_ps)

    def watch(self, operation: Any) -> None:
        """Watch an operation for each failed rank that its rank does not know of."""
        box = operation.comm.box
        known = box.knowledge.known if box.knowledge is not None else ()
        for number in self.deaths.dead:
            if number not in known and operation.depends_on(number):
                self.expect(box.rank, number, operation, operation.post_ps)

    def expect(self, rank: Rank, number: int, waiting: object, since_ps: int) -> None:
        """Notify the rank of a failure when an operation or agreement has waited for the timeout."""
        death = self.deaths.dead.get(number)
        if death is None:
            return
        handler = self._handlers.get(number)
        if handler is None:
            handler = self._handlers[number] = partial(self._expired, number)
        rank.key += 1
        rank.shard.kernel.post(max(since_ps, death.time_ps) + self.timeout_ps, rank.key, handler, waiting)

    def _expired(self, number: int, waiting: Any) -> None:
        """Notify a rank of a failure if the operation or agreement still waits for the failed rank."""
        if type(waiting) is Receive and waiting.post_ps + self.timeout_ps > self.shard.kernel.now_ps:
            return  # the request has been restarted, for another message
        rank = getattr(waiting, "rank", None) or waiting.comm.box.rank  # agreements have no communicator
        if (
            rank.exit_status is None
            and not waiting.done
            and waiting.depends_on(number)
            and not self.fabric.defer_for(rank, self._handlers[number], waiting)
        ):
            self.deaths.learn(rank, (number,), "timeout")

    def polled(self, fiber: Fiber, since_ps: int, depends_on: Callable[[int], bool]) -> None:
        """Notify the running rank of failures that its polls have awaited for the timeout."""
        state = fiber.rank.mpi.knowledge
        known = () if state is None else state.known
        latest_ps = fiber.clock_ps - self.timeout_ps
        detected = tuple(
            death.rank
            for death in self.deaths.dead.values()
            if max(since_ps, death.time_ps) <= latest_ps and death.rank not in known and depends_on(death.rank)
        )
        if detected:
            rank = fiber.rank
            rank.key += 1
            self.shard.kernel.post(fiber.clock_ps, rank.key, self._learn_by_polling, (fiber, detected))
            fiber.park(UNTIL)
            fiber.clock_ps = max(fiber.clock_ps, self.shard.kernel.now_ps)

    def _learn_by_polling(self, entry: tuple[Fiber, tuple[int, ...]]) -> None:
        """Notify a rank of failures, and resume its polling fiber.

        This is an event, because other fibers are resumed, too.
        """
        fiber, numbers = entry
        rank = fiber.rank
        if rank.exit_status is None and not self.fabric.defer_for(rank, self._learn_by_polling, entry):
            self.deaths.learn(rank, numbers, "timeout")
            fiber.resume()

    def unanswered(self, rank: Rank, number: int) -> None:
        """Notify the rank of the failure that explains the missing acknowledgement."""
        self.deaths.learn(rank, (number,), "timeout")
