"""Messages between ranks over shared links.

Combines `machine`, `network` and the event queue. MPI does not let messages overtake each other (MPI 4.1, section 3.5).
If the network may, a message that finishes before an earlier one arrives with it; this applies only to messages that
might match the same receive, or be confused in a collective.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xsim_py.engine import first_key

from .streams import LastArrivals, stream_of

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Shard

    from .message import Message, Send

_KEY = first_key(0)
ROUTES_KEPT = 1 << 16  # some 20 MB; programs repeat the same routes, and finding one costs 1 us or more


class SharedLinks:
    """The links between the nodes of a machine, for messages between ranks.

    `machine` is a `Machine`: the placement of ranks, and the routes between nodes. `network` is a `Network`: the costs
    of messages. `account` is a `LinkContention`: the occupation of links over time.
    """

    def __init__(self, machine: Any, network: Any, account: Any) -> None:
        self._machine = machine
        self._unshared = network.unshared
        self._links = lru_cache(ROUTES_KEPT)(machine.shared_route)
        self._across, self._within = machine.shares
        self._account = account
        self.fifo = account.fifo  # whether messages use a link one after the other, as in the account
        self._overtaking = not (account.fifo and network.in_order)
        self._streams: dict[tuple[int, int, int, int], deque[Message]] = {}
        self._due_ps = LastArrivals()
        self._finished_early: dict[Message, int] = {}  # messages that finished before earlier ones, and their keys
        if account.fifo and machine.topology.link_parameters is None:
            account.number(machine.topology.many_links)

    def connect(self, shard: Shard, deliver: Callable[[Message], None]) -> None:
        """Follow all messages in the common events of every shard, and deliver to the ranks of this one."""
        self._shard = shard
        self._deliver = deliver
        self._account.wake = self._wake
        self._account.arrive = self._arrive

    def between(self, origin: int, to: int) -> bool:
        """Return True if messages between these ranks use any links."""
        node_of = self._machine.node_of
        shares: bool = self._within if node_of[origin] == node_of[to] else self._across
        return shares

    def enter(self, time_ps: int, key: int, ends: tuple[int, int, int], message: Message | None) -> None:
        """Inject a message into the network.

        Its injection begins at `time_ps`, and `key` is the event key of its arrival. `ends` are the sending rank, the
        receiving rank, and the size in bytes. `message` is None except in the receiver's shard; other shards follow it
        for the links that it uses.
        """
        if self._overtaking and message is not None:
            self._queue(message)
        origin, to, size_bytes = ends
        ahead = self._links(origin, to).copy()
        self._account.enter(time_ps, key, ahead, self._unshared(origin, to), size_bytes, message)

    def hold(self, rank: Rank, send: Send) -> bool:
        """Return True if a send completes only when its data, which have just left, arrive."""
        return False

    def _wake(self, time_ps: int) -> None:
        # One event for all hops of that time: they come after all other events then, and the order of what comes after
        # them with other shared events does not matter.
        self._shard.post_common(time_ps, _KEY, self._advance, time_ps)

    def _advance(self, now_ps: int) -> None:
        """Advance the messages whose heads reach their next link.

        Each hop is an event of the run, in one shard.
        """
        movers = self._account.advance(now_ps)
        if self._shard.alone:
            self._shard.kernel.events += len(movers) - 1  # this call has been counted
        else:
            self._shard.kernel.events += len(movers) - movers.count(None)

    def _queue(self, message: Message) -> None:
        """Append a message to its stream."""
        if stream := stream_of(message):
            earlier = self._streams.get(stream)
            if earlier is None:
                earlier = self._streams[stream] = deque()
            earlier.append(message)

    def _arrive(self, time_ps: int, key: int, message: Message | None) -> None:
        if message is None:
            return
        stream = stream_of(message) if self._overtaking else None
        if stream is None:
            self._post(time_ps, key, message)
            return
        earlier = self._streams[stream]
        if earlier[0] is not message:
            self._finished_early[message] = key
            return
        earlier.popleft()
        # An earlier message that has the last link may still be in flight, by more than this one.
        self._due_ps[stream] = time_ps = max(time_ps, self._due_ps.get(stream, 0))
        self._post(time_ps, key, message)
        while earlier and earlier[0] in self._finished_early:
            message = earlier.popleft()
            self._post(time_ps, self._finished_early.pop(message), message)
        if not earlier:
            del self._streams[stream]
            if len(self._due_ps) > self._due_ps.limit:
                self._due_ps.prune(self._shard.kernel.now_ps)

    def _post(self, time_ps: int, key: int, message: Message) -> None:
        message.arrival_ps = time_ps
        self._shard.kernel.post(time_ps, key, self._deliver, message)
