"""Checks of a command's output files, before its runs."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xsim_py.cli.output_errors import CannotWrite, writing
from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xsim_py.clashes import InputFile

_WRONG_NAME = {errno.EBADF, errno.EEXIST, errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR}


def check_outputs(
    files: Mapping[str, str | None],
    *,
    folder: str | None = None,
    holds: Sequence[str] = (),
    inputs: Callable[[], Iterable[InputFile]] = tuple,
) -> None:
    """Check that files can be written, and that none is an input or a duplicate.

    File names are by option. `folder` is the directory of ``--out``, created if needed, and `holds` are the names of
    its files. Raise ConfigError if a name is invalid; CannotWrite if it is valid, but no file can be written there.
    """
    named = {option: name for option, name in files.items() if name is not None}
    if not named and folder is None:
        return
    from xsim_py.clashes import OutputFile, refuse_clashes

    outputs = [OutputFile(f"--{option} {name}", name) for option, name in named.items()]
    if folder is not None:
        outputs += [OutputFile(f"--out {folder} ({name})", Path(folder) / name, follow=False) for name in holds]
    refuse_clashes(outputs, inputs)
    for option, name in named.items():
        _check_file(f"--{option} {name}", Path(name), follow=True)
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            _refuse(f"--out {folder}", error)
        _check_file(f"--out {folder}", Path(folder) / holds[0], follow=False)


def not_dash(args: Namespace, *options: str) -> dict[str, str | None]:
    """Return the values of options, except ``-``, which means standard output."""
    given = {option: getattr(args, option) for option in options}
    return {option: name for option, name in given.items() if name != "-"}


def listed(names: Sequence[str]) -> str:
    """Return names as an enumeration: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def write_text(target: str, text: str) -> None:
    """Write a text to a file, or to standard output for ``-``."""
    from xsim_py.atomic_files import atomic_file

    if target == "-":
        sys.stdout.write(text)
    else:
        with writing(), atomic_file(target) as file:
            file.write(text)


def _check_file(label: str, path: Path, *, follow: bool) -> None:
    from xsim_py.atomic_files import check_file

    try:
        if not path.parent.is_dir():
            raise ConfigError(f"{label}: no such directory; create it or choose another")
        if path.is_dir() and follow:
            raise ConfigError(f"{label}: is a directory; name a file")
        check_file(path, follow=follow)
    except (OSError, ValueError) as error:
        _refuse(label, error, there=os.path.exists(path))


def _refuse(label: str, error: OSError | ValueError, *, there: bool = False) -> None:
    """Raise the error: an invalid name is bad input, an unwritable directory like a full disk."""
    if isinstance(error, ValueError) or (error.errno in _WRONG_NAME and not there):
        raise ConfigError(f"{label}: {getattr(error, 'strerror', error)}") from error
    raise CannotWrite(f"{label}: {error.strerror}") from error


def simulation_inputs(args: Namespace, machines: Iterable[str]) -> Iterable[InputFile]:
    """Return the input files of a command that runs a program on machines."""
    from xsim_py.clashes import computing_files, failure_files, machine_files, program_files

    if getattr(args, "program", None) is not None:
        yield from program_files(args.program.target, args.program.kind)
    for machine in machines:
        yield from machine_files(machine, dict(args.set))
    yield from computing_files(getattr(args, "compute", None))
    yield from failure_files((*getattr(args, "fail", ()), *getattr(args, "failures", ())))
