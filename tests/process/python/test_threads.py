"""Threads of virtual processes: in virtual time, in an order that can be repeated, and dead with their rank."""

import concurrent.futures
import queue
import threading
from pathlib import Path

import pytest

from tests.process.launch import Launched, launch

SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])
HEAD = "import concurrent.futures, os, queue, sys, threading, time\nnow = time.perf_counter\n"


def run(folder: Path, text: str, **told: object) -> Launched:
    """A program that has the modules that it needs."""
    from textwrap import dedent

    return launch(folder, HEAD + dedent(text), **told)  # type: ignore[arg-type]


def test_threads_sleep_beside_each_other(tmp_path: Path):
    done = run(
        tmp_path,
        """
        def work(seconds):
            time.sleep(seconds)
            print(threading.current_thread().name, now())
        threads = [threading.Thread(target=work, args=(seconds,)) for seconds in (3, 1, 2)]
        for thread in threads:
            thread.start()
        print([thread.is_alive() for thread in threads], threading.active_count())
        threads[1].join()
        print("joined", now(), threads[1].is_alive())
        threads[0].join(timeout=0.5)
        print("waited", now(), threads[0].is_alive())
        """,
    )
    assert done.lines == [
        "[True, True, True] 4",
        "Thread-2 (work) 1.0",
        "joined 1.0 False",
        "waited 1.5 True",
        "Thread-3 (work) 2.0",
        "Thread-1 (work) 3.0",
    ]
    assert done.result.virtual_time_s == 3


def test_who_is_running(tmp_path: Path):
    done = run(
        tmp_path,
        """
        main, me = threading.main_thread(), threading.current_thread()
        print(me is main, me.name, me.ident == threading.get_ident(), threading.get_native_id() == os.getpid())
        def work():
            me = threading.current_thread()
            print(me is thread, me in threading.enumerate(), threading.main_thread() is main, me.daemon)
            print(threading.get_ident() == me.ident != main.ident, threading.get_native_id() == me.native_id)
            print(repr(me).replace(str(me.ident), "ident"))
        thread = threading.Thread(target=work, name="worker")
        print(repr(thread), thread.is_alive(), thread.ident)
        thread.start()
        thread.join()
        print(repr(thread).replace(str(thread.ident), "ident"), threading.enumerate() == [main])
        """,
    )
    assert done.lines == [
        "True MainThread True True",
        "<Thread(worker, initial)> False None",
        "True True True False",
        "True True",
        "<Thread(worker, started ident)>",
        "<Thread(worker, stopped ident)> True",
    ]


@SHARDS
def test_everything_that_blocks_lets_the_others_go_on(tmp_path: Path, shards: int):
    done = run(
        tmp_path,
        """
        tasks = queue.Queue(2)
        def produce():
            for number in range(4):
                time.sleep(1)
                tasks.put((number, now()))
            tasks.put(None)
        threading.Thread(target=produce).start()
        while (task := tasks.get()) is not None:
            print(rank, "queue", task, now())
        simple = queue.SimpleQueue()
        threading.Timer(2, simple.put, ["simple"]).start()
        print(rank, simple.get(), now())
        event = threading.Event()
        print(rank, "event", event.wait(0.25), now())
        threading.Timer(1, event.set).start()
        print(rank, "event", event.wait(), now())
        barrier = threading.Barrier(3)
        def meet(seconds):
            time.sleep(seconds)
            barrier.wait()
            print(rank, "barrier", seconds, now())
        for seconds in (1, 2):
            threading.Thread(target=meet, args=(seconds,)).start()
        meet(3)
        semaphore = threading.Semaphore(2)
        def enter(number):
            with semaphore:
                time.sleep(1)
            print(rank, "semaphore", number, now())
        for number in range(4):
            threading.Thread(target=enter, args=(number,)).start()
        """,
        ranks=3,
        shards=shards,
    )
    mine = [line.removeprefix("1 ") for line in done.lines if line.startswith("1 ")]
    assert mine == [
        *(f"queue ({number}, {number + 1}.0) {number + 1}.0" for number in range(4)),
        "simple 6.0",
        "event False 6.25",
        "event True 7.25",
        "barrier 3 10.25",
        "barrier 1 10.25",
        "barrier 2 10.25",
        "semaphore 0 11.25",
        "semaphore 1 11.25",
        "semaphore 2 12.25",
        "semaphore 3 12.25",
    ]


