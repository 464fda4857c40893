"""Files that are there whole or not at all.

A user may press Ctrl-C, or the disk be full, while results are written, and half a file of JSON under the right name
looks like a result until somebody reads it. So a new file is written beside its place and gets its name when it is
complete, which is one step for the file system. A file that is there already keeps its owner, its permissions and its
other names: it is written into as it is, and taken away if that comes to no end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TextIO

__all__ = ["check_file", "whole_file", "whole_path"]


@contextmanager
def whole_file(target: str | Path) -> Iterator[TextIO]:
    """Open a text file to write into, of which nothing is left if that comes to no end.

    Raises
    ------
    OSError
        When the file cannot be written; it names `target`.
    """
    with whole_path(target) as path, open(path, "w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def whole_path(target: str | Path) -> Iterator[Path]:
    """The same for who opens a file by its name: one with the same suffix to write to, which may be another one.

    Devices, pipes and links stay what they are.
    """
    path = _meant(target)
    written = path if path.exists() else _beside(path)
    before = _state(written)
    try:
        yield written
        if written != path:
            written.replace(path)
    except BaseException as error:
        with suppress(OSError):
            if written.is_file() and _state(written) != before:  # a picture may be refused before its file is opened
                os.truncate(written, 0)  # links and mounts cannot be taken away
                if not written.is_symlink():
                    written.unlink()
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(written)):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


def check_file(target: str | Path) -> None:
    """Find out whether `whole_file` could write this, and leave everything as it is.

    Permissions do not say it: a file system may be mounted for reading only, or take no files at all.

    Raises
    ------
    OSError
        It could not.
    """
    path = _meant(target)
    if path.is_file():
        os.close(os.open(path, os.O_WRONLY))
    elif not path.exists():
        beside = _beside(path)
        try:
            beside.touch(exist_ok=False)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        finally:
            beside.unlink(missing_ok=True)


def _state(path: Path) -> tuple[int, int] | None:
    """By which it can be seen that a file was written into; None: there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _meant(target: str | Path) -> Path:
    """The file itself, where a link names one that is not there yet."""
    path = Path(target)
    return Path(os.path.realpath(path)) if path.is_symlink() and not path.exists() else path


def _beside(path: Path) -> Path:
    """A name that nobody else uses or knows, with the same suffix, and no longer than a name may be."""
    return path.with_name(f".{token_hex(8)}{path.name[-40:]}")
