"""The eager, the synchronous and the rendezvous protocol: times, and what a message keeps on its way."""

import pytest

from tests.mpi.parts import LATENCY_PS, OVERHEAD_PS, World
from xsim_py.mpi import errors
from xsim_py.mpi.constants import ANY_TAG, ERR_OTHER
from xsim_py.mpi.transport.fabric import occupy_nic
from xsim_py.mpi.transport.message import CONTROL, RENDEZVOUS, Message
from xsim_py.mpi.transport.p2p import (
    BUFFERED_MODE,
    STANDARD_MODE,
    SYNC_MODE,
    SendCall,
    complete,
    receive,
    start_receive,
    start_send,
    wait,
)
from xsim_py.mpi.transport.protocols import ControlHandler

SMALL, LARGE = b"x" * 10, b"x" * 200
SMALL_PS, LARGE_PS = 20, 400  # on the wire
EITHER = pytest.mark.parametrize("shards", [1, 2])


def send(world: World, source: int, dest: int, data: bytes, mode: int = STANDARD_MODE, tag: int = 7):
    with world.acting(source) as comm:
        return start_send(comm, dest, tag, data, comm.cid, SendCall("Send", mode), None)


def post(world: World, rank: int, source: int, tag: int = 7):
    with world.acting(rank) as comm:
        return start_receive(comm, source, tag, comm.cid, "Recv")


def take(world: World, rank: int, source: int, tag: int = 7) -> Message:
    with world.acting(rank) as comm:
        return receive(comm, source, tag, comm.cid, "Recv")


@EITHER
def test_an_eager_message_takes_the_wire_and_the_latency(shards):
    world = World(2, shards)
    assert send(world, 0, 1, SMALL) is None
    assert world.ranks[0].fiber.clock_ps == OVERHEAD_PS
    taken = take(world, 1, 0)
    assert taken.data == SMALL
    assert taken.arrival_ps == OVERHEAD_PS + SMALL_PS + LATENCY_PS
    assert world.ranks[1].fiber.clock_ps == taken.arrival_ps + OVERHEAD_PS


@EITHER
def test_a_message_keeps_all_that_it_says_of_itself(shards):
    world = World(2, shards)
    world.ranks[0].mpi.ticket = 3
    note = ("a collective", 4)
    with world.acting(0) as comm:
        start_send(comm, 1, 7, LARGE, comm.cid | 1, SendCall(""), note)
    world.run()
    (there,) = world.ranks[1].mpi.all_kept()
    assert (there.cid, there.source, there.tag, there.data) == (3, 0, 7, b"")
    assert (there.size_bytes, there.kind, there.overhead_ps) == (len(LARGE), RENDEZVOUS, OVERHEAD_PS)
    assert (there.to, there.origin, there.ticket, there.note) == (1, 0, 4, note)
    assert there.check


@EITHER
def test_data_above_the_threshold_leave_when_the_receiver_has_answered(shards):
    world = World(2, shards)
    sent = send(world, 0, 1, LARGE)
    posted = post(world, 1, 0)
    world.run()
    left_ps = OVERHEAD_PS + 2 * LATENCY_PS
    assert posted.message.data == LARGE
    assert posted.time_ps == left_ps + LARGE_PS + LATENCY_PS
    assert sent.time_ps == left_ps + LARGE_PS


def test_a_rendezvous_waits_for_a_late_receive():
    world = World(2)
    sent = send(world, 0, 1, LARGE)
    world.run()
    assert not sent.done
    world.ranks[1].fiber.clock_ps = 5000
    posted = post(world, 1, 0)
    world.run()
    assert sent.done
    assert posted.time_ps == 5000 + LATENCY_PS + LARGE_PS + LATENCY_PS


@EITHER
def test_a_synchronous_send_is_complete_when_the_match_is_acknowledged(shards):
    world = World(2, shards)
    sent = send(world, 0, 1, SMALL, SYNC_MODE)
    post(world, 1, 0)
    world.run()
    assert sent.time_ps == OVERHEAD_PS + SMALL_PS + 2 * LATENCY_PS


