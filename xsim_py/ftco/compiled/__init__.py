"""The formal model of FTCO for thousands of runs: the step model on arrays, compiled by numba.

It does the same as `xsim_py.ftco.steps`, action by action, for rules with the reference's tree traversal; `steps` is
the readable twin. Without numba it runs in CPython, slowly, with equal results.

Three methods make it fast. A node without work sleeps until a message, a failure notice, or the time of its next query.
Sets of nodes are spans of the tree's preorder, so nearly all of them are one or two pairs of numbers (`sets`). Nothing
is allocated: if an array is too small the run ends, and is repeated with a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.errors import ConfigError
from xsim_py.ftco.model import Configuration, Outcome, Plan, plan, run_seed

from . import layout as at
from .build import Model
from .jit import COMPILED
from .layout import State
from .loop import simulate

__all__ = ["COLUMNS", "COMPILED", "run", "run_many", "run_plan", "supports"]

COLUMNS = tuple(Outcome.__dataclass_fields__)
"""Columns of the array that `run_many` returns: the fields of `Outcome`."""

Action = tuple[int, int, str, int, int]
"""An action: step, node, ``send`` or ``take``, kind, and the other node."""


def supports(configuration: Configuration) -> bool:
    """Return True if these rules are compiled."""
    return configuration.rules.traversal == "reference" and configuration.algorithm == "tree"


def _model(configuration: Configuration) -> Model:
    return _model_of(replace(configuration, topmost=None))


@lru_cache(maxsize=4)
def _model_of(configuration: Configuration) -> Model:
    if not supports(configuration):
        raise ConfigError(
            f"rules: traversal={configuration.rules.traversal}, algorithm={configuration.algorithm} is not compiled;"
            " the step model runs it instead"
        )
    return Model(configuration)


def run_plan(configuration: Configuration, drawn: Plan, *, record: list[Action] | None = None) -> Outcome:
    """Do one run with given random draws, and append all actions of nodes to `record`.

    Raise ConfigError for rules that are not compiled, see `supports`.
    """
    state, ended = _simulate(_model(configuration), drawn, record is not None)
    if record is not None:
        rows = state.actions[: state.numbers[at.ACTIONS_USED]].tolist()
        record += [(step, node, "take" if taken else "send", kind, peer) for step, node, taken, kind, peer in rows]
    values: dict[str, Any] = dict(zip(COLUMNS, _measure(state, ended, drawn), strict=True))
    return Outcome(**{**values, "hung": bool(values["hung"])})


def run(configuration: Configuration, seed: int, *, record: list[Action] | None = None) -> Outcome:
    """Do one run with its own seed (see `model.run_seed`), as `run_plan` does."""
    return run_plan(configuration, plan(configuration, seed), record=record)


def run_many(configuration: Configuration, seed: int, runs: Sequence[int]) -> NDArray[np.int64]:
    """Do some runs of an ensemble, given its seed and the numbers of the runs.

    Return an array of int64 of shape (len(runs), len(COLUMNS)): the outcomes, one row per run. Rules as for `run_plan`.
    """
    model = _model(configuration)
    rows = np.empty((len(runs), len(COLUMNS)), np.int64)
    for index, number in enumerate(runs):
        drawn = plan(configuration, run_seed(seed, number))
        rows[index] = _measure(*_simulate(model, drawn, False), drawn)
    return rows


def _simulate(model: Model, drawn: Plan, record: bool) -> tuple[State, bool]:
    while True:
        state = model.start(drawn, record=record)
        ended = simulate(state)
        trouble = int(state.numbers[at.TROUBLE])
        if not trouble:
            return state, ended
        model.enlarge(trouble)


def _measure(state: State, ended: bool, drawn: Plan) -> tuple[int, ...]:
    """Return the fields of `Outcome`, in order."""
    numbers, nodes = state.numbers, state.nodes
    last = int(numbers[at.STEP])
    survivors = nodes[:, at.DEAD_STEP] > last
    data, keepalives, acks = (int(numbers[at.SENT_DATA + kind]) for kind in (at.DATA, at.KEEPALIVE, at.ACK))
    starts = nodes[survivors, at.ENTRY]
    first_start, last_start = int(starts.min()), int(starts.max())
    finishes = nodes[1:, at.FINISH][survivors[1:]]
    finishes = finishes[finishes >= 0]
    first_finish = int(finishes.min()) if len(finishes) else -1
    return (
        last - last_start,
        data + keepalives + acks,
        data,
        keepalives,
        acks,
        last_start - first_start,
        last - first_finish if len(finishes) else 0,
        int(nodes[survivors, at.LONGEST].max()),
        len(nodes) - int(survivors.sum()),
        int(not ended),
        first_start,
        last_start,
        first_finish,
        last,
    )
