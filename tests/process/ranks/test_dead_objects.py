"""What is dead is freed, and no code of it runs."""

import contextlib
import cProfile
import ctypes
import functools
import gc
import io
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from greenlet import getcurrent, greenlet

from xsim_py import simulate
from xsim_py.process.ranks import dead_objects

_ran: list[str] = []


class WithDel:
    """Says when it is finalized."""

    def __del__(self) -> None:
        _ran.append("__del__")


def _wait() -> None:
    getcurrent().parent.switch()  # type: ignore[union-attr]


def in_handlers() -> None:
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(_ran.append, "__exit__")
            _wait()
            _ran.append("went on")
    except BaseException:
        _ran.append("except")
        raise
    finally:
        _ran.append("finally")


def with_objects() -> None:
    alone, cycle, watched = WithDel(), WithDel(), WithDel()
    cycle.me = cycle  # type: ignore[attr-defined]
    reference = weakref.ref(watched, lambda _: _ran.append("callback"))
    weakref.finalize(watched, _ran.append, "weakref.finalize")

    def steps() -> object:
        try:
            yield 1
        finally:
            _ran.append("generator")

    generator = steps()
    next(generator)  # type: ignore[call-overload]
    _wait()
    _ran.append(f"went on {alone, reference, generator}")


def in_a_finalizer() -> None:
    class Waits:
        def __del__(self) -> None:
            _wait()
            _ran.append("went on in __del__")

    waits = Waits()
    del waits  # C code swallows what is raised there
    _ran.append("went on")


def in_c_code_that_swallows_errors() -> None:
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def wait(*_: object) -> int:
        try:
            _wait()
        except BaseException:
            _ran.append("except")
        return 0

    ctypes.CDLL(None).qsort((ctypes.c_int * 4)(1, 2, 3, 4), 4, 4, compare(wait))
    _ran.append("went on")


def in_c_code() -> None:
    functools.reduce(lambda *_: _wait(), range(3))
    _ran.append("went on")


def in_a_generator() -> None:
    def steps() -> object:
        try:
            _wait()
            yield 1
        finally:
            _ran.append("finally")

    list(steps())  # type: ignore[call-overload]
    _ran.append("went on")


def with_a_file() -> None:
    file = open("unwritten.txt", "w")  # noqa: SIM115
    file.write("buffered")
    _wait()
    _ran.append(f"went on {file}")


STANDING = [
    *(in_handlers, with_objects, in_a_finalizer, in_c_code_that_swallows_errors, in_c_code, in_a_generator),
    with_a_file,
]


def test_the_layout_of_objects_is_known() -> None:
    assert dead_objects._finalizer_word() is not None


@pytest.mark.parametrize("stands", STANDING)
def test_what_waits_is_freed_and_runs_nothing(
    stands: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    _ran.clear()
    waiting = greenlet(stands)
    waiting.switch()
    code = stands.__code__.co_code
    gone = weakref.ref(waiting)
    dead_objects.keep(waiting)
    del waiting
    dead_objects.free(())
    assert gone() is None
    assert _ran == []
    assert stands.__code__.co_code == code
    gc.collect()
    assert _ran == []
    assert not any(path.read_text() for path in tmp_path.iterdir())


def test_a_class_with_a_finalizer_goes_with_its_module() -> None:
    _ran.clear()
    module: dict[str, object] = {"ran": _ran}
    exec("class Owner:\n    def __del__(self):\n        ran.append('__del__')\nowner = Owner()", module)
    gone = weakref.ref(module["owner"])
    dead_objects.keep(module)
    del module
    dead_objects.free(())
    assert gone() is None
    assert _ran == []


def test_all_is_put_back() -> None:
    waiting = greenlet(in_handlers)
    waiting.switch()
    dead_objects.keep(waiting)
    dead_objects.free(())
    _ran.clear()
    WithDel()
    alive = WithDel()
    reference = weakref.ref(alive, lambda _: _ran.append("callback"))
    del alive
    assert reference() is None
    again = greenlet(in_handlers)
    again.switch()
    again.throw()
    assert sorted(_ran) == sorted(["__del__", "callback", "__del__", "__exit__", "except", "finally"])


def test_a_profiler_of_the_host_goes_on() -> None:
    with cProfile.Profile() as profile:
        dead_objects.keep(greenlet(in_handlers))
        dead_objects.free(())
        str.title("counted")
    assert any("title" in str(entry.code) for entry in profile.getstats())


def test_greenlets_of_programs_are_left_alone() -> None:
    _ran.clear()
    own = greenlet(in_handlers)
    own.switch()
    waiting = greenlet(in_c_code)
    waiting.switch()
    dead_objects.keep(waiting)
    del waiting
    dead_objects.free(())
    alive = not own.dead
    del own
    gc.collect()
    assert alive
    assert _ran == []


ARRAY = 100_000
PROGRAM = """
from mpi4py import MPI
import atexit, contextlib, time, weakref, numpy

comm = MPI.COMM_WORLD

class Finalized:
    def __init__(self):
        self.array, self.me = numpy.ones(SIZE), self
    def __del__(self):
        print("__del__")
    def __enter__(self):
        return self
    def __exit__(self, *_):
        print("__exit__")

def wait(array):
    try:
        with Finalized() as one:
            weakref.finalize(one, print, "finalize")
            atexit.register(print, "atexit")
            if comm.rank == comm.size - 1 and RAISES:
                raise ValueError
            WAITS
    finally:
        if comm.rank < comm.size - 1:
            print("finally")

wait(numpy.ones(SIZE))
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("raises", "ended", "survivors", "told"),
    [
        (False, "stalled", 0, {}),
        (True, "aborted", 1, {}),
        (False, "finished", 3, {"fail": "rank=1@5us"}),
        (False, "stalled", 0, {"check": True}),
        (False, "stalled", 0, {"shards": 2}),
    ],
)
def test_runs_that_stall_or_abort_leave_no_memory_behind(
    raises: bool, ended: str, survivors: int, told: dict[str, object]
) -> None:
    program = PROGRAM.replace("SIZE", str(ARRAY)).replace("RAISES", str(raises))
    program = program.replace("WAITS", "time.sleep(1)" if "fail" in told else "comm.recv()")

    def run(times: int) -> None:
        for _ in range(times):
            stdout = io.StringIO()
            result = simulate(program, kind="code", ranks=4, stdout=stdout, stderr=io.StringIO(), **told)
            assert result.ended == ended
            assert all(stdout.getvalue().count(word) == survivors for word in ("exit__", "atexit", "finalize", "del"))

    run(2)
    before = _resident_bytes()
    run(3)
    assert _resident_bytes() - before < 3 * 4 * ARRAY * 8 // 2  # an array a rank would be twice as much


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
