"""Detection of state that ranks share unknowingly: globals and classes of packages imported once for all.

Watching every access would slow down all programs. Cheap methods find most of what matters:

* Ranks start one after the other, each up to its first wait. The state of the packages that the program imports is
  compared after each of the first few ranks: what two of them change is not a cache that the first one has filled.
* At the end everything is compared once more. The rank responsible is then unknown: changed plain values (a counter, a
  setting) are reported. Objects created on first use are not, nor is a flag to which all code assigns the same value.
* Bytecode shows whether a program may set attributes of modules (``np.name = ...``, ``setattr``, monkeypatch). In its
  runs these modules have a class that records each assignment's rank and location. If all ranks assign the same value,
  separate processes would see it, too, so it is not reported.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from importlib.machinery import ExtensionFileLoader
from itertools import chain
from opcode import opmap
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import is_installed, of_program, shown
from xsim_py.process.ranks import current
from xsim_py.process.ranks.shard import WATCHED_STARTS, Control
from xsim_py.units import spans

if TYPE_CHECKING:
    from xsim_py.process.ranks.patches import Patches
    from xsim_py.process.ranks.rank import Rank

active: _Sharing | None = None
"""The watch of the current run, if this interpreter has several ranks."""

_MOST_ENTRIES = 64
_PLAIN = (bool, int, float, complex, str, bytes)
_CONTAINERS = (dict, list, set)
_NO_CONTAINERS = frozenset((*_PLAIN, type(None), tuple, ModuleType, FunctionType, BuiltinFunctionType))
_DEFINED = (ModuleType, FunctionType, BuiltinFunctionType, type)
_OURS = frozenset(("__main__", "greenlet", "mpi4py", "simpy", "xsim_py"))
_KEPT_APART = frozenset(
    [
        "builtins",
        "contextvars",
        "faulthandler",
        "gc",
        "logging",
        "multiprocessing",
        "os",
        "random",
        "signal",
        "sys",
        "time",
        "threading",
        "warnings",
    ]
)
"""Modules of the standard library that are at least partly private to a rank; the guide lists exceptions."""
_OVERWRITTEN = frozenset(["numba.core.errors.loc_info"])
"""Names whose users set them before they read them, without a wait between: they say nothing to other ranks."""
_CACHES = ("cache", "memo", "lazy", "lock", "warn")


def install(patches: Patches, start: str) -> None:
    """Watch shared state for the duration of a run; file names are relative to the directory `start`."""
    global active
    active = _Sharing(patches, start)
    patches.at_end(active.forget)


def imported(module: ModuleType) -> None:
    """Watch a shared module that a rank has imported."""
    if active is not None and module.__name__.partition(".")[0] not in _KEPT_APART | _OURS:
        active.add(module)


def started(rank: Rank) -> None:
    """Compare shared state after the start of one of a shard's first ranks."""
    if active is not None:
        active.started(rank)


def ignore_packages(*packages: str) -> None:
    """Do not report changes that these packages make to themselves; the caller handles what matters of them."""
    if active is not None:
        active.left_out.update(packages)


def findings(ranks: int, control: Control) -> dict[str, str]:
    """Return a sentence about each name that ranks of this process have changed for each other, unless stopped."""
    return {} if active is None or ranks < 2 else active.findings(ranks, lambda: bool(control.stop_reason))


# ------------------------------------------------------------------------------------- the program's code

_SETTERS = frozenset(("delattr", "monkeypatch", "patch", "setattr"))
_STORE_ATTR, _LOAD_ATTR, _IMPORT_NAME = (opmap[name] for name in ("STORE_ATTR", "LOAD_ATTR", "IMPORT_NAME"))
_LOAD_GLOBALS = {opmap["LOAD_GLOBAL"], opmap["LOAD_NAME"]}
_LOAD_LOCALS = {number for name, number in opmap.items() if name.startswith("LOAD_FAST")}
_PASSED_OVER = {0, opmap["EXTENDED_ARG"], _LOAD_ATTR}  # 0: an instruction's inline cache


def read(code: CodeType) -> None:
    """Examine code that a rank is about to execute."""
    if active is not None and id(code) not in active.codes:
        active.read(code)


def read_file(path: str) -> None:
    """Examine a file that a loader of the program's own is about to execute, such as pytest's."""
    if active is not None:
        active.read_file(path)


