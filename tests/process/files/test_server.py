"""A server of files serves in order, its bytes take its time, and who dies in a write leaves what had come of it."""

import os
from fractions import Fraction
from heapq import heappop, heappush

import pytest

from xsim_py.process.files.host_files import HostFiles
from xsim_py.process.files.overlay import Overlay
from xsim_py.process.files.server import Server, StorageAnswer, StorageRequest

LATENCY_PS = 1_000_000
PS_PER_BYTE = Fraction(2500, 3)


class World:
    """A server, ranks that ask it at given times, and a clock."""

    def __init__(self, folder, ps_per_byte: Fraction = PS_PER_BYTE) -> None:
        self.path = f"{folder}/file"
        self.overlay = Overlay(HostFiles())
        self.events: list = []
        self.answers: dict[int, tuple[int, StorageAnswer]] = {}
        self.keys = 0
        self.server = Server(
            self.overlay,
            latency_ps=LATENCY_PS,
            ps_per_byte=ps_per_byte,
            later=lambda time_ps, asked: self.at(time_ps, asked.key, self.server.transferred, asked),
            reply=self.reply,
        )
        self.number, _ = self.overlay.open(-1, self.path, os.O_CREAT | os.O_RDWR)

    def at(self, time_ps: int, key: int, function, argument) -> None:
        heappush(self.events, (time_ps, key, function, argument))

    def reply(self, time_ps: int, asked: StorageRequest, answer: StorageAnswer) -> None:
        self.answers[asked.rank] = (time_ps, answer)

    def ask(self, time_ps: int, rank: int, kind: str, *arguments) -> None:
        self.keys += 1
        self.at(time_ps, self.keys, self.server.submit, StorageRequest(rank, self.keys, kind, arguments))

    def write(self, time_ps: int, rank: int, start: int | None, data: bytes) -> None:
        self.ask(time_ps, rank, "write", self.number, start, data)

    def die(self, time_ps: int, rank: int) -> None:
        self.keys += 1
        self.at(time_ps, self.keys, self.server.died, rank)

    def run(self) -> dict[int, int]:
        """To the end; when each rank had its last answer."""
        while self.events:
            time_ps, _, function, argument = heappop(self.events)
            function(time_ps, argument)
        return {rank: time_ps for rank, (time_ps, _) in self.answers.items()}

    def contents(self) -> bytes:
        return self.overlay.read(self.number, 0, None)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_who_comes_together_is_served_in_order(world):
    for rank in range(4):
        world.write(500, rank, 300 * rank, b"%d" % rank * 300)
    assert world.run() == {rank: 500 + LATENCY_PS + (rank + 1) * 250_000 for rank in range(4)}
    assert world.contents() == b"0" * 300 + b"1" * 300 + b"2" * 300 + b"3" * 300


def test_the_latency_is_no_work_of_the_server(world):
    for rank in range(4):
        world.ask(0, rank, "stat", world.path)
    assert world.run() == dict.fromkeys(range(4), LATENCY_PS)


def test_who_comes_to_an_idle_server_does_not_wait(world):
    world.write(0, 0, 0, b"a" * 300)
    world.write(250_000, 1, 0, b"b" * 300)
    world.write(700_000, 2, 0, b"c" * 300)
    assert world.run() == {0: LATENCY_PS + 250_000, 1: LATENCY_PS + 500_000, 2: LATENCY_PS + 950_000}


def test_a_reader_sees_what_was_written_before_and_nothing_of_what_comes_later(world):
    world.write(0, 0, 0, b"a" * 300)
    world.ask(1, 1, "read", world.number, 0, None)
    world.write(2, 2, 0, b"b" * 300)
    world.run()
    assert world.answers[1] == (LATENCY_PS + 500_000, StorageAnswer(b"a" * 300, None, 300))
    assert world.contents() == b"b" * 300


def test_every_append_is_whole_and_knows_where_it_ends(world):
    for rank in range(3):
        world.write(0, rank, None, b"%d" % rank * 3)
    world.run()
    assert world.contents() == b"000111222"
    assert [world.answers[rank][1].value for rank in range(3)] == [3, 6, 9]


@pytest.mark.parametrize(
    ("died_ps", "come"), [(0, 0), (833, 0), (834, 1), (125_000, 150), (249_166, 298), (249_999, 299), (250_000, 300)]
)
def test_who_dies_in_a_write_leaves_the_bytes_that_had_come(world, died_ps: int, come: int):
    world.write(0, 0, 0, b"x" * 300)
    world.die(died_ps, 0)
    world.run()
    assert world.contents() == b"x" * come


def test_a_torn_write_leaves_the_rest_as_it_was(world):
    world.write(0, 1, 0, b"old" * 100)
    world.write(1, 0, 0, b"x" * 300)
    world.die(250_000 + 1 + 8333, 0)
    world.run()
    assert world.contents() == b"x" * 10 + (b"old" * 100)[10:]


def test_the_next_is_served_when_the_one_before_is_dead(world):
    world.write(0, 0, 0, b"x" * 300)
    world.write(1, 1, None, b"y" * 300)
    world.die(125_000, 0)
    assert world.run()[1] == 125_000 + 250_000 + LATENCY_PS
    assert world.contents() == b"x" * 150 + b"y" * 300


def test_who_dies_in_the_queue_leaves_nothing(world):
    world.write(0, 0, 0, b"x" * 300)
    world.write(1, 1, 300, b"y" * 300)
    world.die(125_000, 1)
    world.run()
    assert world.contents() == b"x" * 300


def test_who_dies_waiting_for_the_answer_has_written(world):
    world.write(0, 0, 0, b"x" * 300)
    world.die(250_001, 0)
    world.run()
    assert world.contents() == b"x" * 300


def test_the_end_of_all_tears_what_is_being_written_and_forgets_the_rest(world):
    world.write(0, 0, 0, b"x" * 300)
    world.write(0, 1, 0, b"y" * 300)
    for _ in range(2):
        time_ps, _, function, argument = heappop(world.events)
        function(time_ps, argument)
    world.overlay.open(-1, world.path, os.O_RDONLY)
    world.server.stop(8334)
    number, size = world.overlay.open(5, world.path, os.O_RDONLY)
    assert (size, world.overlay.read(number, 0, None)) == (10, b"x" * 10)


def test_without_a_limit_of_bandwidth_bytes_take_no_time(tmp_path):
    world = World(tmp_path, ps_per_byte=Fraction(0))
    for rank in range(3):
        world.write(7, rank, None, b"x" * 10**6)
    assert world.run() == dict.fromkeys(range(3), 7 + LATENCY_PS)
    assert len(world.contents()) == 3 * 10**6


def test_an_error_costs_the_latency(world):
    world.ask(0, 0, "open", 0, world.path + "/no", os.O_RDONLY)
    assert world.run() == {0: LATENCY_PS}
    assert isinstance(world.answers[0][1].error, NotADirectoryError)
