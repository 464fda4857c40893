"""Detection of installed packages that belong to an MPI program because their import runs mpi4py's.

``rank = MPI.COMM_WORLD.rank`` at the top of a module is very common in such packages, so they are private to
each rank. So are packages that import mpi4py in a function which sets globals (``global MPI``), and those that require
it. A package that uses mpi4py within a function only, as jax and h5py do, keeps no state of a rank.

The detection reads a package's files once, when a rank first imports it, and those of its imports in turn: it searches
for the word and for import statements, and parses the few files that matter. That takes 40 us per file, little compared
with the import itself. Tests of a package do not count.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from xsim_py.code_origin import ALL_IMPORTED, PACKAGE
from xsim_py.config import MachineSpec, ProcessSpec
from xsim_py.errors import ConfigError, close_match

if TYPE_CHECKING:
    from .program import Program

_MPI = "mpi4py"
_WORD = _MPI.encode()
_MOST_FILES = 8192
_STATEMENT = rb"([ \t]*)(?:from[ \t]+(\w+)[\w. \t]*|)import[ \t]+([\w., \t]*)"
_NAMED = rb"(?:^|,)[ \t]*(\w+)"
_REQUIRES = rb"(?m)^Requires-Dist: *([\w.-]+)([^\r\n]*)"
_CACHE = frozenset(("__pycache__",))
_NOT_READ = _CACHE | {"test", "tests", "testing"}
_OF_MPI = rb"(?m)^(?!.*License).*\b(?:MPI|mpi4py)\b"  # except BSD-3-Clause-Open-MPI
_MOST_LINES = 100  # of a ``try`` or ``if`` around imports

# The real functions: those of `os` are replaced during a run.
_open, _read, _fstat, _close, _scandir, _listdir = os.open, os.read, os.fstat, os.close, os.scandir, os.listdir

_OURS = frozenset(("greenlet", "isal", "mpi4py", "numpy", "simpy", "xsim_py", "yaml"))


class Reason(NamedTuple):
    """Why a package is private: one of its files imports mpi4py, or a package that does."""

    file: str
    imported: str


class _Package(NamedTuple):
    """A package's files that contain the word, and the import statements in all its files."""

    place: str
    with_word: list[str]  # the files that contain the word
    imported: dict[str, list[str]]  # for each package that seems to be imported, the files


_packages: dict[tuple[str, str], _Package] = {}
_reasons: dict[tuple[str, str], Reason | None] = {}
_distributions: dict[str, dict[str, str]] = {}  # by directory and normalised name, the metadata file
_speaking: dict[str, bool] = {}  # by metadata file


def imports_mpi(spec: ModuleSpec) -> bool:
    """Return True if the imports of an installed top-level package or module make it private to each rank."""
    return reason(spec) is not None


def reason(spec: ModuleSpec) -> Reason | None:
    """Return why a package's imports make it private to each rank; None if they do not."""
    key = _key(spec)
    if key is None:
        return None
    if key not in _reasons:
        _judge(spec, key)
    return _reasons[key]


def _key(spec: ModuleSpec) -> tuple[str, str] | None:
    """Return the key of a package; None for those that cannot use MPI, or are the simulator's."""
    if spec.name in _OURS or spec.name in sys.stdlib_module_names:
        return None
    places = _places(spec)
    if not places or f"{places[0]}{os.sep}".startswith(PACKAGE):
        return None
    return spec.name, places[0]


def _judge(spec: ModuleSpec, key: tuple[str, str]) -> None:
    """Find the reasons of a package, and of all packages that it imports directly or indirectly."""
    reached: dict[str, tuple[str, str]] = {spec.name: key}
    found: dict[str, Reason] = {}
    specs = [spec]
    while specs:
        each = specs.pop()
        package = _package(each, reached[each.name])
        known = _reasons.get(reached[each.name]) or _direct(each.name, package)
        if known is not None:
            found[each.name] = known
            continue
        for name in package.imported.keys() - reached.keys():
            other = _find(name)
            other_key = None if other is None else _key(other)
            if other is not None and other_key is not None and _may_lead_to_mpi(each.name, package.place, *other_key):
                reached[name] = other_key
                specs.append(other)
    _spread(reached, found)
    _reasons.update({each: found.get(name) for name, each in reached.items()})


