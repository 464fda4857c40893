"""Multilevel Monte Carlo that goes on with the samples of who is left: its mathematics, and what failures take."""

import math
from collections.abc import Callable
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.apps.helpers import Run, simulated, spoilt, within
from tests.campaign import SHARDS, dealt

SAMPLES = (4096, 512, 256, 128, 64, 32)
MEANS = (1.05, 1.050625, 1.0509453, 1.0511075, 1.0511891, 1.0512301)
VARIANCES = (4.0e-2, 4.25e-4, 2.212824e-4, 1.128404e-4, 5.696810e-5, 2.862062e-5)
SMALL = ("--samples", "16,8,4", "--units", 2)


def within_the_app(function: Callable[[Any], Any]) -> Any:
    """Call `function` with ft_mlmc.py as a module."""
    return within("ft_mlmc", function)


def counts(run: Run) -> list[int]:
    """How many samples of each level there are, from level 0 on."""
    lines = [line.split() for line in run.out.splitlines() if line.startswith("level ")]
    return [0 if words[2] == "no" else int(words[2]) for words in lines]


def right(run: Run) -> bool:
    return (run.out.splitlines()[-1], run.err, run.status) == ("right: True", "", 0)


# --------------------------------------------------------------------------------------------------------- mathematics


def test_means_and_variances_have_their_closed_forms():
    means, variances = within_the_app(
        lambda app: ([app.mean_after(n, 2**n) for n in range(6)], [app.variance_of(n) for n in range(6)])
    )
    assert means == pytest.approx(MEANS, abs=5e-8)
    assert variances == pytest.approx(VARIANCES, rel=1e-6)
    assert means[2] - means[1] == pytest.approx(0.00032034, abs=5e-9)


def test_samples_have_these_means_and_variances_whoever_makes_them():
    """Of 100,000 samples of each level, the means are within five standard errors and the variances within 3 %."""

    def moments(app: Any) -> list[tuple[float, float]]:
        found = []
        for level in range(6):
            ends = np.concatenate([each[:, -1] for each in app.chunks(1, level, [range(100_000)])])
            found.append((ends.mean(), ends.var()))
        return found

    found = within_the_app(moments)
    for level, (mean, variance) in enumerate(found):
        exact = MEANS[level] - (MEANS[level - 1] if level else 0)
        assert mean == pytest.approx(exact, abs=5 * math.sqrt(VARIANCES[level] / 1e5) + 1e-7)
        assert variance == pytest.approx(VARIANCES[level], rel=0.03)

    def parts(app: Any) -> tuple[np.ndarray, np.ndarray]:
        whole = app.walks(3, 4, range(100), range(16))
        halves = [app.walks(3, 4, range(60, 100), part) for part in (range(5), range(5, 16))]
        return whole[60:], np.concatenate(halves, axis=1)

    assert np.array_equal(*within_the_app(parts))


def inverse_of_survivors(samples: int, lost: float) -> float:
    """E[1/n], where n of so many samples are left, and that is not 0."""
    chances = (comb(samples, n) * (1 - lost) ** n * lost ** (samples - n) / n for n in range(1, samples + 1))
    if samples > 500:  # too many for these products; n is normal, nearly
        left = samples * (1 - lost)
        return (1 + lost / left) / left
    return math.fsum(chances) / (1 - lost**samples)


RMS = {0: 0.0037585, 0.1: 0.0039627, 0.3: 0.0044962, 0.6: 0.0059621}


@pytest.mark.parametrize("lost", RMS)
def test_the_error_that_is_expected_grows_as_samples_are_lost(lost: float):
    pairs = zip(VARIANCES, SAMPLES, strict=True)
    rms = math.sqrt(sum(variance * inverse_of_survivors(count, lost) for variance, count in pairs))
    assert rms == pytest.approx(RMS[lost], abs=2e-7)


def test_the_error_is_the_one_that_is_expected():
    """Of 60 estimates each, from samples of which each is lost with some probability."""

    def errors(app: Any) -> dict[float, list[float]]:
        rng = np.random.default_rng(7)
        found = {lost: [-MEANS[-1]] * 60 for lost in RMS}
        for seed in range(60):
            for level, count in enumerate(SAMPLES):
                ends = np.concatenate([each[:, -1] for each in app.chunks(seed, level, [range(count)])])
                for lost, each in found.items():
                    each[seed] += ends[rng.random(count) >= lost].mean()
        return found

    for lost, found in within_the_app(errors).items():
        assert math.sqrt(np.mean(np.square(found))) == pytest.approx(RMS[lost], rel=3 / math.sqrt(2 * 60))


# -------------------------------------------------------------------------------------------------------------- layout


def laid_out(ranks: int, **options: Any) -> Any:
    arguments = SimpleNamespace(**{"samples": SAMPLES, "units": 16, "teams": None, **options})
    return within_the_app(lambda app: app.Layout(ranks, arguments))


@pytest.mark.parametrize(("ranks", "teams"), [(46, 2), (46_000, 2000)])
def test_46_processes_are_placed_as_those_of_the_paper(ranks: int, teams: int):
    layout = laid_out(ranks)
    assert (layout.teams, layout.sizes, layout.levels) == (teams, [16, 4, 1, 1, 1], [[5], [4], [3], [2], [1, 0]])
    assert layout.first[-1] == ranks


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 9, 12, 13, 46, 100, 257])
def test_every_sample_is_made_once_and_its_keeper_is_of_another_team(ranks: int):
    layout = laid_out(ranks)
    for level, count in enumerate(SAMPLES):
        station = next(number for number, levels in enumerate(layout.levels) if level in levels)
        jobs = [job for team in range(layout.teams) for job in layout.jobs(station, team) if job.level == level]
        assert sorted(sample for job in jobs for sample in job.samples) == [*range(count)]
    places = [layout.place(rank) for rank in range(ranks)]
    for rank, place in enumerate(places):
        if place and layout.keeper(rank):
            kept_by = places[layout.keeper(rank)]
            assert rank == layout.keeper(layout.keeper(rank), -1)
            assert kept_by[:2] != place[:2] or layout.first[-1] == layout.sizes[0]


