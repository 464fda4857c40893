"""Hiding the host thread's `threading.local` values from ranks, as from a new process.

For example, hypothesis records the running test there: a rank that imports the test's module, which has tests, would be
told that these are defined within a test. Objects are searched only when the host has imported something since the last
run: scanning all objects takes as long as a short run.
"""

from __future__ import annotations

import gc
import threading
from functools import partial
from typing import Any
from weakref import ref

from xsim_py.process.ranks.own_modules import from_modules
from xsim_py.process.ranks.patches import Patches

_Local = threading.local


@from_modules
def _locals() -> list[ref[Any]]:
    """Return the host's thread locals, except those with an initialiser, which sets values in each new thread."""
    gc.unfreeze()  # frozen objects (see `memory`) are not listed by the collector
    found = [each for each in gc.get_objects() if issubclass(type(each), _Local)]
    gc.freeze()
    return [ref(each) for each in found if type(each).__init__ is object.__init__]


def hide(patches: Patches) -> None:
    """Make each `threading.local` of the host empty in this thread for the duration of a run."""
    for each in _locals():
        if (local := each()) is not None and vars(local):
            patches.at_end(partial(_restore, vars(local), vars(local).copy()))
            vars(local).clear()


def _restore(names: dict[str, Any], before: dict[str, Any]) -> None:
    names.clear()
    names.update(before)
