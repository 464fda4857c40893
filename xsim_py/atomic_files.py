"""Atomic writing of files, and temporary directories that are removed with their process.

A truncated file under the right name looks like a result, or a checkpoint, until it is read. So a file is written in a
hidden directory next to its target, synced to disk, and renamed when complete, which is atomic: readers find the old
file or the new one, whatever ends this process meanwhile (Ctrl-C, a full disk, a kill).

A kill leaves the hidden directory behind. Its owner holds a lock on it that ends with the process, so the next process
that creates such a directory next to it can detect and remove it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Self

_PREFIX = ".xsim-unfinished-"
_LOOK_S = 0.01
_MOST_LINKS = 40
_LONGEST_SUFFIX = 40
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

_in_use: set[str] = set()

moved: dict[int, int] = {}
"""Descriptors that a program may redirect at any time, and duplicates made before that."""


# ------------------------------------------------------------------------------------------------------------ files


@contextmanager
def atomic_file(target: str | Path | IO[str], *, follow: bool = True) -> Iterator[IO[str]]:
    """Open a text file that replaces `target` when complete; return an open file unchanged.

    Raise an OSError that names `target` if it cannot be written.
    """
    if not isinstance(target, str | Path):
        yield target
        return
    number = _descriptor(str(target)) if follow else None
    if number is not None:  # like earlier output: opened by its name, it would be overwritten
        with open(os.dup(number), "w", encoding="utf-8", newline="") as file:
            yield file
        return
    with atomic_path(target, follow=follow) as path, open(path, "w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def atomic_path(target: str | Path, *, follow: bool = True) -> Iterator[Path]:
    """Return the name of a file to write, which replaces `target` when complete.

    It has the suffix of `target`, and an existing file keeps its permissions and owner. With `follow`, a link at the
    end of `target` is followed; otherwise the link is replaced. A target that is not a regular file (a device, a pipe)
    is returned unchanged. Raise an OSError that names `target` if it cannot be written.
    """
    path = resolved_target(str(target), follow=follow)
    try:
        if is_special(str(target), follow=follow):
            yield Path(target)
            return
        with Unfinished() as unfinished:
            written = unfinished.make(path)
            yield Path(written)
            sync(written, os.O_WRONLY)
            os.replace(written, path)
    except OSError as error:
        if error.errno and (error.filename in (None, path, str(target)) or _PREFIX in str(error.filename)):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


def check_file(target: str | Path, *, follow: bool = True) -> None:
    """Raise OSError if `atomic_file` could not write a file, without changing anything.

    Permissions are not sufficient: a file system may be mounted read-only, or accept no files at all.
    """
    path = resolved_target(str(target), follow=follow)
    try:
        if follow and (number := _descriptor(str(target))) is not None:
            os.fstat(number)
        elif not is_special(str(target), follow=follow):
            with Unfinished() as unfinished:
                unfinished.make(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error


class Unfinished:
    """Files being written next to their targets; those not moved there are removed at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folders: dict[str, str] = {}
        self._count = 0

    def __enter__(self) -> Self:
        self._stack.enter_context(tidy_when_terminated())
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def name(self, target: str, *, folder: str | None = None) -> str:
        """Return a temporary name for `target`, next to it or in the given directory."""
        folder = os.path.dirname(target) if folder is None else folder
        if folder not in self._folders:
            self._folders[folder] = self._stack.enter_context(scratch_folder(folder))
        self._count += 1
        suffix = os.path.splitext(target)[1][-_LONGEST_SUFFIX:]
        return os.path.join(self._folders[folder], f"{self._count}{suffix}")

    def make(self, target: str) -> str:
        """Create an empty file with the attributes of an existing `target`, and return its name."""
        path = self.name(target)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        if is_regular(target):
            os.close(os.open(target, os.O_WRONLY))
            copy_attributes(path, like=target)
        return path


def copy_attributes(path: str, like: str) -> None:
    """Copy the permissions and the owner of another file; raise OSError if that is impossible."""
    if os.stat(like).st_dev != os.stat(path).st_dev:  # a mount point, which no file can replace
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), like)
    if _owner(like) != _owner(path):
        try:
            os.chown(path, *_owner(like))
        except PermissionError:
            message = "it belongs to another user or group, and would not do so if replaced"
            raise OSError(errno.EPERM, message, like) from None
    shutil.copystat(like, path)
    os.utime(path)


