"""`sys.modules` and `sys.meta_path` as a rank sees them: what it changes there, it changes for itself.

Python's import machinery goes on with the real table of modules, in which the running rank's own ones are (`context`),
and finds one finder only, ours: that one asks the finders which the rank has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.own_modules import shadowed

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

_FINDERS = "finders"
"""Under this name a rank keeps its `_Finders`."""
_NOTHING = object()

_real = sys.modules
_sys = vars(sys)
_ours: list[Any] = []


_kinds: dict[Fiber | None, list[bool]] = {}
"""For each fiber (None outside of ranks), of each module that it imports, the outermost first: whether all share it."""


@contextmanager
def importing(fiber: Fiber | None, *, for_all: bool) -> Iterator[None]:
    """Note that a fiber executes a module, for its rank or for all."""
    kinds = _kinds.setdefault(fiber, [])
    kinds.append(for_all)
    try:
        yield
    finally:
        kinds.pop()
        if not kinds:
            _kinds.pop(fiber, None)


def is_for_all() -> bool:
    """Tell whether a shared module that is being imported runs now: what that does, it does for all ranks."""
    kinds = _kinds.get(current.fiber) if _kinds else None
    return bool(kinds) and kinds[-1]  # type: ignore[index]


def is_for_rank() -> bool:
    """Return True if a private module that is being imported runs now."""
    kinds = _kinds.get(current.fiber) if _kinds else None
    return bool(kinds) and not kinds[-1]  # type: ignore[index]


def forget() -> None:
    """Forget all imports that were under way."""
    global _wanted
    _kinds.clear()
    _wanted = False


class _Finders:
    """The finders of a rank that has looked at them, and those that all ranks had then."""

    __slots__ = ("mine", "shared")

    def __init__(self) -> None:
        self.shared = list(_sys["meta_path"])
        self.mine = list(self.shared)


class _Modules(MutableMapping[str, Any]):
    """The table of modules: what a rank puts in or takes out is so for that rank."""

    def __getitem__(self, name: str) -> Any:
        return _real[name]

    def __contains__(self, name: object) -> bool:
        return name in _real

    def __iter__(self) -> Iterator[str]:
        return iter(_real)

    def __len__(self) -> int:
        return len(_real)

    def __repr__(self) -> str:
        return repr(_real)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a module, or the default if there is none of that name."""
        return _real.get(name, default)

    def copy(self) -> dict[str, ModuleType]:
        """Return a copy of the table."""
        return _real.copy()

    def __setitem__(self, name: str, module: Any) -> None:
        rank = _changing(name)
        before = _real.get(name, _NOTHING)
        if rank is not None and module is not before:
            own = rank.own_modules()
            if shadowed.get(name, _NOTHING) is module:
                own.show(name)
            else:
                if name not in own and before is not _NOTHING:
                    shadowed.setdefault(name, before)  # type: ignore[arg-type]
                own.put(name, module)
        _real[name] = module

    def __delitem__(self, name: str) -> None:
        rank = _changing(name)
        before = _real.pop(name)
        if rank is not None:
            own = rank.own_modules()
            if name in own:
                own.drop(name)
            else:
                shadowed.setdefault(name, before)
            if name in shadowed:
                own.hide(name)


_PARTS = ("mpi4py", "mpi4py.rc")
"""The modules that ``import mpi4py`` makes."""
_MPI = "mpi4py.MPI"
_wanted = False  # whether a shared module has imported mpi4py: then all ranks have it


def hide_mpi(rank: Rank) -> None:
    """Take mpi4py out of the modules of a rank that begins: it is there once the rank imports it."""
    if _wanted:
        return
    own = rank.own_modules()
    for name in (*_PARTS, _MPI):
        module = _real.pop(name, None)
        if module is not None:
            shadowed.setdefault(name, module)
        own.hide(name)


def show_mpi(name: str) -> ModuleType | None:
    """Give the running rank a module of mpi4py that it imports; None if it is not one of those that are hidden."""
    global _wanted
    rank = current.installed
    own = None if rank is None else rank.modules
    if own is None or name not in own.gone or name not in shadowed:
        return None
    _wanted = _wanted or is_for_all()
    for each in (*_PARTS, name):
        if each in own.gone:
            own.show(each)
            _real[each] = shadowed[each]
    if not own and not own.gone and rank is not None:
        rank.modules = None
        rank.bare = rank.main is not None and rank.private_state is None
    module = _real[name]
    getattr(module.__spec__, "_initializing", None)  # as Python asks at each import: MPI takes its options then
    return module


def _changing(name: str) -> Rank | None:
    """Return the rank for which a name is to be changed; None if that is for all."""
    fiber = current.here()
    if fiber is None or is_for_all():
        return None
    if name == "__main__":  # has a place of its own, and is kept when another rank takes its turn
        return None
    return fiber.rank


_table = _Modules()


def modules(reader: FrameType) -> Any:
    """Return what ``sys.modules`` is for the function that reads it."""
    # Python's import reads and writes the real table, in which the running rank's modules are: written to by C as well.
    return _real if current.fiber is None or _is_machinery(reader) else _table


def meta_path(reader: FrameType) -> list[Any]:
    """Return what ``sys.meta_path`` is for the function that reads it."""
    fiber = current.here()
    shared: list[Any] = _sys["meta_path"]
    if fiber is None:
        return shared
    if _is_machinery(reader):
        return _ours
    return shared if is_for_all() else _finders(fiber.rank).mine


def set_meta_path(rank: Rank, value: Any) -> None:
    """Let a rank have this for ``sys.meta_path``."""
    _finders(rank).mine = value


def finders(rank: Rank) -> tuple[list[Any], bool]:
    """Return the finders that a rank's imports ask, and whether they may be others than those of all ranks.

    A shared package that a rank imports may add one (as ``six`` does): that is there for all ranks.
    """
    shared: list[Any] = _sys["meta_path"]
    # Not `private`, which would make a copy for every rank that imports anything.
    own: _Finders | None = rank.extra.get(_FINDERS) if rank.extra is not None else None
    if own is None:
        return shared, False
    return [*own.mine, *(each for each in shared if each not in own.shared)], True


def _finders(rank: Rank) -> _Finders:
    own: _Finders = rank.private(_FINDERS, _Finders)
    return own


def _is_machinery(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")


def use(finder: Any) -> None:
    """Let imports of ranks ask this finder, and no other."""
    _ours[:] = [finder]
