"""The C programs of apps/c, which are written for Open MPI with ULFM and run here with the same lines."""

import io
from pathlib import Path

import pytest

from tests.cases import ROOT
from xsim_py import simulate

FLAGS = ["-Wall", "-Werror"]
SOURCES = [*(ROOT / "apps" / "c").glob("*.c")]


SHRUNK = "6 ranks, 1 failed, 2 attempts, sum 17\n"
WHOLE = "6 ranks, heat 1000.000, hottest 102.578173\n"
TWO = ["rank=2 before its 20th Sendrecv", "rank=4 before its 1st Merge"]
RUNS = {
    "shrink": ("ft_shrink_barrier", ["3"], [], SHRUNK),
    "shrink, injected": ("ft_shrink_barrier", [], ["rank=3 before its 1st Reduce"], SHRUNK),
    "agree": ("ft_agree", ["9"], [], "6 ranks agreed 9 times, 0 attempts failed, right numbers: yes\n"),
    "agree, injected": (
        *("ft_agree", ["9"], ["rank=3@50us"]),
        "5 ranks agreed 9 times, 1 attempts failed, right numbers: yes\n",
    ),
    "whole": ("ft_replace", [], [], WHOLE),
    "replace": ("ft_replace", ["2", "7"], [], WHOLE),
    "replace, two attempts": ("ft_replace", [], TWO, WHOLE),
}


@pytest.mark.parametrize(("name", "args", "fail", "said"), RUNS.values(), ids=list(RUNS))
def test_survivors_go_on(built: Path, name: str, args: list[str], fail: list[str], said: str):
    out = io.StringIO()
    result = simulate(built / name, ranks=6, args=args, fail=fail, ft=True, stdout=out, stderr=io.StringIO())
    assert result.ended == "finished", result.report
    lines = [line for line in out.getvalue().splitlines(keepends=True) if not line.startswith("time:")]
    assert "".join(lines) == said
