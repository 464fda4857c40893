"""Buffer arguments are accepted, refused and read as by a real mpi4py."""

import sys

import numpy as np
import pytest

from tests.mpi4py import bufspec_cases as cases
from tests.mpi4py.data_module import real_answers, simulated
from tests.real_mpi import MPIEXEC
from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import Exception as MPIException
from xsim_py.mpi4py.bufspec import (
    FlatBuffer,
    check_same,
    message,
    packed,
    receiver,
    vector_message,
    w_message,
)

MPI = simulated()
DATA = b"0123456789abcdef"  # what the script receives


def _receive(argument):
    receiver(argument).unpack(DATA)
    return cases.memory_of(argument)


def _blocks(arguments):
    source = message(arguments[0], writable=False, blocks=cases.RANKS)
    target = message(arguments[1], writable=True, blocks=cases.RANKS)
    parts = source.pack_parts(cases.RANKS)
    assert parts == [source.pack_part(i) for i in range(cases.RANKS)]
    target.unpack_parts([parts[0]] * cases.RANKS)  # rank 0 gets everybody's first block
    return cases.memory_of(arguments[1])


def _parts(parse):
    def first_parts(argument):
        data = parse(argument, writable=False, blocks=cases.RANKS).pack_parts(cases.RANKS)[0]
        out = bytearray(300)
        for i in range(cases.RANKS):
            out[100 * i : 100 * i + len(data)] = data
        return out.hex()

    return first_parts


CALLS = {
    "send": (cases.POINT_TO_POINT, lambda argument: packed(argument).hex()),
    "receive": (cases.POINT_TO_POINT, _receive),
    "blocks": ([cases.twice(expression) for expression in cases.BLOCKS], _blocks),
    "vectors": (cases.VECTORS, _parts(vector_message)),
    "general": (cases.GENERAL, _parts(w_message)),
}


def _gist(outcome):
    """Messages of Python and numpy themselves vary; those of mpi4py are compared."""
    if isinstance(outcome, list) and not outcome[1].startswith(("message:", "'cannot map", "expecting", "ERR_")):
        return outcome[0]
    return outcome


@pytest.fixture(scope="module")
def real():
    return real_answers(str(MPIEXEC), "-n", str(cases.RANKS), sys.executable, cases.__file__)[0]


@pytest.mark.parametrize("kind", CALLS)
def test_every_form_gives_what_it_gives_in_a_real_mpi(real, kind):
    expressions, call = CALLS[kind]
    different = {}
    for expression, theirs in zip(expressions, real[kind], strict=True):
        ours = cases.outcome(MPI, expression, call)
        if _gist(ours) != _gist(theirs):
            different[expression] = (ours, theirs)
    assert not different


def test_a_message_may_be_shorter_than_the_buffer_but_not_longer():
    for target, datatype in ((np.zeros(4), MPI.DOUBLE), (np.zeros(8), MPI.DOUBLE.Create_vector(4, 1, 2).Commit())):
        spec = [target, 4 if datatype is MPI.DOUBLE else 1, datatype]
        assert receiver(spec).unpack(np.arange(1.0, 3.0).tobytes()) == 16
        assert sorted(target)[-2:] == [1, 2]
        with pytest.raises(MPIException) as caught:
            receiver(spec).unpack(bytes(33))
        assert caught.value.Get_error_class() == c.ERR_TRUNCATE


def test_the_hot_path_truncates_as_the_general_one():
    target = np.zeros(2)
    flat = receiver(target)
    assert type(flat) is FlatBuffer
    assert (flat.count, flat.nbytes, flat.pack()) == (2, 16, bytes(16))
    assert flat.unpack(np.array([7.0]).tobytes()) == 8
    assert target.tolist() == [7, 0]
    with pytest.raises(MPIException) as caught:
        flat.unpack(bytes(17))
    assert caught.value.Get_error_class() == c.ERR_TRUNCATE


def test_more_than_the_buffer_has_is_an_error_where_a_real_mpi_reads_foreign_memory():
    with pytest.raises(MPIException) as caught:
        packed([np.zeros(3), 4, MPI.DOUBLE])
    assert caught.value.Get_error_class() == c.ERR_BUFFER
    assert receiver([np.zeros(3), 4, MPI.DOUBLE]).unpack(bytes(24)) == 24  # as long as it is not touched
    with pytest.raises(MPIException):
        receiver([np.zeros(3), 4, MPI.DOUBLE]).unpack(bytes(32))


def test_bottom_means_absolute_addresses():
    parts = [np.arange(3.0), np.arange(4, dtype="i")]
    places = [part.ctypes.data for part in parts]
    datatype = MPI.Datatype.Create_struct([3, 4], places, [MPI.DOUBLE, MPI.INT]).Commit()
    data = packed([MPI.BOTTOM, 1, datatype])
    assert data == parts[0].tobytes() + parts[1].tobytes()
    receiver([MPI.BOTTOM, 1, datatype]).unpack(bytes(len(data)))
    assert not parts[0].any()
    assert not parts[1].any()


def test_bottom_in_the_w_form():
    a, b = np.arange(2.0), np.arange(5, dtype="i")
    spec = [MPI.BOTTOM, [2, 5], [a.ctypes.data, b.ctypes.data], [MPI.DOUBLE, MPI.INT]]
    assert w_message(spec, writable=False, blocks=2).pack_parts(2) == [a.tobytes(), b.tobytes()]


def test_no_elements_need_no_memory():
    for spec in ([None, [0, 0], MPI.DOUBLE], [np.empty(0), [0, 0]], np.empty(0)):
        assert vector_message(spec, writable=True, blocks=2).pack_parts(2) == [b"", b""]
    for spec in ([None, [0, 0], [0, 0], [MPI.DOUBLE] * 2], [np.empty(0), [0, 0], [0, 0], [MPI.DATATYPE_NULL] * 2]):
        assert w_message(spec, writable=True, blocks=2).pack_parts(2) == [b"", b""]


def test_negative_counts_are_an_mpi_error():
    for call in (
        lambda: vector_message([np.zeros(3), [1, -1]], writable=False, blocks=2),
        lambda: w_message([np.zeros(3), [1, -1], [0, 0], [MPI.DOUBLE] * 2], writable=False, blocks=2),
    ):
        with pytest.raises(MPIException) as caught:
            call()
        assert caught.value.Get_error_class() == c.ERR_COUNT


def test_sizes_of_parts_are_known_before_they_arrive():
    vector = vector_message([np.zeros(6), [1, 2, 3]], writable=True, blocks=3)
    assert [vector.part_bytes(i) for i in range(3)] == [8, 16, 24]
    block = message(np.zeros(6), writable=True, blocks=3)
    assert [block.part_bytes(i) for i in range(3)] == [16] * 3


def test_reductions_need_equal_types_and_counts():
    one = message(np.zeros(3), writable=False)
    check_same(one, message(np.ones(3), writable=True))
    for other in (np.zeros(2), np.zeros(3, "i")):
        with pytest.raises(ValueError, match="mismatch"):
            check_same(one, message(other, writable=True))
