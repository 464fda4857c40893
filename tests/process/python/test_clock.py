"""Every clock of a rank shows virtual time."""

import datetime
import pickle
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from tests.process.launch import PRELUDE, launch, simulated
from xsim_py.process.python import clock as clock_module


def test_sleep_lets_virtual_time_pass_and_no_other(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import time
        from time import sleep
        time.sleep(1000)
        sleep(0.5 * rank)
        print(time.perf_counter(), time.monotonic_ns(), time.time() - 1577836800, MPI.Wtime())
        """,
        ranks=2,
    )
    assert done.lines == ["1000.0 1000000000000 1000.0 1000.0", "1000.5 1000500000000 1000.5 1000.5"]
    assert done.result.virtual_time_s == 1000.5


@pytest.mark.parametrize("clock", ["time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime"])
def test_every_clock_agrees(tmp_path: Path, clock: str):
    call = f"time.{clock}({'time.CLOCK_MONOTONIC' if clock == 'clock_gettime' else ''})"
    done = launch(tmp_path, f"import time; t = {call}; time.sleep(0.25); print({call} - t)")
    assert done.lines == ["0.25"]


def test_dates_are_those_of_the_epoch(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import time
        time.sleep(86400)
        print(time.gmtime()[:6], time.strftime("%Y-%m-%d", time.gmtime()), time.localtime().tm_year)
        print(time.strftime("%Y"), time.ctime()[-4:], time.asctime()[-4:], time.gmtime(0)[:3])
        """,
    )
    assert done.lines == ["(2020, 1, 2, 0, 0, 0) 2020-01-02 2020", "2020 2020 2020 (1970, 1, 1)"]


@pytest.mark.parametrize("clock", ["time.time", "time.perf_counter", "MPI.Wtime"])
@pytest.mark.parametrize("span", [1e-5, 1.0, 3600.0])
def test_a_spin_on_a_clock_ends_soon_and_not_much_too_late(tmp_path: Path, clock: str, span: float):
    done = launch(
        tmp_path,
        f"""
        import time
        until = {clock}() + {span}
        reads = 0
        while (now := {clock}()) < until:
            reads += 1
        print(reads, now - until)
        """,
    )
    reads, late = done.lines[0].split()
    assert int(reads) < 10_000
    assert float(late) <= 0.01 * span + 1e-6


