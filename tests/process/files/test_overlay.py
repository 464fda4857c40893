"""Files as an overlay: what the operating system does to a tree, it does, and what is below stays as it is."""

import errno
import os
import stat

import numpy as np
import pytest

from xsim_py.process.files.host_files import HostFiles
from xsim_py.process.files.overlay import Overlay

READ, WRITE, BOTH = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
NEW = os.O_CREAT | os.O_WRONLY
ME = 0


@pytest.fixture
def tree(tmp_path):
    """A folder with a file, a folder with a file in it, and two links."""
    (tmp_path / "file").write_bytes(b"below")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_bytes(b"inner")
    (tmp_path / "to-file").symlink_to("file")
    (tmp_path / "to-folder").symlink_to("folder")
    return Overlay(HostFiles()), f"{tmp_path}/"


def contents(overlay: Overlay, path: str) -> bytes:
    number, _ = overlay.open(ME, path, READ)
    data = overlay.read(number, 0, None)
    overlay.close(ME, number)
    return data


def put(overlay: Overlay, path: str, data: bytes) -> None:
    number, _ = overlay.open(ME, path, NEW | os.O_TRUNC)
    overlay.write(number, 0, data)
    overlay.close(ME, number)


def refused(number: int, function, *arguments) -> bool:
    try:
        function(*arguments)
    except OSError as error:
        return error.errno == number
    return False


def test_what_is_below_is_read_and_never_written(tree, tmp_path):
    overlay, top = tree
    number, size = overlay.open(ME, top + "file", BOTH)
    assert (size, overlay.read(number, 1, 2)) == (5, b"el")
    overlay.write(number, 4, b"W!")
    assert contents(overlay, top + "file") == b"beloW!"
    assert (tmp_path / "file").read_bytes() == b"below"


def test_bytes_before_a_write_behind_the_end_are_zero(tree):
    overlay, top = tree
    number, _ = overlay.open(ME, top + "new", NEW)
    assert overlay.write(number, 3, b"x") == 4
    assert overlay.write(number, None, b"y") == 5
    overlay.resize(number, 6)
    assert contents(overlay, top + "new") == b"\0\0\0xy\0"
    overlay.resize(number, 2)
    assert contents(overlay, top + "new") == b"\0\0"


def test_a_name_that_is_gone_hides_what_is_below(tree, tmp_path):
    overlay, top = tree
    overlay.remove(top + "file")
    assert refused(errno.ENOENT, overlay.stat, top + "file")
    assert refused(errno.ENOENT, overlay.open, ME, top + "to-file", READ)
    assert [name for name, _ in overlay.names(top)] == ["folder", "to-file", "to-folder"]
    put(overlay, top + "file", b"again")
    assert contents(overlay, top + "to-file") == b"again"
    assert (tmp_path / "file").exists()


def test_an_open_file_outlives_its_name_and_no_longer(tree):
    overlay, top = tree
    number, _ = overlay.open(ME, top + "new", NEW)
    other, _ = overlay.open(1, top + "new", READ)
    overlay.write(number, 0, b"here")
    overlay.remove(top + "new")
    overlay.close(ME, number)
    assert overlay.read(other, 0, None) == b"here"
    overlay.died(1)
    assert refused(errno.EBADF, overlay.read, other, 0, None)


def test_a_file_written_over_by_a_rename_is_still_read_by_who_has_it_open(tree):
    overlay, top = tree
    old, _ = overlay.open(ME, top + "file", READ)
    put(overlay, top + "new", b"new")
    overlay.rename(top + "new", top + "file")
    assert overlay.read(old, 0, None) == b"below"
    assert contents(overlay, top + "file") == b"new"
    assert refused(errno.ENOENT, overlay.stat, top + "new")


def test_a_folder_moves_with_all_that_is_in_it(tree, tmp_path):
    overlay, top = tree
    overlay.mkdir(top + "folder/deep", None)
    put(overlay, top + "folder/deep/made", b"made")
    overlay.rename(top + "folder", top + "moved")
    assert contents(overlay, top + "moved/inner") == b"inner"
    assert contents(overlay, top + "moved/deep/made") == b"made"
    assert refused(errno.ENOENT, overlay.names, top + "folder")
    overlay.mkdir(top + "folder", None)
    assert overlay.names(top + "folder") == []
    assert (tmp_path / "folder" / "inner").exists()


