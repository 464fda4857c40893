"""Ranks wait for pipes and FIFOs in virtual time, and for whatever else has a descriptor."""

import multiprocessing.connection  # noqa: F401 - it has functions of `os` from its import on, here before a run
from pathlib import Path

import pytest

from tests.process.launch import launch

SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])
HEAD = """
import os, select, selectors, signal, subprocess, sys, threading, time
now = lambda: round(MPI.Wtime(), 2)
def later(function, *args):
    def work():
        time.sleep(0.5)
        function(*args)
    threading.Thread(target=work).start()
"""


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def test_threads_of_a_rank_wait_for_each_other_at_a_pipe(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
reader, writer = os.pipe()
later(os.write, writer, b"hello")
print(os.read(reader, 9), now())
with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb") as sink:
    later(lambda: (sink.write(b"x" * 200_000), sink.close()))
    print(len(source.read()), now())
reader, writer = os.pipe()
later(lambda: print(len(os.read(reader, 100_000))))
print(os.write(writer, b"x" * 70_000), now())
event = os.eventfd(0)
later(os.eventfd_write, event, 5)
print(os.eventfd_read(event), now())
""",
        ranks=2,
    )
    lines = ["b'hello' 0.5", "200000 1.0", "65536", "70000 1.5", "5 2.0"]
    assert sorted(done.lines) == sorted(2 * lines)


def test_a_pipe_to_which_nobody_writes_is_in_the_deadlock_report(tmp_path: Path):
    done = launch(tmp_path, "import os\nreader, writer = os.pipe()\nos.read(reader, 1)\n")
    assert done.result.ended == "stalled"
    assert "rank 0 at 0 s: waits for something to be written into the pipe of descriptor" in done.result.report


def test_children_are_really_waited_for(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
import multiprocessing
reader, writer = os.pipe()
child = multiprocessing.get_context("fork").Process(target=lambda: os.write(writer, b"from a child"))
child.start()
print(os.read(reader, 99), select.select([reader], [], [], 0)[0])
child.join()
with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    reader = threading.Thread(target=lambda: print(child.stdout.read(), now()))
    reader.start()
    time.sleep(0)
    child.stdin.write(b"cat")
    child.stdin.close()
    reader.join()
print(subprocess.run(["cat"], input=b"word", capture_output=True).stdout, now())
""",
    )
    assert done.lines == ["b'from a child' []", "b'cat' 0.0", "b'word' 0.0"]


@SHARDS
def test_select_waits_in_virtual_time(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        HEAD
        + """
print(select.select([], [], [], 1.5), now())
reader, writer = os.pipe()
poll, epoll, selector = select.poll(), select.epoll(), selectors.DefaultSelector()
poll.register(reader, select.POLLIN)
epoll.register(reader, select.EPOLLIN)
selector.register(reader, selectors.EVENT_READ)
print(select.select([reader], [], [], 1), poll.poll(1000), epoll.poll(1), selector.select(1), now())
for wait in (lambda: select.select([reader], [], [])[0], poll.poll, epoll.poll, selector.select):
    later(os.write, writer, b"x")
    print(len(wait()), now())
    os.read(reader, 1)
print(select.select([], [writer], [])[1] == [writer])
comm.Barrier()
if rank == 1:
    select.select([], [], [])
""",
        ranks=2,
        shards=shards,
    )
    lines = ["([], [], []) 1.5", "([], [], []) [] [] [] 5.5", "1 6.0", "1 6.5", "1 7.0", "1 7.5", "True"]
    assert sorted(done.lines) == sorted(2 * lines)
    assert done.result.ended == "stalled"


@SHARDS
def test_ranks_meet_at_a_fifo(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        HEAD
        + """
if rank == 0:
    os.mkfifo("fifo")
comm.Barrier()
if rank == 1:
    with open("fifo", "w") as fifo:
        for line in range(2):
            time.sleep(0.5)
            print(line, file=fifo, flush=True)
    time.sleep(1)
    fifo = os.open("fifo", os.O_WRONLY)
    print(os.write(fifo, b"x" * 200_000))  # its end closes it
elif rank == 2:
    with open("fifo") as fifo:
        for line in fifo:
            print(line.strip(), now())
    time.sleep(2)
    with open("fifo", "rb") as fifo:
        print(len(fifo.read()), now())
else:
    os.close(os.open("fifo", os.O_RDONLY | os.O_NONBLOCK))
""",
        ranks=3,
        shards=shards,
    )
    assert (done.lines, done.err) == (["0 0.5", "1 1.0", "200000", "200000 3.0"], "")


def test_what_multiprocessing_has_for_processes_serves_threads(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
import multiprocessing
for kind in (multiprocessing.Lock, multiprocessing.RLock, lambda: multiprocessing.Semaphore(2)):
    lock = kind()
    def work():
        with lock:
            time.sleep(0.1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(now())
event = multiprocessing.Event()
print(event.wait(0.1), now())
later(event.set)
print(event.wait(), now())
for duplex in (True, False):
    a, b = multiprocessing.Pipe(duplex)
    later(b.send, "sent")
    print(a.poll(0.1), a.recv(), now())
""",
    )
    waited = ["0.4", "0.8", "1.0", "False 1.1", "True 1.6", "False sent 2.1", "False sent 2.6"]
    assert done.lines == waited


def test_a_file_that_gets_the_number_of_a_closed_pipe_is_a_file(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
import multiprocessing
for end in (*multiprocessing.Pipe(), *multiprocessing.Pipe(False)):
    end.close()
with os.fdopen(os.open(__file__, os.O_RDONLY)) as file:
    print(file.seek(5))
""",
    )
    assert done.lines == ["5"]


def test_threads_wait_for_signals(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
signal.signal(signal.SIGUSR1, lambda *_: print("handled", now()))
later(os.kill, os.getpid(), signal.SIGUSR1)
signal.pause()
print(now())
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
later(signal.raise_signal, signal.SIGUSR2)
print(signal.sigwait({signal.SIGUSR1, signal.SIGUSR2}).name, now())
signal.raise_signal(signal.SIGUSR2)
print(signal.sigpending(), signal.sigtimedwait([signal.SIGUSR2], 1).si_signo == signal.SIGUSR2)
print(signal.sigtimedwait([signal.SIGUSR2], 1), now())
signal.raise_signal(signal.SIGUSR1)
print(sorted(signal.pthread_sigmask(signal.SIG_SETMASK, []))[0].name)
signal.pause()
""",
    )
    assert done.lines == [
        "handled 0.5",
        "0.5",
        "SIGUSR2 1.0",
        f"{{{__import__('signal').SIGUSR2!r}}} True",
        "None 2.0",
        "handled 2.0",
        "SIGUSR1",
    ]
    assert done.result.ended == "stalled"
