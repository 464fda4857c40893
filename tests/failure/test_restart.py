"""How often, and how much later, an aborted job is started again."""

from __future__ import annotations

import pytest

from xsim_py.errors import ConfigError
from xsim_py.failure import RestartPolicy


def test_a_policy_is_read() -> None:
    assert RestartPolicy.parse("on-abort") == RestartPolicy(1000, 0)
    assert RestartPolicy.parse("on-abort, max=3, delay=30s") == RestartPolicy(3, 30 * 10**12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("on-abort,max=1,max=2", "restart: on-abort,max=1,max=2: max is given more than once"),
        ("on-abort,delay=1s,max=2,delay=1s", "on-abort,delay=1s,max=2,delay=1s: delay is given more than once"),
        ("on-abort,max=-1", "restart: on-abort,max=-1: max: expected an integer from 0 to 100,000, got '-1'"),
        ("on-abort,max=100001", "on-abort,max=100001: max: expected an integer from 0 to 100,000, got '100001'"),
        (f"on-abort,max={'9' * 5000}", "max: expected an integer from 0 to 100,000, got '999"),
        ("on-abort,delay=-1s", "delay: -1s is out of range: a time cannot be negative"),
        ("on-abort,delay=1:30", "delay: unknown unit in '1:30'"),
        ("on-abort,mox=1", "expected max=N or delay=TIME, got 'mox=1'"),
        ("x" * 10**5, "restart: expected on-abort, got"),
    ],
)
def test_what_is_no_policy_is_explained(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RestartPolicy.parse(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000