@lru_cache(256)
def _compiled(text: bytes, path: str) -> CodeType:
    """Compile a file once, even for a host that simulates its functions many times."""
    return compile(text, path, "exec")


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all nested ones."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _sets_attributes(code: CodeType) -> bool:
    """Return True if code sets an attribute of a global, which may be a module, or calls something that may."""
    if not _SETTERS.isdisjoint(code.co_names):
        return True
    operations = code.co_code[::2]
    at = operations.find(_STORE_ATTR)
    if at < 0:
        return False
    bases = _LOAD_GLOBALS | _LOAD_LOCALS if _IMPORT_NAME in operations else _LOAD_GLOBALS
    while at >= 0:
        base = at - 1
        while base > 0 and operations[base] in _PASSED_OVER:
            base -= 1
        if operations[base] in bases:
            return True
        at = operations.find(_STORE_ATTR, at + 1)
    return False


# ------------------------------------------------------------------------------------- assignments to module attributes


class _Watched(ModuleType):
    """The class of a shared module during a run of a program that sets attributes of modules."""

    def __setattr__(self, name: str, value: object) -> None:
        before = self.__dict__.get(name, _GONE)
        super().__setattr__(name, value)
        if active is not None and name != "__class__":
            active.was_set(self, name, before, value)

    def __delattr__(self, name: str) -> None:
        before = self.__dict__.get(name, _GONE)
        super().__delattr__(name)
        if active is not None:
            active.was_set(self, name, before, _GONE)


_GONE = "(not there)"
"""The value of a missing name."""


class _Write:
    """The ranks that have set a module attribute, the location, and each rank's last value."""

    __slots__ = ("_before", "_clash", "_last", "place", "values")

    def __init__(self, place: str, before: object) -> None:
        self.place = place
        self.values: dict[int, Any] = {}
        self._before = before
        self._last = -1
        self._clash = False  # whether a rank has found a value set by another and set a different one

    def add(self, rank: int, value: object) -> None:
        """Record that a rank has set it."""
        if self._last not in (-1, rank):
            found = self.values[self._last]
            self._clash = self._clash or not (_same(found, self._before) or _same(found, value))
        self._last = rank
        self.values[rank] = value

    def matters(self, ranks: int) -> bool:
        """Return True if a rank may have seen a value that it would not see in a separate process."""
        values = iter(self.values.values())
        first = next(values)
        return self._clash or len(self.values) < ranks or not all(_same(first, value) for value in values)


def _comparable(value: object) -> object:
    """Return a stand-in for comparing the values of several ranks, which may all have created equal ones."""
    if value is None or isinstance(value, _PLAIN):
        return value
    return getattr(value, "__code__", None) or type(value).__qualname__


# ------------------------------------------------------------------------------------- comparisons


