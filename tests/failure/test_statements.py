"""What people write about failures is understood, can be written again, and is explained when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import DrawSpec
from xsim_py.config.entries import Location
from xsim_py.failure import CallSite, Fault
from xsim_py.failure.flips import Flip
from xsim_py.failure.hangs import Hang
from xsim_py.failure.statements import Timed, parse_statement

HERE = Location.in_option("--fail")

LEVELS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
TIMED = st.builds(Timed, LEVELS, st.integers(0, 10**9), st.integers(0, 10**27))
AT_CALL = st.builds(
    CallSite,
    st.integers(0, 10**9),
    st.booleans(),
    st.integers(1, 10**6),
    st.sampled_from(["Send", "allreduce", "call"]),
    st.none(),
)
INTO_CALL = st.builds(
    CallSite, st.integers(0, 10**9), st.just(True), st.integers(1, 10**6), st.just("Send"), st.integers(0, 10**27)
)

RANK, TIME = st.integers(0, 2**31 - 1), st.integers(0, 10**27)
BIT = st.none() | st.integers(0, 2**53)
FLIP = st.builds(Flip, rank=RANK, at_ps=TIME, target=st.just("array"), array=st.none() | st.just("u"), bit=BIT)
HANG = st.builds(Hang, rank=RANK, at_ps=TIME, for_ps=TIME)


@given(TIMED | AT_CALL | INTO_CALL)
def test_what_is_written_is_read_back(statement: Timed | CallSite) -> None:
    assert parse_statement(str(statement), HERE) == statement
    assert parse_statement(f"  {statement} ", HERE, path="failures.at[0]") == statement


@given(FLIP | HANG)
def test_a_fault_is_read_back_too(fault: Fault) -> None:
    assert parse_statement(str(fault), HERE) == fault


@given(st.text(max_size=20) | st.from_regex(r"\w+=[-\d]+( before| after|@)[^\n]{0,12}", fullmatch=True))
def test_any_other_text_is_refused_and_nothing_worse(text: str) -> None:
    found = parse_statement(text, HERE)
    if isinstance(found, list):
        assert all(problem.message for problem in found)
    elif isinstance(found, Timed | CallSite):
        assert parse_statement(str(found), HERE) == found


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("rank=5@1.2ms", Timed("rank", 5, 1_200_000_000)),
        ("node = 3 @ 10 ms", Timed("node", 3, 10_000_000_000)),
        ("cabinet=0@0", Timed("cabinet", 0, 0)),
        ("rank=5@2", Timed("rank", 5, 2 * 10**12)),
        ("rank=3 before its 2nd Allreduce", CallSite(3, True, 2, "Allreduce")),
        ("rank=3 after its 7th call", CallSite(3, False, 7, "call")),
        ("rank=3 before first bcast", CallSite(3, True, 1, "bcast")),
        ("rank=3  after  its  tenth  Send", CallSite(3, False, 10, "Send")),
        ("rank=3 5us into its 2nd Allreduce", CallSite(3, True, 2, "Allreduce", 5_000_000)),
        ("rank=3  1.5ms  into  first  call", CallSite(3, True, 1, "call", 1_500_000_000)),
    ],
)
def test_a_failure_may_be_written_as_people_do(text: str, meaning: object) -> None:
    assert parse_statement(text, HERE) == meaning


@pytest.mark.parametrize(
    ("name", "call"),
    [("MPI_Bcast", "Bcast"), ("MPI_Win_lock_all", "Lock_all"), ("PMPI_Send", "Send"), ("MPIX_Comm_agree", "Agree")],
)
def test_a_call_may_have_its_name_in_c(name: str, call: str) -> None:
    read = [parse_statement(f"rank=3 before its 2nd {each}", HERE) for each in (name, call)]
    assert read[0] == read[1] == CallSite(3, True, 2, call, None)


@pytest.mark.parametrize(
    ("ordinal", "number"), [("1st", 1), ("2nd", 2), ("3rd", 3), ("4th", 4), ("11th", 11), ("12th", 12), ("113th", 113),
                            ("21st", 21), ("102nd", 102), ("33rd", 33)]
)  # fmt: skip
def test_ordinals_are_english(ordinal: str, number: int) -> None:
    assert str(CallSite(0, True, number, "Send")) == f"rank=0 before its {ordinal} Send"
    assert parse_statement(f"rank=0 before its {ordinal} Send", HERE) == CallSite(0, True, number, "Send")


def test_a_law_has_the_keys_of_the_description() -> None:
    draw = parse_statement("weibull:node,mtbf=1h,shape=0.7", HERE)
    assert isinstance(draw, DrawSpec)
    assert (draw.law, draw.per, draw.mtbf_ps, draw.shape) == ("weibull", "node", 3600 * 10**12, 0.7)


def test_a_trace_is_a_file() -> None:
    assert parse_statement("trace=logs/x.csv", HERE) == Path("logs/x.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rank=5", "expected a failure, got 'rank=5'; write rank=5@1.2ms, node=3@10ms or rank=3 before its 2nd"),
        ("rank=5@-1ms", "-1ms is out of range: a time cannot be negative"),
        ("rank=5@soon", "expected a time, got 'soon'; write for example 20us, 1.5ms or 1e-6 (seconds)"),
        ("rank=5@1sec", "unknown unit in '1sec'; write for example 20us"),
        ("rank=5@", "expected a time, got ''"),
        ("node=5 before its 2nd Send", "a node makes no calls; write rank=... before its 2nd Send"),
        ("rank=5 before its 0th Send", "expected the number of a call, got '0th'; write first, 2nd, 3rd, ..."),
        ("rank=5 before its last Send", "expected the number of a call, got 'last'"),
        ("rank=5 during its 2nd Send", "expected a failure, got 'rank="),
        ("rank=5 soon into its 2nd Send", "expected a time, got 'soon'"),
        ("rank=5 into its 2nd Send", "expected a failure, got 'rank="),
        (f"rank={'9' * 19}@1s", "expected a failure, got 'rank="),
        (f"rank=5 before its {'9' * 5000}th Send", "expected the number of a call, got '99999"),
        ("weibul:node,mtbf=1h", "law: unknown value 'weibul'; did you mean weibull?"),
        ("weibull:node,shape=2", "mtbf: missing: mean time between failures of one component."),
        ("weibull:node,mtbf=1h,shap=2", "shap: unknown key; did you mean shape?"),
        ("weibull:node,mtbf=1h,shape=x", "shape: expected a number above zero, got 'x'"),
        ("weibull:node,mtbf=1h,mtbf=2h", "expected key=value, each key once, got 'mtbf=2h'; write mtbf=6.7h"),
        ("weibull:node,1h", "expected key=value, each key once, got '1h'"),
    ],
)
def test_a_mistake_is_explained(text: str, message: str) -> None:
    found = parse_statement(text, HERE)
    assert isinstance(found, list)
    assert any(message in str(problem) for problem in found), found


@pytest.mark.parametrize("text", ["weibull:node,mtbf=1h,shape=0.7", "trace=x.csv"])
def test_a_list_of_failures_holds_neither_laws_nor_traces(text: str) -> None:
    found = parse_statement(text, HERE, path="failures.at[0]")
    assert isinstance(found, list)
    assert found[0].message.endswith("write rank=5@1.2ms, node=3@10ms or rank=3 before its 2nd Allreduce")
