"""Tests of compiled programs need a C and a C++ compiler, as their users do; only the others run without them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from xsim_py.cli.cc import command_line

collect_ignore_glob = [] if shutil.which("cc") and shutil.which("c++") else ["test_[!g]*.py"]


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the executables of the module's `SOURCES`, compiled with its `FLAGS`, if any."""
    folder = tmp_path_factory.mktemp("built")
    for source in request.module.SOURCES:
        words = ["-g", "-O1", *getattr(request.module, "FLAGS", []), str(source), "-o", str(folder / source.stem)]
        subprocess.run(command_line("cc" if source.suffix == ".c" else "c++", words), check=True)
    return folder
