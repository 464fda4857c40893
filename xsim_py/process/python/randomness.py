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
from xsim_py.process.ranks.patches import Patches
from xsim_py.rng import stream

__all__ = ["install"]

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


def install(patches: Patches, seed: int) -> None:
    """Replace the global generators for the duration of a run."""
    real_class = random.Random
    real_seed = real_class.seed

    def entropy(size: int) -> bytes:
        fiber = current.here()
        if fiber is None:
            return real_urandom(size)
        rank = fiber.rank
        source: random.Random = rank.private("entropy", lambda: stream(seed, "entropy", rank.number))
        return source.randbytes(size)

    def getrandom(size: int, flags: int = 0) -> bytes:
        return real_getrandom(size, flags) if current.here() is None else entropy(size)  # type: ignore[misc]

    def seed_method(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None and current.here() is not None:
            a = int.from_bytes(entropy(16), "little")
        real_seed(self, a, version)

    def own_generator() -> random.Random:
        return real_class(int.from_bytes(entropy(16), "little"))

    real_urandom, real_getrandom = os.urandom, getattr(os, "getrandom", None)
    patches.set(random, "_urandom", entropy)
    patches.set(os, "urandom", entropy)
    if real_getrandom is not None:
        patches.set(os, "getrandom", getrandom)
    patches.set(real_class, "seed", seed_method)
    for name in _METHODS:
        if hasattr(random, name):
            patches.set(random, name, _dispatch(getattr(random, name), name, "random", own_generator))
    _install_numpy(patches, entropy)


def _install_numpy(patches: Patches, entropy: Callable[[int], bytes]) -> None:
    import numpy.random as np_random

    def own_generator() -> np_random.RandomState:
        return np_random.RandomState(int.from_bytes(entropy(4), "little"))

    legacy = np_random.mtrand._rand
    for name in dir(legacy):
        real = np_random.__dict__.get(name)
        if not name.startswith("_") and getattr(real, "__self__", None) is legacy:
            patches.set(np_random, name, _dispatch(real, name, "numpy.random", own_generator))
    if hasattr(np_random, "seed"):
        patches.set(np_random, "seed", _dispatch(np_random.seed, "seed", "numpy.random", own_generator))


def _dispatch(real: Any, name: str, key: str, make: Callable[[], Any]) -> Callable[..., Any]:
    """Make a function that calls `name` of the running rank's own generator, or the real one outside of ranks."""

    def function(*args: Any, **kwargs: Any) -> Any:
        fiber = current.here()
        if fiber is None:
            return real(*args, **kwargs)
        return getattr(fiber.rank.private(key, make), name)(*args, **kwargs)

    function.__name__ = name
    function.__doc__ = real.__doc__
    return function
