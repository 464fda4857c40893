"""Errors that are no failures: who has one raises it, and nobody waits for him."""

import pytest

from tests.mpi4py.resilience.layered import layered

pytestmark = pytest.mark.usefixtures("in_this_process")

EXCLUSIVE = """
try:
    file = MPI.File.Open(comm, "precious", MPI.MODE_CREATE | MPI.MODE_EXCL | MPI.MODE_WRONLY)
    file.Write_at(0, b"new")
    file.Close()
    print("opened")
except MPI.Exception as error:
    print(error.Get_error_class() == MPI.ERR_FILE_EXISTS)
"""


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("fail", ["before its 1st Open", "@0s", "@41us", "@81us"])
def test_only_a_call_that_has_made_the_file_opens_it_once_more(victim: int, fail: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").write_text("precious")
    options = {"ranks": 3, "fail": f"rank={victim}{'' if fail[0] == '@' else ' '}{fail}"}
    out, result = layered(EXCLUSIVE, **options)
    assert (set(out.split("\n")), result.ended) == ({"", "True"}, "finished")
    assert (tmp_path / "precious").read_text() == "precious"
    (tmp_path / "precious").unlink()
    out, result = layered(EXCLUSIVE, **options)
    assert (set(out.split("\n")), result.ended) == ({"", "opened"}, "finished")
    assert (tmp_path / "precious").read_text() == "new"
