"""The files of this computer, as the simulated storage finds them during a run; `write_back` changes them after it."""

from __future__ import annotations

import io
import os

# The real functions: those of `os` are replaced while a run lasts.
_open = io.open
_access, _listdir, _lstat, _readlink = os.access, os.listdir, os.lstat, os.readlink


class HostFiles:
    """The files below an overlay. Paths are absolute, and none of their folders is a symbolic link."""

    def __init__(self) -> None:
        self._links: dict[str, str | None] = {}

    def link(self, path: str) -> str | None:
        """Return where a symbolic link leads, else None; looked up once, as nobody changes these in a run."""
        if path not in self._links:
            try:
                self._links[path] = _readlink(path)
            except OSError:
                self._links[path] = None
        return self._links[path]

    def stat(self, path: str) -> os.stat_result | None:
        """Return what `os.lstat` returns; None where nothing is."""
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
        """Return whether a file may be used, as `os.access` does."""
        return _access(path, mode)

    def read(self, path: str, start: int, size: int | None) -> bytes:
        """Return the bytes of a file from `start` on, all that are left without a size."""
        with _open(path, "rb") as file:
            file.seek(start)
            return file.read(-1 if size is None else size)
