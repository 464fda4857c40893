"""Where the elements of arrays lie is compared with what happens to the memory when they are stored to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.checks.elements import bounds, overlap, picked, shared, shares

KEYS = [
    lambda part, draw: np.array(draw(st.lists(st.booleans(), min_size=part.size, max_size=part.size))).reshape(
        part.shape
    ),
    lambda part, draw: np.array(draw(st.lists(st.integers(-len(part), len(part) - 1), max_size=4)), np.intp),
    lambda part, draw: (..., draw(st.lists(st.integers(0, part.shape[-1] - 1), min_size=1, max_size=3))),
]


@st.composite
def _parts(draw):
    """Draw an array of zeros, and a part of it, as a view."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    whole = np.zeros(shape, draw(st.sampled_from(["i2", "f8"])))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 2, -1, -3]))) for _ in shape)
    return whole, whole[steps].T if draw(st.booleans()) else whole[steps]


def _changed(whole):
    """Return the addresses of the bytes of the elements that are no longer zero."""
    firsts = whole.ctypes.data + np.flatnonzero(whole) * whole.itemsize
    return {at for first in firsts.tolist() for at in range(first, first + whole.itemsize)}


def _bytes(pieces):
    assert all(low < high for low, high in pieces)
    return {at for low, high in pieces for at in range(low, high)}


@pytest.mark.parametrize("key_of", KEYS)
@given(st.data())
def test_an_index_picks_the_elements_that_a_store_changes(key_of, data):
    whole, part = data.draw(_parts())
    key = key_of(part, data.draw)
    part[key] = 1
    assert _bytes(picked(part, key)) == _changed(whole)


@given(_parts(), st.integers(0, 100), st.integers(1, 30))
def test_pieces_between_two_addresses_are_those_of_a_part(arrays, start, length):
    whole, part = arrays
    part[...] = 1
    low, high = bounds(part)
    start, end = max(low, whole.ctypes.data + start), min(high, whole.ctypes.data + start + length)
    if start >= end or part.flags.forc:
        return
    inside = _changed(whole) & set(range(start, end))
    assert _bytes(shared(part, start, end)) == inside
    assert shares(part, start, end) == overlap(shared(part, start, end), [(start, end)]) == bool(inside)
