"""A flow of which parts are lost: what averages of the neighbours make of it."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.apps.helpers import APPS, simulated, spoilt
from tests.campaign import CAMPAIGN

PROGRAM = "lattice_boltzmann.py"
SMALL = ("--columns", 16, "--steps", 12, "--every", 4)


class Flow(NamedTuple):
    """What a run says of its flow."""

    error: float
    mass: float
    averaged: list[tuple[int, int, int]]
    state: str
    right: bool


def flow(ranks: int, *args: object, **told: object) -> Flow:
    run = simulated(PROGRAM, *args, ranks=ranks, ft=True, **told)
    assert (run.err, run.status) == ("", 0), run
    error = re.search(r"^error of the velocity ([\d.]+), at most", run.out, re.MULTILINE)
    mass = re.search(r"^mass changed by (\S+), at most", run.out, re.MULTILINE)
    rows = re.findall(r"^rows (\d+) to (\d+) averaged at step (\d+)$", run.out, re.MULTILINE)
    state = re.search(r"^state (\w{8})$", run.out, re.MULTILINE)
    averaged = [(int(first), int(last), int(step)) for first, last, step in rows]
    right = run.out.endswith("\nright: True\n")
    return Flow(float(error[1]), float(mass[1]) if mass else 0, averaged, state[1] if state else "", right)


# Ranks, columns, who dies at step 64 of 256, the first of its rows of that many; and what was computed independently.
TABLE = [
    (1, 64, None, 0.00117, 0.0),
    (16, 64, 8, 0.00433, 1.4e-6),
    (32, 64, 16, 0.00160, 2.9e-7),
    (32, 64, 8, 0.00270, -2.9e-7),
    (16, 64, 4, 0.00586, -1.4e-6),
    (1, 128, None, 0.00037, 0.0),
    (32, 128, 16, 0.00086, 2.1e-7),
    (32, 128, 8, 0.00158, -2.1e-7),
]


@pytest.mark.parametrize(("ranks", "columns", "victim", "error", "mass"), TABLE if CAMPAIGN else TABLE[:2])
def test_errors_and_masses_are_those_computed_independently(
    ranks: int, columns: int, victim: int | None, error: float, mass: float
):
    lost = flow(ranks, "--columns", columns, *([] if victim is None else ["--die", f"{victim}@64"]))
    height = columns // ranks
    rows = [] if victim is None else [(victim * height, (victim + 1) * height - 1, 64)]
    assert lost.averaged == rows
    assert lost.error == pytest.approx(error, abs=6e-6)
    assert lost.mass == pytest.approx(mass, rel=0.05)


def test_any_number_of_ranks_computes_the_same_bits():
    assert len({flow(ranks, *SMALL).state for ranks in (1, 2, 3, 8)}) == 1


@pytest.mark.parametrize("ranks", [9, 13])
def test_any_one_of_any_number_of_ranks_may_die(ranks: int):
    victim = ranks * 5 // 8
    lost = flow(ranks, *SMALL, "--rows", 16, "--die", f"{victim}@6")
    assert lost.averaged == [(victim * 16 // ranks, (victim + 1) * 16 // ranks - 1, 4)]
    assert flow(ranks, *SMALL, "--rows", 16, "--die", f"{victim}@6", "--recovery", "buddy") == flow(1, *SMALL)


@pytest.mark.parametrize("ranks", [8, 12])
def test_by_default_it_is_right_with_a_death_and_without(ranks: int):
    averaged = flow(ranks, fail=["rank=3@5ms"] if ranks == 12 else []).averaged
    assert [rows[:2] for rows in averaged] == ([(16, 20)] if ranks == 12 else [])


@pytest.mark.parametrize("average", ["column", "block"])
def test_neighbours_that_die_together_are_averaged_from_further_away(average: str):
    deaths = [word for rank in (1, 2, 3) for word in ("--die", f"{rank}@5")]
    lost = flow(8, *SMALL, "--average", average, *deaths)
    assert lost.averaged == [(2, 3, 4), (4, 5, 4), (6, 7, 4)]


def test_an_average_over_whole_blocks_takes_the_flow_away():
    column, block = (flow(8, *SMALL, "--die", "3@5", "--average", average).error for average in ("column", "block"))
    assert block > 3 * column


def test_who_takes_a_strip_may_die_too_and_the_average_is_taken_again():
    failures = ["rank=2@500us", "rank=4 before its 1st Sendrecv"]  # rank 4 is the first new process
    runs = [
        simulated(PROGRAM, *SMALL, ranks=4, fail=failures, set={"spawn.universe": 9}, shards=n) for n in (1, 2, 3, 7)
    ]
    assert [*{run.out for run in runs}] == [runs[0].out]
    assert len(runs[0].causes) == 2
    assert runs[0].out.endswith("right: True\n")


def test_a_copy_that_dies_with_its_strip_is_lost():
    run = simulated(PROGRAM, *SMALL, "--recovery", "buddy", "--die", "1@6", "--die", "2@6", ranks=6, ft=True)
    assert (run.out, run.err, run.status) == ("lost: the data of ranks [1], with all copies\n", "", 1)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("mended", "wrong"),
    [
        ("(args.tau - 0.5) / 3)", "(args.tau - 0.4) / 3)"),
        ("return [(low + high) / 2", "return [(low + high) / 2.02"),
        (
            "given.append(comm.isend(self.means(populations, way)",
            "given.append(comm.isend(self.means(-populations, way)",
        ),
        ("copies.kept[step][0] if step", "copies.kept[step][0] * 1.001 if step"),
        ("after[TO_UP, -1], up", "after[TO_UP, 0], up"),
    ],
)
def test_the_judge_finds_what_is_wrong(tmp_path: Path, mended: str, wrong: str):
    text = (APPS / PROGRAM).read_text(encoding="utf-8")
    assert text.count(mended) == 1
    (tmp_path / PROGRAM).write_text(text.replace(mended, wrong), encoding="utf-8")
    (tmp_path / "recovery.py").write_bytes((APPS / "recovery.py").read_bytes())
    run = simulated(tmp_path / PROGRAM, "--columns", 32, "--steps", 32, "--die", "3@20", ranks=8, ft=True)
    assert run.out.endswith("right: False\n")
    assert run.status == 1


def test_the_judge_compares_what_copies_give_back_with_the_bits_that_one_process_computes(tmp_path: Path):
    old = "strip.step, (strip.populations, strip.lost) = step, data"
    app = spoilt(tmp_path, PROGRAM, old, f"{old}; strip.populations = equilibrium(*moments(strip.populations))")
    told = ("--columns", 32, "--steps", 32, "--die", "3@20", "--recovery", "buddy")
    verdicts = [simulated(each, *told, ranks=8, ft=True).out.splitlines()[-1] for each in (PROGRAM, app)]
    assert verdicts == ["right: True", "right: False"]


@pytest.mark.parametrize("words", [["--rows", 65], ["--rows", 0], ["--tau", 0.5], ["--every", 0], ["--columns", 0]])
def test_arguments_without_sense_are_refused_once(words: list[object]):
    run = simulated(PROGRAM, *words, ranks=2)
    assert (run.out, run.status, run.err.count("lattice_boltzmann: ")) == ("", 2, 1)
