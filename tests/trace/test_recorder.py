import pickle

import pytest

from xsim_py.trace import Mark, Message, Recorder, Span, Trace
from xsim_py.trace.recorder import NEVER, Rows

HUGE_PS = 1 << 70


def test_rows_are_kept_in_columns():
    rows = Rows(3)
    rows.append(1, 2, 3)
    rows.append(4, 5, 6)
    rows.set(0, 1, -9)
    assert len(rows) == 2
    assert [list(rows.column(number)) for number in range(3)] == [[1, 4], [-9, 5], [3, 6]]


@pytest.mark.parametrize("row", [(HUGE_PS, 0, 0), (0, HUGE_PS, 0), (0, 0, HUGE_PS)])
def test_a_number_that_does_not_fit_does_not_tear_its_row(row):
    rows = Rows(3)
    rows.append(1, 2, 3)
    rows.append(*row)
    rows.append(7, 8, 9)
    assert [list(rows.column(number)) for number in range(3)] == [
        [a, b, c] for a, b, c in zip((1, 2, 3), row, (7, 8, 9), strict=True)
    ]


def test_a_number_that_does_not_fit_may_be_put_later():
    rows = Rows(2)
    rows.append(1, 2)
    rows.set(0, 1, HUGE_PS)
    assert [list(rows.column(number)) for number in range(2)] == [[1], [HUGE_PS]]


def departed(recorder, number, sent_ps, **changes):
    facts = {"source": 0, "dest": 1, "tag": 5, "size_bytes": 8, "communicator": 2, "collective": False}
    recorder.departed(number, **{**facts, "call": "", "kind": "eager", "sent_ps": sent_ps, **changes})


def two_parts():
    """Return what two shards recorded of ranks 0 and 1."""
    first, second = Recorder(), Recorder()
    first.begin(0, "Send", 10)
    departed(first, 70, 20)
    departed(first, 71, 20, tag=6, collective=True, call="Comm.Bcast")
    first.end(0, 30)
    second.begin(1, "Recv", 10)
    second.matched(second.arrived(71, 45), 50)
    second.end(1, 50, "ERR_TRUNCATE")
    second.arrived(70, None)
    second.begin(1, "Barrier", 60)
    second.close_open(1, None)
    second.mark(1, 40, "learned", "rank 7 has failed")
    first.mark(0, 40, "failed")
    return first, second


EXPECTED = (
    [
        Span(0, "Send", 10, 30, ""),
        Span(1, "Recv", 10, 50, "ERR_TRUNCATE"),
        Span(1, "Barrier", 60, None, "did not return"),
    ],
    [
        Message(0, 1, 5, 8, 2, False, "", "eager", 20, None, None, 10, None),
        Message(0, 1, 6, 8, 2, True, "Comm.Bcast", "eager", 20, 45, 50, 10, 50),
    ],
    [Mark(0, 40, "failed", ""), Mark(1, 40, "learned", "rank 7 has failed")],
)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_parts_of_a_trace_are_put_together_in_the_order_of_time(order):
    parts = two_parts()
    trace = Trace.of(parts[place] for place in order)
    assert (trace.spans, trace.messages, trace.marks) == EXPECTED
    assert len(trace) == 7
    assert trace.end_ps() == 60


def test_a_part_can_travel():
    trace = Trace.of(pickle.loads(pickle.dumps(part)) for part in two_parts())
    whole = pickle.loads(pickle.dumps(trace))
    assert (whole.spans, whole.messages, whole.marks) == EXPECTED


def test_records_are_a_sequence():
    spans = Trace.of(two_parts()).spans
    assert (len(spans), spans[0], spans[-1], spans[1:]) == (3, EXPECTED[0][0], EXPECTED[0][2], EXPECTED[0][1:])
    assert EXPECTED[0][1] in spans
    assert list(spans.columns["rank"]) == [0, 1, 1]
    assert spans != EXPECTED[0][:2]
    with pytest.raises(IndexError):
        spans[3]


def test_times_beyond_64_bits_stay_exact():
    recorder = Recorder()
    recorder.begin(0, "Recv", 5)
    recorder.end(0, HUGE_PS + 1)
    departed(recorder, 1, HUGE_PS + 2)
    recorder.matched(recorder.arrived(1, HUGE_PS + 3), HUGE_PS + 4)
    trace = Trace.of([recorder])
    assert trace.spans[0].end_ps == HUGE_PS + 1
    assert trace.messages[0][-5:-2] == (HUGE_PS + 2, HUGE_PS + 3, HUGE_PS + 4)


def test_a_call_that_is_only_kept_if_it_took_time():
    recorder = Recorder()
    for end_ps in (10, 11):
        recorder.begin(0, "Get_rank", 10)
        recorder.end(0, end_ps, skip_if_instant=True)
    recorder.close_open(0, 12)
    assert Trace.of([recorder]).spans == [Span(0, "Get_rank", 10, 11, "")]


def test_the_traces_of_several_starts_follow_each_other():
    later = Recorder()
    later.begin(0, "Send", 100)
    departed(later, 70, 120)  # a number of its own start: the event keys begin anew
    later.close_open(0, 130)
    traces = [Trace.of(two_parts()), Trace.of([later])]
    whole = Trace.joined(traces, [0, 90])
    assert list(whole.spans) == [*EXPECTED[0], Span(0, "Send", 100, 130, "did not return")]
    assert [message.arrival_ps for message in whole.messages] == [None, 45, None]
    assert whole.marks == [*EXPECTED[2], Mark(0, 90, "restart", "start 1")]
    assert Trace.joined(traces[:1], [0]) is traces[0]


def test_an_empty_trace():
    trace = Trace.of([Recorder()])
    assert (len(trace), trace.end_ps(), list(trace.spans), list(trace.messages)) == (0, 0, [], [])
    assert NEVER < 0


def test_a_mark_says_whose_failure_was_learned_of_and_how():
    recorder = Recorder()
    recorder.mark(1, 40, "learned", "rank 7 has failed (detector)", dead=7, how="detector")
    (mark,) = Trace.of([recorder]).marks
    assert (mark.dead, mark.how) == (7, "detector")
