"""Which installed packages belong to an MPI program, found by reading them."""

from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import pytest

from tests.process.launch import write
from xsim_py import simulate
from xsim_py.code_origin import ALL_IMPORTED
from xsim_py.config import ProcessSpec
from xsim_py.errors import ConfigError
from xsim_py.process.programs import mpi_packages


def spec_of(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleSpec:
    monkeypatch.setattr("sys.path", [str(folder)])
    spec = PathFinder.find_spec(name)
    assert spec is not None
    return spec


@pytest.mark.parametrize(
    ("text", "is_mpi"),
    [
        ("from mpi4py import MPI", True),
        ("import os, mpi4py.MPI as MPI", True),
        ("try:\n    import mpi4py\nexcept ImportError: pass", True),
        ("import sys\nif sys.argv:\n    from mpi4py import MPI", True),
        ("class World:\n    from mpi4py import MPI", True),
        ("import importlib\nMPI = importlib.import_module('mpi4py.MPI')", True),
        ("mpi4py, there = attempt_import('mpi4py')", True),
        ("def late():\n    try:\n        import mpi4py\n    except ImportError: pass", False),
        ("class World:\n    def __init__(self):\n        from mpi4py import MPI", False),
        ("late = lambda: __import__('mpi4py')", False),
        ("def rank():\n    from mpi4py import MPI\n    return MPI.COMM_WORLD.rank\nRANK = rank()", True),
        ("class World:\n    def __init__(self):\n        from mpi4py import MPI\nworld = World()", True),
        ("MPI = None\ndef enable():\n    global MPI\n    from mpi4py import MPI", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mpi4py import MPI", False),
        ("import typing as t\nif t.TYPE_CHECKING:\n    pass\nelse:\n    from mpi4py import MPI", True),
        ("if __name__ == '__main__':\n    from mpi4py import MPI", False),
        ("'''Runs beside::\n\n    from mpi4py import MPI\n'''", False),
        ("from mpi4py_fft import PFFT", False),
        ("from .mpi4py import MPI", False),
        ("from mpi4py import (", False),
        ("print('mpi4py')", False),
    ],
)
def test_a_package_is_mpi_s_if_importing_one_of_its_files_runs_an_import_of_mpi4py(
    tmp_path, monkeypatch, text: str, is_mpi: bool
):
    write(tmp_path, {"pack/__init__.py": "", "pack/deep/er.py": text})
    assert mpi_packages.imports_mpi(spec_of(tmp_path, "pack", monkeypatch)) is is_mpi


FOLDER = {
    "outer/__init__.py": "try:\n    # it may be there\n    from inner import value\nexcept ImportError:\n    value = 0",
    "inner.py": "import mpi4py",
    "lazy.py": "class Pool:\n    def map(self):\n        import inner",
    "tested/__init__.py": "",
    "tested/Tests/test_it.py": "import inner",
    "ring/__init__.py": "import gnir",
    "gnir.py": "import ring, inner",
    "science/__init__.py": "import quiet, compiled",
    "quiet.py": "import inner",
    "quiet-1.0.dist-info/METADATA": "Name: quiet\nRequires-Dist: other; extra == 'all'\n",
    "compiled.py": "import inner",
    "compiled-1.0.dist-info/METADATA": "Name: compiled\nRequires-Dist: other\nLicense: Open-MPI\n\nCOMPILED\n",
    "needs_quiet.py": "import quiet",
    "needs_quiet-1.0.dist-info/METADATA": "Name: needs-quiet\nRequires-Dist: quiet\n",
    "needs_late.py": "def late():\n    import quiet",
    "needs_late-1.0.dist-info/METADATA": "Name: needs-late\nRequires-Dist: quiet\n",
    "told.py": "",
    "told-1.0.dist-info/METADATA": "Name: told\n",
    "late.py": "import silent",
    "silent.py": "import inner",
    "silent-1.0.dist-info/METADATA": "Name: silent\n",
    "user.py": "import asks_for",
    "asks_for.py": "import inner",
    "Asks_For-2.dist-info/METADATA": "Name: asks-for\nRequires-Dist: INNER>=1\n",
    "inner-3.dist-info/METADATA": "Name: inner\nSummary: for MPI\n",
    "called.py": "def rank():\n    from mpi4py import MPI\n    return MPI.COMM_WORLD.rank",
    "called-1.dist-info/METADATA": "Name: called\nRequires-Dist: mpi4py>=4\n",
}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("outer", "outer/__init__.py: inner"),
        ("inner", "inner.py: mpi4py"),
        ("lazy", None),
        ("tested", None),
        ("ring", "ring/__init__.py: gnir"),
        ("science", None),
        ("quiet", "quiet.py: inner"),
        ("needs_quiet", "needs_quiet.py: quiet"),
        ("needs_late", "needs_late.py: quiet"),
        ("late", "late.py: silent"),
        ("user", "user.py: asks_for"),
        ("called", "called.py: mpi4py"),
    ],
)
def test_so_is_one_that_imports_such_a_package(tmp_path, monkeypatch, name: str, why: str | None):
    """What its tests and functions import does not count, and packages that say nothing of MPI are not read."""
    write(tmp_path, FOLDER)
    reason = mpi_packages.reason(spec_of(tmp_path, name, monkeypatch))
    assert (None if reason is None else f"{Path(reason.file).relative_to(tmp_path)}: {reason.imported}") == why


