"""The simulated ``mpi4py`` package, which a program finds under that name during a run.

Its public names are those of mpi4py 4.1.2 and are documented there.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from xsim_py.process.programs.private_modules import SharedPackage

from .options import Rc as Rc
from .options import note_import
from .options import rc as rc

__version__ = "4.1.2+xsim"
__author__ = "The xsim_py authors"
__credits__ = "mpi4py, whose interface this is; MPI Forum"

__all__ = ["MPI"]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# The modules in plain Python on top of MPI (bench, util, ...) come from the real mpi4py, if installed.
_real = PathFinder.find_spec("mpi4py")
__path__ = [*__path__, *((_real and _real.submodule_search_locations) or ())]

_modules = sys.modules  # during a run, attributes of `sys` are slow
_private = ("MPI", "futures", "rc")


class _Package(SharedPackage):
    """The package's module class, which notices imports of `MPI`.

    Deleting `rc` is private to a rank.
    """

    @property
    def MPI(self) -> Any:
        """Return the module `MPI`.

        Hot path: each rank that imports it asks twice, and reaching `__getattr__` costs an exception.
        """
        note_import()
        module = _modules.get(f"{self.__name__}.MPI")  # the package's real name outside a run
        return super().__getattr__("MPI") if module is None else module

    def __getattr__(self, name: str) -> Any:
        return rc if name == "rc" else super().__getattr__(name)

    def __delattr__(self, name: str) -> None:
        if name == "rc":
            sys.modules["mpi4py.rc"] = rc  # type: ignore[assignment]  # another rank has deleted it, too
        else:
            super().__delattr__(name)


sys.modules[__name__].__class__ = _Package


def get_include() -> str:
    """Return mpi4py's header directory, which C extensions need to handle our objects."""
    folders = [Path(folder) / "include" for folder in __path__]
    return str(next((folder for folder in folders if folder.is_dir()), folders[0]))


def get_config() -> dict[str, str]:
    return {}


def profile(name: str, *, path: _Path | Iterable[_Path] | None = None) -> None:
    """Warn that profiling libraries are ignored: the simulated MPI has no hooks for them."""
    folders = [] if path is None else [path] if isinstance(path, str | bytes | os.PathLike) else list(path)
    plain = os.fspath(name)
    places = [Path(os.fsdecode(folder), form) for folder in folders for form in (f"lib{plain}.so", plain)]
    if not any(place.is_file() for place in [*places, Path(plain)]):
        raise ValueError(f"profiler {name!r} not found")
    warnings.warn(f"profiler {name!r} is ignored: the simulated MPI supports none", stacklevel=2)
