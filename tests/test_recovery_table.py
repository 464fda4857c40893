"""The table "which recovery for which program" says what is so."""

from pathlib import Path

import pytest

from tests import recovery_table
from tests.campaign import CAMPAIGN
from tests.recovery_table import (
    PAGE,
    ROWS,
    SHARED,
    counted,
    lines_of,
    names,
    rows,
    times,
    with_section,
    with_shared_lines,
)

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = ("bag_of_tasks", "propagate")
AGAIN = "python -m tests.recovery_table --write"


def test_every_program_with_a_section_of_recovery_has_a_row():
    assert set(with_section()) <= set(ROWS)
    assert list(rows()) == names(), AGAIN


def test_lines_of_code_are_those_of_the_sources():
    said = {name: int(row[-1]) for name, row in rows().items()}
    assert said == {name: lines_of(name) for name in names()}, AGAIN
    assert all(said.values())
    page = PAGE.read_text()
    assert len(SHARED.findall(page)) == 2
    assert page == with_shared_lines(page), AGAIN


@pytest.mark.parametrize("name", names() if CAMPAIGN else QUICK)
def test_times_are_those_that_are_measured(name: str):
    assert tuple(rows()[name][3:6]) == times(name), AGAIN


def test_what_is_no_code_does_not_count(tmp_path: Path):
    file = tmp_path / "p.py"
    file.write_text(
        '"""Docs."""\n\nimport a\n\n# ------- recovery\n\n\ndef f():\n    """Docs\n    of f."""\n    # Why.\n'
        '    x = """a\n    b"""\n'
        "    return (\n        x  # so\n    )\n\n# ------- recovery of others\ny = 1\n\n    # ---- recovery\nz = 2\n"
    )
    assert counted(file) == 1 + 2 + 3 + 1
    assert counted(file, section=None) == 9


def test_a_program_that_does_not_survive_has_no_time_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "bag_of_tasks.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    monkeypatch.setattr(recovery_table, "APPS", tmp_path)
    with pytest.raises(RuntimeError, match="12 ranks, 7@half, ulfm: aborted"):
        times("bag_of_tasks")