@SHARDS
def test_timeouts_of_queues_and_semaphores_are_virtual(tmp_path: Path, shards: int):
    done = run(
        tmp_path,
        """
        tasks = queue.Queue(1)
        try:
            tasks.get(timeout=1)
        except queue.Empty:
            print("empty", now())
        tasks.put("full")
        try:
            tasks.put("more", timeout=0.5)
        except queue.Full:
            print("full", now())
        print(threading.Semaphore(0).acquire(timeout=0.25), now())
        condition = threading.Condition()
        with condition:
            print(condition.wait_for(lambda: False, 2), now())
        """,
        ranks=3,
        shards=shards,
    )
    assert done.lines == ["empty 1.0"] * 3 + ["full 1.5"] * 3 + ["False 1.75"] * 3 + ["False 3.75"] * 3
    assert done.result.virtual_time_s == 3.75


def test_locks_are_handed_on_in_order(tmp_path: Path):
    done = run(
        tmp_path,
        """
        lock = threading.Lock()
        def take(number):
            with lock:
                time.sleep(1)
            print(number, now())
        for number in range(3):
            threading.Thread(target=take, args=(number,)).start()
        time.sleep(0.5)
        print(lock.locked(), lock.acquire(False), lock.acquire(timeout=0.25), now())
        print(lock.acquire(), now())
        lock.release()
        for call in (lock.release, lambda: lock.acquire(False, 1), lambda: lock.acquire(timeout=-2)):
            try:
                call()
            except Exception as error:
                print(type(error).__name__)
        again = threading.RLock()
        with again, again:
            threading.Thread(target=lambda: print("no", again.acquire(False))).start()
            time.sleep(1)
        threading.Thread(target=lambda: print("yes", again.acquire(False))).start()
        try:
            again.release()
        except RuntimeError as error:
            print(error)
        """,
    )
    assert done.lines == [
        "True False False 0.75",
        "0 1.0",
        "1 2.0",
        "2 3.0",
        "True 3.0",
        "RuntimeError",
        "ValueError",
        "ValueError",
        "no False",
        "cannot release un-acquired lock",
        "yes True",
    ]


def test_a_pool_of_threads(tmp_path: Path):
    done = run(
        tmp_path,
        """
        def work(number):
            time.sleep(1)
            return number * number, threading.current_thread().name
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            print(list(pool.map(work, range(4))), now())
        left = concurrent.futures.ThreadPoolExecutor(1, "left")
        futures = [left.submit(work, number) for number in range(2)]
        print(concurrent.futures.wait(futures, 1.5).done == {futures[0]}, now())
        left.submit(print, "at the end")
        print("main is done", now())
        """,
    )
    names = [f"ThreadPoolExecutor-0_{number}" for number in (0, 1, 0, 1)]
    assert done.lines == [
        f"{list(zip((0, 1, 4, 9), names, strict=True))} 2.0",
        "True 3.5",
        "main is done 3.5",
        "at the end",
    ]
    assert done.result.virtual_time_s == 4


def test_each_thread_has_attributes_of_its_own(tmp_path: Path):
    done = run(
        tmp_path,
        """
        class Own(threading.local):
            kind = "class"
            def __init__(self, start):
                self.value = start
        own, plain = Own(5), threading.local()
        plain.x = "main"
        def work(value):
            own.value += value
            comm.Barrier() if rank == 2 else time.sleep(1)
            print(rank, own.value, own.kind, hasattr(plain, "x"), vars(own))
        for value in (1, 2):
            threading.Thread(target=work, args=(value,)).start()
        time.sleep(2)
        del plain.x
        print(rank, own.value, hasattr(plain, "x"), isinstance(own, threading.local))
        """,
        ranks=2,
    )
    for rank in "01":
        assert [line for line in done.lines if line[0] == rank] == [
            f"{rank} 6 class False {{'value': 6}}",
            f"{rank} 7 class False {{'value': 7}}",
            f"{rank} 5 False True",
        ]


