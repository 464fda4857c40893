"""A sampling profile of a run: wall time by layer of the simulator and by shard.

A timer interrupts the process some hundred times per second of its CPU time, and the wall time since the last interrupt
is attributed to the innermost function of the simulator or the program; library functions count for their callers. So
no measurement code runs where messages are handled, and a run takes the same time as without a profile.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from xsim_py.code_origin import PACKAGE, is_installed
from xsim_py.errors import ConfigError
from xsim_py.process.ranks import current

if TYPE_CHECKING:
    from types import CodeType, FrameType

PARTS = ("engine", "mpi", "program", "exchange", "waiting", "rest")
"""Event queue, ranks, machine and network; the virtual MPI; the program; data exchange with other shards; waiting for
other shards; starting, reporting and everything else.
"""

_EVERY_S = 0.002
_FLOORS = {
    "engine": "engine",
    "process": "engine",
    "machine": "engine",
    "network": "engine",
    "failure": "engine",
    "mpi": "mpi",
    "mpi4py": "mpi",
    "compiled": "mpi",
}
_FUNCTIONS = {
    "_wait_for_peers": "waiting",
    "_exchange": "exchange",
    "take_outbox": "exchange",
    "receive": "exchange",
}
_EXCHANGING = ("engine/transport.py", "engine/windows.py", "process/ranks/shard.py")
_STARTER = "process/programs/program.py"


class Profile:
    """Seconds of wall time, by shard and part."""

    def __init__(self, first_shard: int, *, has_processes: bool = False) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ConfigError("profile: a profile needs the main thread, and simulate() was called in another")
        # By the shard's number and one of `PARTS`.
        self.seconds: defaultdict[tuple[int, str], float] = defaultdict(float)
        self._first = first_shard
        self._has_processes = has_processes  # of compiled programs, for which this one waits without samples
        self._parts: dict[CodeType, str] = {}

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Take samples while this context is entered."""
        before = signal.signal(signal.SIGPROF, self._sample)
        self.begin(self._first)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, signal.SIG_IGN)  # discards a pending one, which would end the process
            signal.signal(signal.SIGPROF, before)

    def begin(self, first_shard: int) -> None:
        """Begin sampling in a process whose first shard this is; it may be a fork of one that already samples."""
        self._first = first_shard
        self._then_s, self._used_s = perf_counter(), process_time()
        signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)

    def of(self, shard: int) -> list[float]:
        """Return the seconds of one shard, in the order of `PARTS`."""
        return [self.seconds[shard, part] for part in PARTS]

    def _sample(self, _: int, frame: FrameType | None) -> None:
        now_s, used_s = perf_counter(), process_time()
        part, shard = self._place(frame)
        idle_s = max(now_s - self._then_s - (used_s - self._used_s), 0.0) if self._has_processes else 0.0
        self.seconds[shard, "program"] += idle_s
        self.seconds[shard, part] += now_s - self._then_s - idle_s
        self._then_s, self._used_s = now_s, used_s

    def _place(self, frame: FrameType | None) -> tuple[str, int]:
        """Return the part that the frame belongs to, and the active shard."""
        found = ""
        fiber = current.fiber
        shard = self._first if fiber is None else fiber.rank.shard.number
        while frame is not None and (not found or fiber is None):
            part = self._parts.get(frame.f_code)
            if part is None:
                part = self._parts[frame.f_code] = _part_of(frame.f_code)
            found = found or part
            if fiber is None and frame.f_code.co_name == "run_window":  # of a shard or its kernel: keep looking
                shard = getattr(frame.f_locals.get("self"), "number", shard)
            frame = frame.f_back
        return found or "rest", shard


def _part_of(code: CodeType) -> str:
    """Return the part that a function belongs to; empty for a library function."""
    file = code.co_filename
    if not file.startswith(PACKAGE):
        return "" if is_installed(file) or file.startswith("<frozen") else "program"
    inside = file[len(PACKAGE) :].replace(os.sep, "/")
    if inside in _EXCHANGING and code.co_name in _FUNCTIONS:
        return _FUNCTIONS[code.co_name]
    if inside == _STARTER:
        return "program"
    return _FLOORS.get(inside.partition("/")[0], "rest")
