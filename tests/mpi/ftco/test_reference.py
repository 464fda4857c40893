"""A node under the rules of the authors' simulator: whom it turns to when somebody is dead."""

from __future__ import annotations

from xsim_py.mpi.ftco.node import ACK, ANY, DATA, KEEPALIVE, NodePacket, SendAction, TakeAction
from xsim_py.mpi.ftco.reference import ReferenceNode
from xsim_py.mpi.ftco.trees import Timing, Tree, tree


def node(me: int, shape: Tree, **more: object) -> ReferenceNode:
    timing = Timing(shape, latency=10, overhead=1)
    made = ReferenceNode(me, shape, timing, service=lambda *_: ANY, **more)
    made.enter(0)
    return made


def data(source: int, *, distance: int = 1, have: int | None = None) -> NodePacket:
    return NodePacket(DATA, source, distance, 1 << source if have is None else have)


def sent_by(actor: ReferenceNode, start: int, steps: int) -> list[tuple[int, int]]:
    """Kind and receiver of what it sends in some steps."""
    actions = [actor.act(now) for now in range(start, start + steps)]
    return [(action.packet.kind, action.dest) for action in actions if isinstance(action, SendAction)]


BINARY = tree(15, "kary", radix=2)  # 0: 1 2; 1: 3 5; 2: 4 6; 3: 7 11; 5: 9 13


def test_the_shape_of_these_tests() -> None:
    assert [BINARY.children(each) for each in (0, 1, 3, 5)] == [[1, 2], [3, 5], [7, 11], [9, 13]]


def test_values_go_up_when_all_are_here_and_receipts_follow() -> None:
    actor = node(3, BINARY)
    assert sent_by(actor, 0, 5) == []
    actor.deliver(data(7), 5)
    actor.deliver(data(11), 5)
    assert isinstance(actor.act(5), TakeAction)
    # One DATA comes before the receipt for the other; what is owed to a node is settled by anything that asks it.
    assert isinstance(actor.act(6), TakeAction)
    assert sent_by(actor, 7, 3) == [(DATA, 1), (ACK, 7), (ACK, 11)]


def test_children_of_the_dead_are_adopted() -> None:
    actor = node(1, BINARY)
    actor.deliver(data(5, have=1 << 5 | 1 << 9 | 1 << 13), 0)
    assert isinstance(actor.act(0), TakeAction)
    actor.died(3, 40)
    assert list(actor.contacts) == [0, 3, 5, 7, 11]
    assert [actor.contacts[each].distance for each in (7, 11)] == [2, 2]
    assert actor.have >> 3 & 1
    # It asks them at once, for the first death resets what it expects; it waits for both before it sends.
    assert (KEEPALIVE, 7) in sent_by(actor, 41, 6)
    actor.deliver(data(7, distance=2), 60)
    actor.deliver(data(11, distance=2), 60)
    assert (DATA, 0) in sent_by(actor, 60, 4)


def test_a_father_is_replaced_by_his() -> None:
    actor = node(7, BINARY)
    assert sent_by(actor, 0, 1) == [(DATA, 3)]
    actor.died(3, 30)
    assert sent_by(actor, 30, 1) == [(DATA, 1)]
    actor.died(1, 80)
    assert sent_by(actor, 80, 1) == [(DATA, 0)]
    assert actor.contacts[0].distance == 3
    assert actor.dead == {1, 3}


def test_who_writes_across_the_tree_tells_that_all_between_are_dead() -> None:
    above = node(0, BINARY)
    above.deliver(data(7, distance=3), 5)
    assert isinstance(above.act(5), TakeAction)
    assert above.dead == {1, 3}
    assert above.contacts[5].distance == 2
    assert [above.contacts[each].distance for each in (7, 11)] == [3, 3]
    below = node(7, BINARY)
    sent_by(below, 0, 1)
    below.deliver(NodePacket(KEEPALIVE, 0, 3), 5)
    assert isinstance(below.act(5), TakeAction)
    assert below.dead == {1, 3}
    assert sent_by(below, 6, 1) == [(DATA, 0)]


