"""The comparison with other simulators: our side's closed forms, and what is said where there is no other."""

import sys
from math import log2

import pytest

from tests.bench.peers import __main__ as peers
from xsim_py import simulate

# A round on so many ranks, in microseconds: a step is two hops of 10 us, and 8 ns a byte.
ROUND_US = {
    "ring": lambda ranks: 20 + 1024 * 0.008,
    "halo": lambda ranks: 20 + 4 * 2048 * 0.008,
    "allreduce": lambda ranks: log2(ranks) * (20 + 8 * 0.008),
    "alltoall": lambda ranks: (ranks - 1) * (20 + 64 * 0.008),
}


@pytest.mark.parametrize("collectives", ["messages", "arrays"])
@pytest.mark.parametrize("program", ROUND_US)
def test_our_side_takes_the_time_of_its_closed_form(program, collectives):
    case = peers.Case(program, ranks=32, rounds=3)
    result = simulate(
        peers.PROGRAMS / f"{program}.py",
        ranks=case.ranks,
        args=[str(case.rounds)],
        machine=peers.HERE / "machine.yaml",
        collectives=collectives,
    )
    assert result.summary["messages"] == case.messages
    assert result.summary["virtual_time_s"] == pytest.approx(
        case.rounds * ROUND_US[program](case.ranks) * 1e-6, rel=1e-12
    )


def test_it_is_skipped_with_a_word_where_there_is_no_simgrid(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["peers"])
    assert peers.main() == 0
    assert "skipped" in capsys.readouterr().out
