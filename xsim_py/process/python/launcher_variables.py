"""The launcher's environment variables, by which programs detect that they run under MPI.

One environment serves all ranks that do not change theirs; its values depend on the rank that reads it. A rank that
changes a variable gets its own environment (`private_state`), initialised from this one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, Wrapper

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank


class _Environment(MutableMapping[bytes, bytes]):
    """The simulator's environment, in which each rank sees its launcher's variables instead of real ones."""

    def __init__(
        self,
        real: MutableMapping[bytes, bytes],  # the simulator's
        names: Collection[bytes],  # the variables that a launcher sets
        values: Callable[[Rank], dict[bytes, bytes]],  # returns the values for a rank, by these names
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
_ROWS = {"_data": Wrapper(lambda _: _seen)}
PATCHED: Table = tuple(
    (f"os.{name}", "private: the environment, with a launcher's variables", _ROWS) for name in ("environ", "environb")
)


def install(patches: Patches, names: Collection[str], values: Callable[[Rank], dict[str, str]]) -> None:
    """Add ``values(rank)`` to each rank's environment for the duration of a run; `names` lists all names."""
    global _seen

    def encoded(rank: Rank) -> dict[bytes, bytes]:
        return {os.fsencode(name): os.fsencode(value) for name, value in values(rank).items()}

    environ: Any = os.environ
    _seen = _Environment(environ._data, frozenset(map(os.fsencode, names)), encoded)
    patches.install(PATCHED)
