"""Every key with every odd value: a machine, or a message that a person can read; and nothing else, and at once."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from xsim_py.config import load_machine
from xsim_py.config.loader import every_path
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine

BASE: dict[str, Any] = {
    "topology": {"type": "torus", "dims": [4, 4]},
    "network": {"latency": "1us"},
    "same_node": {"latency": "1us"},
    "storage": {"latency": "1us"},
}
KEYS = (*every_path(), "mpi.collectives.bcast", "failures", "topology")
VALUES = {
    **{value: value for value in ("0", "-1", "1", "1.5", "1e400", "1e-400", "1.0e+300", "1.0e-300")},
    **{value: value for value in (".nan", ".inf", "-.inf", "null", "[]", "{}", "[x]", "{x: 1}", "[[]]", "[{}]", "[0]")},
    **{value: value for value in ("true", "yes", "0x10", "1:30", "1e15s", "1bps", "1ps", "''", "/dev/zero", "half")},
    **{value: value for value in ("2147483647", "[2147483647, 2147483647]", "[4194304, 2]", "[[a, b], [b, a]]")},
    "a zero byte": '"\\0"',
    "long text": "x" * 10**5,
    "many digits": "9" * 5000,
    "half a character": "\udcff",
    "a bomb": "[" + ", ".join(["&a0 [x, x]", *(f"&a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))]) + "]",
    "many brackets": "[" * 10**5,
    "a number of Python": 10**6000,
    "bytes": b"x",
    "an object": object(),
}


@pytest.mark.parametrize(("number", "value"), [*enumerate(VALUES.values())], ids=VALUES)
def test_an_odd_value_makes_a_machine_or_a_message(number: int, value: object) -> None:
    began_s = time.perf_counter()
    for key in KEYS if CAMPAIGN else KEYS[number % 4 :: 4]:
        try:
            Machine(load_machine(BASE, overrides={key: value}), ranks=2)
        except ConfigError as error:
            lines = str(error).splitlines()
            assert max(map(len, lines)) <= 1000
            assert all(line.startswith(("--set ", "machine description")) for line in lines)
    assert (time.perf_counter() - began_s) / len(KEYS) < 0.5
