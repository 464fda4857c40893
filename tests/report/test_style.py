"""Ticks that suit ranks."""

import pytest

from xsim_py.report.style import rank_step, spaced


@pytest.mark.parametrize(
    ("ranks", "step"),
    [(1, 1), (4, 1), (8, 1), (12, 1), (16, 2), (20, 2), (48, 5), (64, 8), (100, 10), (1000, 100), (1024, 128)],
)
def test_ticks_of_ranks_are_at_powers_of_two_or_tens(ranks: int, step: int):
    assert rank_step(ranks) == step


def test_every_power_of_two_has_a_tick_where_there_is_room():
    assert spaced([2**power for power in range(9)]) == [2**power for power in range(9)]
    assert spaced([2**power for power in range(2, 16)]) == [2**power for power in range(2, 16, 2)]
    assert spaced([5]) == [5]
