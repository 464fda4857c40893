"""The results of a study on disk: one line of JSON per completed run, only ever appended.

An append-only file is robust: an interrupt loses only the runs in progress, and a line truncated by a crash is
detected and skipped, as is one without a required entry of the right type. Such a run is missing, and repeated. The
last line of a key is valid.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from xsim_py.errors import ConfigError
from xsim_py.study.task import is_outcome

NAME: Final = "runs.jsonl"

_START: Final = b'{"key": "'


class Store:
    """The file of results in a study's directory, open in one process at a time.

    It is created if necessary. `outcomes` contains the outcome of each stored run, by its key; empty if `fresh`. Raises
    ConfigError if the directory cannot be written, contains a foreign file of that name, or is in use.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.path = folder / NAME
        self.outcomes: dict[str, dict[str, Any]] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b", opener=_itself)  # noqa: SIM115
        except OSError as error:
            raise ConfigError(f"{error.filename or folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if fresh:
                self._file.truncate(0)
            self._read()
        except BlockingIOError:
            self._file.close()
            raise ConfigError(
                f"{self.path}: this directory is in use by another study; choose one with --out"
            ) from None
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # closing repeats a failed write of `add`, which has been reported
            self._file.close()

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        self.outcomes = _outcomes(self.path, data)
        if data and not data.endswith(b"\n"):
            self._file.write(b"\n")

    def add(self, key: str, settings: dict[str, Any], columns: dict[str, Any], outcome: dict[str, Any]) -> None:
        """Append the outcome of a run; it is on disk when this returns."""
        record = {"key": key, "columns": columns, "settings": settings, "outcome": outcome}
        self.outcomes[key] = outcome
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error


def read_outcomes(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the outcomes stored in a directory, by the keys of runs; empty without a directory.

    Raise ConfigError if the file cannot be read, or is a foreign one of that name.
    """
    try:
        with open(folder / NAME, "rb", opener=_itself) as file:
            return _outcomes(folder / NAME, file.read())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{folder / NAME}: {error.strerror}") from error


def _itself(path: str, flags: int) -> int:
    """Open a regular file without following links: the directory may be untrusted."""
    wrong = "results cannot be written through a link or a pipe; use another directory"
    try:
        number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, wrong, path) from error
        raise
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, wrong, path)
    return number


def _outcomes(path: Path, data: bytes) -> dict[str, dict[str, Any]]:
    outcomes = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            record = json.loads(line, parse_constant=_refuse)
            if not isinstance(record["key"], str) or not is_outcome(record["outcome"]):
                raise ValueError("no result")
            outcomes[record["key"]] = record["outcome"]
        except (ValueError, KeyError, TypeError, RecursionError):
            if not _START.startswith(line[: len(_START)]):  # otherwise a crash truncated it, and the rest is intact
                raise ConfigError(f"{path}:{number}: not a result of a study; use another directory") from None
    return outcomes


def _refuse(constant: str) -> object:
    """Reject NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(constant)
