"""A trace in a file, from which timelines are drawn later: JSON, compressed, with every time to the picosecond."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

from xsim_py.atomic_files import atomic_path
from xsim_py.errors import ConfigError
from xsim_py.trace.trace import Mark, Message, Span, Trace

NAME: Final = "trace.json.gz"
"""The name of the file in the folder of a result."""

_KINDS: Final[dict[str, Any]] = {"spans": Span, "messages": Message, "marks": Mark}


def save_trace(trace: Trace, target: Path, *, digest: str) -> None:
    """Write the calls, messages and marks of a trace; the same trace gives the same bytes.

    Parameters
    ----------
    trace : Trace
        What happened.
    target : path
        Where to.
    digest : str
        That of the run that it is of.

    Raises
    ------
    OSError
        When the file cannot be written.
    """
    columns = {
        name: dict(zip(kind._fields, map(list, zip(*getattr(trace, name), strict=True)), strict=False))
        for name, kind in _KINDS.items()
    }
    text = json.dumps({"digest": digest, **columns}, separators=(",", ":"))
    with (
        atomic_path(target, follow=False) as path,
        open(path, "wb") as file,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed,
    ):
        packed.write(text.encode())


def load_trace(source: Path, *, digest: str) -> Trace | None:
    """Return the trace in a file; None where there is none, or it is of another run.

    Raises
    ------
    ConfigError
        When the file holds something else.
    """
    if not source.is_file():
        return None
    try:
        with gzip.open(source, "rb") as file:
            whole = json.loads(file.read())
        if whole["digest"] != digest:
            return None
        parts = [
            [kind(*row) for row in zip(*(whole[name][field] for field in kind._fields), strict=True)]
            if whole[name]
            else []
            for name, kind in _KINDS.items()
        ]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{source}: not a trace that xsim_py wrote ({type(error).__name__}: {error})") from error
    return Trace(*parts)
