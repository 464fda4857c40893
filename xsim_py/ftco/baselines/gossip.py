"""Corrected gossip: a broadcast to random nodes, followed by corrections to ring neighbours."""

from __future__ import annotations

from functools import lru_cache

from xsim_py.ftco.model import SERVICE, mix

from .engine import Process, ReceiveCommand, ReceivedMessage, SendCommand, StepEngine

_GOSSIP = 0
"""The payload of a message of the first phase; those of the second have their direction, 1 or -1."""


@lru_cache(maxsize=64)
def gossip_steps(nodes: int, latency: int) -> int:
    """Return the steps of gossip: those of the fastest broadcast, N(t) = N(t-1) + N(t-L-2)."""
    reached = [1]
    while reached[-1] < nodes:
        step = len(reached)
        reached.append(reached[-1] + (reached[step - latency - 2] if step >= latency + 2 else 0))
    return len(reached) - 1


def corrected_gossip(me: int, engine: StepEngine) -> Process:
    """Run one node of a Bcast from node 0 by checked corrected gossip (IPDPS 2017, section III).

    A node with the value sends it to a random node in each step until `gossip_steps` are over. When the last of these
    messages has arrived, nodes with the value send it to their neighbours on a ring of all nodes. They do so at growing
    distance in both directions, in each until they have received such a message from there: then all nodes in between
    have the value, too. No node waits for failed ones, or detects them. All nodes are reached for certain if none fails
    during the correction.
    """
    latency, size = engine.configuration.latency, engine.size
    end = gossip_steps(size, latency)
    if me:
        first = yield ReceiveCommand()
        assert isinstance(first, ReceivedMessage)
        if first.payload != _GOSSIP:
            engine.finish(me, True)
            return
    while size > 1 and (now := engine.step_of(me)) < end:
        dest = int(mix(engine.plan.seed, SERVICE, (now << 32) | me)) % (size - 1)
        yield SendCommand(dest + (dest >= me), _GOSSIP)
    open_directions = {1, -1}  # from which no message has arrived
    while (message := (yield ReceiveCommand(until=end + latency + 1))) is not None:
        open_directions.discard(-message.payload)
    for distance in range(1, size):
        for direction in (1, -1):
            while (message := (yield ReceiveCommand(until=0))) is not None:
                open_directions.discard(-message.payload)
            if direction in open_directions:
                yield SendCommand((me + direction * distance) % size, direction)
        if not open_directions:
            break
    engine.finish(me, True)
