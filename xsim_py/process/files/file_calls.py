"""`open` and the file functions of `os` for ranks, in a run with a simulated storage.

Paths on the storage are handled here; every other path, and every call from outside of ranks, goes to the real
function. File accesses by Python itself are not the program's: files that an installed package reads during its import
(once for all ranks), and the source lines of a traceback.
"""

from __future__ import annotations

import errno
import inspect
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from types import BuiltinFunctionType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from xsim_py.code_origin import PACKAGE, is_installed
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, Wrapper

from . import virtual_files
from .open_files import StorageFile, check_text, flags_of, no_real_file, of_descriptor, open_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Function = Callable[..., Any]
Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

_READERS_OF_SOURCE = frozenset(
    os.path.join(os.path.dirname(os.__file__), f"{name}.py") for name in ("inspect", "linecache", "pdb", "tokenize")
)

_KEPT = frozenset(("_io", "builtins", "io", "linecache", "os", "posix", "tokenize", "zipimport"))
_KEPT_PACKAGES = ("importlib", "_frozen_importlib", "xsim_py")

_real: dict[str, Function] = {}
"""Each function as it was before the run."""

_virtual: dict[str, Function] = {}
"""The replacements of ``os.NAME``."""


# ----------------------------------------------------------------------------------------- classification of paths


def _place(path: Any) -> str | None:
    """Return the absolute path if it is on the storage and the program's code makes the call; else None."""
    storage = virtual_files.active
    if storage is None or current.here() is None or path is None or isinstance(path, int):
        return None
    text = os.fsdecode(path)
    if not text or "\0" in text:
        return None  # the real function raises the right error for these
    if not text.startswith("/"):
        text = os.path.join(_getcwd(), text)
    # The frames last: walking through them takes far longer than comparing a path.
    if not storage.serves(text) or _is_import_machinery(sys._getframe()):
        return None
    return text


def _is_import_machinery(frame: FrameType | None) -> bool:
    """Return True if a call is part of an installed package's import, or looks up source lines."""
    imported = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _READERS_OF_SOURCE:
            return True
        if file.startswith("<frozen importlib"):
            if imported and is_installed(imported):
                return True
            imported = ""
        elif not file.startswith(PACKAGE):
            imported = file
        frame = frame.f_back
    return False


def _ask(path: Path, kind: str, *arguments: object) -> Any:
    """Send a request to the storage; errors contain the file name as the program gave it."""
    try:
        return virtual_files.request(kind, *arguments, name=os.fsdecode(path))
    except OSError as error:
        error.filename = path
        raise


def _function(virtual: Function) -> Function:
    """Decorate a virtual function of `os`, whose name is that of the real one with a leading underscore."""
    _virtual[virtual.__name__[1:]] = virtual
    return virtual


def _path_function(virtual: Function) -> Function:
    """Decorate a virtual function of `os` that, for paths on the storage, takes the absolute path first."""
    name = virtual.__name__[1:]

    @wraps(virtual)
    def function(path: object = None, *args: object, **kwargs: object) -> Any:
        place = _place(path) if kwargs.get("dir_fd") is None else None
        if place is None:
            return _real[name](*(() if path is None else (path,)), *args, **kwargs)
        kwargs.pop("dir_fd", None)
        return virtual(place, path, *args, **kwargs)

    _virtual[name] = function
    return function


def _descriptor_function(virtual: Function) -> Function:
    """Decorate a virtual function of `os` that, for descriptors of the storage, takes the file first."""
    name = virtual.__name__[1:]

    @wraps(virtual)
    def function(fd: object, *args: object, **kwargs: object) -> Any:
        file = of_descriptor(fd)
        return _real[name](fd, *args, **kwargs) if file is None else virtual(file, *args, **kwargs)

    _virtual[name] = function
    return function


# ------------------------------------------------------------------------------------------------ open, and descriptors


