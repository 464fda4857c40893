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
        ("def late():\n    try:\n        import mpi4py\n    except ImportError: pass", True),
        ("import importlib\nMPI = importlib.import_module('mpi4py.MPI')", True),
        ("mpi4py, there = attempt_import('mpi4py')", True),
        ("'''Runs beside::\n\n    from mpi4py import MPI\n'''", False),
        ("from mpi4py_fft import PFFT", False),
        ("from .mpi4py import MPI", False),
        ("from mpi4py import (", False),
        ("print('mpi4py')", False),
    ],
)
def test_a_package_is_mpi_s_if_one_of_its_files_imports_mpi4py(tmp_path, monkeypatch, text: str, is_mpi: bool):
    write(tmp_path, {"pack/__init__.py": "", "pack/deep/er.py": text})
    assert mpi_packages.imports_mpi(spec_of(tmp_path, "pack", monkeypatch)) is is_mpi


FOLDER = {
    "outer/__init__.py": "def late():\n    from inner import value",
    "inner.py": "import mpi4py",
    "tested/__init__.py": "",
    "tested/tests/test_it.py": "import inner",
    "ring/__init__.py": "import gnir",
    "gnir.py": "import ring, inner",
    "science/__init__.py": "import quiet, told",
    "quiet.py": "import inner",
    "quiet-1.0.dist-info/METADATA": "Name: quiet\nRequires-Dist: other; extra == 'all'\n",
    "told.py": "",
    "told-1.0.dist-info/METADATA": "Name: told\n",
    "late.py": "import silent",
    "silent.py": "import inner",
    "silent-1.0.dist-info/METADATA": "Name: silent\n",
    "user.py": "import asks_for",
    "asks_for.py": "import inner",
    "Asks_For-2.dist-info/METADATA": "Name: asks-for\nRequires-Dist: INNER>=1\n",
    "inner-3.dist-info/METADATA": "Name: inner\nSummary: for MPI\n",
}


@pytest.mark.parametrize(
    ("name", "is_mpi"),
    [("outer", True), ("tested", False), ("ring", True), ("science", False), ("late", True), ("user", True)],
)
def test_so_is_one_that_imports_such_a_package(tmp_path, monkeypatch, name: str, is_mpi: bool):
    """What its tests import does not count, and packages whose metadata leads to nothing of MPI are not read."""
    write(tmp_path, FOLDER)
    assert mpi_packages.imports_mpi(spec_of(tmp_path, name, monkeypatch)) is is_mpi


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
        ({"private": "a,b", "share": ["b"]}, "private: b is to be shared, too, and can only be one of both"),
        ({"private": "json"}, "private: json is part of Python's standard library"),
        ({"private": ["numpy"]}, "private: numpy is what the simulator itself uses"),
        ({"private": "a.b"}, "private: 'a.b' is part of a package; give the whole, a"),
        ({"share": "a-b"}, "share: 'a-b' is not the name of a package"),
        ({"set": {"process.private": "[json]"}}, "process.private[0]: json is part of Python's standard library"),
        (
            {"private": "numpi"},
            "private: there is no package numpi, neither installed nor beside the program; did you me",
        ),
        (
            {"share": "qqqqqqqq"},
            "beside the program; if the program itself says where it is, say so in PYTHONPATH, too",
        ),
        ({"set": {"process.share": "[yaml, numqy]"}}, "process.share[1]: there is no package numqy, "),
        ({"set": {"process.private": "[1x]"}}, "process.private[0]: '1x' is not the name of a package"),
    ],
)
def test_what_cannot_be_private_is_refused(told, message: str):
    with pytest.raises(ConfigError) as error:
        simulate(len, ranks=1, **told)
    assert message in str(error.value)
