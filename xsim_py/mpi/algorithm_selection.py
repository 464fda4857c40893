"""The selection of algorithms for the collectives of a communicator: by the machine, or by a hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from xsim_py.config.algorithms import FTCO, FTCO_OPERATIONS

from .collectives.choose import TUNED

Selection = Mapping[str, "str | tuple[tuple[int, str], ...]"]
"""The name of an operation's algorithm, or several, each from a number of ranks on."""

INFO_KEY = "xsim_collectives"
"""The Info key that selects for all collectives of a communicator; one of `WORDS`, equal on all members."""

WORDS = (TUNED, FTCO)


class Preference(dict[str, str]):
    """The names of the selected algorithms, by operation; others are chosen by size."""

    __slots__ = ("ftco", "picked")

    def __init__(self, selection: Mapping[str, str]) -> None:
        super().__init__(selection)
        self.ftco = FTCO in selection.values()
        # A cache of the resulting algorithms, by the arguments of the choice.
        self.picked: dict[tuple[str, int, int, bool], Callable[..., Any]] = {}


_NOTHING = Preference({})
_EVERYTHING = Preference(dict.fromkeys(FTCO_OPERATIONS, FTCO))


def uses_ftco(collectives: str | Selection) -> bool:
    """Return True if a description selects FTCO for any collective."""
    return FTCO in from_description(collectives).values()


def from_description(collectives: str | Selection) -> Selection:
    """Return the selection in ``mpi.collectives`` of a machine's description.

    An empty selection is Open MPI's choice.
    """
    return selection_of_word(collectives) if isinstance(collectives, str) else collectives


def selection_of_word(word: str) -> Mapping[str, str]:
    """Return the selection for one of `WORDS`."""
    return _EVERYTHING if word == FTCO else _NOTHING


def for_communicator(selection: Selection, size: int, *, inter: bool) -> Preference:
    """Return the selection for a communicator of `size` ranks.

    FTCO needs two ranks or more, in one group.
    """
    if not selection:
        return _NOTHING
    if selection is _EVERYTHING and size > 1 and not inter:
        return _EVERYTHING
    return _resolved(tuple(selection.items()), size, inter)


@lru_cache(maxsize=256)
def _resolved(
    selection: tuple[tuple[str, str | tuple[tuple[int, str], ...]], ...], size: int, inter: bool
) -> Preference:
    found = {}
    for operation, choice in selection:
        if not isinstance(choice, str):
            choice = next((name for least, name in reversed(choice) if least <= size), TUNED)
        if choice != FTCO or (size > 1 and not inter):
            found[operation] = choice
    return Preference(found)