@pytest.mark.parametrize(("killed", "chance"), [(3, 0.0029), (9, 0.0348)])
def test_both_of_level_2_are_among_the_dead_with_this_chance(killed: int, chance: float):
    assert comb(44, killed - 2) / comb(46, killed) == pytest.approx(chance, abs=5e-5)


# ------------------------------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize(("ranks", "save"), dealt([[ranks] for ranks in range(8, 14)], ["late", "intermediate"]))
def test_without_failures_nothing_is_missing_on_any_number_of_ranks(ranks: int, save: str):
    run = simulated("ft_mlmc.py", "--save", save, ranks=ranks)
    assert right(run)
    assert counts(run) == [*SAMPLES]
    assert "mean 1.0499137, exact 1.0512301, error 0.0013164, expected 0.0037585\n" in run.out


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("save", "failures", "left"),
    [
        ("late", ["rank=1@38.5s"], [4096, 512, 256, 128, 64, 16]),
        ("late", ["rank=10@60s"], [2048, 256, 256, 128, 64, 32]),
        ("late", ["rank=8@1s", "rank=9@1s"], [4096, 512, 0, 128, 64, 32]),
        ("intermediate", ["rank=1@38.5s"], [4096, 512, 256, 128, 64, 16 + 9]),
        ("intermediate", ["rank=10@60s"], [*SAMPLES]),
        ("intermediate", ["rank=8@1.03s", "rank=9@1.03s"], [4096, 512, 2 * 64, 128, 64, 32]),
        ("intermediate", ["rank=1@38.5s", "rank=3@38.5s"], [4096, 512, 256, 128, 64, 9]),
    ],
)
def test_a_failure_takes_along_what_has_not_been_saved(save: str, failures: list[str], left: list[int]):
    """A finest sample takes two processes four seconds, and eight of level 2 take one an eighth of a second."""
    words = ("--work", 8, "--save", save)
    shards = SHARDS if len(failures) == 2 and save == "intermediate" else (1,)
    runs = [simulated("ft_mlmc.py", *words, ranks=12, fail=failures, ft=True, shards=n) for n in shards]
    assert [right(run) for run in runs] == [True] * len(shards)
    assert all(run == runs[0] for run in runs)
    assert counts(runs[0]) == left


def test_a_level_that_is_lost_is_what_the_mean_lacks():
    run = simulated("ft_mlmc.py", ranks=12, fail=["rank=8@0", "rank=9@0"], ft=True)
    assert "level 2: no samples, missing from the mean: 0.00032034\n" in run.out
    assert right(run)


def test_where_all_samples_are_lost_it_says_so():
    """On nine ranks the last one has none of its own."""
    run = simulated("ft_mlmc.py", *SMALL, ranks=9, fail=[f"rank={rank}@0" for rank in range(8)], ft=True)
    assert (run.out, run.err, run.status) == ("lost: all samples of all levels\n", "", 1)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("math.sqrt(0.5**level) / 8)\n    fine", "math.sqrt(0.5**level) / 8.001)\n    fine"),
        ("+= in_units(mine).ravel()", "+= in_units(mine).ravel() + 1"),
        ("job in list(layout.jobs(station, team))[:count]", "job in list(layout.jobs(station, team))[:-1]"),
        ("1 + MU / steps", "1 + 1.001 * MU / steps"),
        ("steps.start + 1, steps.stop + 1", "steps.start + 2, steps.stop + 2"),
        ("2 * ones.astype(np.int16) - 64", "2 * ones.astype(np.int16) - 63"),
        ("path += np.concatenate(([level == 0], mean))", "path += np.concatenate(([level == 0], mean + 0.05))"),
    ],
)
def test_what_is_wrong_is_judged_so(tmp_path: Path, old: str, new: str):
    run = simulated(spoilt(tmp_path, "ft_mlmc.py", old, new), ranks=8)
    assert (run.out.splitlines()[-1], run.status) == ("right: False", 1)


def test_samples_that_nobody_has_made_are_judged_by_their_moments():
    """A variance that is a third too large, and the mean, on each level; without an error nothing is wrong."""

    def verdicts(app: Any) -> list[bool]:
        found = []
        for level in range(6):
            mean, variance = app.mean_of(level), app.variance_of(level)
            for off, factor in ((0, 1), (0, 4 / 3), (0, 2 / 3), (0.5, 1), (-0.5, 1)):
                shifted = mean + off * math.sqrt(variance)
                square = factor * variance + mean**2 + 2 * mean * (shifted - mean)
                found.append(app.moments_are_right(level, 8192, shifted, square))
        return found

    assert within_the_app(verdicts) == [True, False, False, False, False] * 6


def test_fourth_moments_have_their_closed_forms():
    """Of 100,000 samples of each level."""

    def kurtoses(app: Any) -> list[tuple[float, float]]:
        found = []
        for level in range(6):
            ends = np.concatenate([each[:, -1] for each in app.chunks(5, level, [range(100_000)])]) - app.mean_of(level)
            found.append((app.kurtosis_of(level), (ends**4).mean() / app.variance_of(level) ** 2))
        return found

    for exact, measured in within_the_app(kurtoses):
        assert measured == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("words", ["--samples 0", "--samples a", "--units 0", "--at 2", "--die 3", "--teams 0"])
def test_bad_input_is_refused(words: str):
    assert simulated("ft_mlmc.py", *words.split(), ranks=2).status == 2
