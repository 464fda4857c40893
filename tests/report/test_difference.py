"""Two runs are the same, or what is told is where they part first."""

import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from tests.report.helpers import make_result
from xsim_py import simulate
from xsim_py.report.difference import Difference, TracedRun, differences
from xsim_py.trace import Message, Span, Trace


def outcome(
    spans: Sequence[Span] = (), messages: Sequence[Message] = (), out: str = "", **changes: object
) -> TracedRun:
    result = make_result(**changes)
    result.trace = Trace(list(spans), list(messages), [])
    return TracedRun(result, (out, ""))


def call(rank: int, name: str, start_ps: int, end_ps: int | None, line: int = 1, detail: str = "") -> Span:
    return Span(rank, name, start_ps, end_ps, detail, f"here/prog.py:{line}")


def message(source: int, dest: int, size_bytes: int, sent_ps: int, taken_ps: int | None = None) -> Message:
    return Message(source, dest, 7, size_bytes, 2, False, "", "eager", sent_ps, None, taken_ps)


def told(one: TracedRun, other: TracedRun) -> list[Difference]:
    return differences(one, other, start="here")


def test_runs_that_are_the_same_have_no_difference():
    spans, messages = [call(0, "Send", 0, 5)], [message(0, 1, 8, 5)]
    assert told(outcome(spans, messages, "[0] a\n"), outcome(spans, messages, "[0] a\n")) == []


def test_another_call_is_told_with_rank_number_and_lines():
    one = [call(3, "Barrier", 0, 10_000_000), call(3, "Send", 40_000_000, 41_000_000, 12)]
    other = [one[0], call(3, "Recv", 40_000_000, None, 14, "did not return")]
    assert told(outcome(one, [message(3, 1, 8, 40_500_000)]), outcome(other)) == [
        Difference(
            "at 40 us: rank 3, its 2nd call",
            (
                "Send at prog.py:12, sends 8 B to rank 1, tag 7, 40 us to 41 us",
                "Recv at prog.py:14, does not return, did not return",
            ),
        )
    ]


def test_a_call_that_only_takes_longer_counts_when_it_returns_and_its_cause_comes_first():
    one = [call(0, "Recv", 0, 100), call(1, "Send", 50, 60)]
    other = [call(0, "Recv", 0, 200), call(1, "Send", 70, 80)]
    (difference,) = told(outcome(one), outcome(other))
    assert difference.where == "at 50 ps: rank 1, its 1st call"


def test_a_call_that_is_there_in_one_run_only_is_told():
    (difference,) = told(outcome([call(0, "Send", 1, 2)]), outcome())
    assert difference.sides == ("Send at prog.py:1, 1 ps to 2 ps", "no such call")


def test_another_message_of_the_same_call_is_told():
    spans = [call(0, "Send", 0, 9, 4)]
    (difference,) = told(outcome(spans, [message(0, 1, 8, 5)]), outcome(spans, [message(0, 1, 16, 5)]))
    assert difference == Difference(
        "at 5 ps: rank 0, its 1st message",
        (
            "8 B to rank 1, tag 7 at 5 ps, in Send at prog.py:4",
            "16 B to rank 1, tag 7 at 5 ps, in Send at prog.py:4",
        ),
    )


def test_what_becomes_of_a_message_is_the_business_of_who_receives_it():
    assert told(outcome((), [message(0, 1, 8, 5, 9)]), outcome((), [message(0, 1, 8, 5, 11)])) == []


def test_lines_are_compared_rank_by_rank():
    one, other = "[0] a\n[0-3] x\n[1] b\n[1] c\n[10] e\n", "[1] b\n[1] d\n[0] a\n[0-3] x\n[10] f\n"
    assert told(outcome(out=one), outcome(out=other)) == [
        Difference("rank 1, line 2 of what it prints", ("c", "d")),
    ]
    (difference,) = told(outcome(out="[0] a\n"), outcome())
    assert difference.sides == ("a", "no such line")


def test_another_end_and_another_digest_are_told():
    stalled = outcome(ended="stalled", exit_status=3, report="stalled at 0 s\nmore")
    (difference,) = told(outcome(), stalled)
    assert difference.where == "the end of the run"
    assert difference.sides[1] == "stalled, exit status 3, 34.914 us: stalled at 0 s"
    assert [each.where for each in told(outcome(), outcome(digest="other"))] == ["the digest"]


@pytest.mark.parametrize(("number", "word"), [(2, "2nd"), (3, "3rd"), (11, "11th"), (22, "22nd")])
def test_calls_are_counted_in_words(number: int, word: str):
    spans = [call(0, "Send", at, at) for at in range(number - 1)]
    (difference,) = told(outcome([*spans, call(0, "Send", 50, 51)]), outcome(spans))
    assert difference.where.endswith(f"its {word} call")


def run(path: Path, *args: str) -> TracedRun:
    printed = io.StringIO(), io.StringIO()
    result = simulate(path, ranks=2, args=args, label=True, trace=True, stdout=printed[0], stderr=printed[1])
    return TracedRun(result, (printed[0].getvalue(), printed[1].getvalue()))


def test_real_runs_are_compared_to_the_line(tmp_path: Path):
    program = tmp_path / "prog.py"
    program.write_text(
        dedent("""\
        import sys
        from mpi4py import MPI
        comm = MPI.COMM_WORLD
        comm.Barrier()
        if comm.rank:
            comm.send(b"", 0)
        elif "other" in sys.argv:
            comm.recv(
                tag=0)
        else:
            comm.recv()
        print(comm.rank)
        """)
    )
    assert differences(run(program), run(program), start=str(tmp_path)) == []
    (difference,) = differences(run(program), run(program, "other"), start=str(tmp_path))
    assert difference.where.endswith("rank 0, its 2nd call")
    assert [side.split(",")[0] for side in difference.sides] == ["recv at prog.py:11", "recv at prog.py:8"]
