"""Servers that hold the state, clients that solve samples, and samples that are done without."""

import argparse
import importlib
import math
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tests.apps.helpers import APPS, simulated, spoilt
from tests.campaign import dealt

APP = "resilient_pde.py"
END = "resilient_pde: 8 subdomains of 2 servers, largest value 0.182898\nright: True\n"
DEATH = "rank=3 before its 2nd Send"
SIZES = {"cells": 16, "overlap": 2, "total": 5, "samples": 8}
WITHOUT_MPI = {"Group": object, "Exception": RuntimeError, "Intracomm": object, "__getattr__": lambda self, name: 0}


@pytest.fixture(name="pde", scope="module")
def import_it() -> ModuleType:
    """Import the program for its mathematics, without an MPI."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(APPS))
        mpi = type("NoMPI", (), WITHOUT_MPI)()
        patch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=mpi))
        patch.delitem(sys.modules, "recovery", raising=False)
        module = importlib.import_module("resilient_pde")
    sys.modules.pop("recovery", None)
    return sys.modules.pop("resilient_pde", module)


def told(**sizes: int) -> argparse.Namespace:
    return argparse.Namespace(**(SIZES | sizes))


def missing(out: str) -> int:
    return int(re.findall(r"^# (\d+) of \d+ samples are missing", out, re.MULTILINE)[0])


@pytest.mark.parametrize("number", range(5))
def test_a_subdomain_is_solved_without_an_error_at_the_nodes(pde: ModuleType, number: int):
    part = pde.subdomain(number, told())
    assert len(part.nodes) == 16 + (2 if number in {0, 4} else 4) + 1
    right = pde.exact(part.nodes)
    assert np.abs(part.solve(right[0], right[-1]) - right).max() < 1e-14


def test_the_polynomial_solves_the_equation(pde: ModuleType):
    x, h = np.linspace(0.1, 0.9, 9), 1e-3
    flux = [(pde.exact(at + h / 2) - pde.exact(at - h / 2)) / h / (1 + at) for at in (x - h / 2, x + h / 2)]
    assert -(flux[1] - flux[0]) / h == pytest.approx(1, abs=1e-6)
    assert pde.exact(np.array([0.0, 1.0])) == pytest.approx([0, 0], abs=1e-15)


@pytest.mark.parametrize("kept", [(0, 1, 2), (5, 6, 7), (0, 3, 4), (1, 2, 5, 7), tuple(range(8))])
def test_any_three_samples_give_the_whole_function(pde: ModuleType, kept: tuple[int, ...]):
    part = pde.subdomain(2, told())
    points = np.array([pde.ends(sample, 8) for sample in kept])
    function = pde.regression(points, np.array([part.solve(*point) for point in points]))
    assert pde.at(function, 0.25, -3.0) == pytest.approx(part.solve(0.25, -3.0), abs=1e-13)
    assert function[[0, -1]] == pytest.approx(np.array([[0, 1, 0], [0, 0, 1]]), abs=1e-14)


def test_two_samples_do_not(pde: ModuleType):
    part = pde.subdomain(2, told())
    points = np.array([pde.ends(sample, 8) for sample in (0, 3)])
    function = pde.regression(points, np.array([part.solve(*point) for point in points]))
    assert np.abs(pde.at(function, 0.25, -3.0) - part.solve(0.25, -3.0)).max() > 0.1


def test_pieces_of_pieces_are_pieces(pde: ModuleType):
    """The ends that one system for all pieces gives are those of two groups, put together."""
    rng = np.random.default_rng(1)
    seen = rng.uniform(0, 0.5, (6, 2, 3))
    together = pde.chained(seen)
    groups = [pde.chained(seen[:2]), pde.chained(seen[2:])]
    whole = [
        [seen[first, 0] @ np.vstack([[1, 0, 0], group[0]]), seen[last, 1] @ np.vstack([[1, 0, 0], group[-1]])]
        for first, last, group in ((0, 1, groups[0]), (2, 5, groups[1]))
    ]
    outermost = pde.at(pde.chained(np.array(whole)), 0.3, 0.7)
    found = [pde.at(group, *ends) for group, ends in zip(groups, outermost, strict=True)]
    assert np.concatenate(found) == pytest.approx(pde.at(together, 0.3, 0.7), abs=1e-13)


@pytest.mark.parametrize(
    ("failures", "scheme", "gone", "shards"),
    dealt(
        [
            ([], "ignore", 0),
            ([DEATH], "ignore", 1),
            ([DEATH], "again", 0),
            (["rank=1 before its 1st Recv", "rank=2 before its 3rd Send", "rank=7 before its 2nd Send"], "ignore", 3),
            (["rank=1@0", "rank=2@0", "rank=5@150us"], "again", 0),
        ],
        [1, 2, 3, 7],
    ),
)
def test_clients_die_freely(failures: list[str], scheme: str, gone: int, shards: int):
    run = simulated(APP, "--recovery", scheme, ranks=8, fail=failures, ft=True, shards=shards)
    assert (missing(run.out), run.status) == (gone, 0)
    assert run.out.endswith(END)


@pytest.mark.parametrize("ranks", [2, 3, *range(8, 14)])
def test_it_is_right_on_any_number_of_ranks(ranks: int):
    assert simulated(APP, ranks=ranks).out.endswith("\nright: True\n")


@pytest.mark.parametrize(
    ("at", "rank"),
    dealt([["@0"], ["@200us"], [" before its 1st Gather"], [" before its 1st Scatter"], ["@600us"]], [0, 4]),
)
def test_the_death_of_a_server_is_told(rank: int, at: str):
    run = simulated(APP, ranks=8, fail=f"rank={rank}{at}")
    assert (run.out, run.status) == (f"lost: the data of the servers on ranks [{rank}]\n", 1)


@pytest.mark.parametrize("scheme", ["ignore", "again"])
def test_too_few_samples_are_told(scheme: str):
    deaths = [word for rank in (1, 2, 3) for word in ("--die", f"{rank}@2")]
    run = simulated(APP, *deaths, "--recovery", scheme, ranks=8, ft=True)
    assert (run.out, run.status) == ("lost: 4 of 8 subdomains, with fewer than 3 of 8 samples\n", 1)


def chance_to_keep_three(samples: int, dying: float) -> float:
    return sum(math.comb(samples, m) * (1 - dying) ** m * dying ** (samples - m) for m in range(3, samples + 1))


@pytest.mark.parametrize(("samples", "dying"), [(5, 0.4), (6, 0.5)])
def test_as_many_subdomains_keep_three_samples_as_the_formula_says(samples: int, dying: float):
    """Each client has one sample, and dies in it with this chance: within 3 sigma of the formula."""
    count, chance = 30, chance_to_keep_three(samples, dying)
    words = ["--clients", count * samples, "--subdomains", count, "--samples", samples, "--dying", dying]
    run = simulated(APP, *words, "--cells", 5, ranks=count * samples + 1, ft=True)
    poor = re.fullmatch(rf"lost: (\d+) of {count} subdomains, with fewer than 3 of {samples} samples\n", run.out)
    assert poor
    assert abs(int(poor[1]) - count * (1 - chance)) < 3 * math.sqrt(count * chance * (1 - chance))


def test_the_time_is_that_of_the_rounds_and_clients_are_busy():
    """63 clients solve 252 samples in 4 rounds; what servers do between them takes less than 1 % of 10 ms."""
    words = ["--clients", 63, "--subdomains", 21, "--samples", 12, "--work", 0.01]
    run = simulated(APP, *words, ranks=128, machine="torus3d")
    (found,) = re.findall(r"^# time: solved after ([\d.]+) us, ([\d.]+) % of it work$", run.out, re.MULTILINE)
    took, busy = map(float, found)
    assert 40_000 < took < 40_400
    assert busy == pytest.approx(100 * 40_000 / took, abs=0.01)


def test_again_costs_a_round_more_than_to_do_without():
    """Two of three clients are left after the second round, and 6 or 7 of 12 samples: 3 or 4 rounds of 1.04 ms."""
    took = {}
    for scheme in ("ignore", "again"):
        words = ["--work", 1e-3, "--subdomains", 2, "--samples", 6, "--recovery", scheme]
        run = simulated(APP, *words, ranks=8, ft=True, fail=DEATH, set={"network.bandwidth": "unlimited"})
        took[scheme] = float(re.findall(r"^# time: solved after ([\d.]+) us", run.out, re.MULTILINE)[0])
    assert took == {"ignore": 5440, "again": 6480}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bound = middle + h * h / 12 / (1 + middle)", "bound = middle"),
        ("matrix[row, column] -= slope", "matrix[row, column] -= slope * 1.001"),
        ("values, rcond=None)[0].T", "values, rcond=0.9)[0].T"),
        ("answer[2 : 2 +", "answer[1 : 1 +"),
    ],
)
def test_a_wrong_solution_is_called_wrong(tmp_path: Path, old: str, new: str):
    run = simulated(spoilt(tmp_path, APP, old, new), ranks=8)
    assert (run.out.endswith("right: False\n"), run.status) == (True, 1)
