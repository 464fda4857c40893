"""A function's ranks find nothing that their host's thread keeps for itself."""

import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim_py import simulate

pytestmark = pytest.mark.private_modules


@given(st.none())
def test_with_one_value(value: None) -> None:
    assert value is None  # hypothesis does not allow a property to be defined within another one


def known(local: threading.local) -> list[str]:
    return sorted(vars(local))


@settings(max_examples=2)
@given(st.none())
def test_ranks_of_a_property_are_not_within_it_and_the_host_is_again(value: None):
    assert value is None
    sys.modules["just_imported"] = ModuleType("just_imported")  # the host has imported something since the last run
    local = threading.local()
    local.of_host = 1
    result: Any = simulate(known, ranks=2, args=(local,))
    del sys.modules["just_imported"]
    assert (result.ended, result.values, known(local)) == ("finished", [[], []], ["of_host"])
