"""The files of a simulated storage: the host's files, and the program's changes.

Operations here take no time, and ranks are only numbers: `virtual_files` determines when each operation happens and
makes every shard perform the same ones in the same order. Changes during a run are kept in memory, as an overlay (union
mounts: Pendry and McKusick 1995): a path refers to an entry of the overlay if it has one, else to the host's file. An
open file is identified by its inode's number and survives removal of its name, as on POSIX; a removed path is recorded
as gone.

Methods raise `OSError` like the operating system's calls.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]

_LONG = 64  # bytes: longer pieces are copied faster one by one than through an index of their bytes
_MOST_LINKS = 40
_DEVICE = 0x5851  # no disk's number, so that our inodes are not confused with the host's
_FILE_MODE, _FOLDER_MODE, _LINK_MODE = 0o644, 0o755, 0o777


class Base(Protocol):
    """The files below an overlay; `host_files.HostFiles` implements this."""

    def link(self, path: str) -> str | None:
        """Return a symbolic link's target; None for everything else."""
        ...

    def stat(self, path: str) -> os.stat_result | None:
        """Return the result of `os.lstat`; None for a missing file."""
        ...

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        ...

    def allows(self, path: str, mode: int) -> bool:
        """Return True if access to a file is allowed, as `os.access` does."""
        ...

    def read(self, path: str, start: int, size: int | None) -> bytes:
        """Return the bytes of a file from `start` on; without a size, to its end."""
        ...


class Gone:
    """The entry of a removed path."""

    __slots__ = ()
    kind = 0


class SymbolicLink:
    """The entry of a symbolic link."""

    __slots__ = ("target",)
    kind = stat.S_IFLNK

    def __init__(self, target: str) -> None:
        self.target = target


class Folder:
    """The entry of a directory created by the program, or whose mode it changed; `mode` is None unless set."""

    __slots__ = ("mode", "number", "time_ps")
    kind = stat.S_IFDIR

    def __init__(self, number: int, time_ps: int, mode: int | None = None) -> None:
        self.number = number
        self.time_ps = time_ps
        self.mode = mode


class Inode:
    """A file that the program has created or changed, or one of the host's that it has opened."""

    __slots__ = ("changed", "data", "mode", "named", "number", "opened", "source", "time_ps")
    kind = stat.S_IFREG

    def __init__(self, number: int, time_ps: int, source: str | None) -> None:
        self.number = number
        self.time_ps = time_ps
        self.source = source
        # Its contents; None while they are those of the host's file at `source`.
        self.data: bytearray | None = bytearray() if source is None else None
        self.named = True  # whether a path refers to it
        self.changed = source is None  # whether it differs from the host's file at its path
        self.mode: int | None = None  # None unless the program has set it
        self.opened: dict[int, int] = {}  # how often each rank has it open


Entry = Inode | Folder | SymbolicLink | Gone
_GONE = Gone()


def _refuse(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)


def _spread(held: bytearray, starts: Integers, sizes: Integers, data: bytes) -> None:
    """Copy pieces, which are concatenated in `data`, to their offsets."""
    begins = np.cumsum(sizes) - sizes
    if len(data) > _LONG * len(starts):
        for start, begin, size in zip(starts.tolist(), begins.tolist(), sizes.tolist(), strict=True):
            held[start : start + size] = data[begin : begin + size]
    else:
        places = np.repeat(starts - begins, sizes) + np.arange(len(data))
        np.frombuffer(held, np.uint8)[places] = np.frombuffer(data, np.uint8)


