"""Runs at once are as many as there are cores, or fewer where each of them is many processes."""

import pytest

from xsim_py.errors import ConfigError
from xsim_py.study.capacity import runs_at_once
from xsim_py.workers import cores


@pytest.mark.parametrize(
    ("jobs", "ranks", "isolation", "at_once"),
    [
        (None, 10**6, "greenlets", cores()),
        (5000, 10**6, "greenlets", 5000),
        (None, 1024, "process", 1),
        (4, 1024, "process:4", 4),
    ],
)
def test_runs_share_what_one_may_have(jobs: int | None, ranks: int, isolation: str, at_once: int):
    assert runs_at_once(jobs, [{"ranks": 1}, {"ranks": ranks, "isolation": isolation}]) == at_once


def test_too_many_jobs_are_refused():
    with pytest.raises(ConfigError, match=r"jobs: 3 runs at once, of up to 500 processes each .* give at most 2"):
        runs_at_once(3, [{"ranks": 500, "isolation": "process"}])
