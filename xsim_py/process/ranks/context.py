"""The context of a rank in the interpreter: its private ``__main__``, ``sys.argv``, ``sys.path`` and modules.

Real processes share nothing. Here all ranks share one interpreter, so the state of a process is swapped when the
simulator switches ranks: one dictionary store, and two more per private module of the program. State that few
programs change (`private_state`) is swapped only for the ranks that have changed it. The two lists are not swapped but
looked up, by `private_sys.PrivateSys`.

Ranks of one program usually have modules of the same names, which then replace each other directly. Otherwise a
program of seventy modules, such as mpi4py's own tests, would spend a tenth of its time removing them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from . import current, fiber, private_state
from .dead_objects import keep
from .fiber import free_abandoned
from .own_modules import shadowed

if TYPE_CHECKING:
    from .patches import Patches
    from .rank import Rank

_outside: ModuleType | None = None
_modules = sys.modules  # hot path: while a run lasts, attributes of `sys` are slow


def install(patches: Patches) -> None:
    """Swap the state that ranks own at each switch of ranks, for the duration of a run."""
    fiber.at_switch(swap)
    patches.at_end(lambda: fiber.at_switch(None))


def swap(rank: Rank) -> None:
    """Install the modules and the state of `rank` in the interpreter."""
    global _outside
    previous = current.installed
    current.installed = rank
    if previous is None:
        _outside = _modules["__main__"]
    else:
        if previous.modules is not None:
            # Equal histories mean equal names: the modules of `rank` then overwrite those of `previous`, and none has
            # to be removed first.
            if rank.modules is None or rank.modules.history != previous.modules.history or _has_other_main():
                _unload(previous)
            elif previous.main is not None:
                # A program may have replaced its ``sys.modules["__main__"]`` while it ran.
                previous.main = _modules.get("__main__")
        if previous.private_state is not None:
            private_state.restore_shared(previous, rank.private_state)
    main = rank.main
    if main is not None:
        _modules["__main__"] = main
    if rank.modules is not None:
        _modules.update(rank.modules)
        for name in rank.modules.gone:
            _modules.pop(name, None)
    if rank.private_state is not None:
        private_state.put(rank.private_state)


_OTHER_MAINS = ("__worker__", "__mp_main__")
"""The names under which mpi4py.futures and multiprocessing load a program in a worker, in addition to ``__main__``."""


def _has_other_main() -> bool:
    return _OTHER_MAINS[0] in _modules or _OTHER_MAINS[1] in _modules


def _unload(rank: Rank) -> None:
    """Remove a rank's modules, keeping its replacements for its program's module."""
    assert rank.modules is not None
    if rank.main is not None:
        rank.main = _modules.get("__main__")
    for name in _OTHER_MAINS:
        if name in _modules:
            rank.modules.put(name, _modules[name])
    for name in rank.modules:
        _modules.pop(name, None)
    if shadowed:
        _modules.update({name: shadowed[name] for name in (*rank.modules, *rank.modules.gone) if name in shadowed})


def release(rank: Rank, *, dead: bool) -> None:
    """Remove the state of a rank that will not run again.

    The objects of a killed rank are kept until `dead_objects.free`: their ``__del__`` is code of the program.
    """
    if current.installed is rank:
        if rank.modules is not None:
            _unload(rank)
        if rank.private_state is not None:
            private_state.restore_shared(rank)
    if rank.private_state is not None:
        private_state.drop(rank.private_state)
    if dead:
        keep((rank.main, rank.modules, rank.private_state, rank.extra))
    rank.main = rank.modules = rank.argv = rank.path = rank.private_state = None
    rank.bare = False


def release_all(ranks: Iterable[Rank]) -> None:
    """Remove the state of all unfinished ranks; they will not run again."""
    for rank in ranks:
        if rank.exit_status is None:
            release(rank, dead=True)


def leave() -> None:
    """Restore the interpreter's state outside of ranks, until the next `swap`."""
    rank, current.installed = current.installed, None
    if rank is None:
        return
    if rank.modules is not None:
        _unload(rank)
    elif rank.main is not None:
        rank.main = _modules.get("__main__")
    if rank.private_state is not None:
        private_state.restore_shared(rank)
    assert _outside is not None
    _modules["__main__"] = _outside


def forget() -> None:
    """Restore the state before the first `swap` and free the remains of unfinished ranks."""
    global _outside
    if current.installed is not None and current.installed.modules is not None:
        _unload(current.installed)
    private_state.forget()
    if _outside is not None:
        _modules["__main__"] = _outside
    current.installed = _outside = None
    shadowed.clear()
    free_abandoned()
