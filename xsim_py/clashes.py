"""Checks before a run that results do not overwrite input or other results."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xsim_py.atomic_files import is_special, resolved_target
from xsim_py.compiled import program as compiled
from xsim_py.config import load_machine
from xsim_py.config.entries import Location
from xsim_py.errors import ConfigError
from xsim_py.failure.statements import parse_statement
from xsim_py.parameters import COMPUTE, RECORD
from xsim_py.process.programs import program as programs

compiled.register()

_NOWHERE = Location.in_option("")


class OutputFile(NamedTuple):
    """A file to be written; `follow` as for `atomic_files.atomic_file`."""

    said: str
    path: str | Path
    follow: bool = True


class InputFile(NamedTuple):
    """A file that is read."""

    what: str
    path: str | Path


def refuse_clashes(outputs: Sequence[OutputFile], inputs: Callable[[], Iterable[InputFile]]) -> None:
    """Reject files that would be written although they are read, or would be written twice.

    Devices and pipes are exempt. `inputs` is only called if some output file exists, because it may take a while.
    """
    taken: dict[object, str] = {}
    for number, name in ((1, "standard output"), (2, "standard error")):
        taken |= dict.fromkeys(_inode_of(number), f"{name} is written there, too")
    if any(os.path.lexists(path) and not is_special(str(path), follow=follow) for _, path, follow in outputs):
        for what, path in inputs():
            both = _known_by(path, follow=True) | _known_by(path, follow=False)
            taken |= dict.fromkeys(both, f"this is {what}, which would be overwritten")
    for said, path, follow in outputs:
        known = _known_by(path, follow=follow)
        if why := next((taken[key] for key in known if key in taken), None):
            raise ConfigError(f"{said}: {why}; name another file")
        taken |= dict.fromkeys(known, f"{said} is the same file")


def _known_by(path: str | Path, *, follow: bool) -> set[object]:
    """Return the identity of a file: its path, and its inode, which may have other names."""
    if follow and is_special(str(path), follow=True):
        return set()
    return {resolved_target(str(path), follow=follow), *_inode_of(path, follow=follow)}


def _inode_of(file: int | str | Path, *, follow: bool = True) -> set[object]:
    """Return the device and inode number of a regular file, if it is one."""
    try:
        found = os.fstat(file) if isinstance(file, int) else os.stat(file, follow_symlinks=follow)
    except OSError:
        return set()
    return {(found.st_dev, found.st_ino)} if stat.S_ISREG(found.st_mode) else set()


# ----------------------------------------------------------------------------------------------------- inputs


def _is_read_once(path: str) -> bool:
    """Return True for a pipe or device, whose data can only be read once, by the run."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def program_files(program: Any, kind: str | None) -> Iterator[InputFile]:
    """Yield the files of a program or of several."""
    if isinstance(program, list):
        yield from (InputFile("the program", file) for app in program if (file := app.load().file) is not None)
        return
    if kind == "script" and _is_read_once(program):
        return
    if kind in ("script", "module") and (file := programs.program(program, kind=kind, args=()).file) is not None:
        yield InputFile("the program", file)


def machine_files(machine: str, overrides: Mapping[str, Any]) -> Iterator[InputFile]:
    """Yield the file of a machine, if any, and the files that it refers to."""
    if _is_read_once(machine):
        return
    if Path(machine).suffix in (".yaml", ".yml") or len(Path(machine).parts) > 1:
        yield InputFile("the machine", machine)
    spec = load_machine(machine, overrides=overrides)
    if spec.topology.file is not None:
        yield InputFile("the machine's graph", spec.topology.file)
    if spec.compute.times is not None:
        yield InputFile("the machine's times of computing", spec.compute.times)
    if spec.failures.trace is not None:
        yield InputFile("the machine's failures", spec.failures.trace)


def computing_files(asked: str | None) -> Iterator[InputFile]:
    """Yield the file of computing times given to ``--compute``, if any."""
    if asked is not None and asked not in COMPUTE and not asked.startswith(RECORD):
        yield InputFile("what computing costs", asked)


def failure_files(texts: Iterable[str]) -> Iterator[InputFile]:
    """Yield the files that contain injected failures."""
    for text in texts:
        if isinstance(what := parse_statement(text, _NOWHERE), Path):
            yield InputFile("what fails", what)
