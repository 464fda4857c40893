"""The table of file locks, without any rank."""

import pytest

from xsim_py.process.descriptors.lock_table import (
    DEADLOCK,
    EXCLUSIVE,
    GRANTED,
    NONE,
    REFUSED,
    SHARED,
    WAITS,
    LockRequest,
    LockTable,
)

ALL = 1 << 62


class Desk:
    """Asks for records of one file, and keeps the answers."""

    def __init__(self) -> None:
        self.said: list[tuple[int, str]] = []
        self.table = LockTable(lambda ask, answer, _: self.said.append((ask.rank, answer)))

    def ask(
        self, rank: int, kind: int, start: int = 0, end: int = ALL, space: str = "record", **told: bool
    ) -> list[tuple[int, str]]:
        self.said.clear()
        self.table.ask(LockRequest(rank, (space, 7), rank, kind, start, end, **({"waits": True} | told)))
        return self.said


def test_many_read_and_one_writes():
    desk = Desk()
    assert desk.ask(0, SHARED) == [(0, GRANTED)]
    assert desk.ask(1, SHARED) == [(1, GRANTED)]
    assert desk.ask(2, EXCLUSIVE, waits=False) == [(2, REFUSED)]
    assert desk.ask(2, EXCLUSIVE) == [(2, WAITS)]
    assert desk.ask(0, NONE) == [(2, WAITS)]
    assert desk.ask(1, NONE) == [(2, GRANTED)]


def test_ranges_that_do_not_meet_are_free_of_each_other():
    desk = Desk()
    assert desk.ask(0, EXCLUSIVE, 0, 10) == [(0, GRANTED)]
    assert desk.ask(1, EXCLUSIVE, 10, 20) == [(1, GRANTED)]
    assert desk.ask(2, SHARED, 5, 15) == [(2, WAITS)]
    assert desk.ask(0, NONE, 2, 10) == [(2, WAITS)]
    assert desk.ask(1, NONE) == [(2, GRANTED)]
    assert desk.ask(1, EXCLUSIVE, 0, 2, probes=True) == [(1, REFUSED)]
    assert desk.ask(1, EXCLUSIVE, 2, 5, probes=True) == [(1, GRANTED)]


def test_who_asks_for_less_than_it_has_lets_others_in():
    desk = Desk()
    desk.ask(0, EXCLUSIVE)
    desk.ask(1, SHARED)
    assert desk.ask(0, SHARED) == [(0, GRANTED), (1, GRANTED)]


def test_processes_that_wait_for_each_other_are_told():
    desk = Desk()
    desk.ask(0, EXCLUSIVE, 0, 1)
    desk.ask(1, EXCLUSIVE, 1, 2)
    assert desk.ask(0, EXCLUSIVE, 1, 2) == [(0, WAITS)]
    assert desk.ask(1, EXCLUSIVE, 0, 1) == [(1, DEADLOCK)]


def test_what_a_dead_rank_has_and_waits_for_is_free():
    desk = Desk()
    desk.ask(0, EXCLUSIVE)
    desk.ask(1, EXCLUSIVE)
    desk.ask(2, EXCLUSIVE)
    desk.said.clear()
    desk.table.forget(1)
    desk.table.forget(0)
    assert desk.said == [(2, WAITS), (2, GRANTED)]


@pytest.mark.parametrize(("waits", "answers"), [(False, [REFUSED]), (True, [WAITS])])
def test_a_lock_of_a_whole_file_is_gone_before_it_is_converted(waits: bool, answers: list[str]):
    desk = Desk()
    desk.ask(0, SHARED, space="flock")
    desk.ask(1, SHARED, space="flock")
    assert [answer for _, answer in desk.ask(0, EXCLUSIVE, space="flock", waits=waits)] == answers
    assert desk.ask(1, EXCLUSIVE, space="flock")[0] == (0 if waits else 1, GRANTED)
