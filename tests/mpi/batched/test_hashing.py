"""Hashes and check sums of many messages at once are those of one message after the other."""

from zlib import crc32

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.mpi.batched.hashing import (
    checks,
    hash_sum,
    ragged_checks,
    tuple_hashes,
    with_zeros,
)

NUMBER = st.integers(0, (1 << 61) - 2)
MASK = (1 << 64) - 1


@given(st.integers(1, 7).flatmap(lambda width: st.lists(st.tuples(*[NUMBER] * width), min_size=1)))
def test_hashes_of_tuples_are_those_of_python(rows):
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    assert tuple_hashes(columns, len(rows)).tolist() == [hash(row) & MASK for row in rows]
    assert hash_sum(columns, len(rows)) == sum(map(hash, rows)) & MASK


@given(st.lists(NUMBER, min_size=1), NUMBER)
def test_a_column_may_be_one_number(numbers, constant):
    found = tuple_hashes([np.array(numbers), constant], len(numbers))
    assert found.tolist() == [hash((number, constant)) & MASK for number in numbers]


@given(
    st.sampled_from([1, 63, 64, 200, 20_000]), st.sampled_from([0, 1, 2, 3, 8, 64, 159, 160, 161]), st.integers(0, 9)
)
def test_check_sums_are_those_of_zlib(count, length, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (count, length), dtype=np.uint8)
    assert checks(rows).tolist() == [crc32(bytes(row)) for row in rows]


@given(st.lists(st.sampled_from([0, 1, 7, 64, 200, 70_000]), min_size=1, max_size=90), st.integers(0, 9))
def test_check_sums_of_pieces_of_any_lengths_are_those_of_zlib(lengths, seed):
    memory = np.random.default_rng(seed).integers(0, 256, 70_100, dtype=np.uint8)
    places = np.arange(len(lengths))
    found = ragged_checks(memory, places, np.array(lengths))
    assert found.tolist() == [crc32(bytes(memory[at : at + n])) for at, n in enumerate(lengths)]


@given(st.lists(st.sampled_from([0, 1, 7, 64, 200, 70_000]), min_size=1, max_size=20), st.integers(0, 9))
def test_check_sums_with_zeros_after_them_are_those_of_zlib(lengths, seed):
    data = np.random.default_rng(seed).bytes(9)
    found = with_zeros(np.full(len(lengths), crc32(data), np.uint32), np.array(lengths))
    beside = [crc32(bytes(length)) for length in lengths]  # as those of zeros are not 0
    assert (found ^ np.array(beside, np.uint32)).tolist() == [crc32(data + bytes(length)) for length in lengths]
    assert with_zeros(np.full(1, crc32(data), np.uint32), lengths[0])[0] == found[0]
