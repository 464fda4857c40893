"""What a user gets who installs the wheel."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from tests import versions
from xsim_py import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("xsim_py-*-py3-none-any.whl")
    return zipfile.ZipFile(path)


def test_wheel_holds_the_package_the_models_and_the_apps(wheel: zipfile.ZipFile):
    names = set(wheel.namelist())
    for folder in ("models", "apps"):
        files = {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.*") if path.suffix != ".pyc"}
        assert {f"xsim_py/_{folder}/{file}" for file in files} == {
            n for n in names if n.startswith(f"xsim_py/_{folder}/")
        }
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "xsim_py").rglob("*.py")}
    assert package | {"xsim_py/py.typed", f"xsim_py-{__version__}.dist-info/licenses/LICENSE"} <= names
    assert {name.split("/")[0] for name in names} == {"xsim_py", f"xsim_py-{__version__}.dist-info"}


def test_wheel_gives_the_xsim_command(wheel: zipfile.ZipFile):
    assert "xsim = xsim_py.__main__:command" in wheel.read(f"xsim_py-{__version__}.dist-info/entry_points.txt").decode()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["models"], ["gige", "shmem", "torus3d", "logp"]),
        (["study"], ["xsim-fig1", "xsim-fig2", "xsim-fig3"]),
        (["study", "xsim-fig3", "--list", "--only", "ranks=4"], ["one failure"]),  # its program is found, too
    ],
)
def test_wheel_finds_its_own_files_outside_the_checkout(wheel: zipfile.ZipFile, tmp_path, words, found):
    wheel.extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "xsim_py", *words]
    shown = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    assert not [name for name in found if name not in shown]


def test_version_is_the_same_everywhere():
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == __version__
    assert f"\n## {__version__} (" in (ROOT / "CHANGELOG.md").read_text()


def test_checkers_are_pinned():
    assert set(versions.tools(PROJECT)) <= set(versions.pins())


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_dependencies_have_one_lower_bound_each_and_are_pinned_above_it(python: str):
    found, pinned = versions.bounds(PROJECT, python), versions.pins()
    assert {name for name, bound in found.items() if Version(pinned[name]) < Version(bound)} == set()


def test_ci_runs_what_everyone_runs():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make test")
