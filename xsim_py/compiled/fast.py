"""Programs in the process of the simulator: ``xsim cc --fast`` makes them, as shared objects that are loaded once.

Each rank has a stack, variables and memory; those of the rank that runs are in place (`library/fast_host.c`). A call
switches from the stack of the program to that of the simulator, which serves it as one from a process: `FastChild`
differs from `Child` in where the program's memory is.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from xsim_py.errors import ConfigError
from xsim_py.mpi import errors
from xsim_py.process.ranks import current, meter
from xsim_py.process.ranks.patches import Patches

from .build import FAST_HOST, fast_library
from .calls import failed, route
from .child import Abandoned, BadAddress, Child, Ended, ProgramCalls, Serve, page_in
from .elf import FAST_SYMBOL, Image
from .places import SourcePlaces

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

__all__ = ["FastCalls", "FastChild"]

_FIRST = 0x100000000000
"""The address of the memory of rank 0; that of the others follows, so that it is the same in every run."""
_SMALL, _LARGE = (1 << 20, 512 << 10), (64 << 20, 8 << 20)  # memory of a rank, and how much of it is the stack
_MANY = 16_384  # ranks from which on they have the smaller one
_GUARDED = 8_192  # ranks up to which each may have one more mapping, for the page below its stack
_OF_C_LIBRARY = {
    **dict.fromkeys(("optarg", "environ"), 8),
    **dict.fromkeys(("optind", "opterr", "optopt", "signgam"), 4),
}
"""Variables of the C library that each rank has to itself, and their sizes."""
_VARIABLES = ("environ", "__environ", "_environ")
_HARMLESS = (
    *("stdin", "stdout", "stderr", *_VARIABLES),
    *("__libc_single_threaded", "timezone", "daylight", "tzname", "in6addr_any", "in6addr_loopback"),
)
"""Others that each rank has to itself by other means or names, or that programs only read."""
_LIBRARIES = re.compile(r"(libc|libm|libmvec|libdl|librt|libpthread|ld-linux-x86-64)\.so[.\d]*")
_REFUSED = {
    "threads": ("pthread_create", "thrd_create"),
    "other processes": (
        *("fork", "vfork", "clone", "system", "popen", "posix_spawn", "posix_spawnp"),
        *("execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "fexecve"),
    ),
    "signal handlers and timers": (
        *("signal", "sigaction", "__sysv_signal", "bsd_signal", "sigaltstack", "sigprocmask", "pthread_sigmask"),
        *("sigsuspend", "sigwait", "alarm", "setitimer", "timer_create", "pthread_kill"),
    ),
    "the current directory and limits of the process": ("chdir", "fchdir", "chroot", "umask", "setrlimit", "prctl"),
    "redirection of standard streams": ("freopen", "freopen64", "dup2", "dup3"),
    "memory of the C library's own": ("sbrk", "brk", "mallopt"),
    "generators whose state all ranks would share": ("initstate", "setstate", "seed48", "lcong48", "erand48"),
    "dynamic loading": ("dlopen", "dlmopen"),
    "sockets": ("socket", "accept", "accept4", "connect", "listen"),  # a wait would stop all ranks
}
"""Functions that programs in the simulator's process cannot use."""
_DLINFO_TLS_MODULE = 9
_OUTPUT, _ENDED, _RETURNED = range(3)
_FUNCTION_BITS = 17
_FUNCTION = (1 << _FUNCTION_BITS) - 1


def refuse_unusable(file: str, name: str) -> None:
    """Raise a `ConfigError` if a program cannot run in this process, with a remedy."""
    image = Image(file)
    elsewhere = "compile it without --fast"
    for library in image.libraries:
        if not _LIBRARIES.fullmatch(library):
            raise ConfigError(f"{name}: uses {library}, whose variables all ranks would share: {elsewhere}")
    if image.starts_at_load:
        raise ConfigError(
            f"{name}: its linker does not follow the script of xsim cc --fast: use that of GNU, or {elsewhere}"
        )
    for each in image.symbols:
        if each.name == FAST_SYMBOL and image.integer(each.address) != fast_library()[1]:
            raise ConfigError(f"{name}: linked by another version of xsim_py: link it again")
        if each.is_defined:
            continue
        for kind, functions in _REFUSED.items():
            if each.name in functions:
                raise ConfigError(f"{name}: uses {each.name}; --fast excludes {kind}: {elsewhere}")
        if each.is_variable and each.name not in (*_OF_C_LIBRARY, *_HARMLESS):
            raise ConfigError(f"{name}: uses the variable {each.name}, which all ranks would share: {elsewhere}")


