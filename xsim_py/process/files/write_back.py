"""Writing the changed files of a simulated storage to the host's disk after a run.

A complete existing file, perhaps the only checkpoint, must survive if this process is killed meanwhile. So new files
are first written next to their targets; when all are on disk, they replace the targets; and removals come last. If
something cannot be written, no existing file changes: a checkpoint consists of many files, which are useful only
together.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from xsim_py.atomic_files import Unfinished, copy_attributes, is_regular, sync, undisturbed

from .overlay import Entry, Folder, Gone, Inode, SymbolicLink

_MOST_LISTED = 20
_SYNCS_AT_ONCE = 16  # a disk syncs many files in the time of one


def write_back(changes: Sequence[tuple[str, Entry]]) -> list[str]:
    """Apply changes to the host's files.

    `changes` has the new entry of each absolute path, none of whose directories is a symbolic link. The result has a
    sentence about each failure and each file left unchanged because of it. If Ctrl-C raises `KeyboardInterrupt`, no
    file has changed.
    """
    changes = sorted(changes, key=lambda change: change[0])
    gone = [place for place, entry in changes if isinstance(entry, Gone)]
    made = {place: entry for place, entry in changes if not isinstance(entry, Gone)}
    if not changes:
        return []
    try:
        with Unfinished() as unfinished:
            ready, problems = _written(unfinished, made)
            kept: list[str] = []
            if problems:
                kept = [place for place in (*ready, *gone) if os.path.lexists(place) and not _is_folder(place)]
                made = {place: made[place] for place in ready if not os.path.lexists(place)}
                gone = []
            with undisturbed():
                problems += _placed(made, ready, gone)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("while writing the program's files: existing files are complete") from None
    return [
        *_listed(problems, "could not be written at the end of the run"),
        *_listed(
            [f"{place} is as it was before the run, since not everything could be written" for place in kept],
            "are as they were",
        ),
    ]


def _written(
    unfinished: Unfinished, made: dict[str, Inode | Folder | SymbolicLink]
) -> tuple[dict[str, str], list[str]]:
    """Write new files next to their targets; return their temporary names, and the failures."""
    ready, problems = {}, []
    pool = ThreadPoolExecutor(_SYNCS_AT_ONCE)
    try:
        for place, entry in made.items():
            try:
                stays = isinstance(entry, Folder) or _is_device(place)
                path = "" if stays else unfinished.name(place, folder=_folder_of(place))
                _write(entry, path)
                ready[place] = path
            except OSError as error:
                problems.append(_failure(place, "written", error))
        for place, future in {place: pool.submit(_finish, made[place], ready[place], place) for place in ready}.items():
            try:
                future.result()
            except OSError as error:
                del ready[place]
                problems.append(_failure(place, "written", error))
    finally:
        pool.shutdown(cancel_futures=True)
    return ready, problems


def _folder_of(place: str) -> str:
    """Return the directory for a temporary file: its real directory, or the nearest existing one above."""
    folder = os.path.dirname(place)
    return folder if _is_folder(folder) else _folder_of(folder)


def _write(entry: Entry, path: str) -> None:
    """Write a file or create a link under a temporary name."""
    if isinstance(entry, SymbolicLink):
        os.symlink(entry.target, path)
    elif isinstance(entry, Inode) and path:
        with open(path, "xb") as file:
            file.write(entry.data or b"")


def _write_into(place: str, data: bytes | bytearray) -> None:
    """Write to a device or pipe, which is not replaced; a pipe without a reader is an error rather than a wait."""
    number = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(number, True)
    with open(number, "wb") as file:
        file.write(data)


def _finish(entry: Entry, path: str, place: str) -> None:
    """Sync a file to disk and copy the attributes of the file that it replaces."""
    if isinstance(entry, Inode) and path:
        sync(path)
        if is_regular(place):
            copy_attributes(path, like=place)
        if entry.mode is not None:
            os.chmod(path, entry.mode)


def _placed(made: dict[str, Inode | Folder | SymbolicLink], ready: dict[str, str], gone: Sequence[str]) -> list[str]:
    """Move new files to their targets, then apply removals; return the failures."""
    problems = []
    for place, entry in made.items():
        try:
            _clear(place, gone, for_folder=isinstance(entry, Folder))
            if isinstance(entry, Inode) and not ready[place]:
                _write_into(place, entry.data or b"")
            elif not isinstance(entry, Folder):
                os.replace(ready[place], place)
            elif not _is_folder(place):
                os.mkdir(place)
        except OSError as error:
            problems.append(_failure(place, "written", error))
    # A new name is on disk when its directory is; otherwise a synced file may be lost in a crash.
    for folder in {os.path.dirname(place) for place in made}:
        with suppress(OSError):  # if the directory cannot be synced, nothing more can be done
            sync(folder)
    for place in reversed(gone if not problems else ()):
        try:
            _remove(place)
        except OSError as error:
            problems.append(_failure(place, "removed", error))
    for place, entry in made.items():
        if isinstance(entry, Folder) and entry.mode is not None:  # only now: the mode may forbid adding entries
            with suppress(OSError):
                os.chmod(place, entry.mode)
    return problems


def _clear(place: str, gone: Sequence[str], *, for_folder: bool) -> None:
    """Remove a conflicting entry: a file where a directory will be, or vice versa."""
    if not os.path.lexists(place) or _is_folder(place) == for_folder:
        return
    for inside in reversed(gone):
        if inside.startswith(f"{place}/"):
            _remove(inside)
    _remove(place)


def _remove(place: str) -> None:
    """Remove a file or an empty directory, if it exists."""
    with suppress(FileNotFoundError, NotADirectoryError):
        (os.rmdir if _is_folder(place) else os.remove)(place)


def _is_device(place: str) -> bool:
    """Return True for a device, pipe or socket, which is written to, not replaced."""
    return os.path.lexists(place) and not (os.path.islink(place) or os.path.isdir(place) or is_regular(place))


def _is_folder(place: str) -> bool:
    return os.path.isdir(place) and not os.path.islink(place)


def _failure(place: str, what: str, error: OSError) -> str:
    return f"{place} could not be {what} at the end of the run: {error.strerror}"


def _listed(sentences: list[str], rest: str) -> list[str]:
    """Return the first few sentences, and one with the number of the others."""
    more = len(sentences) - _MOST_LISTED
    return sentences if more <= 0 else [*sentences[:_MOST_LISTED], f"and {more:,} more files {rest}"]
