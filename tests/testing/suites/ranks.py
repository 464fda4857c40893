import logging
import os
import unittest
import warnings

import library
import numpy as np
import pytest
from mpi4py import MPI

setups = []


def setup_module():
    library.VALUE = 8
    setups.append("module")


@pytest.fixture(scope="module")
def array():
    setups.append("array")
    assert setups.count("array") == 1
    return np.zeros(3)


@pytest.fixture(scope="class")
def of_class(request):
    request.cls.value = "set"


@pytest.fixture
def grid():
    return library.Grid(5)


@pytest.fixture
def number(comm):
    yield comm.rank
    comm.barrier()


@pytest.fixture
def hidden():
    return MPI.COMM_WORLD.size


@pytest.fixture
def asked_for_late(request):
    return request.getfixturevalue("comm").size


@pytest.fixture(params=["x", "y"])
def letter(request, comm):
    return request.param, request.node.name, comm.rank


@pytest.mark.ranks(2, 3, 8, 64)
def test_numbers(comm):
    assert library.total(comm) == sum(range(comm.size)) and library.world_size() == comm.size


def test_unmarked(comm):
    assert comm.size == 2


@pytest.mark.ranks(4)
@pytest.mark.parametrize("k", [1, 2])
def test_fixtures(comm, k, array, grid, number, hidden, letter):
    assert setups == ["module", "array"] and library.VALUE == 8
    array += comm.rank
    comm.barrier()
    assert array[0] == comm.rank == number and hidden == 4 and isinstance(grid, library.Grid)
    assert letter[0] in "xy" and letter[2] == comm.rank


@pytest.mark.ranks(3)
def test_fixtures_that_are_asked_for_late(asked_for_late, request):
    assert asked_for_late == 3
    assert [*request.getfixturevalue("tmp_path").iterdir()] == []
    assert request.getfixturevalue("number") in range(3)


@pytest.mark.ranks(4)
def test_tmp_path(comm, tmp_path, mpi_tmp_path):
    (tmp_path / str(comm.rank)).touch()
    comm.barrier()
    assert len([*tmp_path.iterdir()]) == 4 and tmp_path == mpi_tmp_path


@pytest.mark.ranks(3)
def test_monkeypatch(comm, monkeypatch):
    monkeypatch.setattr(library, "VALUE", comm.rank)
    monkeypatch.setattr(os, "getlogin", lambda: comm.rank)
    monkeypatch.setattr(np.linalg.LinAlgError, "number", comm.rank, raising=False)
    monkeypatch.setenv("NUMBER", str(comm.rank))
    comm.barrier()
    assert library.VALUE == os.getlogin() == np.linalg.LinAlgError.number == int(os.environ["NUMBER"]) == comm.rank


def test_nothing_is_left():
    assert library.VALUE == 8 and "NUMBER" not in os.environ and not hasattr(np.linalg.LinAlgError, "number")
    assert os.getlogin.__module__ == "posix"


@pytest.mark.ranks(2)
def test_capture(comm, capsys):
    print("said", comm.rank)
    comm.barrier()
    assert capsys.readouterr().out == f"said {comm.rank}\n"


@pytest.mark.ranks(2)
def test_capture_of_descriptors(comm, capfd):
    os.write(1, b"raw %d\n" % comm.rank)
    comm.barrier()
    assert capfd.readouterr().out == f"raw {comm.rank}\n"


@pytest.mark.ranks(2)
def test_log(comm, caplog, recwarn):
    logging.getLogger("its").warning("from %d", comm.rank)
    with pytest.warns(UserWarning, match=str(comm.rank)):
        warnings.warn(f"of {comm.rank}", stacklevel=1)
    comm.barrier()
    assert caplog.messages == [f"from {comm.rank}"]


@pytest.mark.ranks(2)
def test_raises(comm):
    with pytest.raises(ZeroDivisionError):
        comm.rank / 0


@pytest.mark.ranks(2)
def test_some_skip(comm):
    if comm.rank:
        pytest.skip("not here")


@pytest.mark.ranks(2)
def test_all_skip(comm):
    pytest.skip("nowhere")


@pytest.mark.ranks(2)
@pytest.mark.xfail(raises=ZeroDivisionError, strict=True)
def test_xfail(comm):
    comm.rank / 0


@pytest.mark.ranks(3, machine="shmem", fail="rank=1 before its 1st Barrier")
def test_death(comm):
    with pytest.raises(MPI.Exception):
        comm.Barrier()
    comm.Revoke()
    assert comm.Shrink().size == 2


@pytest.mark.ranks(2, 3)
@pytest.mark.usefixtures("of_class")
class TestClass:
    @classmethod
    def setup_class(cls):
        cls.own_size = MPI.COMM_WORLD.size

    def setup_method(self):
        self.list = [1]

    @pytest.fixture(autouse=True)
    def keep(self, comm):
        self.comm = comm

    def test_it(self):
        self.list.append(self.comm.rank)
        self.comm.barrier()
        assert (self.list, self.value, self.own_size) == ([1, self.comm.rank], "set", self.comm.size)


@pytest.mark.ranks(2, 4)
class TestUnit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.comm = MPI.COMM_WORLD

    def setUp(self):
        self.rank = self.comm.rank

    def test_it(self):
        self.assertEqual(self.comm.allreduce(self.rank), sum(range(self.comm.size)))

    @unittest.skip("never")
    def test_skipped(self):
        raise AssertionError

    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(self.rank, -1)
