"""Wang-Landau sampling in windows that repair themselves: its mathematics, and that failures change nothing."""

import re
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest

from tests.apps.helpers import APPS, Run, simulated, within
from xsim_py import simulate

QUICK = ("--rounds", 6, "--sweeps", 5, "--tolerance", 99)
ROOM = {"spawn.universe": 32}


def state(run: Run) -> tuple[str, str, int]:
    """The digest of ln g of all windows, how it was judged, and the status."""
    found = re.search(r"^state (\w{8})\n(right: \w+)$", run.out, re.MULTILINE)
    return (*found.groups(), run.status) if found else (run.out, run.err, run.status)


# --------------------------------------------------------------------------------------------------------- mathematics


def test_the_numbers_of_states_are_those_of_all_65536_configurations():
    spins = np.array([*product((-1, 1), repeat=16)], np.int8).reshape(-1, 4, 4)
    energies = -(spins * np.roll(spins, 1, 1) + spins * np.roll(spins, 1, 2)).sum(axis=(1, 2), dtype=int)
    values, counts = np.unique(energies, return_counts=True)
    exact = within("wang_landau", lambda app: app.exact(4))
    assert np.exp(exact) == pytest.approx(counts)
    assert counts.sum() == 65536
    levels = within("wang_landau", lambda app: app.levels_of(4))
    assert [4 * level - 32 for level in levels] == values.tolist()


def test_the_energy_and_heat_capacity_at_the_critical_temperature_are_the_exact_ones():
    energy, capacity = within("wang_landau", lambda app: app.at_temperature(app.exact(4), 4, app.CRITICAL))
    assert (energy, capacity) == pytest.approx((-1.565624, 0.783267), abs=1e-6)


def test_windows_overlap_by_three_quarters_and_cover_everything():
    for side, count in ((4, 4), (8, 8), (16, 64)):
        windows = within("wang_landau", lambda app, side=side, count=count: app.windows_of(side, count))
        assert (windows[0][0], windows[-1][1]) == (0, side * side)
        width = windows[0][1] - windows[0][0]
        for (low, high), (next_low, _) in pairwise(windows):
            assert next_low > low
            assert high - next_low >= 0.75 * width - 3


def test_exact_estimates_in_windows_are_joined_to_the_whole():
    def joined(app):
        levels, bounds = app.levels_of(4), app.windows_of(4, 4)
        whole = np.zeros(17)
        whole[levels] = app.exact(4)
        estimates = []
        for window, (low, high) in enumerate(bounds):
            part = np.zeros(17)
            part[low : high + 1] = whole[low : high + 1] + 10 * window
            estimates.append(part)
        return app.joined(estimates, bounds, 4), app.exact(4)

    found, exact = within("wang_landau", joined)
    assert found == pytest.approx(exact)


def test_the_density_of_states_is_found():
    run = simulated("wang_landau.py", ranks=8)
    assert state(run)[1:] == ("right: True", 0)
    assert float(re.search(r"off by at most ([\d.]+)", run.out)[1]) < 0.1


@pytest.mark.parametrize("ranks", [1, 2, 3, 9, 10, 11, 12, 13])
def test_any_number_of_ranks_will_do(ranks: int):
    assert state(simulated("wang_landau.py", *QUICK, ranks=ranks))[1:] == ("right: True", 0)


def test_what_is_off_is_judged_so():
    assert state(simulated("wang_landau.py", *QUICK[:4], "--tolerance", 0.05, ranks=8))[1:] == ("right: False", 1)


# ------------------------------------------------------------------------------------------------------------ failures


@pytest.fixture(scope="module")
def undisturbed() -> tuple[str, str, int]:
    return state(simulated("wang_landau.py", *QUICK, ranks=8))


@pytest.mark.parametrize(
    "failures",
    [
        ["rank=3 before its 3rd Allgather"],
        ["rank=0 before its 2nd isend"],
        ["rank=2 before its 3rd recv"],
        ["rank=2 before its 4th gather", "rank=7 before its 5th bcast"],
        ["rank=5 before its 3rd Allgather", "rank=8 before its 2nd Allgather"],
        ["rank=1 before its 1st Split", "rank=6@300us"],
    ],
)
def test_who_dies_is_replaced_and_no_bit_is_another(undisturbed: tuple[str, str, int], failures: list[str]):
    runs = [simulated("wang_landau.py", *QUICK, ranks=8, fail=failures, ft=True, set=ROOM, shards=n) for n in (1, 3)]
    assert runs[0] == runs[1]
    assert state(runs[0]) == undisturbed


def test_only_the_window_of_the_dead_is_repaired():
    """Each process of another one makes every round once, and so as many Allgathers as there are rounds."""
    words = [*map(str, QUICK)]
    fail = ["rank=7 before its 4th Allgather"]
    result = simulate(APPS / "wang_landau.py", ranks=8, args=words, fail=fail, ft=True, trace=True)
    made = Counter(span.rank for span in result.trace.spans if span.name == "Allgather")
    assert [made[rank] for rank in range(6)] == [6] * 6
    assert made[6] > 6


def test_a_window_of_which_all_have_died_is_said_to_be_lost():
    run = simulated("wang_landau.py", *QUICK, ranks=8, fail=["rank=2@1ms", "rank=3@1ms"], ft=True)
    assert {*run.out.splitlines()} == {"lost: all doors of a window: ranks [2, 3]"}
    assert (run.err, run.status) == ("", 1)


@pytest.mark.parametrize("words", ["--side 5", "--side 2", "--rounds 0", "--windows 0", "--work -1", "--die 3"])
def test_bad_input_is_refused(words: str):
    assert simulated("wang_landau.py", *words.split(), ranks=2).status == 2