def _owner(path: str) -> tuple[int, int]:
    """Return the user and group IDs of a file."""
    found = os.stat(path)
    return found.st_uid, found.st_gid


def sync(path: str, flags: int = os.O_RDONLY) -> None:
    """Sync the contents of a file or directory to disk."""
    number = os.open(path, flags)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# ------------------------------------------------------------------------------------------------ what a name means


def resolved_target(target: str, *, follow: bool) -> str:
    """Return the real path of a file to write: of a link's target, or of the link itself."""
    if follow:
        return os.path.realpath(target)
    folder, name = os.path.split(target)
    return os.path.join(os.path.realpath(folder), name)


def is_special(target: str, *, follow: bool) -> bool:
    """Return True for a directory, device or pipe, which no file can or should replace."""
    if follow and _descriptor(target) is not None:
        return True
    try:
        kind = os.stat(target, follow_symlinks=follow).st_mode
    except OSError:  # the error is reported when it is used
        return False
    return stat.S_ISDIR(kind) or (follow and not stat.S_ISREG(kind))


def is_regular(path: str) -> bool:
    """Return True for an existing regular file: no link, device or directory."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _descriptor(path: str) -> int | None:
    """Return the open descriptor of this process that a name such as ``/dev/stdout`` refers to."""
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(os.path.abspath(path))
        folder = os.path.realpath(folder)
        if name.isdecimal() and folder in (f"/proc/{os.getpid()}/fd", "/dev/fd"):
            return moved.get(int(name), int(name))
        try:
            path = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except OSError:
            return None
    return None


# --------------------------------------------------------------------------------------------------------- folders


@contextmanager
def scratch_folder(parent: str) -> Iterator[str]:
    """Create an empty directory below `parent`, until the context or this process ends."""
    remove_abandoned(parent)
    path, lock = _locked_folder(parent)
    _in_use.add(path)
    try:
        yield path
    finally:
        _remove(path)
        _in_use.discard(path)
        os.close(lock)


def shared_memory_folder() -> str:
    """Return a directory whose files are in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def in_use() -> list[str]:
    """Return the directories of `scratch_folder` that this process currently has."""
    return list(_in_use)


def remove_abandoned(parent: str) -> list[str]:
    """Remove such directories of killed processes; return the remaining ones."""
    left = []
    with suppress(OSError), os.scandir(parent or ".") as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in left:
        with suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(lock)
    return [path for path in left if os.path.isdir(path)]


def remove_left_by(pids: Collection[int], until_s: float) -> None:
    """Remove the directories of ended processes; their children may hold them for a moment.

    Give up at `until_s`, by `time.monotonic`.
    """
    names = tuple(f"{_PREFIX}{pid}-" for pid in pids)
    for parent in {tempfile.gettempdir(), shared_memory_folder()} if pids else ():
        while any(os.path.basename(path).startswith(names) for path in remove_abandoned(parent)):
            if time.monotonic() > until_s:
                break
            time.sleep(_LOOK_S)


def _locked_folder(parent: str) -> tuple[str, int]:
    """Create a directory that is locked while a descriptor is open, and return both."""
    while True:
        path = os.path.join(parent, f"{_PREFIX}{os.getpid()}-{token_hex(8)}")
        os.mkdir(path, 0o700)
        with suppress(FileNotFoundError):  # removed as abandoned by another process, just before it was locked
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            if _lock(lock) and os.path.isdir(path):
                return path, lock
            os.close(lock)


def _lock(number: int) -> bool:
    """Lock an open directory; return False if another process has locked it."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some file systems do not support locks: there, no directory counts as abandoned
        return True
    return True


def _remove(path: str) -> None:
    """Remove a directory with all its contents, even if a program has removed permissions."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path):
        with suppress(OSError):
            os.chmod(path, 0o700)
            for folder, names, _ in os.walk(path):
                for inside in (os.path.join(folder, name) for name in names):
                    if not os.path.islink(inside):
                        os.chmod(inside, 0o700)
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def tidy_when_terminated() -> Iterator[None]:
    """Remove our directories if a signal ends this process, unless the caller handles it."""

    def end(number: int, _: object) -> None:
        for path in in_use():
            _remove(path)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    here = threading.current_thread() is threading.main_thread()
    taken = [number for number in _SIGNALS if here and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Defer signals that would end this process."""
    came: list[int] = []
    here = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *_SIGNALS) if here}
    before = {number: handler for number, handler in handlers.items() if handler is not None}  # by C code
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for signalled in came:
            os.kill(os.getpid(), signalled)
