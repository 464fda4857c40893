"""Detection of crash signals, such as SIGSEGV, that were sent by another process.

`faulthandler` writes the stack when such a signal arrives, then raises it again for the handler that was installed
before. That is a one-shot handler of Python: it sets a flag and returns to the interrupted code. There a fault occurs
again, and now the system ends the process with that signal, without any Python code in between. After a signal sent by
another process, the process continues to its next line, before which Python calls the handler.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""The signals of crashes, for which `faulthandler` writes the stack."""

_ON_OTHER_STACK: Final = 0x08000000  # SA_ONSTACK of Linux
_ONCE: Final = 0x80000000  # SA_RESETHAND

# Ranks have different ones.
_kill, _getpid = os.kill, os.getpid


class _Action(ctypes.Structure):
    """``struct sigaction`` of Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_uint),
        ("restorer", ctypes.c_void_p),
    )

    flags: int


def notice_senders(on_signal: Callable[[], None]) -> None:
    """Call `on_signal` when another process sends a crash signal, before this process ends.

    Call it before `faulthandler` is enabled. It has an effect on Linux only.
    """
    if sys.platform != "linux":
        return
    process = _getpid()

    def sent(number: int, _: object) -> None:
        if _getpid() == process:  # otherwise a child of the program has inherited this
            on_signal()
        _kill(_getpid(), number)

    for number in CRASHES:
        signal.signal(number, sent)
        if not _only_once(number):  # otherwise a fault would repeat forever
            signal.signal(number, signal.SIG_DFL)


def _only_once(number: int) -> bool:
    """Make the system reset a handler on its first call; return False if not supported."""
    set_action = ctypes.CDLL(None).sigaction
    action = _Action()
    known = set_action(number, None, ctypes.byref(action)) == 0 and action.flags & _ON_OTHER_STACK
    action.flags |= _ONCE
    return bool(known) and set_action(number, ctypes.byref(action), None) == 0
