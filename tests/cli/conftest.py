import sys

import pytest

from tests.cli.helpers import FakeSimulator


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> FakeSimulator:
    fake = FakeSimulator()
    monkeypatch.setitem(sys.modules, "xsim_py.run", fake)
    return fake
