"""The source of mpi4py's tests: where it is, and how it gets there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

VERSION = "4.1.2"
ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".conformance"
COMPILED = CACHE / "compiled"
"""The real mpi4py, built on the library of compiled programs."""
_SOURCE = CACHE / f"mpi4py-{VERSION}"
# Python before 3.11.4 unpacks whatever a file says.
_CHECKED: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


class NoSuite(Exception):
    """The source is not there; says what to do."""


def suite() -> Path:
    """The folder of mpi4py's tests, with the runner that says their outcomes in it."""
    folder = _SOURCE / "test"
    if not folder.is_dir():
        raise NoSuite(
            f"{folder} is not there. `python -m tests.conformance --download` fetches the source of mpi4py {VERSION} "
            "from the package index, as `make test` does before it runs the tests."
        )
    runner = Path(__file__).with_name("runner.py").read_bytes()
    target = folder / "conformance_runner.py"
    if not target.exists() or target.read_bytes() != runner:
        shutil.copy(Path(__file__).with_name("runner.py"), target)
    return folder


def download() -> None:
    """Fetch the source from the package index, unless it is there."""
    if _SOURCE.is_dir():
        return
    if (CACHE / f"mpi4py-{VERSION}.tar.gz").exists():
        unpack()
        return
    command = ["download", "--quiet", "--no-deps", "--no-binary", "mpi4py", f"mpi4py=={VERSION}", "--dest", str(CACHE)]
    if subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *command], check=False).returncode:
        raise NoSuite(
            f"pip could not fetch the source of mpi4py {VERSION}: is there a package index? Without one, put "
            f"mpi4py-{VERSION}.tar.gz in {CACHE} and run this again."
        )
    unpack()


def build_compiled() -> None:
    """Build the real mpi4py on the library of compiled programs, unless it is there; takes two minutes."""
    if COMPILED.is_dir():
        return
    # With -I, as pip hides from others what is installed here.
    environment = {**os.environ, "MPICC": f"{sys.executable} -I -m xsim_py cc"}
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    if subprocess.run([*command, "--target", COMPILED, _SOURCE], env=environment, check=False).returncode:
        raise NoSuite(f"pip could not build mpi4py {VERSION}: is there a C compiler?")


def unpack() -> None:
    """Unpack what has been fetched; all of it, or nothing."""
    whole = CACHE / "unpacking"
    with tarfile.open(CACHE / f"mpi4py-{VERSION}.tar.gz") as archive:
        archive.extractall(whole, **_CHECKED)
    (whole / f"mpi4py-{VERSION}").rename(_SOURCE)
    whole.rmdir()


def modules() -> list[str]:
    """The names of the suite's modules, in order."""
    return sorted(path.stem for path in suite().glob("test_*.py"))