def test_names_come_in_order_with_what_they_are(tree):
    overlay, top = tree
    overlay.mkdir(top + "a", None)
    put(overlay, top + "z", b"")
    overlay.symlink("nowhere", top + "b")
    assert overlay.names(top) == [
        ("a", stat.S_IFDIR),
        ("b", stat.S_IFLNK),
        ("file", stat.S_IFREG),
        ("folder", stat.S_IFDIR),
        ("to-file", stat.S_IFLNK),
        ("to-folder", stat.S_IFLNK),
        ("z", stat.S_IFREG),
    ]


def test_links_lead_through_links_and_out_of_folders(tree):
    overlay, top = tree
    overlay.symlink("to-folder", top + "twice")
    assert overlay.resolve(top + "twice/./inner") == top + "folder/inner"
    assert overlay.resolve(top + "twice/../file") == top + "file"
    assert overlay.resolve(top + "twice", follow=False) == top + "twice"
    overlay.symlink("round", top + "round")
    assert refused(errno.ELOOP, overlay.stat, top + "round")


@pytest.mark.parametrize(
    ("number", "call"),
    [
        (errno.ENOENT, lambda o, t: o.open(ME, t + "no", READ)),
        (errno.ENOENT, lambda o, t: o.open(ME, t + "no/file", NEW)),
        (errno.ENOTDIR, lambda o, t: o.open(ME, t + "file/x", NEW)),
        (errno.EISDIR, lambda o, t: o.open(ME, t + "folder", READ)),
        (errno.EEXIST, lambda o, t: o.open(ME, t + "file", NEW | os.O_EXCL)),
        (errno.EEXIST, lambda o, t: o.open(ME, t + "to-file", NEW | os.O_EXCL)),
        (errno.EISDIR, lambda o, t: o.remove(t + "folder")),
        (errno.ENOTEMPTY, lambda o, t: o.rmdir(t + "folder")),
        (errno.ENOTDIR, lambda o, t: o.rmdir(t + "file")),
        (errno.EEXIST, lambda o, t: o.mkdir(t + "file", None)),
        (errno.ENOTDIR, lambda o, t: o.names(t + "file")),
        (errno.EINVAL, lambda o, t: o.rename(t + "folder", t + "folder/in")),
        (errno.EISDIR, lambda o, t: o.rename(t + "file", t + "folder")),
        (errno.ENOTDIR, lambda o, t: o.rename(t + "folder", t + "file")),
        (errno.EINVAL, lambda o, t: o.readlink(t + "file")),
    ],
)
def test_errors_are_those_of_the_operating_system(tree, number: int, call):
    assert refused(number, call, *tree)


def test_what_changed_is_told_the_innermost_that_is_gone_first(tree):
    overlay, top = tree
    overlay.open(ME, top + "file", BOTH)
    overlay.remove(top + "folder/inner")
    overlay.rmdir(top + "folder")
    overlay.mkdir(top + "made", None)
    put(overlay, top + "made/file", b"")
    told = [(path.removeprefix(top), type(entry).__name__) for path, entry in overlay.changes()]
    assert told == [("folder/inner", "Gone"), ("folder", "Gone"), ("made", "Folder"), ("made/file", "Inode")]


@pytest.mark.parametrize("size", [1, 3, 200])
def test_pieces_are_written_up_to_an_end_and_nothing_between_them_is_touched(tree, size: int):
    overlay, folder = tree
    number, _ = overlay.open(ME, f"{folder}new", os.O_CREAT | BOTH)
    overlay.write(number, 0, b"." * size)
    starts = np.arange(5, dtype=np.int64) * 2 * size
    data = bytes(range(65, 70)) * size
    for end in (0, size, 2 * size + 1, 8 * size, 9 * size):
        overlay.resize(number, 0)
        overlay.scatter(number, starts, np.full(5, size, np.int64), data, end)
        expected = np.zeros(9 * size, np.uint8)
        for piece, start in enumerate(starts.tolist()):
            expected[start : start + size] = list(data[piece * size : (piece + 1) * size])
        written = expected[:end].tobytes()
        covered = max((min(int(start) + size, end) for start in starts if start < end), default=0)
        assert overlay.read(number, 0, None) == written[:covered]