class Overlay:
    """A tree of files.

    `base` has the files below the overlay. `epoch_s` is the file time that corresponds to virtual time zero.
    """

    def __init__(self, base: Base, *, epoch_s: int = 0) -> None:
        self.base = base
        self.now_ps = 0  # the virtual time of the current operation
        self._epoch_ps = epoch_s * 10**12
        self._entries: dict[str, Entry] = {}
        self._below: dict[str, dict[str, None]] = {}  # the names with entries in each folder
        self._inodes: dict[int, Inode] = {}
        self._count = 0

    # --------------------------------------------------------------------------------------- path lookup

    def resolve(self, path: str, *, follow: bool = True, strict: bool = True) -> str:
        """Return a path without links and dots.

        The path must be absolute. `follow` says whether to follow a link at its end, and `strict` whether ``..`` is
        valid only in an existing directory.
        """
        todo, place, links = path.split("/")[::-1], "", 0
        while todo:
            name = todo.pop()
            if name == "..":
                if strict:
                    self._check_folder(f"{place}/..", path)
                place = place.rpartition("/")[0]
            elif name not in ("", "."):
                target = self._link(f"{place}/{name}") if follow or any(todo) else None
                if target is None:
                    place = f"{place}/{name}"
                    continue
                links += 1
                if links > _MOST_LINKS:
                    _refuse(errno.ELOOP, path)
                place = "" if target.startswith("/") else place
                todo += target.split("/")[::-1]
        if strict and path.endswith("/") and self._kind(place) not in (0, stat.S_IFDIR):
            _refuse(errno.ENOTDIR, path)
        return place or "/"

    def _link(self, place: str) -> str | None:
        entry = self._entries.get(place)
        if entry is None:
            return self.base.link(place)
        return entry.target if isinstance(entry, SymbolicLink) else None

    def _find(self, place: str) -> Entry | os.stat_result | None:
        """Return the object at a resolved path: an entry, the status of a host file, or None."""
        entry = self._entries.get(place)
        if entry is None:
            return self.base.stat(place)
        return None if isinstance(entry, Gone) else entry

    def _kind(self, place: str) -> int:
        """Return the type of a file: `stat.S_IFREG`, `S_IFDIR`, ...; 0 for a missing one."""
        entry = self._entries.get(place)
        if entry is not None:
            return entry.kind
        known = self.base.stat(place)
        return 0 if known is None else stat.S_IFMT(known.st_mode)

    def _required_inode(self, path: str, *, follow: bool = True) -> tuple[str, Entry | os.stat_result]:
        place = self.resolve(path, follow=follow)
        found = self._find(place)
        if found is None:
            self._check_folder(place, path)
            _refuse(errno.ENOENT, path)
        return place, found

    def _check_folder(self, place: str, path: str, mode: int = os.F_OK) -> None:
        """Reject `path` if its parent is not a directory, or if the host does not permit the access there."""
        folder = found = place.rpartition("/")[0] or "/"
        while not (kind := self._kind(found)):
            found = found.rpartition("/")[0] or "/"
        if kind != stat.S_IFDIR or found != folder:
            _refuse(errno.ENOENT if kind == stat.S_IFDIR else errno.ENOTDIR, path)
        if folder not in self._entries and not self.base.allows(folder, mode):
            _refuse(errno.EACCES, path)

    def _put(self, place: str, entry: Entry) -> None:
        self._entries[place] = entry
        folder, _, name = place.rpartition("/")
        self._below.setdefault(folder or "/", {})[name] = None

    def _detach(self, place: str) -> None:
        entry = self._entries.get(place)
        if isinstance(entry, Inode):
            entry.named = False
            self._forget_if_lost(entry)
        if self.base.stat(place) is not None:
            self._put(place, _GONE)
        elif entry is not None:
            folder, _, name = place.rpartition("/")
            del self._entries[place], self._below[folder or "/"][name]

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _inode(self, place: str, *, source: str | None) -> Inode:
        inode = Inode(self._number(), self.now_ps, source)
        self._inodes[inode.number] = inode
        self._put(place, inode)
        return inode

    def _forget_if_lost(self, inode: Inode) -> None:
        if not inode.named and not inode.opened:
            del self._inodes[inode.number]

    # -------------------------------------------------------------------------------------------- open files

    def open(self, rank: int, path: str, flags: int) -> tuple[int, int]:
        """Open a file as `os.open` does; return its inode number and its size."""
        alone = flags & os.O_CREAT and flags & os.O_EXCL
        place = self.resolve(path, follow=not alone)
        found = self._find(place)
        writing = flags & os.O_ACCMODE != os.O_RDONLY
        if found is None:
            if not flags & os.O_CREAT:
                self._check_folder(place, path)
                _refuse(errno.ENOENT, path)
            self._check_folder(place, path, os.W_OK)
            found = self._inode(place, source=None)
        elif alone:
            _refuse(errno.EEXIST, path)
        elif self._kind(place) == stat.S_IFDIR:
            _refuse(errno.EISDIR, path)
        elif isinstance(found, os.stat_result):
            if not self.base.allows(place, (os.R_OK, os.W_OK, os.R_OK | os.W_OK)[flags & os.O_ACCMODE]):
                _refuse(errno.EACCES, path)
            found = self._inode(place, source=place)
        assert isinstance(found, Inode)
        if writing:
            if flags & os.O_TRUNC:
                self.resize(found.number, 0)
            self._load(found)
        found.opened[rank] = found.opened.get(rank, 0) + 1
        return found.number, self.size(found.number)

    def _opened(self, number: int) -> Inode:
        inode = self._inodes.get(number)
        if inode is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return inode

    def size(self, number: int) -> int:
        """Return the size of a file in bytes."""
        inode = self._opened(number)
        if inode.data is not None:
            return len(inode.data)
        found = self.base.stat(inode.source or "")
        return 0 if found is None else found.st_size

    def read(self, number: int, start: int, size: int | None) -> bytes:
        """Return the bytes of a file from `start` on; without a size, to its end."""
        inode = self._opened(number)
        if inode.data is None:
            return self.base.read(inode.source or "", start, size)
        return bytes(memoryview(inode.data)[start : None if size is None else start + size])

    def write(self, number: int, start: int | None, data: bytes) -> int:
        """Write at `start`, or at the end by default; return the offset after the data."""
        held = self._held(number)
        if start is None:
            start = len(held)
        if start > len(held):
            held.extend(bytes(start - len(held)))
        end = start + len(data)
        held[start:end] = data
        return end

    def scatter(self, number: int, starts: Integers, sizes: Integers, data: bytes, end: int) -> None:
        """Write ordered pieces, which are concatenated in `data`; nothing beyond `end`."""
        sizes = np.clip(end - starts, 0, sizes)
        total = int(sizes.sum())
        held = self._held(number)
        if total:
            last = int((starts + sizes)[sizes > 0][-1])
            held.extend(bytes(max(last - len(held), 0)))
            _spread(held, starts, sizes, data[:total])

    def resize(self, number: int, size: int) -> None:
        """Truncate a file, or extend it with zeros."""
        inode = self._opened(number)
        if inode.data is None and size == 0:
            inode.data = bytearray()
        held = self._held(number)
        del held[size:]
        held.extend(bytes(size - len(held)))

    def _held(self, number: int) -> bytearray:
        """Return the bytes of a file, which the caller is about to change."""
        inode = self._opened(number)
        inode.changed = True
        inode.time_ps = self.now_ps
        return self._load(inode)

    def _load(self, inode: Inode) -> bytearray:
        if inode.data is None:
            inode.data = bytearray(self.base.read(inode.source or "", 0, None))
        return inode.data

    def fstat(self, number: int) -> os.stat_result:
        """Return the status of an open file, as `os.fstat` does."""
        return self._stat(self._opened(number), self.size(number))

    def sync(self) -> None:
        """Do nothing: all data are already stored."""

    def close(self, rank: int, number: int) -> None:
        """Record that a rank has closed a file."""
        inode = self._inodes[number]
        inode.opened[rank] -= 1
        if not inode.opened[rank]:
            del inode.opened[rank]
            self._forget_if_lost(inode)

    def died(self, rank: int | None) -> None:
        """Close all files that a rank has open; None means all ranks."""
        for inode in list(self._inodes.values()):
            if rank is None:
                inode.opened.clear()
            else:
                inode.opened.pop(rank, None)
            self._forget_if_lost(inode)

    # ------------------------------------------------------------------------------------------------- paths

    def stat(self, path: str, follow: bool = True) -> os.stat_result:
        """Return the status of a file, as `os.stat` does, or `os.lstat`."""
        _, found = self._required_inode(path, follow=follow)
        return self._stat(found, self.size(found.number) if isinstance(found, Inode) else 0)

    def _stat(self, found: Entry | os.stat_result, size: int) -> os.stat_result:
        if isinstance(found, os.stat_result):
            return found
        if isinstance(found, SymbolicLink):
            return self._made_stat(stat.S_IFLNK | _LINK_MODE, 0, len(found.target), 0)
        assert isinstance(found, Inode | Folder)
        if isinstance(found, Inode) and not found.changed and (known := self.base.stat(found.source or "")) is not None:
            return known
        mode = found.mode
        if mode is None:
            mode = _FILE_MODE if isinstance(found, Inode) else _FOLDER_MODE
        return self._made_stat(found.kind | mode, found.number, size, found.time_ps)

    def _made_stat(self, mode: int, number: int, size: int, time_ps: int) -> os.stat_result:
        ns = (self._epoch_ps + time_ps) // 1000
        whole, exact = [ns // 10**9] * 3, [ns / 10**9] * 3
        return os.stat_result([mode, number, _DEVICE, 1, os.getuid(), os.getgid(), size, *whole, *exact, *[ns] * 3])

    def names(self, path: str) -> list[tuple[str, int]]:
        """Return the sorted names in a directory and their types (`stat.S_IFREG`, ...)."""
        place = self._folder(path)
        mine = self._below.get(place, {})
        # Sorted: the order of a real directory depends on its file system, and would differ between hosts.
        all_names = sorted({*mine, *self.base.names(place)})
        front = "" if place == "/" else place
        kinds = ((name, self._kind(f"{front}/{name}")) for name in all_names)
        return [(name, kind) for name, kind in kinds if kind]

    def folder(self, path: str) -> tuple[str, bool]:
        """Return the resolved path of a directory, and whether the host has it too."""
        place = self._folder(path)
        known = self.base.stat(place)
        return place, known is not None and stat.S_ISDIR(known.st_mode)

    def _folder(self, path: str) -> str:
        place, _ = self._required_inode(path)
        if self._kind(place) != stat.S_IFDIR:
            _refuse(errno.ENOTDIR, path)
        return place

    def realpath(self, path: str) -> str:
        """Return a path without links, as `os.path.realpath` does; it need not exist."""
        return self.resolve(path, strict=False)

    def access(self, path: str, mode: int) -> bool:
        """Return True if access to a file is allowed, as `os.access` does; files made by the run are accessible."""
        try:
            place, found = self._required_inode(path)
        except OSError:
            return False
        if isinstance(found, os.stat_result) or (isinstance(found, Inode) and not found.changed):
            return self.base.allows(place, mode)
        return not mode & os.X_OK or bool(self._stat(found, 0).st_mode & 0o111)

    def readlink(self, path: str) -> str:
        """Return the target of a link, as `os.readlink` does."""
        place, _ = self._required_inode(path, follow=False)
        target = self._link(place)
        if target is None:
            _refuse(errno.EINVAL, path)
        return target

    # ------------------------------------------------------------------------------------------- changes

    def remove(self, path: str) -> None:
        """Remove a file, as `os.remove` does."""
        place, _ = self._required_inode(path, follow=False)
        if self._kind(place) == stat.S_IFDIR:
            _refuse(errno.EISDIR, path)
        self._check_folder(place, path, os.W_OK)
        self._detach(place)

    def mkdir(self, path: str, mode: int | None) -> None:
        """Create a directory, as `os.mkdir` does."""
        place = self._free(path)
        self._put(place, Folder(self._number(), self.now_ps, mode))

    def symlink(self, target: str, path: str) -> None:
        """Create a symbolic link, as `os.symlink` does."""
        place = self._free(path)
        self._put(place, SymbolicLink(target))

    def _free(self, path: str) -> str:
        place = self.resolve(path, follow=False)
        if self._kind(place):
            _refuse(errno.EEXIST, path)
        self._check_folder(place, path, os.W_OK)
        return place

    def rmdir(self, path: str) -> None:
        """Remove an empty directory, as `os.rmdir` does."""
        place, _ = self._required_inode(path, follow=False)
        if self._kind(place) != stat.S_IFDIR:
            _refuse(errno.ENOTDIR, path)
        if self.names(place):
            _refuse(errno.ENOTEMPTY, path)
        self._check_folder(place, path, os.W_OK)
        self._detach(place)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, as `os.replace` does."""
        source, target = self.resolve(old, follow=False), self.resolve(new, follow=False)
        for place, path in ((source, old), (target, new)):
            self._check_folder(place, path, os.W_OK)
        kinds = self._kind(source), self._kind(target)
        if not kinds[0]:
            _refuse(errno.ENOENT, old)
        if source == target:
            return
        if target.startswith(f"{source}/"):
            _refuse(errno.EINVAL, new)
        if source.startswith(f"{target}/") or (kinds == (stat.S_IFDIR, stat.S_IFDIR) and self.names(target)):
            _refuse(errno.ENOTEMPTY, new)
        if kinds[0] == stat.S_IFDIR and kinds[1] not in (0, stat.S_IFDIR):
            _refuse(errno.ENOTDIR, new)
        if kinds[0] != stat.S_IFDIR and kinds[1] == stat.S_IFDIR:
            _refuse(errno.EISDIR, new)
        if kinds[1]:
            self._detach(target)
        self._move(source, target)

    def _move(self, source: str, target: str) -> None:
        """Move a file or a directory with its contents to `target`, which must not exist."""
        found = self._find(source)
        inside: list[tuple[str, int]] = []
        if self._kind(source) == stat.S_IFDIR:
            inside = self.names(source)
            entry: Entry = found if isinstance(found, Folder) else Folder(self._number(), self.now_ps)
        elif isinstance(found, os.stat_result):
            link = self._link(source)
            entry = self._inode(source, source=source) if link is None else SymbolicLink(link)
        else:
            assert isinstance(found, Inode | SymbolicLink)
            entry = found
        if isinstance(entry, Inode):
            self._copy_up(entry)
            entry.opened[-1] = 1  # keeps it while it has no name
        self._put(target, entry)
        for name, _ in inside:
            self._move(f"{source}/{name}", f"{target}/{name}")
        self._detach(source)
        if isinstance(entry, Inode):
            entry.named = True
            del entry.opened[-1]

    def truncate(self, path: str, size: int) -> None:
        """Truncate or extend a file, as `os.truncate` does."""
        number, _ = self.open(-1, path, os.O_WRONLY)
        self.resize(number, size)
        self.close(-1, number)

    def chmod(self, path: str, mode: int) -> None:
        """Set the mode of a file, as `os.chmod` does."""
        entry = self._changeable(path)
        entry.mode = stat.S_IMODE(mode)

    def utime(self, path: str, time_ps: int | None) -> None:
        """Set the times of a file, as `os.utime` does: one time for all, now by default."""
        entry = self._changeable(path)
        entry.time_ps = self.now_ps if time_ps is None else time_ps - self._epoch_ps

    def _changeable(self, path: str) -> Inode | Folder:
        """Return the entry of a file or directory whose attributes are about to change."""
        place, found = self._required_inode(path)
        if isinstance(found, os.stat_result):
            if not self.base.allows(place, os.W_OK):
                _refuse(errno.EPERM, path)
            if not stat.S_ISDIR(found.st_mode):
                found = self._inode(place, source=place)
            else:
                found = Folder(self._number(), self.now_ps)
                self._put(place, found)
        assert isinstance(found, Inode | Folder)
        if isinstance(found, Inode):
            self._copy_up(found)
        return found

    def _copy_up(self, inode: Inode) -> None:
        """Copy a host file's contents into the overlay, keeping its time."""
        time_ps = inode.time_ps
        self._held(inode.number)
        inode.time_ps = time_ps

    # ----------------------------------------------------------------------------------------- after the run

    def changes(self) -> Iterator[tuple[str, Entry]]:
        """Yield the differences from the host's files: removals, innermost first, then all changed entries."""
        gone = [place for place, entry in self._entries.items() if isinstance(entry, Gone)]
        yield from ((place, self._entries[place]) for place in sorted(gone, reverse=True))
        for place, entry in sorted(self._entries.items(), key=lambda item: item[0]):
            if not isinstance(entry, Gone) and not (isinstance(entry, Inode) and not entry.changed):
                yield place, entry

    def summary(self) -> Iterator[Any]:
        """Yield the program's changes to the files, as plain values in a fixed order."""
        for place, entry in self.changes():
            if isinstance(entry, Inode):
                yield place, entry.mode, entry.time_ps, bytes(entry.data or b"")
            elif isinstance(entry, SymbolicLink):
                yield place, entry.target
            else:
                yield place, type(entry).__name__
