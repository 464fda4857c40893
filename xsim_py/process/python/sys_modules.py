"""`sys.modules` and `sys.meta_path` in a rank: its changes apply to that rank only.

Python's import machinery uses the real module table, which contains the running rank's modules (`context`), and finds
a single finder, ours, which asks the rank's finders.
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
"""The key under which a rank keeps its `_Finders`."""
_NOTHING = object()

_real = sys.modules
_sys = vars(sys)
_ours: list[Any] = []


_kinds: dict[Fiber | None, list[bool]] = {}
"""For each fiber (None outside of ranks), whether each module that it is importing is shared, outermost first."""


@contextmanager
def importing(fiber: Fiber | None, *, for_all: bool) -> Iterator[None]:
    """Record that a fiber executes a module, for its rank or for all."""
    kinds = _kinds.setdefault(fiber, [])
    kinds.append(for_all)
    try:
        yield
    finally:
        kinds.pop()
        if not kinds:
            _kinds.pop(fiber, None)


def is_for_all() -> bool:
    """Return True if a shared module is being imported now: its effects then apply to all ranks."""
    kinds = _kinds.get(current.fiber) if _kinds else None
    return bool(kinds) and kinds[-1]  # type: ignore[index]


def is_for_rank() -> bool:
    """Return True if a private module is being imported now."""
    kinds = _kinds.get(current.fiber) if _kinds else None
    return bool(kinds) and not kinds[-1]  # type: ignore[index]


def forget() -> None:
    """Forget all unfinished imports."""
    global _wanted
    _kinds.clear()
    _wanted = False


class _Finders:
    """The finders of a rank that has accessed them, and those shared at that time."""

    __slots__ = ("mine", "shared")

    def __init__(self) -> None:
        self.shared = list(_sys["meta_path"])
        self.mine = list(self.shared)


class _Modules(MutableMapping[str, Any]):
    """The module table: a rank's insertions and deletions apply to that rank."""

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

    def get(self, name: str, default: object = None) -> object:
        """Return a module, or the default if no module has that name."""
        return _real.get(name, default)

    def copy(self) -> dict[str, ModuleType]:
        """Return a copy of the table."""
        return _real.copy()

    def __setitem__(self, name: str, module: ModuleType) -> None:
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
"""The modules created by ``import mpi4py``."""
_MPI = "mpi4py.MPI"
_wanted = False  # whether a shared module has imported mpi4py: then all ranks have it


def hide_mpi(rank: Rank) -> None:
    """Remove mpi4py from the modules of a starting rank, until the rank imports it."""
    if _wanted:
        return
    own = rank.own_modules()
    for name in (*_PARTS, _MPI):
        module = _real.pop(name, None)
        if module is not None:
            shadowed.setdefault(name, module)
        own.hide(name)


def show_mpi(name: str) -> ModuleType | None:
    """Return a hidden module of mpi4py that the running rank imports; None if it is not hidden."""
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
    getattr(module.__spec__, "_initializing", None)  # as Python does at each import: MPI reads its options then
    return module


def _changing(name: str) -> Rank | None:
    """Return the rank for which a name is changed; None if the change applies to all."""
    fiber = current.here()
    if fiber is None or is_for_all():
        return None
    if name == "__main__":  # stored separately, and saved at each switch of ranks
        return None
    return fiber.rank


_table = _Modules()


def modules(reader: FrameType) -> object:
    """Return ``sys.modules`` for the function that reads it."""
    # Python's import uses the real table, with the running rank's modules: C code writes to it as well.
    return _real if current.fiber is None or _is_machinery(reader) else _table


def meta_path(reader: FrameType) -> list[Any]:
    """Return ``sys.meta_path`` for the function that reads it."""
    fiber = current.here()
    shared: list[Any] = _sys["meta_path"]
    if fiber is None:
        return shared
    if _is_machinery(reader):
        return _ours
    return shared if is_for_all() else _finders(fiber.rank).mine


def set_meta_path(rank: Rank, value: list[Any]) -> None:
    """Set a rank's ``sys.meta_path``."""
    _finders(rank).mine = value


def finders(rank: Rank) -> tuple[list[Any], bool]:
    """Return the finders for a rank's imports, and whether they may differ from the shared ones.

    A shared package that a rank imports may add a finder (as ``six`` does), which then applies to all ranks.
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


def use(finder: object) -> None:
    """Make imports of ranks ask only this finder."""
    _ours[:] = [finder]
