import sys

import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_rgb

from tests.report.helpers import make_result, make_trace
from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.report import timeline as module
from xsim_py.report.timeline import Timeline
from xsim_py.report.view import PictureView
from xsim_py.trace import Mark, Span, Trace

ENDS_PS = [4_000_000, 12_000_000, 9_000_000]


def timeline():
    return of_trace(make_trace(), ENDS_PS)


def of_trace(trace, ends_ps):
    lives = [(rank, 0, end_ps) for rank, end_ps in enumerate(ends_ps)]
    return Timeline(trace, ranks=len(ends_ps), lives=lives, title="a few ranks")


def test_text_shows_who_was_in_which_call_and_until_when_it_lived():
    head, legend, *rows = timeline().text(width=12 + 9).splitlines()
    assert head == "timeline of 12 us; one character is 1 us"
    assert legend == "R Recv  B Barrier  S Send  . own work  X died"
    assert rows == [
        "rank 0 |SS..        |",
        "rank 1 |.RRRRRRRBBBB|",
        "rank 2 |...RRRRRRX  |",
        "9 us  rank 2: failed, injected",
    ]


def test_a_row_of_several_ranks_shows_what_most_of_their_time_went_into():
    spans = [Span(rank, "Recv" if rank % 3 else "Send", 0, 1000, "") for rank in range(100)]
    lines = of_trace(Trace(spans, [], []), [1000] * 100).text(width=30).splitlines()
    assert lines[2] == "  ranks 0-3 |" + "R" * 16 + "|"
    assert lines[3] == "  ranks 4-7 |" + "R" * 16 + "|"
    assert len(lines) == 2 + 25
    assert lines[-1].startswith("ranks 96-99 |")


def test_calls_with_the_same_letter_get_another():
    names = ["Send", "Ssend", "Sendrecv", "send"]
    spans = [Span(0, name, at * 10, at * 10 + 10 - at, "") for at, name in enumerate(names)]
    legend = of_trace(Trace(spans, [], []), [40]).text().splitlines()[1]
    assert legend == "S Send  E Ssend  N Sendrecv  D send  . own work"


def test_calls_that_are_too_many_share_a_place():
    spans = [Span(0, f"Call{at}", at * 10, at * 10 + 9, "") for at in range(12)]
    legend = of_trace(Trace(spans, [], []), [120]).text().splitlines()[1]
    assert legend.count("Call") == 6
    assert "o other calls" in legend


def test_marks_that_say_the_same_share_a_line():
    marks = [Mark(0, 1_000_000, "learned", "rank 3 has failed"), Mark(1, 2_000_000, "learned", "rank 3 has failed")]
    lines = of_trace(Trace([], [], marks), [3_000_000] * 2).text().splitlines()
    assert lines[-1] == "1 us to 2 us  2 ranks: learned, rank 3 has failed"


def test_marks_of_too_many_kinds_are_counted():
    marks = [Mark(0, at, f"mark{at}", "") for at in range(25)]
    assert of_trace(Trace([], [], marks), [30]).text().endswith("\n... and 5 more kinds of marks")


def test_a_job_that_is_started_again_lives_twice():
    trace = Trace([Span(0, "Send", 0, 20, ""), Span(1, "Send", 50, 60, "")], [], [])
    lives = [(0, 0, 30), (1, 0, 20), (0, 50, 80), (1, 50, 100)]
    rows = Timeline(trace, ranks=2, lives=lives).text(width=19).splitlines()[2:]
    assert rows == ["rank 0 |SS.  ...  |", "rank 1 |..   S....|"]


def test_time_is_neither_lost_nor_invented():
    spans = [(rank, at, at + width) for rank in range(5) for at, width in ((3, 5), (17, 0), (40, 333), (400, 599))]
    trace = Trace([Span(rank, "Recv", start, end, "") for rank, start, end in spans], [], [])
    for bins in (1, 7, 10, 97, 1600):
        shares = of_trace(trace, [1000, 999, 1000, 1000, 1000])._shares(2, 3, bins) * 1000 / bins
        assert shares.sum(axis=(1, 2)) == pytest.approx([5 * (5 + 333 + 599), 4999 - 5 * 937, 1])
        assert shares.min() > -1e-9
        assert shares.sum(axis=0) == pytest.approx(np.outer([2000, 2000, 1000], np.ones(bins)) / bins)


