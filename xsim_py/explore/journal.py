"""An append-only file of the completed runs of an exploration.

It has a header line, then one line per run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from xsim_py import __version__
from xsim_py.errors import ConfigError
from xsim_py.explore.runs import Call, RunSummary


class ExplorationJournal:
    """The runs of one exploration, by the text of their case; without a file nothing is stored.

    `done` has the results stored in the file.
    """

    def __init__(self, file: IO[str] | None, done: dict[str, RunSummary]) -> None:
        self._file = file
        self.done = done

    @classmethod
    @contextmanager
    def opened(cls, path: str | Path | None, identity: Mapping[str, Any]) -> Iterator[Self]:
        """Open a journal, creating it if needed.

        Raise ConfigError if the file cannot be opened, or belongs to a different exploration.
        """
        if path is None:
            yield cls(None, {})
            return
        first = {"xsim explore": __version__, "of": _identity(identity)}
        try:
            file = open(path, "a+")  # noqa: SIM115
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        with file:
            file.seek(0)
            lines = file.read().split("\n")
            if lines == [""]:
                file.write(json.dumps(first) + "\n")
            elif _parsed(lines[0]) != first:
                raise ConfigError(f"{path}: belongs to a different program, machine or option; name another file")
            elif lines[-1]:
                file.write("\n")  # a line truncated by a crash
            records = [record for line in lines[1:] if isinstance(record := _parsed(line), list) and len(record) == 2]
            yield cls(file, {case: _read(values) for case, values in records})

    def add(self, case: str, summary: RunSummary) -> None:
        """Store the result of a run; it is on disk before this returns."""
        if self._file is not None:
            self._file.write(json.dumps([case, summary]) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _read(values: list[Any]) -> RunSummary:
    summary = RunSummary(*values)
    return summary._replace(
        lines=tuple((rank, text) for rank, text in summary.lines),
        died=tuple((rank, cause) for rank, cause in summary.died),
        calls=tuple(Call(*call) for call in summary.calls),
        findings=tuple(summary.findings),
    )


def _identity(options: Mapping[str, Any]) -> str:
    """Return a checksum of the options and of the program and machine files."""
    digest = hashlib.blake2b(json.dumps(options, sort_keys=True, default=str).encode(), digest_size=16)
    for name in (options["program"], options["machine"]):
        if isinstance(name, str | Path) and Path(name).is_file():
            digest.update(Path(name).read_bytes())
    return digest.hexdigest()
