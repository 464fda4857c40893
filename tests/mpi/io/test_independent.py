"""Access to pieces of a file by data sieving: what is read and written, and in how many requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.mpi.io import independent
from xsim_py.mpi.io.view import Pieces


class Memory:
    """A file in memory that notes what is asked of it."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.asked: list[tuple[str, int, int]] = []

    def read(self, start: int, size: int) -> bytes:
        self.asked.append(("read", start, size))
        return bytes(self.data[start : start + size])

    def write(self, start: int, data: bytes) -> None:
        self.asked.append(("write", start, len(data)))
        self.data.extend(bytes(max(start + len(data) - len(self.data), 0)))
        self.data[start : start + len(data)] = data

    def scatter(self, pieces: Pieces, data: bytes) -> None:
        position = 0
        for start, size in zip(pieces.starts.tolist(), pieces.sizes.tolist(), strict=True):
            self.write(start, data[position : position + size])
            self.asked.pop()
            position += size
        self.asked.append(("scatter", pieces.low, pieces.high - pieces.low))

    def size(self) -> int:
        return len(self.data)

    def resize(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


def pieces(*runs: tuple[int, int]) -> Pieces:
    return Pieces(np.array([at for at, _ in runs], np.int64), np.array([n for _, n in runs], np.int64))


@st.composite
def some_pieces(draw: st.DrawFn) -> Pieces:
    runs, end = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)):
        runs.append((end + gap, length))
        end += gap + length
    return pieces(*runs)


def taken(data: bytes, wanted: Pieces) -> bytes:
    return b"".join(data[at : at + n] for at, n in zip(wanted.starts.tolist(), wanted.sizes.tolist(), strict=True))


@given(some_pieces(), st.integers(0, 250), st.integers(0, 60))
def test_what_is_read_are_the_pieces_as_far_as_the_file_goes(wanted: Pieces, size: int, buffer_bytes: int):
    data = bytes(range(size))
    assert independent.read(Memory(data), wanted, buffer_bytes=buffer_bytes) == taken(data, wanted)


@given(some_pieces(), st.integers(0, 250), st.integers(0, 60))
def test_what_is_written_are_the_pieces_and_nothing_else(wanted: Pieces, size: int, buffer_bytes: int):
    file, data = Memory(b"." * size), bytes(range(1, wanted.total + 1))
    independent.write(file, wanted, data, buffer_bytes=buffer_bytes)
    assert taken(bytes(file.data), wanted) == data
    outside = np.ones(len(file.data), bool)
    for at, n in zip(wanted.starts, wanted.sizes, strict=True):
        outside[at : at + n] = False
    assert set(np.frombuffer(bytes(file.data), "u1")[outside].tolist()) <= {0, ord(".")}
    assert file.size() == max(size, wanted.high)


@pytest.mark.parametrize("buffer_bytes", [0, 1, 1000])
def test_one_run_is_one_request_of_any_size(buffer_bytes: int):
    file = Memory(bytes(5000))
    independent.read(file, pieces((10, 4000)), buffer_bytes=buffer_bytes)
    independent.write(file, pieces((10, 4000)), bytes(4000), buffer_bytes=buffer_bytes)
    assert file.asked == [("read", 10, 4000), ("write", 10, 4000)]


def test_what_is_for_others_goes_through_the_buffer():
    file = Memory(bytes(5000))
    independent.read(file, pieces((10, 250)), buffer_bytes=100, direct=False)
    independent.write(file, pieces((10, 150)), bytes(150), buffer_bytes=100, direct=False)
    assert file.asked == [
        ("read", 10, 100),
        ("read", 110, 100),
        ("read", 210, 50),
        ("write", 10, 100),
        ("write", 110, 50),
    ]


def test_a_buffer_takes_holes_along_and_skips_those_between_chunks():
    file = Memory(bytes(1000))
    wanted = pieces((0, 10), (20, 10), (95, 10), (600, 5), (610, 5))
    independent.read(file, wanted, buffer_bytes=100)
    assert file.asked == [("read", 0, 100), ("read", 100, 5), ("read", 600, 15)]
    file.asked.clear()
    independent.write(file, wanted, bytes(wanted.total), buffer_bytes=100)
    assert file.asked == [("scatter", 0, 100), ("write", 100, 5), ("scatter", 600, 15)]


def test_without_a_buffer_each_piece_is_a_request():
    file = Memory(bytes(1000))
    independent.read(file, pieces((0, 10), (20, 10)), buffer_bytes=0)
    independent.write(file, pieces((0, 10), (20, 10)), bytes(20), buffer_bytes=0)
    assert file.asked == [("read", 0, 10), ("read", 20, 10), ("write", 0, 10), ("write", 20, 10)]
