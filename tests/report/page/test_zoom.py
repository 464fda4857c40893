from base64 import b64decode

import numpy as np
import pytest

from tests.report.helpers import make_trace
from xsim_py.report.page import zoom
from xsim_py.report.page.zoom import timeline_data
from xsim_py.trace import Mark, Message, Span, Trace

LIVES = [(0, 0, 12_000_000), (1, 0, 12_000_000), (2, 0, 9_000_000)]


def numbers(text: str, kind: str) -> list[float]:
    return np.frombuffer(b64decode(text), kind).tolist()


def test_holds_every_call_life_message_and_mark():
    trace = make_trace()
    told, said = timeline_data(trace, LIVES)
    assert (told["unit"], told["end"], told["ranks"]) == ("us", 12.0, 3)
    assert numbers(told["spans"]["rank"], "<u4") == [span.rank for span in trace.spans]
    assert numbers(told["spans"]["start"], "<f8") == [span.start_ps / 1e6 for span in trace.spans]
    assert numbers(told["spans"]["stop"], "<f8") == [span.end_ps / 1e6 for span in trace.spans]
    labels = [told["labels"][number] for number in numbers(told["spans"]["label"], "<u4")]
    assert labels == [[span.name, span.detail, span.place] for span in trace.spans]
    assert [told["calls"][told["kinds"][number]] for number in range(len(told["labels"]))] == [
        name for name, *_ in told["labels"]
    ]
    assert len(told["colours"]) == len(told["calls"])
    assert numbers(told["lives"]["stop"], "<f8") == [12.0, 12.0, 9.0]
    assert told["messages"]["count"] == 2
    assert numbers(told["messages"]["arrived"], "<f8") == [7.0, 10.0]
    (mark,) = told["marks"]
    assert (mark["kind"], mark["x"], mark["y"], mark["text"]) == ("failed", [9.0], [2], ["rank 2: failed, injected"])
    assert said == ["Messages are drawn if the visible range contains few of them and each rank has a row."]


def test_keeps_the_longest_of_too_many_calls_and_says_so(monkeypatch):
    monkeypatch.setattr(zoom, "MOST_SPANS", 2)
    told, said = timeline_data(make_trace(), LIVES)
    assert numbers(told["spans"]["rank"], "<u4") == [1, 2]  # 7 us, and 6 us of 19
    assert said[0].startswith("Only the 2 longest of 4 calls are drawn, 68.4% of the time in calls;")


def test_draws_no_message_of_too_many_and_no_mark_too_much(monkeypatch):
    monkeypatch.setattr(zoom, "MOST_MESSAGES", 1)
    monkeypatch.setattr(zoom, "MOST_MARKS", 1)
    trace = make_trace()
    told, said = timeline_data(Trace(trace.spans, trace.messages, [*trace.marks, trace.marks[0]]), LIVES)
    assert told["messages"]["count"] == 0
    assert len(told["marks"][0]["x"]) == 1
    assert said == ["The 2 messages are too many to draw.",
                    "Of 2 marks of the kind 'failed' the first 1 are drawn."]  # fmt: skip


@pytest.mark.parametrize("end_ps", [None, 50])
def test_what_has_no_end_lasts_and_what_concerns_all_crosses_all_rows(end_ps):
    spans = [Span(0, "Recv", 10, None, "", ""), Span(0, "Test", 10, 10, "")]
    never = Message(0, 1, 0, 8, 2, False, "", "eager", 20, None, None)
    told, _ = timeline_data(Trace(spans, [never], [Mark(0, 100, "aborted", "")]), [(0, 0, 100), (1, 0, end_ps or 100)])
    assert numbers(told["spans"]["stop"], "<f8") == [pytest.approx(told["end"])]  # what takes no time is not drawn
    assert told["messages"]["count"] == 0
    assert [line["at"] for line in told["across"]] == [pytest.approx(told["end"])]
