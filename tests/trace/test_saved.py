import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.helpers import make_trace
from xsim_py.errors import ConfigError
from xsim_py.trace import Mark, Message, Span, Trace
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
    again = load_trace(folder / "a.gz", digest="feed")
    assert again is not None
    assert (again.spans, again.messages, again.marks) == (spans, trace.messages, marks)
    assert isinstance(again.messages[0], Message)
    assert (folder / "a.gz").read_bytes() == (folder / "b.gz").read_bytes()


def test_the_trace_of_another_run_is_none(tmp_path):
    save_trace(make_trace(), tmp_path / "t.gz", digest="feed")
    assert load_trace(tmp_path / "t.gz", digest="beef") is None
    assert load_trace(tmp_path / "nothing.gz", digest="beef") is None


@pytest.mark.parametrize(
    "content",
    [b"text", gzip.compress(b"[1]"), gzip.compress(b'{"digest": "feed"}')],
    ids=["no archive", "a list", "no spans"],
)
def test_what_is_no_trace_is_refused(tmp_path, content):
    (tmp_path / "t.gz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"t\.gz: not a trace that xsim_py wrote"):
        load_trace(tmp_path / "t.gz", digest="feed")
