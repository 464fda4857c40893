"""Whatever a user names as a file is read, or refused, in no time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from xsim_py.input_files import MIB, is_file, read_input


def refused(path: str | Path, *, most_bytes: int = MIB) -> str:
    began_s = time.perf_counter()
    with pytest.raises(OSError, match=r"^\[Errno") as caught:
        read_input(path, most_bytes=most_bytes)
    assert time.perf_counter() - began_s < 1
    return str(caught.value.strerror)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * MIB)
    assert read_input(file, most_bytes=MIB) == b"x" * MIB
    file.write_bytes(b"x" * (MIB + 1))
    assert refused(file) == "too large (at most 1 MiB)"


def test_a_device_without_an_end_is_refused() -> None:
    assert refused("/dev/zero") == "too large (at most 1 MiB)"
    assert read_input(os.devnull, most_bytes=MIB) == b""


def test_a_pipe_is_read_and_one_that_nobody_writes_into_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refused(pipe) == "no process writes to this pipe"
    writer = threading.Thread(target=pipe.write_bytes, args=[b"network: {latency: 1us}"])
    writer.start()
    assert read_input(pipe, most_bytes=MIB) == b"network: {latency: 1us}"
    writer.join()
    reading, writing = os.pipe()
    os.close(writing)
    assert refused(f"/dev/fd/{reading}") == "no process writes to this pipe"
    os.close(reading)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/", "Is a directory"),
        ("x" * 300, "File name too long"),
        ("a\0b", "invalid file name"),
        ("\ud800", "invalid file name"),
        ("no/such", "No such file or directory"),
    ],
)
def test_a_name_that_no_file_has_is_refused(name: str, why: str) -> None:
    assert refused(name) == why
    assert not is_file(name)
