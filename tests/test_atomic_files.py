"""Files that are there whole or not at all."""

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.report.helpers import make_result, make_trace
from xsim_py import atomic_files
from xsim_py.atomic_files import atomic_file, atomic_path, check_file, scratch_folder, undisturbed
from xsim_py.report import Table, perfetto
from xsim_py.report.figure import save
from xsim_py.report.style import new_figure


class Torn(Exception):
    """Stands for Ctrl-C and everything else that comes in the middle."""


def tear(target: Path) -> None:
    with suppress(Torn), atomic_file(target) as file:
        file.write("half of it")
        file.flush()
        raise Torn


def test_what_is_not_written_to_its_end_is_not_there(tmp_path: Path):
    tear(tmp_path / "result.json")
    assert [*tmp_path.iterdir()] == []


def test_a_new_file_has_its_name_when_it_is_whole(tmp_path: Path):
    target = tmp_path / "result.json"
    with atomic_file(target) as file:
        file.write("new")
        file.flush()
        assert not target.exists()
    assert target.read_text() == "new"
    assert [*tmp_path.iterdir()] == [target]


def test_a_file_that_is_there_is_replaced_as_a_whole_and_keeps_its_permissions(tmp_path: Path):
    target, other = tmp_path / "result.json", tmp_path / "other"
    target.write_text("old")
    target.chmod(0o640)
    os.utime(target, (0, 0))
    other.hardlink_to(target)
    tear(target)
    assert target.read_text() == "old"
    with atomic_file(target) as file:
        file.write("new")
        file.flush()
        assert target.read_text() == "old"
    assert (target.read_text(), other.read_text()) == ("new", "old")
    assert target.stat().st_mode & 0o777 == 0o640
    assert target.stat().st_mtime > 0
    assert sorted(tmp_path.iterdir()) == [other, target]


@pytest.mark.parametrize("other", [(1, 0), (0, 1)], ids=["user", "group"])
def test_the_owner_of_a_file_stays_or_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: tuple[int, int]
):
    target = tmp_path / "result.json"
    target.write_text("old")
    asked: list[tuple[int, int]] = []

    def chown(_: str, user: int, group: int) -> None:
        asked.append((user, group))
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "chown", chown)
    with atomic_file(target) as file:
        file.write("new")
    assert asked == []
    owner = (os.getuid() + other[0], os.getgid() + other[1])
    monkeypatch.setattr(
        atomic_files, "_owner", lambda path: owner if path == str(target) else (os.getuid(), os.getgid())
    )
    with pytest.raises(PermissionError, match="another user or group"):
        check_file(target)
    tear_refused(target, PermissionError)
    assert asked == [owner, owner]
    assert target.read_text() == "new"
    assert [*tmp_path.iterdir()] == [target]


def tear_refused(target: Path, error: type[OSError]) -> None:
    with pytest.raises(error) as caught, atomic_file(target) as file:
        file.write("no")
    assert caught.value.filename == str(target)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "result.json"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    tear_refused(target, OSError)
    assert target.read_text() == "old"
    assert [*tmp_path.iterdir()] == [target]


def killed(number: int, target: Path) -> int:
    """Let a process write half a file and kill itself; how it ended."""
    child = os.fork()
    if not child:
        with suppress(BaseException), atomic_file(target) as file:
            file.write("half of it")
            file.flush()
            os.kill(os.getpid(), number)
        os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_us_leaves_the_old_file_alone(number: int, tmp_path: Path):
    target = tmp_path / "result.json"
    target.write_text("old")
    assert killed(number, target) == number
    assert target.read_text() == "old"
    assert [*tmp_path.iterdir()] == [target]


def test_what_a_kill_leaves_is_hidden_and_goes_with_the_next_file(tmp_path: Path):
    target = tmp_path / "result.json"
    target.write_text("old")
    assert killed(signal.SIGKILL, target) == signal.SIGKILL
    assert target.read_text() == "old"
    (left,) = (path for path in tmp_path.iterdir() if path != target)
    assert left.name.startswith(".")
    with scratch_folder(str(tmp_path)) as mine:
        assert sorted(tmp_path.iterdir()) == sorted([Path(mine), target])
        with atomic_file(target) as file:
            file.write("new")
        assert os.path.isdir(mine)
    assert [*tmp_path.iterdir()] == [target]


