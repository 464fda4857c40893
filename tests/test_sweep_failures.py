"""Programs that are to get over any failure do: a sample of the sweeps, and in a campaign every pair of deaths."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN, SHARDS
from tests.cases import ROOT
from tests.sweep_failures import SWEEPS, Death, Outcome, Sweep, bad


def sampled(sweep: Sweep) -> list[str]:
    return bad(sweep.explore(budget=1))


def every_pair(sweep: Sweep) -> list[str]:
    """Judge all pairs, the death of every rank at 50 times, and some pairs on 8 ranks, in processes of their own.

    The dead stay in memory.
    """
    found = []
    for options in ([], ["--times", "50"], ["--ranks", "8", "--pairs", "300"]):
        command = [sys.executable, "-m", "tests.sweep_failures", str(sweep), *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        found += [done.stdout, done.stderr] if done.returncode else []
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("sweep", SWEEPS, ids=str)
@pytest.mark.usefixtures("in_this_process")
def test_any_two_may_die_at_any_call(sweep: Sweep):
    assert (every_pair if CAMPAIGN else sampled)(sweep) == []


def test_shards_make_no_difference():
    sweep = SWEEPS[0]
    deaths = (Death(1, 10), Death(3, 25))
    assert len({sweep.run(deaths, shards=shards) for shards in SHARDS}) == 1


UNPROTECTED = """\
from mpi4py import MPI
comm = MPI.COMM_WORLD
try:
    comm.Barrier()
    members = comm.allgather(comm.rank)
except MPI.Exception:
    comm.Revoke()
    comm = comm.Shrink()
    members = comm.allgather(comm.rank)
print("result", len(members))
"""


@pytest.mark.usefixtures("in_this_process")
def test_a_program_that_does_not_get_over_failures_is_found(tmp_path: Path):
    path = tmp_path / "unprotected.py"
    path.write_text(UNPROTECTED, encoding="utf-8")
    found = bad(Sweep(path, 3).explore())
    assert any("rank=2 before its 1st Barrier: wrong result" in each for each in found)
    assert any(" and " in each and ": aborted: " in each for each in found)


LOST = {"lost": True, "ended": "aborted", "status": 1, "results": frozenset()}


@pytest.mark.parametrize(
    ("came", "fields", "wrong"),
    [
        ({1, 2}, LOST, ""),
        ({0, 4}, LOST, ""),
        ({1, 3}, LOST, "lost by the deaths of [1, 3], and aborted"),
        ({4, 5}, LOST, "lost by the deaths of [4, 5], and aborted"),
        ({1, 2}, LOST | {"ended": "finished"}, ""),
        ({1, 2}, LOST | {"ended": "stalled"}, "lost by the deaths of [1, 2], and stalled"),
        ({1, 2}, LOST | {"ended": "finished", "status": 0}, "lost by the deaths of [1, 2], and finished"),
        ({1, 2}, LOST | {"results": frozenset({"6"})}, ""),
        ({1, 2}, LOST | {"results": frozenset({"7"})}, "{'7'} in place of {'6'}"),
        ({1, 3}, LOST | {"results": frozenset({"6"})}, "aborted: "),
        ({1}, {"ended": "stalled", "said": "deadlock report"}, "stalled: deadlock report"),
        ({1}, {"results": frozenset({"7"})}, "{'7'} in place of {'6'}"),
        ({1}, {"results": frozenset()}, "set() in place of {'6'}"),
        ({1}, {}, ""),
    ],
)
def test_data_may_be_lost_with_their_copy_and_by_nothing_else(came: set[int], fields: dict[str, object], wrong: str):
    sweep = Sweep(Path("program.py"), 5, buddies=True, newcomers=2)
    right = Outcome(frozenset(), frozenset({"6"}), False, "finished", 0, "", "", 0)
    assert sweep.wrong(right, right._replace(came=frozenset(came), **fields)) == wrong
