"""A frame is heard as it was sent, whatever the sizes of its buffers."""

import _socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from xsim_py.engine.frame_socket import Closed, FrameSocket


def linked(waiting: Callable[[], None] | None = None) -> tuple[FrameSocket, FrameSocket]:
    ours, theirs = _socket.socketpair()
    if waiting is not None:
        ours.settimeout(0.001)
    return FrameSocket(ours, waiting), FrameSocket(theirs)


def passed(what: Any, buffers: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    one, other = linked()
    thread = threading.Thread(target=one.send, args=(what, buffers))
    thread.start()
    heard = other.receive()
    thread.join()
    return heard


@pytest.mark.parametrize("sizes", [[], [0, 5], [20_000, 20_000, 1], [1 << 15], [(1 << 15) + 1], [1, 300_000]], ids=str)
def test_a_frame_is_passed_on_as_it_was(sizes: list[int]):
    """In parts, too: what came with much may go on with little."""
    sent = [bytes([number]) * size for number, size in enumerate(sizes)]
    what, buffers = passed(("to", 3), sent)
    assert (what, buffers) == (("to", 3), sent)
    assert passed(what, buffers) == (what, sent)
    for buffer in buffers:
        assert passed(what, [buffer]) == (what, [buffer])


def test_an_object_that_is_longer_than_the_place_for_it_comes_whole():
    assert passed("x" * 200_000, [b"y"]) == ("x" * 200_000, [b"y"])


def test_who_waits_is_called_until_the_other_end_is_gone():
    calls = []

    def waiting() -> None:
        calls.append(1)
        if len(calls) == 2:
            theirs.close()

    ours, theirs = linked(waiting)
    with pytest.raises(Closed):
        ours.receive()
    assert len(calls) == 2
