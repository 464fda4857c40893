"""What ranks print and read."""

import io
import logging
import sys
import warnings
from pathlib import Path

import pytest

from tests.process.launch import launch, simulated
from xsim_py import simulate

SHARDS = pytest.mark.parametrize("shards", [1, 3])


@SHARDS
def test_lines_come_in_virtual_time_and_then_by_rank(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        """
        import time
        for step in range(3):
            time.sleep(3 - rank if step == 1 else 1)
            print(step, rank, time.perf_counter())
        """,
        ranks=3,
        shards=shards,
    )
    assert done.lines == [
        *("0 0 1.0", "0 1 1.0", "0 2 1.0"),
        *("1 2 2.0", "1 1 3.0", "2 2 3.0", "1 0 4.0", "2 1 4.0", "2 0 5.0"),
    ]


def test_unfinished_lines_wait_for_their_end(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        print("a", rank, end=" ")
        comm.Barrier()
        print("b", rank, end=" ", flush=True)
        comm.Barrier()
        print("c", rank)
        comm.Barrier()
        print("rest", end="")
        """,
        ranks=2,
    )
    assert done.out == "a 0 b 0 c 0\na 1 b 1 c 1\nrestrest"


def test_labels_are_put_in_front_of_lines_only(tmp_path: Path):
    text = """
        import sys
        print("two\\nlines\\x0b and a tab")
        print("error", file=sys.stderr)
        print("unfinished", end="")
        """
    done = launch(tmp_path, text, ranks=2, label=True)
    per_rank = "[{0}] two\n[{0}] lines\x0b and a tab\n[{0}] unfinished\n"
    assert done.out == per_rank.format(0) + per_rank.format(1)
    assert done.err == "[0] error\n[1] error\n"
    assert done.result.digest == launch(tmp_path, text, ranks=2).result.digest


def test_binary_output_arrives_byte_for_byte(tmp_path: Path):
    (tmp_path / "prog.py").write_text(
        "import sys\n"
        "sys.stdout.buffer.write(b'caf\\xc3')\n"
        "sys.stdout.buffer.write(b'\\xa9 \\xff\\n')\n"
        "sys.stdout.buffer.write(memoryview(b'view\\n'))\n"
        "sys.stdout.writelines(['x\\n', 'y\\n'])\n",
    )
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    simulate(tmp_path / "prog.py", ranks=1, stdout=sink)
    sink.flush()
    assert sink.buffer.getvalue() == b"caf\xc3\xa9 \xff\nview\nx\ny\n"
    assert simulated(tmp_path / "prog.py", ranks=1).out.endswith("view\nx\ny\n")


def test_streams_have_what_programs_ask_of_them(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        sys.stdout.reconfigure(line_buffering=True)
        print(sys.stdout.encoding, sys.stdout.isatty(), sys.stdout.name, sys.stdout.writable(), sys.stdin.name)
        sys.stdout.flush()
        sys.stderr.close()
        print("still there", file=sys.stderr)
        try:
            sys.stdout.write(b"bytes")
        except TypeError as error:
            print(error)
        """,
    )
    assert done.lines == ["utf-8 False <stdout> True <stdin>", "write() argument must be str, not bytes"]
    assert done.err == "still there\n"


def test_many_unfinished_pieces_do_not_take_for_ever(tmp_path: Path):
    done = launch(tmp_path, "for _ in range(200_000): print('.', end='')\nprint()")
    assert done.out == "." * 200_000 + "\n"


def test_a_rank_may_redirect_its_own_output(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import contextlib, io, sys
        caught = io.StringIO()
        with contextlib.redirect_stdout(caught) if rank == 1 else contextlib.nullcontext():
            print("before", rank)
            comm.Barrier()
            print("after", rank)
        comm.Barrier()
        print(rank, caught.getvalue().split())
        sys.stderr = sys.stdout
        comm.Barrier()
        print("error", rank, file=sys.stderr)
        """,
        ranks=3,
    )
    assert sorted(done.lines) == [
        *("0 []", "1 ['before', '1', 'after', '1']", "2 []", "after 0", "after 2", "before 0", "before 2"),
        *("error 0", "error 1", "error 2"),
    ]
    assert done.err == ""


@SHARDS
def test_input_is_rank_0_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int):
    monkeypatch.setattr(sys, "stdin", io.StringIO("first\nsecond\nthird\nfourth\n"))
    done = launch(
        tmp_path,
        """
        import sys
        try:
            print("got", input("name? "))
        except EOFError:
            print("nothing")
        print(sys.stdin.readline(), list(sys.stdin), repr(sys.stdin.read()))
        """,
        ranks=2,
        shards=shards,
    )
    assert done.out == "name? got first\nsecond\n ['third\\n', 'fourth\\n'] ''\nname? nothing\n [] ''\n"


def test_a_prompt_is_seen_before_the_answer_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stdout = io.StringIO()
    seen = []

    class Terminal(io.StringIO):
        def readline(self, *_: object) -> str:
            seen.append(stdout.getvalue())
            return "answer\n"

    monkeypatch.setattr(sys, "stdin", Terminal())
    (tmp_path / "prog.py").write_text("print('hello')\nprint(input('name? '))\n")
    simulate(tmp_path / "prog.py", ranks=1, stdout=stdout)
    assert seen == ["hello\nname? "]


class Closed(io.StringIO):
    """A pipe whose reader goes after the first line."""

    def write(self, text: str) -> int:
        if self.getvalue():
            raise BrokenPipeError
        return super().write(text)


@SHARDS
def test_a_reader_who_has_seen_enough_ends_the_run_without_a_word_to_the_program(tmp_path: Path, shards: int):
    (tmp_path / "prog.py").write_text(
        "import time\n"
        "try:\n"
        "    while True:\n"
        "        print('line')\n"
        "        time.sleep(1)\n"
        "except BaseException as error:\n"
        "    open(__file__ + '.told', 'w').close()\n"
    )
    sink = Closed()
    with pytest.raises(BrokenPipeError):
        simulate(tmp_path / "prog.py", ranks=3, shards=shards, stdout=sink)
    assert sink.getvalue() == "line\n"
    assert not (tmp_path / "prog.py.told").exists()


def test_a_stalled_rank_s_unfinished_line_is_shown(tmp_path: Path):
    done = launch(tmp_path, "print('waiting ... ', end=''); comm.recv(source=0)")
    assert done.out == "waiting ... "


@pytest.mark.parametrize("shards", [1, 2])
def test_unfinished_lines_of_stalled_ranks_come_last(tmp_path: Path, shards: int):
    done = launch(tmp_path, "print(rank, end=' '); rank == 2 or comm.recv(source=2)", ranks=3, shards=shards)
    assert done.out == "2 0 1 "


def test_logging_is_configured_by_each_rank(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import logging, sys, time
        if rank != 2:
            logging.basicConfig(format=f"[{rank}] %(levelname)s %(name)s %(message)s %(created)d", stream=sys.stdout,
                                level=logging.INFO if rank == 0 else logging.WARNING)
        comm.Barrier()
        log = logging.getLogger("app")
        log.info("information")
        log.warning("careful")
        if rank == 1:
            log.setLevel(logging.DEBUG)
            log.addHandler(logging.NullHandler())
            log.propagate = False
        comm.Barrier()
        log.error("bad")
        """,
        ranks=3,
    )
    assert sorted(done.lines) == [
        "[0] ERROR app bad 1577836800",
        "[0] INFO app information 1577836800",
        "[0] WARNING app careful 1577836800",
        "[1] WARNING app careful 1577836800",
    ]
    assert done.err.splitlines() == ["careful", "bad"]


