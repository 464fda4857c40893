"""A periodic signal, SIGALRM, that interrupts the process's work.

The timer is a POSIX one (`timer_create`), which ends with the program: an interval timer continues if C code replaces
the program (`exec`), which it would end with an unknown signal.
"""

from __future__ import annotations

import ctypes
import signal
from functools import cache
from typing import Final

_MONOTONIC: Final = 1  # the clock's number


class _TimerTimes(ctypes.Structure):
    """Seconds and nanoseconds between signals, and until the first one (``struct itimerspec``)."""

    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")]


@cache
def c_library() -> ctypes.CDLL:
    """Return the process's C library; its ctypes object is large, and created once."""
    return ctypes.CDLL(None, use_errno=True)


class Ticks:
    """A timer that sends SIGALRM to this process, but not to forks of it, until stopped.

    Ticks are `every_s` seconds of the wall clock apart.
    """

    def __init__(self, every_s: float) -> None:
        self._library = c_library()
        self._timer = ctypes.c_void_p()
        create = getattr(self._library, "timer_create", None)  # missing on macOS
        self._is_posix = create is not None and create(_MONOTONIC, None, ctypes.byref(self._timer)) == 0
        if self._is_posix:
            whole, part = divmod(round(every_s * 10**9), 10**9)
            times = _TimerTimes(whole, part, whole, part)
            self._library.timer_settime(self._timer, 0, ctypes.byref(times), None)
        else:
            signal.setitimer(signal.ITIMER_REAL, every_s, every_s)

    def stop(self) -> None:
        """Stop the signals; a pending one may still arrive."""
        if self._is_posix:
            self._library.timer_delete(self._timer)
        else:
            signal.setitimer(signal.ITIMER_REAL, 0)
