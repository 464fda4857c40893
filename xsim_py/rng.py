"""Named streams of random numbers, independent of other draws and their order.

A single shared generator would give each rank numbers that depend on the order of events, and so on the number of
shards. Here every consumer names its stream, ``stream(seed, "failure", "rank", 17)``, and gets the same numbers in
every run. The name is hashed by BLAKE2b, because Python's own ``hash`` changes with PYTHONHASHSEED.
"""

from __future__ import annotations

import hashlib
import random


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a 128-bit seed for the stream of that name, for any generator, such as NumPy's.

    `names` are the path of the stream. Text and numbers are distinct, and so are ``("a", "b")`` and ``("ab",)``.
    """
    digest = hashlib.blake2b(digest_size=16, person=b"xsim_py.rng")
    for part in (seed, *names):
        text = f"{type(part).__name__}:{part}".encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return int.from_bytes(digest.digest(), "little")


def stream(seed: int, *names: str | int) -> random.Random:
    """Return a new generator at the beginning of the stream of that name (see `derive_seed`)."""
    return random.Random(derive_seed(seed, *names))
