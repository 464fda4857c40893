"""Wang-Landau sampling in windows that repair themselves: its mathematics, and that failures change nothing."""

import io
import re
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from tests.apps.helpers import APPS, Run, simulated, spoilt, within
from tests.campaign import CAMPAIGN
from xsim_py import simulate

QUICK = ("--walkers", 4, "--rounds", 4, "--checks", 4, "--steps", 3, "--tolerance", 99, "--ln-f", 9)
COARSE = ("--walkers", 200, "--rounds", 40, "--steps", 40, "--checks", 8, "--tolerance", 0.3, "--ln-f", 1e-3)
ROOM = {"spawn.universe": 32}


def state(run: Run) -> tuple[str, str, int]:
    """The digest of what all windows have found, how it was judged in the last line, and the status."""
    found = re.search(r"^state (\w{8})\n(right: \w+)\n\Z", run.out, re.MULTILINE)
    return (*found.groups(), run.status) if found else (run.out, run.err, run.status)


# --------------------------------------------------------------------------------------------------------- mathematics


def test_the_numbers_of_states_are_those_of_all_65536_configurations():
    spins = np.array([*product((-1, 1), repeat=16)], np.int8).reshape(-1, 4, 4)
    energies = -(spins * np.roll(spins, 1, 1) + spins * np.roll(spins, 1, 2)).sum(axis=(1, 2), dtype=int)
    values, counts = np.unique(energies, return_counts=True)
    exact = within("ising", lambda app: app.exact(4))
    assert np.exp(exact) == pytest.approx(counts)
    assert counts.sum() == 65536
    levels = within("ising", lambda app: app.levels_of(4))
    assert [4 * level - 32 for level in levels] == values.tolist()


def test_the_energy_and_heat_capacity_at_the_critical_temperature_are_the_exact_ones():
    energy, capacity = within("ising", lambda app: app.at_temperature(app.exact(4), 4, app.CRITICAL))
    assert (energy, capacity) == pytest.approx((-1.565624, 0.783267), abs=1e-6)


def test_windows_overlap_by_three_quarters_and_cover_everything():
    for side, count in ((4, 4), (8, 8), (16, 64)):
        windows = within("ising", lambda app, side=side, count=count: app.windows_of(side, count))
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

    found, exact = within("ising", joined)
    assert found == pytest.approx(exact)


def test_kaufmans_solution_agrees_with_the_numbers_of_states():
    def both(app):
        found = [(app.exact_at(4, t), app.at_temperature(app.exact(4), 4, t)) for t in (1.5, app.CRITICAL, 3.0)]
        return found, app.exact_at(64, 2.0)[0]

    found, large = within("ising", both)
    for by_formula, by_states in found:
        assert by_formula == pytest.approx(by_states, abs=1e-6)
    assert large == pytest.approx(-1.745564, abs=1e-4)  # Onsager's of the infinite lattice


def test_what_comes_of_the_check_is_the_sum_over_all_pairs_of_levels():
    def both(app):
        bounds, whole = app.windows_of(4, 4), np.full(17, -np.inf)
        whole[app.levels_of(4)] = app.exact(4)
        return app.in_the_check(app.exact(4), 4, bounds), bounds, whole, [app.tilt(4, each) for each in bounds]

    (visits, shares), bounds, whole, weights = within("ising", both)
    assert visits.sum(axis=1) == pytest.approx(np.ones(4))
    for window, share in enumerate(shares):
        expected = 0.0
        for lower, upper in product(range(17), repeat=2):
            both_in_both = all(
                low <= each <= high for each in (lower, upper) for low, high in bounds[window : window + 2]
            )
            moved = (
                weights[window][lower]
                - weights[window][upper]
                + weights[window + 1][upper]
                - weights[window + 1][lower]
            )
            chance = visits[window][lower] * visits[window + 1][upper]
            expected += both_in_both and chance * min(1.0, np.exp(moved))
        assert share == pytest.approx(expected)
    assert shares == pytest.approx([0.547798, 0.663522, 0.547798], abs=1e-6)
    low, high = bounds[1]
    boltzmann = np.exp((whole - weights[1])[low : high + 1])
    assert visits[1][low : high + 1] == pytest.approx(boltzmann / boltzmann.sum())


