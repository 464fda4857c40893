"""Modules of the program: each rank has its own copy.

Private to each rank, as in real processes, are modules below the program's directory or in directories that the program
adds to Python's search path, and installed packages that import mpi4py: their code is compiled once and executed in
each rank that imports it. Other installed packages are shared by all ranks. The finder or loader does not matter: hooks
of the program or of pytest work as usual, and a module is private according to its file.

Python specialises instructions in place, for the globals and the classes they encounter (PEP 659). Ranks that share
code have different ones and undo each other's specialisations: a tenth of the time of a program with functions and
classes. So if there are few ranks, each executes a copy of the code.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, NamespaceLoader, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import ALL_IMPORTED, PACKAGE, is_installed
from xsim_py.process.python import process_settings, sys_modules
from xsim_py.process.python.finalizers import watch_classes
from xsim_py.process.ranks import current
from xsim_py.process.ranks.own_modules import OwnModules, from_modules, shadowed

from . import host_thread_locals, import_locks, registrations, shared_state
from .import_locks import being_imported
from .mpi_packages import has_extensions, imports_mpi

if TYPE_CHECKING:
    from xsim_py.config import ProcessSpec
    from xsim_py.process.ranks.patches import Patches
    from xsim_py.process.ranks.rank import Rank

    from .program import Program

_PLAIN = (SourceFileLoader, ExtensionFileLoader, type(None))
_MPI = "mpi4py"
_SIMULATOR = "xsim_py"
_modules = sys.modules
_sys = vars(sys)
_made: dict[Any, CodeType] = {}
"""Code that installed loaders have produced from files, in this run or an earlier one."""
_MOST_MADE = 1000
_get_profile, _set_profile = sys.getprofile, sys.setprofile  # a rank has different ones
_FEW = 64  # ranks in a process; the copies of a thousand no longer fit into the processor's cache


class PrivateModules(MetaPathFinder):
    """A finder of all modules for ranks, which gives each rank its own copy of private ones.

    Private modules are the program's own: those in its directory, those in directories that it has itself added to
    ``sys.path``, and those found by its own finders; but not modules installed there, because a virtual environment
    may be in the program's directory. Installed packages that import mpi4py are private, too (see `mpi_packages`).
    """

    def __init__(
        self,
        folders: Collection[Path],  # of the program, or of several programs
        packages: Collection[str] = (),  # modules in shared packages of which each rank has its own copy nevertheless
        *,
        private: Collection[str] = (),  # explicitly private packages; ``all-imported`` means all that are pure Python
        shared: Collection[str] = (),  # explicitly shared packages
    ) -> None:
        self._known: dict[str, ModuleSpec] = {}
        self.beside_mpi = False
        self._folders = {str(folder) for folder in folders}
        self._packages = frozenset(packages)
        self._private = frozenset(private)
        self._shared = frozenset(shared)
        self._installed = {os.path.abspath(entry) for entry in sys.path} - self._folders
        self._specs: dict[tuple[str, ...], ModuleSpec] = {}
        self._codes: dict[str, tuple[object, CodeType]] = {}
        self._extensions: dict[str, ModuleType] = {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return the specification of a module for the running rank; see `importlib.abc.MetaPathFinder`."""
        rank = current.rank()
        if name in shadowed and name.startswith(_MPI):
            return getattr(
                shadowed[name], "__spec__", None
            )  # for queries about a module that the rank has not imported yet
        finders, changed = sys_modules.finders(rank)
        key = (name, *(sys.path if path is None else path))
        spec = None if changed else self._specs.get(key)
        if spec is None:
            spec, finder = (self._known[name], None) if name in self._known else _found(finders, name, path, target)
            if spec is None:
                return None
            if not self._is_private(rank, spec, changed and finder not in _sys["meta_path"]):
                return _followed(spec)
            if not changed and type(spec.loader) in _PLAIN:
                self._specs[key] = spec
        return _with_loader(spec, self._loader(spec))

    def _loader(self, spec: ModuleSpec) -> Any:
        if type(spec.loader) is SourceFileLoader:
            return _PrivateLoader(spec.name, spec.loader.path, self._codes)
        if isinstance(spec.loader, ExtensionFileLoader):
            return _ExtensionLoader(spec.name, spec.loader.path, self._extensions)
        if spec.loader is None or isinstance(spec.loader, NamespaceLoader):
            return _NamespaceLoader()
        return _Follower(spec.loader, private=True) if hasattr(spec.loader, "exec_module") else spec.loader

    def _is_private(self, rank: Rank, spec: ModuleSpec, of_rank: bool) -> bool:
        """Return True if a module is private; `of_rank`: a finder of the rank's own has found it."""
        name = spec.name
        own = rank.modules if rank.modules is not None else OwnModules()
        parent = name.rpartition(".")[0]
        if name in self._packages or name in own.gone:
            return True
        if parent:
            return parent in own
        if name in self._shared:
            return False
        if of_rank and not (spec.has_location and is_installed(str(spec.origin))):
            return True  # installed packages found this way, as by pyomo's finder, stay shared
        return name in self._private or self._is_own(spec) or self._is_part(spec)

    def unload(self, *, again: bool) -> dict[str, ModuleType]:
        """Remove private modules that were imported outside the run from ``sys.modules``.

        With `again`, ranks import them from the same location, as for a function in one of them; otherwise they search
        for them as every process does.
        """
        packages = _packages()
        tops = [name for name in packages if name in _modules and self.is_private(name, _modules[name])]
        taken = {name: _modules.pop(name) for top in tops for name in packages[top]}  # they return package by package
        if again:
            specs = {name: getattr(module, "__spec__", None) for name, module in taken.items()}
            self._known = {name: spec for name, spec in specs.items() if isinstance(spec, ModuleSpec)}
        return taken

    def is_private(self, name: str, module: object = None) -> bool:
        """Return True if a module that was imported outside the run is private in it."""
        top = name.partition(".")[0]
        if top == "__main__" or top in self._shared:
            return False
        if top in self._private:
            return True
        spec = getattr(_modules.get(top) if module is None else module, "__spec__", None)
        if not isinstance(spec, ModuleSpec) or top in sys.stdlib_module_names:
            return False
        return self._is_own(spec) or (self.beside_mpi and _refers_to_mpi(top))

    def _is_part(self, spec: ModuleSpec) -> bool:
        """Return True if an installed package is part of the program nevertheless."""
        if spec.name in sys.stdlib_module_names:
            return False
        if ALL_IMPORTED in self._private and not (spec.origin or "").startswith(PACKAGE) and not has_extensions(spec):
            return True
        return imports_mpi(spec)

    def _is_own(self, spec: ModuleSpec) -> bool:
        if spec.origin and (spec.has_location or spec.submodule_search_locations is None):
            return os.path.isabs(spec.origin) and self._is_ours(spec.origin)
        return bool(spec.submodule_search_locations) and all(map(self._is_ours, spec.submodule_search_locations or ()))

    def _is_ours(self, place: str) -> bool:
        place = os.path.abspath(place)
        if is_installed(place):
            return False
        roots = [*self._folders, *(entry for entry in map(os.path.abspath, sys.path) if entry not in self._installed)]
        return any(place.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def separate(
    patches: Patches,
    programs: Sequence[Program],
    process: ProcessSpec,
    packages: Collection[str],  # see `PrivateModules`
    beside_mpi: bool = False,  # whether the host has imported a real mpi4py, to which its other modules may refer
) -> None:
    """Give each rank its own modules for the duration of a run, without those imported before it."""
    import_locks.install(patches)
    registrations.install(patches)
    folders = {program.home for program in programs if program.home is not None}
    finder = PrivateModules(folders, packages, private=process.private, shared=process.share)
    finder.beside_mpi = beside_mpi
    sys_modules.use(finder)
    functions = [program for program in programs if program.function is not None]
    own = [program.hand_over(finder.is_private) for program in functions]
    if all(own):  # otherwise a program needs modules that its host has imported
        if functions:
            host_thread_locals.hide(patches)
        taken = finder.unload(again=any(getattr(program.function, "again", True) for program in functions))
        patches.at_end(lambda: sys.modules.update(taken))


def _refers_to_mpi(top: str) -> bool:
    """Return True if modules of an imported package refer to mpi4py; reading its files would take longer."""
    if _modules[top].__name__.partition(".")[0] in (_MPI, _SIMULATOR):
        return False
    return any(_holds_mpi(_modules[name]) for name in _packages().get(top, ()))


_without_mpi: dict[int, tuple[Any, int]] = {}
"""Modules without references to mpi4py, by address, with the number of names in each."""


@from_modules
def _packages() -> dict[str, list[str]]:
    """Return the names of all modules by package."""
    packages: dict[str, list[str]] = {}
    for name in _modules:
        packages.setdefault(name.partition(".")[0], []).append(name)
    return packages


def _holds_mpi(module: object) -> bool:
    names = getattr(module, "__dict__", {})
    if _without_mpi.get(id(module)) == (module, len(names)):
        return False
    # No other object is asked for its name, which may have side effects, such as a warning.
    found = any(
        (isinstance(value, ModuleType) and value.__name__.partition(".")[0] == _MPI)
        or type(value).__module__ == f"{_MPI}.MPI"
        for value in list(names.values())
    )
    if not found:
        _without_mpi[id(module)] = module, len(names)
    return found


def _found(finders: list[Any], name: str, path: object, target: object) -> tuple[ModuleSpec | None, Any]:
    """Return a module's specification by the first finder that has it, and that finder."""
    for finder in finders:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(name, path, target)
        if spec is not None:
            return spec, finder
    return None, None


def _followed(spec: ModuleSpec) -> ModuleSpec:
    """Return a shared module's specification with a loader that makes other ranks wait for it."""
    loader = spec.loader
    quick = loader is None or isinstance(loader, type | ExtensionFileLoader | NamespaceLoader)
    if not quick and hasattr(loader, "exec_module"):
        spec.loader = _Follower(loader, private=False)  # type: ignore[assignment]
    return spec


def code_for(rank: Rank, code: CodeType) -> CodeType:
    """Return the program code that a rank executes: a copy if there are few ranks.

    Not under a profiler: ``cProfile`` keeps the counts of only one of several functions with the same name and line.
    """
    watch_classes(code)
    shared_state.read(code)
    if len(rank.shard.ranks) > _FEW or _is_profiled():
        return code
    # Includes all nested code objects, which are specialised separately.
    copy: CodeType = marshal.loads(_marshalled(code))
    return copy


_originals: dict[int, tuple[CodeType, bytes]] = {}


def _marshalled(code: CodeType) -> bytes:
    """Return code as bytes, made once for all ranks; it is kept by its address, as comparing code takes longer."""
    if id(code) not in _originals:
        if len(_originals) >= _MOST_MADE:
            _originals.clear()
        _originals[id(code)] = code, marshal.dumps(code)
    return _originals[id(code)][1]


def _is_profiled() -> bool:
    if sys.version_info >= (3, 12):
        return sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) is not None
    return sys.getprofile() is not None


