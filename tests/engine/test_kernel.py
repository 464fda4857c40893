"""The queue's order depends on times and keys only, and SimPy processes behave as under SimPy's own kernel."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.engine import INFINITY_PS, Halted, Kernel, first_key

# ---------------------------------------------------------------------------------------------------- plain events

entries = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 4)), unique=True, max_size=30
)  # time, origin, count


@given(entries, st.randoms(use_true_random=False))
def test_order_is_by_time_and_key_whoever_came_first(posted: list[tuple[int, int, int]], random: Any):
    random.shuffle(posted)
    kernel = Kernel(native_origin=99)
    seen: list[tuple[int, int, int]] = []
    for time_ps, origin, count in posted:
        kernel.post(time_ps, first_key(origin) + count, seen.append, (time_ps, origin, count))
    kernel.run_window(INFINITY_PS)
    assert seen == sorted(posted)
    assert kernel.events == len(posted)


def test_what_finds_that_something_was_put_off_leaves_the_window_and_the_next_one_begins_there():
    kernel = Kernel(native_origin=0)
    seen: list[tuple[int, str]] = []

    def note(name: str) -> None:
        seen.append((kernel.now_ps, name))

    def put_off(name: str) -> None:
        note(name)
        kernel.post(kernel.now_ps + 4, first_key(3), note, f"{name}, then")

    def find(name: str) -> None:
        for at_ps in (3, 7, 6):
            kernel.post(at_ps, first_key(2), put_off, f"late {at_ps}")
        kernel.post(10, first_key(1), note, "just before")
        kernel.post(10, kernel.key, note, name)
        kernel.halt()

    kernel.post(1, first_key(1), note, "first")
    kernel.post(10, first_key(5), find, "found")
    kernel.post(10, first_key(7), note, "beside")
    kernel.post(12, first_key(7), note, "last")
    with pytest.raises(Halted):
        kernel.run_window(INFINITY_PS)
    assert kernel.next_ps() == 3
    kernel.run_window(INFINITY_PS)
    assert seen == [
        *((1, "first"), (3, "late 3"), (6, "late 6"), (7, "late 7"), (7, "late 3, then")),
        *((10, "just before"), (10, "late 6, then"), (10, "found"), (10, "beside")),
        *((11, "late 7, then"), (12, "last")),
    ]
    assert kernel.events == len(seen) + 1


def test_what_is_withdrawn_does_not_happen_and_is_not_counted():
    kernel = Kernel(native_origin=0)
    seen: list[str] = []
    append = seen.append
    kernel.post(1, first_key(1), lambda _: kernel.withdraw(append, {"a", "c"}), None)
    for time_ps, key, name in ((1, 2, "a"), (1, 3, "b"), (2, 4, "c"), (2, 5, "d")):
        kernel.post(time_ps, first_key(key), append, name)
    kernel.run_window(INFINITY_PS)
    assert seen == ["b", "d"]
    assert kernel.events == 3


def test_what_was_posted_for_this_time_can_be_withdrawn_and_forgotten_too():
    kernel = Kernel(native_origin=0)
    seen: list[int] = []
    note = seen.append

    def begin(_: object) -> None:
        for number in (5, 4, 6):
            kernel.post(kernel.now_ps, first_key(number), note, number)

    kernel.post(1, first_key(1), begin, None)
    kernel.post(1, first_key(2), lambda _: kernel.withdraw(note, [5]), None)
    kernel.run_window(INFINITY_PS)
    assert (seen, kernel.events) == ([4, 6], 4)
    kernel.post(2, first_key(1), begin, None)
    kernel.post(2, first_key(2), kernel.stop, None)
    kernel.run_window(INFINITY_PS)
    assert (seen, kernel.events) == ([4, 6], 6)


def test_a_window_ends_before_its_end():
    kernel = Kernel(native_origin=0)
    seen: list[int] = []
    for time_ps in (3, 1, 2, 5):
        kernel.post(time_ps, first_key(1) + time_ps, seen.append, time_ps)
    kernel.run_window(3)
    assert seen == [1, 2]
    assert kernel.next_ps() == 3
    kernel.run_window(INFINITY_PS)
    assert seen == [1, 2, 3, 5]
    assert (kernel.next_ps(), kernel.now_ps) == (INFINITY_PS, 5)


def test_events_of_an_event_at_the_same_time_are_run_too():
    kernel = Kernel(native_origin=0)
    seen: list[str] = []
    kernel.post(1, 1, lambda _: kernel.post(1, 3, seen.append, "second"), None)
    kernel.post(1, 2, seen.append, "first")
    kernel.run_window(2)
    assert seen == ["first", "second"]


@given(st.lists(st.integers(1, 40), unique=True, max_size=20), st.lists(st.integers(41, 80), unique=True, max_size=20))
def test_what_is_posted_for_the_same_time_comes_in_its_turn(first: list[int], later: list[int]):
    kernel = Kernel(native_origin=0)
    seen: list[int] = []
    posted = iter(later)

    def handler(key: int) -> None:
        seen.append(key)
        for another in posted:  # one from each event, and its key may be before those that are still to come
            kernel.post(7, 2 * another - 80 + key, handler, 2 * another - 80 + key)
            break

    for key in first:
        kernel.post(7, 100 * key, handler, 100 * key)
    kernel.run_window(8)
    assert seen == sorted(seen)
    assert len(seen) == (len(first) + len(later) if first else 0)


def test_an_event_that_raises_leaves_the_others_in_the_queue():
    kernel = Kernel(native_origin=0)
    seen: list[int] = []
    kernel.post(5, 1, lambda _: 1 // 0, None)
    kernel.post(5, 3, seen.append, 3)
    kernel.post(5, 2, seen.append, 2)
    with pytest.raises(ZeroDivisionError):
        kernel.run_window(6)
    assert kernel.next_ps() == 5
    kernel.run_window(6)
    assert (seen, kernel.events) == ([2, 3], 3)


def test_stop_forgets_what_was_to_come():
    kernel = Kernel(native_origin=0)
    seen: list[int] = []
    kernel.post(1, 1, kernel.stop, None)
    kernel.post(2, 2, seen.append, 2)
    kernel.run_window(INFINITY_PS)
    assert (seen, kernel.stopped, kernel.now_ps) == ([], True, 1)


def test_halt_leaves_the_loop_before_the_next_event():
    kernel = Kernel(native_origin=0)
    seen: list[int] = []
    kernel.post(1, 1, lambda _: (seen.append(1), kernel.halt()), None)
    kernel.post(1, 2, seen.append, 2)
    with pytest.raises(Halted):
        kernel.run_window(INFINITY_PS)
    assert seen == [1]


def test_keys_of_many_ranks_do_not_meet():
    assert first_key(7) + (1 << 34) - 1 < first_key(8)
    assert first_key(1 << 24) < 1 << 60


# ----------------------------------------------------------------------------------------------- SimPy processes

Action = tuple[Any, ...]
Trace = list[tuple[Any, ...]]

delays = st.integers(0, 4)
waits = st.one_of(
    st.tuples(st.just("timeout"), delays),
    st.tuples(st.just("event"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["all", "any"]), st.lists(delays, max_size=3), st.lists(st.integers(0, 3), max_size=2)),
)
actions = st.one_of(
    waits,
    waits,
    st.tuples(st.just("succeed"), st.integers(0, 3)),
    st.tuples(st.just("fail"), st.integers(0, 3)),
    st.tuples(st.just("interrupt"), st.integers(0, 3)),
    st.tuples(st.just("spawn"), st.lists(waits, max_size=3)),
    st.tuples(st.just("request"), delays),
)
programs = st.lists(st.lists(actions, max_size=6), min_size=1, max_size=4)


class World:
    """A random SimPy program, and what happens when it runs under some environment."""

    def __init__(self, env: simpy.Environment, program: list[list[Action]]) -> None:
        self.env = env
        self.trace: Trace = []
        self.events = [env.event() for _ in range(4)]
        self.resource = simpy.Resource(env, capacity=1)
        self.processes = [env.process(self.run(str(number), steps)) for number, steps in enumerate(program)]

    def note(self, *what: Any) -> None:
        self.trace.append((self.env.now, *what))

    def run(self, name: str, steps: list[Action]) -> Iterator[Any]:
        for count, (kind, *details) in enumerate(steps):
            try:
                result = yield from getattr(self, f"do_{kind}")(name, *details)
                self.note(name, count, kind, result)
            except simpy.Interrupt as interrupt:
                self.note(name, count, "interrupted", interrupt.cause)
            except LookupError as error:
                self.note(name, count, "failed", *error.args)

    def do_timeout(self, name: str, delay: int) -> Iterator[Any]:
        return (yield self.env.timeout(delay, value=name))

    def do_event(self, name: str, number: int) -> Iterator[Any]:
        got = yield self.events[number] | self.env.timeout(20)
        return list(got.values())

    def do_all(self, name: str, waits: list[int], numbers: list[int]) -> Iterator[Any]:
        timeouts = [self.env.timeout(delay, value=delay) for delay in waits]
        events = [self.events[number] for number in numbers]
        got = yield self.env.all_of(timeouts + events) | self.env.timeout(9)
        return len(got.todict())

    def do_any(self, name: str, waits: list[int], numbers: list[int]) -> Iterator[Any]:
        timeouts = [self.env.timeout(delay, value=delay) for delay in [*waits, 9]]
        got = yield self.env.any_of([*timeouts, *(self.events[number] for number in numbers)])
        return [event.value for event in timeouts if event in got]

    def do_succeed(self, name: str, number: int) -> Iterator[Any]:
        if not self.events[number].triggered:
            self.events[number].succeed(name)
        return
        yield

    def do_fail(self, name: str, number: int) -> Iterator[Any]:
        event = self.events[number]
        if not event.triggered:
            event.fail(LookupError(name)).defused = True
        return
        yield

    def do_interrupt(self, name: str, number: int) -> Iterator[Any]:
        if number < len(self.processes):
            other = self.processes[number]
            if other.is_alive and other is not self.env.active_process:
                other.interrupt(name)
        return
        yield

    def do_spawn(self, name: str, steps: list[Action]) -> Iterator[Any]:
        yield self.env.process(self.run(f"{name}.", steps))

    def do_request(self, name: str, delay: int) -> Iterator[Any]:
        with self.resource.request() as request:
            yield request
            yield self.env.timeout(delay)


def traced(env: simpy.Environment, program: list[list[Action]], run: Callable[[simpy.Environment], object]) -> Trace:
    world = World(env, program)
    try:
        run(env)
    except LookupError as error:  # of a process that nobody waited for
        world.note("crashed", *error.args)
    return [*world.trace, env.now]


@given(programs)
def test_simpy_processes_do_the_same_under_the_kernel(program: list[list[Action]]):
    expected = traced(simpy.Environment(), program, lambda env: env.run())
    assert traced(Kernel(native_origin=5), program, lambda env: env.run()) == expected
    assert traced(Kernel(native_origin=5), program, lambda kernel: kernel.run_window(INFINITY_PS)) == expected


@given(programs, st.integers(1, 6))
def test_running_in_parts_makes_no_difference(program: list[list[Action]], until: int):
    def in_parts(env: simpy.Environment) -> None:
        env.run(until=until)
        env.run(until=env.timeout(2))
        env.run()

    expected = traced(simpy.Environment(), program, in_parts)
    assert traced(Kernel(native_origin=5), program, in_parts) == expected


def test_a_process_that_fails_raises_as_under_simpy():
    def process(env: simpy.Environment) -> Iterator[Any]:
        yield env.timeout(1)
        raise LookupError("lost")

    for env in (simpy.Environment(), Kernel(native_origin=0)):
        env.process(process(env))
        with pytest.raises(LookupError, match="lost"):
            env.run()


def test_native_events_come_after_those_of_ranks_at_one_time_and_urgent_ones_before():
    kernel = Kernel(native_origin=3)
    seen: list[str] = []

    def process(env: simpy.Environment) -> Iterator[Any]:
        seen.append("started")
        yield env.timeout(5)
        seen.append("native")

    kernel.process(process(kernel))
    kernel.post(0, first_key(2), seen.append, "rank at 0")
    kernel.post(5, first_key(2) + 1, seen.append, "rank at 5")
    kernel.run_window(INFINITY_PS)
    assert seen == ["started", "rank at 0", "rank at 5", "native"]


def test_where_only_native_events_are_left_the_ranks_have_ended():
    kernel = Kernel(native_origin=3)

    def process(env: simpy.Environment) -> Iterator[Any]:
        while True:
            yield env.timeout(5)

    kernel.process(process(kernel))
    assert (kernel.next_ps(), kernel.peek()) == (INFINITY_PS, 0)
    kernel.post(7, first_key(0), lambda _: None, None)
    assert kernel.next_ps() == 0
    kernel.run_window(8)
    assert (kernel.next_ps(), kernel.peek()) == (INFINITY_PS, 10)


@pytest.mark.parametrize("delay", [0.5, 1e-12, math.pi])
def test_times_between_two_picoseconds_are_refused(delay: float):
    with pytest.raises(ValueError, match="whole number of picoseconds"):
        Kernel(native_origin=0).timeout(delay)


def test_whole_numbers_may_be_written_as_floats():
    kernel = Kernel(native_origin=0)
    kernel.timeout(2e3)
    kernel.run()
    assert kernel.now_ps == 2000
    assert isinstance(kernel.now_ps, int)
