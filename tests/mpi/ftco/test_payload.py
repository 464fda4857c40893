"""What travels in FTCO's messages, and how long it is."""

from itertools import permutations

import pytest

from xsim_py.mpi.ftco.node import ACK, DATA, NodePacket
from xsim_py.mpi.ftco.paper import Piece, TreeResult, Up
from xsim_py.mpi.ftco.payload import HEADER_BYTES, Contributions, Folded, fold_parts, folding, gathering, packet_bytes

NOBODY: frozenset[int] = frozenset()


def joined(left: bytes, right: bytes) -> bytes:
    return left + right


def refused(left: bytes, right: bytes) -> bytes:
    raise TypeError


def parts(rank: int, data: bytes, low: int = 1, *, plain: bool = False) -> Contributions:
    return Contributions(low, {rank: data}, len(data), plain)


def test_folds_are_made_in_the_order_given_and_know_the_least_that_all_have_done() -> None:
    given = {0: Folded(7, b"a"), 3: Folded(5, b"b"), 4: Folded(6, b"c")}
    assert folding(joined)(given) == Folded(5, b"abc")


def test_what_must_stay_in_order_is_kept_apart_until_all_is_there() -> None:
    for order in permutations([(0, b"a"), (1, b"b"), (2, b"c")]):
        taken = gathering()({place: parts(*each) for place, each in enumerate(order)})
        assert fold_parts(taken.parts, joined) == b"abc"
        assert taken.size_bytes == 3 + 3 * 8


def test_plain_objects_are_folded_on_the_way_unless_that_fails() -> None:
    plain = {5: parts(5, b"b", plain=True), 2: parts(2, b"a", plain=True)}
    assert gathering(joined)(plain) == Contributions(1, {2: b"ab"}, 2, True)
    assert gathering(refused)(plain) == Contributions(1, {5: b"b", 2: b"a"}, 2, False)
    mixed = plain | {7: parts(7, b"c")}
    assert gathering(joined)(mixed).parts == {2: b"a", 5: b"b", 7: b"c"}


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [
        (None, 0),
        (Up((Piece(0, NOBODY, Folded(1, bytes(100))),), True), 100),
        (Up((Piece(0, NOBODY, Folded(1, bytes(100))), Piece(1, NOBODY, parts(1, bytes(50)))), True), 100 + 50 + 8 + 4),
        (Up((), True), 0),
        (TreeResult(bytes(30), frozenset((1, 2))), 30),
        (TreeResult(None, frozenset((1, 2))), 0),
    ],
)
@pytest.mark.parametrize("dead", [NOBODY, frozenset((1, 2))])
def test_a_message_is_a_header_its_value_and_the_dead(value: object, size_bytes: int, dead: frozenset[int]) -> None:
    packet = NodePacket(ACK if value is None else DATA, 3, 1, value, dead)
    assert packet_bytes(packet) == HEADER_BYTES + size_bytes + 4 * len(dead)
