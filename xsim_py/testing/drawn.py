"""Examples that hypothesis draws: the same ones on all ranks of a test, and each rank is in the middle of its own."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

from xsim_py.process.ranks import current, private_state

_NAME = "hypothesis.control"


def own_example() -> None:
    """Let hypothesis keep for the running rank alone which example it is at: it keeps one for each thread."""
    control: Any = sys.modules.get(_NAME)
    if control is not None:
        # Garbage is not looked for among what was there before the run, and its referrers are not found there.
        warnings.filterwarnings("ignore", "It looks like `register_random`")
        context = control._current_build_context
        setting = private_state.Setting(lambda: context.value, partial(setattr, context, "value"))
        private_state.touch(current.rank(), f"{_NAME}.context", setting)


def draw_alike(function: Any, seed: int) -> None:
    """Let a test of the running rank draw what it does on the other ranks, unless that has been said otherwise."""
    function = getattr(function, "__func__", function)
    if not getattr(function, "is_hypothesis_test", False):
        return
    own_example()
    from hypothesis import core
    from hypothesis import seed as seeded

    settings = function._hypothesis_internal_use_settings
    if function._hypothesis_internal_use_seed is None and not settings.derandomize and core.global_force_seed is None:
        seeded(seed)(function)
