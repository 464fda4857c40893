"""State that pytest keeps once per process, made private to each rank that runs pytest."""

from __future__ import annotations

from typing import Any

from _pytest.assertion import util
from _pytest.debugging import pytestPDB
from _pytest.mark import MARK_GEN

from xsim_py.process.programs import shared_state
from xsim_py.process.ranks import current, private_state

_STATE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (util, ("_reprcompare", "_assertion_pass", "_config")),
    (pytestPDB, ("_pluginmanager", "_config", "_saved", "_recursive_debug", "_wrapped_pdb_cls")),
    (MARK_GEN, ("_config", "_markers")),
)
_EXISTING = [(owner, name) for owner, names in _STATE for name in names if hasattr(owner, name)]
_NOT_THE_PROGRAM = ("_pytest", "_hypothesis_globals")


def isolate_state() -> None:
    """Make the state private to the running rank, and allow pytest's other shared state."""
    rank = current.rank()
    shared_state.ignore_packages(*_NOT_THE_PROGRAM)
    private_state.touch(rank, "what pytest keeps", private_state.Setting(_get, _set))


def _get() -> list[Any]:
    return [getattr(owner, name) for owner, name in _EXISTING]


def _set(values: list[Any]) -> None:
    for (owner, name), value in zip(_EXISTING, values, strict=True):
        setattr(owner, name, value)
