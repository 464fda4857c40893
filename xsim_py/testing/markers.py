"""Marks for the number of ranks of a test: those of this and of other MPI plugins.

=====================================  ==============================================================================
``ranks(2, 3, 8, machine="torus3d")``  on each of these numbers; keywords go to `xsim_py.simulate`
``parallel``, ``parallel([2, 3])``     mpi-pytest's: three ranks, or each of these numbers
``mpi(ranks=[2, 4], timeout=10)``      pytest-isolate-mpi's: each of these numbers, and a wall-clock limit
``mpi``, ``mpi(min_size=2)``           pytest-mpi's: with ``--with-mpi`` on the requested number, else skipped
``mpi_xfail``                          pytest-mpi's: with ``--with-mpi`` expected to fail on ranks; else in one process
=====================================  ==============================================================================

The arguments of a mark `mpi` distinguish its two plugins.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

_PARAMETER = "_xsim_ranks"

DEFAULT_RANKS = 2
_DEFAULT_PARALLEL = 3  # of mpi-pytest
_UNITS = {"s": 1, "m": 60, "h": 3600}
_BAD_VALUE = "the mark {} takes {}"

WITHOUT_MPI = "need --with-mpi option to run"
TOO_FEW = "Test requires {} MPI processes, only {} MPI processes specified, skipping test"


class RankRequest(NamedTuple):
    """The numbers of ranks that a test requests, with its options."""

    ranks: tuple[int, ...]
    """Each number is a separate test."""
    options: dict[str, Any]
    """Further parameters of `xsim_py.simulate`."""
    parameter: str = _PARAMETER
    """Name of the test parameter for several numbers, as in the mark's own plugin."""
    label: str = "ranks"
    """Prefix of the number in a test's name, if there are several."""
    minimum: int | None = None
    """The minimum number of ranks, without a maximum; None if the test runs on exactly these numbers."""
    skip: str = ""
    """Reason to skip the test; usually empty."""

    def numbers(self, item: object) -> tuple[int, ...]:
        """Return the numbers of ranks of one parametrized test; a test of `unittest` has only one."""
        params = getattr(getattr(item, "callspec", None), "params", {})
        return (params[self.parameter],) if self.parameter in params else self.ranks


def request_of(
    node: pytest.Item, *, default: tuple[int, ...], foreign: frozenset[str], with_mpi: bool
) -> RankRequest | None:
    """Return the ranks requested by the marks of a test; None if it has no such mark.

    The `node` is a `pytest.Item` or the definition of a test function; its nearest mark counts, so that one of a class
    or module is a default. `default` is for tests without a number; it may be empty. `foreign` are the marks of other
    plugins that this plugin handles. `with_mpi` says whether to run tests of pytest-mpi.
    """
    for mark in node.iter_markers():
        if mark.name == "ranks":
            return RankRequest(_numbers(mark, mark.args or default or (DEFAULT_RANKS,)), _options(mark))
        if mark.name == "parallel" and mark.name in foreign:
            return _parallel(mark)
        if mark.name == "mpi" and "ranks" in mark.kwargs and "mpi(ranks)" in foreign:
            return _isolated(mark)
        if mark.name == "mpi" and "ranks" not in mark.kwargs and "mpi" in foreign:
            return _at_least(mark, default, with_mpi)
    if with_mpi and "mpi" in foreign and any(mark.name == "mpi_xfail" for mark in node.iter_markers()):
        return RankRequest(default or (DEFAULT_RANKS,), {}, minimum=1)
    return None


def _options(mark: pytest.Mark) -> dict[str, Any]:
    """Return the keywords of a mark: parameters of `simulate`."""
    if mark.kwargs:
        from xsim_py.errors import advice
        from xsim_py.parameters import OF_PLUGIN, PARAMETERS
        from xsim_py.run import simulate  # not above: slow to import, and most marks have none

        refused = dict.fromkeys(("program", "stdout", "stderr", "progress"), OF_PLUGIN)
        refused |= {name: row.not_in_marks for name, row in PARAMETERS.items() if row.not_in_marks}
        known = [name for name in inspect.signature(simulate).parameters if name not in refused]
        for name in mark.kwargs:
            if name in refused:
                raise pytest.UsageError(f"the mark ranks does not support {name}: {refused[name]}; drop it")
            if name not in known:
                raise pytest.UsageError(f"unknown option {name} of the mark ranks; {advice(name, known)}")
    return dict(mark.kwargs)


def _parallel(mark: pytest.Mark) -> RankRequest:
    if len(mark.args) + len(mark.kwargs) > 1 or mark.kwargs.keys() - {"nprocs"}:
        raise pytest.UsageError(_BAD_VALUE.format("parallel", "one number of ranks, or a list of some"))
    values = mark.args or tuple(mark.kwargs.values()) or (_DEFAULT_PARALLEL,)
    return RankRequest(_numbers(mark, values), {}, parameter="_nprocs", label="nprocs=")


def _isolated(mark: pytest.Mark) -> RankRequest:
    options: dict[str, Any] = {}
    timeout, unit = mark.kwargs.get("timeout"), mark.kwargs.get("unit", "s")
    if unit not in tuple(_UNITS):
        raise pytest.UsageError(_BAD_VALUE.format("mpi", f"a unit among {', '.join(map(repr, _UNITS))}, not {unit!r}"))
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise pytest.UsageError(_BAD_VALUE.format("mpi", f"a timeout that is a number above 0, not {timeout!r}"))
        options["wall_limit"] = timeout * _UNITS[unit]
    return RankRequest(_numbers(mark, (mark.kwargs["ranks"],)), options, parameter="mpi_ranks", label="")


def _at_least(mark: pytest.Mark, default: tuple[int, ...], with_mpi: bool) -> RankRequest:
    if mark.args:
        raise pytest.UsageError(_BAD_VALUE.format("mpi", "no positional arguments"))
    minimum = mark.kwargs.get("min_size") or 1
    ranks = default or (max(minimum, DEFAULT_RANKS),)
    return RankRequest(ranks, {}, minimum=minimum, skip="" if with_mpi else WITHOUT_MPI)


def _numbers(mark: pytest.Mark, values: Iterable[Any]) -> tuple[int, ...]:
    """Return the numbers of ranks among a mark's arguments: several, or one list."""
    values = tuple(values)
    if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], str):
        values = tuple(values[0])
    if not values or not all(isinstance(number, int) and number > 0 for number in values):
        raise pytest.UsageError(_BAD_VALUE.format(mark.name, f"numbers of ranks, not {', '.join(map(repr, values))}"))
    return values
