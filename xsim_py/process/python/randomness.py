"""`random` and `numpy.random` as a virtual rank sees them: global generators of its own, and no entropy from outside.

Real processes that do not seed start from the operating system's entropy. Here that comes from the run's seed and the
rank's number, so that a run can be repeated.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Around, Patches, Table, in_ranks
from xsim_py.rng import stream

_METHODS = [
    "betavariate",
    "binomialvariate",
    "choice",
    "choices",
    "expovariate",
    "gammavariate",
    "gauss",
    "getrandbits",
    "getstate",
    "lognormvariate",
    "normalvariate",
    "paretovariate",
    "randbytes",
    "randint",
    "random",
    "randrange",
    "sample",
    "seed",
    "setstate",
    "shuffle",
    "triangular",
    "uniform",
    "vonmisesvariate",
    "weibullvariate",
]


_seed = 0


def _entropy(size: int, flags: int = 0) -> bytes:
    """Return what a rank finds in the place of the operating system's entropy."""
    rank = current.rank()
    source: random.Random = rank.private("entropy", lambda: stream(_seed, "entropy", rank.number))
    return source.randbytes(size)


def _seeding(real: Callable[..., None]) -> Callable[..., None]:
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None and current.here() is not None:
            a = int.from_bytes(_entropy(16), "little")
        real(self, a, version)

    return seed


def _generator() -> random.Random:
    return random.Random(int.from_bytes(_entropy(16), "little"))


def _dispatch(real: Any, name: str, key: str, make: Callable[[], Any]) -> Callable[..., Any]:
    """Make a function that calls `name` of the running rank's own generator, or the real one outside of ranks."""

    def function(*args: Any, **kwargs: Any) -> Any:
        fiber = current.here()
        if fiber is None:
            return real(*args, **kwargs)
        return getattr(fiber.rank.private(key, make), name)(*args, **kwargs)

    function.__name__ = name
    function.__module__ = key
    function.__doc__ = real.__doc__
    return function


_SEEDED = "virtual: follows from the seed of the run"
PATCHED: Table = (
    ("os", _SEEDED, {"urandom": in_ranks(_entropy), "getrandom": in_ranks(_entropy)}),
    ("random", _SEEDED, {"_urandom": Around(lambda _: os.urandom)}),
    ("random.Random", _SEEDED, {"seed": Around(_seeding)}),
    ("random", "private: a generator", {name: Around(_dispatch, name, "random", _generator) for name in _METHODS}),
)


def _of_numpy() -> Table:
    """Return the functions of ``numpy.random`` that use its global generator."""
    import numpy.random as np_random

    legacy = np_random.mtrand._rand
    own = {name for name, real in vars(np_random).items() if getattr(real, "__self__", None) is legacy}

    def generator() -> np_random.RandomState:
        return np_random.RandomState(int.from_bytes(_entropy(4), "little"))

    names = (name for name in dir(legacy) if name == "seed" or (name in own and not name.startswith("_")))
    values = {name: Around(_dispatch, name, "numpy.random", generator) for name in names}
    return (("numpy.random", "private: a generator", values),)


def install(patches: Patches, seed: int) -> None:
    """Replace the global generators for the duration of a run."""
    global _seed
    _seed = seed
    patches.install(PATCHED, _of_numpy())
