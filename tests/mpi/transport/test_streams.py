"""Streams of messages that must not overtake each other."""

import pytest

from xsim_py.mpi.transport.message import CONTROL, EAGER, Message
from xsim_py.mpi.transport.streams import LastArrivals, stream_of


@pytest.mark.parametrize("in_flight", [1 << 15, 200_000])
def test_pruning_takes_constant_time_per_message(in_flight: int) -> None:
    """However many are in flight, each insertion looks at three streams at most, on average."""
    arrivals, looked_at = LastArrivals(), 0
    for number in range(in_flight):
        arrivals[number, 0, 2, 0] = number + in_flight  # none has arrived when the last one is sent
        if len(arrivals) > arrivals.limit:
            looked_at += len(arrivals)
            arrivals.prune(number)
    assert len(arrivals) == in_flight
    assert looked_at < 3 * in_flight


def test_streams_with_nothing_in_flight_are_forgotten() -> None:
    """Memory follows the messages in flight, down as well as up."""
    arrivals = LastArrivals({(number, 0, 2, 0): number for number in range(100_000)})
    arrivals.prune(99_997)
    assert arrivals == {(99_998, 0, 2, 0): 99_998, (99_999, 0, 2, 0): 99_999}
    assert arrivals.limit == LastArrivals.limit


def test_only_what_might_meet_the_same_receive_keeps_its_order() -> None:
    """MPI 4.1, section 3.5; collectives are told apart by their tags."""

    def stream(cid: int, tag: int, kind: int = EAGER) -> tuple[int, int, int, int] | None:
        return stream_of(Message(0, (cid, 0, tag, b"", 0, kind, 0, 2, 1, 0, 0, None)))

    assert stream(2, 5) == stream(2, 6) == (1, 2, 2, 0)
    assert stream(3, 5) != stream(3, 6)
    assert stream(0, 5) is None
    assert stream(0, 5, CONTROL) is not None
