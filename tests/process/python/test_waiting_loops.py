"""Which loops wait for a time can be seen from what becomes of a clock's readings."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import pytest

from xsim_py.process.python import waiting_loops

_times: Iterator[int]
_seen: list[bool]


def clock() -> int:
    """Tick by one a reading, and note whether a loop waits for it."""
    _seen.append(waiting_loops.waiting_frame(sys._getframe(1)) is not None)
    return next(_times)


def now() -> int:
    return clock()


def is_over(end: int) -> bool:
    return clock() >= end


def in_the_test() -> None:
    end = clock() + 9
    while clock() < end:
        pass


def since_a_start() -> None:
    start = clock()
    while clock() - start < 9:
        str(1)


def kept_in_a_variable() -> None:
    elapsed, start = 0, clock()
    while elapsed < 9:
        elapsed = clock() - start


def named_in_the_test() -> None:
    end = clock() + 9
    while (time := clock()) < end:
        assert time


def kept_in_an_attribute() -> None:
    box = SimpleNamespace(now=0)
    while box.now < 9:
        box.now = clock()


def with_a_break() -> None:
    end = clock() + 9
    while True:
        time = clock()
        if time > end or time < 0:
            break


def with_an_error() -> None:
    end = clock() + 9
    with suppress(TimeoutError):
        while True:
            if clock() > end:
                raise TimeoutError


def by_return() -> int:
    while True:
        if max(0, clock() - 9):
            return 1


def with_another_condition() -> None:
    flags, end = [False], clock() + 9
    while not flags[0] and clock() < end:
        for _ in range(3):
            flags[0] = False


def by_a_function() -> None:
    end = now() + 9
    while not is_over(end):
        pass


def by_functions_of_functions() -> None:
    ends = [now() + 9]
    while not all((lambda end: now() > end)(end) for end in ends):
        pass


def timed_steps() -> None:
    step, spent = 0, 0
    while step < 9:
        begin = clock()
        step += 1
        spent += clock() - begin


def stamps() -> None:
    step = last = 0
    while step < 9:
        time = clock()
        step += 1
        if time - last > 3:
            assert last < time
        last = time


def stamps_by_a_function() -> None:
    times = []
    while len(times) < 9:
        times.append(now())
        if len(times) > 100:
            raise ValueError(f"too many at {now()}")


def a_limit_in_a_for_loop() -> None:
    end = clock() + 1000
    for _ in range(9):
        if clock() > end:
            break


def for_loop_in_a_while_loop() -> None:
    rounds, end = 0, clock() + 1000
    while rounds < 3:
        rounds += 1
        for _ in range(3):
            if clock() > end:
                break


@pytest.mark.parametrize(
    "loop",
    [
        *(in_the_test, since_a_start, kept_in_a_variable, named_in_the_test, kept_in_an_attribute, with_a_break),
        *(with_an_error, by_return, with_another_condition, by_a_function, by_functions_of_functions),
    ],
)
def test_a_clock_that_decides_whether_a_loop_goes_on_is_waited_for(loop: Callable[[], object]) -> None:
    assert all(_reading_of(loop)[2:])


@pytest.mark.parametrize(
    "loop", [timed_steps, stamps, stamps_by_a_function, a_limit_in_a_for_loop, for_loop_in_a_while_loop]
)
def test_a_clock_that_decides_nothing_is_not(loop: Callable[[], object]) -> None:
    assert not any(_reading_of(loop))


def _reading_of(loop: Callable[[], object]) -> list[bool]:
    global _times, _seen
    _times, _seen = count(), []
    loop()
    assert len(_seen) >= 9
    return _seen


def test_what_is_known_of_code_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_loops, "_MOST_KNOWN", 2)
    monkeypatch.setattr(waiting_loops, "_known", {})
    for loop in (in_the_test, timed_steps, with_a_break):
        _reading_of(loop)
        assert 1 <= len(waiting_loops._known) <= 2
