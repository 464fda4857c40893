"""Arrays that a program exposes: one bit changes in place, whatever the array's shape and strides."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xsim_py
from xsim_py import simulate
from xsim_py.process.ranks.exposed import _EXPOSED, flip_exposed

ARRAYS: dict[str, Any] = {
    "scalar": np.zeros((), np.int32),
    "matrix": np.arange(12.0).reshape(3, 4),
    "transposed": np.arange(12.0).reshape(3, 4).T,
    "backwards": np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::-2, ::3],
    "field": np.zeros(3, [("a", "i2"), ("b", "f8")])["b"],
    "whole record": np.zeros(2, [("a", "i2"), ("b", "f8")]),
    "truth": np.zeros(5, np.bool_)[::2],
}


def rank_with(**arrays: Any) -> Any:
    return SimpleNamespace(extra={_EXPOSED: arrays})


@given(st.sampled_from(sorted(ARRAYS)), st.data())
def test_one_bit_changes_and_no_other(name: str, data: st.DataObject) -> None:
    array = ARRAYS[name]
    bit = data.draw(st.integers(0, 8 * array.nbytes - 1))
    before = np.frombuffer(array.tobytes(), np.uint8)
    found = flip_exposed(rank_with(x=array), "x", bit, Random(0))
    after = np.frombuffer(array.tobytes(), np.uint8)
    assert found == ("x", bit, array.nbytes)
    expected = np.zeros_like(before)
    expected[bit // 8] = 1 << bit % 8
    assert ((before ^ after) == expected).all()


def test_who_has_no_such_bit_is_passed_over() -> None:
    small, large = np.zeros(1, np.uint8), np.zeros(4, np.uint8)
    rank = rank_with(small=small, large=large)
    found = flip_exposed(rank, None, 20, Random(0))
    assert found == ("large", 20, 4)
    assert large.tolist() == [0, 0, 16, 0]
    assert flip_exposed(rank, "small", 8, Random(0)) is None
    assert flip_exposed(rank, "other", None, Random(0)) is None
    assert flip_exposed(SimpleNamespace(extra=None), None, None, Random(0)) is None  # type: ignore[arg-type]


def test_only_arrays_of_numbers_that_can_be_written_are_exposed() -> None:
    def program() -> list[str]:
        read_only = np.zeros(3)
        read_only.flags.writeable = False
        said = []
        for wrong in (read_only, [1, 2], np.array([None])):
            try:
                xsim_py.expose("x", wrong)
            except (TypeError, ValueError) as error:
                said.append(f"{type(error).__name__}: {error}")
        return said

    assert simulate(program, ranks=1).values == [
        [
            "ValueError: xsim_py.expose: x is read-only",
            "TypeError: xsim_py.expose: expected an array of numbers, got x",
            "TypeError: xsim_py.expose: expected an array of numbers, got x",
        ]
    ]


def test_without_a_simulation_nothing_happens() -> None:
    xsim_py.expose("x", [1, 2])


@pytest.mark.parametrize("time", ["49us", "50us"])
def test_a_bit_changes_when_the_ranks_own_clock_gets_there(time: str) -> None:
    def program() -> list[float]:
        from mpi4py import MPI

        array = np.zeros(1, np.uint8)
        xsim_py.expose("x", array)
        seen = []
        for _ in range(4):
            MPI.Pcontrol(25_000)  # nanoseconds
            seen.append(int(array[0]))
        return seen

    result = simulate(program, ranks=1, fail=f"flip:array,rank=0,at={time},bit=3")
    assert result.values == [[0, 8, 8, 8]]
    assert result.ended == "finished"
    assert not result.failures
