"""The library that compiled programs call, compiled at first use into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_Files: TypeAlias = "dict[str, tuple[tuple[str, ...], tuple[str, ...]]]"

SOURCES = Path(__file__).parent / "library"
INCLUDE = SOURCES / "include"
"""The directory of ``mpi.h``, ``mpi-ext.h`` and ``xsim.h``."""

_COMMON = ("runtime.c", "calls.c", "callbacks.c", "fortran.c", "fortran_calls.c", "hot.c", "libc.c", "local.c")
_FLAGS = ("-std=gnu17", "-O2", "-fPIC", f"-I{INCLUDE}")
_FILES = {
    "libmpi_abi.so.1": (
        (*_COMMON, "files.c", "output.c", "sockets.c"),
        ("-shared", "-Wl,-soname,libmpi_abi.so.1", "-Wl,-z,initfirst", "-lpthread", "-ldl"),
    ),
    "libxsim_parent.so": (("parent.c",), ("-shared",)),
}
"""The files of a library: sources, and options of the compiler."""

FAST_HOST, FAST_PROGRAM = "libxsim_fast.so", "xsim_fast.o"
_FAST_FILES = {
    FAST_HOST: (("fast_host.c",), ("-shared", "-fvisibility=hidden")),
    FAST_PROGRAM: (
        (*_COMMON, "fast_program.c", "fast_heap.c"),
        (
            "-r",
            "-nostdlib",
            "-DXSIM_FAST",
            "-fno-builtin",
            "-fvisibility=hidden",
            "-ffunction-sections",
            "-fdata-sections",
        ),
    ),
}

COMPILERS = {
    "cc": ("C", "CC", ("cc", "gcc", "clang")),
    "c++": ("C++", "CXX", ("c++", "g++", "clang++")),
    "fc": ("Fortran", "FC", ("gfortran", "flang", "flang-new", "ifx", "nvfortran")),
}
"""The languages of `compiler`: name, variable, and usual commands."""
_OURS = ("xsim", "mpicc", "mpicxx", "mpic++", "mpifort")


@cache
def library() -> Path:
    """Return the directory of the compiled library.

    Raises
    ------
    ConfigError
        There is no C compiler, or it fails.
    """
    return _library("compiled", _FILES, _FLAGS)


@cache
def fast_library() -> tuple[Path, int]:
    """Return the directory of what programs in the simulator's process need, and the version that they contain.

    Raises
    ------
    ConfigError
        There is no C compiler, or it fails.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in _sources():
        digest.update(path.read_bytes())
    version = int.from_bytes(digest.digest(), "little")
    return _library("fast", _FAST_FILES, (*_FLAGS, f"-DXSIM_VERSION={version:#x}")), version


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.[ch]"))


def _library(kind: str, files: _Files, flags: tuple[str, ...]) -> Path:
    words = compiler("cc")
    return _kept(kind, (words, files, flags), _sources(), lambda made: _build([*words, *flags], made, files))


@cache
def modules() -> Path:
    """Return the directory of the modules ``mpi`` and ``mpi_f08``, in the format of the user's Fortran compiler.

    Raises
    ------
    ConfigError
        There is no Fortran compiler, or it fails.
    """
    words = compiler("fc")
    source = SOURCES / "mpi.f90"
    program = os.path.realpath(shutil.which(words[0]) or words[0])
    key = words, program, os.stat(program).st_mtime_ns
    return _kept("modules", key, [source], lambda made: _run([*words, "-c", str(source)], made))


def compiler(language: str) -> list[str]:
    """Return the command of the user's compiler for a language of `COMPILERS`: that of its variable, or a usual one.

    Raises
    ------
    ConfigError
        No compiler was found.
    """
    name, variable, usual = COMPILERS[language]
    words = shlex.split(os.environ.get(variable, ""))
    if not words or os.path.basename(words[0]) in _OURS:  # ``make CC="xsim cc"`` sets the variable, too
        words = [each for each in usual if shutil.which(each) is not None][:1]
        if not words:
            raise ConfigError(f"no {name} compiler found ({', '.join(usual)}): install one, or set {variable}")
    elif shutil.which(words[0]) is None:
        raise ConfigError(f"no such compiler: {words[0]} (from the variable {variable})")
    return words


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "xsim_py")


def _kept(kind: str, key: object, files: list[Path], make: Callable[[Path], None]) -> Path:
    """Return the directory of the cache that `make` has filled for a key and the content of files.

    Of several processes that fill it at the same time, one puts its result in place.
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8)
    for path in files:
        digest.update(path.name.encode() + path.read_bytes())
    folder = _cache() / f"{kind}-{digest.hexdigest()}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as place:
            made = Path(place, "made")
            made.mkdir()
            make(made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    except OSError as error:
        raise ConfigError(f"{folder}: cannot keep the library for compiled programs there: {error.strerror}") from None
    return folder


def _build(words: list[str], made: Path, files: _Files) -> None:
    for name, (sources, flags) in files.items():
        _run([*words, "-o", name, *(str(SOURCES / source) for source in sources), *flags], made)
    (made / "libmpi_abi.so").symlink_to("libmpi_abi.so.1")


def _run(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        first = (done.stderr.strip() or f"it ends with status {done.returncode}").splitlines()[0]
        raise ConfigError(f"{words[0]} does not compile the library for compiled programs: {first}")
