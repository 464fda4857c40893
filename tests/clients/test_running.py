import sys
from pathlib import Path

from tests.clients.description import read
from tests.clients.environment import Environment
from tests.clients.running import ALL, ANY, END, SESSION, STATUS, all_runs, run

TESTS = """
import unittest

import pytest
from mpi4py import MPI

def test_passes():
    assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.size

def test_fails_on_one():
    assert MPI.COMM_WORLD.rank == 0

@pytest.fixture
def broken():
    raise ValueError

def test_error(broken):
    pass

def test_stalls():
    if MPI.COMM_WORLD.size == 3:
        MPI.COMM_WORLD.recv()

@unittest.skip("always")
def test_skipped():
    pass
"""


def test_each_rank_says_what_became_of_each_test(tmp_path: Path):
    options = "[-q, -p, xsim_py.testing.plugin]"
    said = f"requires: []\ncheckout: it\nruns:\n  - {{pytest: tests/test_*.py, options: {options}}}\n"
    (tmp_path / "left").touch()
    environment = Environment(read("one", f"leaves: ['{tmp_path}/le*t']\n{said}"), tmp_path)
    environment.bin = Path(sys.executable).parent
    (tmp_path / "checkouts" / "one" / "tests").mkdir(parents=True)
    (tmp_path / "checkouts" / "one" / "tests" / "test_it.py").write_text(TESTS)
    result = run(environment, *all_runs(environment), ranks=2, way="greenlets")
    assert not (tmp_path / "left").exists()
    shared = {"passes": "passed", "error": "error", "stalls": "passed", "skipped": "skipped"}
    for rank, other in ((0, "passed"), (1, "failed")):
        expected = {f"tests/test_it.py::test_{test}": outcome for test, outcome in shared.items()}
        assert result.outcomes[str(rank)] == {**expected, "tests/test_it.py::test_fails_on_one": other, END: "1"}
    assert result.outcomes[ALL] == {STATUS: "not zero"}
    session = run(environment, *all_runs(environment), ranks=3, way=SESSION)
    expected = {**shared, "stalls": "failed", "fails_on_one": "failed"}
    assert session.outcomes == {
        ALL: {STATUS: "not zero"},
        ANY: {**{f"tests/test_it.py::test_{test}": outcome for test, outcome in expected.items()}, END: "1"},
    }
