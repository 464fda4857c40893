"""The process of a rank with a compiled program, seen from the simulator: its page, memory, output and end."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from xsim_py.compiled.build import library
from xsim_py.process import lifecycle
from xsim_py.process.ranks import current, meter
from xsim_py.process.ranks.fiber import Fiber
from xsim_py.process.ranks.patches import Patches
from xsim_py.process.ranks.rank import Rank

from .by_hand import MPI
from .convert import Handles, RemoteMemory, predefined_sizes
from .page import (
    ARGUMENTS,
    ARGUMENTS_AT,
    CALL,
    CALLBACK,
    FLUSH,
    OBTAIN,
    PAGE_BYTES,
    PATCH_AT,
    PATCH_BYTES,
    PATCH_HEAD,
    PAYLOAD_AT,
    QUEUE_AT,
    QUEUED,
    QUEUED_CALL,
    RELEASE,
    REQUEST,
    RETURNED,
    SIZES_AT,
    Page,
)
from .places import SourcePlaces

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator

__all__ = ["Abandoned", "BadAddress", "Child", "Ended", "ProgramCalls"]

Serve: TypeAlias = "Callable[[Child, int, int], int | None]"
"""Executes a call: takes the child, the function as in page.h, and the return address; returns the result."""

_CALLED, _OUTPUT, _ENDED, _INTERRUPTED, _COMPUTES = range(5)
_READ_BYTES = 1 << 16
_ADDRESSES = 1 << 47

_pipe, _read, _close, _waitpid, _memfd, _kill = os.pipe2, os.read, os.close, os.waitpid, os.memfd_create, os.kill


class Ended(BaseException):
    """The process has ended while the simulator waited for its call."""


class _State(ctypes.Structure):
    """``struct xsim_child`` of parent.c."""

    _fields_ = (("page", ctypes.c_void_p), *((name, ctypes.c_int) for name in ("pid", "out", "err", "cpu")))


@cache
def _parent() -> Any:
    found = ctypes.CDLL(str(library() / "libxsim_parent.so"), use_errno=True)
    found.xsim_peek.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
    found.xsim_poke.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
    found.xsim_change.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
    found.xsim_peek.restype = found.xsim_poke.restype = ctypes.c_long
    return found


def page_in(file: int) -> tuple[mmap.mmap, Page]:
    """Return a page in a file, -1 for memory of this process, and its fields."""
    page = mmap.mmap(file, PAGE_BYTES)
    fields = Page.from_buffer(page)
    fields.is_timed = meter.is_on()
    page[SIZES_AT : SIZES_AT + 256] = predefined_sizes()
    return page, fields


class ProgramCalls:
    """The state shared by the processes of a program."""

    def __init__(self, execute: Serve) -> None:
        self.execute = execute
        self.places = SourcePlaces()
        self.routes: dict[tuple[bool, bool], dict[tuple[int, int], Any]] = {}
        """How calls are executed, by function and return address, without tools or with, timed or not; see `calls`."""


class Child:
    """The process of a rank's program."""

    def __init__(self, rank: Rank, words: Sequence[str], calls: ProgramCalls) -> None:
        self._begin(rank, words[0], calls)
        _allow_many_files()
        shared = _memfd("xsim", os.MFD_CLOEXEC)
        os.ftruncate(shared, PAGE_BYTES)
        self.page, self.fields = page_in(shared)
        out, err = _pipe(os.O_CLOEXEC), _pipe(os.O_CLOEXEC)
        self._ends = out[0], err[0]
        self._state = _State(ctypes.addressof(self.fields), 0, *self._ends, -1)
        self._pointer: Any = ctypes.byref(self._state)
        self._library = _parent()
        self._exchange, self._wait_for_call = self._library.xsim_exchange, self._library.xsim_wait
        meter.read_from(current.running(), self._cpu_ns)
        try:
            self._start(words, (shared, out[1], err[1]))
        finally:
            for each in (shared, out[1], err[1]):
                _close(each)
        Patches.latest.at_end(self.close)
        self._enlist()

    def _begin(self, rank: Rank, file: str, calls: ProgramCalls) -> None:
        """Set what does not depend on where the program runs."""
        self.rank, self.file = rank, file
        self._call = calls.execute
        self.is_over = False
        self.initialized = self.finalized = False
        self.is_inside = False  # between MPI_Init and MPI_Finalize
        self.is_timed = meter.is_on()
        self.tells_time = False  # whether the program has read a clock, and gets the time with each reply
        self.memory = RemoteMemory(self, 0, _ADDRESSES)
        self.handles = Handles()
        self.comms = self.handles.comms
        self.is_plain = not hasattr(MPI.Comm.Send, "__wrapped__")  # whether no tool sees the calls of this run
        self.places, self.routes = calls.places, calls.routes.setdefault((self.is_plain, self.is_timed), {})
        self.place: object = None  # of the current call in the program
        self.depth = 0  # of callbacks in progress
        self.queued: tuple[int, Sequence[int], bytes] = 0, (), b""  # request, arguments and data of a queued call
        self.handled = 0  # the error code for which the program's own error handler was called last
        self._writes: list[bytes] = []  # for the program's memory, with the next reply
        self._written = 0
        self._line = {"stdout": b"", "stderr": b""}  # an unfinished line of output
        self._borrowed: list[int] = []

    def _enlist(self) -> None:
        """Have the program ended with its rank."""
        self.rank.private("at death", list).append(self.kill)
        self.rank.private("child", lambda: self)

    def _start(self, words: Sequence[str], descriptors: tuple[int, int, int]) -> None:
        variables, folder = os.environ, os.getcwd()
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
        self.pid: int | str = pid.value  # as /proc has it
        self._state.pid = pid.value
        if not self._library.xsim_is_fixed():
            self.places, self.routes = SourcePlaces(), {}

    # ------------------------------------------------------------------------------------------------------- calls

    def serve(self) -> int:
        """Serve the calls of the program until it ends, which raises `Ended`.

        Inside a callback, return its result.
        """
        page = self.page
        exchange, state = self._wait_for_call, self._pointer
        then, wait = self._exchange, self._wait_for_call
        if self.rank.shard.has_company and not self.depth:
            then, wait = self._library.xsim_exchange_hurrying, self._library.xsim_wait_hurrying
        while True:
            got = exchange(state)
            exchange = wait
            if got == _OUTPUT:
                self._copy_output()
            elif got == _ENDED:
                raise Ended
            elif got == _COMPUTES:
                self.rank.shard.leave_to_compute(self.rank.fiber)
                exchange = self._wait_for_call
            elif got == _CALLED:
                request, function, depth, site, queued = REQUEST.unpack_from(page)
                if queued:
                    self._catch_up()
                while request == CALL:
                    if depth < self.depth:
                        raise Abandoned
                    if function == FLUSH:
                        break
                    try:
                        result = self._call(self, function, site)
                    except Abandoned:
                        request, function, depth, site, _ = REQUEST.unpack_from(page)
                        continue
                    if result:
                        self.fields.result = result
                    if self._writes:
                        self._patch()
                    if self.tells_time:
                        self.tell_time()
                    break
                else:
                    if request == RETURNED:
                        return int(self.fields.returned)
                exchange = then

    def enter(self, *, inside: bool) -> None:
        """Record that the program has begun or ended MPI.

        It may continue after a call that cannot fail and needs no answer. A process that may end at any time, or whose
        computation has a cost, makes each call at its time.
        """
        self.is_inside = inside
        if not inside:
            self.comms.clear()
        is_free = type(self.rank.fiber) is Fiber and not self.rank.shard.fault_tolerant and not self.is_timed
        self.let_go_ahead(inside and is_free and self.is_plain)

    def let_go_ahead(self, may: bool) -> None:
        """Set whether the program may queue calls."""
        self.fields.is_ahead = may

    def comm(self, number: int) -> Communicator | None:
        """Return the communicator with a number, for a message within its group; None if another call is needed."""
        return self.handles.comm(number) if self.is_inside else None

    def _catch_up(self) -> None:
        """Carry out the calls that the program has queued; it may be called back meanwhile."""
        page = self.page
        at, end = QUEUE_AT, QUEUE_AT + self.fields.queued
        self.fields.queued = 0
        current_arguments = page[ARGUMENTS_AT:SIZES_AT]
        while at < end:
            size, function, site, request, sent, *given = QUEUED.unpack_from(page, at)
            self.queued = request, given, page[at + QUEUED.size : at + QUEUED.size + sent]
            self._call(self, function | QUEUED_CALL, site)
            at += size
        page[ARGUMENTS_AT:SIZES_AT] = current_arguments

    def run(self) -> NoReturn:
        """Run the program to its end, and end the rank with the process's exit status."""
        with suppress(Ended):
            self.serve()
        self._catch_up()
        status = self._wait()
        if status < 0:
            lifecycle.leave(128 - status, f"killed by {signal.Signals(-status).name}")
        if self.initialized and not self.finalized:
            lifecycle.leave(status, lifecycle.UNFINALIZED)
        raise SystemExit(status)

    def arguments(self, count: int) -> tuple[int, ...]:
        """Return the first arguments of the current call as signed integers."""
        return ARGUMENTS[count].unpack_from(self.page, ARGUMENTS_AT)

    def sent(self, count: int) -> tuple[int, ...]:
        """Return the signed integers that have come with the call; nothing unless it is this number of them."""
        return struct.unpack_from(f"={count}q", self.page, PAYLOAD_AT) if self.fields.sent == 8 * count else ()

    def call_back(self, kind: int, function: int, *arguments: int) -> int:
        """Call a function of the program and return its result; the program is inside a call."""
        self.fields.function, self.fields.site = kind, function
        self.depth += 1
        try:
            return self._ask(CALLBACK, *arguments)
        finally:
            self.depth -= 1

    def _ask(self, kind: int, *arguments: int) -> int:
        """Let the program do something inside its call, and return the result."""
        ARGUMENTS[len(arguments)].pack_into(self.page, ARGUMENTS_AT, *arguments)
        self.fields.reply = kind
        self._give_turn()
        return self.serve()

    def _give_turn(self) -> None:
        self._patch()
        self._library.xsim_give(self._pointer)

    def tell_time(self) -> None:
        """Tell the program the virtual time with the reply."""
        clock_ps = current.running().clock_ps
        fields = self.fields
        fields.is_told, fields.now_s, fields.now_ns = 1, clock_ps / 10**12, clock_ps // 1000

    def _cpu_ns(self) -> int:
        """Return the processor time that the program had used before its current call."""
        return int(self.fields.cpu_ns)

    def obtain(self, size: int) -> int:
        """Allocate memory of the program, filled with zeros, and return its address."""
        return self._ask(OBTAIN, max(size, 1))

    def release(self, address: int) -> None:
        """Free memory that `obtain` has allocated."""
        self._ask(RELEASE, address)

    def _patch(self) -> None:
        """Put what is to be written to the program's memory into the page."""
        data = b"".join(self._writes)
        self.page[PATCH_AT : PATCH_AT + len(data)] = data
        self.fields.patches = len(data)
        self._writes.clear()
        self._written = 0

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
        """Write to memory of the program, before its next instruction; do nothing if the process has ended."""
        if self.is_over:  # a receive completes whose request has been freed
            return
        size = len(data)
        padded = (size + 7) // 8 * 8 + 16
        if self._written + padded <= PATCH_BYTES:
            self._writes += (PATCH_HEAD.pack(address, size), data, bytes(-size % 8))
            self._written += padded
            return
        self._flush()
        if self._library.xsim_poke(self._pointer, data, address, size) != size:
            raise BadAddress(address, size)

    def change(self, address: int, old: bytes, new: bytearray) -> None:
        """Write the bytes that differ from those that were read last; do nothing if the process has ended."""
        if not self.is_over and old != new:
            here = (ctypes.c_char * len(new)).from_buffer(new)
            if self._library.xsim_change(self._pointer, old, here, address, len(old)):
                raise BadAddress(address, len(old))

    def _flush(self) -> None:
        waiting, self._writes, self._written = self._writes, [], 0
        for head, data in zip(waiting[::3], waiting[1::3], strict=True):
            address, size = PATCH_HEAD.unpack(head)
            if self._library.xsim_poke(self._pointer, bytes(data), address, size) != size:
                raise BadAddress(address, size)

    def borrow(self, number: int) -> int:
        """Return a descriptor of this process for one of the program, until `give_back`; negative if there is none."""
        found = int(self._library.xsim_descriptor(self._pointer, number))
        if found >= 0:
            self._borrowed.append(found)
        return found

    def give_back(self) -> None:
        """Close the borrowed descriptors."""
        while self._borrowed:
            _close(self._borrowed.pop())

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
                self._print(name, data)
        return found

    def _print(self, name: str, data: bytes) -> None:
        """Print the finished lines of output."""
        *lines, rest = (self._line[name] + data).split(b"\n")
        self._line[name] = rest
        # One by one: how many arrive together is a matter of real time.
        for line in lines:
            getattr(sys, name).write(_text(line + b"\n"))

    def _wait(self) -> int:
        """Wait for the end of the program, and return its exit status, negative for a signal."""
        status = self._status()
        self.is_over = True
        self._copy_output()
        for name, rest in self._line.items():
            if rest:
                getattr(sys, name).write(_text(rest))
        return status

    def _status(self) -> int:
        return os.waitstatus_to_exitcode(_waitpid(self._state.pid, 0)[1])

    def kill(self) -> None:
        """End the process now."""
        if not self.is_over:
            self.is_over = True
            _kill(self._state.pid, signal.SIGKILL)
            _waitpid(self._state.pid, 0)

    def close(self) -> None:
        """Release everything, at the end of the run."""
        self.kill()
        self.give_back()
        for end in self._ends:
            _close(end)
        self._library.xsim_unbind()


def _allow_many_files() -> None:
    """Raise the limit of open files, for the rest of this process: each program has the ends of two pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class BadAddress(Exception):
    """The program has passed an address that it may not use."""

    def __init__(self, address: int, size: int) -> None:
        super().__init__(f"{size} bytes at address {address:#x} are not in the program's memory")


class Abandoned(BaseException):
    """The program has left a callback by a long jump: the call that made it is over."""
