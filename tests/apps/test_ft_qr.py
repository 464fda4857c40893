"""A QR factorisation whose lost blocks are given back by sums."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apps.helpers import Run, simulated, spoilt, within
from tests.campaign import CAMPAIGN, SHARDS, dealt

PROGRAM = "ft_qr.py"
SMALL = ("--block", 2, "--groups", 1)


def factorised(ranks: int, *args: object, **told: object) -> Run:
    run = simulated(PROGRAM, *args, ranks=ranks, ft=True, **told)
    assert (run.err, run.status) == ("", 0), run
    assert run.out.endswith("\nright: True\n")
    return run


def residuals(run: Run) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"(\w+) (\d\.\de[-+]\d\d)", run.out)}


@pytest.mark.parametrize("ranks", [4] if CAMPAIGN else [3])
def test_any_rank_may_die_at_any_panel(ranks: int):
    """A block that is given back differs by round-off from what the reflections make of the matrix."""
    for panel in range(ranks):
        for rank in range(ranks):
            worst = residuals(factorised(ranks, *SMALL, "--die", f"{rank}@{panel}"))
            assert ("recovered" in worst) == (panel > 0)
            assert 0 < worst.pop("recovered", 1e-16) < 1e-15
            assert max(worst.values()) < 5e-15


def test_what_has_not_been_looked_at_is_not_said_to_be_exact():
    """A copy is given back bit by bit."""
    assert residuals(factorised(4, *SMALL)).keys() == {"product", "columns", "sums"}
    assert residuals(factorised(4, *SMALL, "--no-check", "--die", "1@2")).keys() == {"product", "columns"}
    for deaths in ([1], [1, 3]):
        run = factorised(4, *SMALL, "--recovery", "buddy", *(f"--die={rank}@2" for rank in deaths))
        assert residuals(run).keys() == {"product", "columns", "recovered"}
        assert residuals(run)["recovered"] == 0


@pytest.mark.parametrize(("ranks", "groups"), [(8, 2), (12, 2), (5, 3)])
def test_sums_are_two_of_so_many_columns_as_there_are_ranks(ranks: int, groups: int):
    out = factorised(ranks, "--groups", groups).out
    size, columns = re.search(r"(\d+) x \d+, \d+ panels, (\d+) extra columns", out).groups()
    assert int(columns) * ranks == 2 * int(size)


def test_a_part_of_the_panels_is_right_too():
    assert "4 panels" in factorised(4, "--panels", 4, "--die", "2@3").out


@pytest.mark.parametrize("recovery", ["checksum", "buddy"])
def test_by_default_it_is_right_on_twelve_ranks_with_a_death(recovery: str):
    factorised(12, "--die", "11@17", "--recovery", recovery)


def test_one_after_another_may_die_and_two_at_a_time_take_blocks_along():
    factorised(6, *SMALL, "--die", "1@2", "--die", "4@4", "--die", "0@5")
    run = simulated(PROGRAM, *SMALL, "--die", "1@4", "--die", "4@4", ranks=6, ft=True)
    assert (run.out, run.err, run.status) == ("lost: the blocks of ranks [1, 4]: a checksum recovers only one\n", "", 1)
    factorised(6, *SMALL, "--die", "1@4", "--die", "4@4", "--recovery", "buddy")


def test_shards_make_no_difference():
    runs = [factorised(5, *SMALL, fail=["rank=2@700us"], shards=shards) for shards in SHARDS]
    assert [run.out for run in runs] == [runs[0].out] * len(SHARDS)
    assert len(runs[0].causes) == 1


@pytest.mark.parametrize(
    ("mended", "wrong"),
    [
        ("reflected(each, made) if at >= ended", "each if at >= ended"),
        ("mine += state.sums[group]", "mine += 1.000001 * state.sums[group]"),
        ("columns - vectors @", "columns - 1.000001 * vectors @"),
        (
            "comm.send(state.guarded, dest=loser",
            "comm.send({key: -each for key, each in state.guarded.items()}, dest=loser",
        ),
    ],
)
def test_the_judge_finds_what_is_wrong(tmp_path: Path, mended: str, wrong: str):
    run = simulated(spoilt(tmp_path, PROGRAM, mended, wrong), *SMALL, "--die", "1@3", ranks=4, ft=True)
    assert run.out.endswith("right: False\n")
    assert run.status == 1


def flip(rank: int, at: str, array: str, row: int, column: int, bit: int) -> str:
    """A bit of an element of an array of four columns."""
    return f"flip:array,rank={rank},at={at},array={array},bit={64 * (4 * row + column) + bit}"


@pytest.mark.parametrize(
    ("rank", "array", "row", "column", "where", "bit"),
    dealt(
        [
            (2, "block2", 31, 3, "row 31 of column 11"),
            (1, "block1", 3, 0, "row 3 of column 4"),
            (0, "block4", 5, 2, "row 5 of column 18"),
            (3, "block7", 0, 1, "row 0 of column 29"),
            (0, "sum0", 12, 3, "row 12 of column 3 of sum 1 of group 0"),
            (3, "sum1", 12, 3, "row 12 of column 3 of sum 2 of group 1"),
        ],
        [63, 62, 55, 52, 48],
    ),
)
def test_a_flipped_element_is_named_and_made_anew(rank: int, array: str, row: int, column: int, where: str, bit: int):
    """A panel takes 3 ms; at 4 ms the second one is done, and of blocks 0 and 1 only the upper triangle counts."""
    run = factorised(4, "--work", 1e-3, "--panels", 3, fail=[flip(rank, "4ms", array, row, column, bit)])
    assert f"\nbefore panel 2: {where} recomputed\n" in run.out
    assert max(residuals(run).values()) < 5e-15


@settings(max_examples=15 if CAMPAIGN else 6)
@given(st.integers(3, 5), st.data())
def test_wherever_and_whenever_a_bit_flips_the_result_is_right(ranks: int, data: st.DataObject):
    """In the middle of a panel the error has spread to a column, and it may be too small to be seen, or in vain."""
    rank = data.draw(st.integers(0, ranks - 1))
    array = data.draw(st.sampled_from([f"block{rank}", f"block{rank + ranks}", "sum0", "sum1"]))
    row, column = data.draw(st.integers(0, 8 * ranks - 1)), data.draw(st.integers(0, 3))
    bit, at_us = data.draw(st.integers(0, 63) | st.integers(52, 63)), data.draw(st.integers(200, 4000))
    factorised(ranks, "--work", 1e-4, fail=[flip(rank, f"{at_us}us", array, row, column, bit)])


@pytest.mark.parametrize("panel", [3, 5, 7])
def test_a_flip_is_put_right_also_in_what_is_kept_for_a_death_to_come(panel: int):
    run = factorised(4, "--work", 1e-3, "--die", f"3@{panel}", fail=[flip(2, "4ms", "block6", 30, 1, 60)])
    assert run.out.count("before panel 2: row 30 of column 25 recomputed") == 1
    assert max(residuals(run).values()) < 5e-15


def test_a_flip_and_a_death_in_one_panel_are_too_much_and_found_out():
    told = "--work", 1e-3, "--die", "3@2"
    run = simulated(PROGRAM, *told, ranks=4, ft=True, fail=[flip(2, "4ms", "block6", 30, 1, 60)])
    assert run.status == 1
    assert "recovered exact: False" in run.out


@pytest.mark.parametrize("changed", ["one", "a column", "a sum", "two of a group"])
def test_places_follow_from_sums(changed: str):
    """Sums of random blocks, added up element by element."""
    ranks, size, draw = 5, 12, np.random.default_rng(1)
    located = within("ft_qr", lambda app: app.located)
    weights = 1 + np.arange(ranks) / ranks
    for trial in range(12):
        blocks, wrong = draw.normal(size=(ranks, size, 3)), np.zeros((2, 2, size, 3))
        sums = [sum(blocks), sum(weight * each for weight, each in zip(weights, blocks, strict=True))]
        rank, row, column = int(draw.integers(ranks)), int(draw.integers(size)), int(draw.integers(3))
        size_of_it = 10.0 ** draw.integers(-9, 9)
        expected: list[Any] = [(1, column, rank, None, (row, row))]
        if changed == "a sum":
            sums[trial % 2][row, column] += size_of_it
            expected = [(1, column, None, trial % 2, (row, row))]
        elif changed == "a column":
            blocks[rank, 2:, column] += size_of_it * draw.uniform(1, 2, size - 2)
            expected = [(1, column, rank, None, (2, size - 1))]
        else:
            blocks[rank, row, column] += size_of_it
            if changed == "two of a group":
                blocks[(rank + 2) % ranks, (row + 1) % size, column] += size_of_it
                expected = []
        wrong[0, 1] = sum(blocks) - sums[0]
        wrong[1, 1] = sum(weight * each for weight, each in zip(weights, blocks, strict=True)) - sums[1]
        assert [tuple(each) for each in located(wrong, weights, 1e-12)] == expected


@pytest.mark.parametrize(
    ("mended", "wrong"),
    [("else -values", "else values"), ("np.arange(self.ranks) / self.ranks", "0 * np.arange(self.ranks)")],
)
def test_the_judge_finds_what_is_not_put_right(tmp_path: Path, mended: str, wrong: str):
    hit = [flip(2, "4ms", "block6", 30, 1, 60)]
    run = simulated(spoilt(tmp_path, PROGRAM, mended, wrong), "--work", 1e-3, ranks=4, ft=True, fail=hit)
    assert run.out.endswith("\nright: False\n")
    assert run.status == 1


def test_shards_make_no_difference_to_flips():
    hit = [flip(2, "4ms", "block6", 30, 1, 60), "flip:array,rank=1,at=9ms", "rank=3@12ms"]
    runs = [factorised(4, "--work", 1e-3, fail=hit, shards=shards) for shards in SHARDS]
    assert [run.out for run in runs] == [runs[0].out] * len(SHARDS)


@pytest.mark.parametrize("words", [["--block", 0], ["--groups", 0], ["--panels", 0], ["--work", -1]])
def test_arguments_without_sense_are_refused_once(words: list[object]):
    run = simulated(PROGRAM, *words, ranks=2)
    assert (run.out, run.status, run.err.count("ft_qr: ")) == ("", 2, 1)


def test_a_wrong_copy_is_found(tmp_path: Path):
    once = "work.panel, work.state = panel, state"
    twice = f"{once}._replace(blocks={{at: 2 * each for at, each in state.blocks.items()}})"
    wrong = spoilt(tmp_path, PROGRAM, once, twice)
    run = simulated(wrong, *SMALL, "--recovery", "buddy", "--die", "1@3", ranks=4, ft=True)
    assert "recovered exact: False" in run.out
    assert run.status == 1
