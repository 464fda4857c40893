"""A rank's environment is its own for Python, for C code and for its children."""

import ctypes
import os
from pathlib import Path

import pytest

from tests.process.launch import launch


def test_children_and_c_code_get_the_environment_of_the_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XSIM_TEST_OLD", "old")
    text = """
        import ctypes, os, subprocess
        getenv = ctypes.CDLL(None).getenv
        getenv.restype = ctypes.c_char_p
        if rank < 2:
            os.environ["XSIM_TEST_NEW"] = f"of{rank}"
        if rank == 1:
            del os.environ["XSIM_TEST_OLD"]
            os.putenv("XSIM_TEST_UNSEEN", "there")
        comm.Barrier()
        command = "echo $XSIM_TEST_NEW $XSIM_TEST_OLD $XSIM_TEST_UNSEEN"
        print(rank, getenv(b"XSIM_TEST_NEW"), os.environb.get(b"XSIM_TEST_NEW"), "XSIM_TEST_UNSEEN" in os.environ)
        print(rank, *subprocess.run(command, shell=True, capture_output=True, text=True).stdout.split())
        file = f"said{rank}"
        os.system(f"{command} > {file}")
        os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"{command} >> {file}")
        print(rank, *open(file).read().split())
        """
    monkeypatch.chdir(tmp_path)
    done = launch(tmp_path, text, ranks=3)
    assert sorted(done.lines) == [
        "0 b'of0' b'of0' False",
        "0 of0 old",
        "0 of0 old of0 old",
        "1 b'of1' b'of1' False",
        "1 of1 there",
        "1 of1 there of1 there",
        "2 None None False",
        "2 old",
        "2 old old",
    ]


def test_the_environment_of_the_process_is_what_it_was_and_can_be_changed_again(tmp_path: Path):
    before = dict(os.environ)
    launch(tmp_path, "import os; os.environ.clear()", ranks=2)
    assert dict(os.environ) == before
    os.environ["XSIM_TEST_NEW"] = "new"
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    assert (getenv(b"XSIM_TEST_NEW"), getenv(b"PATH")) == (b"new", os.environb[b"PATH"])
    del os.environ["XSIM_TEST_NEW"]
    assert getenv(b"XSIM_TEST_NEW") is None


@pytest.mark.parametrize("bad", ["os.putenv('a=b', 'c')", "os.putenv('a', 'b\\0')", "os.unsetenv('a\\0')"])
def test_what_is_no_variable_is_refused(tmp_path: Path, bad: str):
    text = f"""
        import os
        try:
            {bad}
        except ValueError as error:
            print(error)
        """
    real = ["illegal environment variable name", "embedded null byte"]
    assert launch(tmp_path, text).lines[0] in real


def test_a_rank_cannot_become_another_program(tmp_path: Path):
    done = launch(tmp_path, "import os; os.execvp('true', ['true'])", ranks=2)
    assert done.err.splitlines()[-1].startswith("NotImplementedError: os.execv")


def test_children_find_what_the_launcher_has_put_there(tmp_path: Path):
    text = """
        import os, subprocess
        said = subprocess.run("echo $PMI_RANK", shell=True, capture_output=True, text=True).stdout.split()
        print(rank, *said, os.environ["PMI_RANK"])
        """
    assert sorted(launch(tmp_path, text, ranks=2).lines) == ["0 0 0", "1 1 1"]


def test_children_on_a_terminal_of_their_own_find_it_too(tmp_path: Path):
    text = """
        import ctypes, os
        getenv = ctypes.CDLL(None).getenv
        getenv.restype = ctypes.c_char_p
        child, terminal = os.forkpty()
        if child == 0:
            os.write(1, getenv(b"PMI_RANK") or b"nothing")
            os._exit(0)
        print(rank, os.read(terminal, 100))
        os.waitpid(child, 0)
        """
    assert sorted(launch(tmp_path, text, ranks=2).lines) == ["0 b'0'", "1 b'1'"]
