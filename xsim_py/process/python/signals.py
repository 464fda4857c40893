"""Signals of virtual processes: each has its own handlers, and can signal only itself and its children.

The real handlers remain the simulator's: Ctrl-C and the wall limit must work whatever the program does.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from xsim_py.process.descriptors import waits
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches, Table, in_ranks

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

_IGNORED = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)
_FATAL = (signal.SIGKILL, signal.SIGSTOP)


def _default(number: int) -> object:
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL


def _handlers(rank: Rank) -> dict[int, Any]:
    handlers: dict[int, Any] = rank.private("signals", dict)
    return handlers


def _set_handler(number: int, handler: object) -> object:
    if number in _FATAL:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    before = _get_handler(number)
    _handlers(current.rank())[signal.Signals(number)] = handler
    return before


def _get_handler(number: int) -> object:
    return _handlers(current.rank()).get(signal.Signals(number), _default(number))


def _raise_signal(number: int) -> None:
    fiber = current.running()
    if number not in set(signal.Signals):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    handler = _get_handler(number)
    if signal.Signals(number) in _blocked(fiber.rank) and number not in _FATAL:
        _pending(fiber.rank).append(signal.Signals(number))
        waits.wake(fiber)
    elif callable(handler):
        fiber.rank.private("signals handled", lambda: [0])[0] += 1
        handler(number, None)
        waits.wake(fiber)
    elif handler != signal.SIG_IGN and number not in _IGNORED:
        _leave(128 + number, f"killed by {signal.Signals(number).name}")


def _kill(pid: int, number: int) -> None:
    if pid != os.getpid() and _is_child(pid):
        _real_kill(pid, number)
    elif pid != os.getpid():
        message = f"a virtual rank can send signals to itself and its children only, not to process {pid}"
        raise PermissionError(errno.EPERM, message)
    elif number != 0:
        _raise_signal(number)


def _no_timer(name: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise NotImplementedError(f"signal.{name} is not simulated; use threading.Timer, which runs in virtual time")

    return refuse


def _blocked(rank: Rank) -> set[signal.Signals]:
    """Return the signals that a rank has blocked."""
    blocked: set[signal.Signals] = rank.private("signals blocked", set)
    return blocked


def _pending(rank: Rank) -> list[signal.Signals]:
    pending: list[signal.Signals] = rank.private("signals pending", list)
    return pending


def _pause() -> None:
    """Wait as `signal.pause` does, for a signal that only another thread of the rank can send."""
    fiber = current.running()
    handled = fiber.rank.private("signals handled", lambda: [0])
    before = handled[0]
    waits.until(fiber, lambda: handled[0] > before, None, "waits for a signal that another thread sends")


def _wait_for(numbers: Iterable[int], timeout_s: float | None = None) -> signal.Signals | None:
    fiber = current.running()
    wanted, pending = {signal.Signals(number) for number in numbers}, _pending(fiber.rank)

    def find() -> signal.Signals | None:
        return next((number for number in pending if number in wanted), None)

    names = ", ".join(sorted(number.name for number in wanted))
    found: signal.Signals | None = waits.until(fiber, find, timeout_s, f"waits for {names} from another thread")
    if found is not None:
        pending.remove(found)
    return found


def _wait_info(numbers: Iterable[int], timeout_s: float | None = None) -> SimpleNamespace | None:
    if timeout_s is not None and timeout_s < 0:
        raise ValueError("timeout must be non-negative")
    found = _wait_for(numbers, timeout_s)
    if found is None:
        return None
    return SimpleNamespace(si_signo=int(found), si_code=0, si_errno=0, si_pid=os.getpid(), si_uid=os.getuid())


def _mask(how: int, numbers: Iterable[int]) -> set[signal.Signals]:
    rank = current.rank()
    blocked, given = _blocked(rank), {signal.Signals(number) for number in numbers}
    before = set(blocked)
    if how == signal.SIG_BLOCK:
        blocked |= given
    elif how == signal.SIG_UNBLOCK:
        blocked -= given
    elif how == signal.SIG_SETMASK:
        blocked.clear()
        blocked |= given
    else:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    pending = _pending(rank)
    for number in [number for number in pending if number not in blocked]:
        pending.remove(number)
        _raise_signal(number)
    return before


def _is_child(pid: int) -> bool:
    """Return True if a real process is a child of the program."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OverflowError):
        return False
    return pid > 0


_real_kill = os.kill
_leave: Callable[[int, str], Any]
_OWN = "virtual: signals of a rank to itself"
PATCHED: Table = (
    (
        "signal",
        "private: handlers of the rank",
        {"signal": in_ranks(_set_handler), "getsignal": in_ranks(_get_handler)},
    ),
    ("signal", _OWN, {"raise_signal": in_ranks(_raise_signal), "pause": in_ranks(_pause)}),
    ("signal", _OWN, {"sigwait": in_ranks(_wait_for), "pthread_sigmask": in_ranks(_mask)}),
    ("signal", _OWN, {"sigwaitinfo": in_ranks(_wait_info), "sigtimedwait": in_ranks(_wait_info)}),
    ("signal", _OWN, {"sigpending": in_ranks(lambda: set(_pending(current.rank())))}),
    ("signal", "refused: use `threading.Timer`", {name: in_ranks(_no_timer(name)) for name in ("alarm", "setitimer")}),
    (
        "os",
        "virtual: signals to the rank itself; real: to its child processes; refused: to others",
        {"kill": in_ranks(_kill)},
    ),
)


def install(patches: Patches, leave: Callable[[int, str], Any]) -> None:
    """Replace the functions about signals for the duration of a run.

    `leave` ends the running rank with a status and a message.
    """
    global _leave
    _leave = leave
    patches.install(PATCHED)
