"""The simulated program: found and compiled once, run once in each rank with module globals of its own.

Modules that live under the program's folder are private to each rank, as they are in real processes: the code is
compiled once and executed in each rank that imports it. Installed packages are shared by all ranks.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from xsim_py.errors import ConfigError

from . import current
from .rank import Rank

__all__ = ["Program", "PrivateModules"]


class Program:
    """What every rank runs.

    Parameters
    ----------
    target : path, module name, Python text or callable
        What `kind` says.
    kind : str
        ``script``, ``module`` (as ``python -m``), ``code`` (as ``python -c``) or ``callable``.
    args : sequence of str
        ``sys.argv[1:]`` of each rank; the arguments of a callable.

    Raises
    ------
    ConfigError
        The program cannot be found, read or compiled.
    """

    def __init__(self, target: Any, *, kind: str, args: Sequence[Any]) -> None:
        self.kind = kind
        self.args = list(args)
        self.folder: Path | None = None
        self.file: str | None = None
        self.spec: ModuleSpec | None = None
        self.code: CodeType | None = None
        self.function: Callable[..., Any] | None = None
        self.name = str(target)
        getattr(self, f"_load_{kind}")(target)

    def _load_script(self, target: Any) -> None:
        path = Path(target)
        if path.is_dir():
            path = path / "__main__.py"
        try:
            source = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{target}: cannot read the program: {error.strerror}") from None
        self.file = str(path)
        self.folder = path.resolve().parent
        self.code = _compile(source, str(path))

    def _load_code(self, target: str) -> None:
        self.name = self.file = "-c"
        self.folder = Path.cwd()
        self.code = _compile(target, "<string>")

    def _load_module(self, target: str) -> None:
        self.folder = Path.cwd()
        sys.path.insert(0, str(self.folder))
        try:
            spec = importlib.util.find_spec(target)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{target}.__main__")
        except ImportError:
            spec = None
        finally:
            sys.path.remove(str(self.folder))
        loader = spec.loader if spec is not None else None
        if spec is None or not hasattr(loader, "get_code"):
            raise ConfigError(f"-m {target}: no module of this name here or among the installed packages")
        self.spec = spec
        self.file = spec.origin
        self.code = loader.get_code(spec.name)  # type: ignore[union-attr]

    def _load_callable(self, target: Callable[..., Any]) -> None:
        self.function = target
        self.name = getattr(target, "__qualname__", repr(target))

    def run(self, rank: Rank) -> None:
        """Run the program in `rank`, which is the one that is running now."""
        if self.function is not None:
            value = self.function(*self.args)
            if value is not None:
                rank.private("value", lambda: value)
            return
        main = ModuleType("__main__")
        main.__dict__.update(__file__=self.file, __spec__=self.spec, __builtins__=__builtins__)
        if self.spec is not None:
            main.__package__ = self.spec.parent
        else:
            main.__dict__["__package__"] = None
        rank.main = main
        rank.argv = [self.file or self.name, *self.args]
        sys.modules["__main__"] = main
        sys.argv = rank.argv
        assert self.code is not None
        # A call, where one would expect exec(): that adds a C frame to the stack that each switch of greenlets copies.
        FunctionType(self.code, main.__dict__)()


def _compile(source: bytes | str, name: str) -> CodeType:
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError(f"{name}{f':{line}' if line else ''}: not a Python program: {error}") from None


class PrivateModules(MetaPathFinder):
    """Finds modules under the program's folder and gives each rank its own copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._specs: dict[str, ModuleSpec | None] = {}
        self._code: dict[str, CodeType | None] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`; None for everything that is not the program's own."""
        if current.fiber is None:
            return None
        if name not in self._specs:
            self._specs[name] = self._search(name, path)
        spec = self._specs[name]
        if spec is None:
            return None
        own = ModuleSpec(name, _PrivateLoader(self._code), origin=spec.origin)
        own.has_location = spec.has_location
        own.loader_state = spec
        if spec.submodule_search_locations is not None:
            own.submodule_search_locations = list(spec.submodule_search_locations)
        return own

    def _search(self, name: str, path: Any) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, [self._folder] if path is None else path)
        if spec is None:
            return None
        places = [spec.origin] if spec.origin and spec.has_location else list(spec.submodule_search_locations or ())
        if not places or not all(self._is_own(place) for place in places):
            return None
        if spec.loader is not None and not isinstance(spec.loader, SourceFileLoader):
            if spec.submodule_search_locations is None:
                return None
        return spec

    def _is_own(self, place: str) -> bool:
        inside = os.path.commonpath([self._folder, os.path.abspath(place)]) == self._folder
        return inside and f"{os.sep}site-packages{os.sep}" not in place[len(self._folder) :]


class _PrivateLoader(Loader):
    def __init__(self, code: dict[str, CodeType | None]) -> None:
        self._code = code

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        rank = current.rank()
        spec: ModuleSpec = module.__spec__.loader_state
        name = module.__name__
        if rank.modules is None:
            rank.modules = {}
        rank.modules[name] = module
        if name not in self._code:
            loader = spec.loader
            self._code[name] = loader.get_code(name) if isinstance(loader, SourceFileLoader) else None
        code = self._code[name]
        if code is not None:
            exec(code, module.__dict__)
