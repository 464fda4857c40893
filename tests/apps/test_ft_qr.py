"""A QR factorisation whose lost blocks are given back by sums."""

import re
from pathlib import Path

import pytest

from tests.apps.helpers import Run, simulated, spoilt

PROGRAM = "ft_qr.py"
SMALL = ("--block", 2, "--groups", 1)


def factorised(ranks: int, *args: object, **told: object) -> Run:
    run = simulated(PROGRAM, *args, ranks=ranks, ft=True, **told)
    assert (run.err, run.status) == ("", 0), run
    assert run.out.endswith("\nright: True\n")
    return run


def residuals(run: Run) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"(\w+) (\d\.\de[-+]\d\d)", run.out)}


@pytest.mark.parametrize("ranks", [4])
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
    size, columns = re.search(r"(\d+) x \d+, \d+ panels, (\d+) columns more", out).groups()
    assert int(columns) * ranks == 2 * int(size)


def test_a_part_of_the_panels_is_right_too():
    assert "4 panels" in factorised(4, "--panels", 4, "--die", "2@3").out


@pytest.mark.parametrize("recovery", ["checksum", "buddy"])
def test_by_default_it_is_right_on_twelve_ranks_with_a_death(recovery: str):
    factorised(12, "--die", "11@17", "--recovery", recovery)


def test_one_after_another_may_die_and_two_at_a_time_take_blocks_along():
    factorised(6, *SMALL, "--die", "1@2", "--die", "4@4", "--die", "0@5")
    run = simulated(PROGRAM, *SMALL, "--die", "1@4", "--die", "4@4", ranks=6, ft=True)
    assert (run.out, run.err, run.status) == ("lost: the blocks of ranks [1, 4]: a sum gives back only one\n", "", 1)
    factorised(6, *SMALL, "--die", "1@4", "--die", "4@4", "--recovery", "buddy")


def test_shards_make_no_difference():
    runs = [factorised(5, *SMALL, fail=["rank=2@700us"], shards=shards) for shards in (1, 2, 3, 7)]
    assert [run.out for run in runs] == [runs[0].out] * 4
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
