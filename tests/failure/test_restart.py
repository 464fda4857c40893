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
        ("on-abort,max=1,max=2", "max is given twice"),
        ("on-abort,delay=1s,max=2,delay=1s", "delay is given twice"),
        ("on-abort,max=-1", "max: '-1' is not a whole number from 0 to 100,000"),
        ("on-abort,max=100001", "max: '100001' is not a whole number from 0 to 100,000"),
        (f"on-abort,max={'9' * 5000}", "is not a whole number from 0 to 100,000"),
        ("on-abort,delay=-1s", "delay: -1s is negative"),
        ("on-abort,delay=1:30", "delay: '1:30' has no known unit"),
        ("on-abort,mox=1", "'mox=1' is neither max=N nor delay=TIME"),
        ("x" * 10**5, "x' is not on-abort; write on-abort[,max=N,delay=TIME], such as on-abort,max=3,delay=30s"),
    ],
)
def test_what_is_no_policy_is_explained(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RestartPolicy.parse(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000
