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
from typing import TYPE_CHECKING

from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(__file__).parent / "library"
INCLUDE = SOURCES / "include"
"""The directory of ``mpi.h``, ``mpi-ext.h`` and ``xsim.h``."""

_SHARED = {
    "libmpi_abi.so.1": (
        (
            "runtime.c",
            "calls.c",
            "callbacks.c",
            "fortran.c",
            "fortran_calls.c",
            "hot.c",
            "libc.c",
            "local.c",
            "output.c",
        ),
        ("-Wl,-soname,libmpi_abi.so.1", "-Wl,-z,initfirst", "-lpthread", "-ldl"),
    ),
    "libxsim_parent.so": (("parent.c",), ()),
}
_FLAGS = ("-std=gnu17", "-O2", "-fPIC", "-shared", "-fvisibility=default", f"-I{INCLUDE}")


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
    words = compiler("cc")
    files = sorted(SOURCES.rglob("*.[ch]"))
    return _kept("compiled", (words, _SHARED, _FLAGS), files, lambda made: _build(words, made))


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


def _build(words: list[str], made: Path) -> None:
    for name, (sources, flags) in _SHARED.items():
        files = [str(SOURCES / source) for source in sources]
        _run([*words, *_FLAGS, "-o", name, *files, *flags], made)
    (made / "libmpi_abi.so").symlink_to("libmpi_abi.so.1")


def _run(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        first = (done.stderr.strip() or f"it ends with status {done.returncode}").splitlines()[0]
        raise ConfigError(f"{words[0]} does not compile the library for compiled programs: {first}")
