"""Who does the runs shows in nothing but the time they take."""

import numpy as np
import pytest

from xsim_py.ftco import backend, compiled
from xsim_py.ftco.model import RULES, Configuration

SMALL = Configuration(nodes=32, radix=4, inactive=1, failures=1)
PAPER = Configuration(nodes=32, radix=4, rules=RULES["paper"])


def test_compiled_and_plain_runs_are_equal():
    fast, plain = (backend.measure(SMALL, 7, range(3, 9), plain=plain) for plain in (False, True))
    assert np.array_equal(fast, plain)


def test_the_papers_traversal_is_never_compiled():
    assert not backend.is_compiled(PAPER)
    assert len(backend.measure(PAPER, 7, range(2))) == 2


def test_without_numba_it_works_and_is_said_once_where_it_matters(monkeypatch: pytest.MonkeyPatch):
    expected = backend.measure(SMALL, 7, range(4))
    monkeypatch.setattr(compiled, "COMPILED", False)
    assert not backend.is_compiled(SMALL)
    assert np.array_equal(backend.measure(SMALL, 7, range(4)), expected)
    (said,) = backend.about([SMALL, SMALL, PAPER], 10_000)
    assert "pip install 'xsim-py[fast]'" in said
    assert backend.about([SMALL], 10) == []


def test_what_is_slow_for_its_rules_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "COMPILED", True)
    assert backend.about([SMALL], 10_000) == []
    assert len(backend.about([SMALL, PAPER], 10_000)) == 1
