"""Finalizers run in the rank whose objects they finalize.

Python's collector frees reference cycles of all ranks, in whichever rank is running, at a moment that depends on the
allocations of all ranks and the simulator. So a ``__del__`` called by the collector is deferred until its rank calls
`gc.collect` itself, or ends. The same applies to `weakref.finalize`. At the end of a rank, finalizers run for the
objects that its modules still hold, as at the end of a process. For a rank that has failed none runs.

A package that ranks share may keep an object for all of them, such as a compiled function. So a `weakref.finalize` that
such a package creates with its own function runs when the object ends, not at the end of the rank.

Classes are observed as they are defined, only in programs that define a ``__del__`` at all.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import sys
import weakref
from collections.abc import Callable
from functools import partial, wraps
from types import CodeType, FrameType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import of_package
from xsim_py.process.output.tracebacks import report_ignored
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, Wrapper

from .sys_modules import is_for_all

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

_WAITING = "finalizers that wait"
_MADE = "finalizers"
_CLASSES = "classes with finalizers"
_SHUT_DOWN = "weakref.finalize does nothing any longer"
_OVER = "finalizers are over"
_MOST = 1000  # waiting, before the next of the rank's own runs; each keeps its object's references alive
_FEW = 256  # ranks in the run; with more, searching each rank's leftover objects would take too long
_CONTAINERS = (dict, frozenset, list, set, tuple)

_real_build, _real_collect = builtins.__build_class__, gc.collect
_codes: dict[int, tuple[CodeType, bool]] = {}
_collecting: list[str] = []
"""Not empty while the collector runs."""


def watch_classes(code: CodeType) -> None:
    """Observe the classes that a module of the program defines, if any may have a ``__del__``."""
    known = _codes.get(id(code))
    if known is None:
        known = _codes[id(code)] = (code, _has_finalizer(code))
    if known[1]:
        # Until the end of the run, and only if needed: each class definition then takes one more call.
        vars(builtins)["__build_class__"] = _build_class


def _has_finalizer(code: CodeType) -> bool:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return any(each.co_name == "__del__" or _has_finalizer(each) for each in inner)


def _build_class(function: Callable[..., Any], name: str, /, *bases: object, **options: object) -> object:
    cls = _real_build(function, name, *bases, **options)
    finalizer = vars(cls).get("__del__") if isinstance(cls, type) else None
    fiber = current.here()
    if fiber is not None and isinstance(finalizer, FunctionType) and fiber.rank.owns(finalizer.__globals__):
        _observe_collector()
        fiber.rank.private(_CLASSES, set).add(cls)
        cls.__del__ = _defer(fiber.rank, finalizer)
    return cls


def _defer(rank: Rank, finalizer: Callable[[Any], object]) -> Callable[[Any], object]:
    @wraps(finalizer)
    def __del__(self: object) -> object:  # noqa: N807
        return _run_in(rank, partial(finalizer, self))

    return __del__


def _run_in(rank: Rank, finalizer: Callable[[], object]) -> object:
    """Run a finalizer now if its rank is running, otherwise when the rank next runs."""
    extra = rank.extra
    if rank.exit_status is not None or extra is None or _OVER in extra:
        return None
    waiting: list[Any] = extra.setdefault(_WAITING, [])
    fiber = current.here()
    if fiber is not None and fiber.rank is rank and not (_collecting and len(waiting) < _MOST):
        return finalizer()
    waiting.append(finalizer)
    return None


def _observe_collector() -> None:
    """Observe the collector from now on; most programs have no finalizers to defer."""
    if _notice not in gc.callbacks:
        gc.callbacks.append(_notice)


def _run_deferred(rank: Rank) -> None:
    waiting = (rank.extra or {}).get(_WAITING, [])
    while waiting:
        finalizer = waiting.pop(0)
        try:
            finalizer()
        except BaseException as error:
            report_ignored(error, finalizer)


def _notice(phase: str, _: dict[str, int]) -> None:
    """Record the collector's start and end; called by Python."""
    _collecting[:] = [phase] if phase == "start" else []


def _collect(*args: int, **kwargs: int) -> int:
    found = _real_collect(*args, **kwargs)
    fiber = current.here()
    if fiber is not None:
        _run_deferred(fiber.rank)
    return found


# ------------------------------------------------------------------------------------------------- the end of a rank


def end(rank: Rank) -> None:
    """Run the finalizers due at the end of a process: of the program's own objects, while MPI is still usable."""
    extra = rank.extra
    if extra is not None:
        _run_deferred(rank)
    modules: dict[str, Any] = rank.modules or {}
    classes = () if extra is None else tuple(extra.get(_CLASSES, ()))
    if not classes:  # as in most ranks: then only a generator may need finalization, and programs hold few
        first = rank.main or next(iter(modules.values()), None)
        if first is None or GeneratorType not in map(type, vars(first).values()):
            return
        tables = [vars(first)]
    else:
        tables = [vars(each) for each in (rank.main, *modules.values()) if each is not None]
    found = [each for table in tables for each in _finalizable(table, classes)]
    if classes and rank.shard.initial <= _FEW:
        _collect()
    for each in found:
        _try(each.close if isinstance(each, GeneratorType) else partial(type(each).__del__, each))
    rank.private(_OVER, bool)


