"""Reductions of objects send what the real mpi4py sends: on a duplicate, and in all rounds.

The counts are those of mpi4py 4.1.2 and MPICH 5.0.2, by a library between the two (``sends.c``)::

    mpicc -shared -fPIC -o sends.so tests/mpi4py/sends.c
    mpiexec -n 4 -env LD_PRELOAD ./sends.so python -c 'from mpi4py import MPI; MPI.COMM_WORLD.allreduce(1)'
"""

import io
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from tests.real_mpi import ENVIRONMENT, MPIEXEC
from xsim_py import simulate

HEAD = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
BETWEEN = """
low = comm.rank < comm.size // 3
between = comm.Split(low).Create_intercomm(0, comm, comm.size // 3 if low else 0, 7)
"""
ROOT = "root=(MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL) if low else 0"
CALLS = {
    "allreduce": "comm.allreduce(1)",
    "reduce": "comm.reduce(1)",
    "reduce to another": "comm.reduce(1, root=1)",
    "scan": "comm.scan(1)",
    "exscan": "comm.exscan(1)",
    "all": "comm.allreduce(1); comm.reduce(1, root=1); comm.scan(1); comm.allreduce(1)",
    "between groups": f"{BETWEEN}between.allreduce(1); between.reduce(1, {ROOT})",
}
REAL = {  # sends, their bytes, duplicates, merges, creates, of all ranks
    ("allreduce", 2): (2, 13, 2, 0, 0),
    ("allreduce", 4): (8, 52, 4, 0, 0),
    ("allreduce", 5): (10, 65, 5, 0, 0),
    ("allreduce", 16): (64, 416, 16, 0, 0),
    ("reduce", 7): (18, 117, 7, 0, 0),
    ("reduce to another", 7): (20, 130, 7, 0, 0),
    ("scan", 7): (36, 234, 7, 0, 0),
    ("exscan", 8): (48, 312, 8, 0, 0),
    ("all", 4): (42, 273, 4, 0, 0),
    ("between groups", 7): (28, 182, 7, 7, 7),
}


def run(code: str, ranks: int, **options: Any) -> Any:
    said = io.StringIO()
    result = simulate(HEAD + code, kind="code", ranks=ranks, stdout=said, stderr=said, **options)
    assert result.ended == "finished", said.getvalue()
    return result


@pytest.mark.parametrize(("call", "ranks"), REAL)
def test_there_are_as_many_messages_as_the_real_one_sends(call: str, ranks: int) -> None:
    """What else there is are the Dup of 8 bytes and the broadcasts of an allreduce, which have other algorithms."""
    sends, sent_bytes, *_ = REAL[call, ranks]
    broadcasts = {"allreduce": ranks - 1, "all": 2 * (ranks - 1), "between groups": ranks - 2}.get(call, 0)
    result, duplicate = run(CALLS[call], ranks), run(DUPLICATE.get(call, "comm.Dup()"), ranks)
    assert result.messages - duplicate.messages - 2 * broadcasts == sends
    total, before = (sum(each.tables["ranks"]["bytes"]) for each in (result, duplicate))
    assert total - before - broadcasts * (8 + 5) == sent_bytes


DUPLICATE = {
    "between groups": f"{BETWEEN}between.Dup(); group = between.Get_group()\nbetween.Merge(not low).Create(group)"
}
"""What makes the duplicate."""


COMPILER = shutil.which("gcc")
if MPIEXEC.exists() and COMPILER is not None:

    def test_the_real_one_sends_as_much(tmp_path: Path) -> None:
        library = tmp_path / "sends.so"
        source = Path(__file__).with_name("sends.c")
        subprocess.run(
            [MPIEXEC.with_name("mpicc"), "-shared", "-fPIC", "-o", library, source], check=True, env=ENVIRONMENT
        )
        for (call, ranks), counts in REAL.items():
            if ranks > 5 and not CAMPAIGN:
                continue
            command = [
                MPIEXEC,
                "-n",
                str(ranks),
                "-env",
                "LD_PRELOAD",
                library,
                sys.executable,
                "-c",
                HEAD + CALLS[call],
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT, timeout=120)
            assert done.stdout == f"counted {' '.join(map(str, counts))}\n"

else:
    warnings.warn(
        f"What the real mpi4py sends is compared with a record: there is no {MPIEXEC}, or no compiler.", stacklevel=1
    )


def test_the_duplicate_is_made_once_for_each_communicator() -> None:
    one, two, other, again = (
        run(code, 4).messages
        for code in (
            "comm.allreduce(1)",
            "comm.allreduce(1); comm.allreduce(1)",
            "comm.allreduce(1); comm.Dup().allreduce(1)",
            "half = comm.Dup(); half.allreduce(1); half.Free(); comm.Dup().allreduce(1)",
        )
    )
    assert (one, two) == (22, 36)
    assert other == 2 * one + 8
    assert again == 2 * one + 2 * 8


def test_pkl5_and_reductions_share_it() -> None:
    text = "twin, tag = MPI._commctx_intra(comm); comm.allreduce(1); again, later = MPI._commctx_intra(comm)\n"
    result = run(f"{text}assert (tag, later) == (0, 2); assert twin == again and twin != comm", 4)
    assert result.messages == 22


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 13, 24, 33])
def test_it_is_the_same_however_it_is_simulated(ranks: int) -> None:
    text = (
        "import time; time.sleep(comm.rank % 5 * 3e-7); words = str(comm.rank) * comm.rank\n"
        "assert comm.allreduce(words) == ''.join(str(each) * each for each in range(comm.size))\n"
        "comm.allreduce(1.5); comm.scan(words); comm.exscan([comm.rank]); comm.reduce(words, root=comm.size // 2)"
    )
    ways = [
        {"collectives": "messages"},
        {"collectives": "arrays"},
        {"shards": 2},
        {"collectives": "arrays", "shards": 3},
    ]
    results = [run(text, ranks, **way) for way in ways[: 2 if ranks < 4 else 4]]
    assert len({(result.digest, result.virtual_time_ps, result.messages) for result in results}) == 1


def test_fast_reduce_chooses_between_this_and_a_gather() -> None:
    """All in parentheses shows the order; without `fast_reduce` rank 0, or each rank, combines from the left."""
    text = """
import mpi4py
mpi4py.rc.fast_reduce = {fast}
from mpi4py import MPI
comm = MPI.COMM_WORLD
def pair(a, b): return "(" + a + b + ")"
me = str(comm.rank)
print(comm.rank, comm.reduce(me, pair, 1), comm.allreduce(me, pair), comm.scan(me, pair), comm.exscan(me, pair))
"""
    said = {}
    for fast in (True, False):
        out = io.StringIO()
        simulate(text.format(fast=fast), kind="code", ranks=5, stdout=out, stderr=out)
        said[fast] = sorted(out.getvalue().splitlines())
    whole = {True: "(((01)(23))4)", False: "((((01)2)3)4)"}
    for fast, lines in said.items():
        assert lines[0] == f"0 None {whole[fast]} 0 None"
        assert lines[1] == f"1 {whole[fast]} {whole[fast]} (01) 0"
        assert lines[4] == f"4 None {whole[fast]} {whole[fast]} {whole[fast][1:-2]}"


def test_each_rank_waits_in_all_rounds() -> None:
    """Rank 3 comes late; rank 1, which has sent already, waits for it, too."""
    text = "import time\ncomm.reduce(1)\nif comm.rank == 3: time.sleep(1)\ncomm.reduce(1)\nend = MPI.Wtime()\n"
    run(text + "assert (end >= 1) == (comm.rank != 4), end", 5)