class SharedPackage(ModuleType):
    """A package that all ranks share, except for some modules that are private to each rank.

    Set the class of the package's module to this, and its ``_private`` to the names of those modules.
    """

    _private: Collection[str]

    # The default one, before it calls `__getattr__`, formats an error message, and Python creates an object to call it.
    __getattribute__ = object.__getattribute__

    def __getattr__(self, name: str) -> Any:
        module = sys.modules.get(f"{self.__name__}.{name}")
        if module is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return module

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.__dict__.get("_private", ()):
            super().__setattr__(name, value)


def _with_loader(spec: ModuleSpec, loader: Loader | None) -> ModuleSpec:
    """Return a copy of a module's specification with another loader."""
    own = ModuleSpec(spec.name, loader, origin=spec.origin)
    own.has_location = spec.has_location
    own.loader_state = spec.loader_state
    own.cached = spec.cached
    if spec.submodule_search_locations is not None:
        own.submodule_search_locations = _copy_of(spec.submodule_search_locations)
    return own


def _copy_of(path: object) -> Any:
    """Return a copy of a package's path, which is a list, or computes its entries."""
    path = copy(path)
    if hasattr(path, "_path"):
        path._path = list(path._path)
    return path


@contextmanager
def _registered(module: ModuleType) -> Iterator[None]:
    """Register a module as private to the running rank during its import, and afterwards if that succeeds."""
    rank = current.rank()
    name = module.__name__
    if _modules.get(name) is not module:  # the program executes it without importing it
        with being_imported(module, rank=rank):
            yield
        return
    own = rank.own_modules()
    before = own.get(name)
    own.put(name, module)
    try:
        with being_imported(module, rank=rank):
            yield
    except BaseException:
        if before is None and name in own:
            own.drop(name)
        raise
    # A module may replace itself in `sys.modules` during its import.
    own.put(name, _modules.get(name, module))