def _try(function: Callable[[], object]) -> None:
    try:
        function()
    except BaseException as error:
        report_ignored(error, function)


def _finalizable(table: dict[str, Any], classes: tuple[type, ...]) -> list[Any]:
    """Return the objects to finalize that are reachable through containers, such objects and generators."""
    found, seen, todo = [], {id(table)}, list(table.values())[::-1]
    while todo:
        each = todo.pop()
        # Not `isinstance`, which asks each object for its class: that may run a package's code.
        kind = type(each)
        if not issubclass(kind, (*classes, *_CONTAINERS, GeneratorType)) or id(each) in seen:
            continue
        seen.add(id(each))
        if issubclass(kind, _CONTAINERS):
            todo += gc.get_referents(each)[::-1]
        else:
            found.append(each)
            todo += list(getattr(each, "__dict__", {}).values())[::-1]
    return found


# ------------------------------------------------------------------------------------------------- weakref.finalize


def _making(real: Callable[..., None]) -> Callable[..., None]:
    @wraps(real)
    def initialize(self: object, /, *args: object, **kwargs: object) -> None:
        real(self, *args, **kwargs)
        fiber = current.here()
        if fiber is not None and not is_for_all():
            _observe_collector()
            _made_in(fiber.rank)[self] = _is_for_ranks(fiber.rank, sys._getframe(1), *args[1:2])
            _owners[self] = fiber.rank

    return initialize


def _is_for_ranks(rank: Rank, caller: FrameType, function: object = None) -> bool:
    """Return True if a package that ranks share creates a finalizer: other ranks may use the object, too."""
    if isinstance(function, MethodType):
        function = function.__func__
    if _alone or not isinstance(function, FunctionType):
        return False
    codes, names = (caller.f_code, function.__code__), (caller.f_globals, function.__globals__)
    return all(of_package(each.co_filename) for each in codes) and not any(map(rank.owns, names))


def _made_in(rank: Rank) -> dict[Any, bool]:
    """Return the finalizers of a rank and whether each is for all ranks.

    They run as one `atexit` function, registered with the first of them.
    """
    if _MADE not in (rank.extra or {}):
        rank.private("atexit", list).append((_run_made, (rank,), {}))
    made: dict[Any, bool] = rank.private(_MADE, dict)
    return made


def _run_made(rank: Rank) -> None:
    made = _made_in(rank)
    while made:
        each, for_ranks = made.popitem()
        if for_ranks:
            _owners.pop(each, None)
        elif each.atexit:
            _try(each)
    rank.private(_SHUT_DOWN, lambda: True)


_owners: dict[Any, Rank] = {}
"""The rank that created each finalizer."""
_alone = False
"""Whether each rank runs in a separate process."""


def _calling(real: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def call(self: weakref.finalize[Any, Any], died: object = None) -> object:
        rank = _owners.get(self)
        if rank is None:
            return real(self, died)
        if died is not None:
            return _run_in(rank, self)
        _owners.pop(self)
        extra = rank.extra or {}
        extra.get(_MADE, {}).pop(self, None)
        return None if _SHUT_DOWN in extra else real(self, died)

    return call


def _forget() -> None:
    """Discard the finalizers of ranks, so that none runs after the run."""
    for each in _owners:
        weakref.finalize._registry.pop(each, None)  # type: ignore[attr-defined]
    _owners.clear()
    _codes.clear()
    if _notice in gc.callbacks:
        gc.callbacks.remove(_notice)
    _collecting.clear()


_END = "private: called in the rank that created the finalizer"
PATCHED: Table = (
    ("weakref.finalize", _END, {"__init__": Wrapper(_making), "__call__": Wrapper(_calling)}),
    ("gc", "watched: the rank's finalizers run afterwards", {"collect": _collect}),
    ("builtins", "watched: the simulator records classes with finalizers", {"__build_class__": _real_build}),
)


def install(patches: Patches, *, alone: bool) -> None:
    """Attribute finalized objects to ranks for the duration of a run; `alone`: each rank has its own process."""
    global _alone
    _alone = alone
    finalize: Any = weakref.finalize
    if not finalize._registered_with_atexit:  # a rank would otherwise register it for itself only
        atexit.register(finalize._exitfunc)
        finalize._registered_with_atexit = True
    patches.at_end(_forget)
    patches.install(PATCHED)