def test_a_scratch_folder_goes_whatever_is_in_it(tmp_path: Path):
    (tmp_path / "precious").mkdir()
    with scratch_folder(str(tmp_path)) as folder:
        (Path(folder) / "locked" / "inner").mkdir(parents=True)
        (Path(folder) / "link").symlink_to(tmp_path / "precious")
        (Path(folder) / "locked").chmod(0)
    assert [*tmp_path.iterdir()] == [tmp_path / "precious"]


def test_a_picture_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    figure = new_figure(1, 1)
    save(figure, tmp_path / "t.svg")
    assert "</svg>" in (tmp_path / "t.svg").read_text()
    with suppress(Torn), atomic_path(tmp_path / "u.svg") as path:
        assert path.suffix == ".svg"
        path.write_text("<svg>")
        raise Torn
    assert [*tmp_path.iterdir()] == [tmp_path / "t.svg"]


def test_a_file_that_is_there_stays_if_nothing_was_written_into_it(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("of the user")
    with pytest.raises(ValueError, match="txt"):
        save(new_figure(1, 1), tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "of the user"


def test_links_and_devices_stay_what_they_are(tmp_path: Path):
    (tmp_path / "link").symlink_to("real")
    for target in (tmp_path / "link", Path(os.devnull)):
        check_file(target)
        for text in ("new", "text"):  # of a file that is not there yet, and of one that is
            with atomic_file(target) as file:
                file.write(text)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    tear(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere" / "t.json")
    with pytest.raises(FileNotFoundError, match="lost"):
        check_file(tmp_path / "lost")
    assert Path(os.devnull).is_char_device()


def test_a_link_that_is_not_followed_is_replaced_with_whatever_it_leads_to_left_alone(tmp_path: Path):
    (tmp_path / "precious").write_text("of the user")
    for name, target in (("link", "precious"), ("null", os.devnull)):
        (tmp_path / name).symlink_to(target)
        check_file(tmp_path / name, follow=False)
        assert (tmp_path / name).is_symlink()
        with atomic_file(tmp_path / name, follow=False) as file:
            file.write("text")
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "text"
    assert (tmp_path / "precious").read_text() == "of the user"


def test_a_pipe_is_written_as_it_is(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    check_file(tmp_path / "pipe")
    with atomic_file(tmp_path / "pipe") as file:
        file.write("text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)


def test_an_open_file_of_ours_that_has_a_name_is_written_on(tmp_path: Path):
    """As /dev/stdout does, where standard output goes to a file."""
    with open(tmp_path / "printed", "w") as printed:
        printed.write("first\n")
        printed.flush()
        (tmp_path / "link").symlink_to(f"/dev/fd/{printed.fileno()}")
        check_file(tmp_path / "link")
        with atomic_file(tmp_path / "link") as file:
            file.write("then\n")
        printed.write("last\n")
    assert (tmp_path / "printed").read_text() == "first\nthen\nlast\n"


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path):
    target = tmp_path / "nowhere" / "t.json"
    with pytest.raises(FileNotFoundError) as caught, atomic_file(target):
        pass
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{target}'"


def test_looking_whether_a_file_can_be_written_changes_nothing(tmp_path: Path):
    check_file(tmp_path / "new")
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "old").write_text("old")
    check_file(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "old"
    with pytest.raises(OSError, match="nowhere"):
        check_file(tmp_path / "nowhere" / "t.json")


def test_a_trace_and_a_table_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each is interrupted when something of it has been written."""

    def halves(*_: object) -> Iterator[Any]:
        yield ""
        raise KeyboardInterrupt

    monkeypatch.setattr(perfetto._Export, "events", halves)
    with pytest.raises(KeyboardInterrupt):
        perfetto.write_perfetto(make_trace(), tmp_path / "trace.json", nodes=[0, 1, 2])
    monkeypatch.setattr(Table, "_written", halves)
    with pytest.raises(KeyboardInterrupt):
        make_result().to_csv(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_handler_that_was_not_set_by_python_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    set_by_us: list[int] = []
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else signal.SIG_DFL)
    monkeypatch.setattr(signal, "signal", lambda number, _: set_by_us.append(number))
    with undisturbed():
        pass
    assert set_by_us == 2 * [signal.SIGINT, signal.SIGHUP]
