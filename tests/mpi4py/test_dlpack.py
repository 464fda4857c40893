"""Objects that offer their memory by DLPack or the CUDA array interface can be sent and received."""

import gc

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of
from xsim_py.mpi4py.dlpack import foreign
from xsim_py.mpi4py.memory import buffer, flat_view


class ByDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class ByAddress:
    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {**array.__array_interface__, **changes}


@pytest.mark.parametrize("code", ["?", "b", "h", "i", "l", "B", "H", "I", "L", "e", "f", "d", "F", "D"])
@pytest.mark.parametrize("kind", [ByDlpack, ByAddress])
def test_the_memory_is_the_object_s_own_with_its_type(kind, code):
    array = np.arange(6).astype(code).reshape(2, 3)
    view = foreign(kind(array))
    assert view.format == array.data.format
    np.asarray(view)[-1] = 0
    assert array[1, 2] == 0


def test_a_view_outlives_its_object():
    view = flat_view(ByDlpack(np.arange(1000)), writable=True)
    gc.collect()
    assert np.frombuffer(view, np.int64).tolist() == list(range(1000))


@pytest.mark.parametrize("kind", [ByDlpack, ByAddress])
def test_gaps_are_refused_and_the_order_of_fortran_is_not(kind):
    square = np.arange(9.0).reshape(3, 3)
    assert foreign(kind(square.T)).nbytes == 72
    with pytest.raises(BufferError, match="not contiguous"):
        foreign(kind(square[:, :2]))


def test_memory_that_the_processor_cannot_read_is_refused():
    with pytest.raises(NotImplementedError, match="no GPU"):
        foreign(ByAddress(np.zeros(3), data=(4096, False)))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"typestr": ">f8"}, BufferError),
        ({"mask": 1}, BufferError),
        ({"shape": None}, TypeError),
        ({"data": 0}, TypeError),
    ],
)
def test_what_the_interface_does_not_say_well_is_refused(changes, error):
    with pytest.raises(error):
        foreign(ByAddress(np.zeros(3), **changes))


def test_what_is_a_device_s_can_be_sent_but_not_looked_at():
    shown = buffer.frombuffer(ByAddress(np.arange(3)))
    for look in (shown.tobytes, lambda: shown.cast("l"), lambda: shown[0], lambda: shown.__setitem__(0, 1)):
        with pytest.raises(BufferError, match="not CPU-accessible"):
            look()
    assert buffer.frombuffer(ByDlpack(np.arange(3))).cast("l").tolist() == [0, 1, 2]


def test_a_message_goes_from_one_to_the_other():
    def program():
        from mpi4py import MPI

        source, target = np.arange(5.0), np.zeros(5)
        MPI.COMM_SELF.Sendrecv(ByDlpack(source), 0, recvbuf=ByAddress(target), source=0)
        return target.tolist()

    assert values_of(program, ranks=1) == [[0.0, 1.0, 2.0, 3.0, 4.0]]
