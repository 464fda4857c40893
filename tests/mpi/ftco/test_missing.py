"""What a collective by FTCO puts where the block of a failed rank belongs, and that all survivors have the same."""

import io
from typing import Any

import numpy as np
import pytest

from xsim_py import simulate
from xsim_py.mpi4py.datatype import TYPE_DICT

BEGIN = """
import time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
size, me = comm.size, comm.rank
mine = np.full(2, 1.0 + me)
every = np.random.default_rng(me + 10 * id(comm)).random((size, 2))
counts = [1, 0, *[2] * (size - 2)]
pairs = MPI.DOUBLE.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT]).Create_resized(0, 16).Commit()
time.sleep(2e-6)
"""
CALLS = {
    "Allgather": "comm.Allgather(mine, every)",
    "in place": "every[me] = mine; comm.Allgather(MPI.IN_PLACE, every)",
    "Iallgather": "comm.Iallgather(mine, every).Wait()",
    "Allgather_init": "call = comm.Allgather_init(mine, every); call.Start(); call.Wait(); call.Free()",
    "Gather": "comm.Gather(mine, every, 1); comm.Bcast(every, 1)",
    "Igather": "comm.Igather(mine, every, 1).Wait(); comm.Bcast(every, 1)",
    "Allgatherv": "comm.Allgatherv([mine, counts[me]], [every, counts]); every.reshape(-1)[sum(counts):] = 0",
    "Gatherv": "comm.Gatherv([mine, counts[me]], [every, counts], 1); "
    "every.reshape(-1)[sum(counts):] = 0; comm.Bcast(every, 1)",
    "a struct": "every.view('i')[:, 3] = 7; comm.Allgather([mine, 1, pairs], [every, 1, pairs])",
}
WAYS: dict[str, dict[str, Any]] = {
    "tree": {"mpi.collectives": "ftco"},
    "halves": {"mpi.collectives": "ftco", "mpi.ftco.algorithm": "recursive_doubling"},
}


def ran(code: str, shards: int = 1, **options: Any) -> Any:
    """Run a program of which rank 2 fails; each survivor has to print the same line."""
    out = io.StringIO()
    told = {"fail": "rank=2@1us", "kind": "code", "stdout": out, "stderr": io.StringIO()}
    result = simulate(f"{BEGIN}{code}", ranks=5, shards=shards, set=options, **told)
    assert result.ended == "finished", result.report
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert len(set(lines)) == 1, lines
    return lines[0], result


@pytest.mark.sampled
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", CALLS)
def test_all_survivors_have_the_same_bytes_and_the_loss_is_seen(call: str, way: str) -> None:
    code = f"{CALLS[call]}\nprint(every.tobytes().hex())"
    (line, result), (again, sharded) = (ran(code, shards, **WAYS[way]) for shards in (1, 3))
    assert (line, result.digest) == (again, sharded.digest)
    every = np.frombuffer(bytes.fromhex(line)).reshape(5, 2)
    lost = every.reshape(-1)[1:3] if call.endswith("v") else every[2, : 1 if call == "a struct" else 2]
    assert np.isnan(lost).all()
    assert np.isnan(every).sum() == len(lost)
    if call == "a struct":
        assert every.view("i")[:, 3].tolist() == [7] * 5  # no element of the type
        assert every.view("i")[2, 2] == 0
    assert result.warnings == []


@pytest.mark.parametrize(("missing", "block"), [("nan", "[0 0] nan"), ("zero", "[0 0] 0.0"), ("none", "[8 8] 9.0")])
def test_what_a_block_is_goes_by_its_datatype_and_the_machine(missing: str, block: str) -> None:
    code = (
        "whole, half = np.full((size, 2), 8), np.full(size, 9, np.float16)\n"
        "comm.Allgather(np.full(2, me), whole)\n"
        "comm.Allgather([np.full(1, me, np.float16), 2, MPI.BYTE], [half, 2, MPI.BYTE])\n"
        "single = np.full(size, 9, np.float32)\n"
        "comm.Allgather(np.full(1, me, np.float32), single)\n"
        "print(whole[2], single[2], half[2], comm.allgather(me)[2])"
    )
    line, result = ran(code, **WAYS["tree"], **{"mpi.ftco.missing": missing})
    assert line == f"{block} {'9.0' if missing == 'none' else '0.0'} None"
    warned = (
        "rank 1: Comm.Allgather (<string>:13) kept old bytes in block 2 of its buffer (and 11 more): they may differ "
        "between ranks and runs; drop mpi.ftco.missing=none"
    )
    assert result.warnings == ([warned] if missing == "none" else [])


@pytest.mark.parametrize("code", "?bBhHiIlLqQefdgFDG")
def test_every_basic_type_has_a_value_that_says_nothing(code: str) -> None:
    dtype = np.dtype(code)
    values = np.frombuffer(TYPE_DICT[code]._impl.unknown(3 * dtype.itemsize), dtype)
    assert len(values) == 3
    assert np.isnan(values).all() if dtype.kind in "fc" else not values.any()
