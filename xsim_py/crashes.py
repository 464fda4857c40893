"""A process finds out that the signal of a crash, such as SIGSEGV, was sent to it, and comes from no fault of its own.

`faulthandler` writes the stack when such a signal comes, and then raises it again for the handler that was there
before it. That is one of Python's, for one time: it makes a note, and returns to what was interrupted. There a fault
happens again, and now the system ends the process by that signal: no line of Python has run in between. After a signal
that somebody has sent, the process goes on to its next line, before which Python calls the handler.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""The signals by which processes crash, of which `faulthandler` writes the stack."""

_ON_OTHER_STACK: Final = 0x08000000  # SA_ONSTACK of Linux
_ONCE: Final = 0x80000000  # SA_RESETHAND

# A rank has others of these.
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


def notice_senders(struck: Callable[[], None]) -> None:
    """Have `struck` called when somebody sends this process the signal of a crash, before it ends by that signal.

    Is to be called before `faulthandler` is enabled. Does nothing where the system is not Linux.
    """
    if sys.platform != "linux":
        return
    process = _getpid()

    def sent(number: int, _: object) -> None:
        if _getpid() == process:  # else a child of the program has inherited this
            struck()
        _kill(_getpid(), number)

    for number in CRASHES:
        signal.signal(number, sent)
        if not _only_once(number):  # else a fault would happen again and again
            signal.signal(number, signal.SIG_DFL)


def _only_once(number: int) -> bool:
    """Have the system forget a handler when it is called first; whether it can be told to, as far as we know."""
    set_action = ctypes.CDLL(None).sigaction
    action = _Action()
    known = set_action(number, None, ctypes.byref(action)) == 0 and action.flags & _ON_OTHER_STACK
    action.flags |= _ONCE
    return bool(known) and set_action(number, ctypes.byref(action), None) == 0
