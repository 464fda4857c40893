"""Wrappers of the interface's methods that notify a monitor of each call.

A wrapper has the parameters of the method if its check does: in Python, passing arbitrary arguments on twice takes
longer than the whole check. So it is compiled from a few lines of source, once per list of parameters. Arguments that
do not fit are passed to the method itself, which reports the error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from inspect import Parameter, signature
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.process.ranks import current

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from .monitor import Monitor, MpiCall, RankState

After = Callable[[Any], bool | None]
"""Takes the result of a checked call, and returns True if it has handled the result completely."""

_POLLS = frozenset(
    {
        *("Iprobe", "iprobe", "Improbe", "improbe", "Test", "test", "Testany", "testany", "Testall", "testall"),
        *("Testsome", "testsome", "Get_status", "get_status", "Waitany", "waitany", "Waitsome", "waitsome"),
    }
)
"""Calls whose result may depend on timing, so that the program may behave differently."""
_MISSING: Any = object()
_frame = sys._getframe
_PLAIN = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY)


class Hooks(NamedTuple):
    """The functions that a monitor calls around each call of one method."""

    check: Callable[..., After | None] | None
    """Called before the method with the monitor, the call, and the method's arguments."""
    ended: Callable[[Monitor, MpiCall, Any, Any], None]
    """Called after a call with its owner (if any) and result."""
    failed: Callable[[Monitor, MpiCall, BaseException], None]
    """Called after a call with the exception."""
    tidy: Callable[[Monitor, RankState], None]
    """Called when a rank has many steps."""


_SOURCE = """
def make(monitor, function, check, polls, enter, failed, leave, frame_of, missing, defaults, fill, unfit):
    def call({parameters}):
        {bind}
        frame = frame_of({depth})
        made = enter(frame)
        if made is None:
            return {called}
        after = None
        try:
            if check is not None:
                try:
                    after = {checked}
                except TypeError as error:
                    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                        raise
                    # The arguments fit no parameters: the method itself will say so.
            result = {called}
        except BaseException as error:
            failed(made, error, frame)
            raise
        if polls:
            monitor.polls = True
        leave(made, after, result, {first}, frame)
        return result
    return call
"""
_BIND = """
        if named or more or {last} is missing:
            values = fill(({names}), named)
            if values is None or more:
                return unfit(*[each for each in ({names}) if each is not missing], *more, **named)
            {names} = values
"""


@cache
def _maker(count: int, required: int) -> Callable[..., Callable[..., Any]]:
    """Return a factory of wrappers with `count` parameters.

    The first `required` of them have no default.
    """
    names = [f"argument_{i}" for i in range(count)]
    listed = "".join(f"{name}, " for name in names)
    defaults = [f"        if {names[i]} is missing: {names[i]} = defaults[{i}]\n" for i in range(required, count)]
    return _compiled(
        parameters="".join(f"{name}=missing, " for name in names) + "/, *more, **named",
        bind=_BIND.format(names=listed, last=names[required - 1]) + "".join(defaults),
        called=f"function({listed})",
        checked=f"check(monitor, made, {listed})",
        first=names[0],
        depth=1,
    )


@cache
def _maker_of_any(depth: int) -> Callable[..., Callable[..., Any]]:
    """Return a factory of wrappers with any parameters, at a call depth below the program."""
    return _compiled(
        parameters="*args, **kwargs",
        bind="",
        called="function(*args, **kwargs) if kwargs else function(*args)",
        checked="check(monitor, made, *args, **kwargs) if kwargs else check(monitor, made, *args)",
        first="args[0] if args else None",
        depth=depth,
    )


def _compiled(**parts: Any) -> Callable[..., Callable[..., Any]]:
    made: dict[str, Any] = {}
    exec(compile(_SOURCE.format(**parts), __file__, "exec"), made)
    make: Callable[..., Callable[..., Any]] = made["make"]
    return make


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the defaults of a function by parameter name.

    The result is None if it has other kinds of parameters.
    """
    parameters = signature(function).parameters
    if any(each.kind not in _PLAIN for each in parameters.values()):
        return None
    return {name: each.default for name, each in parameters.items()}


def _filling(parameters: Iterable[str], required: int) -> Callable[..., list[Any] | None]:
    """Return a function that assigns named arguments to positions.

    It returns None if they do not fit.
    """
    places = {name: i for i, name in enumerate(parameters)}
    needed = range(required)

    def fill(values: tuple[Any, ...], named: dict[str, Any]) -> list[Any] | None:
        found = [*values]
        for name in named:
            place = places.get(name)
            if place is None or found[place] is not _MISSING:
                return None
            found[place] = named[name]
        for place in needed:
            if found[place] is _MISSING:
                return None
        return found

    return fill


def watched(monitor: Monitor, owner: str, name: str, function: Callable[..., Any], hooks: Hooks) -> Callable[..., Any]:
    """Return a method of a class wrapped to notify the monitor of each call of the program."""
    check = hooks.check
    shared = monitor, function, check, name in _POLLS, *_call_hooks(monitor, name, f"{owner}.{name}", hooks), _frame
    parameters = None if check is None or _parameters(check) is None else _parameters(function)
    if not parameters:
        return wraps(function)(_maker_of_any(1)(*shared, None, None, None, None))
    defaults = list(parameters.values())
    required = defaults.count(Parameter.empty)
    fill = _filling(parameters, required)
    unfit = _maker_of_any(2)(*shared, None, None, None, None)
    return wraps(function)(_maker(len(parameters), required)(*shared, _MISSING, defaults, fill, unfit))


def _call_hooks(monitor: Monitor, name: str, title: str, hooks: Hooks) -> tuple[Callable[..., Any], ...]:
    """Return the hooks to call before a method, after its failure, and after its return."""
    calls, lines, own, here = monitor.calls, monitor.lines, monitor.frames, current.here
    accesses, doing, refused = monitor.accesses, monitor.doing, monitor.refused

    # Hot path: every call of a program runs these.
    def enter(frame: FrameType) -> MpiCall | None:
        fiber = current.fiber
        made = calls.get(fiber) if get_ident() == current.thread else None  # as `here`, with one call fewer
        if made is None or made.is_open:
            fiber = here()
            made = monitor.outermost(fiber, made, frame)
            if made is None:
                return None
        state = made.rank
        if state.buffers or state.exposed:
            lines.pause()
        code = frame.f_code
        rank = state.number
        made.place = (code, frame.f_lasti, doing.get(rank, "")) if id(code) in own else monitor.place_of(frame, rank)
        made.name = name
        made.title = title
        made.is_open = True
        return made

    def failed(made: MpiCall, error: BaseException, frame: FrameType) -> None:
        try:
            hooks.failed(monitor, made, error)
        finally:
            leave(made, None, None, None, None)
        state = made.rank
        if isinstance(error, Exception) and (state.buffers or state.exposed):  # else the rank is ending
            lines.resume(frame, state, raised=True)

    def leave(made: MpiCall, after: After | None, result: Any, first: Any, frame: FrameType | None) -> None:
        made.is_open = False
        made.waits_for = made.sending = None
        if made.outer is not None:
            calls[here()] = made.outer
        if frame is None:  # the call has failed
            return
        if refused and made in refused:
            refused.remove(made)
            after = None
        if (after is None or not after(result)) and result is not None:
            hooks.ended(monitor, made, first, result)
        state = made.rank
        steps = state.steps
        if steps.pending and not accesses:
            steps.replay()
            if len(steps.pending) > state.replay_limit:
                hooks.tidy(monitor, state)
        if state.buffers or state.exposed:
            lines.resume(frame, state)

    return enter, failed, leave