def _spread(reached: dict[str, tuple[str, str]], found: dict[str, Reason]) -> None:
    """Add the packages that import packages with a reason, transitively."""
    new = set(found)
    while new:
        before, new = new, set()
        for name in sorted(reached.keys() - found.keys()):
            package = _packages[reached[name]]
            for imported in sorted(before & package.imported.keys()):
                file = _first(name, package, imported, package.imported[imported])
                if file is not None and name not in found:
                    found[name] = Reason(file, imported)
                    new.add(name)


def _direct(name: str, package: _Package) -> Reason | None:
    """Return the first file whose import of mpi4py makes its package private."""
    file = _first(name, package, _MPI, package.with_word, kept=True)
    return None if file is None else Reason(file, _MPI)


def _first(name: str, package: _Package, imported: str, files: list[str], *, kept: bool = False) -> str | None:
    """Return the first of the files whose import of a package counts."""
    from .running_imports import read  # not above: few programs have such packages, and all would pay for the import

    for file in files:
        if file.endswith(".pyc"):
            return file
        imports = read(_text(file))
        if imported in imports.running or (kept and imported in imports.kept):
            return file
        if imported in imports.later | imports.kept and _normalised(imported) in _required(name, package.place):
            return file
    return None


def _may_lead_to_mpi(name: str, place: str, other: str, other_place: str) -> bool:
    """Return True if a package may lead another to mpi4py: a required one, one about MPI, or one without requirements.

    Reading all packages that a package could use takes longer than importing it.
    """
    if _normalised(other) in _required(name, place):
        return True
    folder = os.path.dirname(other_place)
    metadata = _metadata(folder).get(_normalised(other))
    return metadata is None or _mentions_mpi(folder, metadata) or not re.search(_REQUIRES, _text(metadata))


def _mentions_mpi(folder: str, metadata: str) -> bool:
    """Return True if a distribution's metadata mention MPI, or it requires one whose metadata do."""
    if metadata not in _speaking:
        _speaking[metadata] = False  # for mutual requirements
        there = _metadata(folder)
        text = _text(metadata)
        _speaking[metadata] = re.search(_OF_MPI, text) is not None or any(
            _mentions_mpi(folder, there[need]) for need in _needs(text) if need in there
        )
    return _speaking[metadata]


def _find(name: str) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(name)
    except (ImportError, ValueError):
        return None


def with_packages(
    spec: MachineSpec, private: Collection[str], share: Collection[str], programs: Collection[Program]
) -> MachineSpec:
    """Return a machine with added private and shared packages.

    `private` are packages of which each rank has private modules, and `share` those that all ranks share. Private
    packages of the ranks' `programs` are known, too. Raises a `ConfigError` if a package does not exist, or is given as
    both, or belongs to Python or to the simulator and cannot be private.
    """
    process = ProcessSpec(
        private=tuple(sorted({*spec.process.private, *private})), share=tuple(sorted({*spec.process.share, *share}))
    )
    folders = [str(program.home) for program in programs if program.home is not None]
    for name in process.private:
        _refuse(spec, "private", name, _problem(name, process))
    for key in ("private", "share"):
        for name in getattr(process, key):
            is_there = _exists(name, folders) or any(_is_named(name, program.source) for program in programs)
            _refuse(spec, key, name, "" if is_there else _no_such_package(name, folders))
    return replace(spec, process=process)


def _refuse(spec: MachineSpec, key: str, name: str, problem: str) -> None:
    """Report a problem of a name, with its location."""
    if problem and name in (named := getattr(spec.process, key)):
        raise spec.error(f"process.{key}[{named.index(name)}]", problem)
    if problem:
        raise ConfigError(f"{key}: {problem}")


def _exists(name: str, folders: Collection[str]) -> bool:
    """Return True if a package of a name exists, as far as can be told before the program runs."""
    if name == ALL_IMPORTED or name in sys.modules or PathFinder.find_spec(name, [*folders]) is not None:
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _is_named(name: str, source: bytes | str | None) -> bool:
    """Return True if a program's text contains a package's name; the program may extend the search path itself."""
    text = source if isinstance(source, bytes) else (source or "").encode()
    return re.search(rb"\b%s\b" % re.escape(name.encode()), text) is not None


