"""Messages between ranks over links that they share; joins what `machine`, `network` and the queue of events know.

MPI does not let messages overtake each other (MPI 4.1, section 3.5). Where the network may, one that is through before
an elder comes with it; only those wait that might meet the same receive, or be taken for another in a collective.
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
ROUTES_KEPT = 1 << 16  # some 20 MB; programs use the same ways again and again, and to find one costs 1 us or more


class SharedLinks:
    """The links between the nodes of a machine, for messages between ranks.

    Parameters
    ----------
    machine : Machine
        Where the ranks are, and the routes between nodes.
    network : Network
        The costs of messages.
    account : LinkContention
        Who uses which link when.

    Attributes
    ----------
    fifo : bool
        Whether messages take a link one after the other, as the account does it.
    """

    def __init__(self, machine: Any, network: Any, account: Any) -> None:
        self._machine = machine
        self._unshared = network.unshared
        self._links = lru_cache(ROUTES_KEPT)(machine.shared_way)
        self._across, self._within = machine.shares
        self._account = account
        self.fifo = account.fifo
        self._overtaking = not (account.fifo and network.in_order)
        self._streams: dict[tuple[int, int, int, int], deque[Message]] = {}
        self._due_ps = LastArrivals()
        self._early: dict[Message, int] = {}  # those that are through before their elders, and their keys
        if account.fifo and machine.topology.figures is None:
            account.number(machine.topology.many_links)

    def connect(self, shard: Shard, deliver: Callable[[Message], None]) -> None:
        """Follow all messages in the queue of what happens in every shard, and deliver to the ranks of this one."""
        self._shard = shard
        self._deliver = deliver
        self._account.wake = self._wake
        self._account.arrive = self._arrive

    def between(self, origin: int, to: int) -> bool:
        """Return whether a message between these ranks uses links at all."""
        node_of = self._machine.node_of
        shares: bool = self._within if node_of[origin] == node_of[to] else self._across
        return shares

    def enter(self, time_ps: int, key: int, way: tuple[int, int, int], message: Message | None) -> None:
        """Let a message enter the network.

        Parameters
        ----------
        time_ps
            When its injection begins.
        key
            Of the event of its arrival.
        way
            The rank that it is from, the one that it is for, and its size in bytes.
        message
            Known in the receiver's shard only; the others follow it for the links that it takes.
        """
        if self._overtaking and message is not None:
            self._queue(message)
        origin, to, size_bytes = way
        ahead = self._links(origin, to).copy()
        self._account.enter(time_ps, key, ahead, self._unshared(origin, to), size_bytes, message)

    def hold(self, rank: Rank, send: Send) -> bool:
        """Return whether a send is complete only when the data that have just left are there, and see to it then."""
        return False

    def _wake(self, time_ps: int) -> None:
        # One event of the queue for all hops of that time: they come after all else that happens then, and what
        # comes after them with others that are shared does not depend on the order.
        self._shard.post_common(time_ps, _KEY, self._advance, time_ps)

    def _advance(self, now_ps: int) -> None:
        """Heads of messages have come to their next link. Each hop is an event of the run, in one shard."""
        movers = self._account.advance(now_ps)
        if self._shard.alone:
            self._shard.kernel.events += len(movers) - 1  # this call has been counted
        else:
            self._shard.kernel.events += len(movers) - movers.count(None)

    def _queue(self, message: Message) -> None:
        """Note whose elder a message is."""
        if stream := stream_of(message):
            elders = self._streams.get(stream)
            if elders is None:
                elders = self._streams[stream] = deque()
            elders.append(message)

    def _arrive(self, time_ps: int, key: int, message: Message | None) -> None:
        if message is None:
            return
        stream = stream_of(message) if self._overtaking else None
        if stream is None:
            self._post(time_ps, key, message)
            return
        elders = self._streams[stream]
        if elders[0] is not message:
            self._early[message] = key
            return
        elders.popleft()
        # An elder that has the last link may still be on its way, by more than this one.
        self._due_ps[stream] = time_ps = max(time_ps, self._due_ps.get(stream, 0))
        self._post(time_ps, key, message)
        while elders and elders[0] in self._early:
            message = elders.popleft()
            self._post(time_ps, self._early.pop(message), message)
        if not elders:
            del self._streams[stream]
            if len(self._due_ps) > self._due_ps.limit:
                self._due_ps.prune(self._shard.kernel.now_ps)

    def _post(self, time_ps: int, key: int, message: Message) -> None:
        message.arrival_ps = time_ps
        self._shard.kernel.post(time_ps, key, self._deliver, message)
