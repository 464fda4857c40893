"""What ranks have gone through while they ran is what can be gone through at all, and so is what is left at the end."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from xsim_py.checks.monitor import MpiCall, RankState
from xsim_py.checks.records import MessageSide
from xsim_py.checks.steps import Steps, replay_all

RANKS = 3
NO_FIBER: Any = None
Call = tuple[int, tuple[int, ...], bool]
"""Who makes it, the messages that it is about, and whether it is blocking; the first rank that names one sends it."""


@st.composite
def programs(draw: st.DrawFn) -> list[Call]:
    """Draw the calls of all ranks in the order of an execution, in which each message is sent before it is received."""
    calls: list[Call] = []
    coming: dict[int, list[int]] = {rank: [] for rank in range(RANKS)}
    last = 0
    for _ in range(draw(st.integers(1, 25))):
        rank, blocking = draw(st.integers(0, RANKS - 1)), draw(st.booleans())
        about = []
        if coming[rank] and draw(st.booleans()):
            about.append(coming[rank].pop(0))
        if not about or draw(st.booleans()):
            last += 1
            coming[draw(st.sampled_from([each for each in range(RANKS) if each != rank]))].append(last)
            about.append(last)
        calls.append((rank, tuple(about), blocking))
    return calls


def can_pass(calls: list[Call]) -> list[int]:
    """Return how many calls each rank gets through where each send waits for its receive."""
    mine = [[call for call in calls if call[0] == rank] for rank in range(RANKS)]
    at = [0] * RANKS
    ends = {message: sum(message in call[1] for call in calls) for message in range(len(calls) * 2)}
    while True:
        begun = [message for rank in range(RANKS) for call in mine[rank][: at[rank] + 1] for message in call[1]]
        free = [
            rank
            for rank in range(RANKS)
            if at[rank] < len(mine[rank])
            and (not mine[rank][at[rank]][2] or all(begun.count(each) == 2 for each in mine[rank][at[rank]][1]))
        ]
        if not free:
            assert all(count <= 2 for count in ends.values())
            return at
        at[free[0]] += 1


@given(programs())
def test_steps_are_gone_through_as_far_as_sends_without_buffers_come(calls: list[Call]):
    ranks = [Steps(keeps=()) for _ in range(RANKS)]
    taken = [0] * RANKS
    sides: dict[int, MessageSide] = {}
    for rank, about, blocking in calls:
        made = []
        for message in about:
            side = MpiCall(NO_FIBER, RankState(rank, ())).side(None, 0, 0, None, message not in sides)
            if message in sides:
                side.partner, sides[message].partner = sides[message], side
            sides[message] = side
            made.append(side)
        if blocking:
            made[0].next_side = made[1] if len(made) > 1 else None
            ranks[rank].add_blocking(made[0])
        else:
            ranks[rank].add(made, [], True)
        taken[rank] += 1
        ranks[rank].replay()
    replay_all(ranks, is_over=False)
    assert [count - len(steps.pending) for count, steps in zip(taken, ranks, strict=True)] == can_pass(calls)
