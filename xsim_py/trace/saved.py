"""A trace in a file, for timelines drawn later: compressed JSON, with times to the picosecond."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from xsim_py.atomic_files import atomic_path
from xsim_py.errors import ConfigError
from xsim_py.trace.trace import Mark, Message, Span, Trace

NAME: Final = "trace.json.gz"
"""The name of the file in a results directory."""

_KINDS: Final[dict[str, Any]] = {"spans": Span, "messages": Message, "marks": Mark}
_RANKS: Final = ("rank", "source", "dest", "dead")
_MOST_BYTES: Final = 1 << 30


def save_trace(trace: Trace, target: Path, *, digest: str) -> None:
    """Write the calls, messages and marks of a trace; equal traces give equal bytes.

    The `digest` is that of its run. Raises an `OSError` if the file cannot be written.
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


def load_trace(source: Path, *, digest: str, ranks: int) -> Trace | None:
    """Return the trace in a file.

    Return None if there is none, or it belongs to a run with a different digest.

    The `digest` and `ranks` are those of the run. Raises a `ConfigError` if the file is not a trace, or unpacks to more
    than a gigabyte.
    """
    if not source.is_file():
        return None
    try:
        content = json.loads(_unpacked(source))
        if content["digest"] != digest:
            return None
        parts = [_records(kind, content[name], ranks) if content[name] else [] for name, kind in _KINDS.items()]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise ConfigError(f"{source}: not a trace that xsim_py wrote ({type(error).__name__}: {error})") from error
    return Trace(*parts)


def _unpacked(source: Path) -> bytes:
    """Return the decompressed contents of a file, after checking their size."""
    with gzip.open(source, "rb") as file:
        size = 0
        while piece := file.read(1 << 20):
            size += len(piece)
            if size > _MOST_BYTES:
                raise ValueError(f"too large (more than {_MOST_BYTES >> 20:,} MiB unpacked)")
        file.seek(0)
        return file.read()


def _records(kind: Any, columns: dict[str, list[Any]], ranks: int) -> list[Any]:
    """Return the records of one kind, after checking the type of each cell."""
    for name, hint in get_type_hints(kind).items():
        allowed = set(get_args(hint) or (hint,))
        if strange := {type(cell) for cell in columns[name]} - allowed:
            raise ValueError(f"{name} contains {min(each.__name__ for each in strange)}")
        if name in _RANKS and any(cell is not None and not 0 <= cell < ranks for cell in columns[name]):
            raise ValueError(f"{name} contains a rank that is not in the run")
    return [kind(*row) for row in zip(*(columns[field] for field in kind._fields), strict=True)]
