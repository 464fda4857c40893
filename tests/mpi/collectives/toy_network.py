"""A toy network for collective algorithms: every message takes `latency`, nothing else costs (or `overhead` a send).

Ranks are greenlets with their own clocks. Since algorithms never receive from "any source", the n-th receive from a
rank is the n-th message of that rank, whatever the order in which the greenlets run; so clocks are exact. In
`rendezvous` mode a send is complete only when its receive has been posted: an algorithm that could deadlock with
large messages does so here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from greenlet import getcurrent, greenlet


class Deadlock(AssertionError):
    """Ranks wait for each other for ever."""


class ToyNetwork:
    """Runs one function on all ranks; afterwards `times` and `messages` say what it cost."""

    def __init__(
        self, size: int, *, latency: int = 1, overhead: int = 0, rendezvous: bool = False, dead: Iterable[int] = ()
    ) -> None:
        self.size, self.latency, self.overhead, self.rendezvous = size, latency, overhead, rendezvous
        self.dead = frozenset(dead)
        self.times = [0] * size
        self.messages = 0
        self.sent: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
        self.posted: dict[tuple[int, int], int] = {}
        self._waiting: dict[tuple[str, int, int, int], greenlet] = {}
        self._ready: deque[greenlet] = deque()

    def run(self, function: Callable[[ToyChannel], Any]) -> list[Any]:
        """Give every living rank's result; the others', and those that wait for ever for a dead one, are None."""
        hub = getcurrent()
        fibers = {}
        for rank in range(self.size):
            if rank not in self.dead:
                fibers[rank] = greenlet(lambda rank=rank: function(ToyChannel(self, rank)), parent=hub)
                self._ready.append(fibers[rank])
        results: dict[int, Any] = {}
        ranks = {fiber: rank for rank, fiber in fibers.items()}
        while self._ready:
            fiber = self._ready.popleft()
            value = fiber.switch()
            if fiber.dead:
                results[ranks[fiber]] = value
        self.stuck = sorted(set(fibers) - set(results))
        if self.stuck and not self.dead:
            raise Deadlock(f"ranks {self.stuck} wait for ever: {sorted(self._waiting)}")
        return [results.get(rank) for rank in range(self.size)]

    def unreceived(self) -> int:
        """Messages that nobody took."""
        return self.messages - sum(self.posted.values())

    def park_until(self, key: tuple[str, int, int, int]) -> None:
        self._waiting[key] = getcurrent()
        getcurrent().parent.switch()

    def wake(self, key: tuple[str, int, int, int]) -> None:
        fiber = self._waiting.pop(key, None)
        if fiber is not None:
            self._ready.append(fiber)


class ToyChannel:
    """One rank's channel; `remote` is the network rank of the peers' rank 0, `home` that of the own group's."""

    def __init__(
        self, network: ToyNetwork, rank: int, *, size: int | None = None, remote: int = 0, home: int = 0
    ) -> None:
        self.network, self.rank, self.size = network, rank, network.size if size is None else size
        self._remote, self._me = remote, home + rank

    def isend(self, dest: int, data: bytes) -> tuple[str, int, int, int]:
        assert type(data) is bytes
        net, pair = self.network, (self._me, self._remote + dest)
        assert dest >= 0
        net.times[self._me] += net.overhead
        queue = net.sent.setdefault(pair, [])
        queue.append((net.times[self._me] + net.latency, data))
        net.messages += 1
        net.wake(("recv", *pair, len(queue) - 1))
        return ("send", *pair, len(queue) - 1)

    def irecv(self, source: int) -> tuple[str, int, int, int]:
        assert source >= 0
        net, pair = self.network, (self._remote + source, self._me)
        number = net.posted.get(pair, 0)
        net.posted[pair] = number + 1
        net.wake(("send", *pair, number))
        return ("recv", *pair, number)

    def wait(self, handles: Sequence[tuple[str, int, int, int]]) -> list[bytes | None]:
        net = self.network
        answers: list[bytes | None] = []
        for handle in handles:
            kind, source, dest, number = handle
            if kind == "send":
                if net.rendezvous and net.posted.get((source, dest), 0) <= number:
                    net.park_until(handle)
                answers.append(None)
                continue
            if len(net.sent.get((source, dest), ())) <= number:
                net.park_until(handle)
            arrival, data = net.sent[source, dest][number]
            net.times[self._me] = max(net.times[self._me], arrival)
            answers.append(data)
        return answers

    def send(self, dest: int, data: bytes) -> None:
        self.wait([self.isend(dest, data)])

    def recv(self, source: int) -> bytes:
        answer = self.wait([self.irecv(source)])[0]
        assert answer is not None
        return answer

    def sendrecv(self, dest: int, data: bytes, source: int) -> bytes:
        answer = self.wait([self.irecv(source), self.isend(dest, data)])[0]
        assert answer is not None
        return answer


class ToyInterChannel(ToyChannel):
    """A channel to the remote of two groups; ranks 0.. of the network are the first group, then comes the second."""

    def __init__(self, network: ToyNetwork, world_rank: int, *, first: int) -> None:
        low = world_rank < first
        rank, size = (world_rank, first) if low else (world_rank - first, network.size - first)
        home = 0 if low else first
        super().__init__(network, rank, size=size, remote=first - home, home=home)
        self.remote_size = network.size - size
        self.local = ToyChannel(network, rank, size=size, remote=home, home=home)


class Matrices:
    """2x2 matrix products modulo 256, one matrix (4 bytes) an element: associative, does not commute."""

    commutative = False
    unit_bytes = 4

    def __call__(self, left: bytes, right: bytes) -> bytes:
        assert len(left) == len(right)
        a, b = memoryview(left), memoryview(right)
        out = bytearray(len(left))
        for i in range(0, len(out), 4):
            out[i] = (a[i] * b[i] + a[i + 1] * b[i + 2]) & 255
            out[i + 1] = (a[i] * b[i + 1] + a[i + 1] * b[i + 3]) & 255
            out[i + 2] = (a[i + 2] * b[i] + a[i + 3] * b[i + 2]) & 255
            out[i + 3] = (a[i + 2] * b[i + 1] + a[i + 3] * b[i + 3]) & 255
        return bytes(out)


class Concatenation:
    """Joins its operands: the result spells out the order. Only for algorithms that do not cut vectors."""

    commutative = False
    unit_bytes = 1

    def __call__(self, left: bytes, right: bytes) -> bytes:
        return left + right


class Sums:
    """Adds numpy vectors of a given type."""

    commutative = True

    def __init__(self, dtype: str) -> None:
        import numpy as np

        self._np, self.dtype = np, np.dtype(dtype)
        self.unit_bytes = self.dtype.itemsize

    def __call__(self, left: bytes, right: bytes) -> bytes:
        assert len(left) == len(right)
        frombuffer = self._np.frombuffer
        return bytes((frombuffer(left, self.dtype) + frombuffer(right, self.dtype)).tobytes())
