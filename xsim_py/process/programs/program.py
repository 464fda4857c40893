"""The simulated program: found and compiled once, run once in each rank with separate module globals."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from opcode import opmap
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from xsim_py.code_origin import is_installed
from xsim_py.errors import ConfigError
from xsim_py.input_files import MIB, read_input
from xsim_py.process.python import sys_modules
from xsim_py.process.python.private_sys import UncopiedList, set_flags
from xsim_py.process.ranks.rank import Rank

from . import shared_state
from .called_functions import Copy, FoundInRanks, copy_of
from .private_modules import code_for

_MOST_BYTES = 64 * MIB
_MOST_COMPILED = 64
_TOO_DEEP = (RecursionError, MemoryError, OverflowError, SystemError)
_NOT_COMPILED = (SyntaxError, ValueError, *_TOO_DEEP)

_IMPORT_NAME, _IMPORT_FROM = opmap["IMPORT_NAME"], opmap["IMPORT_FROM"]
_WITH_IMPORTS = {opmap[name] for name in ("LOAD_CONST", "NOP", "POP_TOP", "RESUME", "STORE_NAME", "SWAP")} | {
    _IMPORT_FROM
}
_KNOW_NO_MPI = sys.stdlib_module_names | {"mpi4py", "numpy"}

_modules = sys.modules  # during a run, attributes of `sys` are slow


foreign: Callable[..., Program | None] = lambda _, **__: None  # noqa: E731
"""Makes the program of a file that is not Python's, with the arguments of `Program`; set by `compiled`."""


