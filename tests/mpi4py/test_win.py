"""Windows as memory, and as objects of Python."""

import ast

import pytest

from tests.process.launch import launch
from xsim_py.mpi4py import MPI
from xsim_py.mpi4py.door import known_calls


def test_a_window_is_memory(tmp_path):
    program = """
        class Own(MPI.Win):
            pass
        win = MPI.Win.Allocate(16, 4)
        numbers = memoryview(win).cast("i")
        numbers[2] = 7
        print(list(memoryview(Own(win)).cast("i")), bytes(win.tomemory())[8], win.attrs[1:], memoryview(win).readonly)
        print(MPI.Get_address(win.tomemory()) == win.attrs[0] == win.Get_attr(MPI.WIN_BASE))
        numbers.release()
        win.Free()
        print(win == MPI.WIN_NULL, bool(win))
        empty = MPI.Win.Allocate(0)
        print(len(memoryview(empty)), empty.attrs, MPI.Get_address(empty.tomemory()))
    """
    assert launch(tmp_path, program).lines == ["[0, 0, 7, 0] 7 (16, 4) False", "True", "True False", "0 (0, 0, 1) 0"]


def test_two_names_of_one_window_are_equal_and_die_together(tmp_path):
    program = """
        win = MPI.Win.Allocate(8)
        other = MPI.Win(win)
        again = MPI.Win.fromhandle(win.handle)
        print(win == other == again, win == MPI.Win.Allocate(8))
        win.Free()
        print(win == other)
        try:
            other.Fence()
        except MPI.Exception as error:
            print(error)
    """
    assert launch(tmp_path, program).lines == [
        "True False", "False", "MPI_ERR_WIN: invalid window (the window was freed)",
    ]  # fmt: skip


def test_hints_are_kept_beside_those_of_the_standard(tmp_path):
    program = """
        win = MPI.Win.Allocate(8, info=MPI.Info.Create({"no_locks": "true", "mine": "1"}))
        win.info = MPI.Info.Create({"same_size": "true"})
        print(sorted(win.info.items()))
    """
    (line,) = launch(tmp_path, program).lines
    standard = {"accumulate_ops": "same_op_no_op", "accumulate_ordering": "rar,raw,war,waw", "same_disp_unit": "false"}
    assert dict(ast.literal_eval(line)) == {**standard, "mine": "1", "no_locks": "true", "same_size": "true"}


def test_null_is_one_of_a_kind():
    assert MPI.Win() == MPI.WIN_NULL
    assert MPI.WIN_NULL.Get_name() == "MPI_WIN_NULL"
    with pytest.raises(TypeError):
        MPI.Win(MPI.COMM_NULL)
    with pytest.raises(TypeError, match="bytes-like"):
        memoryview(MPI.COMM_NULL)


def test_arguments_of_another_kind_are_refused(tmp_path):
    program = """
        def refused(function, *args, **kwargs):
            try:
                function(*args, **kwargs)
            except TypeError as error:
                print(error)
        refused(MPI.Win.Allocate, 8, comm=MPI.COMM_NULL)
        win = MPI.Win.Allocate(8)
        win.Fence()
        refused(win.Accumulate, bytearray(8), 0, op=max)
        refused(win.Put, bytearray(8), "0")
        refused(MPI.Win.Create, 3)
    """
    first, second, *others = launch(tmp_path, program).lines
    assert first == "Argument 'comm' has incorrect type (expected mpi4py.MPI.Intracomm, got mpi4py.MPI.Comm)"
    assert second.startswith("Argument 'op' has incorrect type")
    assert len(others) == 2


def test_the_calls_of_windows_are_calls_of_a_program():
    assert {"Put", "Fence", "Lock_all", "Rget_accumulate"} <= known_calls()
