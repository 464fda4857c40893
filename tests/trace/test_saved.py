import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.helpers import make_trace
from xsim_py.errors import ConfigError
from xsim_py.trace import Mark, Message, Span, Trace, saved
from xsim_py.trace.saved import load_trace, save_trace

TIMES = st.integers(0, 10**30)  # more than 64 bits hold
SPANS = st.builds(
    Span, st.integers(0, 9), st.text(max_size=5), TIMES, st.none() | TIMES, st.text(max_size=5), st.text()
)
MARKS = st.builds(
    Mark, st.integers(0, 9), TIMES, st.text(max_size=5), st.text(max_size=5), st.none() | st.integers(0, 9)
)


@given(st.lists(SPANS, max_size=3), st.lists(MARKS, max_size=3))
def test_every_record_comes_back(tmp_path_factory, spans, marks):
    folder = tmp_path_factory.mktemp("saved")
    trace = Trace(spans, make_trace().messages, marks)
    for name in ("a.gz", "b.gz"):
        save_trace(trace, folder / name, digest="feed")
    again = load_trace(folder / "a.gz", digest="feed", ranks=10)
    assert again is not None
    assert (again.spans, again.messages, again.marks) == (spans, trace.messages, marks)
    assert isinstance(again.messages[0], Message)
    assert (folder / "a.gz").read_bytes() == (folder / "b.gz").read_bytes()


def test_the_trace_of_another_run_is_none(tmp_path):
    save_trace(make_trace(), tmp_path / "t.gz", digest="feed")
    assert load_trace(tmp_path / "t.gz", digest="beef", ranks=10) is None
    assert load_trace(tmp_path / "nothing.gz", digest="beef", ranks=10) is None


@pytest.mark.parametrize(
    "content",
    [
        b"text",
        gzip.compress(b"[1]"),
        gzip.compress(b'{"digest": "feed"}'),
        gzip.compress(b"{}")[:10] + b"\xff" * 8,
        gzip.compress(b"[" * 100_000),
    ],
    ids=["no archive", "a list", "no spans", "a torn stream", "too deep"],
)
def test_what_is_no_trace_is_refused(tmp_path, content):
    (tmp_path / "t.gz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"t\.gz: not a trace that xsim_py wrote"):
        load_trace(tmp_path / "t.gz", digest="feed", ranks=10)


@given(st.data())
def test_a_cell_of_another_type_is_refused(tmp_path_factory, data):
    """Whichever it is: pictures count on the types of all."""
    target = tmp_path_factory.mktemp("saved") / "t.gz"
    trace = make_trace()
    save_trace(Trace(trace.spans, trace.messages, [Mark(1, 2, "failed", "", 3, "detector")]), target, digest="feed")
    whole = json.loads(gzip.decompress(target.read_bytes()))
    kind = data.draw(st.sampled_from(["spans", "messages", "marks"]))
    cells = whole[kind][data.draw(st.sampled_from(sorted(whole[kind])))]
    place = data.draw(st.integers(0, len(cells) - 1))
    others = [other for other in ([1], {}, "x", 0.5, True) if not isinstance(cells[place], type(other))]
    cells[place] = data.draw(st.sampled_from(others))
    target.write_bytes(gzip.compress(json.dumps(whole).encode()))
    with pytest.raises(ConfigError, match="not a trace that xsim_py wrote"):
        load_trace(target, digest="feed", ranks=10)


def test_a_rank_that_the_run_did_not_have_is_refused(tmp_path):
    save_trace(Trace([Span(2**33, "Send", 0, 1, "")], [], []), tmp_path / "t.gz", digest="feed")
    with pytest.raises(ConfigError, match="contains a rank that is not in the run"):
        load_trace(tmp_path / "t.gz", digest="feed", ranks=10)


def test_a_file_that_unpacks_to_a_gigabyte_is_refused_before_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "_MOST_BYTES", 1 << 20)
    (tmp_path / "t.gz").write_bytes(gzip.compress(b" " * ((1 << 20) + 1)))
    with pytest.raises(ConfigError, match=r"too large \(more than 1 MiB unpacked\)"):
        load_trace(tmp_path / "t.gz", digest="feed", ranks=10)
