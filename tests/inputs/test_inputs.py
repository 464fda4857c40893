"""Bad input of every kind is refused with its place, at once, and what is still good runs.

``python -m tests.inputs SEED FIRST LAST`` tries more, and ``python -m tests.inputs FILE`` one that failed again.
"""

import random
import subprocess
import sys

import pytest

from tests.campaign import CAMPAIGN
from tests.inputs.corpus import ROOT, Case, good
from tests.inputs.judge import judge, read, written
from tests.inputs.mutations import case
from xsim_py import run as loaded

assert loaded  # before the judge forks

_BLOCK = 100 if CAMPAIGN else 24


@pytest.mark.parametrize("first", range(0, 24 * _BLOCK if CAMPAIGN else 1, _BLOCK))
def test_spoilt_input_is_refused_with_its_place_or_runs(first: int):
    seed = random.SystemRandom().randrange(10**9) if CAMPAIGN else 0
    words = map(str, (seed, first, first + _BLOCK - 1))
    done = subprocess.run([sys.executable, "-m", "tests.inputs", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_number_is_always_the_same_input_which_can_be_kept():
    first = [case(7, number) for number in range(50)]
    assert first == [case(7, number) for number in range(50)]
    assert [read(written(each)) for each in first] == first
    assert {each.about.rpartition(" ")[0] for each in first} == set(good())


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("pass", ""),
        ("import os; os._exit(5)", "status 5 is none that run has"),
        ("import ctypes; ctypes.string_at(0)", "it was killed by SIGSEGV"),
        ("import sys; sys.exit(2)", "status 2 without a place"),
    ],
)
def test_the_judge_sees_how_it_ends(code: str, wrong: str):
    assert judge(Case(["run", "-n", "1", "--quiet", "-c", code], {}, "run")).wrong == wrong


@pytest.mark.parametrize(("limit", "wrong"), [("MOST_CPU_S", " s of CPU time"), ("MOST_BYTES", " MB")])
def test_the_judge_sees_what_it_takes(monkeypatch, limit: str, wrong: str):
    monkeypatch.setattr(f"tests.inputs.judge.{limit}", -1)
    assert judge(Case(["models"], {}, "command line")).wrong.endswith(wrong)
