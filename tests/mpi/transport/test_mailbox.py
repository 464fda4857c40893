"""Matching: which receive takes which message, and which message a receive takes."""

import pytest

from tests.mpi.parts import World
from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG
from xsim_py.mpi.transport.mailbox import ClosedMailbox, Mailbox, Probe
from xsim_py.mpi.transport.message import EAGER, Message, Receive

CID = 2


@pytest.fixture
def world() -> World:
    return World(2)


@pytest.fixture
def box(world: World) -> Mailbox:
    return world.ranks[0].mpi


def receive(box: Mailbox, source: int, tag: int, cid: int = CID) -> Receive:
    comm = type("Side", (), {"box": box})()
    operation = Receive(comm, cid, source, tag, 0, "Recv")
    box.post(operation)
    return operation


def message(source: int, tag: int, cid: int = CID) -> Message:
    return Message(0, (cid, source, tag, b"", 0, EAGER, 0, 0, source, 0, 0, None))


def kept(box: Mailbox, source: int, tag: int, cid: int = CID) -> Message:
    made = message(source, tag, cid)
    box.keep(made)
    return made


def test_the_only_receive_has_a_place_of_its_own(box):
    posted = receive(box, 1, 7)
    assert box.lone is posted
    assert not box.posted


@pytest.mark.parametrize(
    ("source", "tag", "fits"),
    [
        (1, 7, True),
        (1, ANY_TAG, True),
        (ANY_SOURCE, 7, True),
        (ANY_SOURCE, ANY_TAG, True),
        (0, 7, False),
        (1, 8, False),
    ],
)
def test_a_receive_takes_a_message_of_its_source_and_tag(box, source, tag, fits):
    posted = receive(box, source, tag)
    assert box.match(message(1, 7)) is (posted if fits else None)


def test_a_receive_of_another_context_takes_nothing(box):
    receive(box, 1, 7, cid=4)
    assert box.match(message(1, 7)) is None


def test_of_the_receives_that_fit_the_one_posted_first_is_taken(box):
    wild, named, later = receive(box, ANY_SOURCE, 7), receive(box, 1, ANY_TAG), receive(box, 1, 7)
    assert [box.match(message(1, 7)) for _ in range(4)] == [wild, named, later, None]


def test_a_receive_posted_alone_is_still_older_than_those_posted_after_it(box):
    first, second = receive(box, 1, 7), receive(box, ANY_SOURCE, 7)
    assert box.lone is None
    assert [box.match(message(1, 7)), box.match(message(1, 7))] == [first, second]


def test_who_does_not_fit_is_passed_over_and_stays(box):
    other, posted = receive(box, 1, 8), receive(box, 1, 7)
    assert box.match(message(1, 7)) is posted
    assert box.match(message(1, 8)) is other


def test_a_receive_that_is_taken_back_takes_nothing(box):
    for source in (1, ANY_SOURCE):
        posted = receive(box, source, 7)
        assert box.unpost(posted)
        assert not box.unpost(posted)
        assert box.match(message(1, 7)) is None


def test_messages_of_one_source_are_taken_in_the_order_of_their_arrival(box):
    first, other, second = kept(box, 1, 7), kept(box, 1, 8), kept(box, 1, 7)
    assert [box.take(CID, 1, 7) for _ in range(3)] == [first, second, None]
    assert box.take(CID, 1, ANY_TAG) is other


def test_from_any_source_the_message_that_came_first_is_taken(box):
    first, second, third = kept(box, 1, 7), kept(box, 0, 7), kept(box, 1, 7)
    assert box.take(CID, 0, 7) is second
    assert [box.take(CID, ANY_SOURCE, 7) for _ in range(3)] == [first, third, None]


def test_what_comes_after_a_look_at_any_source_is_found_too(box):
    assert box.take(CID, ANY_SOURCE, 7) is None
    late = kept(box, 1, 7)
    assert box.look(CID, ANY_SOURCE, ANY_TAG) is late
    assert box.take(CID, ANY_SOURCE, 7) is late


def test_to_look_leaves_the_message_where_it_is(box):
    there = kept(box, 1, 7)
    assert box.look(CID, 1, ANY_TAG) is there
    assert box.take(CID, 1, 7) is there
    assert box.look(CID, 1, 7) is None


def test_a_message_of_another_context_is_not_taken(box):
    kept(box, 1, 7, cid=4)
    assert box.take(CID, 1, 7) is None
    assert box.take(CID, ANY_SOURCE, ANY_TAG) is None


def test_a_probe_that_waits_is_given_the_message_that_it_wants(world, box):
    fiber = world.ranks[0].fiber
    probe = Probe(world.comms[0], CID, ANY_SOURCE, 7, fiber, "Comm.Probe")
    box.probes = [probe]
    kept(box, 1, 8)
    assert not probe.done
    wanted = kept(box, 1, 7)
    assert probe.done
    assert probe.message is wanted
    assert fiber.woken == 1


def test_all_that_was_never_received_is_listed_in_order_of_arrival(box):
    messages = [kept(box, 1, 7), kept(box, 0, 3), kept(box, 1, 7, cid=4)]
    box.take(CID, 0, 3)
    assert box.all_kept() == [messages[0], messages[2]]


def test_what_comes_for_a_dead_rank_vanishes(box):
    closed = ClosedMailbox(box)
    receive(closed, 1, 7)
    assert closed.match(message(1, 7)) is None
    closed.keep(message(1, 7))
    assert not closed.all_kept()