def test_what_else_is_installed_does_not_matter(tmp_path, monkeypatch):
    """As jax is found by scipy, and has a function that uses mpi4py."""
    files = {"science/__init__.py": "try:\n    import extra\nexcept ImportError:\n    extra = None"}
    write(tmp_path, {**files, "extra/__init__.py": "", "extra/cluster.py": "def size():\n    from mpi4py import MPI"})
    assert not mpi_packages.imports_mpi(spec_of(tmp_path, "science", monkeypatch))


@pytest.mark.parametrize(
    ("name", "private", "shared"),
    [
        ("json", (), True),
        ("json.decoder", (ALL_IMPORTED,), True),
        ("outer.part", (), False),
        ("mpi4py", (), False),
        ("told", (), True),
        ("told", ("told",), False),
        ("told", (ALL_IMPORTED,), False),
        ("nowhere", (), False),
    ],
)
def test_what_knows_nothing_of_mpi_is_shared_unless_it_is_to_be_private(tmp_path, monkeypatch, name, private, shared):
    write(tmp_path, FOLDER)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert mpi_packages.is_shared(name, ProcessSpec(private=private)) is shared


def test_python_s_own_and_the_simulator_are_not():
    assert not mpi_packages.imports_mpi(ModuleSpec("json", None, origin="/python/json/__init__.py"))
    for name in ("xsim_py", "mpi4py"):
        assert not mpi_packages.imports_mpi(PathFinder.find_spec(name) or ModuleSpec(name, None))


def test_extensions_make_a_package_one_that_is_not_pure(tmp_path, monkeypatch):
    write(tmp_path, {"pure/__init__.py": "", "mixed/__init__.py": "", "mixed/part.abi3.so": ""})
    pure, mixed = (spec_of(tmp_path, name, monkeypatch) for name in ("pure", "mixed"))
    assert (mpi_packages.has_extensions(pure), mpi_packages.has_extensions(mixed)) == (False, True)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"private": "a,b", "share": ["b"]}, "private: b is also given as shared; drop one"),
        ({"private": "json"}, "private: json is part of Python's standard library"),
        ({"private": ["numpy"]}, "private: numpy is used by the simulator itself"),
        ({"private": "a.b"}, "private: expected a whole package, got its part 'a.b'; write a"),
        ({"share": "a-b"}, "share: expected the import name of a package, got 'a-b'"),
        ({"set": {"process.private": "[json]"}}, "process.private[0]: json is part of Python's standard library"),
        (
            {"private": "numpi"},
            "private: cannot find the package numpi, installed or next to the program; did you me",
        ),
        (
            {"share": "qqqqqqqq"},
            "share: cannot find the package qqqqqqqq, installed or next to the program",
        ),
        ({"set": {"process.share": "[yaml, numqy]"}}, "process.share[1]: cannot find the package numqy, "),
        ({"set": {"process.private": "[1x]"}}, "process.private[0]: expected the import name of a package, got '1x'"),
    ],
)
def test_what_cannot_be_private_is_refused(told, message: str):
    with pytest.raises(ConfigError) as error:
        simulate(len, ranks=1, **told)
    assert message in str(error.value)
