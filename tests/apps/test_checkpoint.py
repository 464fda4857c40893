"""apps/checkpoint.py does what the theory of checkpoint intervals describes."""

import math
import random
import statistics
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.apps.helpers import APPS, simulated
from tests.campaign import CAMPAIGN
from xsim_py import simulate

WORK_S, INTERVAL_S, CHECKPOINT_S, RESTART_S, MTBF_S = 1000, 50, 5, 10, 200
JOBS = 4000


class Failure(BaseException):
    """Ends one start of the job."""


class FailingClock:
    """The module `time` of a job that fails at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.begin()

    def begin(self) -> None:
        self.fails_s = self.now_s + self.random.expovariate(1 / MTBF_S)

    def time(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s > self.fails_s:
            self.now_s = self.fails_s
            raise Failure


def times_of_jobs() -> list[float]:
    """Put the program's own loop through many jobs."""
    spec = spec_from_file_location("checkpoint", APPS / "checkpoint.py")
    app = module_from_spec(spec)
    spec.loader.exec_module(app)
    app.time = clock = FailingClock(seed=1)
    files = {}
    app.load, app.save = files.get, files.__setitem__
    comm = SimpleNamespace(rank=0, bcast=lambda value, root: value, Barrier=lambda: None)
    told = SimpleNamespace(
        work=WORK_S, interval=INTERVAL_S, checkpoint=CHECKPOINT_S, restart=RESTART_S, state="the only file"
    )
    times = []
    for _ in range(JOBS):
        files.clear()
        begun_s = clock.now_s
        done = False
        while not done:
            clock.begin()
            try:
                done = app.run(comm, told).complete * INTERVAL_S == WORK_S
            except Failure:
                continue
        times.append(clock.now_s - begun_s)
    return times


def expected_s() -> float:
    """The mean time that the theory gives."""
    growth = math.exp((INTERVAL_S + CHECKPOINT_S) / MTBF_S) - 1
    return MTBF_S * math.exp(RESTART_S / MTBF_S) * growth * WORK_S / INTERVAL_S


def mean_and_error(times: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    return statistics.mean(times), statistics.stdev(times) / math.sqrt(len(times))


def test_the_program_s_loop_takes_the_mean_time_of_the_theory():
    assert expected_s() == pytest.approx(1331.04, abs=0.005)
    mean, error = mean_and_error(simulate(times_of_jobs, ranks=1).values[0])
    assert error < 3
    assert abs(mean - expected_s()) < 3 * error


def test_a_job_restarted_by_the_simulator_takes_the_mean_time_of_the_theory(tmp_path: Path):
    runs = 150 if CAMPAIGN else 12
    times = []
    for seed in range(runs):
        told = {"seed": seed, "fail": [f"exponential:rank,mtbf={MTBF_S}s"], "restart": "on-abort"}
        run = simulated("checkpoint.py", "--state", tmp_path / "state", **told)
        times.append(float(run.out.removesuffix(" s\n").split()[-1]))
    mean, error = mean_and_error(times)
    assert error < 12 * math.sqrt(150 / runs)
    assert abs(mean - expected_s()) < 3 * error


def test_without_failures_the_time_is_work_and_checkpoints(tmp_path: Path):
    run = simulated("checkpoint.py", "--state", tmp_path / "state")
    assert run.out == (
        "checkpoint: 20 segments, 1 starts\ntime: 1100.000000 s since the last start\ntime: 1100.000000 s\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("work", "interval", "segments", "time_s"), [(10, 4, 3, 13), (0.3, 0.1, 3, 3.3), (10, 20, 1, 11), (0, 5, 0, 0)]
)
def test_the_last_segment_may_be_shorter(tmp_path: Path, work: float, interval: float, segments: int, time_s: float):
    args = ("--work", work, "--interval", interval, "--checkpoint", 1)
    run = simulated("checkpoint.py", *args, "--state", tmp_path / "state")
    assert f"{segments} segments" in run.out
    assert run.out.endswith(f"time: {time_s:.6f} s\n")


def test_a_started_job_pays_for_its_restart_and_goes_on(tmp_path: Path):
    state = tmp_path / "state"
    state.write_text("18 3 1577836800.0\n")  # the time of day at which every simulated run begins
    run = simulated("checkpoint.py", "--state", state)
    assert run.out == (
        "checkpoint: 20 segments, 4 starts\ntime: 120.000000 s since the last start\ntime: 120.000000 s\n"
    )


def test_arguments_without_sense_are_refused(tmp_path: Path):
    run = simulated("checkpoint.py", "--interval", 0, "--work", -1, "--restart", "inf", ranks=3)
    assert (run.status, run.err.splitlines()) == (
        2,
        [
            "checkpoint: --work -1.0 must be finite and not negative",
            "checkpoint: --restart inf must be finite and not negative",
            "checkpoint: --interval must be above 0",
        ],
    )
