"""Folds of packed bytes against numpy, one element and many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.mpi import constants as c
from xsim_py.mpi.construct import contiguous, duplicate
from xsim_py.mpi.errors import Exception as MPIException
from xsim_py.mpi.op import PREDEFINED as OPS
from xsim_py.mpi.op import ArrayFold, ReductionOp, ScalarFold, fold_rows, make_fold
from xsim_py.mpi.predefined import PREDEFINED as TYPES

UFUNCS = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
SHORT = {"DOUBLE": "f8", "FLOAT": "f4", "INT": "i4", "INT64_T": "i8", "UNSIGNED": "u4", "UINT64_T": "u8"}


@pytest.mark.filterwarnings("error")
@given(st.data(), st.sampled_from(sorted(UFUNCS)), st.sampled_from(sorted(SHORT)))
def test_the_shortcut_for_one_element_gives_the_bits_of_numpy(data, name, type_name):
    dtype = np.dtype(SHORT[type_name])
    pair = np.frombuffer(data.draw(st.binary(min_size=2 * dtype.itemsize, max_size=2 * dtype.itemsize)), dtype)
    if dtype.kind == "f":
        pair = np.where(np.isnan(pair), np.array(1.5, dtype), pair)  # the bits of a NaN are nobody's promise
    left, right = pair[:1], pair[1:]
    fold = make_fold(OPS[name], TYPES[type_name])
    assert type(fold) is ScalarFold
    short = fold(left.tobytes(), right.tobytes())
    long = fold(np.repeat(left, 3).tobytes(), np.repeat(right, 3).tobytes())
    with np.errstate(all="ignore"):
        wanted = UFUNCS[name](left, right)
    if wanted[0] == 0 or np.isnan(wanted[0]):  # of equal zeros MAX may choose either
        np.testing.assert_equal(np.frombuffer(short, dtype) + 0, wanted + 0)
    else:
        assert short == wanted.tobytes()
        assert long == short * 3


FOLDS = [
    make_fold(OPS[name], TYPES[kind])
    for name, kinds in {
        **dict.fromkeys(("SUM", "PROD", "MAX", "MIN"), ("DOUBLE", "FLOAT", "INT", "UINT64_T", "LONG_DOUBLE")),
        "BXOR": ("BYTE", "SHORT"),
        "LAND": ("INT", "C_BOOL"),
        "MAXLOC": ("DOUBLE_INT",),
    }.items()
    for kind in kinds
]


@given(st.sampled_from(FOLDS), st.integers(1, 5), st.integers(1, 9), st.data())
def test_many_folds_at_once_have_the_bits_of_one_after_the_other(fold, count, rows, data):
    length = count * fold.unit_bytes
    special = st.sampled_from([bytes(length), b"\xff" * length, (b"\0" * 7 + b"\x80") * length])
    side = st.lists(st.binary(min_size=length, max_size=length) | special, min_size=rows, max_size=rows)
    left, right = ([row[:length] for row in data.draw(side)] for _ in range(2))
    if fold.unit_bytes == 16 and fold.dtype.kind == "f":  # most bits of these are no number at all
        return
    together = fold_rows(fold, *(np.frombuffer(b"".join(each), np.uint8).reshape(rows, -1) for each in (left, right)))
    assert [bytes(row) for row in together] == [fold(*pair) for pair in zip(left, right, strict=True)]


@pytest.mark.parametrize("name", ["MAX", "MIN"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_nan_stays_whoever_contributes_it(name, count):
    fold = make_fold(OPS[name], TYPES["DOUBLE"])
    nan, one = np.full(count, np.nan).tobytes(), np.ones(count).tobytes()
    assert np.isnan(np.frombuffer(fold(nan, one))).all()
    assert np.isnan(np.frombuffer(fold(one, nan))).all()


def test_the_left_operand_is_the_first_argument_of_the_users_function():
    def append(source, target, datatype):
        target[:] = (np.frombuffer(source, "i") * 10 + np.frombuffer(target, "i")).tobytes()

    operation = ReductionOp(python=lambda x, y: None, function=append, commutative=False)
    fold = make_fold(operation, TYPES["INT"])
    result = fold(np.array([1, 2], "i").tobytes(), np.array([3, 4], "i").tobytes())
    assert np.frombuffer(result, "i").tolist() == [13, 24]
    assert (fold.commutative, fold.unit_bytes) == (False, 4)


def test_operands_are_not_changed():
    left, right = np.arange(3.0).tobytes(), np.ones(3).tobytes()
    make_fold(OPS["SUM"], TYPES["DOUBLE"])(left, right)
    assert np.frombuffer(left).tolist() == [0, 1, 2]
    assert np.frombuffer(right).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("operation", "datatype"),
    [
        (OPS["OP_NULL"], TYPES["DOUBLE"]),
        (OPS["REPLACE"], TYPES["DOUBLE"]),
        (OPS["NO_OP"], TYPES["INT"]),
        (OPS["BAND"], TYPES["DOUBLE"]),
        (OPS["SUM"], duplicate(TYPES["DOUBLE"])),
        (OPS["SUM"], contiguous(TYPES["DOUBLE"], 2)),
        (OPS["MAXLOC"], TYPES["INT"]),
    ],
)
def test_what_an_operation_does_not_take_is_an_error(operation, datatype):
    with pytest.raises(MPIException) as caught:
        make_fold(operation, datatype)
    assert caught.value.Get_error_class() == c.ERR_OP


def test_folds_of_predefined_operations_are_made_once():
    assert make_fold(OPS["SUM"], TYPES["DOUBLE"]) is make_fold(OPS["SUM"], TYPES["DOUBLE"])
    assert type(make_fold(OPS["SUM"], TYPES["C_DOUBLE_COMPLEX"])) is ArrayFold
