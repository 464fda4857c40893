"""Schwarz methods that go on whoever dies: their rates in closed form, and what a substitute costs."""

import itertools
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.apps.helpers import Run, simulated, spoilt, within
from tests.campaign import CAMPAIGN, SHARDS, dealt

ROOM = {"spawn.universe": 32}  # so that processes can be named before they are started
PAUSE_S = (0.24, 0.25)  # the launcher's, and the recovery's
DIRICHLET = ("--transmission", "dirichlet", "--subdomains", 4)


def schwarz(*args: object, ranks: int = 8, **told: object) -> Run:
    return simulated("schwarz.py", *args, ranks=ranks, ft=True, **told)


def measured(run: Run) -> tuple[float, int, int, float]:
    """The error, the fewest and the most iterations, and the time."""
    found = re.search(r"^# error (\S+), (\d+) to (\d+) iterations, after (\S+) s$", run.out, re.MULTILINE)
    assert found
    return float(found[1]), int(found[2]), int(found[3]), float(found[4])


@pytest.mark.parametrize(("cells", "overlap"), [(16, 2), (16, 8), (10, 1), (32, 5)])
def test_two_subdomains_in_step_have_the_factor_of_the_closed_form(cells: int, overlap: int):
    run = schwarz("--subdomains", 2, "--synchronous", "--cells", cells, "--overlap", overlap)
    a, b = (cells - overlap) / (2 * cells), (cells + overlap) / (2 * cells)
    assert f"error factor of two iterations {a * (1 - b) / (b * (1 - a)):.12f}, to 1e-12: True\n" in run.out
    assert run.out.endswith("right: True\n")


def test_the_factor_stays_after_a_failure():
    run = schwarz("--subdomains", 2, "--synchronous", "--die", "1@20")
    assert "error factor of two iterations 0.604938271605, to 1e-12: True\n" in run.out
    assert run.out.endswith("right: True\n")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[h * h] * size", "[h * h * 1.001] * size", ()),
        ("[h * h] * size", "[h * h * 1.001] * size", ("--subdomains", 2, "--synchronous")),
        ("[h * h] * size", "[h * h * 1.001] * size", ("--synchronous", "--iterations", 3)),
        ("+ self.p(node, other) * u[at]", "+ 1.01 * self.p(node, other) * u[at]", ()),
        ("if self.known and self.arguments", "if self.known or self.arguments", ("--die", "2@5")),
        # They go back, and say that they have not.
        (
            "            self.part.expect()",
            "            self.part.data = {LEFT: 0.0, RIGHT: 0.0}\n            self.part.expect()",
            ("--die", "2@9"),
        ),
        # In step, one message is left out.
        (
            "near[side], 0)\n                part.take(",
            "near[side], 0)\n                part.iterations == 7 or part.take(",
            (*DIRICHLET, "--synchronous", "--iterations", 20),
        ),
    ],
)
def test_what_is_spoilt_is_not_right(old: str, new: str, words: tuple[object, ...], tmp_path: Path):
    run = simulated(spoilt(tmp_path, "schwarz.py", old, new), *words, ranks=8, ft=True)
    assert run.out.endswith("right: False\n"), run
    assert run.status == 1


@pytest.mark.parametrize(("iterations", "transmission"), dealt([[1], [2], [5], [30]], ["robin", "dirichlet"]))
def test_in_step_the_error_is_the_forecast_one(transmission: str, iterations: int):
    for subdomains in (2, 3, 8) if CAMPAIGN else (2, 3):
        words = ("--transmission", transmission, "--subdomains", subdomains, "--iterations", iterations)
        run = schwarz("--synchronous", "--p", 2, *words)
        assert "synchronous error as predicted: True\n" in run.out
        assert run.out.endswith("right: True\n")


def test_lines_are_straight_or_have_no_slope():
    def found(program: Any) -> list[float]:
        falling = [0.1 * 0.9**step * (1 + step % 2) for step in range(80)]
        bent = [error * 1.01 ** (step * step / 80) for step, error in enumerate(falling)]
        return [program.straight(each) for each in (falling, bent, falling[:10], [])]

    slope, *others = within("schwarz", found)
    assert slope == pytest.approx(math.log(0.9))
    assert all(map(math.isnan, others))


@pytest.mark.parametrize(
    ("changed", "value"),
    [("after", -0.9), ("started", 2), ("first_error", 0.124), ("error", 0.09), ("error", math.nan)],
)
def test_each_thing_that_is_seen_may_be_wrong(changed: str, value: float):
    """Four subdomains after 40 iterations and a failure 20 iterations ago."""

    def verdicts(program: Any) -> list[bool]:
        sys.argv = ["schwarz.py", *map(str, DIRICHLET), "--iterations", "40"]
        good = program.Seen(0.02, 20, 0.05, 1, 40, 1, 2, -1, -1, -1)
        judge = program.Judge(program.parse_arguments(4))
        return [
            judge.judged(4, np.array([good, good, each, good]))[1] for each in (good, good._replace(**{changed: value}))
        ]

    assert within("schwarz", verdicts) == [True, False]