def _no_such_package(name: str, folders: Collection[str]) -> str:
    """Return the error message for a package that does not exist."""
    import pkgutil  # not above: needed for wrong names only

    known = {module.name for module in pkgutil.iter_modules([*folders, *sys.path])}
    near = close_match(name, sorted(known))
    advice = f"did you mean {near}?" if near else "if the program sets its path itself, add that path to PYTHONPATH"
    return f"cannot find the package {name}, installed or next to the program; {advice}"


def _problem(name: str, process: ProcessSpec) -> str:
    """Return why a package cannot be private, or an empty string."""
    if name in process.share:
        return f"{name} is also given as shared; drop one"
    return cannot_be_private(name)


def cannot_be_private(name: str) -> str:
    """Return why a package cannot be private to each rank, or an empty string."""
    if name in sys.stdlib_module_names:
        return f"{name} is part of Python's standard library, which all ranks share"
    return f"{name} is used by the simulator itself, so all ranks share it" if name in _OURS else ""


def is_shared(name: str, process: ProcessSpec) -> bool:
    """Return True if an installed module does not involve MPI, and no rank needs a private copy."""
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
    """Return True if a package contains extension modules."""
    return any(file.endswith(tuple(EXTENSION_SUFFIXES)) for file in _files(_places(spec), skipped=_CACHE))


def _places(spec: ModuleSpec) -> list[str]:
    """Return the directories of a package, or the file of a module."""
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin] if spec.origin and os.path.isabs(spec.origin) else []


def _package(spec: ModuleSpec, key: tuple[str, str]) -> _Package:
    """Return the import information of a package's files, which are read once."""
    if key in _packages:
        return _packages[key]
    with_word: list[str] = []
    imported: dict[str, list[str]] = {}
    required = _required(spec.name, key[1])
    for count, file in enumerate(_files(_places(spec), skipped=_NOT_READ)):
        if count == _MOST_FILES:
            break
        if not file.endswith((".py", ".pyc")):
            continue
        text = _text(file)
        if _WORD in text:
            with_word.append(file)
        for name in {name for name, runs in _imported(text) if runs or _normalised(name) in required}:
            if name != spec.name and name not in _OURS and name not in sys.stdlib_module_names:
                imported.setdefault(name, []).append(file)
    package = _packages[key] = _Package(key[1], with_word, imported)
    return package


def _imported(text: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the packages in apparent import statements, and whether importing the module seems to run them."""
    match = re.compile(_STATEMENT).match
    place = text.find(b"import ")  # searching for lines takes five times as long
    while place >= 0:
        start = text.rfind(b"\n", 0, place) + 1
        statement = match(text, start)
        if statement is not None:
            runs = not statement[1] or not _is_in_function(text, start)
            names = [statement[2]] if statement[2] else re.findall(_NAMED, statement[3])
            yield from ((name.decode(), runs) for name in names)
        place = text.find(b"import ", place + 1)


def _is_in_function(text: bytes, start: int) -> bool:
    """Return True if the last unindented line before an offset begins a function or a class."""
    for _ in range(_MOST_LINES):
        end = start - 1
        if end < 0:
            return False
        start = text.rfind(b"\n", 0, end) + 1
        if text[start : start + 1] not in b" \t#)]}\r\n":
            return text.startswith((b"def ", b"class ", b"async def "), start)
    return True


def _files(places: list[str], *, skipped: frozenset[str]) -> Iterator[str]:
    """Yield all files, except those in directories of some names."""
    for place in places:
        try:
            entries = sorted(_scandir(place), key=lambda entry: entry.name)
        except NotADirectoryError:
            yield place
            continue
        except OSError:  # in an archive, or missing
            continue
        for entry in entries:
            if not entry.is_dir():
                yield entry.path
            elif not entry.is_symlink() and entry.name.lower() not in skipped:
                yield from _files([entry.path], skipped=skipped)


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


def _required(name: str, place: str) -> frozenset[str]:
    """Return the distributions that a package's distribution requires without an extra."""
    metadata = _metadata(os.path.dirname(place)).get(_normalised(name))
    if metadata is None:
        return frozenset()
    return _needs(_text(metadata))


def _needs(metadata: bytes) -> frozenset[str]:
    needs = re.findall(_REQUIRES, metadata)
    return frozenset(_normalised(need.decode()) for need, when in needs if b"extra ==" not in when)


def _metadata(folder: str) -> dict[str, str]:
    """Return the metadata files of the distributions installed in a directory, by name."""
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
