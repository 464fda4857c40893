"""Errors of output: a full disk, or a reader that has exited."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class CannotWrite(Exception):
    """Results cannot be written; the text names them and the reason."""


@contextmanager
def writing(folder: Path | None = None) -> Iterator[None]:
    """Report errors of writing results in this block, or only those of files in `folder`.

    With a directory, the block may also do other things, whose errors are passed on.
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
    """A text file whose writes never fail; `error` has the first error of the underlying file.

    For runs whose results go to files: they continue to the same end and digest.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write the text, if still possible."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush, if still possible."""
        self._attempt(self._stream.flush)

    @property
    def buffer(self) -> SimpleNamespace:
        """The binary file, whose writes never fail either."""
        return SimpleNamespace(write=partial(self._attempt, self._stream.buffer.write))

    def _attempt(self, call: Callable[..., Any], *data: object) -> None:
        if self.error is None:
            try:
                call(*data)
            except OSError as error:
                self.error = error
