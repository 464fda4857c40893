"""`MPI.File` as a program has it: handles, subclasses, buffers, error handlers; what calls do is in tests/mpi/io."""

from contextlib import chdir
from pathlib import Path
from textwrap import dedent

import pytest

from tests.process.launch import Launched, launch

NETWORK = {"network": {"latency": "1us"}}
OPEN = 'MPI.File.Open(comm, "data", MPI.MODE_CREATE | MPI.MODE_RDWR)'


def run(folder: Path, text: str, ranks: int = 1) -> Launched:
    with chdir(folder):
        return launch(folder, dedent(text), machine=NETWORK, ranks=ranks)


def lines(done: Launched) -> list[str]:
    assert done.result.ended == "finished", done.err
    return done.lines


def test_subclasses_and_copies_name_the_same_file(tmp_path: Path):
    text = f"""
    class Log(MPI.File):
        def line(self, text):
            self.Write_shared(text.encode() + b"\\n")

    log = Log.{OPEN[9:]}
    log.line("one")
    other = Log(log)
    other.line("two")
    print(type(log).__name__, log == other, log != MPI.FILE_NULL, MPI.File.fromint(log.toint()) == log)
    print(MPI.File.f2py(log.py2f()) == log, bool(log), bool(MPI.File()), MPI.File() == MPI.FILE_NULL)
    log.Close()
    try:
        other.Get_size()
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_FILE, bool(log))
    """
    assert lines(run(tmp_path, text)) == ["Log True True True", "True True False True", "True False"]
    assert (tmp_path / "data").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("path", ["'data'", "b'data'", "__import__('pathlib').Path('data')"])
def test_paths_have_the_forms_that_open_takes(tmp_path: Path, path: str):
    text = f"MPI.File.Open(comm, {path}, MPI.MODE_CREATE | MPI.MODE_WRONLY).Close(); MPI.File.Delete({path})"
    assert lines(run(tmp_path, text)) == []
    assert not (tmp_path / "data").exists()


def test_buffers_have_the_forms_of_messages(tmp_path: Path):
    text = f"""
    import array
    import numpy as np

    file = {OPEN}
    file.Write(array.array("i", [1, 2, 3]))
    file.Write([np.arange(10, dtype="i4"), 2, MPI.INT])
    file.Write([np.arange(10, dtype="i4"), (2, 5), "i"])
    file.Write([np.arange(6, dtype="i4"), 1, MPI.INT.Create_vector(3, 1, 2).Commit()])
    file.Write(b"")
    whole = np.zeros(10, "i4")
    file.Read_at(0, [whole, MPI.INT])
    print(*whole, file.Get_position())
    with memoryview(bytearray(4)) as view:
        file.Read_at(4, view)
        print(view.cast("i")[0])
    for wrong in (None, 5, [whole, -1, MPI.INT], b"read only"):
        try:
            file.Read_at(0, wrong)
        except (TypeError, ValueError, BufferError) as error:
            print(type(error).__name__)
    """
    found = ["1 2 3 0 1 5 6 0 2 4 40", "2", "TypeError", "TypeError", "ValueError", "BufferError"]
    assert lines(run(tmp_path, text)) == found


def test_what_goes_wrong_without_a_file_goes_to_the_handler_of_file_null(tmp_path: Path):
    text = """
    handler = MPI.File.Create_errhandler(
        lambda file, code: print(rank, file == MPI.FILE_NULL, MPI.Get_error_class(code) == MPI.ERR_NO_SUCH_FILE)
    )
    if rank == 0:
        MPI.FILE_NULL.Set_errhandler(handler)
    print(rank, MPI.FILE_NULL.Get_errhandler() == handler)
    try:
        print(rank, bool(MPI.File.Open(comm, "missing", MPI.MODE_RDONLY)))
    except MPI.Exception as error:
        print(rank, error.Get_error_class() == MPI.ERR_NO_SUCH_FILE)
    MPI.FILE_NULL.Call_errhandler(MPI.ERR_NO_SUCH_FILE)
    """
    found = ["0 True", "0 True True", "0 False", "0 True True", "1 False", "1 True"]
    assert sorted(lines(run(tmp_path, text, ranks=2))) == sorted(found)


def test_a_fatal_error_of_a_file_ends_the_job_and_names_it(tmp_path: Path):
    done = run(tmp_path, f"file = {OPEN}; file.Set_errhandler(MPI.ERRORS_ARE_FATAL); file.Seek(-1)")
    assert done.result.ended == "aborted"
    assert "MPI_ERRORS_ARE_FATAL at rank 0 on file 'data' of 1 rank: MPI_ERR_ARG" in done.result.report
    done = run(tmp_path, "MPI.FILE_NULL.Set_errhandler(MPI.ERRORS_ARE_FATAL); MPI.File.Delete('missing')")
    assert done.result.ended == "aborted"
    assert "MPI_ERRORS_ARE_FATAL at rank 0 on MPI_FILE_NULL: MPI_ERR_NO_SUCH_FILE" in done.result.report


def test_a_missing_file_is_named_by_its_path_as_given(tmp_path: Path):
    text = f"""
    for path in ("some/x.bin", "{tmp_path.parent}/y.bin"):
        try:
            MPI.File.Open(comm, path, MPI.MODE_RDONLY)
        except MPI.Exception as error:
            print(error)
    """
    said = "MPI_ERR_NO_SUCH_FILE: no such file ({}: No such file or directory)"
    found = [said.format(path) for path in ("some/x.bin", tmp_path.parent / "y.bin")]
    assert lines(run(tmp_path, text)) == found


def test_an_error_of_a_request_is_raised_where_the_request_is_completed(tmp_path: Path):
    text = f"""
    import numpy as np

    file = {OPEN}
    file.Set_view(0, MPI.BYTE, MPI.BYTE.Create_vector(0, 1, 1).Commit())
    request = file.Iwrite(np.ones(3, "u1"))
    try:
        request.Wait()
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_IO, request == MPI.REQUEST_NULL)
    """
    assert lines(run(tmp_path, text)) == ["True True"]


def test_a_view_gives_types_that_the_program_may_free(tmp_path: Path):
    text = f"""
    file = {OPEN}
    column = MPI.INT.Create_vector(3, 1, 4).Commit()
    file.Set_view(8, MPI.INT, column)
    column.Free()
    displacement, etype, filetype, representation = file.Get_view()
    print(displacement, etype == MPI.INT, filetype.size, filetype.decode()[1], representation)
    filetype.Free()
    print(file.Get_byte_offset(2), file.Get_view()[2].extent)
    """
    assert lines(run(tmp_path, text)) == ["8 True 12 DUP native", "40 36"]