def test_what_the_dead_have_sent_is_not_used() -> None:
    actor = node(1, BINARY)
    actor.died(3, 5)
    actor.deliver(data(3, have=1 << 3 | 1 << 7 | 1 << 11), 6)
    sent_by(actor, 6, 20)
    assert not actor.have >> 7 & 1


ROOTS = tree(12, radix=4, roots="multi")  # 0: 4 8; 1: 5 9; 2: 6 10; 3: 7 11


def test_roots_adopt_the_children_of_a_dead_root() -> None:
    for me, dead in ((1, 3), (3, 1), (0, 2)):
        actor = node(me, ROOTS)
        actor.died(dead, 50)
        assert actor.dead == {dead}
        assert {each for each, contact in actor.contacts.items() if contact.distance == 2} == set(ROOTS.children(dead))


def test_children_of_a_dead_root_turn_to_all_other_roots() -> None:
    actor = node(7, ROOTS)
    sent_by(actor, 0, 1)
    actor.died(3, 50)
    assert sent_by(actor, 50, 3) == [(DATA, 0), (DATA, 1), (DATA, 2)]


def test_every_notice_of_a_death_puts_a_node_back() -> None:
    actor = node(1, ROOTS)
    full = (1 << 12) - 1
    for source in (5, 9, 2, 3, 0):
        actor.deliver(data(source, have=full & ~(1 << 1)), 20)
    first = sent_by(actor, 20, 30)
    values = [(DATA, 2), (DATA, 3), (DATA, 0), (DATA, 5), (DATA, 9)]
    assert [each for each in first if each[0] == DATA] == values
    assert actor.finished
    actor.died(9, 60)
    again = [(DATA, 2), (DATA, 3), (DATA, 0), (DATA, 5)]
    assert sent_by(actor, 60, 5) == again
    assert actor.finished
    actor.died(9, 70)
    assert not actor.finished
    assert sent_by(actor, 70, 5) == again
    assert actor.finish_time < 60, "it is the first time that counts"


def test_a_finished_node_is_deaf() -> None:
    actor = node(7, BINARY)
    sent_by(actor, 0, 1)
    actor.deliver(data(3, have=(1 << 15) - 1), 30)
    sent_by(actor, 30, 2)
    assert actor.finish_time == 31
    actor.deliver(NodePacket(KEEPALIVE, 3, 1), 32)
    assert sent_by(actor, 32, 20) == []
    assert actor.wake(60) is None


def test_before_its_start_a_node_answers_in_the_same_step_and_once_more_after() -> None:
    timing = Timing(BINARY, latency=10, overhead=1)
    actor = ReferenceNode(3, BINARY, timing, service=lambda *_: ANY)
    actor.deliver(data(7), 4)
    assert actor.wake(4) is None, "DATA waits"
    actor.deliver(NodePacket(KEEPALIVE, 1, 1), 5)
    action = actor.act(5)
    assert isinstance(action, SendAction)
    assert (action.packet.kind, action.dest) == (ACK, 1)
    assert actor.act(6) is None
    actor.enter(9)
    assert sent_by(actor, 9, 3) == [(ACK, 1), (ACK, 7)]


def test_an_unanswered_question_is_not_repeated() -> None:
    actor = node(1, BINARY)
    asked = sent_by(actor, 0, 400)
    assert sorted(asked) == [(KEEPALIVE, 0), (KEEPALIVE, 3), (KEEPALIVE, 5)]


def test_questions_only_to_those_who_have_not_arrived() -> None:
    actor = node(1, BINARY, ask_all=False)
    actor.deliver(data(5), 10)
    asked = [dest for kind, dest in sent_by(actor, 10, 400) if kind == KEEPALIVE]
    assert sorted(asked) == [0, 3]
