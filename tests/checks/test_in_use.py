"""The buffers in use that may be near other memory are those that any list of all would show."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.checks.found import found
from xsim_py.checks import buffers
from xsim_py.checks.elements import overlap
from xsim_py.checks.in_use import BuffersInUse
from xsim_py.checks.monitor import Monitor


class _Used:
    def __init__(self, low: int, high: int, reads: bool) -> None:
        self.pieces, self.reads = [(low, high)], reads


def _drawn(rng: Random) -> _Used:
    low = rng.randrange(2000)
    return _Used(low, low + rng.choice((1, 3, 8, 64, 500)), rng.random() < 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_near_buffers_are_those_that_overlap(seed: int) -> None:
    rng, in_use, kept = Random(seed), BuffersInUse(), []
    for _ in range(300):
        used: Any = _drawn(rng)
        kept.append(used)
        in_use.begin(used)
        for gone in rng.sample(kept, 2) if len(kept) > 40 else ():
            kept.remove(gone)
            in_use.end(gone)
            in_use.end(gone)
        asked, reads = _drawn(rng), rng.random() < 0.5
        memory = SimpleNamespace(pieces=asked.pieces)
        near = [each for each in in_use.near(memory, reads=reads) if overlap(each.pieces, asked.pieces)]
        assert [each for each in near if not (reads and each.reads)] == [
            each for each in kept if overlap(each.pieces, asked.pieces) and not (reads and each.reads)
        ]
    for each in kept:
        in_use.end(each)
    assert not in_use


def test_open_requests_are_not_compared_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    times, are_apart = [], buffers._are_disjoint
    monkeypatch.setattr(buffers, "_are_disjoint", lambda *both: times.append(0) or are_apart(*both))
    body = """
a, b = np.zeros((200, 1)), np.zeros((200, 1))
r = [call for i in range(200) for call in (comm.Irecv(b[i], 1 - comm.rank), comm.Isend(a[i], 1 - comm.rank))]
MPI.Request.Waitall(r)
"""
    assert found(body) == ()
    assert len(times) < 200 * 2 * 16


def test_many_requests_of_one_line_in_the_same_memory_are_noted_once_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    notes, note = [], Monitor.note
    monkeypatch.setattr(Monitor, "note", lambda *told: notes.append(0) or note(*told))
    body = """
one, got = np.ones(1), np.zeros(1)
window = MPI.Win.Allocate(8, 8, comm=comm)
window.Lock_all()
for _ in range(100):
    window.Fetch_and_op(one, got, 0)
window.Unlock_all()
window.Free()
"""
    assert len(found(body)) == 1
    assert len(notes) <= 2 * 100
