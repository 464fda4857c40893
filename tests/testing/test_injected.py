"""A rank of a test raises at any place, while others go on, wait or poll: the right test fails, and none hangs."""

import shutil
from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN
from tests.testing.running import SUITES, run

PARTS = range(8 if CAMPAIGN else 1)
COUNT = 1250 if CAMPAIGN else 20
SESSIONS = 100 if CAMPAIGN else 3


@pytest.mark.parametrize("part", PARTS)
def test_each_test_into_which_an_exception_was_injected_has_failed_with_it(tmp_path: Path, part: int):
    shutil.copy(SUITES / "judging.py", tmp_path / "conftest.py")
    limits = {"INJECTED": str(COUNT), "INJECTED_FROM": str(part * COUNT)}
    session = run(tmp_path, "--tb=no", "-rN", suites=("injected",), **limits)
    assert f"\n0 of {COUNT} are wrong" in session.text, session.text


def test_so_it_is_in_whole_sessions(tmp_path: Path):
    shutil.copy(SUITES / "judging.py", tmp_path / "conftest.py")
    limits = {"INJECTED": str(SESSIONS), "INJECTED_FROM": "0"}
    session = run(tmp_path, "--xsim-session", "4", "--tb=no", "-rN", suites=("injected",), **limits)
    assert f"\n0 of {SESSIONS} are wrong" in session.text, session.text
