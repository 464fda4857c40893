"""The process of a rank with a compiled program, seen from the simulator: its page, memory, output and end."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn, TypeAlias

from xsim_py.compiled.build import library
from xsim_py.process import lifecycle
from xsim_py.process.ranks import current, meter
from xsim_py.process.ranks.patches import Patches
from xsim_py.process.ranks.rank import Rank

from .convert import Handles
from .places import SourcePlaces

__all__ = ["BadAddress", "Child", "Ended"]

Serve: TypeAlias = "Callable[[Child, int, int, int], int]"
"""Executes a call: takes the child, number and width of the function and the return address; returns the result."""

# page.h
_PAGE_BYTES, _MOST_ARGUMENTS = 64 << 10, 20
_CALL, _RETURNED, _ENDING = range(3)
_RETURN, _CALLBACK, _OBTAIN, _RELEASE = range(4)
_REQUEST = struct.Struct("=IIIIIIQqq")
_NUMBER_AT, _CPU_AT, _RESULT_AT, _ARGUMENTS_AT = 12, 32, 40, 48
_FUNCTION_AT = _ARGUMENTS_AT + 8 * _MOST_ARGUMENTS
_TIMED_AT, _PATCHES_AT, _NOW_AT, _PATCH_AT = _FUNCTION_AT + 8, _FUNCTION_AT + 12, _FUNCTION_AT + 16, _FUNCTION_AT + 32
_PATCH_BYTES = 60 << 10
ARGUMENTS = [struct.Struct(f"={count}q") for count in range(_MOST_ARGUMENTS + 1)]
_INT, _UINT, _NOW = struct.Struct("=q"), struct.Struct("=I"), struct.Struct("=dq")
_HEAD = struct.Struct("=QQ")

_CALLED, _OUTPUT, _ENDED, _INTERRUPTED = range(4)
_READ_BYTES = 1 << 16

_pipe, _read, _close, _waitpid, _memfd, _kill = os.pipe2, os.read, os.close, os.waitpid, os.memfd_create, os.kill


class Ended(BaseException):
    """The process has ended while the simulator waited for its call."""


class _State(ctypes.Structure):
    """``struct xsim_child`` of parent.c."""

    _fields_ = (("page", ctypes.c_void_p), ("pid", ctypes.c_int), ("out", ctypes.c_int), ("err", ctypes.c_int))


@cache
def _parent() -> Any:
    found = ctypes.CDLL(str(library() / "libxsim_parent.so"), use_errno=True)
    found.xsim_peek.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
    found.xsim_poke.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
    found.xsim_peek.restype = found.xsim_poke.restype = ctypes.c_long
    found.xsim_exchange.argtypes = (ctypes.c_void_p, ctypes.c_int)
    found.xsim_give.argtypes = (ctypes.c_void_p,)
    return found


class Child:
    """The process of a rank's program."""

    def __init__(
        self, rank: Rank, words: Sequence[str], variables: Mapping[str, str], folder: str, call: Serve
    ) -> None:
        self.rank = rank
        self._call = call
        self.is_over = False
        self.initialized = self.finalized = False
        self.is_inside = False  # between MPI_Init and MPI_Finalize
        self.handles = Handles()
        self.depth = 0  # of callbacks in progress
        self.handled = 0  # the error code for which the program's own error handler was called last
        self._writes: list[bytes] = []  # for the program's memory, with the next reply
        self._written = 0
        self._line = {"stdout": b"", "stderr": b""}  # an unfinished line of output
        shared = _memfd("xsim", os.MFD_CLOEXEC)
        os.ftruncate(shared, _PAGE_BYTES)
        self.page = mmap.mmap(shared, _PAGE_BYTES)
        out, err = _pipe(os.O_CLOEXEC), _pipe(os.O_CLOEXEC)
        self._ends = out[0], err[0]
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        fiber = current.running()
        self.is_timed = meter.is_on()
        _UINT.pack_into(self.page, _TIMED_AT, self.is_timed)
        _NOW.pack_into(self.page, _NOW_AT, fiber.clock_ps / 10**12, fiber.clock_ps // 1000)
        meter.read_from(fiber, self._cpu_ns)
        self._state = _State(address, 0, *self._ends)
        self._pointer = ctypes.addressof(self._state)
        self._library = _parent()
        self._exchange = self._library.xsim_exchange
        try:
            self._start(words, variables, folder, (shared, out[1], err[1]))
        finally:
            for each in (shared, out[1], err[1]):
                _close(each)
        Patches.latest.at_end(self.close)
        rank.private("at death", list).append(self.kill)
        rank.private("child", lambda: self)

    def _start(
        self, words: Sequence[str], variables: Mapping[str, str], folder: str, descriptors: tuple[int, int, int]
    ) -> None:
        preload = str(library() / "libmpi_abi.so.1")
        before = variables.get("LD_PRELOAD", "")
        environment = {
            **variables,
            "LD_PRELOAD": f"{preload}:{before}" if before else preload,
            "XSIM_PRELOAD_BEFORE": before,
        }
        given = (ctypes.c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
        named = [f"{name}={value}" for name, value in environment.items()]
        around = (ctypes.c_char_p * (len(named) + 1))(*map(os.fsencode, named), None)
        pid = ctypes.c_int()
        error = self._library.xsim_start(
            ctypes.byref(pid), given, around, os.fsencode(folder), *descriptors, int(self.rank.number != 0)
        )
        if error:
            raise OSError(error, os.strerror(error), words[0])
        self._state.pid = pid.value
        self.places = SourcePlaces(pid.value)

    # ------------------------------------------------------------------------------------------------------- calls

    def serve(self) -> int:
        """Serve the calls of the program until it ends; return its exit status, negative for a signal.

        Inside a callback, return its result.
        """
        page = self.page
        give = 0
        while True:
            got = self._exchange(self._pointer, give)
            give = 0
            if got == _OUTPUT:
                self._copy_output()
            elif got == _ENDED:
                raise Ended
            elif got == _CALLED:
                request, depth, result = self._request()
                if request == _RETURNED:
                    return result
                while request == _CALL:
                    if depth < self.depth:
                        raise _Abandoned
                    _, _, _, number, large, _, site, _, _ = _REQUEST.unpack_from(page, 0)
                    try:
                        result = self._call(self, number, large, site)
                    except _Abandoned:
                        request, depth, result = self._request()
                        continue
                    self._reply(_RETURN, result)
                    break
                give = 1

    def run(self) -> NoReturn:
        """Run the program to its end, and end the rank with the process's exit status."""
        with suppress(Ended):
            self.serve()
        status = self._wait()
        if status < 0:
            lifecycle.leave(128 - status, f"killed by {signal.Signals(-status).name}")
        if self.initialized and not self.finalized:
            lifecycle.leave(status, lifecycle.UNFINALIZED)
        raise SystemExit(status)

    def _request(self) -> tuple[int, int, int]:
        """Return the kind of the program's request, its depth of callbacks, and the result of a callback."""
        _, request, _, _, _, depth, _, _, result = _REQUEST.unpack_from(self.page, 0)
        return request, depth, result

    def arguments(self, count: int) -> tuple[int, ...]:
        """Return the first arguments of the current call as signed integers."""
        return ARGUMENTS[count].unpack_from(self.page, _ARGUMENTS_AT)

    def call_back(self, kind: int, function: int, *arguments: int) -> int:
        """Call a function of the program and return its result; the program is inside a call."""
        _UINT.pack_into(self.page, _NUMBER_AT, kind)
        _INT.pack_into(self.page, _FUNCTION_AT, function)
        ARGUMENTS[len(arguments)].pack_into(self.page, _ARGUMENTS_AT, *arguments)
        self._reply(_CALLBACK, 0)
        self.depth += 1
        try:
            return self._continue()
        finally:
            self.depth -= 1

    def _continue(self) -> int:
        self._give()
        return self.serve()

    def _cpu_ns(self) -> int:
        """Return the processor time that the program had used before its current call."""
        (found,) = _INT.unpack_from(self.page, _CPU_AT)
        return int(found)

    def _give(self) -> None:
        """Let the program continue, without waiting for it."""
        self._library.xsim_give(self._pointer)

    def obtain(self, size: int) -> int:
        """Allocate memory of the program, filled with zeros, and return its address."""
        ARGUMENTS[1].pack_into(self.page, _ARGUMENTS_AT, max(size, 1))
        self._reply(_OBTAIN, 0)
        return self._continue()

    def release(self, address: int) -> None:
        """Free memory that `obtain` has allocated."""
        ARGUMENTS[1].pack_into(self.page, _ARGUMENTS_AT, address)
        self._reply(_RELEASE, 0)
        self._continue()

    def _reply(self, kind: int, result: int) -> None:
        page = self.page
        _UINT.pack_into(page, 8, kind)
        _INT.pack_into(page, _RESULT_AT, result)
        fiber = current.fiber
        if fiber is not None:
            _NOW.pack_into(page, _NOW_AT, fiber.clock_ps / 10**12, fiber.clock_ps // 1000)
        if self._writes:
            data = b"".join(self._writes)
            page[_PATCH_AT : _PATCH_AT + len(data)] = data
            self._writes.clear()
            self._written = 0
            _UINT.pack_into(page, _PATCHES_AT, len(data))
        else:
            _UINT.pack_into(page, _PATCHES_AT, 0)

    # ------------------------------------------------------------------------------------------------------ memory

    def read(self, address: int, size: int) -> bytearray:
        """Return memory of the program."""
        if self._writes:
            self._flush()
        found = bytearray(size)
        if size:
            here = (ctypes.c_char * size).from_buffer(found)
            if self._library.xsim_peek(self._pointer, here, address, size) != size:
                raise BadAddress(address, size)
        return found

    def write(self, address: int, data: bytes) -> None:
        """Write to memory of the program, before its next instruction."""
        size = len(data)
        padded = (size + 7) // 8 * 8 + 16
        if self._written + padded <= _PATCH_BYTES:
            self._writes += (_HEAD.pack(address, size), data, bytes(-size % 8))
            self._written += padded
            return
        self._flush()
        if self._library.xsim_poke(self._pointer, data, address, size) != size:
            raise BadAddress(address, size)

    def _flush(self) -> None:
        waiting, self._writes, self._written = self._writes, [], 0
        for head, data in zip(waiting[::3], waiting[1::3], strict=True):
            address, size = _HEAD.unpack(head)
            if self._library.xsim_poke(self._pointer, bytes(data), address, size) != size:
                raise BadAddress(address, size)

    def text(self, address: int) -> str:
        """Return a string of the program, up to its null character."""
        found = bytearray()
        while address:
            piece = self.read(address, min(256, 4096 - address % 4096))
            end = piece.find(0)
            if end >= 0:
                found += piece[:end]
                break
            found += piece
            address += len(piece)
        return found.decode("utf-8", "surrogateescape")

    # ------------------------------------------------------------------------------------------------- output, end

    def _copy_output(self) -> bool:
        """Pass on what the program has written; return True if there was anything."""
        found = False
        for end, name in zip(self._ends, ("stdout", "stderr"), strict=True):
            while self._library.xsim_has_output(end):
                data = _read(end, _READ_BYTES)
                if not data:
                    break
                found = True
                *lines, rest = (self._line[name] + data).split(b"\n")
                self._line[name] = rest
                # One by one: how many arrive together is a matter of real time.
                for line in lines:
                    getattr(sys, name).write(_text(line + b"\n"))
        return found

    def _wait(self) -> int:
        """Wait for the end of the process, and return its exit status, negative for a signal."""
        _, status = _waitpid(self._state.pid, 0)
        self.is_over = True
        self._copy_output()
        for name, rest in self._line.items():
            if rest:
                getattr(sys, name).write(_text(rest))
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        """End the process now."""
        if not self.is_over:
            self.is_over = True
            _kill(self._state.pid, signal.SIGKILL)
            _waitpid(self._state.pid, 0)

    def close(self) -> None:
        """Release everything, at the end of the run."""
        self.kill()
        for end in self._ends:
            _close(end)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class BadAddress(Exception):
    """The program has passed an address that it may not use."""

    def __init__(self, address: int, size: int) -> None:
        super().__init__(f"{size} bytes at address {address:#x} are not in the program's memory")


class _Abandoned(BaseException):
    """The program has left a callback by a long jump: the call that made it is over."""