def test_an_exception_ends_its_thread_only(tmp_path: Path):
    hook = threading.excepthook
    done = run(
        tmp_path,
        """
        def fail():
            raise ValueError("no")
        for target in (fail, sys.exit):
            thread = threading.Thread(target=target, name="T")
            thread.start()
            thread.join()
        threading.excepthook = lambda args: print("hook", args.exc_value, args.thread.name)
        threading.Thread(target=fail, name="U").start()
        time.sleep(1)
        print("goes on")
        """,
    )
    assert done.lines == ["hook no U", "goes on"]
    assert done.err.startswith("Exception in thread T:\nTraceback (most recent call last):\n")
    assert done.err.endswith('in fail\n    raise ValueError("no")\nValueError: no\n')
    assert "xsim_py" not in done.err
    assert (done.result.ended, done.result.exit_status) == ("finished", 0)
    assert threading.excepthook is hook


@pytest.mark.parametrize("call", ["sys.exit(4)", "raise ValueError"])
def test_the_end_waits_for_threads_that_are_no_daemons(tmp_path: Path, call: str):
    done = run(
        tmp_path,
        f"""
        import atexit
        atexit.register(lambda: print("atexit", now()))
        def work(seconds):
            while True:
                time.sleep(seconds)
                print(seconds, now())
                if seconds == 3:
                    return
        threading.Thread(target=work, args=(2,), daemon=True).start()
        threading.Thread(target=work, args=(3,)).start()
        {call}
        """,
    )
    assert done.lines == ["2 2.0", "3 3.0", "atexit 3.0"]
    assert done.result.exit_status == (4 if "exit" in call else 1)
    assert done.result.virtual_time_s >= 3


def test_threads_without_an_object(tmp_path: Path):
    done = run(
        tmp_path,
        """
        import _thread
        lock = _thread.allocate_lock()
        lock.acquire()
        def work(text, number=0):
            print(text, number, threading.current_thread().name, _thread.get_ident() == ident)
            lock.release()
            time.sleep(5)
            print("not waited for")
        ident = _thread.start_new_thread(work, ("text",), {"number": 3})
        print(lock.acquire(), _thread._count())
        """,
    )
    assert done.lines == ["text 3 Dummy-1 True", "True 1"]


def test_a_dead_rank_s_threads_are_dead_too(tmp_path: Path):
    done = run(
        tmp_path,
        """
        def work(name):
            try:
                while True:
                    time.sleep(1)
                    print(rank, name, now())
            finally:
                print("unwound")
        for name in "ab":
            threading.Thread(target=work, args=(name,)).start()
        time.sleep(4)
        if rank == 0:
            os._exit(3)
        """,
        ranks=2,
        fail=["rank=1@2.5s"],
        ft=True,
    )
    assert done.lines == [
        *(f"{rank} {name} {second}.0" for second in (1, 2) for rank in (0, 1) for name in "ab"),
        "0 a 3.0",
        "0 b 3.0",
    ]


@SHARDS
def test_threads_that_wait_for_each_other_are_in_the_deadlock_report(tmp_path: Path, shards: int):
    done = run(
        tmp_path,
        """
        first, second = threading.Lock(), threading.Lock()
        def take(one, other):
            with one:
                time.sleep(1)
                other.acquire()
        threading.Thread(target=take, args=(first, second), name="A").start()
        threading.Thread(target=take, args=(second, first), name="B").start()
        threading.Thread(target=lambda: comm.recv(source=1 - rank), name="C").start()
        threading.Event().wait()
        """,
        ranks=2,
        shards=shards,
    )
    assert (done.result.ended, done.result.exit_status) == ("stalled", 3)
    report = done.result.report.replace(str(tmp_path) + "/", "")
    assert report.startswith("deadlock at 1 s: no rank can make progress\n0 of 2 ranks have ended; the others:\n")
    for said in (
        "  ranks 0-1, prog.py:15 in <module>: threading.Event().wait()\n",
        "      ranks 0-1 at 0 s: another thread to notify or set what it waits for\n",
        "  ranks 0-1, prog.py:11 in take: other.acquire()\n",
        "      ranks 0-1 at 1 s: its thread A: a lock that B holds\n",
        "      ranks 0-1 at 1 s: its thread B: a lock that A holds\n",
        "      rank 0 at 0 s: its thread C: Comm.recv on MPI_COMM_WORLD: a message from rank 1, any tag\n",
        "cycle: rank 0 waits for rank 1 waits for rank 0",
    ):
        assert said in report


