"""Modules that register with a shared package at import: only the first rank's registration takes effect.

A package such as yt registers its colour maps with matplotlib when it is imported: once per process. It is private to
each rank and matplotlib is shared, so the second rank would find them registered, which matplotlib refuses. Then that
rank executes the module again from its beginning, and calls whose values are unused, and decorators, count as done if a
shared package refuses them as duplicates.

This applies only if the first rank could import the module, this one sent no message meanwhile, and the module is
installed: one of the program may print. A refusal comes from a shared package or from compiled code, and is recognised
by its message. Any other error is the program's. Other refusals end the rank, and its traceback contains advice.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from opcode import opname
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.code_origin import installed_name, is_installed, is_simulator
from xsim_py.process.python import sys_modules
from xsim_py.process.ranks import current

from .mpi_packages import cannot_be_private, reason

if TYPE_CHECKING:
    from xsim_py.process.ranks.patches import Patches
    from xsim_py.process.ranks.rank import Rank

_SAYS_SO = re.compile(r"already|duplicat|exist|regist|twice|redefin|conflict|more than once|second time", re.IGNORECASE)
_GUARD = "__registering__"
_NOT_REFUSED = (OSError, ModuleNotFoundError)  # of files, and of missing modules

_modules = sys.modules
_first: dict[str, int] = {}
"""For each file of a private module, the first rank that has imported it."""
_guarded: dict[str, CodeType] = {}
"""The guarded code of modules whose registrations a shared package refuses the second time."""
_others_failed = False


def install(patches: Patches) -> None:
    """Forget the imports of ranks at the end of a run."""
    patches.at_end(_forget)


def _forget() -> None:
    global _others_failed
    _first.clear()
    _guarded.clear()
    _others_failed = False


def execute(
    module: ModuleType,
    loader: SourceFileLoader,
    run: Callable[[ModuleType], None],  # executes it as usual
    made_for: Callable[[Rank, CodeType], CodeType],  # returns the code that a rank executes
) -> None:
    """Execute a private module for the running rank."""
    rank, file = current.rank(), loader.path
    before, key = vars(module).copy(), rank.key
    if file not in _guarded or _first[file] == rank.number:
        try:
            run(module)
        except Exception as error:
            first, refusal = _first.get(file, rank.number), _refusal(error)
            if refusal is None or first == rank.number:
                raise
            if rank.key != key or not is_installed(file) or _code(loader) is None:
                _add_note(error, refusal, f"rank {first}")
                raise
        else:
            _first.setdefault(file, rank.number)
            return
    code = _guarded[file]
    vars(module).clear()
    vars(module).update(before, **{_GUARD: _Registering()})
    try:
        exec(made_for(rank, code), vars(module))
    except Exception as error:
        if (refusal := _refusal(error)) is not None:
            _add_note(error, refusal, f"rank {_first[file]}")
        raise


def advise(error: BaseException, rank: Rank) -> None:
    """Add advice to an exception that ends a rank because another has made the same registration before."""
    global _others_failed
    refusal = None if _others_failed or len(rank.shard.ranks) < 2 else _refusal(error)
    if refusal is None or rank is rank.shard.ranks[0]:
        _others_failed = True
    else:
        _add_note(error, refusal, "another rank")


class _Registering:
    """The context of statements that may register something with a shared package."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> bool:
        return error is not None and sys_modules.is_for_rank() and _refusal(error) is not None

    def decorated(self, make: Callable[[], Any]) -> Callable[[Any], Any]:
        """Return a decorator that leaves a function or class unchanged if its registration is refused."""

        def decorate(value: object) -> object:
            with self:
                return make()(value)
            return value

        return decorate


