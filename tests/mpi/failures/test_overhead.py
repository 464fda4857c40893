"""To be able to outlive failures costs nothing where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from xsim_py import simulate


@pytest.mark.parametrize("program", ["allreduce_loop.py", "samplesort.py", "multigrid.py"])
def test_times_and_messages_are_the_same_with_and_without(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[3] / "apps" / program
    results = [
        simulate(path, ranks=4, ft=ft, set={"mpi.detector.type": kind})
        for ft in (False, True)
        for kind in ("timeout", "heartbeat")
    ]
    assert len({result.digest for result in results}) == 1
    assert len({(result.virtual_time_ps, result.events, result.messages) for result in results}) == 1
    assert capsys.readouterr().out
