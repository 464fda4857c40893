"""Puts a function around each method of the interface, which tells a monitor of the calls of the program.

The function has the parameters of the method where the check does that follows it: to pass arguments on twice that may
be any takes Python longer than all that is checked. So it is compiled from a few lines of source, once for each list of
parameters. Arguments that do not fit are given to the method itself, which says so.
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
"""Takes the result of a call that a check has followed, and returns whether no more is to be done about that."""

_POLLS = frozenset(
    {
        *("Iprobe", "iprobe", "Improbe", "improbe", "Test", "test", "Testany", "testany", "Testall", "testall"),
        *("Testsome", "testsome", "Get_status", "get_status", "Waitany", "waitany", "Waitsome", "waitsome"),
    }
)
"""The calls after which a program may do one thing or another, as things stand."""
_MISSING: Any = object()
_frame = sys._getframe
_PLAIN = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY)


class Hooks(NamedTuple):
    """The functions that a monitor calls around each call of one method.

    Attributes
    ----------
    advice : callable or None
        Takes the monitor, the call, and the arguments of the method, before the method is called; it returns what takes
        the result, and returns whether no more is to be done about that.
    ended, failed : callable
        Called after a call with what it was called on and its result, where that is one, or with what it has raised.
    tidy : callable
        Called when a rank has taken many steps.
    """

    advice: Callable[..., After | None] | None
    ended: Callable[[Monitor, MpiCall, Any, Any], None]
    failed: Callable[[Monitor, MpiCall, BaseException], None]
    tidy: Callable[[Monitor, RankState], None]


_SOURCE = """
def make(monitor, function, advice, polls, enter, failed, leave, frame_of, missing, defaults, fill, unfit):
    def call({parameters}):
        {bind}
        frame = frame_of({depth})
        made = enter(frame)
        if made is None:
            return {called}
        after = None
        try:
            if advice is not None:
                try:
                    after = {advised}
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
            given = fill(({names}), named)
            if given is None or more:
                return unfit(*[each for each in ({names}) if each is not missing], *more, **named)
            {names} = given
"""


@cache
def _maker(count: int, required: int) -> Callable[..., Callable[..., Any]]:
    """Return what makes functions with so many parameters, of which so many have to be given."""
    names = [f"argument_{i}" for i in range(count)]
    listed = "".join(f"{name}, " for name in names)
    defaults = [f"        if {names[i]} is missing: {names[i]} = defaults[{i}]\n" for i in range(required, count)]
    return _compiled(
        parameters="".join(f"{name}=missing, " for name in names) + "/, *more, **named",
        bind=_BIND.format(names=listed, last=names[required - 1]) + "".join(defaults),
        called=f"function({listed})",
        advised=f"advice(monitor, made, {listed})",
        first=names[0],
        depth=1,
    )


@cache
def _maker_of_any(depth: int) -> Callable[..., Callable[..., Any]]:
    """Return what makes functions with any parameters, which are so many calls inside of the program's."""
    return _compiled(
        parameters="*args, **kwargs",
        bind="",
        called="function(*args, **kwargs) if kwargs else function(*args)",
        advised="advice(monitor, made, *args, **kwargs) if kwargs else advice(monitor, made, *args)",
        first="args[0] if args else None",
        depth=depth,
    )


def _compiled(**told: Any) -> Callable[..., Callable[..., Any]]:
    made: dict[str, Any] = {}
    exec(compile(_SOURCE.format(**told), __file__, "exec"), made)
    make: Callable[..., Callable[..., Any]] = made["make"]
    return make


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the defaults of a function by the names of its parameters; None where it takes others than plain ones."""
    parameters = signature(function).parameters
    if any(each.kind not in _PLAIN for each in parameters.values()):
        return None
    return {name: each.default for name, each in parameters.items()}


def _filling(parameters: Iterable[str], required: int) -> Callable[..., list[Any] | None]:
    """Return what puts named arguments in their places; its result is None where they do not fit the parameters."""
    places = {name: i for i, name in enumerate(parameters)}
    needed = range(required)

    def fill(given: tuple[Any, ...], named: dict[str, Any]) -> list[Any] | None:
        found = [*given]
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
    """Return a method, of a class and with a name, that tells the monitor of each call of the program."""
    advice = hooks.advice
    told = monitor, function, advice, name in _POLLS, *_surroundings(monitor, name, f"{owner}.{name}", hooks), _frame
    parameters = None if advice is None or _parameters(advice) is None else _parameters(function)
    if not parameters:
        return wraps(function)(_maker_of_any(1)(*told, None, None, None, None))
    defaults = list(parameters.values())
    required = defaults.count(Parameter.empty)
    fill = _filling(parameters, required)
    unfit = _maker_of_any(2)(*told, None, None, None, None)
    return wraps(function)(_maker(len(parameters), required)(*told, _MISSING, defaults, fill, unfit))


def _surroundings(monitor: Monitor, name: str, title: str, hooks: Hooks) -> tuple[Callable[..., Any], ...]:
    """Return what is called before each call of a method, after it has failed, and after it has returned."""
    calls, lines, own, here = monitor.calls, monitor.lines, monitor.frames, current.here
    accesses, doing, refused = monitor.accesses, monitor.doing, monitor.refused

    # Hot path: each call of a program comes to these.
    def enter(frame: FrameType) -> MpiCall | None:
        fiber = current.fiber
        made = calls.get(fiber) if get_ident() == current.thread else None  # as `here`, with one call less
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
        if isinstance(error, Exception) and (state.buffers or state.exposed):  # else the rank comes to its end
            lines.go_on(frame, state, raised=True)

    def leave(made: MpiCall, after: After | None, result: Any, first: Any, frame: FrameType | None) -> None:
        made.is_open = False
        made.waits_for = made.sending = None
        if made.outer is not None:
            calls[here()] = made.outer
        if frame is None:  # it has failed
            return
        if refused and made in refused:
            refused.remove(made)
            after = None
        if (after is None or not after(result)) and result is not None:
            hooks.ended(monitor, made, first, result)
        state = made.rank
        steps = state.steps
        if steps.ahead and not accesses:
            steps.go_on()
            if len(steps.ahead) > state.many:
                hooks.tidy(monitor, state)
        if state.buffers or state.exposed:
            lines.go_on(frame, state)

    return enter, failed, leave
