"""Views of files: which bytes of a file the stream of a view is made of, against counting them one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.mpi import constants as c
from xsim_py.mpi import construct
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import Exception as Error
from xsim_py.mpi.io.representation import in_file
from xsim_py.mpi.io.view import View, clipped, made, plain_view
from xsim_py.mpi.predefined import PREDEFINED

INT, DOUBLE, BYTE, LONG = (PREDEFINED[name] for name in ("INT", "DOUBLE", "BYTE", "LONG"))


@st.composite
def filetypes(draw: st.DrawFn) -> Type:
    """Blocks of ints in rising order, with gaps between them, before the first and behind the last."""
    parts = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=5))
    places, lengths, end = [], [], 0
    for gap, length in parts:
        places.append(end + gap)
        lengths.append(length)
        end = places[-1] + length
    made = construct.indexed(INT, lengths, places)
    return construct.resized(made, 0, 4 * (end + draw(st.integers(0, 3))))


def stream(view: View, copies: int) -> np.ndarray:
    """The places of the bytes of a view, counted one by one."""
    offsets, lengths = view.filetype.layout.blocks()
    tile = np.concatenate([np.arange(at, at + n) for at, n in zip(offsets.tolist(), lengths.tolist(), strict=True)])
    return np.concatenate([view.displacement + copy * view.filetype.extent + tile for copy in range(copies)])


def places(view: View, start: int, size: int) -> list[int]:
    pieces = view.pieces(start, size)
    runs = zip(pieces.starts.tolist(), pieces.sizes.tolist(), strict=True)
    return [place for at, n in runs for place in range(at, at + n)]


@given(filetypes(), st.integers(0, 20), st.integers(0, 100), st.integers(0, 100))
def test_a_part_of_the_stream_is_where_counting_finds_it(filetype: Type, displacement: int, start: int, size: int):
    view = View(displacement, INT, filetype)
    everything = stream(view, 60)
    assert places(view, start, size) == everything[start : start + size].tolist()
    assert view.place(start) == everything[start]


@given(filetypes(), st.integers(0, 20), st.integers(0, 200))
def test_a_file_has_so_many_bytes_of_the_stream(filetype: Type, displacement: int, file_size: int):
    view = View(displacement, INT, filetype)
    assert view.stream_size(file_size) == (stream(view, 60) < file_size).sum()


@given(filetypes(), st.integers(0, 40), st.integers(1, 80))
def test_pieces_are_as_few_as_can_be(filetype: Type, start: int, size: int):
    pieces = View(0, INT, filetype).pieces(start, size)
    assert (pieces.sizes > 0).all()
    assert (pieces.starts[1:] > (pieces.starts + pieces.sizes)[:-1]).all()
    assert (pieces.low, pieces.high, pieces.total) == (pieces.starts[0], (pieces.starts + pieces.sizes)[-1], size)


@given(filetypes(), st.integers(0, 60), st.integers(0, 60))
def test_pieces_are_cut_at_the_borders_of_a_range(filetype: Type, low: int, length: int):
    view = View(0, INT, filetype)
    part = clipped(view.pieces(0, 80), low, low + length)
    found = [place for at, n in zip(part.starts, part.sizes, strict=True) for place in range(at, at + n)]
    assert found == [place for place in places(view, 0, 80) if low <= place < low + length]


def test_all_bytes_are_one_piece_at_any_size():
    view = plain_view(7)
    pieces = view.pieces(3, 10**12)
    assert (pieces.low, len(pieces), pieces.total) == (10, 1, 10**12)
    assert (view.place(5), view.stream_size(3), view.stream_size(20)) == (12, 0, 13)
    assert len(view.pieces(5, 0)) == 0


@pytest.mark.parametrize(
    ("etype", "filetype", "code"),
    [
        (DOUBLE, INT, c.ERR_ARG),
        (INT, construct.hindexed(INT, [1], [-4]), c.ERR_IO),
        (INT, construct.indexed(INT, [1, 1], [3, 0]), c.ERR_IO),
        (INT, construct.indexed(INT, [2, 2], [0, 1]), c.ERR_IO),
    ],
)
def test_what_can_be_no_view_is_refused(etype: Type, filetype: Type, code: int):
    with pytest.raises(Error) as refused:
        View(0, etype, filetype).check(writable=True)
    assert refused.value.Get_error_class() == code


def test_the_same_bytes_may_be_read_twice_but_not_written():
    twice = View(0, INT, construct.indexed(INT, [2, 2], [0, 1]))
    twice.check(writable=False)
    assert twice.pieces(0, 16).overlap
    assert places(twice, 0, 16) == [*range(8), *range(4, 12)]


def test_uncommitted_types_and_unknown_representations_are_refused():
    with pytest.raises(Error) as refused:
        made(INT, construct.contiguous(INT, 2), "native")
    assert refused.value.Get_error_class() == c.ERR_TYPE
    with pytest.raises(Error) as refused:
        made(INT, INT, "nonsense")
    assert refused.value.Get_error_class() == c.ERR_UNSUPPORTED_DATAREP


def test_in_external32_a_type_has_the_extent_of_its_standard_sizes():
    assert in_file("native", LONG) is LONG
    assert in_file("external32", LONG).extent == 4
    assert in_file("external32", construct.vector(LONG, 3, 1, 2)).extent == 20
    assert in_file("external32", construct.subarray(LONG, (4, 4), (2, 2), (1, 1), c.ORDER_C)).size == 16
    structure = construct.struct([1, 2], [0, 8], [INT, construct.duplicate(DOUBLE)])
    assert in_file("external32", structure).layout.blocks()[0].tolist() == [0, 8]
    pieces = View(0, LONG, construct.resized(LONG, 0, 16), "external32").pieces(0, 12)
    assert (pieces.starts.tolist(), pieces.sizes.tolist()) == ([0, 16, 32], [4, 4, 4])