@pytest.mark.parametrize("name", ["t.png", "t.svg", "t.pdf"])
def test_a_picture_is_drawn(tmp_path, name):
    timeline().draw(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 5000


def test_a_death_and_a_call_are_in_the_picture(tmp_path):
    timeline().draw(tmp_path / "t.png", messages=False)
    pixels = (image.imread(tmp_path / "t.png")[..., :3] * 255).astype(int).reshape(-1, 3)
    colours = {tuple(pixel) for pixel in np.unique(pixels, axis=0)}
    assert {(0, 0x72, 0xB2), (0xE6, 0x9F, 0), (0x08, 0x30, 0x6B), (0, 0, 0), (0xEC, 0xEC, 0xEC)} <= colours


def test_arrows_make_a_difference(tmp_path):
    drawn = []
    for messages in (True, False):
        timeline().draw(tmp_path / "t.png", messages=messages)
        drawn.append(image.imread(tmp_path / "t.png"))
    assert (drawn[0] != drawn[1]).any()


def test_many_ranks_fit_into_a_picture(tmp_path):
    spans = [Span(rank, "Recv", rank, 5000, "") for rank in range(5000)]
    marks = [Mark(rank, 2000 + rank // 4, "learned", "") for rank in range(0, 5000, 50)]
    of_trace(Trace(spans, [], [*marks, Mark(7, 4000, "aborted", "")]), [5000] * 5000).draw(tmp_path / "t.png")
    height, width, _ = image.imread(tmp_path / "t.png").shape
    assert height == 1200
    assert 1500 < width < 1700  # with the legend


def test_a_name_that_no_picture_has_is_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(ConfigError, match=r"t.gif: the name of a figure ends with .png, .svg or .pdf"):
        timeline().draw(tmp_path / "t.gif")


def test_without_matplotlib_there_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xsim_py.report.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'xsim-py\[plot\]'"):
        timeline().draw(tmp_path / "t.png")


def test_a_run_that_was_not_traced_says_what_to_do(tmp_path):
    result = make_result()
    for ask in (result.timeline_text, lambda: result.draw_timeline("t.png"), lambda: result.to_perfetto("t.json")):
        with pytest.raises(ConfigError, match="trace=True"):
            ask()


def test_a_traced_run_shows_itself(tmp_path):
    def program():
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()

    result = simulate(program, ranks=2, trace=True)
    assert result.timeline_text(width=30).splitlines()[2:] == ["rank 0 |" + "B" * 21 + "|", "rank 1 |" + "B" * 21 + "|"]
    result.draw_timeline(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 5000


def test_a_view_shows_some_ranks_in_a_range_of_time():
    view = PictureView.of(["time=3us:9us", "ranks=1-2"])
    lives = [(rank, 0, end_ps) for rank, end_ps in enumerate(ENDS_PS)]
    head, _, *rows = Timeline(make_trace(), ranks=3, lives=lives, view=view).text(width=12 + 9).splitlines()
    assert head == "timeline from 3 us to 9 us; one character is 500 ns"
    # Half of what the whole timeline shows, each of its characters twice.
    assert rows == ["rank 1 |RRRRRRRRRRBB|", "rank 2 |RRRRRRRRRRRX|", "9 us  rank 2: failed, injected"]


@pytest.mark.parametrize(("setting", "said"), [("time=12us:", "the run ends at 12 us"), ("ranks=3", "ranks .* 0 to 2")])
def test_a_view_of_nothing_is_refused(setting, said):
    lives = [(rank, 0, end_ps) for rank, end_ps in enumerate(ENDS_PS)]
    with pytest.raises(ConfigError, match=said):
        Timeline(make_trace(), ranks=3, lives=lives, view=PictureView.of([setting]))


def test_a_picture_has_the_size_and_the_font_that_are_wanted(tmp_path):
    lives = [(rank, 0, end_ps) for rank, end_ps in enumerate(ENDS_PS)]
    view = PictureView.of(["size=4x2", "font=DejaVu Serif", "font_size=7"])
    target = tmp_path / "run.png"
    Timeline(make_trace(), ranks=3, lives=lives, view=view).draw(target)
    assert image.imread(target).shape[:2] == (300, 600)


def test_calls_are_distinct_as_greys():
    colours = (*module._CALL_COLOURS, module._OTHER_COLOUR, module.WORK_COLOUR)
    greys = sorted(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in colours)
    assert np.diff(greys).min() > 0.08
