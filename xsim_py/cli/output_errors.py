"""Output that nobody takes: a disk that is full, a reader that has seen enough."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class CannotWrite(Exception):
    """Results have nowhere to go; the text says which, and why."""


@contextmanager
def writing(folder: Path | None = None) -> Iterator[None]:
    """Write results (and if a folder is given, do other things beside), and say so where they find no place.

    Beside other things, only an error that names something in the folder is about the results.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = error.filename or "standard output"
        if folder is not None and not (error.filename and _is_in(error.filename, folder)):
            raise
        raise CannotWrite(f"cannot write the results: {name}: {error.strerror}") from error


def _is_in(name: object, folder: Path) -> bool:
    return isinstance(name, str | Path) and Path(name).absolute().is_relative_to(folder.absolute())


class Patient:
    """A text file that takes everything, also when the one behind it takes no more: `error` says then why.

    For a run whose results go to files. They are worth going on for, to the same end and digest as ever.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write the text if that is still possible."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush what was written if that is still possible."""
        self._attempt(self._stream.flush)

    @property
    def buffer(self) -> Any:
        """The file for bytes, which takes everything, too."""
        return SimpleNamespace(write=partial(self._attempt, self._stream.buffer.write))

    def _attempt(self, call: Callable[..., Any], *data: Any) -> None:
        if self.error is None:
            try:
                call(*data)
            except OSError as error:
                self.error = error