class _Follower:
    """A loader that wraps another loader and records the import while it runs.

    The module finds the original loader in its ``__loader__`` and ``__spec__``, because some modules use it.
    """

    def __init__(self, loader: Any, *, private: bool) -> None:
        self._loader = loader
        self._private = private
        home = getattr(_modules.get(type(loader).__module__), "__file__", None)
        self._makes_the_same = private and home is not None and is_installed(home)  # for each rank

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Any | None:
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec: Any = module.__spec__
        if spec is not None and spec.loader is self:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        if self._private and spec is not None and spec.has_location:
            shared_state.read_file(str(spec.origin))
        with _registered(module) if self._private else being_imported(module, rank=None):
            if self._makes_the_same:
                self._execute(module)
            else:
                self._loader.exec_module(module)
        if not self._private:
            shared_state.imported(module)
            process_settings.imported(module)

    def _execute(self, module: ModuleType) -> None:
        """Execute the code that the loader produced for the first rank; pytest takes long to rewrite it.

        This does not apply to a loader of the program's own, which may produce different code for each rank.
        """
        key = module.__name__, _version(str(getattr(module, "__file__", "")))
        code = _made.get(key)
        if code is not None:
            exec(code_for(current.rank(), code), vars(module))
            return
        code = _seen(module, self._loader.exec_module)
        if code is not None:
            if len(_made) >= _MOST_MADE:
                _made.clear()
            _made[key] = code