def open_(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[object, int], int] | None = None,
) -> object:
    """Open a file as `open` does, on the storage if its path is there."""
    raw = of_descriptor(file)
    place = None if raw is not None else _place(file)
    if raw is None and place is None:
        return _real["open"](file, mode, buffering, encoding, errors, newline, closefd, opener)
    if not closefd:
        raise ValueError("Cannot use closefd=False with a file of the simulated storage")
    flags = flags_of(mode)
    check_text(mode, encoding, errors, newline)
    if opener is not None:
        number = opener(file, flags | os.O_CLOEXEC)
        raw = of_descriptor(number)
        if raw is None:
            return _real["open"](number, mode, buffering, encoding, errors, newline)
    elif place is not None:
        raw = _opened(place, file, flags)
    assert raw is not None
    return open_file(raw, mode, buffering, encoding, errors, newline)


def _opened(place: str, path: Path, flags: int) -> StorageFile:
    try:
        return StorageFile.open(place, os.fspath(path), flags)
    except OSError as error:
        error.filename = path
        raise


def _os_open(path: Path, flags: int, mode: int = 0o777, *, dir_fd: object = None) -> int:
    place = _place(path) if dir_fd is None else None
    if place is None:
        number: int = _real["os.open"](path, flags, mode, dir_fd=dir_fd)
        return number
    try:
        return _opened(place, path, flags).descriptor()
    except IsADirectoryError:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise
        return StorageFile.of_folder(path).descriptor()  # to sync it after a rename in it


@_descriptor_function
def _read(file: StorageFile, count: int) -> bytes:
    return file.read(count) or b""


@_descriptor_function
def _write(file: StorageFile, data: ReadableBuffer) -> int:
    return file.write(data)


@_descriptor_function
def _lseek(file: StorageFile, position: int, whence: int) -> int:
    return file.seek(position, whence)


@_descriptor_function
def _close(file: StorageFile) -> None:
    file.close()


@_descriptor_function
def _fstat(file: StorageFile) -> os.stat_result:
    return file.stat()


@_descriptor_function
def _ftruncate(file: StorageFile, length: int) -> None:
    file.truncate(length)


@_descriptor_function
def _dup(file: StorageFile) -> NoReturn:
    raise no_real_file(file.name)


def _sync(name: str) -> Function:
    def function(fd: object) -> None:
        # A file object is also accepted, whose `fileno` would raise an error.
        file = of_descriptor(fd) if isinstance(fd, int) else getattr(getattr(fd, "buffer", fd), "raw", fd)
        if isinstance(file, StorageFile):
            file.sync()
        else:
            _real[name](fd)

    return function


_virtual["fsync"], _virtual["fdatasync"] = _sync("fsync"), _sync("fdatasync")


# ------------------------------------------------------------------------------------------------ queries


@_path_function
def _stat(place: str, path: Path, *, follow_symlinks: bool = True) -> object:
    return _ask(path, "stat", place, follow_symlinks)


@_path_function
def _lstat(place: str, path: Path) -> object:
    return _ask(path, "stat", place, False)


@_path_function
def _access(place: str, path: Path, mode: int, **_: object) -> object:
    return _ask(path, "access", place, mode)


@_path_function
def _readlink(place: str, path: Path) -> object:
    return _like(path)(_ask(path, "readlink", place))


@_path_function
def _listxattr(place: str, path: Path, *, follow_symlinks: bool = True) -> list[str]:
    return []


def _like(path: Path) -> Function:
    """Return a conversion of text to `path`'s type: names are bytes for a directory given as bytes."""
    return os.fsencode if isinstance(os.fspath(path), bytes) else str


def _listdir(path: Path | None = None) -> object:
    place = _place("." if path is None else path)
    if place is None:
        return _real["listdir"](path)
    like = _like(path or "")
    return [like(name) for name, _ in _ask(path or ".", "names", place)]


_virtual["listdir"] = _listdir


