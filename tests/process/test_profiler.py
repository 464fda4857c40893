"""A profile says who was at work, shard by shard."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from xsim_py import simulate
from xsim_py.engine import Kernel, Loopback
from xsim_py.engine.transport import Mpi
from xsim_py.errors import ConfigError
from xsim_py.mpi.transport.p2p import receive
from xsim_py.process.profiler import PARTS, _part_of
from xsim_py.process.ranks.shard import Shard

BUSY = """
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
number = 0
for _ in range(400_000 * (MPI.COMM_WORLD.Get_rank() >= 2)):
    number += 1
MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.parametrize("shards", [1, 2])
def test_the_time_goes_to_the_shard_and_the_part_that_used_it(shards: int, tmp_path: Path):
    program = tmp_path / "busy.py"
    program.write_text(BUSY)
    table = simulate(program, ranks=4, shards=shards, profile=True).tables["profile"]
    assert (table["shard"], table["part"]) == ([n for n in range(shards) for _ in PARTS], [*PARTS] * shards)
    assert max(zip(table["wall_s"], table["shard"], table["part"], strict=True))[1:] == (shards - 1, "program")
    assert min(table["wall_s"]) >= 0


def test_without_being_asked_there_is_no_profile():
    assert "profile" not in simulate(len, ranks=1, args=["x"]).tables


def test_functions_belong_to_parts():
    assert _part_of(Kernel.run_window.__code__) == "engine"
    assert _part_of(receive.__code__) == "mpi"
    assert _part_of(Mpi._exchange.__code__) == _part_of(Loopback._exchange.__code__) == "exchange"
    assert _part_of(Shard.take_outbox.__code__) == "exchange"
    assert _part_of(Mpi._wait_for_peers.__code__) == "waiting"
    assert _part_of(simulate.__code__) == "rest"
    assert _part_of(np.linspace.__wrapped__.__code__) == _part_of(os.walk.__code__) == ""  # who called it?
    assert _part_of(test_functions_belong_to_parts.__code__) == "program"


def test_only_the_main_thread_can_take_samples():
    said: list[str] = []

    def run() -> None:
        with pytest.raises(ConfigError) as refused:
            simulate(len, ranks=1, args=["x"], profile=True)
        said.append(str(refused.value))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert said == ["profile: a profile needs the main thread, and simulate() was called in another"]
    assert simulate(len, ranks=1, args=["x"]).ended == "finished"