class Program:
    """The simulated program, which every rank runs.

    The kinds of `target` are ``script``, ``module`` (as ``python -m``), ``code`` (as ``python -c``), ``stdin`` (as
    ``python -``: text for the first rank only, because a launcher forwards standard input to that one) and
    ``callable``. `args` are ``sys.argv[1:]`` of each rank, or the arguments of a callable. The program starts in the
    directory `start`; default: that of the simulator. Raises a `ConfigError` if the program cannot be found, read or
    compiled.
    """

    firsts: Sequence[int] = (0,)  # see `Apps`
    about_storage = ""  # a warning if the run has simulated storage

    def __init__(self, target: Any, *, kind: str, args: Sequence[Any], start: str | None = None) -> None:
        self.kind = kind
        self._target = target
        self.args = list(args)
        self.folder: Path | None = None  # the first directory of a script's module search path
        self.home: Path | None = None  # the same, or where the module of a function was found
        self.file: str | None = None
        self.start = _current_folder() if start is None else start
        self._search: list[str] = sys.__dict__["path"]  # not a rank's
        self.spec: ModuleSpec | None = None
        self.code: CodeType | None = None
        self.source: bytes | str | None = None  # of the program, if known
        self.function: Callable[..., Any] | None = None
        self.copies: tuple[Copy | None, Copy | None] = (None, None)  # of the function, and of its arguments
        self.flags: dict[str, Any] = {}  # changes to ``sys.flags`` by the interpreter's options
        self.name = str(target)
        getattr(self, f"_load_{kind}")(target)
        self._begins_with_mpi = self.spec is None and self.code is not None and _begins_with_mpi(self.code)
        self.home = self.home or self.folder
        self.path = UncopiedList((str(self.folder), *self._search))
        has_name = kind in ("script", "code", "stdin") or self.file is None
        self.argv = UncopiedList((self.name if has_name else self.file, *self.args))  # unused for a callable
        # Created once for all ranks, which copy it: setting them one by one took longer.
        self._names: dict[str, Any] = {"__spec__": self.spec, "__builtins__": builtins}  # the initial globals
        self._names["__package__"] = None if self.spec is None else self.spec.parent
        if self.file is not None:
            self._names["__file__"] = self.file

    def __reduce__(self) -> tuple[object, ...]:
        """Make another process find and compile the program again."""
        if self.function is not None:
            raise TypeError("a function exists in one interpreter only")
        return _found_again, (self._target, self.kind, self.args, self.start, self.flags)

    def _load_script(self, target: str | Path) -> None:
        path = Path(self.start, target)
        is_folder = os.path.isdir(path)  # Path.is_dir() raises for a name that is too long
        if is_folder:
            path = path / "__main__.py"
        try:
            source = read_input(path, most_bytes=_MOST_BYTES)
        except OSError as error:
            if is_folder:
                raise ConfigError(f"{target}: cannot run a directory without a __main__.py") from None
            raise ConfigError(f"{str(target) or repr('')}: cannot read the program: {error.strerror}") from None
        self.file = os.path.abspath(path)
        self.folder = path.resolve().parent
        self.source = source
        self.code = _compile(self.file, source)

    def _load_code(self, target: str) -> None:
        self.name = "-c"
        self.folder = Path(self.start)
        self.source = target
        self.code = _compile("<string>", target)

    def _load_stdin(self, target: bytes) -> None:
        self.name = "-"
        self.folder = Path(self.start)
        self.code = _compile("<stdin>", target)

    def _load_module(self, target: str) -> None:
        self.folder = Path(self.start)
        if target in ("mpi4py", "mpi4py.run"):
            target = f"xsim_py.{target}"  # the simulated package's own, whether or not a real one is installed
        try:
            spec = _find_module(target, [str(self.folder), *self._search])
        except (ImportError, ValueError, AttributeError):  # also for a name that no module can have
            spec = None
        loader = spec.loader if spec is not None else None
        if spec is None or not hasattr(loader, "get_code"):
            raise ConfigError(
                f"-m {target}: cannot find this module in the current directory or the installed packages"
            )
        self.spec = spec
        self.file = spec.origin
        try:
            self.code = loader.get_code(spec.name)  # type: ignore[union-attr]
        except _NOT_COMPILED as error:
            raise ConfigError(_not_python(spec.origin or target, error)) from None
        with suppress(Exception):  # a loader may have none, and raise anything
            self.source = loader.get_source(spec.name)  # type: ignore[union-attr]

    def _load_callable(self, target: Callable[..., Any]) -> None:
        if not callable(target):
            raise ConfigError(f"program: kind callable needs a function, got {target!r}")
        self.function = target
        self.name = getattr(target, "__qualname__", repr(target))
        self.home = target.home if isinstance(target, FoundInRanks) else _home(_innermost(target))

    def hand_over(self, is_private: Callable[[str], bool]) -> bool:
        """Return True if each rank gets a copy of the function, as its module is private; prepare the copies."""
        if isinstance(self.function, FoundInRanks):
            self.function.hand_over(is_private)
            return True
        function = copy_of(self.function, is_private)
        self.copies = function, None if function is None else copy_of(self.args, is_private)
        return function is not None

    def run(self, rank: Rank) -> None:
        """Run the program in `rank`, which is the running one."""
        if self.function is not None:
            function, args = self.copies
            call: Any = self.function if function is None else function.get()
            code = getattr(call, "__code__", None)
            if code is not None:
                shared_state.read(code)
            value = call(*(self.args if args is None else args.get()))
            if function is not None and rank.modules is not None:
                value = copy_of(value, rank.modules.__contains__) or value
            if value is not None:
                rank.private("value", lambda: value)
            return
        if self.kind == "stdin" and rank.number:
            return
        main = ModuleType("__main__")
        names = main.__dict__
        names.update(self._names)
        rank.main = main
        if not self._begins_with_mpi:
            sys_modules.hide_mpi(rank)
        rank.bare = rank.modules is None and rank.private_state is None
        rank.argv, rank.path = self.argv, self.path
        _modules["__main__"] = main
        if self.flags:
            set_flags(rank, self.flags)
        if self.spec is not None and self.spec.parent:
            importlib.import_module(self.spec.parent)
        assert self.code is not None
        # A call instead of exec(), which would add a C frame to the stack that each switch of greenlets copies.
        FunctionType(code_for(rank, self.code), names)()

    @property
    def programs(self) -> Sequence[Program]:
        """This program alone; see `Apps`."""
        return (self,)

    @property
    def is_watched(self) -> bool:
        """True if the result reports state that ranks share unknowingly, which takes time in each run."""
        return not isinstance(self.function, FoundInRanks)

    @property
    def has_value(self) -> bool:
        """True if it may return values to the caller of the simulation."""
        return self.function is not None

    @property
    def namespace(self) -> dict[str, Any] | None:
        """The globals of the function, if the program is one."""
        found: dict[str, Any] | None = getattr(_innermost(self.function), "__globals__", None)
        return found


