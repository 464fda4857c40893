import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from _pytest.config.argparsing import Parser

from tests.test_docs import rows
from tests.testing.running import ROOT, SUITES, run
from xsim_py.testing import plugin


def test_the_plugin_costs_next_to_nothing_where_nobody_asks_for_it():
    program = "import sys, xsim_py.testing.plugin; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {
        name for name in done.stdout.split() if name.partition(".")[0] in ("xsim_py", "numpy", "simpy", "greenlet")
    }
    modules = ("", *(f".testing{name}" for name in ("", ".single_rank", ".check_option", ".markers", ".plugin")))
    assert loaded == {f"xsim_py{name}" for name in modules}


def test_pytest_finds_it_by_its_entry_point():
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert described["project"]["entry-points"]["pytest11"] == {plugin.__name__: plugin.__name__}


def test_the_reference_lists_the_options(pytestconfig: pytest.Config):
    parser = Parser(_ispytest=True)
    plugin.pytest_addoption(parser, pytestconfig.pluginmanager)
    there = {name for group in parser._groups for option in group.options for name in option.names()}
    listed = {name for row in rows(ROOT / "docs" / "reference" / "pytest.md", "Options") for name in row[0].split(", ")}
    assert {re.sub(r"[`]| .*", "", name) for name in listed if name.startswith("`")} == there


def test_a_test_on_four_ranks_costs_milliseconds(tmp_path: Path):
    shutil.copy(SUITES / "timing.py", tmp_path / "conftest.py")
    session = run(tmp_path, "-rN", "-q", suites=("cost",))
    found = re.search(r"a test costs (\S+) ms", session.text)
    assert found is not None, session.text
    assert float(found[1]) < 50


def test_a_wrong_option_is_refused(tmp_path: Path):
    session = run(tmp_path, "--xsim-session", "0")
    assert session.status == pytest.ExitCode.USAGE_ERROR
    assert "--xsim-session: expected a number of ranks, got 0" in session.text
