"""Output that nobody takes."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import ROOT
from tests.cli.helpers import FakeSimulator
from tests.warm import client
from xsim_py.cli import main
from xsim_py.cli.output_errors import CannotWrite, Patient, writing

SAYING = "from mpi4py import MPI; print('rank', MPI.COMM_WORLD.rank)"
FULL = "xsim: cannot write the output: No space left on device\n"


def xsim(stdout: int, *words: str) -> tuple[int, str]:
    """Exit status and standard error of a command with that standard output, which is closed then."""
    line = [sys.executable, "-ISc", client(), *words]
    try:
        done = subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=300)
    finally:
        os.close(stdout)
    return done.returncode, done.stderr


def full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def unread() -> int:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(("make", "status", "said"), [(full, 74, FULL), (unread, 141, "")], ids=["full", "unread"])
def test_results_are_written_all_the_same(make, status: int, said: str, tmp_path: Path):
    words = ("run", "-n", "3", "--quiet", "--out")
    taken = os.open(tmp_path / "printed", os.O_WRONLY | os.O_CREAT)
    assert xsim(taken, *words, str(tmp_path / "expected"), "-c", SAYING) == (0, "")
    assert xsim(make(), *words, str(tmp_path / "found"), "-c", SAYING) == (status, said)
    expected, found = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("expected", "found"))
    assert (found["ended"], found["digest"]) == ("finished", expected["digest"])
    assert sorted(os.listdir(tmp_path / "found")) == sorted(os.listdir(tmp_path / "expected"))


def test_results_are_written_when_nobody_hears_what_we_say(tmp_path: Path):
    writer = unread()
    line = [sys.executable, "-m", "xsim_py", "run", "-n", "3", "--out", str(tmp_path), "-c", SAYING]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(line, env=environment, stdout=writer, stderr=writer, timeout=300)
    finally:
        os.close(writer)
    assert done.returncode == 141
    assert (tmp_path / "result.json").is_file()


@pytest.mark.parametrize("words", [("run", "-n", "2", "--quiet", "-c", SAYING), ("models",)], ids=["run", "models"])
def test_a_full_disk_is_one_line(words: tuple[str, ...]):
    assert xsim(full(), *words) == (74, FULL)


def test_results_for_standard_output_come_last(tmp_path: Path):
    status, said = xsim(full(), "run", "-n", "1", "--quiet", "--json", "-", "--out", str(tmp_path), "-c", "")
    assert (status, (tmp_path / "result.json").is_file()) == (74, True)
    assert said in (FULL, "xsim: cannot write the results: standard output: No space left on device\n")


def test_results_that_find_no_place_after_all(simulator: FakeSimulator, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "-n", "1", "--quiet", "--json", "/dev/full", "prog.py"]) == 74
    said = "xsim: cannot write the results: /dev/full: No space left on device\n"
    assert capsys.readouterr() == ("from the program\n", said)


def test_other_errors_of_the_system_are_not_taken_for_a_full_disk(simulator: FakeSimulator):
    simulator.raises = OSError(errno.EMFILE, "Too many open files")
    with pytest.raises(OSError, match="Too many open files"):
        main(["run", "-n", "1", "prog.py"])


def test_a_patient_file_takes_text_and_bytes_and_keeps_the_first_error():
    class Refusing(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, text)

    patient = Patient(Refusing())
    assert not hasattr(patient, "buffer")
    assert [patient.write("first"), patient.write("then")] == [5, 4]
    patient.flush()
    assert patient.error is not None
    assert patient.error.strerror == "first"
    taken = io.TextIOWrapper(io.BytesIO())
    Patient(taken).buffer.write(b"\xff")
    assert taken.buffer.getvalue() == b"\xff"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [None, 7, "/elsewhere/input.yaml"])
@pytest.mark.parametrize("folder", [Path(), Path("out")])
def test_beside_other_things_an_error_that_names_nothing_in_the_folder_is_not_about_the_results(folder: Path, name):
    with pytest.raises(OSError, match="too many"), writing(folder):
        raise OSError(errno.EMFILE, "too many", name)


@pytest.mark.parametrize("name", ["out/runs.csv", Path("out/runs.csv").absolute()])
def test_an_error_that_names_something_in_the_folder_is_about_the_results(name):
    with pytest.raises(CannotWrite, match="cannot write the results"), writing(Path("out")):
        raise OSError(errno.EMFILE, "too many", name)