def test_optimal_conditions_end_when_everybody_has_heard_from_everybody_and_others_do_not():
    optimal, twice, dirichlet = (
        measured(schwarz(*words)) for words in ((), ("--p", 2), ("--transmission", "dirichlet", "--tolerance", 1e-6))
    )
    assert optimal[0] < 1e-13
    assert optimal[1] < 16
    assert optimal[2] < twice[2] < dirichlet[2]


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [1, 2, 3, *range(8, 14), 24])
def test_it_is_right_on_any_number_of_ranks(ranks: int):
    assert schwarz(ranks=ranks).out.endswith("right: True\n")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "failures",
    [
        [],
        ["rank=2@5ms"],
        ["rank=0@5ms", "rank=7 before its 30th Iprobe"],
        ["rank=3 before its 9th Bsend", "rank=4 before its 1st Spawn"],
        ["rank=3 before its 9th Bsend", "rank=8 before its 1st Split"],
        ["rank=3 before its 9th Bsend", "rank=8 before its 3rd Bsend"],
        ["rank=5 before its 1st Gather"],
    ],
)
def test_whoever_dies_it_converges_and_shards_make_no_difference(failures: list[str]):
    runs = [schwarz(fail=failures, set=ROOM, shards=shards) for shards in SHARDS]
    assert runs == runs[:1] * len(SHARDS)
    assert {f"injected: {failure}" for failure in failures} <= {*runs[0].causes}
    assert (runs[0].out.endswith("right: True\n"), runs[0].status) == (True, 0)


@pytest.mark.parametrize("timeout", ["3ms", "300ms"])
def test_however_late_a_failure_is_found_out_it_does_not_end_too_early(timeout: str):
    """All others have converged by then, with a hole, and what fills it comes to them one after the other."""
    run = schwarz(ranks=12, fail=["rank=1@14ms"], set={"mpi.detector.timeout": timeout})
    assert run.out.endswith("right: True\n")


def test_who_has_no_subdomain_is_replaced_too():
    run = schwarz("--subdomains", 4, fail=["rank=6@5ms", "rank=1@9ms"])
    assert run.out.endswith("right: True\n")
    assert {"injected: rank=6@5ms", "injected: rank=1@9ms"} <= {*run.causes}


def errors(counts: range, *words: object) -> tuple[list[int], list[float]]:
    """How many iterations the slowest rank has done, and the error then."""
    runs = [measured(schwarz(*DIRICHLET, *words, "--iterations", count, ranks=4)) for count in counts]
    return [run[1] for run in runs], [run[0] for run in runs]


def slope(counts: list[int], values: list[float]) -> float:
    return float(np.polyfit(counts, np.log(values), 1)[0])


def test_a_substitute_has_at_most_the_initial_error_and_then_the_slope_is_the_old_one():
    counts = range(120, 321, 40) if CAMPAIGN else range(120, 201, 40)
    without = errors(counts)
    after = errors(counts, "--die", "1@100")
    assert (
        "slopes before and after a failure equal to 0.05: True"
        in schwarz(*DIRICHLET, "--iterations", 200, "--die", "1@100", ranks=4).out
    )
    for _, falling in (without, after):
        assert all(late < early for early, late in itertools.pairwise(falling))
    assert slope(*after) / slope(*without) == pytest.approx(1, abs=0.05)
    (jump,) = errors(range(95, 96), "--die", "1@100")[1]
    assert errors(range(95, 96))[1][0] < jump <= 0.125


def test_others_iterate_as_fast_as_before_but_for_the_pause():
    """They lose the time in which the new process is started, and that of an iteration or two."""
    for count in (50, 100) if CAMPAIGN else (50,):
        words = ("--iterations", count, "--work", 0.01)
        without, after = (measured(schwarz(*words, *die)) for die in ((), ("--die", "2@20")))
        assert PAUSE_S[0] < after[3] - without[3] < PAUSE_S[1] + 2 * 0.015
        assert (after[1] - without[1]) in {-1, 0, 1}
        assert after[2] / after[1] == pytest.approx(1.5, abs=0.05)  # the fastest and the slowest


def test_to_start_all_afresh_takes_longer():
    """The subdomains far away have converged, and forget it."""
    afresh, substitute = (
        errors(range(200, 201), "--recovery", how, "--die", "1@100")[1] for how in ("restart", "substitute")
    )
    assert afresh > substitute


@pytest.mark.parametrize(
    "words", [("--subdomains", 9), ("--overlap", 9), ("--p", 0), ("--recovery", "none"), ("--die", "x"), ("--work", -1)]
)
def test_bad_input_is_refused(words: tuple[object, ...]):
    assert schwarz(*words).status == 2


def test_an_unfinished_run_has_at_most_the_initial_error():
    run = schwarz(*DIRICHLET, "--iterations", 1)
    assert run.out.endswith("right: True\n")
    assert 1e-2 < measured(run)[0] <= 0.125
