"""The files of a simulated storage come to the disk: each is the old one or the new one, whatever happens."""

import errno
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from xsim_py.process.files.overlay import Entry, Folder, Gone, Inode, SymbolicLink
from xsim_py.process.files.write_back import write_back


def file(text: str, mode: int | None = None) -> Inode:
    inode = Inode(1, 0, None)
    inode.data = bytearray(text.encode())
    inode.mode = mode
    return inode


def write(folder: Path, **changes: Entry) -> list[str]:
    """Bring that to a folder, where __ stands for /; what was said, without the folder's name."""
    said = write_back([(f"{folder}/{name.replace('__', '/')}", entry) for name, entry in changes.items()])
    return [line.replace(f"{folder}/", "") for line in said]


def there(folder: Path) -> dict[str, str | None]:
    """What is in a folder: the text of files, where links lead, and nothing of folders."""
    found: dict[str, str | None] = {}
    for path in sorted(folder.rglob("*")):
        text = str(path.readlink()) if path.is_symlink() else None if path.is_dir() else path.read_text()
        found[str(path.relative_to(folder))] = text
    return found


def fill(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_files_folders_and_links_come_and_go(tmp_path: Path):
    fill(tmp_path, old="old", going="going", gone__file="file")
    new = {
        "old": file("new"),
        "made": Folder(1, 0),
        "made__inner": Folder(2, 0, 0o500),
    }
    gone = {"going": Gone(), "gone__file": Gone(), "gone": Gone()}
    assert write(tmp_path, **gone, **new, made__inner__file=file("in"), link=SymbolicLink("old")) == []
    expected = {"link": "old", "made": None, "made/inner": None, "made/inner/file": "in", "old": "new"}
    assert there(tmp_path) == expected
    assert (tmp_path / "made/inner").stat().st_mode & 0o777 == 0o500


def test_a_pipe_is_written_to_and_stays(tmp_path: Path):
    os.mkfifo(tmp_path / "read")
    os.mkfifo(tmp_path / "left")
    reader = os.open(tmp_path / "read", os.O_RDONLY | os.O_NONBLOCK)
    assert write(tmp_path, read=file("text"), left=file("text")) == [
        "left could not be written at the end of the run: No such device or address"
    ]
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert (tmp_path / "read").is_fifo()
    assert (tmp_path / "left").is_fifo()


def test_what_is_there_keeps_its_permissions_unless_the_program_has_set_them(tmp_path: Path):
    fill(tmp_path, kept="old", changed="old")
    for name in ("kept", "changed"):
        (tmp_path / name).chmod(0o640)
    assert write(tmp_path, kept=file("new"), changed=file("new", 0o400), new=file("new", 0o600)) == []
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("kept", "changed", "new")}
    assert modes == {"kept": 0o640, "changed": 0o400, "new": 0o600}


def test_a_link_is_replaced_and_what_it_leads_to_left_alone(tmp_path: Path):
    fill(tmp_path, precious="of the user")
    (tmp_path / "file").symlink_to("precious")
    assert write(tmp_path, file=file("new")) == []
    assert there(tmp_path) == {"file": "new", "precious": "of the user"}


def test_files_and_folders_may_change_places(tmp_path: Path):
    fill(tmp_path, a="file", b__one="1", b__two="2")
    changes = {"a": Folder(1, 0), "a__inner": file("in"), "b": file("now a file"), "b__one": Gone(), "b__two": Gone()}
    assert write(tmp_path, **changes) == []
    assert there(tmp_path) == {"a": None, "a/inner": "in", "b": "now a file"}


def full_with(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let the disk be full when it comes to a file of that size."""
    real = os.fsync

    def refuse(descriptor: int) -> None:
        if os.fstat(descriptor).st_size == size:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)


def test_a_full_disk_leaves_all_that_was_there_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fill(tmp_path, ck_0="old", ck_1="old", ck_older="older")
    full_with(monkeypatch, len("newer"))
    said = write(tmp_path, ck_0=file("new"), ck_1=file("newer"), ck_older=Gone(), log=file("new"))
    assert said == [
        "ck_1 could not be written at the end of the run: No space left on device",
        "ck_0 is as it was before the run, since not everything could be written",
        "ck_older is as it was before the run, since not everything could be written",
    ]
    assert there(tmp_path) == {"ck_0": "old", "ck_1": "old", "ck_older": "older", "log": "new"}


def test_what_cannot_be_written_is_not_listed_without_end(tmp_path: Path):
    said = write(tmp_path, **{f"{'x' * 300}_{number}": file("") for number in range(100)})
    assert len(said) == 21
    assert said[-1] == "and 80 more files could not be written at the end of the run"


def test_ctrl_c_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fill(tmp_path, ck="old")

    def press(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", press)
    with pytest.raises(KeyboardInterrupt, match="existing files are complete"):
        write(tmp_path, ck=file("new"), other=file("new"))
    assert there(tmp_path) == {"ck": "old"}


@pytest.mark.parametrize("step", ["fsync", "replace", "remove"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whenever_we_are_killed_each_file_is_old_or_new(step: str, number: int, tmp_path: Path):
    """Before the first file is on the disk, before it gets its place, and before the last step."""
    fill(tmp_path, ck="old", older="older")
    child = os.fork()
    if not child:
        real = getattr(os, step)

        def kill(*words: Any) -> Any:
            if not str(words[0]).endswith("_remove"):
                os.kill(os.getpid(), number)
            return real(*words)

        setattr(os, step, kill)
        with suppress(BaseException):
            write(tmp_path, ck=file("new"), older=Gone())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == number
    found = {name: text for name, text in there(tmp_path).items() if not name.startswith(".")}
    by_step = {"fsync": {"ck": "old", "older": "older"}, "remove": {"ck": "new", "older": "older"}}
    by_step["replace"] = by_step["fsync"]
    done = {"ck": "new"}  # SIGTERM waits where only names change
    assert found == (done if number == signal.SIGTERM and step != "fsync" else by_step[step])
    if number == signal.SIGTERM:
        assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []
