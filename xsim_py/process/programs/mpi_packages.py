"""Installed packages belong to an MPI program if they import mpi4py, or a package that does.

``rank = MPI.COMM_WORLD.rank`` at the top of a module is the commonest line of such packages, so they are private to
each rank. Found by reading a package's files once, when a rank imports it first: a search for the word, and a parse of
the few files that have it. That takes 40 us a file, which is little beside the import itself: 40 ms for the thousand
files of scipy. What a package imports is followed where it may matter only: to packages whose metadata speaks of MPI,
or requires one that does, and to those that say nothing of what they require, or have no metadata.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING

from xsim_py.code_origin import ALL_IMPORTED, PACKAGE
from xsim_py.config import MachineSpec, ProcessSpec
from xsim_py.errors import ConfigError, close_match

if TYPE_CHECKING:
    from .program import Program

_MPI = "mpi4py"
_WORD = _MPI.encode()
_MOST_FILES = 8192
_STATEMENT = rb"[ \t]*(?:from[ \t]+(\w+)[\w. \t]*|)import[ \t]+([\w., \t]*)"
_NAMED = rb"(?:^|,)[ \t]*(\w+)"
_REQUIRES = rb"(?m)^Requires-Dist: *([\w.-]+)([^\r\n]*)"
_TESTS = frozenset(("test", "tests", "testing"))

# The real functions: those of `os` are replaced while a run lasts.
_open, _read, _fstat, _close, _scandir, _listdir = os.open, os.read, os.fstat, os.close, os.scandir, os.listdir

_OURS = frozenset(("greenlet", "isal", "mpi4py", "numpy", "simpy", "xsim_py", "yaml"))

_known: dict[tuple[str, str], bool] = {}
_distributions: dict[str, dict[str, str]] = {}  # by folder and normalised name, the file of metadata
_speaking: dict[str, bool] = {}  # by that file


def imports_mpi(spec: ModuleSpec) -> bool:
    """Return whether an installed top-level package or module imports mpi4py, or a package that does.

    Parameters
    ----------
    spec : ModuleSpec
        As a finder has found it.
    """
    if spec.name == _MPI or spec.name in sys.stdlib_module_names:
        return False
    places = _places(spec)
    if not places or f"{places[0]}{os.sep}".startswith(PACKAGE):
        return False
    key = (spec.name, places[0])
    if key not in _known:
        before = set(_known)
        _known[key] = False  # for packages that import each other
        if _finds_mpi(spec.name, places):
            for other in _known.keys() - before:  # they may have been asked about this one
                del _known[other]
            _known[key] = True
    return _known[key]


def with_packages(
    spec: MachineSpec, private: Collection[str], share: Collection[str], programs: Collection[Program]
) -> MachineSpec:
    """Add packages to those that a machine names.

    Parameters
    ----------
    spec : MachineSpec
        The machine.
    private, share : collection of str
        The packages of which each rank has its own modules, and those that all ranks share.
    programs : collection of Program
        What ranks run, which has packages of its own.

    Raises
    ------
    ConfigError
        A package is nowhere, or is to be both, or belongs to Python or to the simulator, and cannot be private.
    """
    process = ProcessSpec(
        private=tuple(sorted({*spec.process.private, *private})), share=tuple(sorted({*spec.process.share, *share}))
    )
    folders = [str(program.home) for program in programs if program.home is not None]
    for name in process.private:
        _refuse(spec, "private", name, _problem(name, process))
    for key in ("private", "share"):
        for name in getattr(process, key):
            is_there = _is_there(name, folders) or any(_is_named(name, program.source) for program in programs)
            _refuse(spec, key, name, "" if is_there else _no_such_package(name, folders))
    return replace(spec, process=process)


def _refuse(spec: MachineSpec, key: str, name: str, problem: str) -> None:
    """Say what is wrong with a name, if something is, and where it stands."""
    if problem and name in (named := getattr(spec.process, key)):
        raise spec.error(f"process.{key}[{named.index(name)}]", problem)
    if problem:
        raise ConfigError(f"{key}: {problem}")


def _is_there(name: str, folders: Collection[str]) -> bool:
    """Return whether there is a package of a name, as far as can be told before the program runs."""
    if name == ALL_IMPORTED or name in sys.modules or PathFinder.find_spec(name, [*folders]) is not None:
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _is_named(name: str, source: bytes | str | None) -> bool:
    """Return whether a program names a package, which may be where it tells Python itself to look."""
    text = source if isinstance(source, bytes) else (source or "").encode()
    return re.search(rb"\b%s\b" % re.escape(name.encode()), text) is not None


def _no_such_package(name: str, folders: Collection[str]) -> str:
    """Return the message about a name that no package has."""
    import pkgutil  # not above: nobody needs these whose names are right

    known = {module.name for module in pkgutil.iter_modules([*folders, *sys.path])}
    near = close_match(name, sorted(known))
    advice = f"did you mean {near}?" if near else "if the program itself says where it is, say so in PYTHONPATH, too"
    return f"there is no package {name}, neither installed nor beside the program; {advice}"


def _problem(name: str, process: ProcessSpec) -> str:
    """Return why a package cannot be private, or an empty text."""
    if name in process.share:
        return f"{name} is to be shared, too, and can only be one of both"
    if name in sys.stdlib_module_names:
        return f"{name} is part of Python's standard library, which all ranks share"
    return f"{name} is what the simulator itself uses, so all ranks share it" if name in _OURS else ""


def is_shared(name: str, process: ProcessSpec) -> bool:
    """Return whether an installed module is one that knows nothing of MPI, and that no rank wants for itself."""
    top = name.partition(".")[0]
    if top == _MPI or top in process.private:
        return False
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None or imports_mpi(spec):
        return False
    return top in sys.stdlib_module_names or ALL_IMPORTED not in process.private or has_extensions(spec)


def has_extensions(spec: ModuleSpec) -> bool:
    """Return whether a part of a package is not Python."""
    return any(file.endswith(tuple(EXTENSION_SUFFIXES)) for file, _ in _files(_places(spec)))


def _places(spec: ModuleSpec) -> list[str]:
    """Return the folders of a package, or the file of a module."""
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin] if spec.origin and os.path.isabs(spec.origin) else []


def _finds_mpi(name: str, places: list[str]) -> bool:
    imported: set[str] = set()
    for count, (file, is_test) in enumerate(_files(places)):
        if count == _MOST_FILES:
            break
        if not file.endswith((".py", ".pyc")):
            continue
        text = _text(file)
        if _WORD in text and (file.endswith(".pyc") or _has_import(text)):
            return True
        if not is_test:
            imported.update(_imported(text))
    return any(_leads_to_mpi(each) for each in sorted(imported - sys.stdlib_module_names - {name, _MPI}))


def _imported(text: bytes) -> Iterator[str]:
    """Yield the packages that import statements name; those of `TYPE_CHECKING` and of texts are among them."""
    match = re.compile(_STATEMENT).match
    place = text.find(b"import ")  # a search for lines takes five times as long
    while place >= 0:
        statement = match(text, text.rfind(b"\n", 0, place) + 1)
        if statement is not None:
            names = [statement[1]] if statement[1] else re.findall(_NAMED, statement[2])
            yield from (name.decode() for name in names)
        place = text.find(b"import ", place + 1)


def _files(places: list[str], is_test: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield all files, and whether they are parts of a package's tests."""
    for place in places:
        try:
            entries = sorted(_scandir(place), key=lambda entry: entry.name)
        except NotADirectoryError:
            yield place, is_test
            continue
        except OSError:  # it is in an archive, or nowhere
            continue
        for entry in entries:
            if not entry.is_dir():
                yield entry.path, is_test
            elif entry.name != "__pycache__" and not entry.is_symlink():
                yield from _files([entry.path], is_test or entry.name in _TESTS)


def _text(file: str) -> bytes:
    try:
        number = _open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return _read(number, _fstat(number).st_size)
    except OSError:
        return b""
    finally:
        _close(number)


def _has_import(text: bytes) -> bool:
    """Return whether a file imports mpi4py, by a statement or by a call such as ``import_module("mpi4py.MPI")``."""
    import ast  # not above: few programs have such packages, and all start

    def is_import(node: ast.AST) -> bool:
        if isinstance(node, ast.Import):
            return any(_is_mpi(alias.name) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            return node.level == 0 and _is_mpi(node.module or "")
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            return "import" in called and isinstance(node.args[0].value, str) and _is_mpi(node.args[0].value)
        return False

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(map(is_import, ast.walk(tree)))


def _is_mpi(name: str) -> bool:
    return name.partition(".")[0] == _MPI


def _leads_to_mpi(name: str) -> bool:
    if name in _OURS:
        return False
    try:
        spec = PathFinder.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None or not _places(spec):
        return False
    folder = os.path.dirname(_places(spec)[0])
    metadata = _metadata(folder).get(_normalised(name))
    may_matter = metadata is None or _speaks_of_mpi(folder, metadata) or not re.search(_REQUIRES, _text(metadata))
    return may_matter and imports_mpi(spec)


def _metadata(folder: str) -> dict[str, str]:
    """Return the files of metadata of what is installed in a folder, by the names of the distributions."""
    if folder not in _distributions:
        try:
            names = _listdir(folder)
        except OSError:
            names = []
        _distributions[folder] = {
            _normalised(name.partition("-")[0]): os.path.join(folder, name, "METADATA")
            for name in names
            if name.endswith(".dist-info")
        }
    return _distributions[folder]


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _speaks_of_mpi(folder: str, metadata: str) -> bool:
    if metadata not in _speaking:
        _speaking[metadata] = False
        text = _text(metadata)
        needs = [_normalised(name.decode()) for name, when in re.findall(_REQUIRES, text) if b"extra ==" not in when]
        there = _metadata(folder)
        _speaking[metadata] = (
            b"MPI" in text
            or _WORD in text
            or any(_speaks_of_mpi(folder, there[need]) for need in needs if need in there)
        )
    return _speaking[metadata]
