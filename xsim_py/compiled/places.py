"""Places in compiled programs: the file, line and function of a return address.

A place is a Python function whose code has the name, file and line of the C source. Calls are made through it, so its
frame is found by everything that looks for the program's place: reports, traces, checks, failures at a call.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from xsim_py.process.python.waiting_loops import COMPILED
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches

_MAPPED = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ \S+ +(/.*)")


class _Mapping(NamedTuple):
    """A part of a file in the memory of a process."""

    begin: int
    end: int
    offset: int
    file: str


def _through(function: Callable[..., Any], child: Any) -> Any:
    return function(child)


_CODE: CodeType = _through.__code__
"""Its call is in the line after the first."""


class SourcePlaces:
    """The places of the processes of one program, which have all files at the same addresses."""

    def __init__(self, program: str | None = None) -> None:
        self._program = program  # its file, if that is not what the process executes
        self._mappings: list[_Mapping] = []
        self._files: dict[str, _Lines] = {}
        self._found: dict[int, Callable[..., Any]] = {}

    def at(self, address: int, pid: int | str) -> Callable[..., Any]:
        """Return the place that a call of a process returns to; `pid` is its name in /proc."""
        found = self._found.get(address)
        if found is None:
            with current.outside():
                file, offset = self._offset(address, pid)
                if file not in self._files:
                    self._files[file] = _Lines(file, is_own=file == (self._program or os.readlink(f"/proc/{pid}/exe")))
                # The return address is that of the next instruction, possibly of the next line.
                found = self._found[address] = self._files[file].place(offset - 1)
        return found

    def _offset(self, address: int, pid: int | str) -> tuple[str, int]:
        """Return the file at an address, and the address as its debug information has it."""
        for renewed in (False, True):
            if renewed:
                with open(f"/proc/{pid}/maps", "rb") as lines:
                    parts = [found.groups() for line in lines if (found := _MAPPED.match(line)) is not None]
                self._mappings = [
                    _Mapping(int(begin, 16), int(end, 16), int(offset, 16), os.fsdecode(file))
                    for begin, end, _, offset, file in parts
                ]
            for each in self._mappings:
                if each.begin <= address < each.end:
                    return each.file, address - each.begin + each.offset
        return "", address


class _Lines:
    """The lines of a file with code; `addr2line` of the binutils reads its debug information, once for a run."""

    def __init__(self, file: str, *, is_own: bool) -> None:
        self._file = file
        self._names = {COMPILED: is_own and not _is_interpreter(file)}
        self._places: dict[int, Callable[..., Any]] = {}
        self._segments = _segments(file)
        tool = shutil.which("addr2line")
        words = [str(tool), "-f", "-C", "-e", file]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._reader = subprocess.Popen(words, text=True, **pipes) if tool and self._segments else None  # type: ignore[call-overload]
        Patches.latest.at_end(self._close)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.communicate()
            self._reader = None

    def place(self, offset: int) -> Callable[..., Any]:
        """Return the place at an offset in the file."""
        found = self._places.get(offset)
        if found is None:
            name, source, line = self._looked_up(_address(self._segments, offset))
            code = _CODE.replace(co_name=name, co_qualname=name, co_filename=source, co_firstlineno=line - 1)
            found = self._places[offset] = FunctionType(code, self._names, name)
        return found

    def _looked_up(self, address: int) -> tuple[str, str, int]:
        """Return function, file and line; the function with the address, and this file, without debug information."""
        name, where = "??", ""
        if self._reader is not None:
            self._reader.stdin.write(f"{address:#x}\n")
            self._reader.stdin.flush()
            name, where = self._reader.stdout.readline().strip(), self._reader.stdout.readline()
        source, _, line = where.split(" ")[0].strip().rpartition(":")
        if name != "??" and source not in ("", "??") and line.isdigit():
            return name, source, int(line)
        at = f"{address:#x}"
        return at if name == "??" else f"{name}, {at}", self._file, 1


def _is_interpreter(file: str) -> bool:
    """Return True for an executable of CPython, which reads the clock in one line for all lines of Python."""
    with open(file, "rb") as data, mmap(data.fileno(), 0, access=ACCESS_READ) as content:
        return content.find(b"\0Py_BytesMain\0") >= 0


def _segments(file: str) -> list[tuple[int, int, int]]:
    """Return the loaded segments of an ELF file: offset, address, and size."""
    if not file:
        return []
    with open(file, "rb") as data:
        head = data.read(64)
        if head[:5] != b"\x7fELF\x02":
            return []
        at = int.from_bytes(head[32:40], "little")
        size, count = int.from_bytes(head[54:56], "little"), int.from_bytes(head[56:58], "little")
        data.seek(at)
        table = data.read(size * count)
    found = []
    for i in range(count):
        row = table[i * size : (i + 1) * size]
        if int.from_bytes(row[:4], "little") == 1:
            offset, address, length = (int.from_bytes(row[k : k + 8], "little") for k in (8, 16, 32))
            found.append((offset, address, length))
    return found


def _address(segments: list[tuple[int, int, int]], offset: int) -> int:
    """Return the address that an offset in a file has in its debug information."""
    return next((offset - begin + at for begin, at, size in segments if begin <= offset < begin + size), offset)
