"""Which algorithms the collectives of a communicator are to have: what the machine says, or a hint at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from xsim_py.config.algorithms import FTCO, FTCO_OPERATIONS

from .collectives.choose import TUNED

Wanted = Mapping[str, "str | tuple[tuple[int, str], ...]"]
"""For an operation the name of an algorithm, or several, each from a number of ranks on."""

INFO_KEY = "xsim_collectives"
"""The Info key by which a program chooses for all collectives of a communicator; one of `WORDS`, at all members."""

WORDS = (TUNED, FTCO)


class Preference(dict[str, str]):
    """The name of the algorithm that is wanted for an operation; those not named are decided by size.

    Attributes
    ----------
    ftco : bool
        Whether FTCO is to serve any.
    picked : dict
        The algorithms that this has come to, by what they were picked for.
    """

    __slots__ = ("ftco", "picked")

    def __init__(self, wanted: Mapping[str, str]) -> None:
        super().__init__(wanted)
        self.ftco = FTCO in wanted.values()
        self.picked: dict[tuple[str, int, int, bool], Callable[..., Any]] = {}


_NOTHING = Preference({})
_EVERYTHING = Preference(dict.fromkeys(FTCO_OPERATIONS, FTCO))


def uses_ftco(collectives: str | Wanted) -> bool:
    """Return whether a description asks for FTCO in any collective."""
    return FTCO in from_description(collectives).values()


def from_description(collectives: str | Wanted) -> Wanted:
    """Return what ``mpi.collectives`` of a machine's description asks for; nothing is Open MPI's choice."""
    return of_word(collectives) if isinstance(collectives, str) else collectives


def of_word(word: str) -> Mapping[str, str]:
    """Return what one of `WORDS` asks for."""
    return _EVERYTHING if word == FTCO else _NOTHING


def for_communicator(wanted: Wanted, size: int, *, inter: bool) -> Preference:
    """Return what is wanted for a communicator of `size` ranks; FTCO is for two ranks or more, and for one group."""
    if not wanted:
        return _NOTHING
    if wanted is _EVERYTHING and size > 1 and not inter:
        return _EVERYTHING
    return _resolved(tuple(wanted.items()), size, inter)


@lru_cache(maxsize=256)
def _resolved(wanted: tuple[tuple[str, str | tuple[tuple[int, str], ...]], ...], size: int, inter: bool) -> Preference:
    found = {}
    for operation, said in wanted:
        if not isinstance(said, str):
            said = next((name for least, name in reversed(said) if least <= size), TUNED)
        if said != FTCO or (size > 1 and not inter):
            found[operation] = said
    return Preference(found)