class _Guarding(ast.NodeTransformer):
    """Puts call statements, and decorators outside of classes, into that context."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Guard a call whose value is not used."""
        if not isinstance(node.value, ast.Call):
            return node
        guarded = ast.With(items=[ast.withitem(context_expr=ast.Name(_GUARD, ast.Load()))], body=[node])
        return ast.copy_location(guarded, node)

    def _visit_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        node.decorator_list = [self._decorator(each) for each in node.decorator_list]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Guard the decorators of a function."""
        return self._visit_definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Guard the decorators of a coroutine."""
        return self._visit_definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Guard the decorators of a class, but none inside it: they may define its names, as ``@value.setter``."""
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        decorators = [each.decorator_list for each in methods]
        self._visit_definition(node)
        for method, unchanged in zip(methods, decorators, strict=True):
            method.decorator_list = unchanged
        return node

    def _decorator(self, node: ast.expr) -> ast.expr:
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        decorated = ast.Attribute(ast.Name(_GUARD, ast.Load()), "decorated", ast.Load())
        return ast.copy_location(ast.Call(decorated, [ast.Lambda(nothing, node)], []), node)


def _code(loader: SourceFileLoader) -> CodeType | None:
    """Return the guarded code of a module; None without a source."""
    file = loader.path
    if file not in _guarded:
        with current.outside():
            try:
                tree = _Guarding().visit(ast.parse(loader.get_data(file)))
            except (OSError, SyntaxError, ValueError):
                return None
            _guarded[file] = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    return _guarded[file]


# ------------------------------------------------------------------------------------- analysis of an error


class _Refusal(NamedTuple):
    """The line of private code whose call was refused."""

    place: str
    package: str  # to which that line belongs
    shared: str  # which refused it; empty for a function in C


def _refusal(error: BaseException) -> _Refusal | None:
    """Return the call that a shared package refused as a duplicate; None for any other error."""
    says_so = _SAYS_SO.search(f"{type(error).__name__}: {error}") is not None
    if not says_so or not isinstance(error, Exception) or isinstance(error, _NOT_REFUSED):
        return None
    own: TracebackType | None = None
    last: TracebackType | None = None
    each = error.__traceback__
    while each is not None:
        last = each
        if _is_private(each):
            own = each
        each = each.tb_next
    if own is None or last is None or is_simulator(last.tb_frame.f_code.co_filename):
        return None
    if last is own and "CALL" not in opname[last.tb_frame.f_code.co_code[last.tb_lasti]]:
        return None  # raised by the private code itself
    code = own.tb_frame.f_code
    place = f"{installed_name(code.co_filename, os.getcwd())}:{own.tb_lineno}"
    return _Refusal(place, _package(own), "" if last is own else _package(last))


def _is_private(traceback: TracebackType) -> bool:
    names = traceback.tb_frame.f_globals
    name = str(names.get("__name__"))
    if name == "__main__" or name in (current.rank().modules or ()):
        return True
    return getattr(_modules.get(name), "__dict__", None) is not names  # of a module whose import has failed


def _package(traceback: TracebackType) -> str:
    return str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0]


def _add_note(error: BaseException, refusal: _Refusal, who: str) -> None:
    """Add advice to the traceback of an error, unless already present."""
    if any(note.startswith("xsim: ") for note in getattr(error, "__notes__", ())):
        return
    package, shared = refusal.package, refusal.shared
    cause = f"{shared} is shared by ranks" if shared else "compiled code exists once for all ranks"
    ways = [f"--private {','.join(_with_users(shared))}"] if shared and not cannot_be_private(shared) else []
    spec = None if package == "__main__" else find_spec(package)
    why = None if spec is None else reason(spec)
    if why is not None:
        ways.append(f"--share {package}")
        cause += f", and {package} is private because {installed_name(why.file, os.getcwd())} imports {why.imported}"
    elif spec is not None and is_installed(str(spec.origin)):
        ways.append(f"no --private {package}")
    use = " or ".join([*ways, "--isolation process"])
    error.add_note(f"xsim: {who} has done this already at {refusal.place}: {cause}; use {use}")


def _with_users(shared: str) -> list[str]:
    """Return a shared package, and the shared packages that refer to it directly or indirectly."""
    own = current.rank().modules or ()
    named = {name: module for name, module in list(_modules.items()) if name not in own and name != "__main__"}
    holders: dict[str, set[str]] = {}
    for name, module in named.items():
        holder = name.partition(".")[0]
        if not cannot_be_private(holder):
            held = (value.__name__ for value in list(vars(module).values()) if isinstance(value, ModuleType))
            holders.setdefault(holder, set()).update(each.partition(".")[0] for each in held)
    found = {shared}
    while new := {name for name, held in holders.items() if name not in found and held & found}:
        found |= new
    return [shared, *sorted(found - {shared})]
