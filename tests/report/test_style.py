"""What all pictures have in common: ticks that suit ranks, and names as they are."""

from pathlib import Path

import pytest

from xsim_py.report.figure import save
from xsim_py.report.style import log_steps, new_figure, rank_step, spaced


@pytest.mark.parametrize(
    ("ranks", "step"),
    [(1, 1), (4, 1), (8, 1), (12, 1), (16, 2), (20, 2), (48, 5), (64, 8), (100, 10), (1000, 100), (1024, 128)],
)
def test_ticks_of_ranks_are_at_powers_of_two_or_tens(ranks: int, step: int):
    assert rank_step(ranks) == step


@pytest.mark.parametrize(
    ("low", "high", "steps"), [(2.5, 9.7, tuple(range(1, 10))), (2, 30, (1, 2, 5)), (1, 4096, (1,))]
)
def test_a_small_range_of_a_logarithmic_axis_has_more_ticks(low: float, high: float, steps: tuple[int, ...]):
    assert log_steps(low, high) == steps


def test_every_power_of_two_has_a_tick_where_there_is_room():
    assert spaced([2**power for power in range(9)]) == [2**power for power in range(9)]
    assert spaced([2**power for power in range(2, 16)]) == [2**power for power in range(2, 16, 2)]
    assert spaced([5]) == [5]


def test_a_name_with_dollars_is_no_formula(tmp_path: Path):
    figure = new_figure(3, 2)
    axes = figure.subplots()
    axes.set_title("$\\nosuch$")
    axes.set_xticks([0, 1], ["$\\nosuch x$", "$y$"])
    axes.plot([0, 1], [0, 1], label="$\\nosuch$")
    axes.legend()
    save(figure, tmp_path / "dollars.svg")
    assert (tmp_path / "dollars.svg").stat().st_size > 1000
