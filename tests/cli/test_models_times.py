"""`xsim models times` prints what messages take, as a run has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xsim_py import simulate
from xsim_py.cli import main

SIZES = [0, 1, 64, 100, 4096, 17408, 17409, 2**20]
SEGMENTS = """
name: by size
machine: {cores_per_node: 2}
network:
  eager_threshold: 17KiB
  per_hop: 30ns
  send_overhead: 100ns
  segments:
    - {from: 0B, latency: 1.3us, bandwidth: 1GB/s}
    - {from: 100B, latency: 1.9us, bandwidth: 2GB/s, recv_overhead: 7ns}
    - {from: 17409B, latency: 3us, bandwidth: 5GB/s, send_overhead: 0s}
same_node: {latency: 1us, bandwidth: 1GB/s}
"""


def one_way(sizes: list[int], dest: int) -> None:
    """Print when each message is there, whose receive has been posted a second before it is sent."""
    import time

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for turn, size in enumerate(sizes):
        if comm.rank == 0:
            time.sleep(turn + 1 - MPI.Wtime())
            comm.Send(np.zeros(size, np.uint8), dest)
        elif comm.rank == dest:
            comm.Recv(np.empty(size, np.uint8), 0)
            print(size, round((MPI.Wtime() - turn - 1) * 1e12))


@pytest.mark.parametrize(("machine", "layer", "dest"), [
    ("gige", "network", 1), ("torus3d", "network", 1), ("logp", "network", 1), ("shmem", "same_node", 1),
    ("by size", "network", 2), ("by size", "same_node", 1),
])  # fmt: skip
def test_a_run_takes_as_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: str, layer: str, dest: int
) -> None:
    if machine == "by size":
        (tmp_path / "machine.yaml").write_text(SEGMENTS)
        machine = str(tmp_path / "machine.yaml")
    assert main(["models", "times", machine, "--bytes", ",".join(map(str, SIZES)), "--layer", layer]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    told = {int(size): round(float(seconds) * 1e12) for size, seconds in (row.split(",") for row in rows)}
    assert head == "bytes,seconds"
    assert list(told) == SIZES
    simulate(one_way, ranks=dest + 1, machine=machine, args=[SIZES, dest])
    ran: dict[int, Any] = dict(map(int, line.split()) for line in capsys.readouterr().out.splitlines())
    assert ran.keys() == told.keys()
    assert all(abs(ran[size] - told[size]) <= 500 for size in SIZES)  # Wtime is a float of seconds: 2**-50 of 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bytes", "8x"], "unknown unit in '8x'; write for example 128KiB, 64KB or 65536 (bytes)"),
        (["--bytes", "1,,2"], "''"),
        (["--bytes", "1", "--layer", "socket"], "gige has no figures for 'socket'; it has network and same_node"),
        ([], "--bytes"),
    ],
)
def test_bad_input_is_status_2(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["models", "times", "gige", *words]) == 2
    assert said in capsys.readouterr().err
