"""A run has one digest, whatever the number of shards, the process, the hash seed and the second time."""

import json
import os
import subprocess
import sys

import pytest

from tests.campaign import CAMPAIGN
from tests.cases import ROOT, Case, all_cases, largest_cases
from tests.real_mpi import MPIEXEC, mpiexec
from tests.simulated import digest_of

CASES = largest_cases(all_cases())
CHECKED = CASES if CAMPAIGN else CASES[::3]
SHARDS = (1, 2, 3, 7)


@pytest.fixture(scope="module")
def digests() -> dict[str, str]:
    """The digests in a process with a hash seed of its own, on one shard."""
    environment = {**os.environ, "PYTHONHASHSEED": "271828"}
    command = [sys.executable, "-m", "tests.simulated", *sorted({case.path.stem for case in CHECKED})]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.sampled
@pytest.mark.parametrize("case", CHECKED, ids=str)
def test_the_digest_depends_neither_on_shards_nor_on_the_process(case: Case, digests: dict[str, str]):
    number = CHECKED.index(case) % 3 + 1
    found = {shards: digest_of(case, shards=shards) for shards in (SHARDS if CAMPAIGN else SHARDS[number : number + 1])}
    assert found == dict.fromkeys(found, digests[str(case)])


def test_the_hashes_in_a_digest_are_those_of_every_version_of_python():
    assert hash((0, -1, 2**63)) == -5571877222012897143
    assert hash((10**12, 1, 0, 5, 8, 2**40)) == -2107254099971370852


if MPIEXEC.exists():

    def test_two_real_mpi_ranks_give_the_same_digests(digests: dict[str, str]):
        names = {case.path.stem for case in (CASES if CAMPAIGN else CASES[::12])}
        done = mpiexec(2, "-m", "tests.simulated", *sorted(names))
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert len(found) >= len(names)
        assert found == {name: digests[name] for name in found}
