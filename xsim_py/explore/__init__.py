"""Exploration of all executions of a program: failures, matches, network jitter and inputs.

`failures`, `wildcards`, `noise` and `inputs` are ``xsim explore`` for Python; `replay` repeats one run with a changed
choice.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xsim_py.explore.deaths import failures
    from xsim_py.explore.input_space import inputs
    from xsim_py.explore.matchings import replay, wildcards
    from xsim_py.explore.repetitions import noise

_FROM = {
    "failures": "deaths",
    "inputs": "input_space",
    "noise": "repetitions",
    "replay": "matchings",
    "wildcards": "matchings",
}

__all__ = ["failures", "inputs", "noise", "replay", "wildcards"]


def __getattr__(name: str) -> object:
    """Import a function on first use: they do not depend on each other."""
    if name in _FROM:
        return getattr(import_module(f"xsim_py.explore.{_FROM[name]}"), name)
    raise AttributeError(f"module 'xsim_py.explore' has no attribute {name!r}")
