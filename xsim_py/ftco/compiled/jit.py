"""The only import of numba; without it, the functions run slowly, with equal results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _find_njit() -> Any:
    try:
        from numba import njit
    except ImportError:
        return None
    return njit


_njit = _find_njit()

COMPILED = _njit is not None
"""Whether numba is available."""


def _sources() -> int:
    digest = hashlib.blake2b(digest_size=7)
    for path in [*sorted(Path(__file__).parent.glob("*.py")), Path(__file__).parents[1] / "model.py"]:
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest(), "little")


SOURCES = _sources()
"""Sources of all code compiled together; numba would check only the file of a function."""


def jit(function: _Function) -> _Function:
    """Compile a function as a part of its callers, if numba is available.

    These functions neither create nor keep arrays, so reference counts are omitted, which take 15 times as long.
    Nor are there wrappers for calls from Python and C, which take a third of the time to compile.
    """
    if _njit is None:
        return function
    compiled: _Function = _njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return compiled


def jit_cached(function: _Function) -> _Function:
    """Compile a function that Python calls, on its first call, and keep the result on disk.

    It must use `SOURCES` as a variable of an enclosing function, which changes the function's identity with the
    sources.
    """
    if _njit is None:
        return function
    try:
        compiled: _Function = _njit(_nrt=False, cache=True)(function)
    except RuntimeError:  # there is no directory for it
        compiled = _njit(_nrt=False)(function)
    return compiled


def _number(value: int) -> np.uint64:
    return np.uint64(value)


word: Callable[[Any], Any] = int if _njit is None else jit(_number)
"""An integer as 64 bits for the functions of `xsim_py.ftco.model`; without numba, a Python integer."""
