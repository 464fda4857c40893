"""Where values with units stand on an axis."""

from typing import Any

import pytest

from xsim_py.report.ruler import Ruler


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        (["0.5us", "1us", "20 us"], "", {0.5: "0.5 us", 1: "1 us", 20: "20 us", 0: "0"}),
        (["512KiB", "1MiB"], "", {0.5: "512 KiB", 1: "1 MiB", 0.25: "256 KiB", 1.5: "1.5 MiB"}),
        (["64KB", "1KB"], "", {64: "64 KB", 1: "1 KB"}),
        (["10Gbps", "400Gbps"], "", {10: "10 Gbps", 400: "400 Gbps"}),
        (["1GB/s", "8Gbps"], "", {1: "1 GB/s"}),
        (["6ns/B", "0.1ns/B"], "", {6: "6 ns/B", 0.1: "0.1 ns/B"}),
        (["1e-6", 2e-5], "time", {1: "1 us", 20: "20 us"}),
        (["1e-6", "20us"], "time", {1: "1 us", 20: "20 us"}),
        ([1024, 65536], "size", {1: "1 KiB", 64: "64 KiB"}),
        (["1e9"], "bandwidth", {1: "1 Gbps"}),
        (["100ms", "2s"], "", {0.1: "100 ms", 2: "2 s"}),
        ([1, 2.5, "4", "-1.5"], "", {1: "1", 2.5: "2.5", 4: "4", -1.5: "-1.5"}),
    ],
)
def test_values_of_one_kind_have_a_ruler_in_the_units_that_were_written(values: list[Any], kind: str, shown: dict):
    ruler = Ruler.of(values, kind)
    assert ruler is not None
    assert {place: ruler.label(place) for place in shown} == shown
    assert {ruler.place(value) for value in values} <= shown.keys()


@pytest.mark.parametrize(
    "values",
    [
        ["gige"],
        ["1us", "fast"],
        ["1us", "1KiB"],
        ["0B", "unlimited"],
        [True],
        [float("inf")],
        ["1e999s"],
        [10**400],
        ["3D torus"],
        ["1ns/B", "1Gbps"],
    ],
)
def test_names_have_none(values: list[Any]):
    assert Ruler.of(values) is None


def test_no_values_have_any_ruler():
    assert Ruler.of([], "time") is not None


def test_plain_numbers_stand_where_they_are():
    ruler = Ruler.of([4, 8])
    assert ruler == Ruler()
    assert isinstance(ruler.place(4), int)
