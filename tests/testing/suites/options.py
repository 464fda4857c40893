"""Each test looks at what an option of the command line has made of its run."""

import random

import pytest
from mpi4py import MPI

from xsim_py.process.ranks import current

pytestmark = pytest.mark.ranks(3)


def test_machine(comm):
    assert len(set(comm.allgather(MPI.Get_processor_name()))) == 1


@pytest.mark.ranks(3, machine="gige")
def test_a_mark_comes_before_the_option(comm):
    assert len(set(comm.allgather(MPI.Get_processor_name()))) == 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("drawn")


@pytest.mark.ranks(3, seed=7)
def test_seed_of_a_mark(comm, folder):
    (folder / f"seven-{comm.rank}").write_text(str(random.random()))


@pytest.mark.ranks(3, seed=8)
def test_another_seed(comm, folder):
    (folder / f"eight-{comm.rank}").write_text(str(random.random()))


def test_seed(comm, folder):
    drawn = str(random.random())
    assert (folder / f"seven-{comm.rank}").read_text() == drawn != (folder / f"eight-{comm.rank}").read_text()


def test_shards(comm):
    assert set(comm.allgather(current.rank().shard.number)) == {0, 1}


def test_fail(comm):
    comm.Barrier()
    comm.Barrier()
    with pytest.raises(MPI.Exception):
        comm.Barrier()
    comm.Revoke()
    assert comm.Shrink().size == 1
