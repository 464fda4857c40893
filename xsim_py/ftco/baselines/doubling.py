"""Fault-tolerant recursive doubling: the role of a dead partner goes to others of its block."""

from __future__ import annotations

from .engine import ASK, DATA, NewsOfDeath, Process, SendWish, StepEngine, TakenMessage, TakeWish


def recursive_doubling(me: int, engine: StepEngine) -> Process:
    """Be one node of an Allreduce.

    In round r it exchanges with ``me ^ 2**r`` the combined values of their blocks of ``2**r`` nodes. If that one is
    dead, or is not there, it asks the others of that block, the lowest first, and who is asked answers as soon as it
    has the value, also after it has finished. A value is the set of its contributors, so that none can count twice:
    blocks are disjoint. All who outlive the operation are in the result of everybody. Of two that die in it, one may be
    in some results and not in others, for there is no root that decides.
    """
    have = 1 << me
    of_round: dict[int, int] = {}  # the value of my block before each round
    came: dict[int, int] = {}
    waiting: list[tuple[int, int]] = []
    rounds = (engine.size - 1).bit_length()
    dead: set[int] = set()

    def keep(message: TakenMessage) -> Process:
        """Remember a value, or answer a question when its time has come."""
        number, value = message.payload
        if message.kind == DATA:
            came.setdefault(number, value)
        elif number in of_round:
            yield SendWish(message.source, DATA, (number, of_round[number]))
        else:
            waiting.append((number, message.source))

    for number in range(rounds):
        of_round[number] = have
        for due in [each for each in waiting if each[0] == number]:
            waiting.remove(due)
            yield SendWish(due[1], DATA, (number, have))
        first = ((me >> number) ^ 1) << number
        block = range(first, min(first + (1 << number), engine.size))
        partner = me ^ (1 << number)
        if partner in block:
            yield SendWish(partner, DATA, (number, have))
            order = [partner, *(node for node in block if node != partner)]
        else:
            order = [block[(me + place) % len(block)] for place in range(len(block))]
        for node in order:
            if node in dead or number in came:
                continue
            if node != partner:
                yield SendWish(node, ASK, (number, None))
            while number not in came and node not in dead:
                event = yield TakeWish(watched=(node,))
                if isinstance(event, NewsOfDeath):
                    dead.add(event.node)
                else:
                    yield from keep(event)
        value = came.get(number, 0)
        assert have & value == 0, "a contribution would count twice"
        have |= value
    of_round[rounds] = have
    engine.finish(me, have)
    while True:
        for number, source in waiting:
            yield SendWish(source, DATA, (number, of_round[number]))
        waiting.clear()
        yield from keep((yield TakeWish()))
