import io
import time

from xsim_py.cli import progress
from xsim_py.cli.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def line_on(stream: io.StringIO, **settings: bool) -> ProgressLine:
    ticks = iter([0.0, 0.5, 2.5])
    return ProgressLine(stream, clock=lambda: next(ticks), **settings)


def test_rewrites_one_line_with_the_rate_since_the_last_time(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    screen = Terminal()
    line = line_on(screen)
    line.update(34_914_000, 1_000, 3, 1_024)
    line.update(1_500_000_000, 5_000, 1_024, 1_024)
    first, second = screen.getvalue().split("\r\x1b[K")[1:]
    assert first == "34.91 us  2,000 events/s  3 of 1,024 ranks finished"
    assert second == "1.5 ms  2,000 events/s  1,024 of 1,024 ranks finished"


def test_never_fills_the_terminals_last_column(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    screen = Terminal()
    line_on(screen).update(34_914_000, 1_000, 3, 1_024)
    assert screen.getvalue() == "\r\x1b[K34.91 us  2,000 eve"


def test_a_stream_that_is_busy_is_left_alone():
    class Busy(Terminal):
        def write(self, text: str) -> int:
            raise RuntimeError("reentrant call")

    line_on(Busy()).update(0, 0, 0, 1)


def test_is_off_when_piped_or_unwanted():
    assert line_on(io.StringIO()).callback is None
    assert line_on(Terminal(), wanted=False).callback is None
    assert line_on(Terminal()).callback is not None


def test_makes_room_for_what_is_written_to_the_terminal():
    screen = Terminal()
    line = line_on(screen)
    line.update(0, 0, 0, 1)
    line.above(screen).write("a line of the program\n")
    line.clear()
    assert screen.getvalue().endswith("finished\r\x1b[Ka line of the program\n")


def test_leaves_a_file_alone():
    file = io.StringIO()
    assert line_on(Terminal()).above(file) is file


def test_where_there_is_no_terminal_a_plain_line_is_said_every_half_minute():
    file = io.StringIO()
    ticks = iter([0, 29, 30, 59, 61])
    line = ProgressLine(file, plain="xsim: ", clock=lambda: next(ticks))
    for text in "abcd":
        line.show(text)
    line.clear()
    assert file.getvalue() == "xsim: b\nxsim: d\n"


def test_the_time_left_is_what_is_told_or_follows_the_number_of_runs():
    file = io.StringIO()
    ticks = iter([0, 0, 0, 60, 60, 60, 90, 90])  # made; and for each count: told, shown, and when a line was last said
    line = ProgressLine(file, plain="", clock=lambda: next(ticks))
    line.count(0, 3)
    line.count(1, 3, left_s=180)
    line.count(2, 3)
    assert file.getvalue().splitlines() == ["1 of 3 runs  1:00  about 3:00 left", "2 of 3 runs  1:30  about 0:45 left"]


def test_it_tells_how_far_many_runs_are():
    screen = Terminal()
    line = ProgressLine(screen)
    line.count(1, 4)
    line.count(3, 4, 1)
    first, second = screen.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("######.................. 1 of 4 runs  0:00")
    assert second == "##################...... 3 of 4 runs  1 failed  0:00  about 0:00 left"


def test_a_count_is_shown_by_itself_while_nothing_ends(monkeypatch):
    monkeypatch.setattr(progress, "_TICK_S", 0.001)
    monkeypatch.setattr(progress, "_PLAIN_EVERY_S", 0.0)
    file = io.StringIO()
    with ProgressLine(file, plain="xsim: ") as line:
        line.count(0, 2)
        while file.getvalue().count("\n") < 3:
            time.sleep(0.001)
    assert set(file.getvalue().splitlines()) == {"xsim: 0 of 2 runs  0:00"}
