"""The files of this computer, as the simulated storage finds them during a run; `write_back` changes them after it."""

from __future__ import annotations

import io
import os

__all__ = ["HostFiles"]

# The real functions: those of `os` are replaced while a run lasts.
_open = io.open
_access, _listdir, _lstat, _readlink = os.access, os.listdir, os.lstat, os.readlink


class HostFiles:
    """The files below an overlay. Paths are absolute, and none of their folders is a symbolic link."""

    def __init__(self) -> None:
        self._links: dict[str, str | None] = {}

    def link(self, path: str) -> str | None:
        """Where a symbolic link leads; None for everything else. Looked up once: nobody changes these in a run."""
        if path not in self._links:
            try:
                self._links[path] = _readlink(path)
            except OSError:
                self._links[path] = None
        return self._links[path]

    def stat(self, path: str) -> os.stat_result | None:
        """As `os.lstat`; None where nothing is."""
        try:
            return _lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, in order; none if it is no folder."""
        try:
            return sorted(_listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def allows(self, path: str, mode: int) -> bool:
        """As `os.access`."""
        return _access(path, mode)

    def read(self, path: str, start: int, size: int | None) -> bytes:
        """Bytes of a file from `start` on, all that are left without a size."""
        with _open(path, "rb") as file:
            file.seek(start)
            return file.read(-1 if size is None else size)
