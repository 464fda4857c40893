"""Worker processes that are ended leave nothing behind."""

import os
import signal
import time
from pathlib import Path

import pytest

from xsim_py import atomic_files, workers
from xsim_py.atomic_files import scratch_folder, tidy_when_terminated
from xsim_py.workers import Pool


def hold(task: tuple[str, str]) -> None:
    """Have a folder, which a child holds, too, and be at work until the end."""
    folder, fifo = task
    with tidy_when_terminated(), scratch_folder(folder) as path:
        child = os.fork()
        if child == 0:
            signal.pause()
        Path(path, "window").write_text("1")
        Path(fifo).write_text(f"{child}\n")
        while True:  # not `pause`, which a signal that has come just before it does not end
            time.sleep(0.01)


def wait_for_other(task: tuple[str, str]) -> int:
    return int(Path(task[1]).read_text())


def do(task: tuple[str, tuple[str, str]]) -> int | None:
    return {"hold": hold, "wait": wait_for_other}[task[0]](task[1])


def test_what_a_pool_breaks_off_removes_its_folders(tmp_path: Path) -> None:
    fifo, folder = tmp_path / "fifo", tmp_path / "memory"
    folder.mkdir()
    os.mkfifo(fifo)
    with Pool("tests.test_workers:do", 2) as pool:
        for name in ("hold", "wait"):
            pool.submit((name, (str(folder), str(fifo))))
        _, child = next(pool.results())
        assert len(list(folder.iterdir())) == 1
    os.kill(child, signal.SIGKILL)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("held", [True, False])
def test_folders_of_ended_processes_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    monkeypatch.setattr(atomic_files.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(atomic_files, "shared_memory_folder", lambda: str(tmp_path))
    path, lock = atomic_files._locked_folder(str(tmp_path))
    looks = 0

    def look(_: float) -> None:
        nonlocal looks
        looks += 1
        os.close(lock)

    monkeypatch.setattr(time, "sleep", look)
    if not held:
        os.close(lock)
    atomic_files.remove_left_by([os.getpid()], time.monotonic() + 60)
    assert (looks, os.path.exists(path)) == (int(held), False)


def test_a_result_can_decide_on_later_tasks() -> None:
    done: list[bool] = []
    tasks = (bool(done.append(False)) for _ in iter(lambda: len(done), 4))
    for count, _ in enumerate(workers.do_in_workers("tests.test_workers:ignore", tasks, 1), 2):
        assert len(done) == min(count, 4)  # one more than are finished


def test_a_worker_that_does_not_end_when_it_is_asked_to_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_TIDY_S", 0.0)
    with Pool("tests.test_workers:ignore", 2) as pool:
        pool.submit(True)
        pool.submit(False)
        assert next(pool.results())[1] is None


def test_a_worker_that_tidies_on_a_busy_machine_is_not_ended_by_force(tmp_path: Path) -> None:
    """Not even when its time by the wall clock is over, which is at once here."""
    os.mkfifo(tmp_path / "ready")
    worker = workers._Worker(["tests.test_workers:tidy_slowly"])
    worker.greet()
    worker.send((0, str(tmp_path)))
    assert (tmp_path / "ready").read_text() == "1"
    worker.ask_to_end()
    worker.end(0.0)
    assert (tmp_path / "tidied").exists()


def tidy_slowly(folder: str) -> None:
    def tidy(*_: object) -> None:
        until_s = time.process_time() + 0.2
        while time.process_time() < until_s:
            pass
        os.mkdir(os.path.join(folder, "tidied"))
        os._exit(0)

    signal.signal(signal.SIGTERM, tidy)
    Path(folder, "ready").write_text("1")
    while True:
        time.sleep(0.01)


def ignore(task: bool) -> None:
    if task:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pause()
