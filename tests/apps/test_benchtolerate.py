"""An Allreduce on several communicators that share a process which fails."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.apps.helpers import simulated

APP = "benchtolerate.py"
TREE = {"mpi.collectives.reduce": "binary", "mpi.collectives.bcast": "binary_tree"}
LIBRARY = {
    "ftco": {"mpi.collectives": "ftco", "mpi.ftco.tree": "kary", "mpi.ftco.radix": 2, "mpi.ftco.roots": "single"},
    "ulfm": {**TREE, "mpi.collectives.allreduce": "nonoverlapping"},
}


class Iteration(NamedTuple):
    took_us: float
    repairs: int


def iterations(library: str, *args: object, ranks: int = 8) -> list[Iteration]:
    run = simulated(APP, *args, ranks=ranks, ft=True, set=LIBRARY[library])
    assert (run.status, run.err) == (0, "")
    found = re.findall(r"^iteration \d+: ([\d.]+) us, (\d+) repairs$", run.out, re.MULTILINE)
    return [Iteration(float(took_us), int(repairs)) for took_us, repairs in found]


def test_ulfm_repairs_each_communicator_and_ftco_none():
    """The difference of two and of three communicators is what one more costs, alone or with its repair."""
    for iteration in (1, 2):
        ulfm = {k: iterations("ulfm", "--communicators", k, "--iterations", 2)[iteration] for k in (1, 2, 3)}
        ftco = {k: iterations("ftco", "--communicators", k, "--iterations", 2)[iteration] for k in (1, 2, 3)}
        assert [run.repairs for run in ulfm.values()] == [1, 2, 3]
        assert [run.repairs for run in ftco.values()] == [0, 0, 0]
        one_more = iterations("ftco", "--fault", "none", "--communicators", 1)[0].took_us
        assert 0 < ftco[3].took_us - ftco[2].took_us <= one_more
        assert ulfm[3].took_us - ulfm[2].took_us > 1.9 * one_more


@pytest.mark.parametrize("library", ["ftco", "ulfm"])
def test_who_is_silent_for_a_while_is_waited_for_and_nothing_is_repaired(library: str):
    told = ("--communicators", 2, "--iterations", 2)
    without = iterations(library, *told, "--fault", "none")
    found = iterations(library, *told, "--fault", "temporary", "--silent", 0.01)
    for late, punctual in zip(found[1:], without[1:], strict=True):
        assert late.repairs == punctual.repairs == 0
        # Others have done their part meanwhile, so the wait takes the place of some of the work.
        assert 10_000 < late.took_us <= 10_000 + punctual.took_us


def test_all_but_the_root_may_fail_one_after_the_other():
    for library in ("ftco", "ulfm"):
        assert len(iterations(library, "--iterations", 4, "--communicators", 2, ranks=5)) == 5


def test_what_cannot_be_is_refused():
    for told in (("--iterations", 4), ("--communicators", 0), ("--silent", "nan"), ("--silent", -1)):
        run = simulated(APP, *told, ranks=4)
        assert run.status == 1
        assert run.err == "benchtolerate: needs at least 1 communicator, 1 to 3 iterations and a time of at least 0\n"
