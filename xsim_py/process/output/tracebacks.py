"""Tracebacks of the program, without the frames of the simulator."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

from xsim_py.code_origin import is_simulator
from xsim_py.errors import InternalError
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Table, in_ranks

from .collector import RankStream
from .equal_tracebacks import WholeTraceback

_stderr = RankStream(1, sys.stderr)  # of the running rank, whatever it has assigned to sys.stderr

# Errors that a program cannot cause by misuse, so the simulator is at fault: then its frames are shown.
_OURS = (AssertionError, AttributeError, InternalError, LookupError, NameError)


def uncaught(error: BaseException) -> None:
    """Notify a tool of an exception that the program has not caught, before it is shown."""
    if current.events is not None:
        current.events.uncaught(error)


def report(error: BaseException, heading: str = "") -> None:
    """Print an uncaught exception as Python does, but only once for many ranks."""
    uncaught(error)
    without_simulator(error)
    say(WholeTraceback("".join([heading, *traceback.format_exception(error)])))


def say(text: str) -> None:
    """Print to the running rank's standard error; if its replacement does not accept text, to the real one.

    The program may also have replaced ``print``, and its defects must not cause further errors.
    """
    try:
        sys.stderr.write(text)
    except BaseException:
        _stderr.write(text)


def _excepthook(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    """Print a traceback as ``sys.__excepthook__`` does, which many hooks call before they call Abort."""
    say(WholeTraceback("".join(traceback.format_exception(kind, error, tb))))


def report_ignored(error: BaseException, source: object) -> None:
    """Print an exception in a finalizer, which ends nothing, as Python does, but without addresses."""
    source = getattr(source, "func", source)
    named = getattr(source, "__qualname__", None)
    uncaught(error)
    without_simulator(error)
    heading = f"Exception ignored in: {f'<{type(source).__name__} {named}>' if named else source}\n"
    say("".join([heading, *traceback.format_exception(error)]))


def _unraisablehook(unraisable: sys.UnraisableHookArgs) -> None:
    """Print exceptions, for example from finalizers, as ``sys.unraisablehook`` does."""
    if current.here() is None or unraisable.exc_value is None:
        _real_unraisablehook(unraisable)
    else:
        report_ignored(unraisable.exc_value, unraisable.object)


_real_unraisablehook = sys.unraisablehook


PATCHED: Table = (
    (
        "sys",
        "private: tracebacks of the rank, each written in one piece",
        {"__excepthook__": in_ranks(_excepthook), "unraisablehook": _unraisablehook},
    ),
)


def without_simulator(error: BaseException) -> None:
    """Remove the frames of the simulator and of the import system from the tracebacks of `error` and its causes."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = _cleaned(each)
            todo += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def forget_frames() -> None:
    """Remove the simulator's frames from the error being handled, which would keep them alive."""
    error = sys.exc_info()[1]
    if error is not None:
        without_simulator(error)


def _cleaned(error: BaseException) -> TracebackType | None:
    kept: list[TracebackType] = []
    tail: list[TracebackType] = []
    tb = error.__traceback__
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if is_simulator(file):
            tail.append(tb)
        elif not file.startswith("<frozen importlib"):
            kept.append(tb)
            tail = []
        tb = tb.tb_next
    if isinstance(error, _OURS):
        kept += tail
    chain: TracebackType | None = None
    for tb in reversed(kept):
        tb.tb_next = chain
        chain = tb
    return chain
