"""From a death to the end of what others have under way with the dead rank; and what calls ask from then on."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.mpi.parts import LATENCY_PS, World
from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import Note
from xsim_py.mpi.constants import ANY_SOURCE
from xsim_py.mpi.failures.deaths import Deaths, Reports, end_operations
from xsim_py.mpi.failures.detector import DetectorSettings
from xsim_py.mpi.failures.guard import FailureGuard
from xsim_py.mpi.failures.knowledge import knowledge_of
from xsim_py.mpi.failures.timeout import TimeoutDetector
from xsim_py.mpi.transport.p2p import SendCall, receive, start_receive, start_send, wait
from xsim_py.mpi.transport.protocols import ControlHandler

TIMEOUT_PS = 10_000
LARGE = b"x" * 200


def failing(ranks: int = 4, shards: int = 1) -> SimpleNamespace:
    """Ranks whose failures are found out by a timeout."""
    world = World(ranks, shards)
    deaths = [Deaths(fabric) for fabric in world.fabrics]
    for fabric, each in zip(world.fabrics, deaths, strict=True):
        detector = fabric.add(TimeoutDetector(each, DetectorSettings("timeout", TIMEOUT_PS, 0)))
        reports = fabric.add(Reports(each, detector))
        fabric.bounce, fabric.guard = reports.bounce, FailureGuard(each, detector)
        fabric.shard.on_failure = reports.died
    return SimpleNamespace(world=world, deaths=deaths, guard=world.fabrics[0].guard)


def die(world: World, number: int) -> None:
    rank = world.ranks[number]
    rank.exit_status = 9
    rank.shard.on_failure(rank, "killed", True)


def learn(run: Any, rank: int, *numbers: int) -> None:
    run.deaths[0].learn(run.world.ranks[rank], numbers, "agreement")


def post(world: World, rank: int, source: int, note: Any = None) -> Any:
    with world.acting(rank) as comm:
        return start_receive(comm, source, 7, comm.cid, "Recv", note)


def send(world: World, rank: int, dest: int, data: bytes = b"") -> Any:
    with world.acting(rank) as comm:
        return start_send(comm, dest, 7, data, comm.cid, SendCall("Send"), None)


def error_class(error: Any) -> int:
    return error.Get_error_class()


@pytest.mark.parametrize("shards", [1, 2])
def test_a_death_is_announced_to_all_shards_and_no_rank_knows_of_it(shards):
    run = failing(4, shards)
    die(run.world, 1)
    run.world.run()
    assert [list(deaths.dead) for deaths in run.deaths] == [[1]] * shards
    assert all(fabric.failure_seen for fabric in run.world.fabrics)
    assert not any(rank.mpi.knowledge for rank in run.world.ranks)
    assert [len(deaths.deaths) for deaths in run.deaths][:1] == [1]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_receive_that_waits_for_a_dead_rank_fails_after_the_timeout(shards):
    run = failing(4, shards)
    posted = post(run.world, 3, 1)
    die(run.world, 1)
    with run.world.acting(3), pytest.raises(errors.Exception) as caught:
        wait(posted)
    assert error_class(caught.value) == c.ERR_PROC_FAILED
    assert posted.time_ps == TIMEOUT_PS


def test_the_end_of_a_job_is_announced_to_nobody():
    run = failing()
    run.world.shards[0].on_failure(run.world.ranks[1], "killed", False)
    run.world.run()
    assert not run.deaths[0].dead
    assert [death.rank for death in run.deaths[0].deaths] == [1]


def test_who_learns_of_a_death_has_done_with_all_that_depends_on_it():
    run = failing()
    named, other, sent = post(run.world, 0, 2), post(run.world, 0, 3), send(run.world, 0, 2, LARGE)
    collective = post(run.world, 0, 3, Note("Comm.Barrier"))
    learn(run, 0, 2)
    assert [operation.done for operation in (named, other, sent, collective)] == [True, False, True, True]
    assert error_class(named.error) == c.ERR_PROC_FAILED


def test_a_receive_from_any_source_is_only_interrupted():
    run = failing()
    posted = post(run.world, 0, ANY_SOURCE)
    fiber = posted.waiter = run.world.ranks[0].fiber
    learn(run, 0, 2)
    assert not posted.done
    assert fiber.woken == 1


def test_what_is_known_once_is_not_learnt_again():
    run = failing()
    learn(run, 0, 2)
    known = knowledge_of(run.world.ranks[0].mpi).known
    digest = run.world.fabrics[0].digest
    learn(run, 0, 2)
    assert list(known) == [2]
    assert run.world.fabrics[0].digest == digest


def test_ranks_that_learn_the_same_at_the_same_time_share_what_they_know():
    run = failing()
    learn(run, 0, 2)
    learn(run, 1, 2)
    assert knowledge_of(run.world.ranks[0].mpi).known is knowledge_of(run.world.ranks[1].mpi).known


def test_operations_end_before_anybody_goes_on():
    run = failing()
    first, second = post(run.world, 0, 2), post(run.world, 0, 2)
    seen = []
    first.waiter = SimpleNamespace(resume=lambda: seen.append((first.done, second.done)))
    end_operations(run.world.ranks[0], [(first, errors.error(c.ERR_OTHER)), (second, errors.error(c.ERR_OTHER))])
    assert seen == [(True, True)]
    assert not run.world.ranks[0].mpi.pending()


def test_the_sender_of_a_lost_control_message_finds_out_after_the_timeout():
    run = failing()
    fabric, told = run.world.fabrics[0], []
    fabric.control[9] = ControlHandler(
        "part", lambda *_: None, lambda rank, to, what: told.append((rank.number, to, what))
    )
    die(run.world, 2)
    fabric.send_control(run.world.ranks[0], 2, 9, "news", 0, 0)
    run.world.run()
    assert told == [(0, 2, "news")]
    ((time_ps, how),) = run.world.ranks[0].mpi.knowledge.known.values()
    assert (time_ps, how) == (10 + LATENCY_PS + TIMEOUT_PS, "timeout")


# --------------------------------------------------------------------------------------------------- the guard


def refused(run: Any, peer: int | None, **more: bool) -> int | None:
    error = run.guard.refusal(run.world.comms[0], peer, **more)
    return None if error is None else error_class(error)


def test_who_knows_nothing_is_refused_nothing():
    assert refused(failing(), 2, collective=True) is None


def test_calls_to_a_rank_that_is_known_to_be_dead_are_refused():
    run = failing()
    learn(run, 0, 2)
    assert refused(run, 2) == c.ERR_PROC_FAILED
    assert refused(run, 3) is None


def test_a_collective_is_refused_for_any_dead_member_unless_it_survives_that():
    run = failing()
    learn(run, 0, 2)
    assert refused(run, None, collective=True) == c.ERR_PROC_FAILED
    assert refused(run, None, collective=True, survives=True) is None


def test_a_revoked_communicator_refuses_all_before_it_asks_for_the_dead():
    run = failing()
    learn(run, 0, 2)
    knowledge_of(run.world.ranks[0].mpi).revoked = frozenset({run.world.context.cid})
    assert refused(run, 2) == refused(run, 3) == c.ERR_REVOKED


def test_a_blocking_receive_from_any_source_is_refused_until_the_failure_is_acknowledged():
    run = failing()
    learn(run, 0, 2)
    send(run.world, 1, 0)
    run.world.run()
    with run.world.acting(0) as comm:
        with pytest.raises(errors.Exception) as caught:
            receive(comm, ANY_SOURCE, 7, comm.cid, "Recv")
        assert error_class(caught.value) == c.ERR_PROC_FAILED
        comm.acknowledge(None)
        assert receive(comm, ANY_SOURCE, 7, comm.cid, "Recv").source == 1


def test_a_request_from_any_source_stays_active_where_its_wait_is_refused():
    run = failing()
    posted = post(run.world, 0, ANY_SOURCE)
    learn(run, 0, 2)
    with run.world.acting(0), pytest.raises(errors.Exception) as caught:
        wait(posted)
    assert error_class(caught.value) == c.ERR_PROC_FAILED_PENDING
    assert not posted.done
    assert run.world.ranks[0].mpi.pending() == [posted]


def test_a_blocking_receive_from_any_source_ends_where_it_was_interrupted():
    run = failing()
    run.world.shards[0].kernel.post(50, 1, lambda _: learn(run, 0, 2), None)
    with run.world.acting(0) as comm, pytest.raises(errors.Exception) as caught:
        receive(comm, ANY_SOURCE, 7, comm.cid, "Recv")
    assert error_class(caught.value) == c.ERR_PROC_FAILED
    assert run.world.ranks[0].fiber.clock_ps == 50
    assert not run.world.ranks[0].mpi.pending()


def test_the_data_of_a_sender_that_is_known_to_be_dead_are_not_waited_for():
    run = failing()
    send(run.world, 2, 0, LARGE)
    run.world.run()
    die(run.world, 2)
    learn(run, 0, 2)
    posted = post(run.world, 0, ANY_SOURCE)
    assert posted.done
    assert error_class(posted.error) == c.ERR_PROC_FAILED
