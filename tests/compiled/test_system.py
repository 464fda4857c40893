"""The process of a rank with a compiled program: what the C library tells it, and what its computation costs."""

import io
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import pytest

from xsim_py import simulate
from xsim_py.process.profiler import PARTS, Profile
from xsim_py.report import Result

SOURCES = [*Path(__file__).parent.glob("programs/more/*.c")]


def run(program: Path, **settings: Any) -> tuple[Result, list[str]]:
    output = io.StringIO()
    result = simulate(program, **{"ranks": 1, "stdout": output, "stderr": output, **settings})
    return result, output.getvalue().splitlines()


def test_a_process_has_the_identity_of_its_rank_and_real_children(built: Path):
    results = [run(built / "process", args=["given"]) for _ in range(2)]
    (result, lines), _ = results
    assert lines[:4] == ["node0 node0 10000 given", "timeout 1", "child 1 1", "status 3, others -1" + lines[3][19:]]
    assert "killed by SIGTERM" in result.report
    assert results[0][0].digest == results[1][0].digest  # addresses included


def test_computation_is_charged_by_the_clock_of_the_process(built: Path, tmp_path: Path):
    def times_s(compute: str | Path) -> list[float]:
        result, lines = run(built / "compute", compute=compute, set={"compute.flops": "1e9"})
        assert result.ended == "finished", result.report
        return [float(word) for word in lines[0].split()]

    assert times_s("none")[1:] == [0, 3]
    took_s, charged_s, declared_s = times_s("measured")
    assert charged_s == pytest.approx(took_s, abs=0.01)
    assert 3 <= declared_s < 3.01
    file = tmp_path / "times.yaml"
    recorded = times_s(f"record={file}")
    assert "compute.c:21" in file.read_text()
    assert times_s(file)[1:] == recorded[1:]


def test_a_profile_counts_the_wait_for_a_process_as_the_program():
    profile = Profile(0, has_processes=True)
    profile._then_s, profile._used_s = perf_counter() - 1, process_time()  # a second without use of the processor
    profile._sample(0, None)
    parts = dict(zip(PARTS, profile.of(0), strict=True))
    assert parts["program"] > 0.9
    assert parts["rest"] < 0.1
