"""The host's files, as the simulated storage reads them during a run; `write_back` changes them afterwards."""

from __future__ import annotations

import io
import os

# The real functions: those of `os` are replaced during a run.
_open = io.open
_access, _listdir, _lstat, _readlink = os.access, os.listdir, os.lstat, os.readlink


class HostFiles:
    """The files below an overlay. Paths are absolute, and none of their directories is a symbolic link."""

    def __init__(self) -> None:
        self._links: dict[str, str | None] = {}

    def link(self, path: str) -> str | None:
        """Return a symbolic link's target, else None; cached, as links do not change during a run."""
        if path not in self._links:
            try:
                self._links[path] = _readlink(path)
            except OSError:
                self._links[path] = None
        return self._links[path]

    def stat(self, path: str) -> os.stat_result | None:
        """Return the result of `os.lstat`; None for a missing file."""
        try:
            return _lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; an empty list if it is not a directory."""
        try:
            return sorted(_listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def allows(self, path: str, mode: int) -> bool:
        """Return True if access to a file is allowed, as `os.access` does."""
        return _access(path, mode)

    def read(self, path: str, start: int, size: int | None) -> bytes:
        """Return the bytes of a file from `start` on; without a size, to its end."""
        with _open(path, "rb") as file:
            file.seek(start)
            return file.read(-1 if size is None else size)
