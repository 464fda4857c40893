import re

import pytest

from tests.clients.rediscovery import BUGS, PAGE, Shown, bugs, text


def test_every_bug_has_a_program_and_versions_that_are_pinned():
    names = set()
    for bug in bugs():
        assert (BUGS / bug.program).exists(), bug.name
        assert bug.faulty != bug.fixed, bug.name
        for side in (bug.faulty, bug.fixed):
            assert re.fullmatch(r"([\w.-]+==[\w.]+)?", side.package + side.sdist), bug.name
        names.add(bug.name)
    assert {each.name for each in bugs(["platypus"])} == {"platypus"} < names


def test_the_page_names_every_program():
    page = PAGE.read_text(encoding="utf-8")
    assert [program.name for program in BUGS.glob("*.py") if program.name not in page] == []


@pytest.mark.parametrize(
    ("faulty", "fixed", "is_right"),
    [
        ("x/irecv_large.py:12: ParameterMatching: longer than the receive buffer", "20000", True),
        ("20000", "20000", False),
        ("irecv_large.py:12: ParameterMatching: longer than the receive buffer", "ModuleNotFoundError", False),
        ("irecv_large.py:12: ParameterMatching: longer than the receive buffer", "", False),
    ],
)
def test_a_bug_is_shown_if_one_version_has_it_and_the_other_does_its_work(faulty: str, fixed: str, is_right: bool):
    (bug,) = bugs(["mpi4py-irecv"])
    shown = Shown(bug, {"faulty": faulty, "fixed": fixed})
    assert shown.is_right is is_right


def test_the_page_has_what_was_found_and_not_what_the_program_printed():
    (bug,) = bugs(["mpi4py-irecv"])
    found = "irecv_large.py:12: ParameterMatching: message longer than the receive buffer"
    lines = list(text([Shown(bug, {"faulty": f"Traceback\n{found}\n    rank 1", "fixed": "20000"})]))
    assert f"`{found}`" in lines[4]
    assert "$ xsim check -n 2 irecv_large.py 1000000  # arguments: 1000000" in lines
    assert "    rank 1" in lines
    assert "Traceback" not in lines