def test_the_caller_s_logging_and_warnings_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    before = list(logging.root.handlers), logging.root.level, list(warnings.filters), dict(vars(logging.Logger))
    launch(
        tmp_path,
        """
        import logging, warnings
        logging.basicConfig(level=1)
        logging.getLogger("inner").setLevel(2)
        logging.warning("from the program")
        warnings.simplefilter("ignore")
        """,
        ranks=2,
    )
    after = list(logging.root.handlers), logging.root.level, list(warnings.filters), dict(vars(logging.Logger))
    assert after == before
    assert logging.getLogger("inner").level == logging.NOTSET
    assert not caplog.records


@pytest.mark.parametrize("shards", [1, 3])
def test_a_warning_of_what_is_done_for_a_rank_is_one_of_its_own_line(tmp_path: Path, shards: int):
    text = """
        import numpy
        for _ in range(2):
            comm.allreduce(numpy.float32(3e38))
            comm.scan(numpy.float32(3e38), numpy.add)
        comm.recv(bytearray(9), 0) if rank else [comm.send(1, dest) for dest in range(1, 4)]
        """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        launch(tmp_path, text, ranks=4, shards=shards, fail=["rank=1@1s"])  # calls are watched
    shown = sorted((warning.filename, warning.lineno) for warning in caught)
    assert shown == [(f"{tmp_path}/prog.py", line) for line in (7, 7, 7, 8, 8, 8, 8, 9, 9, 9)]


def test_there_are_no_warnings_of_what_no_rank_does(tmp_path: Path):
    machine = {"network": {"latency": "1us"}, "mpi": {"collectives": "ftco"}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        launch(tmp_path, "import numpy; comm.allreduce(numpy.float32(3e38))", ranks=4, machine=machine)
    assert not caught


def test_what_is_no_text_is_the_error_of_the_rank_that_prints_it(tmp_path: Path):
    text = r"""
        import sys
        if rank == 0:
            print("name \udcff", file=sys.stderr)
            print("lone \ud800", file=sys.stderr)
        try:
            print("\ud800")
        except UnicodeEncodeError as error:
            print(rank, error)
        comm.Barrier()
        print("\ud800")
        """
    done = launch(tmp_path, text, ranks=2)
    said = "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed"
    assert done.lines == [f"{rank} {said}" for rank in range(2)]
    assert f"UnicodeEncodeError: {said}" in done.result.report
    assert done.err.splitlines()[:2] == ["name \udcff", r"lone \ud800"]


@pytest.mark.parametrize("broken", ["sys.stderr = Broken()", "builtins.print = None", "sys.stderr = None"])
def test_a_traceback_is_shown_whatever_a_program_has_broken(tmp_path: Path, broken: str):
    text = f"""
        import builtins, sys
        class Broken:
            def write(self, text): raise OSError("no")
        if rank == 1:
            {broken}
            raise ValueError("shown")
        comm.Barrier()
        """
    done = launch(tmp_path, text, ranks=2)
    assert done.err.splitlines()[-1] == "ValueError: shown"
    assert done.result.report.startswith("rank 1 ended the job at 0 s: ValueError: shown")
    assert callable(print)


def test_a_warning_is_shown_once_in_each_rank(tmp_path: Path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        launch(tmp_path, "import warnings\nfor _ in range(3): warnings.warn('watch out')", ranks=2)
    assert [str(warning.message) for warning in caught] == ["watch out"] * 2
    assert caught[0].filename == str(tmp_path / "prog.py")


def test_text_of_a_class_of_the_programs_own_is_written_on_standard_error(tmp_path: Path):
    text = """
    import sys
    class Text(str):
        def __new__(cls, a, b):
            return super().__new__(cls, a + b)
    sys.stderr.write(Text("a", chr(0xD800)))
    """
    assert launch(tmp_path, text).err == "a\\ud800"