def test_a_wait_for_hours_costs_some_thousand_readings(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        end, reads = MPI.Wtime() + 36000, 0
        while MPI.Wtime() < end:
            reads += 1
        print(reads < 10_000, MPI.Wtime() < 36_360)
        end, looks = MPI.Wtime() + 36000, 0
        while MPI.Wtime() < end:
            looks += comm.Iprobe() or 1
        print(looks < 20_000, MPI.Wtime() < 2 * 36_360)
        """,
    )
    assert done.lines == ["True True", "True True"]


TIMED = """
    import logging, sys, time
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
    log = logging.getLogger()
    log.addHandler(logging.NullHandler())
    log.handlers[0].setLevel(logging.ERROR)
    def now():
        return time.perf_counter()
    def timed_steps(steps):
        step = 0
        while step < steps:
            begin = MPI.Wtime()
            step += 1
            assert MPI.Wtime() - begin <= 1e-6
    def stamps(steps):
        times = []
        while len(times) < steps:
            times.append(now())
    def logged(steps):
        for step in range(steps):
            log.warning("step %d", step)
    def spins(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
"""


@pytest.mark.parametrize("call", ["timed_steps(20_000)", "stamps(20_000)", "logged(5_000)"])
def test_what_reads_clocks_often_and_waits_for_nothing_takes_100_ns_a_reading(tmp_path: Path, call: str):
    done = launch(tmp_path, f"{TIMED}\n    {call}\n    print(MPI.Wtime() < 0.005)")
    assert done.lines == ["True"]
    assert done.result.warnings == []


def test_the_result_says_which_loops_have_waited_for_a_clock_and_how_long(tmp_path: Path):
    done = launch(tmp_path, f"{TIMED}\n    timed_steps(3000)\n    spins(2 + rank)", ranks=2)
    (said,) = done.result.warnings
    line = TIMED.splitlines().index("        while time.monotonic() < end:") + PRELUDE.count("\n") + 1
    assert "growing ticks" in said
    assert f" of rank 1 at {tmp_path}/prog.py:{line}" in said
    took, unit = said.rpartition(" late: ")[2].split()[:2]
    assert unit == "s"
    assert 2.9 < float(took) < 3.1


@settings(
    max_examples=15 if CAMPAIGN else 5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["timed_steps", "stamps", "logged"]), st.integers(1, 4000)),
            st.tuples(st.sampled_from(["spins", "time.sleep"]), st.sampled_from([1e-5, 1e-3, 0.5, 5000.0])),
        ),
        max_size=6,
    )
)
def test_time_passes_for_waits_and_a_little_for_readings(tmp_path: Path, steps: list[tuple[str, float]]):
    calls = "".join(f"\n    {name}({amount})" for name, amount in steps)
    text = f"{TIMED}{calls}\n    comm.Barrier()\n    print(MPI.Wtime())"
    ways = {"shards": 2}, {"isolation": "process"}
    done = launch(tmp_path, text, ranks=2)
    waited = sum(amount for name, amount in steps if name in ("spins", "time.sleep"))
    reads = sum(2 * amount + 3000 for name, amount in steps if name != "time.sleep")
    assert waited <= float(done.lines[0]) <= waited * 1.01 + 1e-7 * reads + 1e-4
    for way in ways:
        again = launch(tmp_path, text, ranks=2, **way)
        assert (again.result.digest, again.result.warnings) == (done.result.digest, done.result.warnings)


def test_a_few_readings_cost_nothing(tmp_path: Path):
    done = launch(tmp_path, "import time; print(len({time.perf_counter() for _ in range(500)}))")
    assert done.lines == ["1"]


def test_other_ranks_get_on_while_one_spins(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import time
        if rank == 0:
            while time.time() < 1577836800 + 1:
                pass
            print("spun")
        else:
            time.sleep(0.5)
            print("slept")
        """,
        ranks=2,
    )
    assert done.lines == ["slept", "spun"]


def test_a_shared_module_that_measures_itself_is_not_left_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(clock_module, "_installed", lambda: (str(tmp_path / "compiler.py"),))
    compiler = """
        import time
        busy = False
        def compile(seconds):
            global busy
            assert not busy
            busy, until = True, time.perf_counter() + seconds
            for _ in range(5000):
                time.perf_counter()
            while time.perf_counter() < until:
                pass
            busy = False
        """
    done = launch(
        tmp_path,
        """
        import compiler
        compiler.compile(0)
        print(MPI.Wtime() < 1e-6)
        compiler.compile(1)
        print(1 <= MPI.Wtime() < 1.02)
        """,
        ranks=2,
        share=["compiler"],
        files={"compiler.py": compiler},
    )
    assert done.lines == ["True"] * 4


def test_lengths_of_sleep_are_checked_as_usual(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import time, numpy
        from fractions import Fraction
        for length in (-1, "1", None, float("nan"), 1.5, numpy.int32(3), numpy.float32(0.5), Fraction(1, 2), 1e10):
            try:
                time.sleep(length)
            except (TypeError, ValueError, OverflowError) as error:
                print(type(error).__name__)
        print(time.perf_counter(), type(time.perf_counter_ns()))
        """,
    )
    assert done.lines == [
        *("ValueError", "TypeError", "TypeError", "ValueError", "OverflowError"),
        "5.5 <class 'int'>",
    ]


def test_the_real_clock_is_back_afterwards(tmp_path: Path):
    before = {name: getattr(time, name) for name in dir(time)}
    launch(tmp_path, "import time; time.sleep(1)")
    assert {name: getattr(time, name) for name in dir(time)} == before
    assert time.time() > 1_700_000_000


def test_dates_are_virtual_and_real_objects(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import copy, pickle, time
        import datetime as module
        from datetime import UTC, date, datetime, timedelta
        time.sleep(86400 + rank)
        now = datetime.now(UTC)
        print(now, date.today(), datetime.utcnow() - datetime(2020, 1, 1), datetime.today() == datetime.now())
        assert isinstance(now, datetime) and isinstance(now, date) and isinstance(module.datetime(2020, 1, 1), datetime)
        assert not isinstance(5, datetime) and issubclass(datetime, date) and not issubclass(int, datetime)
        assert datetime.fromisoformat("2020-05-06") + timedelta(1) == datetime.strptime("2020 05 07", "%Y %m %d")
        assert datetime.min < datetime.now() < datetime.max and date(2020, 1, 2) == date.today()
        assert pickle.loads(pickle.dumps(now)) == now == copy.deepcopy(now)
        assert len(pickle.dumps([now, date.today()], 5)) == 124
        assert comm.bcast(now, root=0) <= now

        class Mine(datetime):
            def half(self): return self.year / 2
        mine = Mine.now()
        assert type(mine) is Mine and mine.half() == 1010 and isinstance(mine, datetime)
        assert not isinstance(now, Mine) and type(Mine.strptime("2020", "%Y")) is Mine
        """,
        ranks=2,
    )
    assert done.err == ""
    assert done.lines == [f"2020-01-02 00:00:0{rank}+00:00 2020-01-02 1 day, 0:00:0{rank} True" for rank in (0, 1)]


def test_dates_that_come_back_are_as_any_other(tmp_path: Path):
    def program() -> object:
        import datetime

        return datetime.datetime.now(datetime.UTC), datetime.date.today()

    ((now, today),) = simulated(program, ranks=1).result.values
    assert (type(now), type(today)) == (datetime.datetime, datetime.date)
    assert pickle.loads(pickle.dumps([now, today])) == [now, today]
    assert now == datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def test_clocks_in_defaults_of_modules_that_were_there_before_are_virtual(tmp_path: Path):
    import sched
    import timeit

    defaults = sched.scheduler.__init__.__defaults__, timeit.timeit.__defaults__  # type: ignore[attr-defined]
    done = launch(
        tmp_path,
        """
        import sched, time, timeit
        events = sched.scheduler()
        events.enter(2, 1, lambda: print(MPI.Wtime()))
        events.run()
        print(timeit.timeit(lambda: time.sleep(1), number=3), MPI.Wtime())
        """,
    )
    assert done.lines == ["2.0", "3.0 5.0"]
    assert (sched.scheduler.__init__.__defaults__, timeit.timeit.__defaults__) == defaults  # type: ignore[attr-defined]
