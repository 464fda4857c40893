"""Each detector by itself: who learns of which death, when and how. What it tells is written into a list."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.mpi.parts import LATENCY_PS, World
from xsim_py.mpi.calls import Note
from xsim_py.mpi.constants import ANY_SOURCE
from xsim_py.mpi.failures.deaths import Death
from xsim_py.mpi.failures.detector import DetectorSettings
from xsim_py.mpi.failures.heartbeat import HeartbeatDetector
from xsim_py.mpi.failures.knowledge import knowledge_of
from xsim_py.mpi.failures.settings import DETECTORS
from xsim_py.mpi.failures.timeout import TimeoutDetector
from xsim_py.mpi.transport.p2p import start_receive

TIMEOUT_PS, PERIOD_PS = 10_000, 600


class Told:
    """Stands for `Deaths`: takes down who learns what, and lets ranks know it."""

    def __init__(self, world: World, number: int = 0) -> None:
        self.fabric, self.shard = world.fabrics[number], world.shards[number]
        self.dead: dict[int, Death] = {}
        self.learned: list[tuple[int, int, int, str]] = []

    def learn(self, rank: Any, numbers: tuple[int, ...], how: str) -> None:
        now_ps = self.shard.kernel.now_ps
        knowledge_of(rank.mpi).note(dict.fromkeys(numbers, (now_ps, how)))
        self.learned += [(now_ps, rank.number, number, how) for number in numbers]


def die(world: World, detector: Any, number: int, time_ps: int = 0) -> Death:
    """Have a rank die, and announce that to all shards at once."""
    rank = world.ranks[number]
    death = Death(number, time_ps, "killed")
    rank.shard.fabric.close(rank)
    rank.exit_status = 9
    detector.deaths.dead[number] = death
    detector.died(rank, death)
    for other in world.ranks:
        if other.exit_status is None:
            detector.announced(other, death)
    return death


def post(world: World, rank: int, source: int, note: Any = None) -> Any:
    with world.acting(rank) as comm:
        return start_receive(comm, source, 7, comm.cid, "Recv", note)


# ----------------------------------------------------------------------------------------------------- timeout


@pytest.fixture
def timeout() -> SimpleNamespace:
    world = World(4)
    told = Told(world)
    return SimpleNamespace(
        world=world, told=told, detector=TimeoutDetector(told, DetectorSettings("timeout", TIMEOUT_PS, 0))
    )


@pytest.mark.parametrize("start_ps", [0, 299, 300, 301, 5000])
def test_an_operation_fails_the_timeout_after_death_or_its_start(timeout, start_ps):
    timeout.world.ranks[1].fiber.clock_ps = start_ps
    if start_ps <= 300:
        post(timeout.world, 1, 2)
    die(timeout.world, timeout.detector, 2, 300)
    if start_ps > 300:
        timeout.detector.watch(post(timeout.world, 1, 2))
    timeout.world.run()
    assert timeout.told.learned == [(max(300, start_ps) + TIMEOUT_PS, 1, 2, "timeout")]


def test_who_waits_for_another_rank_learns_nothing(timeout):
    post(timeout.world, 1, 3)
    die(timeout.world, timeout.detector, 2)
    timeout.world.run()
    assert not timeout.told.learned


def test_who_knows_of_a_death_does_not_wait_for_it_again(timeout):
    die(timeout.world, timeout.detector, 2)
    knowledge_of(timeout.world.ranks[1].mpi).note({2: (0, "agreement")})
    timeout.detector.watch(post(timeout.world, 1, 2))
    assert not timeout.world.shards[0].kernel.due


def test_an_operation_that_has_completed_meanwhile_tells_nothing(timeout):
    posted = post(timeout.world, 1, 2)
    die(timeout.world, timeout.detector, 2)
    posted.done = True
    timeout.world.run()
    assert not timeout.told.learned


def test_a_receive_that_is_used_again_for_another_message_has_a_timeout_of_its_own(timeout):
    posted = post(timeout.world, 1, 2)
    die(timeout.world, timeout.detector, 2)
    posted.post_ps = 3000
    timeout.detector.watch(posted)
    timeout.world.run()
    assert timeout.told.learned == [(3000 + TIMEOUT_PS, 1, 2, "timeout")]


@pytest.mark.parametrize(("source", "note"), [(ANY_SOURCE, None), (3, Note("Comm.Barrier"))])
def test_a_receive_from_any_source_and_a_collective_wait_for_every_member(timeout, source, note):
    post(timeout.world, 1, source, note)
    die(timeout.world, timeout.detector, 2)
    timeout.world.run()
    assert timeout.told.learned == [(TIMEOUT_PS, 1, 2, "timeout")]


def test_something_that_is_no_operation_is_expected_from_when_it_began(timeout):
    waiting = SimpleNamespace(rank=timeout.world.ranks[0], done=False, depends_on=lambda number: number == 2)
    timeout.detector.expect(timeout.world.ranks[0], 2, waiting, 500)
    assert not timeout.world.shards[0].kernel.due  # it lives
    die(timeout.world, timeout.detector, 2)
    timeout.detector.expect(timeout.world.ranks[0], 2, waiting, 500)
    timeout.world.run()
    assert timeout.told.learned == [(500 + TIMEOUT_PS, 0, 2, "timeout")]


@pytest.mark.parametrize(("since_ps", "now_ps", "told"), [
    (0, TIMEOUT_PS, False), (0, 300 + TIMEOUT_PS, True), (500, 300 + TIMEOUT_PS, False), (500, 500 + TIMEOUT_PS, True),
])  # fmt: skip
def test_a_look_tells_the_timeout_after_death_or_after_the_first_of_its_series(timeout, since_ps, now_ps, told):
    die(timeout.world, timeout.detector, 2, 300)
    die(timeout.world, timeout.detector, 3, 300)
    fiber = timeout.world.ranks[1].fiber
    fiber.clock_ps = now_ps
    with timeout.world.acting(1):
        timeout.detector.polled(fiber, since_ps, {0, 2}.__contains__)
        timeout.detector.polled(fiber, since_ps, {0, 2}.__contains__)
    assert timeout.told.learned == [(now_ps, 1, 2, "timeout")] * told


def test_who_is_not_answered_learns_why_at_once(timeout):
    timeout.detector.unanswered(timeout.world.ranks[0], 3)
    assert timeout.told.learned == [(0, 0, 3, "timeout")]


# --------------------------------------------------------------------------------------------------- heartbeat


def heartbeat(ranks: int = 4, shards: int = 1) -> SimpleNamespace:
    world = World(ranks, shards)
    told = [Told(world, number) for number in range(shards)]
    detectors = [HeartbeatDetector(each, DetectorSettings("heartbeat", TIMEOUT_PS, PERIOD_PS)) for each in told]
    for fabric, detector in zip(world.fabrics, detectors, strict=True):
        fabric.add(detector)
    return SimpleNamespace(world=world, told=told, detectors=detectors)


SILENT_PS = PERIOD_PS + LATENCY_PS + TIMEOUT_PS
"""When the successor of a rank that dies after its second sign of life has heard nothing for the timeout."""


@pytest.mark.parametrize("shards", [1, 2])
def test_the_successor_notices_when_no_sign_of_life_has_come_for_the_timeout(shards):
    run = heartbeat(4, shards)
    die(run.world, run.detectors[0], 1, PERIOD_PS + 5)
    run.world.run()
    first = min(entry for told in run.told for entry in told.learned)
    assert first == (SILENT_PS, 2, 1, "heartbeat")


@pytest.mark.parametrize("shards", [1, 2])
def test_everybody_alive_hears_of_it_once(shards):
    run = heartbeat(8, shards)
    die(run.world, run.detectors[0], 1)
    run.world.run()
    learned = [entry for told in run.told for entry in told.learned]
    assert sorted(rank for _, rank, _, _ in learned) == [0, 2, 3, 4, 5, 6, 7]
    assert {how for _, rank, _, how in learned if rank != 2} == {"broadcast"}


def test_a_dead_observer_is_replaced_by_the_next_one():
    run = heartbeat()
    die(run.world, run.detectors[0], 2)
    die(run.world, run.detectors[0], 1)
    run.world.run()
    heartbeats = [entry[1:] for entry in run.told[0].learned if entry[3] == "heartbeat"]
    assert heartbeats == [(3, 2, "heartbeat"), (3, 1, "heartbeat")]


def test_what_a_rank_had_noticed_before_it_died_is_noticed_by_its_own_observer():
    run = heartbeat()
    run.told[0].dead[1] = Death(1, 0, "killed")
    knowledge_of(run.world.ranks[2].mpi).note({1: (0, "heartbeat")})
    die(run.world, run.detectors[0], 2)
    run.world.ranks[1].shard.fabric.close(run.world.ranks[1])
    run.world.run()
    assert (3, 1, "heartbeat") in [entry[1:] for entry in run.told[0].learned]


def test_an_operation_that_waits_tells_a_heartbeat_detector_nothing():
    run = heartbeat(1)
    run.detectors[0].watch(post(run.world, 0, 0))
    assert not run.world.shards[0].kernel.due


def test_who_is_not_answered_tells_others():
    run = heartbeat()
    run.world.shards[0].fabric.close(run.world.ranks[3])
    run.detectors[0].unanswered(run.world.ranks[0], 3)
    run.world.run()
    assert sorted(entry[1:3] for entry in run.told[0].learned) == [(0, 3), (1, 3), (2, 3)]


# ------------------------------------------------------------------------------------------------ the registry


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_fills_in_what_the_description_leaves_out(name):
    unsaid = SimpleNamespace(timeout_ps=None, period_ps=None)
    settings, least_ps, why = DETECTORS[name].settings(unsaid, LATENCY_PS)
    assert settings.kind == name
    assert settings.timeout_ps >= least_ps >= LATENCY_PS
    assert "longest latency" in why


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_takes_what_the_description_says(name):
    said = SimpleNamespace(timeout_ps=7, period_ps=3)
    settings, _, _ = DETECTORS[name].settings(said, LATENCY_PS)
    assert settings.timeout_ps == 7
    assert settings.period_ps == (3 if name == "heartbeat" else 0)
