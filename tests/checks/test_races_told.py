"""Conflicting accesses to windows are reported however the run ends, and few comparisons tell."""

import pytest

from tests.checks.found import found
from xsim_py.checks import conflicts

RACE = """
win = MPI.Win.Allocate(8 if comm.rank == 0 else 0, 1, comm=comm)
comm.Barrier()
win.Lock_all()
win.Put(np.ones(1), 0)
win.Unlock_all()
"""
TEXT = "two Win.Put write the same bytes of a window without ordering"


@pytest.mark.parametrize("end", ["while True: comm.Iprobe()", "assert comm.rank < 0", "win.Free()"])
def test_a_race_is_told_however_the_run_ends(end: str) -> None:
    findings = found(f"{RACE}{end}\n", wall_limit=1)
    assert ("GlobalConcurrency", 8, TEXT) in [(each.category, each.line, each.text) for each in findings]


def test_accesses_that_cannot_conflict_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, concurrent = [], conflicts._concurrent

    def counted(*told: object) -> object:
        for pair in concurrent(*told):  # type: ignore[arg-type]
            looked.append(pair)
            yield pair

    monkeypatch.setattr(conflicts, "_concurrent", counted)
    polls = "for _ in range(100):\n    win.Fetch_and_op(np.ones(1), np.zeros(1), 0, 0, MPI.NO_OP); win.Flush(0)\n"
    body = RACE.replace("win.Put(np.ones(1), 0)\n", f"win.Put(np.ones(1), 0)\n{polls}")
    assert len(found(f"{body}win.Free()\n")) == 3
    assert 0 < len(looked) < 100
