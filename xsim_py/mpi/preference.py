"""Which algorithms the collectives of a communicator are to have: what the machine says, or a hint at it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from xsim_py.config.algorithms import FTCO, FTCO_OPERATIONS

from .collectives.choose import TUNED

__all__ = ["INFO_KEY", "WORDS", "Wanted", "for_communicator", "from_description", "of_word"]

Wanted = Mapping[str, "str | tuple[tuple[int, str], ...]"]
"""For an operation the name of an algorithm, or several, each from a number of ranks on."""

INFO_KEY = "xsim_collectives"
"""The Info key by which a program chooses for all collectives of a communicator; one of `WORDS`, at all members."""

WORDS = (TUNED, FTCO)

_NOTHING: Mapping[str, str] = {}
_EVERYTHING: Mapping[str, str] = dict.fromkeys(FTCO_OPERATIONS, FTCO)


def from_description(collectives: str | Wanted) -> Wanted:
    """What ``mpi.collectives`` of a machine's description asks for; nothing is Open MPI's choice."""
    return of_word(collectives) if isinstance(collectives, str) else collectives


def of_word(word: str) -> Mapping[str, str]:
    """What one of `WORDS` asks for."""
    return _EVERYTHING if word == FTCO else _NOTHING


def for_communicator(wanted: Wanted, size: int, *, inter: bool) -> Mapping[str, str]:
    """The same for a communicator of `size` ranks; FTCO is for two ranks or more, and for one group."""
    if not wanted or (wanted is _EVERYTHING and size > 1 and not inter):
        return wanted  # type: ignore[return-value]
    return _resolved(tuple(wanted.items()), size, inter)


@lru_cache(maxsize=256)
def _resolved(
    wanted: tuple[tuple[str, str | tuple[tuple[int, str], ...]], ...], size: int, inter: bool
) -> dict[str, str]:
    found = {}
    for operation, said in wanted:
        if not isinstance(said, str):
            said = next((name for least, name in reversed(said) if least <= size), TUNED)
        if said != FTCO or (size > 1 and not inter):
            found[operation] = said
    return found