def program(target: object, *, kind: str, args: Sequence[Any], start: str | None = None) -> Program:
    """Find and compile a program, or find an executable instead of a script."""
    found = foreign(target, args=args, start=start) if kind == "script" else None
    return Program(target, kind=kind, args=args, start=start) if found is None else found


def _innermost(function: object) -> object:
    """Return the function wrapped by a callable."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__wrapped__", function)
    if function is not None and not hasattr(function, "__globals__"):
        function = type(function).__call__
    return function


def _home(function: object) -> Path | None:
    """Return the directory from which a function's module is imported; None if installed or built in."""
    names: dict[str, Any] = getattr(function, "__globals__", {})
    name = names.get("__name__")
    if not isinstance(name, str):
        return None
    file = names.get("__file__")
    if file is None:
        return Path(os.getcwd()) if name == "__main__" else None
    package = names.get("__package__") or ""
    folder = Path(os.path.abspath(file)).parent
    parents = package.count(".") + 1 if package and name != "__main__" else 0
    home = folder.parents[parents - 1] if 0 < parents <= len(folder.parents) else folder
    return None if is_installed(os.path.abspath(file)) else home


def _find_module(name: str, path: list[str]) -> ModuleSpec | None:
    """Find the module that ``python -m`` would run, without importing its packages, which ranks do."""
    spec: ModuleSpec | None = None
    places: Sequence[str] = path
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), places)
        if spec is None:
            return importlib.util.find_spec(name)  # it may be frozen, zipped, or found by a custom finder
        places = spec.submodule_search_locations or []
    return PathFinder.find_spec(f"{name}.__main__", places) if places else spec


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise ConfigError(f"cannot use the current directory; has it been removed? ({error.strerror})") from None


def _begins_with_mpi(code: CodeType) -> bool:
    """Return True if a program imports MPI before any of its code could check for it."""
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if operation == _IMPORT_NAME:
            name = code.co_names[argument]
            if name == "mpi4py.MPI":
                return True
            if name.partition(".")[0] not in _KNOW_NO_MPI:
                return False
        elif operation == _IMPORT_FROM and code.co_names[argument] == "MPI":
            return True
        elif operation not in _WITH_IMPORTS:
            return False
    return False


@lru_cache(_MOST_COMPILED)
def _compile(name: str, source: bytes | str) -> CodeType:
    """Return a program's code, which a process that runs it repeatedly compiles once: that takes longer than a start.

    Raise ConfigError if it is not Python.
    """
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except _NOT_COMPILED as error:
        raise ConfigError(_not_python(name, error)) from None


def _not_python(name: str, error: Exception) -> str:
    if isinstance(error, _TOO_DEEP):
        return f"{name}: does not compile: its code is nested too deeply, or too large"
    line = getattr(error, "lineno", None)
    return f"{name}{f':{line}' if line else ''}: not a Python program: {getattr(error, 'msg', error)}"


def _found_again(target: object, kind: str, args: Sequence[Any], start: str, flags: dict[str, Any]) -> Program:
    program = Program(target, kind=kind, args=args, start=start)
    program.flags.update(flags)
    return program