SMALLER = ("--walkers", 1000, "--rounds", 40, "--steps", 40, "--ln-f", 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "words", "ln_f", "most"),
    [(8, (), 1e-6, 0.02), (12, (), 1e-6, 0.02)] if CAMPAIGN else [(8, SMALLER, 1e-5, 0.03)],
)
def test_the_density_of_states_is_found(ranks: int, words: tuple[object, ...], ln_f: float, most: float):
    """Well within the default tolerance, 0.05; in a campaign with the default arguments."""
    run = simulated("wang_landau.py", *words, ranks=ranks)
    assert state(run)[1:] == ("right: True", 0)
    assert float(re.search(r"ln f (\S+)", run.out)[1]) < ln_f
    assert float(re.search(r"ln g is off by at most ([\d.]+)", run.out)[1]) < most


def test_a_larger_lattice_is_judged_by_kaufmans_solution():
    words = ("--side", 6, "--walkers", 300, "--rounds", 60, "--steps", 60, "--tolerance", 0.6)
    assert state(simulated("wang_landau.py", *COARSE, *words, ranks=4))[1:] == ("right: True", 0)


def test_no_message_is_left():
    words = [*map(str, QUICK)]
    result = simulate(APPS / "wang_landau.py", ranks=13, args=words, stdout=io.StringIO())
    assert result.warnings == []


def test_the_coarse_arguments_of_the_spoilt_runs_are_enough():
    assert state(simulated("wang_landau.py", *COARSE, ranks=4))[1:] == ("right: True", 0)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.minimum(ratio, 0)", "np.minimum(-ratio, 0)"),
        ("both & (chance < np.exp(np.minimum(ratio, 0)))", "both"),
        ("both & (chance < np.exp(np.minimum(ratio, 0)))", "both & False"),
        ("theirs[there] - theirs[here]", "0"),
        ("both & (chance", "(chance"),
        ("np.where(accepted, offered.spins, self.spins)", "self.spins"),
    ],
    ids=["reversed", "always", "never", "by one window alone", "out of the window", "without the spins"],
)
def test_wrong_exchanges_are_judged_wrong(tmp_path: Path, old: str, new: str):
    run = simulated(spoilt(tmp_path, "wang_landau.py", old, new, within="ising.py"), *COARSE, ranks=4)
    assert state(run)[1:] == ("right: False", 1)


def test_walkers_that_decide_each_for_itself_are_judged_wrong(tmp_path: Path):
    path = spoilt(tmp_path, "wang_landau.py", "mine if side == UP else offered", "mine")
    (tmp_path / "ising.py").write_text((APPS / "ising.py").read_text())
    assert state(simulated(path, *COARSE, ranks=4))[1:] == ("right: False", 1)


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [1, 2, 3, 9, 10, 11, 12, 13])
def test_any_number_of_ranks_will_do(ranks: int):
    assert state(simulated("wang_landau.py", *QUICK, ranks=ranks))[1:] == ("right: True", 0)


def test_what_is_off_is_judged_so():
    for word, value in (("--tolerance", 0.05), ("--ln-f", 1e-6)):
        assert state(simulated("wang_landau.py", *QUICK, word, value, ranks=8))[1:] == ("right: False", 1)


# ------------------------------------------------------------------------------------------------------------ failures


@pytest.fixture(scope="module")
def undisturbed() -> tuple[str, str, int]:
    return state(simulated("wang_landau.py", *QUICK, ranks=8))


@pytest.mark.sampled
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
    assert [made[rank] for rank in range(6)] == [4] * 6
    assert made[6] > 4


@pytest.mark.parametrize("window", [0, 2])
def test_a_window_of_new_processes_alone_is_connected_anew(undisturbed: tuple[str, str, int], window: int):
    first = 2 * window
    failures = [f"rank={first} before its 2nd Allgather", f"rank={first + 1} before its 4th Allgather"]
    run = simulated("wang_landau.py", *QUICK, ranks=8, fail=failures, ft=True, set=ROOM)
    assert state(run) == undisturbed
    assert run.out.count("replaced") == 2


