"""A loop of tests waits if it can only end when the request is complete: of small programs, which say so themselves."""

from pathlib import Path

import pytest

from xsim_py.checks.awaiting import is_awaiting

BEGINNING = """
import time
import numpy as np
from time import sleep
"""
WAITING = {
    "nothing meanwhile": "while not r.Test():\n    pass",
    "sleep": "while not r.Test():\n    sleep(1)\n    time.sleep(1)\n    np.sin(2)",
    "of an object": "while not r.test()[0]:\n    n += 1",
    "way out": "while True:\n    if MPI.Request.Testall(a):\n        break",
    "variable": "done = False\nwhile not done:\n    done = r.Test(status)",
    "pair": "flag = 0\nwhile not flag:\n    flag, message = r.test()",
    "all": "while not all(r.Test() for r in a):\n    pass",
    "all at once": "while not all([r.Test() for r in a]):\n    print('on')",
}
OTHER = {
    "another way out": "while not r.Test():\n    if n > 3:\n        break",
    "another condition": "while not r.Test() and n < 3:\n    n += 1",
    "two ways out": "while True:\n    if r.Test():\n        break\n    if n:\n        break",
    "an alternative": "while True:\n    if r.Test():\n        break\n    else:\n        n.go()",
    "a function": "while not r.Test():\n    work()",
    "a method": "while not r.Test():\n    a.pop()",
    "a module of the program": "import work\nwhile not r.Test():\n    work.go()",
    "a loop": "while not r.Test():\n    for each in events:\n        pass",
    "a loop with an end": "while not r.Test():\n    pass\nelse:\n    n = 1",
    "an exception": "while not r.Test():\n    assert n",
    "of an object, as if of a buffer": "while not r.test():\n    pass",
    "two": "while not r.Test():\n    a[0].Test()",
    "one of several": "while not any(r.Test() for r in a):\n    pass",
    "some": "while not all(r.Test() for r in a if r):\n    pass",
    "variable with another value": "while not done:\n    done = r.Test()\n    done = done or n",
    "no loop": "if not r.Test():\n    n = 1",
    "if it is true": "while r.Test():\n    pass",
    "one of any": "while not MPI.Request.Testany(a)[1]:\n    pass",
}


def verdicts(tmp_path: Path, text: str) -> set[bool]:
    """Return what is said of the instructions of a program that call a test."""
    path = tmp_path / f"program{len(text)}.py"  # what is known of one stays known
    path.write_text(BEGINNING + text)
    codes = [compile(path.read_text(), str(path), "exec")]
    for code in codes:
        codes += [each for each in code.co_consts if hasattr(each, "co_code")]
    return {is_awaiting(each, str(path), at) for each in codes for at in range(0, len(each.co_code), 2)}


@pytest.mark.parametrize("text", WAITING.values(), ids=WAITING.keys())
def test_a_loop_waits(tmp_path: Path, text: str):
    assert any(verdicts(tmp_path, text))
    inside = text.replace("\n", "\n    ")
    assert any(verdicts(tmp_path, f"def function():\n    {inside}"))


def test_a_test_before_the_loop_belongs_to_it(tmp_path: Path):
    loop = "while not done:\n    done = r.Test()"
    assert any(verdicts(tmp_path, f"done = r.Test()\n{loop}"))
    lone = verdicts(tmp_path, "done = r.Test()\nwhile not done:\n    done = n.go()")
    assert lone == {False}


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
def test_another_loop_does_not(tmp_path: Path, text: str):
    assert verdicts(tmp_path, text) == {False}