class _Table:
    """A namespace or a container that ranks share, as of the last comparison."""

    __slots__ = ("_before", "_now", "_owner", "as_one", "module")

    def __init__(self, module: ModuleType, owner: str, now: dict[str, Any], *, as_one: bool) -> None:
        self.module = module
        self._owner = owner
        self._now = now
        self.as_one = as_one  # report a change of any entry as a change of the container
        self._before = now.copy()

    def changes(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield the changes since the last call: a name, the value before and the current one."""
        before = self._before
        if _same(before, self._now):
            return
        self._before = after = self._now.copy()
        if not hasattr(before, "keys"):
            yield self._owner, before, after
            return
        for name in {**before, **after}:
            old, new = before.get(name, _GONE), after.get(name, _GONE)
            if old is not new and not _same(old, new):
                yield (self._owner if self.as_one else f"{self._owner}.{name}"), old, new


def _same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # for example, arrays or a package's own classes
        return False


def _tables(module: ModuleType) -> Iterator[_Table]:
    """Yield everything that is compared in a module: its names, those of its classes, and small containers."""
    name = module.__name__
    root = name.partition(".")[0]
    yield _Table(module, name, vars(module), as_one=False)
    if root == "numpy" or root in sys.stdlib_module_names:  # most programs have it, and its settings are private
        return
    for key, value in vars(module).copy().items():
        kind = type(value)
        if kind in _NO_CONTAINERS:
            continue
        if not issubclass(kind, type):  # not `isinstance`, which asks an object for its class
            yield from _container(module, f"{name}.{key}", value, root)
        elif value.__module__ == name:
            yield _Table(module, f"{name}.{value.__name__}", vars(value), as_one=False)
            for inner, held in vars(value).copy().items():
                if type(held) not in _NO_CONTAINERS:
                    yield from _container(module, f"{name}.{value.__name__}.{inner}", held, root)


def _container(module: ModuleType, name: str, value: object, root: str) -> Iterator[_Table]:
    if name.rpartition(".")[2].startswith("__") or callable(value):
        return
    if issubclass(type(value), _CONTAINERS):
        held: Any = value
    elif type(value).__module__.partition(".")[0] == root:
        held = _attributes(value)
    else:
        return
    if issubclass(type(held), _CONTAINERS) and len(held) <= _MOST_ENTRIES:
        yield _Table(module, name, held, as_one=True)


def _attributes(value: object) -> Any:
    """Return an object's attributes without calling its code, which may have side effects, such as a warning."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


class _Change:
    """The observed changes of one name."""

    __slots__ = ("is_late", "now", "ranks", "table", "was_set")

    def __init__(self, table: _Table) -> None:
        self.table = table
        self.now: Any = None
        self.ranks: list[int] = []  # that have changed it before they first waited
        self.is_late = False  # whether it has changed after that
        self.was_set = False  # whether a plain value was then replaced by another

    def matters(self, *, by_program: bool) -> bool:
        """Return True if the name is more than a cache, which the first rank fills for all."""
        return len(self.ranks) > 1 or self.was_set or (self.is_late and by_program)


def _is_internal_state(name: str, new: object) -> bool:
    """Return True if a name is a package's internal state: late modules or functions, and caches."""
    last = name.rpartition(".")[2]
    inner = "_" if name.partition(".")[0] in sys.stdlib_module_names else "__"
    is_inner = last.startswith(inner) or "__" in last[1:]  # as in `_Class__name`
    return is_inner or isinstance(new, _DEFINED) or any(word in last.lower() for word in _CACHES)


# ------------------------------------------------------------------------------------- the watch


class _Sharing:
    """The watch over shared state, for one run."""

    def __init__(self, patches: Patches, start: str) -> None:
        self._patches = patches
        self._start = start
        self._to_sample = WATCHED_STARTS
        self.codes: dict[int, CodeType] = {}
        self._files: set[str] = set()
        self._roots: set[str] = set()
        self.left_out: set[str] = set()
        self._tables: dict[str, list[_Table]] = {}
        self._modules: list[ModuleType] = []
        self._sets = False  # whether the program sets attributes of modules
        self._changes: dict[str, _Change] = {}
        self._writes: dict[str, _Write] = {}

    def forget(self) -> None:
        """Release everything: Python finds reference cycles late, if ever."""
        global active
        active = None
        vars(self).clear()

    def read(self, code: CodeType) -> None:
        """Find which packages the program's code names, and whether it sets attributes of modules."""
        if id(code) in self.codes:
            return
        self.codes[id(code)] = code  # which keeps its id valid
        parts = list(_codes(code))
        if not self._sets and any(map(_sets_attributes, parts)):
            self._sets = True
            for module in self._modules:
                self._watch(module)
        self._look_at({name.partition(".")[0] for part in parts for name in part.co_names})

    def read_file(self, path: str) -> None:
        """Examine a file of the program, unless it was examined before."""
        if path not in self._files:
            self._files.add(path)
            with suppress(OSError, SyntaxError, ValueError):
                self.read(_compiled(Path(path).read_bytes(), path))

    def _look_at(self, roots: set[str]) -> None:
        """Watch the modules of these packages from now on."""
        modules = sys.modules
        own = getattr(current.installed, "modules", None) or ()
        new = {root for root in roots - self._roots - _OURS - _KEPT_APART if root in modules}
        if new:
            self._roots |= new
            for name, module in list(modules.items()):
                if name.partition(".")[0] in new and name not in own:
                    self.add(module)

    def add(self, module: ModuleType) -> None:
        """Watch the contents of a module from now on, if all ranks share it."""
        name = getattr(module, "__name__", None)
        if not isinstance(module, ModuleType) or not isinstance(name, str) or name in self._tables:
            return
        file = getattr(module, "__file__", None)
        if (name in sys.builtin_module_names and file is None) or (isinstance(file, str) and is_installed(file)):
            self._tables[name] = list(_tables(module))
            self._modules.append(module)
            if self._sets:
                self._watch(module)

    def _watch(self, module: ModuleType) -> None:
        # A module that already has a custom class would lose it.
        if type(module) is ModuleType:
            self._patches.set(module, "__class__", _Watched)

    def was_set(self, module: ModuleType, name: str, before: object, value: object) -> None:
        """Record the rank and location of an assignment to a module attribute."""
        fiber = current.here()
        if fiber is None or isinstance(value, ModuleType) or name.startswith("__"):
            return
        place = self._place(sys._getframe())
        if place:
            self._restore(module, name, before)
            known = self._writes.setdefault(f"{module.__name__}.{name}", _Write(place, _comparable(before)))
            known.add(fiber.rank.number, _comparable(value))

    def _restore(self, module: ModuleType, name: str, before: object) -> None:
        """Restore the previous value at the end of the run, as at the end of a process."""
        if f"{module.__name__}.{name}" in self._writes:
            return
        table = vars(module)
        undo = partial(table.pop, name, None) if before is _GONE else partial(table.__setitem__, name, before)
        self._patches.at_end(undo)

    def _place(self, frame: FrameType | None) -> str:
        """Return the location of an assignment by the program; empty during imports, shared by all ranks."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith("<frozen importlib"):
                return ""
            if of_program(file):
                return f"{shown(file, self._start)}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    # --------------------------------------------------------------------------------------------- comparing

    def started(self, rank: Rank) -> None:
        """Compare shared state after a rank has reached its first wait or its end and before others run."""
        if self._to_sample:
            self._to_sample -= 1
            for change, _, _ in self._found():
                if rank.number not in change.ranks:
                    change.ranks.append(rank.number)

    def _found(self) -> Iterator[tuple[_Change, Any, Any]]:
        """Yield each change since the last call, with the values before and now."""
        collected = {getattr(each, "__module__", None) for each in gc.callbacks}  # run in any rank
        for table in chain.from_iterable(each for name, each in self._tables.items() if name not in collected):
            for name, old, new in table.changes():
                if not _is_internal_state(name, new):
                    yield self._changes.setdefault(name, _Change(table)), old, new

    def findings(self, ranks: int, is_stopped: Callable[[], bool]) -> dict[str, str]:
        """Return a sentence about each name that ranks have changed for each other."""
        for change, old, new in self._found():
            change.is_late, change.now = True, new
            change.was_set |= isinstance(old, _PLAIN) and isinstance(new, _PLAIN) and old != _GONE
        found = {
            name: self._sentence(name, list(write.values), write.place)
            for name, write in self._writes.items()
            if write.matters(ranks)
        }
        changes = {
            name: change
            for name, change in self._changes.items()
            if name not in self._writes and name not in _OVERWRITTEN and name.partition(".")[0] not in self.left_out
        }
        return found | self._sentences(changes, is_stopped) if changes else found

    def _sentences(self, changes: dict[str, _Change], is_stopped: Callable[[], bool]) -> dict[str, str]:
        """Return the names whose changes matter, with a sentence about each."""
        from .writing_lines import Flag, ProgramLines, flags, line_in_package  # not above: rarely needed

        lines = ProgramLines(dict.fromkeys(code.co_filename for code in self.codes.values()), is_stopped)
        found: dict[str, Any] = {}
        perhaps: dict[str, Flag] = {}
        unsure = 0
        for name, change in changes.items():
            module, last = change.table.module, name.rpartition(".")[2]
            owner = name.removeprefix(module.__name__).strip(".").rpartition(".")[0].rpartition(".")[2]
            line = lines.find(owner, last, as_one=change.table.as_one)
            # Names that only their package changes, and marks as internal, are not reported.
            if change.matters(by_program=line is not None) and (line is not None or not last.startswith("_")):
                found[name] = line or line_in_package(last, str(getattr(module, "__file__", "")))
                if line is None and not change.ranks:
                    perhaps[name] = Flag(module.__name__, last, change.now)
            else:
                unsure += line is None and change.matters(by_program=True)
        settled = flags(perhaps, [] if is_stopped() else _files())
        said = {}
        for name in found.keys() - settled:
            place = "" if found[name] is None else f"{shown(found[name][0], self._start)}:{found[name][1]}"
            said[name] = self._sentence(name, changes[name].ranks, place)
        if unsure and lines.unread:
            why = f"as {lines.unread:,} lines of private packages were not searched; use --isolation process"
            said[f"perhaps {unsure:,} more names of packages"] = why
        return said

    def _sentence(self, name: str, ranks: list[int], place: str) -> str:
        package = name.partition(".")[0]
        way = "--isolation process"
        if package not in sys.stdlib_module_names and not _is_partly_compiled(package):
            way = f"--private {package} or {way}"
        who = f" by rank{'s' * (len(ranks) > 1)} {spans(ranks)}" if ranks else ""
        where = f" at {place}" if place else ""
        return f"changed{who}{where}; use {way}"


def _files() -> list[str]:
    """Return the sources of all modules that ranks share."""
    files = [getattr(each, "__file__", None) for each in list(sys.modules.values())]
    return [file for file in files if isinstance(file, str) and file.endswith(".py")]


def _is_partly_compiled(package: str) -> bool:
    """Return True if a package has extension modules, which cannot be loaded twice in a process."""
    return any(
        name.partition(".")[0] == package and isinstance(getattr(module, "__loader__", None), ExtensionFileLoader)
        for name, module in list(sys.modules.items())
    )