@cache
def _host() -> Any:
    library = ctypes.PyDLL(str(fast_library()[0] / FAST_HOST))
    library.xsim_functions.restype = ctypes.py_object
    return SimpleNamespace(**library.xsim_functions())


class _Page:
    """The page that all programs of a run share, and what else a run changes in this process."""

    latest: _Page | None = None

    def __init__(self) -> None:
        self.run = Patches.latest
        self.memory, self.fields = page_in(-1)
        _host().hook(ctypes.addressof(self.fields))
        self._images: dict[int, int] = {}
        self.run.at_end(self._close)

    @staticmethod
    def of_run() -> _Page:
        """Return the page of the current run."""
        if _Page.latest is None or _Page.latest.run is not Patches.latest:
            _Page.latest = _Page()
        return _Page.latest

    def image_of(self, file: str, image: Image) -> int:
        """Load a program, and return where the host keeps its description; all programs of one file share it."""
        handle = ctypes.PyDLL(file, mode=os.RTLD_NOW | os.RTLD_LOCAL)._handle
        if handle in self._images:
            _dlclose(handle)
        else:
            self._images[handle] = _host().load(*_parts(image, handle))
        return self._images[handle]

    def _close(self) -> None:
        for handle, image in self._images.items():
            _host().unload(image)
            _dlclose(handle)
        _host().hook(0)
        _Page.latest = None


class FastCalls(ProgramCalls):
    """The state shared by the ranks of a program: where it is loaded, and the page."""

    def __init__(self, execute: Serve, file: str) -> None:
        super().__init__(execute)
        self.places = SourcePlaces(os.path.realpath(file))
        page = _Page.of_run()
        image = Image(file)
        self.page, self.fields, self.image = page.memory, page.fields, page.image_of(file, image)
        self.needs_variables = any(each.name in _VARIABLES for each in image.symbols)
        self.children: set[FastChild] = set()
        self._texts: dict[tuple[str, ...], Any] = {}
        Patches.latest.at_end(self._close)

    def texts(self, words: Sequence[str]) -> Any:
        """Return an array of C strings that ends with a null pointer, the same for all ranks with these words."""
        key = tuple(words)
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = (ctypes.c_char_p * (len(key) + 1))(*map(os.fsencode, key), None)
        return found

    def _close(self) -> None:
        for each in [*self.children]:
            each.kill()


def _parts(image: Image, handle: int) -> list[int]:
    """Return the address of a program's description, and what each rank has to itself, as `load` takes it."""
    base = ctypes.c_uint64.from_address(handle).value  # the first field of a link_map
    found = [base + image.address_of(FAST_SYMBOL)]
    for begin, size in image.variables:
        found += [base + begin, size]
    if image.thread_bytes:
        found += [_thread_local(handle), image.thread_bytes]
    found += [0, 0]
    imported = {each.name for each in image.symbols}
    for name, size in _OF_C_LIBRARY.items():
        if name in imported or name == "environ":
            found += [ctypes.addressof(ctypes.c_char.in_dll(_c_library(), name)), size]
    return found


def _thread_local(handle: int) -> int:
    """Return the address of the thread-local variables of a loaded program."""
    place = (ctypes.c_size_t * 2)()
    _c_library().dlinfo(ctypes.c_void_p(handle), _DLINFO_TLS_MODULE, place)
    find = _c_library()["__tls_get_addr"]
    find.restype = ctypes.c_void_p
    return int(find(place))


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _dlclose(handle: int) -> None:
    _c_library().dlclose(ctypes.c_void_p(handle))


