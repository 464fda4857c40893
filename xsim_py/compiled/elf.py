"""Executables of Linux: recognition, and the reasons for which one cannot run as a virtual rank."""

from __future__ import annotations

import mmap
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from xsim_py.errors import ConfigError

__all__ = ["Image", "is_executable", "is_fast", "refuse_unusable", "uses_mpi"]

_MAGIC = b"\x7fELF"
_RELOCATABLE, _SHARED, _WITH_INTERPRETER = 1, 3, 3  # e_type, p_type
_X86_64 = 2, 1, 62
FAST_SYMBOL = "xsim_program"
"""What programs for the simulator's process define."""
_LOAD, _DYNAMIC, _THREAD_LOCAL, _RELRO = 1, 2, 7, 0x6474E552  # p_type
_WRITABLE = 2
_NEEDED, _STRTAB, _INIT_ARRAYSZ = 1, 5, 27  # d_tag
_ONE_FUNCTION = 8
_DYNSYM, _OBJECTS = 11, (1, 6)  # sh_type; the types of variables, thread-local ones included
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


def is_fast(file: str | os.PathLike[str]) -> bool:
    """Return True if ``xsim cc --fast`` has linked a file."""
    with open(file, "rb") as data:
        header = _header(data)
    return (
        header is not None
        and header.machine == _X86_64
        and header.kind == _SHARED
        and any(each.name == FAST_SYMBOL and each.is_defined for each in Image(file).symbols)
    )


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


class _Symbol(NamedTuple):
    """A dynamic symbol."""

    name: str
    is_variable: bool
    is_defined: bool
    address: int


class Image:
    """The segments and symbols of a shared object for this kind of processor (64 bits, little endian)."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        with open(file, "rb") as data:
            self._data = mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ)
        at, size, count = *struct.unpack_from("<Q", self._data, 32), *struct.unpack_from("<HH", self._data, 54)
        segments = [struct.unpack_from("<IIQQQQQQ", self._data, at + i * size) for i in range(count)]
        self._loads: list[tuple[int, int, int]] = [
            (vaddr, filesz, offset) for kind, _, offset, vaddr, _, filesz, *_ in segments if kind == _LOAD
        ]
        self.thread_bytes = sum(memsz for kind, *_, memsz, _ in segments if kind == _THREAD_LOCAL)
        """The size of the thread-local variables."""
        constant = [(vaddr, memsz) for kind, _, _, vaddr, _, _, memsz, _ in segments if kind == _RELRO]
        self.variables = list(_variables(segments, constant))
        """Address and size of the memory that the program may change."""
        self._dynamic: dict[int, int] = {}
        needed = []
        for offset, filesz in ((offset, filesz) for kind, _, offset, _, _, filesz, *_ in segments if kind == _DYNAMIC):
            for tag, value in struct.iter_unpack("<qQ", self._data[offset : offset + filesz]):
                self._dynamic[tag] = value
                if tag == _NEEDED:
                    needed.append(value)
        self.libraries = [self._text(value) for value in needed]
        self.starts_at_load = self._dynamic.get(_INIT_ARRAYSZ, 0) > _ONE_FUNCTION
        """Whether there are functions that the dynamic linker calls, apart from that of the compiler."""

    @property
    def symbols(self) -> Iterator[_Symbol]:
        """The dynamic symbols."""
        at, size, count = *struct.unpack_from("<Q", self._data, 40), *struct.unpack_from("<HH", self._data, 58)
        for i in range(count):
            _, kind, _, _, offset, length, *_ = struct.unpack_from("<IIQQQQIIQQ", self._data, at + i * size)
            if kind == _DYNSYM:
                for name, info, _, section, value, _ in struct.iter_unpack(
                    "<IBBHQQ", self._data[offset : offset + length]
                ):
                    yield _Symbol(self._text(name), info & 15 in _OBJECTS, section != 0, value)

    def address_of(self, name: str) -> int:
        """Return the address of a symbol that is defined here, relative to where the object is loaded."""
        found: int = next(each.address for each in self.symbols if each.name == name and each.is_defined)
        return found

    def integer(self, address: int) -> int:
        """Return 8 bytes at an address."""
        return int.from_bytes(self._data[self._offset(address) :][:8], "little")

    def _text(self, offset: int) -> str:
        begin = self._offset(self._dynamic[_STRTAB]) + offset
        return self._data[begin : self._data.find(b"\0", begin)].decode()

    def _offset(self, address: int) -> int:
        return next(offset + address - begin for begin, size, offset in self._loads if begin <= address < begin + size)


def _variables(segments: list[Any], constant: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for kind, flags, _, vaddr, _, _, memsz, _ in segments:
        if kind == _LOAD and flags & _WRITABLE:
            begin, end = vaddr, vaddr + memsz
            for address, size in constant:
                if begin <= address < end:
                    begin = address + size
            if begin < end:
                yield begin, end - begin
