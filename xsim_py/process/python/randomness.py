"""`random` and `numpy.random` in a rank: private global generators, and no entropy from outside.

Real processes that do not seed start from the operating system's entropy. Here entropy derives from the run's seed and
the rank's number, so that a run is reproducible. A shared module that draws during its import uses streams of that
module: the rank's later draws do not depend on which rank has imported it.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, Wrapper, in_ranks
from xsim_py.rng import derive_seed, stream

from .sys_modules import is_for_all

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

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

_of_modules: dict[tuple[str, str], Any] = {}
"""The generators of shared modules that have drawn during their import, by name and kind."""


def _of_module(kind: str, make: Callable[[int], Any], size: int) -> Any:
    """Return the generator of the shared module being imported, with a seed of `size` bytes."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    if (name, kind) not in _of_modules:
        _of_modules[name, kind] = make(derive_seed(_seed, "import", name, kind) % 256**size)
    return _of_modules[name, kind]


def _entropy(real: Callable[..., bytes]) -> Callable[..., bytes]:
    """Replace a function that returns the operating system's entropy."""

    def entropy(size: int, *flags: int) -> bytes:
        if is_for_all():
            source: random.Random = _of_module("entropy", random.Random, 16)
            return source.randbytes(size)
        fiber = current.here()
        return real(size, *flags) if fiber is None else _source(fiber.rank).randbytes(size)

    return entropy


def _source(rank: Rank) -> random.Random:
    """Return a rank's source of entropy."""
    source: random.Random = rank.private("entropy", lambda: stream(_seed, "entropy", rank.number))
    return source


def _seeding(real: Callable[..., None]) -> Callable[..., None]:
    def seed(self: random.Random, a: object = None, version: int = 2) -> None:
        if a is None and (current.here() is not None or is_for_all()):
            a = int.from_bytes(os.urandom(16), "little")
        real(self, a, version)

    return seed


def _generator(size: int, kind: Callable[[int], Any]) -> object:
    """Return a rank's own generator of a kind, seeded with `size` bytes."""
    return kind(int.from_bytes(_source(current.rank()).randbytes(size), "little"))


def _dispatch(
    real: Callable[..., object], name: str, key: str, size: int, kind: Callable[[int], Any]
) -> Callable[..., Any]:
    """Return a function that calls `name` of the running rank's generator, or the real one outside of ranks.

    The generator is a `kind`, seeded with `size` bytes.
    """
    make = partial(_generator, size, kind)

    def function(*args: object, **kwargs: object) -> object:
        if is_for_all():
            return getattr(_of_module(key, kind, size), name)(*args, **kwargs)
        fiber = current.here()
        if fiber is None:
            return real(*args, **kwargs)
        return getattr(fiber.rank.private(key, make), name)(*args, **kwargs)

    function.__name__ = name
    function.__module__ = key
    function.__doc__ = real.__doc__
    return function


def _names() -> object:
    """Return a rank's own names for temporary files; a shared generator would carry over to other ranks and runs."""
    make: Any = tempfile._RandomNameSequence  # type: ignore[attr-defined]
    return make() if is_for_all() else current.rank().private("temporary names", make)


def _looked_for(real: Callable[[], str]) -> Callable[[], str]:
    """Search the directory of temporary files as the simulator does: once, for all ranks and all later runs."""

    def found() -> str:
        with current.outside():
            return real()

    return found


_SEEDED = "virtual: follows from the seed of the run"
PATCHED: Table = (
    ("os", _SEEDED, {"urandom": Wrapper(_entropy), "getrandom": Wrapper(_entropy)}),
    ("random", _SEEDED, {"_urandom": Wrapper(lambda _: os.urandom)}),
    ("random.Random", _SEEDED, {"seed": Wrapper(_seeding)}),
    ("tempfile", _SEEDED, {"_get_candidate_names": in_ranks(_names)}),
    ("tempfile", "real: the same directory for all ranks", {"_get_default_tempdir": Wrapper(_looked_for)}),
    (
        "random",
        "private: one generator per rank",
        {name: Wrapper(_dispatch, name, "random", 16, random.Random) for name in _METHODS},
    ),
)


def _of_numpy() -> Table:
    """Return the functions of ``numpy.random`` that use its global generator."""
    import numpy.random as np_random

    legacy = np_random.mtrand._rand
    own = {name for name, real in vars(np_random).items() if getattr(real, "__self__", None) is legacy}

    names = (name for name in dir(legacy) if name == "seed" or (name in own and not name.startswith("_")))
    values = {name: Wrapper(_dispatch, name, "numpy.random", 4, np_random.RandomState) for name in names}
    return (("numpy.random", "private: one generator per rank", values),)


def install(patches: Patches, seed: int) -> None:
    """Replace the global generators for the duration of a run."""
    global _seed
    _seed = seed
    patches.install(PATCHED, _of_numpy())
    patches.at_end(_of_modules.clear)
