"""What the meter charges to a rank is that rank's own."""

from __future__ import annotations

import pytest

from xsim_py import simulate


def busy(call: str) -> None:
    """Compute and make a call that lets other ranks run, again and again; print how long that took."""
    import contextlib
    import time

    from mpi4py import MPI

    for turn in range(20):
        sum(range(20_000))
        if call == "Pcontrol":
            MPI.Pcontrol(40_000)
        elif call == "Lookup_name":
            with contextlib.suppress(MPI.Exception):
                MPI.Lookup_name(f"name {turn}")
        else:
            time.sleep(40e-6)
    print(MPI.Wtime())


@pytest.mark.parametrize("call", ["Pcontrol", "Lookup_name"])
def test_what_others_compute_during_a_call_is_not_charged(capsys: pytest.CaptureFixture[str], call: str) -> None:
    longest = []
    for each in (call, "sleep"):
        simulate(busy, ranks=32, machine="gige", args=[each], compute="measured")
        longest.append(max(map(float, capsys.readouterr().out.splitlines())))
    assert longest[0] < 4 * longest[1]  # it was 17 and 8 times as long, as all ranks paid for all
