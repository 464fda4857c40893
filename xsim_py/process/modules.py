"""Modules of the program: each rank has its own copy.

Modules that live under the program's folder, or where the program itself tells Python to look, are private to each
rank, as they are in real processes: the code is compiled once and executed in each rank that imports it. Installed
packages are shared by all ranks, but for some that keep what belongs to a process, such as its threads.

Python specialises instructions where they stand in the code, for the globals and the classes they meet there (PEP 659).
Ranks that share code meet their own, and undo what the others have done: a tenth of the time of a program with
functions and classes. So where ranks are few, each executes a copy of the code.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from xsim_py.whose import is_installed

from . import context, current
from .finalizers import look_at

if TYPE_CHECKING:
    from .rank import Rank

__all__ = ["PrivateModules", "SharedPackage", "code_for"]

_FEW = 64  # ranks in a process; the copies of a thousand no longer fit into its cache


class PrivateModules(MetaPathFinder):
    """Finds the program's own modules and gives each rank its own copy.

    Its own are those in its folder, and those that it finds through what it has added to ``sys.path`` itself. Not so
    what is installed there: a virtual environment may be in the program's folder.

    Parameters
    ----------
    folder : Path or None
        Of the program, if it has one.
    packages : collection of str
        Modules in packages that all ranks share, of which each rank has its own copy nevertheless.
    """

    def __init__(self, folder: Path | None, packages: Collection[str] = ()) -> None:
        self._folder = "" if folder is None else str(folder)
        self._packages = frozenset(packages)
        self._installed = {os.path.abspath(entry) for entry in sys.path} - {self._folder}
        self._specs: dict[tuple[str, ...], ModuleSpec] = {}
        self._codes: dict[str, tuple[object, CodeType]] = {}
        self._extensions: dict[str, ModuleType] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`; None for everything that is not the program's own."""
        if current.here() is None:
            return None
        parent = name.rpartition(".")[0]
        if name in self._packages:
            pass
        elif (parent and parent not in (current.rank().modules or ())) or not (parent or self._folder):
            return None
        places = sys.path if path is None else list(path)
        key = (name, *places)
        spec = self._specs.get(key)
        if spec is None:
            spec = PathFinder.find_spec(name, places)
            if spec is None or not (parent or name in self._packages or self._is_own(spec)):
                return None
            self._specs[key] = spec
        return _with_loader(spec, self._loader(spec))

    def _loader(self, spec: ModuleSpec) -> Loader:
        if isinstance(spec.loader, SourceFileLoader):
            return _PrivateLoader(spec.name, spec.loader.path, self._codes)
        if isinstance(spec.loader, ExtensionFileLoader):
            return _ExtensionLoader(spec.name, spec.loader.path, self._extensions)
        return _NamespaceLoader()

    def _is_own(self, spec: ModuleSpec) -> bool:
        if spec.origin and spec.has_location:
            return isinstance(spec.loader, SourceFileLoader | ExtensionFileLoader) and self._is_ours(spec.origin)
        return bool(spec.submodule_search_locations) and all(map(self._is_ours, spec.submodule_search_locations or ()))

    def _is_ours(self, place: str) -> bool:
        place = os.path.abspath(place)
        if is_installed(place):
            return False
        roots = [self._folder, *(entry for entry in map(os.path.abspath, sys.path) if entry not in self._installed)]
        return any(place.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def code_for(rank: Rank, code: CodeType) -> CodeType:
    """What a rank is to execute of the program's code: a copy where ranks are few.

    Not while something profiles them: ``cProfile`` keeps the counts of one of all functions of a name and line.
    """
    look_at(code)
    if len(rank.shard.ranks) > _FEW or _is_profiled():
        return code
    copy: CodeType = marshal.loads(marshal.dumps(code))
    return copy


def _is_profiled() -> bool:
    if sys.version_info >= (3, 12):
        return sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) is not None
    return sys.getprofile() is not None


class SharedPackage(ModuleType):
    """A package that all ranks share, with modules of which each rank has its own: these are looked up in each.

    Give its class to the package's module, and set ``_private`` to the names of those modules there.
    """

    _private: Collection[str]

    # That of modules, before it calls `__getattr__`, makes an error with a text; and Python makes an object to call it.
    __getattribute__ = object.__getattribute__

    def __getattr__(self, name: str) -> Any:
        module = sys.modules.get(f"{self.__name__}.{name}")
        if module is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return module

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__.get("_private", ()):
            super().__setattr__(name, value)


def _with_loader(spec: ModuleSpec, loader: Loader) -> ModuleSpec:
    """The same specification with another loader."""
    own = ModuleSpec(spec.name, loader, origin=spec.origin)
    own.has_location = spec.has_location
    own.cached = spec.cached
    if spec.submodule_search_locations is not None:
        own.submodule_search_locations = list(spec.submodule_search_locations)
    return own


@contextmanager
def _registered(module: ModuleType) -> Iterator[None]:
    """While a module is being imported, and from then on if that works, it is one of the running rank's own."""
    rank = current.rank()
    name = module.__name__
    if rank.modules is None:
        rank.modules = context.OwnModules()
        rank.bare = False
    before = rank.modules.get(name)
    rank.modules.put(name, module)
    try:
        yield
    except BaseException:
        if before is None:
            rank.modules.drop(name)
        raise
    rank.modules.put(name, sys.modules.get(name, module))


class _PrivateLoader(SourceFileLoader):
    """Compiles a file once for all ranks."""

    def __init__(self, name: str, path: str, codes: dict[str, tuple[object, CodeType]]) -> None:
        super().__init__(name, path)
        self._codes = codes

    def get_code(self, fullname: str) -> CodeType | None:
        stats = self.path_stats(self.path)
        known = self._codes.get(self.path)
        if known is None or known[0] != stats:
            code = super().get_code(fullname)
            assert code is not None
            known = self._codes[self.path] = (stats, code)
        return code_for(current.rank(), known[1])

    def exec_module(self, module: ModuleType) -> None:
        with _registered(module):
            super().exec_module(module)


class _ExtensionLoader(ExtensionFileLoader):
    """Extension modules have state that no copy can be made of: all ranks share one object."""

    def __init__(self, name: str, path: str, made: dict[str, ModuleType]) -> None:
        super().__init__(name, path)
        self._made = made

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name not in self._made:
            module = super().create_module(spec)
            super().exec_module(module)
            self._made[spec.name] = module
        return self._made[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        with _registered(module):
            pass


class _NamespaceLoader(Loader):
    """A folder without ``__init__.py`` is a package, too, and modules are its attributes."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        with _registered(module):
            pass
