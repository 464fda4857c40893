"""A signal every so often, SIGALRM, by which a process looks up from what it does.

The timer is one of POSIX (`timer_create`), which ends with the program: an interval timer goes on where C code replaces
the program by another one (`exec`), and ends that with a signal that it does not know.
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
    """Return the C library that this process has loaded; what ctypes makes of it is large, and made once."""
    return ctypes.CDLL(None, use_errno=True)


class Ticks:
    """Sends SIGALRM to this process, and not to those that it forks, until it is stopped.

    Parameters
    ----------
    every_s : float
        In seconds of the wall clock.
    """

    def __init__(self, every_s: float) -> None:
        self._library = c_library()
        self._timer = ctypes.c_void_p()
        create = getattr(self._library, "timer_create", None)  # macOS has none
        self._is_posix = create is not None and create(_MONOTONIC, None, ctypes.byref(self._timer)) == 0
        if self._is_posix:
            whole, part = divmod(round(every_s * 10**9), 10**9)
            times = _TimerTimes(whole, part, whole, part)
            self._library.timer_settime(self._timer, 0, ctypes.byref(times), None)
        else:
            signal.setitimer(signal.ITIMER_REAL, every_s, every_s)

    def stop(self) -> None:
        """Send no more of them; one that is on its way may still come."""
        if self._is_posix:
            self._library.timer_delete(self._timer)
        else:
            signal.setitimer(signal.ITIMER_REAL, 0)