def _version(file: str) -> object:
    """Return a key that changes with a file: its name, time and size."""
    with current.outside():
        try:
            found = os.stat(file)
        except (OSError, ValueError):
            return None
    return file, found.st_mtime_ns, found.st_size


def _seen(module: ModuleType, execute: Callable[[ModuleType], None]) -> CodeType | None:
    """Execute a module and return its code, which loaders do not expose; None under a profiler."""
    if _get_profile() is not None:
        execute(module)
        return None
    found: list[CodeType] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "<module>" and frame.f_globals is module.__dict__:
            _set_profile(None)
            found.append(frame.f_code)

    _set_profile(look)
    try:
        execute(module)
    finally:
        if not found:
            _set_profile(None)
    return found[0] if found else None


class _PrivateLoader(SourceFileLoader):
    """A loader that compiles a file once for all ranks."""

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
            registrations.execute(module, self, super().exec_module, code_for)


class _ExtensionLoader(ExtensionFileLoader):
    """A loader of extension modules, whose state cannot be copied: all ranks share one object."""

    def __init__(self, name: str, path: str, made: dict[str, ModuleType]) -> None:
        super().__init__(name, path)
        self._made = made

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name not in self._made:
            loader = ExtensionFileLoader(self.name, self.path)
            module = importlib.util.module_from_spec(_with_loader(spec, loader))
            loader.exec_module(module)
            self._made[spec.name] = module
        return self._made[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        with _registered(module):
            pass


class _NamespaceLoader(NamespaceLoader):
    """A loader of directories without ``__init__.py``, which are packages, too."""

    def __init__(self) -> None:
        pass

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = None
        self._path = module.__path__  # where `importlib.resources` looks for files
        with _registered(module):
            pass