def test_neighbours_of_new_processes_alone_find_each_other(undisturbed: tuple[str, str, int]):
    failures = [f"rank={rank}@{time}s" for rank, time in ((2, 0.001), (4, 0.001), (3, 0.6), (5, 0.6))]
    run = simulated("wang_landau.py", *QUICK, "--work", 0.1, ranks=8, fail=failures, ft=True, set=ROOM)
    assert state(run) == undisturbed


@pytest.mark.parametrize("window", [0, 2])
def test_a_window_of_which_all_have_died_is_said_once_to_be_lost(window: int):
    fail = [f"rank={2 * window}@1ms", f"rank={2 * window + 1}@1ms"]
    run = simulated("wang_landau.py", *QUICK, "--patience", 1, ranks=8, fail=fail, ft=True)
    assert (run.out, run.err, run.status) == (f"lost: window {window}, none of whose processes answers\n", "", 1)


SHORT = ("--walkers", 2, "--rounds", 1, "--checks", 4, "--steps", 2, "--tolerance", 99, "--ln-f", 9)


@pytest.mark.parametrize(("window", "call"), [(0, "7th"), (1, "8th")])
def test_new_processes_without_a_checkpoint_do_not_wait_for_what_is_long_over(window: int, call: str):
    """A process dies near the end, and the other one before it has given the data back."""
    first = 2 * window
    fail = [f"rank={first + 1} before its {call} sendrecv", f"rank={first} before its 4th bcast"]
    run = simulated("wang_landau.py", *SHORT, ranks=4, fail=fail, ft=True, set=ROOM)
    assert run.out.splitlines()[2:] == [f"lost: window {window}, of which no checkpoint is left"]
    assert (run.err, run.status) == ("", 1)


def test_new_processes_without_a_checkpoint_begin_anew_if_neighbours_have_not_gone_far():
    fail = [f"rank={rank} before its {call}" for rank, call in ((0, "2nd bcast"), (1, "4th sendrecv"))]
    runs = [simulated("wang_landau.py", *SHORT, ranks=4, fail=each, ft=True, set=ROOM) for each in ((), fail)]
    assert state(runs[0]) == state(runs[1])
    assert runs[1].out.count("replaced") == 2


def test_a_checkpoint_that_is_lost_is_said_once_and_last():
    fail = ["rank=4 before its 3rd Allgather", "rank=5 before its 3rd Allgather"]
    run = simulated("wang_landau.py", *QUICK, ranks=12, fail=fail, ft=True, set=ROOM)
    assert [line for line in run.out.splitlines() if not line.startswith("#")] == [
        "lost: window 1: the data of ranks [1], with all copies"
    ]
    assert (run.out.splitlines()[-1][:4], run.status) == ("lost", 1)


@pytest.mark.parametrize(
    "words",
    [
        *("--side 5", "--windows 5", "--side 6 --windows 9", "--die 3"),
    ],
)
def test_bad_input_is_refused(words: str):
    run = simulated("wang_landau.py", *words.split(), ranks=8)
    assert run.status == 2
    assert run.err.count("wang_landau: error: ") == 1


@pytest.mark.parametrize(
    ("wrong", "verdict"), [("", "True"), ("; self.walkers.ln_g = self.walkers.ln_g + 1e-12", "False")]
)
def test_a_roll_back_to_other_bits_is_judged_wrong(tmp_path: Path, wrong: str, verdict: str):
    old = "self.walkers.become(state)"
    app = spoilt(tmp_path, "wang_landau.py", old, f"{old}{wrong}")
    told = ("--walkers", 4, "--rounds", 4, "--checks", 4, "--steps", 3, "--tolerance", 99, "--ln-f", 9)
    run = simulated(app, *told, ranks=8, fail="rank=3 before its 4th Allgather")
    assert run.out.splitlines()[-1] == f"right: {verdict}"