class _Entry:
    """A directory entry on the storage, equivalent to `os.DirEntry`."""

    def __init__(self, folder: Any, name: Any, kind: int) -> None:
        self.name = name
        self.path = os.path.join(folder, name)
        self._kind = kind

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def is_symlink(self) -> bool:
        return self._kind == stat.S_IFLNK

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFREG, follow_symlinks)

    def is_junction(self) -> bool:
        return False

    def _is(self, kind: int, follow: bool) -> bool:
        if follow and self.is_symlink():
            try:
                return stat.S_IFMT(os.stat(self.path).st_mode) == kind
            except FileNotFoundError:
                return False
        return self._kind == kind

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino


class _Entries:
    """The entries of a directory as returned by `os.scandir`: an iterator that can be closed."""

    def __init__(self, entries: list[_Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[_Entry]:
        return self

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _scandir(path: Any = None) -> object:
    place = _place("." if path is None else path)
    if place is None:
        return _real["scandir"](path)
    folder = "." if path is None else os.fspath(path)
    like = _like(folder)
    return _Entries([_Entry(folder, like(name), kind) for name, kind in _ask(folder, "names", place)])


_virtual["scandir"] = _scandir


def _realpath(filename: Path, *, strict: bool = False) -> object:
    place = _place(filename)
    if place is None:
        return _real["realpath"](filename, strict=strict)
    if strict:
        _ask(filename, "stat", place)
    return _like(filename)(_ask(filename, "realpath", place))


# ------------------------------------------------------------------------------------------------- changing paths


@_path_function
def _mkdir(place: str, path: Path, mode: int | None = None) -> None:
    _ask(path, "mkdir", place, None)


@_path_function
def _rmdir(place: str, path: Path) -> None:
    _ask(path, "rmdir", place)


@_path_function
def _remove(place: str, path: Path) -> None:
    _ask(path, "remove", place)


@_path_function
def _unlink(place: str, path: Path) -> None:
    _ask(path, "remove", place)


@_path_function
def _truncate(place: str, path: Path, length: int) -> None:
    _ask(path, "truncate", place, length)


@_path_function
def _chmod(place: str, path: Path, mode: int, *, follow_symlinks: bool = True) -> None:
    _ask(path, "chmod", place, mode)


@_path_function
def _utime(
    place: str,
    path: Path,
    times: Sequence[float] | None = None,
    *,
    ns: Sequence[int] | None = None,
    follow_symlinks: bool = True,
) -> None:
    time_ps = None
    if ns is not None:
        time_ps = ns[1] * 1000
    elif times is not None:
        time_ps = round(times[1] * 10**12)
    _ask(path, "utime", place, time_ps)


def _two_paths(name: str, refused: int, kind: str = "") -> Function:
    """Return a function of two paths; `refused` is the error if the storage does not support it."""

    def function(src: Any, dst: Any, **kwargs: object) -> Any:
        here = _place(src), _place(dst)
        if here == (None, None):
            return _real[name](src, dst, **kwargs)
        if not kind or None in here:
            raise OSError(refused, os.strerror(refused), src, None, dst)
        try:
            return virtual_files.request(kind, *here, name=f"{os.fsdecode(src)} {os.fsdecode(dst)}")
        except OSError as error:
            error.filename, error.filename2 = src, dst
            raise

    return function


_virtual["rename"] = _two_paths("rename", errno.EXDEV, "rename")
_virtual["replace"] = _two_paths("replace", errno.EXDEV, "rename")
_virtual["link"] = _two_paths("link", errno.EOPNOTSUPP)


def _symlink(src: Path, dst: Path, target_is_directory: bool = False, *, dir_fd: object = None) -> None:
    place = _place(dst) if dir_fd is None else None
    if place is None:
        _real["symlink"](src, dst, target_is_directory, dir_fd=dir_fd)
    else:
        _ask(dst, "symlink", os.fsdecode(src), place)


_virtual["symlink"] = _symlink


# ------------------------------------------------------------------------------------------ the current directory


def _getcwd() -> str:
    """Return the current directory, which may exist on the storage only."""
    fiber = current.here()
    folder: str | None = (fiber.rank.extra or {}).get("storage folder") if fiber is not None else None
    return folder or str(_real["getcwd"]())


def _chdir(path: Path) -> None:
    place = _place(path)
    is_real, fiber = True, current.here()
    if place is not None:
        place, is_real = _ask(path, "folder", place)
    if fiber is not None and fiber.rank.extra is not None:
        fiber.rank.extra.pop("storage folder", None)
    if is_real:
        _real["chdir"](path if place is None else place)
    elif fiber is not None:
        fiber.rank.private("storage folder", lambda: place)


_virtual["getcwd"], _virtual["chdir"] = _getcwd, _chdir


# ------------------------------------------------------------------------------------------------------ for a run


_taken: dict[int, Function] = {}
"""By the ``id`` of each real function of the operating system, its replacement."""


def _take(real: Function, name: str, virtual: Function) -> Function:
    if real is not virtual:
        _real[name] = real
        _taken[id(real)] = virtual
    return virtual


def _unlinking(method: Function) -> Function:
    """Make a temporary file's method use the current `os.unlink`; some hold the original as a default argument."""
    if "unlink" not in inspect.signature(method).parameters:
        return method
    return lambda self: method(self, unlink=os.unlink)


def _as_class_attribute(real: Function) -> object:
    """Return the replacement of a function that is a class attribute but not a method."""
    return staticmethod(_taken.get(id(real), real))


_STORED = "virtual: files on the simulated storage; real: all others"
_PLAIN = "real: uses functions of `os`, which access the simulated storage"
PATCHED: Table = (
    ("os", _STORED, {name: Wrapper(_take, name, virtual) for name, virtual in _virtual.items()}),
    ("builtins", _STORED, {"open": Wrapper(_take, "open", open_)}),
    ("os", _STORED, {"open": Wrapper(_take, "os.open", _os_open)}),
    ("os.path", _STORED, {"realpath": Wrapper(_take, "realpath", _realpath)}),
    ("io", _STORED, {"open": open_}),
    # The patterns of pathlib, since Python 3.13.
    ("glob._StringGlobber", _STORED, dict.fromkeys(("lstat", "scandir"), Wrapper(_as_class_attribute))),
    ("shutil", _PLAIN, {"_use_fd_functions": False}),
    ("tempfile", _PLAIN, {"_O_TMPFILE_WORKS": False}),
    ("tempfile._TemporaryFileCloser", _PLAIN, {"cleanup": Wrapper(_unlinking), "close": Wrapper(_unlinking)}),
)


def install(patches: Patches, storage: virtual_files.VirtualFiles) -> None:
    """Replace the real functions for the duration of a run; after `private_state.install`."""
    virtual_files.use(storage)
    patches.at_end(partial(virtual_files.use, None))
    _taken.clear()
    patches.install(PATCHED)
    _replace_in_others(patches)


def _replace_in_others(patches: Patches) -> None:
    """Also replace real functions that other modules have imported under their own names before the run."""
    for name, module in list(sys.modules.items()):
        if name not in _KEPT and not name.startswith(_KEPT_PACKAGES) and isinstance(module, ModuleType):
            for key, value in list(vars(module).items()):
                if type(value) is BuiltinFunctionType and id(value) in _taken:
                    patches.put(vars(module), key, _taken[id(value)])
    openers = getattr(getattr(sys.modules.get("numpy.lib._datasource"), "_file_openers", None), "_file_openers", None)
    if isinstance(openers, dict) and id(openers.get(None)) in _taken:  # numpy.savetxt and loadtxt
        patches.put(openers, None, open_)  # type: ignore[arg-type]
