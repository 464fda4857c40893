"""After a run, the files that a program has changed on a simulated storage are written to this computer's disk.

A complete file that is there, perhaps the only checkpoint, must outlive whatever ends us meanwhile. So at first all
that is new is written beside the places where it belongs; when everything is on the disk, it takes these places; and
what the program has removed is removed last. If something cannot be written, nothing that was there changes: the
checkpoint of a job is many files, which are of use together.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from xsim_py.atomic_files import Unfinished, dress, is_regular, sync, undisturbed

from .overlay import Entry, Folder, Gone, Inode, SymbolicLink

_MOST_LISTED = 20
_SYNCS_AT_ONCE = 16  # a disk brings many files to it in the time of one


def write_back(changes: Sequence[tuple[str, Entry]]) -> list[str]:
    """Bring this computer's files up to date.

    Parameters
    ----------
    changes : sequence of str and Entry
        What is to be at each absolute path, none of whose folders is a symbolic link.

    Returns
    -------
    list of str
        What could not be done, and what is as it was for that reason: a sentence each.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C, and everything is as it was.
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
    """Write what is new beside where it belongs; return the names for the time being, and what could not be done."""
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
    """Return where a file may be written for the time being: its real folder, or the nearest one above that exists."""
    folder = os.path.dirname(place)
    return folder if _is_folder(folder) else _folder_of(folder)


def _write(entry: Entry, path: str) -> None:
    """Write a file, or make a link, under a name for the time being."""
    if isinstance(entry, SymbolicLink):
        os.symlink(entry.target, path)
    elif isinstance(entry, Inode) and path:
        with open(path, "xb") as file:
            file.write(entry.data or b"")


def _write_into(place: str, data: bytes | bytearray) -> None:
    """Write to a device or a pipe, which stays what it is; a pipe that nobody reads is an error and no wait."""
    number = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(number, True)
    with open(number, "wb") as file:
        file.write(data)


def _finish(entry: Entry, path: str, place: str) -> None:
    """Bring a file to the disk, and make it like the one that is at its place."""
    if isinstance(entry, Inode) and path:
        sync(path)
        if is_regular(place):
            dress(path, like=place)
        if entry.mode is not None:
            os.chmod(path, entry.mode)


def _placed(made: dict[str, Inode | Folder | SymbolicLink], ready: dict[str, str], gone: Sequence[str]) -> list[str]:
    """Give everything its place, then remove what is gone; return what could not be done."""
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
    # A new name is on the disk when its folder is; a file that was synced may else be gone after a crash.
    for folder in {os.path.dirname(place) for place in made}:
        with suppress(OSError):  # where that cannot be done, what is done is all there is
            sync(folder)
    for place in reversed(gone if not problems else ()):
        try:
            _remove(place)
        except OSError as error:
            problems.append(_failure(place, "removed", error))
    for place, entry in made.items():
        if isinstance(entry, Folder) and entry.mode is not None:  # only now: it may forbid to put something there
            with suppress(OSError):
                os.chmod(place, entry.mode)
    return problems


def _clear(place: str, gone: Sequence[str], *, for_folder: bool) -> None:
    """Remove what is in the way: a file where a folder is to be, or the other way round."""
    if not os.path.lexists(place) or _is_folder(place) == for_folder:
        return
    for inside in reversed(gone):
        if inside.startswith(f"{place}/"):
            _remove(inside)
    _remove(place)


def _remove(place: str) -> None:
    """Remove a file or an empty folder, if it is there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        (os.rmdir if _is_folder(place) else os.remove)(place)


def _is_device(place: str) -> bool:
    """Return whether a device, a pipe or a socket is there, which is written to and not replaced."""
    return os.path.lexists(place) and not (os.path.islink(place) or os.path.isdir(place) or is_regular(place))


def _is_folder(place: str) -> bool:
    return os.path.isdir(place) and not os.path.islink(place)


def _failure(place: str, what: str, error: OSError) -> str:
    return f"{place} could not be {what} at the end of the run: {error.strerror}"


def _listed(sentences: list[str], rest: str) -> list[str]:
    """Return the first few sentences, and one that says how many more there are."""
    more = len(sentences) - _MOST_LISTED
    return sentences if more <= 0 else [*sentences[:_MOST_LISTED], f"and {more:,} more files {rest}"]
