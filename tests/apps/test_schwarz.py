"""Schwarz methods that go on whoever dies: their rates in closed form, and what a substitute costs."""

import itertools
import re

import numpy as np
import pytest

from tests.apps.helpers import APPS, Run, simulated

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


def test_a_wrong_solution_is_not_right(tmp_path):
    for name in ("schwarz", "recovery"):
        text = (APPS / f"{name}.py").read_text(encoding="utf-8")
        (tmp_path / f"{name}.py").write_text(text.replace("[h * h] * size", "[h * h * 1.001] * size"), encoding="utf-8")
    for words in ((), ("--subdomains", 2, "--synchronous")):
        run = simulated(str(tmp_path / "schwarz.py"), *words, ranks=8)
        assert run.out.endswith("right: False\n")
        assert run.status == 1


def test_optimal_conditions_end_when_everybody_has_heard_from_everybody_and_others_do_not():
    optimal, twice, dirichlet = (
        measured(schwarz(*words)) for words in ((), ("--p", 2), ("--transmission", "dirichlet", "--tolerance", 1e-6))
    )
    assert optimal[0] < 1e-13
    assert optimal[1] < 16
    assert optimal[2] < twice[2] < dirichlet[2]


@pytest.mark.parametrize("ranks", [1, 2, 3, *range(8, 14), 24])
def test_it_is_right_on_any_number_of_ranks(ranks: int):
    assert schwarz(ranks=ranks).out.endswith("right: True\n")


@pytest.mark.parametrize(
    "failures",
    [
        [],
        ["rank=2@5ms"],
        ["rank=0@5ms", "rank=7 before its 30th Iprobe"],
        ["rank=3 before its 9th Isend", "rank=4 before its 1st Spawn"],
        ["rank=3 before its 9th Isend", "rank=8 before its 1st Split"],
        ["rank=3 before its 9th Isend", "rank=8 before its 3rd Isend"],
        ["rank=5 before its 2nd Allreduce"],
    ],
)
def test_whoever_dies_it_converges_and_shards_make_no_difference(failures: list[str]):
    runs = [schwarz(fail=failures, set=ROOM, shards=shards) for shards in (1, 2, 3, 7)]
    assert runs == runs[:1] * 4
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
    without = errors(range(120, 321, 40))
    after = errors(range(120, 321, 40), "--die", "1@100")
    for _, falling in (without, after):
        assert all(late < early for early, late in itertools.pairwise(falling))
    assert slope(*after) / slope(*without) == pytest.approx(1, abs=0.05)
    (jump,) = errors(range(95, 96), "--die", "1@100")[1]
    assert errors(range(95, 96))[1][0] < jump <= 0.125


def test_others_iterate_as_fast_as_before_but_for_the_pause():
    """They lose the time in which the new process is started, and that of an iteration or two."""
    for count in (50, 100):
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


def test_the_bound_of_an_unfinished_run_is_that_of_the_initial_solution():
    run = schwarz(*DIRICHLET, "--iterations", 1)
    assert run.out.endswith("right: True\n")
    assert 1e-2 < measured(run)[0] <= 0.125
