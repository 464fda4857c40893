"""What is said of a client in a file of ``suites/``: what to install, where its tests are, how they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SUITES = HERE / "suites"
PROGRAMS = HERE / "programs"
RANKS = (2, 3, 4)
MANY = 64  # more than a real MPI could have here
KINDS = ("pytest", "installed", "script", "program")


class BadDescription(Exception):
    """A file of ``suites/`` does not say what it should; says where."""


@dataclass(frozen=True)
class Runs:
    """Some runs of one kind: each file that matches, each module that is named, is a run of its own.

    ``pytest`` and ``script`` match files of the client's tests, ``installed`` names modules of the installed package
    that pytest runs where they lie, ``program`` names a file of ``programs/``. ``ranks_said`` is a pattern: what it
    finds in a file are the numbers of ranks that this file is for. In the options, ``{ranks}`` is the number of ranks.
    ``many`` says whether the tests run on many ranks, too, all in one session, there with ``many_options`` besides; and
    by a real mpiexec, too, where ``many_real``.
    """

    kind: str
    what: tuple[str, ...]
    options: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    ranks: tuple[int, ...] = RANKS
    ranks_said: str = ""
    limit_s: int = 180
    many: bool = True
    many_options: tuple[str, ...] = ()
    many_real: bool = False
    many_limit_s: int = 600
    prints: bool = False


@dataclass(frozen=True)
class Expected:
    """A difference from the real MPI that is known, with its reason. A pattern that is not given fits everything."""

    why: str
    way: str = ""
    run: str = ""
    test: str = ""
    ranks: tuple[int, ...] = ()

    def fits(self, way: str, run: str, ranks: int, test: str) -> bool:
        """Whether the difference of this test in this run is the one that is known."""
        patterns = ((self.way, way), (self.run, run), (self.test, test))
        return all(re.search(pattern, text) for pattern, text in patterns) and (not self.ranks or ranks in self.ranks)


@dataclass(frozen=True)
class Client:
    """A public package whose own tests are run.

    They are in its source distribution (``sdist``), at a tag of its public repository (``checkout: URL TAG``), or where
    it is installed. ``leaves`` are patterns of files on the machine that a run which was ended leaves behind, and over
    which the next one would stumble.
    """

    name: str
    requires: tuple[str, ...]
    runs: tuple[Runs, ...]
    about: str = ""
    sdist: str = ""
    checkout: str = ""
    keep: tuple[str, ...] = ("*",)
    config: str = "pytest.ini"
    xsim: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    without_dependencies: tuple[str, ...] = ()
    expected: tuple[Expected, ...] = field(default=())


def clients(names: list[str]) -> Iterator[Client]:
    """The clients of these names; all, if none is named."""
    there = {path.stem: path for path in sorted(SUITES.glob("*.yaml"))}
    if unknown := [name for name in names if name not in there]:
        raise BadDescription(f"no client is called {', '.join(unknown)}. There are: {', '.join(there)}.")
    for name in names or there:
        yield read(name, there[name].read_text(encoding="utf-8"))


def read(name: str, text: str) -> Client:
    """The client that a text describes."""
    said = yaml.safe_load(text)
    if not isinstance(said, dict):
        raise BadDescription(f"{name}.yaml: a client is a mapping")
    runs = tuple(_runs(name, dict(one)) for one in said.pop("runs", []))
    expected = tuple(_make(Expected, name, one) for one in said.pop("expected", []))
    return _make(Client, name, {"name": name, **said, "runs": runs, "expected": expected})


def _runs(name: str, said: dict[str, Any]) -> Runs:
    kinds = [kind for kind in KINDS if kind in said]
    if len(kinds) != 1:
        raise BadDescription(f"{name}.yaml: each of the runs has one of {', '.join(KINDS)}: {said}")
    what = said.pop(kinds[0])
    return _make(Runs, name, {"kind": kinds[0], "what": [what] if isinstance(what, str) else what, **said})


def _make(kind: Any, name: str, said: dict[str, Any]) -> Any:
    try:
        return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in said.items()})
    except TypeError as problem:
        raise BadDescription(f"{name}.yaml: {problem}".replace(".__init__()", "")) from None
