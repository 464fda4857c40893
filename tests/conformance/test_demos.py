"""mpi4py's demonstration programs give on virtual ranks what they give under a real MPI."""

from __future__ import annotations

import io
import sys

import pytest

from tests.campaign import CAMPAIGN
from tests.conformance.demos import DEMOS, Outcome, recorded, run
from xsim_py import simulate

RECORDED = recorded()
MISTAKES = {name: {"LocalConcurrency"} for name in ("osu_bibw.py", "osu_bw.py")}
"""These receive many messages at once into one buffer, as the OSU benchmarks in C do."""
CHECKED = [demo for demo in DEMOS if not demo.stdin and not demo.module]


def simulated(demo):
    """Run a program; one that reads, or is run by a module, is run in a process of its own."""
    if demo.stdin or demo.module:
        return run([sys.executable, "-m", "xsim_py", "run", "-n", "{ranks}"], demo)
    program, *args = demo.command()
    stdout = io.StringIO()
    result = simulate(program, ranks=demo.ranks, args=args, stdout=stdout, stderr=io.StringIO())
    return Outcome.of(demo, stdout.getvalue(), result.exit_status)


@pytest.mark.sampled
@pytest.mark.parametrize("demo", [pytest.param(demo, id=str(demo)) for demo in DEMOS])
def test_a_demo_does_what_it_does_under_a_real_mpi(demo, monkeypatch):
    monkeypatch.chdir(demo.folder)
    assert simulated(demo) == RECORDED[str(demo)]


def test_every_demo_is_recorded():
    assert set(map(str, DEMOS)) == set(RECORDED)


@pytest.mark.parametrize("demo", CHECKED if CAMPAIGN else CHECKED[::16], ids=str)
def test_checks_find_what_is_wrong_in_a_demo(demo, monkeypatch):
    monkeypatch.chdir(demo.folder)
    program, *args = demo.command()
    output = io.StringIO()
    result = simulate(program, ranks=demo.ranks, args=args, check=True, stdout=output, stderr=output)
    assert {finding.category for finding in result.findings} == MISTAKES.get(demo.path, set())
