"""Quantities: what people write, what the simulator counts in, and back."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py import units

TIMES = [
    ("20us", 20_000_000),
    ("20 µs", 20_000_000),
    ("20μs", 20_000_000),
    ("0.13us", 130_000),
    ("1.53e-6", 1_530_000),
    (1e-6, 1_000_000),
    (0.1, 100_000_000_000),
    (2, 2 * 10**12),
    ("60s", 60 * 10**12),
    ("1min", 60 * 10**12),
    ("2h", 7200 * 10**12),
    ("0", 0),
    ("0.0984us", 98_400),
    ("1ps", 1),
    ("1.5ps", 2),  # half a picosecond rounds up
    (" 7 us ", 7_000_000),
]
BANDWIDTHS = [
    ("1Gbps", Fraction(8000)),
    ("1Gb/s", Fraction(8000)),
    ("1Gbit/s", Fraction(8000)),
    (1e9, Fraction(8000)),
    (10**9, Fraction(8000)),
    ("3200Mbps", Fraction(2500)),
    ("8.8Gbps", Fraction(10000, 11)),
    ("1.25GB/s", Fraction(800)),
    ("1.25GBps", Fraction(800)),
    ("1KiB/s", Fraction(10**12, 1024)),
    ("6ns/B", Fraction(6000)),
    ("unlimited", Fraction(0)),
    (math.inf, Fraction(0)),
]
SIZES = [
    ("128KiB", 131_072),
    ("64KB", 64_000),
    ("64kB", 64_000),
    ("1.5KiB", 1536),
    (65_535, 65_535),
    ("0", 0),
    ("2GiB", 2**31),
]


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_a_time_is_read_exactly(text: object, expected: int) -> None:
    assert units.parse_time_ps(text) == expected


@pytest.mark.parametrize(("text", "expected"), BANDWIDTHS)
def test_a_bandwidth_becomes_the_exact_time_of_a_byte(text: object, expected: Fraction) -> None:
    assert units.parse_bandwidth(text) == expected


@pytest.mark.parametrize(("text", "expected"), SIZES)
def test_a_size_is_read_in_decimal_and_binary_units(text: object, expected: int) -> None:
    assert units.parse_size_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("6ns", 6000), ("6ns/B", 6000), (1e-12, 1), ("0.1ps/B", Fraction(1, 10))]
)
def test_a_time_per_byte_may_be_a_fraction_of_a_picosecond(text: object, expected: Fraction) -> None:
    assert units.parse_time_per_byte(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_time_ps, "-5us", "-5us is out of range: a time cannot be negative"),
        (units.parse_time_ps, "fast", "expected a time, got 'fast'; write for example 20us, 1.5ms or 1e-6 (seconds)"),
        (
            units.parse_time_ps,
            "5 parsec",
            "unknown unit in '5 parsec'; write for example 20us, 1.5ms or 1e-6 (seconds)",
        ),
        (units.parse_time_ps, "5mus", "unknown unit in '5mus'; did you mean us?"),
        (units.parse_time_ps, True, "expected a time, got True; write for example 20us, 1.5ms or 1e-6 (seconds)"),
        (units.parse_time_ps, math.nan, "expected a time, got 'nan'; write for example 20us, 1.5ms or 1e-6 (seconds)"),
        (units.parse_time_ps, "1e-13", "1e-13 is out of range: the resolution of the simulated clock is 1 ps"),
        (units.parse_time_ps, "1e999999999", "unknown unit in '1e999999999'"),
        (units.parse_bandwidth, "1Gps", "unknown unit in '1Gps'; did you mean Gbps?"),
        (units.parse_bandwidth, "0Gbps", "0Gbps is out of range: the bandwidth must be positive"),
        (units.parse_bandwidth, -1, "-1 is out of range: a bandwidth cannot be negative"),
        (units.parse_time_ps, "1e400s", "1e400s is out of range (at most 1e+15 s, thirty million years)"),
        (units.parse_time_ps, "1:30", "unknown unit in '1:30'; write for example 20us, 1.5ms or 1e-6 (seconds)"),
        (units.parse_time_ps, "0x10us", "unknown unit in '0x10us'; write for example"),
        (
            units.parse_time_ps,
            "9" * 200,
            "'99999999999999999999'... is too long: 200 characters; a time has at most 100",
        ),
        (units.parse_cost_ps, "25h", "25h is out of range (at most 24h)"),
        (units.parse_bandwidth, "1e-30bps", "1e-30bps is out of range (0 per byte, or 8e-24 to 8 s per byte, 1 bps)"),
        (units.parse_bandwidth, "1e400Gbps", "1e400Gbps is out of range (0 per byte, or 8e-24 to 8 s per byte, 1 bps)"),
        (units.parse_bandwidth, "9s/B", "9s/B is out of range (0 per byte, or 8e-24 to 8 s per byte, 1 bps)"),
        (units.parse_time_per_byte, "1h", "1h is out of range (0 per byte, or 8e-24 to 8 s per byte, 1 bps)"),
        (units.parse_time_per_byte, "1e-300", "1e-300 is out of range (0 per byte, or 8e-24 to 8 s per byte, 1 bps)"),
        (units.parse_size_bytes, "1e400B", "1e400B is out of range (at most 1024PiB)"),
        (units.parse_size_bytes, "1.5", "expected a whole number of bytes, got 1.5"),
        (units.parse_size_bytes, "64K", "unknown unit in '64K'; did you mean KB?"),
        (units.parse_size_bytes, None, "expected a size, got None; write for example 128KiB, 64KB or 65536 (bytes)"),
    ],
)
def test_what_cannot_be_read_is_explained(parse: object, text: object, message: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


@given(st.integers(0, 10**19))
def test_a_time_written_with_all_digits_is_read_back(time_ps: int) -> None:
    assert units.parse_time_ps(units.format_time(time_ps, digits=None)) == time_ps


@given(st.integers(0, 2**60))
def test_a_size_written_with_all_digits_is_read_back(size_bytes: int) -> None:
    assert units.parse_size_bytes(units.format_size(size_bytes, digits=None)) == size_bytes


@given(st.integers(1, 10**15))
def test_a_bandwidth_written_with_all_digits_is_read_back(bits_per_s: int) -> None:
    ps_per_byte = units.parse_bandwidth(bits_per_s)
    assert units.parse_bandwidth(units.format_bandwidth(ps_per_byte, digits=None)) == ps_per_byte


@given(st.floats(1e-9, 1e6))
def test_seconds_as_a_float_are_off_by_half_a_picosecond_at_most(seconds: float) -> None:
    assert abs(units.parse_time_ps(seconds) - Fraction(repr(seconds)) * 10**12) <= Fraction(1, 2)


@given(st.integers(0, 10**30), st.integers(1, 10**15))
def test_rounding_takes_the_nearest_and_of_two_the_larger(numerator: int, denominator: int) -> None:
    assert units.round_half_up(numerator, denominator) == math.floor(Fraction(numerator, denominator) + Fraction(1, 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.format_time(1_234_000_000), "1.234 ms"),
        (units.format_time(0), "0 s"),
        (units.format_time(999), "999 ps"),
        (units.format_time(1_234_567), "1.235 us"),
        (units.format_time(20_000_000), "20 us"),
        (units.format_time(123_456 * 10**12), "123456 s"),
        (units.format_size(131_072), "128 KiB"),
        (units.format_size(1000), "1000 B"),
        (units.format_size(1_000_000), "976.6 KiB"),
        (units.format_bandwidth(Fraction(10000, 11)), "8.8 Gbps"),
        (units.format_bandwidth(Fraction(0)), "unlimited"),
    ],
)
def test_people_read_four_digits(text: str, expected: str) -> None:
    assert text == expected


def test_a_fraction_without_a_last_digit_cannot_be_written_out() -> None:
    with pytest.raises(ValueError, match="1/3 has no finite decimal expansion"):
        units.format_number(Fraction(1, 3), digits=None)


QUANTITY = st.from_regex(
    r"\A\s?[+-]?[0-9]{0,3}\.?[0-9]{0,3}(e[+-]?[0-9]{1,2})?\s?[a-zA-Zµ/]{0,6}\s?\Z"
) | st.sampled_from(
    [*(str(text) for text, _ in (*TIMES, *BANDWIDTHS, *SIZES)), "0bps", "0.0e5 B/s", "0ns/B", "00GB/s", "-0", "1 ns/B"]
)


@given(QUANTITY)
def test_the_patterns_for_editors_know_the_same_text_as_the_parsers(text: str) -> None:
    def is_read(parse: object) -> bool:
        assert callable(parse)
        try:
            parse(text)
        except ValueError as error:  # these cannot be said by a pattern
            return any(said in str(error) for said in ("simulated clock", "whole number", "(at most", "(0 per byte"))
        return True

    assert bool(re.search(units.TIME_PATTERN, text)) == is_read(units.parse_time_ps)
    assert bool(re.search(units.SIZE_PATTERN, text)) == is_read(units.parse_size_bytes)
    assert bool(re.search(units.TIME_PER_BYTE_PATTERN, text)) == is_read(units.parse_time_per_byte)
    known = re.search(units.BANDWIDTH_PATTERN, text) and not re.search(units.NO_BANDWIDTH_PATTERN, text)
    assert bool(known) == is_read(units.parse_bandwidth)


@given(st.integers(0, 10**27))
def test_exact_seconds_read_back_to_the_picosecond(time_ps: int) -> None:
    text = units.exact_seconds(time_ps)
    assert units.parse_exact_seconds(text) == time_ps
    assert Fraction(text) * units.PS_PER_S == time_ps


@pytest.mark.parametrize("text", ["", "1e3", "-1.0", "1.0000000000001", "nan", "1 s"])
def test_what_is_no_decimal_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected seconds with at most 12 decimals"):
        units.parse_exact_seconds(text)


@pytest.mark.parametrize("text", ["", "1.0", "1e2", "0x1", "-1", "11", "9" * 5000, "+3", "٣"])
def test_a_whole_number_of_few_digits_is_read_or_refused(text: str):
    assert units.parse_whole("10", least=0, most=10) == 10
    with pytest.raises(ValueError, match="expected an integer from 0 to 10"):
        units.parse_whole(text, least=0, most=10)


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (112, "112th"), (1023, "1023rd")]
)
def test_numbers_that_count(number: int, text: str) -> None:
    assert units.ordinal(number) == text


def test_numbers_in_few_words() -> None:
    assert units.spans([3, 0, 1, 2, 7]) == "0-3, 7"
    assert units.spans(range(0, 40, 2)).count(",") == 9
    assert units.spans(range(0, 40, 2), most=None).count(",") == 19
