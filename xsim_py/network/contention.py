"""Contention on links by virtual cut-through.

A message holds each directed link of its route for the time its bytes take on the wire, and its head advances one hop
after it got the link. It waits while an earlier message holds the link; while it waits, it is assumed to be buffered at
that router and holds no link behind it for longer (virtual cut-through, Kermani and Kleinrock 1979; wormhole routing
would block backwards), nor any link ahead. A message without contention arrives exactly at the time of the closed form
of `xsim_py.network.link`.

A link goes to the message whose head arrives first. So the hops of all messages must be made in time order:
`LinkContention` records when each message reaches its next link, and makes all hops of one time in a single pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from xsim_py.network.link import Link

# A message between two hops: its order among simultaneous events, the links ahead of it (the next one last), the time
# that it holds each of them, the time from the last hop to the arrival of its last byte, and the message itself.
_Passage: TypeAlias = tuple[int, list[Any], int, int, Any]


class _FreeSinceStart(dict[Hashable, int]):
    """The times from which links are free: 0 for every unused link."""

    __slots__ = ()

    def __missing__(self, link: Hashable) -> int:
        return 0


class LinkContention:
    """The links of the network, the time until which each is held, and the messages in flight."""

    wake: Callable[[int], None]
    """Called with each time at which `advance` has to be called; set by the caller."""
    arrive: Callable[[int, int, Any], None]
    """Called with the arrival time of a message's last byte, its `order` and the message; set by the caller."""
    fifo = True
    """Whether messages use a link one after the other."""

    def __init__(self, *, per_hop_ps: int) -> None:
        self._per_hop_ps = per_hop_ps
        self._free_ps: Any = _FreeSinceStart()
        self._at: dict[int, list[_Passage]] = {}

    def number(self, links: int) -> None:
        """Store the times of numbered links in a list, which is twice as fast as a dictionary."""
        if links:
            self._free_ps = [0] * links

    def enter(
        self, time_ps: int, order: int, ahead: list[Any], unshared: Link, size_bytes: int, message: object
    ) -> None:
        """Bring a message to the first link of its route.

        Its injection begins at `time_ps`. `order` orders it among simultaneous events, independently of the number of
        shards. `ahead` is its route: one directed link or more, the last one first. The message owns the list from now
        on.

        `unshared` are its costs without those links (see `Network.unshared`), and `size_bytes` determines its time on
        the wire. `message` is the object passed to `arrive`.
        """
        cost = unshared.cost(size_bytes)
        self._wait_at(time_ps, (order, ahead, cost.bytes_ps, cost.latency_ps + cost.wire_ps, message))

    def _wait_at(self, time_ps: int, passage: _Passage) -> None:
        """Let a message wait for its next link from a time on."""
        waiting = self._at.get(time_ps)
        if waiting is not None:
            waiting.append(passage)
        else:
            self._at[time_ps] = [passage]
            self.wake(time_ps)

    def advance(self, now_ps: int) -> list[Any]:
        """Give each message that is at a link now that link as soon as it is free, in the order of `order`.

        A head reaches the next link one hop after it got the link. The last byte arrives one hop, the latency and the
        time on the wire after the head got the last link. Returns the messages that made these hops.
        """
        at, free_ps, per_hop_ps = self._at, self._free_ps, self._per_hop_ps
        here = at.pop(now_ps)
        here.sort()  # places differ, so nothing else is compared
        movers = [passage[4] for passage in here]
        last_ps, last = now_ps, here  # most next hops are at the time of the previous one
        # Hot path: a message on a large torus makes ten hops.
        for passage in here:
            order, ahead, wire_ps, rest_ps, message = passage
            while True:
                link = ahead.pop()
                next_ps = free_ps[link]
                if next_ps < now_ps:
                    next_ps = now_ps
                free_ps[link] = next_ps + wire_ps
                next_ps += per_hop_ps
                if not ahead:
                    self.arrive(next_ps + rest_ps, order, message)
                elif next_ps > now_ps:
                    if next_ps != last_ps:
                        last_ps = next_ps
                        last = at.setdefault(next_ps, [])
                        if not last:
                            self.wake(next_ps)
                    last.append(passage)
                else:  # a hop without duration: the next one comes before all remaining messages
                    movers.append(message)
                    continue
                break
        return movers
