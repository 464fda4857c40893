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

from xsim_py.errors import ConfigError

SOURCES = Path(__file__).parent / "library"
INCLUDE = SOURCES
"""The directory of ``mpi.h`` and ``mpi-ext.h``."""

_SHARED = {
    "libmpi_abi.so.1": (
        ("runtime.c", "calls.c", "callbacks.c", "libc.c", "local.c"),
        ("-Wl,-soname,libmpi_abi.so.1", "-lpthread"),
    ),
    "libxsim_parent.so": (("parent.c",), ()),
}
_FLAGS = ("-std=gnu17", "-O2", "-fPIC", "-shared", "-fvisibility=default")


@cache
def library() -> Path:
    """Return the directory of the compiled library.

    Raises
    ------
    ConfigError
        There is no C compiler, or it fails.
    """
    compiler = _compiler()
    key = hashlib.blake2b(repr((compiler, _SHARED, _FLAGS)).encode(), digest_size=8)
    for path in sorted(SOURCES.iterdir()):
        key.update(path.name.encode() + path.read_bytes())
    folder = _cache() / f"compiled-{key.hexdigest()}"
    if not folder.is_dir():
        _build(compiler, folder)
    return folder


def _compiler() -> list[str]:
    words = (
        shlex.split(os.environ.get("CC", ""))
        or [name for name in ("cc", "gcc", "clang") if shutil.which(name) is not None][:1]
    )
    if not words or shutil.which(words[0]) is None:
        raise ConfigError(
            "compiled programs need a C compiler, once, for the library that they call: "
            f"{f'CC names {words[0]}, which is not there' if words else 'none of cc, gcc, clang is there'}"
        )
    return words


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "xsim_py")


def _build(compiler: list[str], folder: Path) -> None:
    """Compile the library; of several processes that do so at the same time, one puts its result in place."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as place:
            made = Path(place, "made")
            made.mkdir()
            for name, (sources, flags) in _SHARED.items():
                files = [str(SOURCES / source) for source in sources]
                _run([*compiler, *_FLAGS, "-o", str(made / name), *files, *flags])
            (made / "libmpi_abi.so").symlink_to("libmpi_abi.so.1")
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    except OSError as error:
        raise ConfigError(f"{folder}: cannot keep the library for compiled programs there: {error.strerror}") from None


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        first = (done.stderr.strip() or f"it ends with status {done.returncode}").splitlines()[0]
        raise ConfigError(f"{words[0]} does not compile the library for compiled programs: {first}")