def test_nobody_waits_for_a_buffered_send():
    world = World(2)
    assert send(world, 0, 1, LARGE, BUFFERED_MODE) is None
    assert take(world, 1, 0).data == LARGE


def test_messages_leave_one_after_the_other():
    world = World(3)
    send(world, 0, 1, SMALL)
    send(world, 0, 2, SMALL)
    assert take(world, 2, 0).arrival_ps - take(world, 1, 0).arrival_ps == SMALL_PS


def test_messages_between_two_ranks_do_not_overtake():
    world = World(2)
    for tag in (3, 4, 3):
        send(world, 0, 1, bytes([tag]), tag=tag)
    assert [take(world, 1, 0, ANY_TAG).tag for _ in range(3)] == [3, 4, 3]


def test_who_waits_pays_for_the_time_until_the_message_comes():
    world = World(2)
    send(world, 0, 1, SMALL)
    take(world, 1, 0)
    assert world.fabrics[0].waited_ps == [0, OVERHEAD_PS + SMALL_PS + LATENCY_PS]


def test_a_wait_ends_at_the_time_of_the_operation():
    world = World(2)
    sent = send(world, 0, 1, LARGE)
    post(world, 1, 0)
    with world.acting(0):
        wait(sent)
    assert world.ranks[0].fiber.clock_ps == sent.time_ps


def test_to_complete_an_operation_leaves_its_error_in_it():
    world = World(2)
    sent = send(world, 0, 1, LARGE)
    sent.error, sent.done = errors.error(ERR_OTHER, "gone"), True
    with world.acting(0):
        complete(sent)
        with pytest.raises(errors.Exception, match="gone"):
            wait(sent)


def test_the_network_interface_is_given_to_one_after_the_other():
    (rank,) = World(1).ranks
    assert occupy_nic(rank, 5, 10) == 5
    assert occupy_nic(rank, 7, 10) == 15
    assert occupy_nic(rank, 40, 10) == 40
    assert rank.nic_free_ps == 50


# -------------------------------------------------------------------------------------------- control messages


@EITHER
def test_a_control_message_goes_to_the_handler_of_its_tag(shards):
    world = World(2, shards)
    heard = []
    for fabric in world.fabrics:
        fabric.control[9] = ControlHandler("part", lambda rank, message: heard.append((rank.number, message)))
    free_ps = world.fabrics[0].send_control(world.ranks[0], 1, 9, "news", 50, 100)
    assert free_ps == 100 + OVERHEAD_PS
    world.run()
    ((number, message),) = heard
    assert (number, message.kind, message.origin, message.note) == (1, CONTROL, 0, "news")
    assert message.arrival_ps == free_ps + 100 + LATENCY_PS


def test_what_a_rank_has_not_given_to_its_interface_dies_with_it():
    world = World(2)
    world.fabrics[0].control[9] = ControlHandler("part", lambda rank, message: pytest.fail("it has come"))
    world.fabrics[0].send_control(world.ranks[0], 1, 9, "news", 50, 100)
    world.fabrics[0].close(world.ranks[0])
    world.run()


@pytest.mark.parametrize("minded", [True, False])
def test_a_control_message_to_a_dead_rank_bounces_where_its_sender_has_to_know(minded):
    world = World(2)
    fabric, bounced = world.fabrics[0], []
    fabric.bounce = lambda rank, message: bounced.append((rank.number, message.note))
    fabric.control[9] = ControlHandler(
        "part", lambda rank, message: pytest.fail("taken"), (lambda *_: None) if minded else None
    )
    fabric.close(world.ranks[1])
    fabric.send_control(world.ranks[0], 1, 9, "news", 50, 0)
    world.run()
    assert bounced == ([(1, "news")] if minded else [])


# ------------------------------------------------------------------------------------------------- the digest


@EITHER
def test_the_digest_is_that_of_one_shard_and_depends_on_what_is_sent(shards):
    def digest(data: bytes) -> int:
        world = World(2, shards)
        send(world, 0, 1, data)
        world.run()
        return sum(fabric.digest for fabric in world.fabrics)

    alone = World(2)
    send(alone, 0, 1, SMALL)
    alone.run()
    assert digest(SMALL) == alone.fabrics[0].digest != digest(b"y" * len(SMALL))
