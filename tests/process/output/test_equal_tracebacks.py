"""Equal tracebacks are written once, and stay where they belong among what ranks print."""

import io
import re
from pathlib import Path

import pytest

from tests.process.launch import Launched, launch
from xsim_py import simulate
from xsim_py.process.output.equal_tracebacks import EqualTracebacks
from xsim_py.units import spans

TRACEBACK = re.compile(r"^(?:ranks (?P<ranks>[-\d, ]+): )?(?:Exception in thread.*\n)?Traceback", re.MULTILINE)


def tracebacks(done: Launched) -> list[str | None]:
    return [found["ranks"] for found in TRACEBACK.finditer(done.err)]


def test_one_waits_as_long_as_others_may_come_and_no_longer():
    waiting = EqualTracebacks(10)
    for clock_ps, rank, text in ((100, 3, "a"), (104, 1, "b"), (110, 0, "a")):
        assert not list(waiting.due(clock_ps))
        waiting.add(clock_ps, rank, text)
    assert not list(waiting.due(110))
    assert (waiting.hold(0, "more"), waiting.hold(2, "else")) == (True, False)
    assert list(waiting.due(111)) == [([3, 0], "a"), ([0], "more")]
    assert not waiting.hold(0, "much later")
    waiting.add(112, 2, "a")
    assert list(waiting.due(None)) == [([1], "b"), ([2], "a")]
    assert not waiting


def test_equal_ones_of_one_rank_are_all_written():
    tracebacks = EqualTracebacks(10)
    for rank in (0, 1, 0):
        tracebacks.add(5, rank, "one")
    assert list(tracebacks.due(None)) == [([0, 1], "one"), ([0], "one")]


def test_numbers_in_few_words():
    assert spans([3, 1, 2, 7, 9, 10]) == "1-3, 7, 9-10"
    assert spans(range(0, 100, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, ..., 98"


SAME = "print('rank', rank)\nassert rank > 100, 'too few'"


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_equal_tracebacks_of_ranks_are_one_below_what_they_have_printed(tmp_path: Path, shards: int):
    done = launch(tmp_path, SAME, ranks=7, shards=shards)
    assert tracebacks(done) == ["0-6"]
    assert done.err.count("AssertionError: too few") == 1
    assert (done.result.ended, done.result.exit_status) == ("aborted", 1)
    together = io.StringIO()
    simulate(tmp_path / "prog.py", ranks=7, shards=shards, stdout=together, stderr=together)
    assert together.getvalue().splitlines()[:8] == [
        *(f"rank {rank}" for rank in range(7)),
        "ranks 0-6: Traceback (most recent call last):",
    ]


def test_with_labels_the_ranks_stand_in_front_of_each_line(tmp_path: Path):
    done = launch(tmp_path, "assert rank == 2, 'no'", ranks=4, label=True)
    lines = done.err.splitlines()
    assert (lines[0], lines[-1]) == ("[0-1, 3] Traceback (most recent call last):", "[0-1, 3] AssertionError: no")
    assert {line[:9] for line in lines} == {"[0-1, 3] "}


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_latency_later_it_is_another_failure(tmp_path: Path, shards: int):
    """Ranks 0, 1 and 2 fail within 20 us of each other; rank 3 later, when it could have heard of that."""
    text = "import time; time.sleep([0, 8e-6, 19e-6, 21e-6][rank]); print(rank); 1 / 0"
    done = launch(tmp_path, text, ranks=4, ft=True, shards=shards)
    assert tracebacks(done) == ["0-2", None]


def test_tracebacks_that_differ_keep_their_order_and_one_alone_is_as_it_was(tmp_path: Path):
    done = launch(tmp_path, "assert 0, f'parity {rank % 2}'", ranks=5)
    assert re.findall("Error: (parity .)", done.err) == ["parity 0", "parity 1"]
    assert tracebacks(done) == ["0, 2, 4", "1, 3"]
    alone = launch(tmp_path, "assert rank != 1", ranks=2)
    assert alone.err.startswith("Traceback (most recent call last):\n")


def test_they_are_written_however_the_run_ends(tmp_path: Path):
    """Rank 2 does not let the launcher's signal come."""
    text = "if rank == 2:\n    while True: pass\nassert 0"
    done = launch(tmp_path, text, ranks=3, wall_limit=0.4)
    assert (done.result.ended, tracebacks(done)) == ("wall limit", ["0-1"])


HOOK = """
import sys
def hook(kind, error, tb):
    sys.__excepthook__(kind, error, tb)
    comm.Abort(3)
sys.excepthook = hook
1 / 0
"""
THREAD = """
import threading
def work():
    raise ValueError("in a thread")
thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
"""


@pytest.mark.parametrize(("text", "status"), [(HOOK, 3), (THREAD, 0)])
def test_those_that_a_hook_prints_and_those_of_threads_are_among_them(tmp_path: Path, text: str, status: int):
    done = launch(tmp_path, text, ranks=3)
    assert (tracebacks(done), done.result.exit_status) == (["0-2"], status)


def test_what_a_program_puts_in_the_place_of_standard_error_gets_its_own(tmp_path: Path):
    text = """
    import sys
    class Tee:
        def write(self, text):
            print("seen", "ZeroDivisionError" in text)
            return len(text)
        def flush(self):
            pass
    sys.stderr = Tee()
    1 / 0
    """
    done = launch(tmp_path, text, ranks=2)
    assert (done.lines, done.err) == (["seen True"] * 2, "")


def test_a_line_begun_on_standard_error_is_ended_by_the_traceback(tmp_path: Path):
    done = launch(tmp_path, "import sys; sys.stderr.write('so far: '); 1 / 0", ranks=2)
    assert done.err.count("so far: Traceback") == 2
