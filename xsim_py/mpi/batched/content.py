"""A recipe: which bytes each message, fold and result is made of, as a program over one long array of bytes.

All bytes of a call lie in a row: first what the ranks contribute, one after the other, and then what is made of that:
folds, and messages that are joined from pieces. Things of equal length that depend on nothing of each other are made
together: a `Join` gathers the pieces of many of them, a `Combine` folds many pairs. Ropes that are equal are one thing,
however many ranks have them: so a broadcast has one payload, and only one check sum is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.op import fold_rows

from .hashing import ragged_checks, rows
from .schedule import Numbers


class Join(NamedTuple):
    """Some things, each joined from pieces: one array of places for each piece, and where the results go."""

    places: list[Numbers]
    lengths: list[int]
    start: int
    number: int


class Combine(NamedTuple):
    """Some folds of things of one length: where the operands are, and where the results go."""

    left: Numbers
    right: Numbers
    length: int
    start: int


class ContentPlan:
    """The plan by which all bytes of a call are made, joined and folded in one array.

    Parameters
    ----------
    total_bytes : int
        What all ranks contribute together, and all that is made.
    steps : list of Join or Combine
        In order.
    places, lengths : (payloads,) array
        Of each different payload: where it is, and how long.
    results : list
        For each rank a (place, length), a tuple of these, or None.
    """

    def __init__(
        self,
        total_bytes: int,
        steps: list[Join | Combine],
        places: Numbers,
        lengths: Numbers,
        results: list[Any],
    ) -> None:
        self.total_bytes = total_bytes
        self.steps = steps
        self.places = places
        self.lengths = lengths
        self.results = results

    def make(self, contributions: Sequence[bytes], fold: Any) -> NDArray[np.uint8]:
        """Return all bytes, of what each rank contributes; `fold` is the reduction operation, if there is one."""
        memory = np.empty(self.total_bytes, np.uint8)
        given = b"".join(contributions)
        memory[: len(given)] = np.frombuffer(given, np.uint8)
        for step in self.steps:
            if isinstance(step, Join):
                whole = sum(step.lengths)
                made = memory[step.start : step.start + step.number * whole].reshape(step.number, whole)
                at = 0
                for places, length in zip(step.places, step.lengths, strict=True):
                    made[:, at : at + length] = rows(memory, places, length)
                    at += length
            else:
                left, right = (rows(memory, places, step.length) for places in (step.left, step.right))
                folded = fold_rows(fold, left, right)
                memory[step.start : step.start + folded.size] = folded.reshape(-1)
        return memory

    def checks(self, memory: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """Return the check sum of each payload."""
        return ragged_checks(memory, self.places, self.lengths)

    def taken(self, memory: NDArray[np.uint8]) -> list[Any]:
        """Return what each rank has at the end; equal results are one object."""
        view = memoryview(memory)  # type: ignore[arg-type]
        made: dict[Any, Any] = {}
        for result in self.results:
            if result not in made:
                made[result] = _cut_out(view, result)
        return [made[result] for result in self.results]

    def payload(self, memory: NDArray[np.uint8], number: int) -> bytes:
        """Return the bytes of one payload."""
        start = int(self.places[number])
        return memory[start : start + int(self.lengths[number])].tobytes()


def _cut_out(view: memoryview, result: Any) -> Any:
    if result is None:
        return None
    if isinstance(result, list | tuple) and (not result or isinstance(result[0], tuple)):
        return [bytes(view[start : start + length]) for start, length in result]
    start, length = result
    return bytes(view[start : start + length])