class FastChild(Child):
    """The program of a rank in this process."""

    def __init__(self, rank: Rank, words: Sequence[str], calls: FastCalls) -> None:
        self._begin(rank, words[0], calls)
        self.page, self.fields = calls.page, calls.fields
        self._library = _host()
        self._exchange, self._wait_for_call = self._library.exchange, self._library.wait
        ranks = rank.shard.initial
        size, stack = _LARGE if ranks < _MANY else _SMALL
        found = self._library.begin(calls.image, _FIRST + rank.number * size, size, stack, ranks <= _GUARDED)
        if found < 0:
            raise MemoryError(f"rank {rank.number}: cannot map {size} bytes: {os.strerror(-found)}")
        self._pointer = found
        given = ctypes.addressof(calls.texts(words))
        self._library.give(found, len(words), given, calls.needs_variables, rank.number == 0)
        self.pid = "self"
        self._siblings = calls.children
        meter.read_from(current.running(), self._cpu_ns)
        self._enlist()

    def _enlist(self) -> None:
        self._siblings.add(self)
        super()._enlist()

    def serve(self) -> int:
        """Serve the calls of the program until it ends; inside a callback, return its result."""
        pointer, routes, exchange = self._pointer, self.routes, self._exchange
        got = self._wait_for_call(pointer)
        while True:
            if self.depth and got > _RETURNED and self.fields.depth < self.depth:
                raise Abandoned
            found = routes.get(got)
            if found is None:
                if got == _RETURNED:
                    return int(self.fields.returned)
                if got == _OUTPUT:
                    self._copy_output()
                    got = self._wait_for_call(pointer)
                    continue
                if got == _ENDED:
                    raise Ended
                found = routes[got] = route(self, got & _FUNCTION, got >> _FUNCTION_BITS)
            through, self.place, body = found
            try:
                result = through(body, self)
            except errors.Exception as error:
                result = failed(self, error, None)
            except Abandoned:
                got = self.fields.site << _FUNCTION_BITS | self.fields.function
                continue
            if result:
                self.fields.result = result
            if self.tells_time:
                self.tell_time()
            got = exchange(pointer)

    def _give_turn(self) -> None:
        self._library.turn(self._pointer)

    def let_go_ahead(self, may: bool) -> None:
        """Do nothing: a call takes less time than to queue it."""

    def _cpu_ns(self) -> int:
        return int(self._library.cpu_ns(self._pointer))

    def read(self, address: int, size: int) -> bytearray:
        """Return memory of the program."""
        found: bytearray | int = 0 if self.is_over else self._library.read(self._pointer, address, size)
        if isinstance(found, int):
            raise BadAddress(address, size)
        return found

    def write(self, address: int, data: bytes) -> None:
        """Write to memory of the program; do nothing if it has ended."""
        if not self.is_over and self._library.write(self._pointer, address, bytes(data)):
            raise BadAddress(address, len(data))

    def change(self, address: int, old: bytes, new: bytearray) -> None:
        """Write the bytes that differ from those that were read last; do nothing if the program has ended."""
        if not self.is_over and self._library.change(self._pointer, address, bytes(old), bytes(new)):
            raise BadAddress(address, len(old))

    def borrow(self, number: int) -> int:
        """Return another descriptor for an open file, until `give_back`; negative if there is none."""
        with suppress(OSError):
            self._borrowed.append(os.dup(number))
            return self._borrowed[-1]
        return -1

    def _copy_output(self) -> bool:
        found = False
        for i, name in enumerate(self._line):
            data = self._library.output(self._pointer, i)
            if data:
                found = True
                self._print(name, data)
        return found

    def _status(self) -> int:
        return int(self.fields.returned)

    def _wait(self) -> int:
        status = super()._wait()
        self._free()
        return status

    def kill(self) -> None:
        """End the program now."""
        if not self.is_over:
            self.is_over = True
            self._free()

    def _free(self) -> None:
        self._siblings.discard(self)
        self._library.end(self._pointer)
