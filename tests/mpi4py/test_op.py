"""Operations: each on each predefined type against MPICH, and user-defined ones."""

import contextvars

import numpy as np
import pytest

from tests.mpi4py import op_cases
from tests.mpi4py.data_module import python, real_answers, simulated
from tests.mpi4py.ranks import values_of
from tests.versions import as_checked

MPI = simulated()


if as_checked("mpi4py", "mpich", "numpy"):  # its answers are those of this version

    def test_every_operation_on_every_type_gives_what_mpich_gives():
        real = real_answers(*python(op_cases.__file__))[0]
        ours = op_cases.outcomes(MPI)
        assert {name: (ours[name], real[name]) for name in real if ours[name] != real[name]} == {}
        assert ours.keys() == real.keys()


def test_a_user_function_sees_buffers_and_the_datatype():
    seen = []

    def subtract(source, target, datatype):
        seen.append((type(source), source.nbytes, target.nbytes, datatype == MPI.DOUBLE))
        left, right = np.frombuffer(source), np.frombuffer(target)
        right[:] = left - right

    target = np.array([1.0, 2.0, 3.0])
    MPI.Op.Create(subtract).Reduce_local(np.array([10.0, 20.0, 30.0]), target)
    assert target.tolist() == [9, 18, 27]
    assert seen == [(MPI.buffer, 24, 24, True)]


def test_a_user_function_sees_derived_elements_as_they_lie_in_memory():
    def add(source, target, datatype):
        assert datatype.extent == 24
        left, right = np.frombuffer(source), np.frombuffer(target)
        right[::3] += left[::3]

    strided = MPI.DOUBLE.Create_resized(0, 24).Commit()
    source, target = np.arange(9.0), np.arange(9.0) * 100
    MPI.Op.Create(add, commute=True).Reduce_local([source, 3, strided], [target, 3, strided])
    assert target.tolist() == [0, 100, 200, 303, 400, 500, 606, 700, 800]


def test_what_a_user_function_raises_reaches_the_caller():
    def broken(source, target, datatype):
        raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        MPI.Op.Create(broken).Reduce_local(np.zeros(1), np.zeros(1))


def test_a_user_function_sees_the_context_variables_of_who_began_the_reduction():
    factor = contextvars.ContextVar("factor")

    def program():
        from mpi4py import MPI

        seen = []

        def scaled(source, target, datatype):
            seen.append(factor.get("none"))
            np.frombuffer(target, np.int64)[:] += np.frombuffer(source, np.int64)

        comm = MPI.COMM_WORLD
        op, mine, totals = MPI.Op.Create(scaled), np.array([comm.rank]), np.zeros((3, 1), np.int64)
        plain = comm.Iallreduce(mine, totals[0], op)
        token = factor.set(comm.rank)
        requests = [comm.Iallreduce(mine, totals[1], op), comm.Allreduce_init(mine, totals[2], op)]
        requests[1].Start()
        factor.reset(token)
        MPI.Request.Waitall([plain, *requests])
        return sorted(seen, key=str), totals.tolist()

    assert values_of(program, ranks=2) == [([rank, rank, "none"], [[1]] * 3) for rank in range(2)]
