"""The simulated ``mpi4py`` package: what a program finds under that name while it runs.

Its public names are those of mpi4py 4.1.2, whose documentation says what they do.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path

from xsim_py.mpi.private import own
from xsim_py.process.modules import SharedPackage

__version__ = "4.1.2+xsim"
__author__ = "The xsim_py authors"
__credits__ = "mpi4py, whose interface this is; MPI Forum"

__all__ = ["MPI"]

Option = bool | int | str | None
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# The modules that are plain Python over MPI (bench, util, ...) are mpi4py's own, where that is installed.
_real = PathFinder.find_spec("mpi4py")
__path__ = [*__path__, *((_real and _real.submodule_search_locations) or ())]

_private = ("futures",)
sys.modules[__name__].__class__ = SharedPackage

_DEFAULTS: dict[str, Option] = {
    "initialize": True,
    "threads": True,
    "thread_level": "multiple",
    "finalize": None,
    "fast_reduce": True,
    "recv_mprobe": True,
    "irecv_bufsz": 32768,
    "errors": "exception",
}


_changed = False  # whether any process has set one: most do not, and each that looks would get a table of its own


def _options() -> dict[str, Option]:
    """Return what the current process has set."""
    return own("rc", dict[str, Option])


class Rc:
    """Runtime configuration options; every virtual process has its own."""

    def __init__(self, **kwargs: Option) -> None:
        self(**kwargs)

    def __getattr__(self, name: str) -> Option:
        if name not in _DEFAULTS:
            raise AttributeError(f"object has no attribute {name!r}")
        return _options().get(name, _DEFAULTS[name]) if _changed else _DEFAULTS[name]

    def __setattr__(self, name: str, value: Option) -> None:
        global _changed
        if name not in _DEFAULTS:
            raise TypeError(f"object has no attribute {name!r}")
        _changed = True
        _options()[name] = value

    def __call__(self, **kwargs: Option) -> None:
        for name in kwargs:
            if name not in _DEFAULTS:
                raise TypeError(f"unexpected argument {name!r}")
        for name, value in kwargs.items():
            setattr(self, name, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_DEFAULTS]

    def __repr__(self) -> str:
        return "<mpi4py.rc>"


rc = Rc()


def get_include() -> str:
    """Return the folder of mpi4py's headers: a program in C that is given our objects asks for them in the same way."""
    folders = [Path(folder) / "include" for folder in __path__]
    return str(next((folder for folder in folders if folder.is_dir()), folders[0]))


def get_config() -> dict[str, str]:
    return {}


def profile(name: str, *, path: _Path | Iterable[_Path] | None = None) -> None:
    """Profiling libraries hook into a real MPI; here there is none to hook into."""
    folders = [] if path is None else [path] if isinstance(path, str | bytes | os.PathLike) else list(path)
    plain = os.fspath(name)
    places = [Path(os.fsdecode(folder), form) for folder in folders for form in (f"lib{plain}.so", plain)]
    if not any(place.is_file() for place in [*places, Path(plain)]):
        raise ValueError(f"profiler {name!r} not found")
    warnings.warn(f"profiler {name!r} is not used: a simulated MPI takes none", stacklevel=2)
