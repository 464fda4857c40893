"""What machines and failures can have besides: all that a run shows is the same however it is simulated."""

from __future__ import annotations

from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from tests.cases import ROOT
from tests.isolated import Program, seen
from xsim_py import simulate

RANKS = 7
SHARDS = (1, 2, 3, 7) if CAMPAIGN else (1, 3)
WAYS: list[dict[str, Any]] = [*({"shards": shards} for shards in SHARDS), {"isolation": "process"}]
APPS = ROOT / "apps"
CROWDED = {"machine.nodes": 2, "machine.cores_per_node": 2, "machine.oversubscribe": True}
SPEEDS = [{"nodes": 1, "speed": 0.5}, {"ranks": "2, 5-6", "speed": 3}]
NOISE = {"work": 0.2, "ranks": 0.1, "nodes": 0.1}
PLACES = "rank,node,core\n0,1,1\n1,1,1\n2,0,1\n3,0,0\n4,1,0\n5,0,1\n6,0,1\n"
FTCO = {"mpi.collectives": "ftco", "mpi.ftco.tree": "kary", "mpi.ftco.radix": 2, "mpi.ftco.roots": "single"}
ULFM = {"mpi.collectives.allreduce": "nonoverlapping"}
LOSSY = {"mpi.collectives": "ftco", "mpi.ftco.missing": "zero"}

WORKS = """
import time
import numpy as np
from mpi4py import MPI
comm, there = MPI.COMM_WORLD, np.zeros(3000)
for step in range(3):
    MPI.Pcontrol(100_000 * (1 + (comm.rank + step) % 3))
    if comm.rank == step:
        time.sleep(2e-5)
    try:
        comm.Sendrecv(np.ones(3000), (comm.rank + 2) % comm.size, recvbuf=there, source=(comm.rank - 2) % comm.size)
        comm.Barrier()
    except MPI.Exception as error:
        print(comm.rank, "at", step, error.Get_error_string())
        comm.Revoke()
        comm = comm.Shrink()
    kept = []
    try:
        for size in range(1, 9):
            kept.append(np.ones(1000 * size * (1 + comm.rank % 2)))
    except MemoryError as error:
        print(comm.rank, "at", step, "has", len(kept), error)
    print(comm.rank, len(kept), MPI.Wtime())
"""


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    """What is to be simulated in every way, by name."""
    folder = tmp_path_factory.mktemp("pieces")
    places = folder / "ranks.csv"
    places.write_text(PLACES, encoding="utf-8")

    def works(**told: Any) -> Program:
        return Program("works", WORKS, {"kind": "code", "ranks": RANKS, **told})

    def app(name: str, *args: object, **told: Any) -> Program:
        return Program(name, APPS / f"{name}.py", {"ranks": RANKS, "args": [str(arg) for arg in args], **told})

    before = simulate(WORKS, kind="code", ranks=RANKS, fail="rank=2@70us", ft=False)
    lossy = ("lossy", "--n", 8, "--steps", 6)
    clones = ("benchtolerate", "--communicators", 2)
    return {
        "ranks that share cores": works(set=CROWDED),
        "speeds": works(set={**CROWDED, "compute.speeds": SPEEDS, "compute.noise": NOISE}),
        "a rank file": works(set={**CROWDED, "machine.rank_file": str(places)}),
        "deaths on shared cores": works(set=CROWDED, fail=["rank=4@130us", "rank=0@377us"], ft=True),
        "hangs on shared cores": works(set=CROWDED, fail=["hang:rank=2,at=150us,for=180us"], ft=True),
        "memory of a node": works(set={"machine.cores_per_node": 3, "machine.memory_per_node": "300kB"}),
        "a clock that goes on": works(clock_from=before),
        "torus3dtt": app("samplesort", "--keys", 60, machine="torus3dtt"),
        "benchtolerate, FTCO": app(*clones, "--fault", "temporary", ft=True, set=FTCO),
        "benchtolerate, ULFM": app(*clones, "--iterations", 2, ft=True, set=ULFM),
        "lossy, heat": app(*lossy, "--fill", "linear", fail="rank=5@100us", set=LOSSY),
        "lossy, cg": app(*lossy, "--solver", "cg", "--die", "1@3", ft=True, set=LOSSY),
        "netpipe": app("netpipe", "--largest", 64, "--die", "3@16", ranks=8, machine="torus3dtt", ft=True),
        "netpipe on nodes": app("netpipe", "--largest", 64, "--die", "2@8", ranks=8, machine="smoky-ib", ft=True),
    }


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    [
        "ranks that share cores",
        "speeds",
        "a rank file",
        "deaths on shared cores",
        "hangs on shared cores",
        "memory of a node",
        "a clock that goes on",
        "torus3dtt",
        "benchtolerate, FTCO",
        "benchtolerate, ULFM",
        "lossy, heat",
        "lossy, cg",
        "netpipe",
        "netpipe on nodes",
    ],
)
def test_all_that_a_run_shows_is_the_same_however_it_is_simulated(name: str, pieces: dict[str, Program]) -> None:
    first, *others = [seen(pieces[name], **way) for way in WAYS]
    assert first["ended"] == "finished", first["report"]
    for way, other in zip(WAYS[1:], others, strict=True):
        assert other == first, way
