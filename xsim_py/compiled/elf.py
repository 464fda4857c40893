"""Executables of Linux: recognition, and the reasons for which one cannot run as a virtual rank."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from typing import BinaryIO, NamedTuple

from xsim_py.errors import ConfigError

__all__ = ["is_executable", "refuse_unusable", "uses_mpi"]

_MAGIC = b"\x7fELF"
_RELOCATABLE, _WITH_INTERPRETER = 1, 3  # e_type, p_type
_OTHER_MPI = re.compile(r"lib(mpi|mpich|mpi_mpifh|mpi_cxx|mpicxx|mpifort)\.so[.\d]*")
_ABI = re.compile(r"libmpi_abi\.so[.\d]*")


class _Header(NamedTuple):
    """The properties of an ELF file that must be those of the interpreter, and others."""

    machine: tuple[int, int, int]
    """Class, byte order and ``e_machine``."""
    kind: int
    is_dynamic: bool


def is_executable(file: str | os.PathLike[str]) -> bool:
    """Return True if a file is an ELF file."""
    try:
        with open(file, "rb") as data:
            return data.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def refuse_unusable(file: str, name: str) -> None:
    """Raise a `ConfigError` if an ELF file cannot run as a rank, with a remedy."""
    if sys.platform != "linux":
        raise ConfigError(f"{name}: executables can only be simulated on Linux")
    with open(file, "rb") as data, open("/proc/self/exe", "rb") as own:
        header, host = _header(data), _header(own)
    if header is None or header.kind == _RELOCATABLE:
        raise ConfigError(f"{name}: is not an executable but another ELF file, e.g. an object file: link it")
    if not os.access(file, os.X_OK):
        raise ConfigError(f"{name}: cannot be executed: permission denied (chmod +x)")
    if host is not None and header.machine != host.machine:
        raise ConfigError(f"{name}: is an executable for another kind of processor: compile it for this host")
    if not header.is_dynamic:
        raise ConfigError(f"{name}: is statically linked: link it dynamically, e.g. with xsim cc, without -static")
    libraries = _libraries(file)
    if not any(map(_ABI.fullmatch, libraries)):
        for library in filter(_OTHER_MPI.fullmatch, libraries):
            raise ConfigError(
                f"{name}: uses {library}, the own interface of one MPI library: compile it for the standard ABI of"
                " MPI 5.0, with xsim cc, xsim c++ or xsim fc, or with mpicc_abi of MPICH 5"
            )
    for library, file in libraries.items():
        if file == "not found" and not _ABI.fullmatch(library):
            raise ConfigError(f"{name}: needs {library}, which the dynamic linker does not find: set LD_LIBRARY_PATH")


def uses_mpi(file: str) -> bool:
    """Return True if a file is an executable that loads an MPI library; `mpiexec` runs others without simulation."""
    if not is_executable(file):
        return False
    with open(file, "rb") as data:
        header = _header(data)
    found = _libraries(file) if header is not None and header.is_dynamic else {}
    return any(_ABI.fullmatch(library) or _OTHER_MPI.fullmatch(library) for library in found)


def _header(data: BinaryIO) -> _Header | None:
    head = data.read(64)
    if len(head) < 64 or head[:4] != _MAGIC:
        return None
    order = "<" if head[5] == 1 else ">"
    kind, machine = struct.unpack_from(f"{order}HH", head, 16)
    wide = head[4] == 2
    (at,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", head, 32 if wide else 28)
    size, count = struct.unpack_from(f"{order}HH", head, 54 if wide else 42)
    data.seek(at)
    table = data.read(size * count)
    kinds = [struct.unpack_from(f"{order}I", table, size * i)[0] for i in range(count if len(table) else 0)]
    return _Header((head[4], head[5], machine), kind, _WITH_INTERPRETER in kinds)


def _libraries(file: str) -> dict[str, str]:
    """Return the shared libraries that the dynamic linker would load, with their files, as ``ldd`` does."""
    variables = {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    done = subprocess.run([file], env=variables, capture_output=True, check=False)
    lines = (line.partition(" => ") for line in os.fsdecode(done.stdout).splitlines())
    return {name.strip(): rest.rpartition(" (")[0] or rest for name, arrow, rest in lines if arrow}
