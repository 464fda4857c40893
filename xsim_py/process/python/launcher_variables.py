"""The variables of a launcher in the environment of each process, by which programs see that they run under MPI.

One environment is enough for ranks that change nothing in theirs: this one looks at who asks. A rank that does change
something gets an environment of its own (`private_state`), with what it has seen in this one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Around, Patches, Table

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank


class _Environment(MutableMapping[bytes, bytes]):
    """The simulator's environment, and in a rank what its launcher has put there, in place of what a real one has.

    Parameters
    ----------
    real : mapping
        The simulator's.
    names : collection of bytes
        What a launcher sets.
    values : callable
        Returns the values for a rank, by these names.
    """

    def __init__(
        self,
        real: MutableMapping[bytes, bytes],
        names: Collection[bytes],
        values: Callable[[Rank], dict[bytes, bytes]],
    ) -> None:
        self._real = real
        self._names = names
        self._values = values

    def _launched(self) -> dict[bytes, bytes]:
        fiber = current.here()
        return {} if fiber is None else self._values(fiber.rank)

    def __getitem__(self, name: bytes) -> bytes:
        found = self._launched().get(name) if name in self._names else None
        return self._real[name] if found is None else found

    def __setitem__(self, name: bytes, value: bytes) -> None:
        self._real[name] = value

    def __delitem__(self, name: bytes) -> None:
        del self._real[name]

    def __iter__(self) -> Iterator[bytes]:
        return iter({**self._real, **self._launched()})

    def __len__(self) -> int:
        return len({**self._real, **self._launched()})


_seen: _Environment
_ROWS = {"_data": Around(lambda _: _seen)}
PATCHED: Table = tuple((f"os.{name}", "private: with launcher variables", _ROWS) for name in ("environ", "environb"))


def install(patches: Patches, names: Collection[str], values: Callable[[Rank], dict[str, str]]) -> None:
    """Let each rank find ``values(rank)`` in its environment for the duration of a run; they have these names."""
    global _seen

    def encoded(rank: Rank) -> dict[bytes, bytes]:
        return {os.fsencode(name): os.fsencode(value) for name, value in values(rank).items()}

    environ: Any = os.environ
    _seen = _Environment(environ._data, frozenset(map(os.fsencode, names)), encoded)
    patches.install(PATCHED)
