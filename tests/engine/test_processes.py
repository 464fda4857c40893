"""Shards in processes of their own: the events are those of shards in one, and one that dies is replaced."""

import os
import resource
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.toy import LOOKAHEAD_PS, Rule, ToyShard, blocks_of
from xsim_py.engine import Loopback, processes
from xsim_py.engine.processes import OUT_OF_MEMORY, ProcessDeath, Processes
from xsim_py.errors import ConfigError, InternalError

RANKS = 4
LATE_PS = 5 * LOOKAHEAD_PS


def around(rank: int, count: int) -> list[tuple[int, int]]:
    """A token for each rank goes round, and each is told something for much later."""
    return [((rank + 1) % RANKS, 1)] + ([((rank + 1) % RANKS, LATE_PS)] if count == 1 else [])


class Member(ToyShard):
    """One that runs in those windows only in which it has an event."""

    def window_done(self, horizon_ps: int, end_ps: int) -> bool:
        return False


class Substitute(Member):
    """Notes what it is sent."""

    def receive(self, batch: Any) -> None:
        self.got = [*getattr(self, "got", []), *((time_ps, source) for time_ps, _, (_, source, _) in batch)]


class Host:
    """Gives shards nobody lives in."""

    def __init__(self) -> None:
        self.deaths: list[tuple[int, int, ProcessDeath]] = []
        self.made: list[Substitute] = []
        self.blocks = [range(0), *blocks_of(RANKS, 2)]

    def enter(self, number: int, descriptor: int) -> int:
        return descriptor

    def report_of(self, shard: Any) -> Any:
        return None

    take_report = check_process = exec_interpreter = lambda self, number, told: None

    def suspend_ranks(self) -> None:
        """No rank lives here."""

    def make_replacement(self, number: int, time_ps: int, death: ProcessDeath) -> Substitute:
        self.deaths.append((number, time_ps, death))
        self.made.append(Substitute(number, self.blocks, lambda rank, count: [], limit=0))
        return self.made[-1]


def run(rule: Rule) -> tuple[Host, list[Any]]:
    """Run two shards of two ranks in processes of their own; what came to each rank."""
    host, transport = Host(), Processes(range(1, 3), 3)

    def work(numbers: Any) -> list[Any]:
        shards = [Member(number, host.blocks, rule, limit=6) for number in numbers]
        for shard in shards:
            shard.begin()
        transport.run(shards, [[LOOKAHEAD_PS] * 3] * 3)
        return [shard.arrivals for shard in [*shards, *host.made]]

    with transport.together():
        parts = transport.gather(transport.simulate(work, host))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert parts is not None
    return host, parts


def then(act: Callable[[], Any]) -> Rule:
    """Rank 2, which is the first in shard 2, does this when the third message has come to it."""

    def rule(rank: int, count: int) -> list[tuple[int, int]]:
        if (rank, count) == (2, 3):
            act()
        return around(rank, count)

    return rule


def test_the_events_are_those_of_shards_in_one_process():
    blocks = blocks_of(RANKS, 2)
    shards = [ToyShard(number, blocks, around, limit=6) for number in range(2)]
    for shard in shards:
        shard.begin()
    Loopback(2).run(shards, [[LOOKAHEAD_PS] * 2] * 2)
    host, parts = run(around)
    assert parts == [{}, *(shard.arrivals for shard in shards)]
    assert host.deaths == []


@pytest.mark.parametrize(
    ("act", "code", "cut"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL, False),
        (lambda: os._exit(5), 5, False),
        (lambda: os.closerange(3, 4096), 113, True),
        (lambda: bytearray(1 << 60), OUT_OF_MEMORY, False),
        (lambda: os.execv("/bin/true", ["true"]), 0, False),
    ],
    ids=["killed", "ended", "no socket", "no memory", "another program"],
)
def test_a_shard_takes_the_place_of_one_whose_process_is_gone(act: Callable[[], Any], code: int, cut: bool):
    host, parts = run(then(act))
    ((number, time_ps, death),) = host.deaths
    assert (number, death) == (2, ProcessDeath(code, cut=cut))
    _, everything = run(around)
    third_ps = everything[2][2][2][0]
    assert time_ps <= third_ps < time_ps + LOOKAHEAD_PS  # when it would have gone on
    later = {time_ps for time_ps, source in host.made[0].got if source == 1}
    assert max(later) > LATE_PS  # what had been sent for later is not lost
    assert len(parts) == 3


def test_a_process_that_left_its_socket_to_a_child_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_TICK_S", 0.02)
    reader, writer = os.pipe()

    def leave() -> None:
        if os.fork() == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        os._exit(7)

    host, _ = run(then(leave))
    os.close(writer)  # which ends the child
    os.close(reader)
    assert [death.code for _, _, death in host.deaths] == [7]


def test_an_error_in_a_process_is_one_of_the_simulator_unless_it_is_a_wrong_input():
    def wrong(error: Exception) -> Callable[[], None]:
        def act() -> None:
            raise error

        return act

    with pytest.raises(ConfigError, match=r"^no such thing$"):
        run(then(wrong(ConfigError("no such thing"))))
    with pytest.raises(InternalError, match=r"error in the process of shard 2:\n(?s:.*)ZeroDivisionError"):
        run(then(wrong(ZeroDivisionError("by zero"))))


def test_the_limit_of_open_files_is_raised_and_given_back():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    here = max(map(int, os.listdir("/proc/self/fd"))) + 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (here, before[1]))
    try:
        _, parts = run(around)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (here, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(parts) == 3


def test_where_no_more_processes_start_those_that_have_are_ended(monkeypatch: pytest.MonkeyPatch):
    real, began = processes._fork, []

    def fork() -> int:
        if began:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        began.append(1)
        return real()

    monkeypatch.setattr(processes, "_fork", fork)
    with pytest.raises(
        ConfigError, match=r"cannot start more than 1 processes on this host: Resource temporarily unavailable"
    ):
        run(around)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
