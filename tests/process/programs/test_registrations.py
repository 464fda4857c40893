"""Modules of which each rank has a copy, and that register something with what ranks share."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.launch import Launched, launch

REGISTRY = """
    names = []

    def register(name):
        if name in names:
            raise ValueError(f"{name!r} is already registered")
        names.append(name)

    def registered(name):
        register(name)
        return lambda value: value

    def compiled(name):  # a function in C that refuses a second call
        return int(f"{name} already") if name in names else names.append(name)

    def unlike(name):
        if name in names:
            raise ValueError("no such luck")
        names.append(name)
"""
MAPS = """
    import registry
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    mine = []

    def register_all():
        for name in ("red", "green"):
            mine.append(name)
            registry.register(name)

    register_all()
    for name in ("blue",):
        try:
            registry.register(name)
        except ValueError:
            print("collision")

    @registry.registered("white")
    class White:
        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, value):
            self._value = value

    @registry.registered("black")
    def black():
        return rank
"""


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]


def run(folder: Path, text: str, *, ranks: int = 3, files: dict[str, str] | None = None, **told: Any) -> Launched:
    """Run a program that finds modules in a folder as if they were installed."""
    installed = {
        f"site-packages/{name}.py": content for name, content in {"registry": REGISTRY, **(files or {})}.items()
    }
    path = "import sys\nsys.path.append(__file__.replace('prog.py', 'site-packages'))\n"
    return launch(folder, path + text, ranks=ranks, files=installed, **told)


@pytest.mark.parametrize("shards", [1, 3])
def test_what_a_private_package_registers_while_it_is_imported_is_registered_once(tmp_path: Path, shards: int):
    text = """
import maps, registry
white = maps.White()
white.value = rank
comm.Barrier()
print(maps.rank, maps.black(), white.value, maps.mine, registry.names)
"""
    done = run(tmp_path, text, shards=shards, files={"maps": MAPS})
    names = ["red", "green", "blue", "white", "black"]
    mine = {0: ["red", "green"], 1: ["red", "green"], 2: ["red", "green"]}
    assert done.lines == [f"{each} {each} {each} {mine[each]} {names}" for each in range(3)]
    assert done.result.ended == "finished"


def last(launched: Launched) -> str:
    """Return the line that says what helps."""
    found = [line for line in launched.err.splitlines() if line.startswith("xsim: ") and "has done this" in line]
    return found[-1] if found else ""


PRIVATE = "from mpi4py import MPI\nimport registry\nrank = MPI.COMM_WORLD.rank\n"
WHY = "and one is private because one.py imports mpi4py; use"
SHARED = f"registry is shared by ranks, {WHY} --private registry,user or --share one or --isolation process"
COMPILED = f"compiled code exists once for all ranks, {WHY} --share one or --isolation process"


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (
            "value = registry.register('a')",
            f"rank 0 has done this already at one.py:4: {SHARED}",
        ),
        (
            "MPI.COMM_WORLD.Barrier()\nregistry.register('a')",
            f"rank 1 has done this already at one.py:5: {SHARED}",
        ),
        (
            "names = registry.names\nvalue = int('x already') if names else names.append(1)",
            f"rank 0 has done this already at one.py:5: {COMPILED}",
        ),
        ("registry.unlike('a')", ""),
        ("if rank: raise ValueError('it exists')", ""),
        ("if rank: open('there', 'x'), open('there', 'x')", ""),
    ],
)
def test_a_refusal_that_ends_a_rank_says_what_helps(tmp_path: Path, monkeypatch, one: str, says: str):
    monkeypatch.chdir(tmp_path)
    text = "import user\nif rank == 0:\n    import one\nelse:\n    import one\n"
    done = run(tmp_path, text, ranks=2, files={"one": PRIVATE + one, "user": "import registry"})
    assert done.result.ended == "aborted"
    assert last(done) == (f"xsim: {says}" if says else "")


def test_so_does_one_in_the_program(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, "import registry\nregistry.register('a')\n", ranks=3)
    assert last(done) == (
        "xsim: another rank has done this already at prog.py:7: registry is shared by ranks; "
        "use --private registry or --isolation process"
    )
    assert done.err.count("has done this already") == 1


def test_a_rank_that_registers_twice_by_itself_has_its_own_error(tmp_path: Path):
    done = run(tmp_path, "import registry\nregistry.register(rank)\nregistry.register(rank)\n", ranks=2)
    assert "is already registered" in done.err
    assert last(done) == ""


def test_a_package_that_cannot_be_private_is_named(tmp_path: Path, monkeypatch):
    """The modules that import the one which fails add nothing."""
    monkeypatch.chdir(tmp_path)
    inner = "import registry\nvalue = int('x already') if registry.names else registry.names.append(1)"
    files = {"inner": inner, "middle": "import inner", "outer": "import middle"}
    done = run(tmp_path, "import outer  # and middle, inner\n", ranks=2, files=files, private="inner,middle,outer")
    assert last(done) == (
        "xsim: rank 0 has done this already at inner.py:2: compiled code exists once for all ranks; "
        "use no --private inner or --isolation process"
    )
    assert done.err.count("has done this already") == 1


@pytest.mark.parametrize("told", [{"private": "registry,user"}, {"share": "one"}])
def test_what_it_says_helps(tmp_path: Path, told: dict[str, str]):
    files = {"user": "import registry", "one": PRIVATE + "value = registry.register('a')"}
    done = run(tmp_path, "import registry, user, one\nprint('ok')\n", ranks=2, files=files, **told)
    assert done.lines == ["ok", "ok"]
