"""What is read off a typed buffer at once is what the general way finds in it."""

import numpy as np
import pytest

from xsim_py.checks.signatures import of_buffer, of_elements
from xsim_py.mpi4py import MPI
from xsim_py.mpi4py.bufspec import message

COLUMN = MPI.DOUBLE.Create_vector(2, 1, 3).Commit()


@pytest.mark.parametrize("count", [-1, 0, 3])
@pytest.mark.parametrize("datatype", [MPI.DOUBLE, MPI.BYTE, COLUMN, MPI.DATATYPE_NULL, COLUMN.Create_contiguous(2)])
def test_a_buffer_with_its_datatype_is_as_the_general_way_finds_it(count: int, datatype: MPI.Datatype):
    buf = [np.zeros(40), count, datatype]
    try:
        parsed = message(buf, writable=False)
    except (MPI.Exception, ValueError):
        assert not of_buffer(buf)
    else:
        assert of_buffer(buf) == of_elements(parsed.datatype, parsed.count)
