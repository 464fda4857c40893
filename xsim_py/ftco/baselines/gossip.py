"""Corrected gossip: a broadcast that sends at random first, and then to its neighbours until none is left out."""

from __future__ import annotations

from functools import lru_cache

from xsim_py.ftco.model import SERVICE, mix

from .engine import Process, SendWish, StepEngine, TakenMessage, TakeWish

_GOSSIP = 0
"""The payload of a message of the first phase; those of the second have the side to which they go, 1 or -1."""


@lru_cache(maxsize=64)
def gossip_steps(nodes: int, latency: int) -> int:
    """Return how long gossip lasts: as long as the fastest broadcast to so many nodes, N(t) = N(t-1) + N(t-L-2)."""
    reached = [1]
    while reached[-1] < nodes:
        step = len(reached)
        reached.append(reached[-1] + (reached[step - latency - 2] if step >= latency + 2 else 0))
    return len(reached) - 1


def corrected_gossip(me: int, engine: StepEngine) -> Process:
    """Be one node of a Bcast from node 0, by checked corrected gossip (IPDPS 2017, section III).

    Who has the value sends it to a random node in each step until `gossip_steps` are over. When the last of these
    messages has arrived, who has the value sends it to its neighbours on a ring of all nodes, at growing distance in
    both directions, and in each until it has got such a message from there: then everybody in between has one, too.
    Nobody waits for the dead, or finds out who they are. That everybody is reached is certain if nobody dies while
    correcting.
    """
    latency, size = engine.configuration.latency, engine.size
    end = gossip_steps(size, latency)
    if me:
        first = yield TakeWish()
        assert isinstance(first, TakenMessage)
        if first.payload != _GOSSIP:
            engine.finish(me, True)
            return
    while size > 1 and (now := engine.step_of(me)) < end:
        dest = int(mix(engine.plan.seed, SERVICE, (now << 32) | me)) % (size - 1)
        yield SendWish(dest + (dest >= me), _GOSSIP)
    open_sides = {1, -1}  # from which nobody has been heard
    while (message := (yield TakeWish(until=end + latency + 1))) is not None:
        open_sides.discard(-message.payload)
    for distance in range(1, size):
        for side in (1, -1):
            while (message := (yield TakeWish(until=0))) is not None:
                open_sides.discard(-message.payload)
            if side in open_sides:
                yield SendWish((me + side * distance) % size, side)
        if not open_sides:
            break
    engine.finish(me, True)
