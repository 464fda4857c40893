"""SourcePlaces in compiled programs: the file, line and function of a return address.

A place is a Python function whose code has the name, file and line of the C source. Calls are made through it, so its
frame is found by everything that looks for the program's place: reports, traces, checks, failures at a call.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from xsim_py.process.python.waiting_loops import COMPILED
from xsim_py.process.ranks import current

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

    def __init__(self) -> None:
        self._mappings: list[_Mapping] = []
        self._found: dict[int, Callable[..., Any]] = {}

    def at(self, address: int, pid: int) -> Callable[..., Any]:
        """Return the place that a call of a process returns to."""
        found = self._found.get(address)
        if found is None:
            with current.outside():
                file, offset = self._offset(address, pid)
                found = self._found[address] = _place(file, offset)
        return found

    def _offset(self, address: int, pid: int) -> tuple[str, int]:
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


@cache
def _place(file: str, offset: int) -> Callable[..., Any]:
    # The return address is that of the next instruction, possibly of the next line.
    name, source, line = _looked_up(file, offset - 1)
    code = _CODE.replace(co_name=name, co_qualname=name, co_filename=source, co_firstlineno=line - 1)
    return FunctionType(code, {COMPILED: True}, name)


def _looked_up(file: str, offset: int) -> tuple[str, str, int]:
    """Return the function, file and line of an offset in a file."""
    address = _address(file, offset)
    tool = shutil.which("addr2line")
    if tool is not None and file:
        done = subprocess.run([tool, "-f", "-C", "-e", file, hex(address)], capture_output=True, text=True, check=False)
        name, _, where = done.stdout.strip().partition("\n")
        source, _, line = where.split(" ")[0].rpartition(":")
        if name and name != "??":
            if source and source != "??" and line.isdigit():
                return name, source, int(line)
            return name, file, 1
    return f"{address:#x}", file or "<unknown>", 1


@cache
def _segments(file: str) -> list[tuple[int, int, int]]:
    """Return the loaded segments of an ELF file: offset, address, and size."""
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


def _address(file: str, offset: int) -> int:
    if not file:
        return offset
    for begin, address, size in _segments(file):
        if begin <= offset < begin + size:
            return offset - begin + address
    return offset