@SHARDS
def test_loops_that_look_at_each_other_end(tmp_path: Path, shards: int):
    done = run(
        tmp_path,
        """
        event, lock, tasks = threading.Event(), threading.Lock(), queue.Queue()
        def work():
            with lock:
                time.sleep(0.001)
            done.append(True)
            time.sleep(0.001)
            tasks.put("task")
        done = []
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0)
        while not lock.acquire(False):
            pass
        while not done:
            time.sleep(0)
        while True:
            try:
                task = tasks.get_nowait()
                break
            except queue.Empty:
                pass
        while thread.is_alive():
            pass
        print(task)
        print(0.002 <= now() < 0.0021)
        """,
        ranks=2,
        shards=shards,
    )
    assert done.lines == ["task", "True"] * 2


def test_threads_compute_beside_each_other(tmp_path: Path):
    done = run(
        tmp_path,
        """
        def work():
            start = now()
            sum(range(10**6))
            spent.append(now() - start)
        spent = []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(len(spent), 0 < max(spent) <= now() < sum(spent))
        """,
        compute="measured",
    )
    assert done.lines == ["4 True"]


def test_what_was_there_comes_back(tmp_path: Path):
    run(tmp_path, "threading.Thread(target=print).start()")
    assert threading.Thread.__hash__ is object.__hash__
    assert type(threading.Lock()).__module__ == type(threading.RLock()).__module__ == "_thread"
    assert queue.SimpleQueue.__module__ == "_queue"
    assert threading.current_thread() is threading.main_thread()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(threading.get_ident).result() not in (0, threading.get_ident())


def test_the_locks_of_a_package_are_those_of_each_rank(tmp_path: Path):
    """A lock that was made before the run, or by another rank, is shared by the ranks of one interpreter only."""
    import types

    package = types.ModuleType("package_of_all")
    import sys

    sys.modules["package_of_all"] = package
    try:
        done = run(
            tmp_path,
            """
            import package_of_all
            if rank == 0:
                package_of_all.lock = threading.Lock()
                package_of_all.lock.acquire()
            comm.Barrier()
            print(package_of_all.lock.acquire(False))
            """,
            ranks=2,
        )
    finally:
        del sys.modules["package_of_all"]
    assert done.lines == ["False", "True"]
    assert package.lock.acquire(False)


def test_pools_of_processes_have_real_threads(tmp_path: Path):
    done = run(
        tmp_path,
        """
        import multiprocessing
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            futures = [pool.submit(pow, 2, number) for number in range(3)]
            print([future.result() for future in concurrent.futures.as_completed(futures)])
        """,
    )
    assert sorted(done.lines[0]) == sorted("[1, 2, 4]")


def test_python_does_not_wait_for_pools_of_ranks_that_stalled(tmp_path: Path):
    done = run(
        tmp_path,
        """
        from mpi4py import MPI
        pool = concurrent.futures.ThreadPoolExecutor(1)
        pool.submit(time.sleep, 1)
        MPI.COMM_WORLD.recv(source=0)
        """,
    )
    assert done.result.ended == "stalled"
    assert not [thread for thread in concurrent.futures.thread._threads_queues if "_simulated" in vars(thread)]


@SHARDS
@pytest.mark.parametrize("main", ["", "comm.recv()"], ids=["has ended", "waits"])
def test_who_ends_the_job_in_a_thread_is_shown_there(tmp_path: Path, main: str, shards: int):
    text = f"""
        def work():
            time.sleep(1)
            comm.Abort(5)
        if rank == 1:
            threading.Thread(target=work).start()
        {main}
        """
    done = run(tmp_path, text, ranks=2, shards=shards)
    assert (done.result.ended, done.result.exit_status) == ("aborted", 5)
    assert "prog.py:9 in work: comm.Abort(5)" in done.result.report
