"""The door: the one place that the MPI calls of a program pass in a run with tools.

A tool is notified before and after each call that it asks for: the checks, the trace, failures by call site, and the
meter of computation are tools. A layer also replaces calls. A run without tools has mpi4py's plain methods.

A call has its arguments bound to the parameters of the method and the source location in the program, which is noted
once. Calls that the simulator itself makes inside another (``Waitall`` waits for each request) do not pass the door;
those of a function that a call has called back, such as an operation, do, and have that call as their `outer`. The
fibers of nonblocking collectives represent a progress thread: only the program's own threads are seen.

For each list of parameters, the wrappers of methods are compiled from a few lines of source: in Python, passing
arbitrary arguments on twice takes longer than a whole check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, wraps
from inspect import Parameter, signature
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py.code_origin import CALLER, is_simulator, program_frame
from xsim_py.process.python.threads import is_program
from xsim_py.process.ranks import current

from . import MPI
from .comm import Comm, Intercomm, Intracomm
from .commhandle import CommHandle
from .datatype import Datatype
from .errhandler import Errhandler
from .file import File
from .group import Group
from .handle import Handle
from .info import Info
from .op import Op
from .probes import Message
from .request import Grequest, Prequest, Request
from .session import Session
from .topocomm import Cartcomm, Distgraphcomm, Graphcomm
from .win import Win

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.patches import Patches

__all__ = [
    "ANY_CALL",
    "FUNCTIONS",
    "LIFE",
    "OWNERS",
    "BoundCall",
    "Callee",
    "Handlers",
    "Tool",
    "is_mpi_call",
    "known_calls",
    "methods_of",
    "open_door",
]

ANY_CALL = "call"
"""Matches a call of any name."""

LIFE = ("Init", "Init_thread", "Finalize")
FUNCTIONS = (
    *("Attach_buffer", "Close_port", "Compute_dims", "Detach_buffer", "Free_mem", "Lookup_name", "Unpublish_name"),
    *LIFE,
)
"""The functions of the module `MPI` that pass the door."""

_PLAIN = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY)
_MISSING: Any = object()
_frame = sys._getframe
_NOWHERE = compile("", "", "exec")
_MOST_KEPT = 4096


def _ours(*classes: type) -> frozenset[type]:
    """Return the simulator's classes from which these inherit, and these."""
    modules = "mpi4py", "xsim_py.mpi4py"
    return frozenset(base for cls in classes for base in cls.__mro__ if base.__module__.startswith(modules))


COMMUNICATING: Final = _ours(
    *(Intracomm, Intercomm, Cartcomm, Graphcomm, Distgraphcomm, Message, Prequest, Grequest, Win, File)
)
"""The classes whose methods trace, failures and meter regard as MPI calls."""

OWNERS: Final = sorted(
    COMMUNICATING | _ours(Datatype, Errhandler, Group, Info, Op, Session), key=lambda cls: cls.__qualname__
)
"""All classes with methods that pass the door."""


class Callee(NamedTuple):
    """A method or function that passes the door."""

    owner: type | None
    """The class that defines it; None for a function of the module `MPI`."""
    name: str
    title: str
    """Its name with that of the class as programs use it, e.g. ``Comm.Send``."""


class BoundCall:
    """The current or last MPI call of a thread of a rank; one object is reused for all its calls."""

    __slots__ = ("arguments", "at", "code", "fiber", "frame", "is_open", "name", "outer", "title")

    def __init__(self, fiber: Fiber, outer: BoundCall | None = None) -> None:
        self.fiber = fiber
        # The call that has called back the function which makes this one; calls by the simulator itself are not seen.
        self.outer = outer
        self.is_open = False  # whether it has not returned
        self.name = self.title = ""  # see `Callee`
        # None if they do not fit the parameters, if no tool reads them (see `Handlers`), and after the call.
        self.arguments: tuple[Any, ...] | None = None
        self.frame: FrameType | None = None  # the frame that makes the call; None after the call
        # The source location in the program: a code object, and the offset of an instruction.
        self.code: CodeType = _NOWHERE
        self.at = 0

    def abandon(self) -> None:
        """Drop what keeps objects of the program alive, since the call never ends."""
        self.frame = self.arguments = None
        if self.outer is not None:
            self.outer.abandon()


class Handlers(NamedTuple):
    """The functions by which a tool is notified of the calls of one method."""

    before: Callable[[Any], object] | None = None
    """Takes the call."""
    after: Callable[[Any, Any], object] | None = None
    """Takes the call, which is no longer open, and its result."""
    failed: Callable[[Any, BaseException], object] | None = None
    """Takes the call, which is no longer open, and the exception that it raises."""
    instead: Callable[[Any, Callable[..., Any]], Any] | None = None
    """Takes the call and the method, and returns the result: a layer."""
    bound: bool = False
    """Whether one of them reads the arguments of calls, which takes longer than all else."""


class Tool:
    """Something that is notified of calls."""

    new_call: Callable[[Fiber, Any], BoundCall] | None = None
    """Makes the `BoundCall` of a thread, inside an outer one or None, for the one tool that keeps state in it."""

    def handlers(self, method: Callee) -> Handlers | None:
        """Return what to do about the calls of a method; None if nothing."""
        raise NotImplementedError


def is_mpi_call(method: Callee) -> bool:
    """Return True for the methods that traces and failures regard as calls: not those of datatypes, for example."""
    return method.name in LIFE if method.owner is None else method.owner in COMMUNICATING and method.owner is not Handle


@cache
def known_calls() -> frozenset[str]:
    """Return the names of all these calls, spelled as in mpi4py, and `ANY_CALL`."""
    methods = {name for owner in COMMUNICATING - {Handle} for name in methods_of(owner)}
    return frozenset({*methods, *LIFE, ANY_CALL})


def methods_of(owner: type) -> list[str]:
    """Return the names of the public methods that a class itself defines."""
    return [
        name
        for name, value in vars(owner).items()
        if not name.startswith("_") and not isinstance(value, type | staticmethod)
        if isinstance(value, classmethod) or callable(value)
    ]


@cache
def family(owner: type) -> str:
    """Return the class name that programs use for the methods of one of our classes."""
    if issubclass(owner, CommHandle):
        return "Comm"
    if issubclass(owner, Handle) and not issubclass(owner, Request):
        for cls in (Comm, Group, Datatype, Op, Info, Errhandler, Win, File, Session, Message):
            if issubclass(owner, cls) or issubclass(cls, owner):
                return cls.__name__
    return owner.__name__


# --------------------------------------------------------------------------------------------------------- wrappers

_BOUND = """
    def call({declared}/, *more, **named):
        if named or more or {last} is missing:
            values = fill(({passed}), named)
            if values is None or more:
                given = [each for each in ({passed}) if each is not missing]
                return misfit(frame_of(caller), (*given, *more), named)
            {passed} = values
{defaults}
"""
_PASSING = """
    def call(*args, **named):
"""
_MISFIT = """
    def call(frame, args, named):
"""
_SOURCE = """
def make(function, name, title, hooks, fail, frame_of, caller, missing, defaults, fill, misfit):
    enter, before, instead, after, failed = hooks
{head}
        made = enter({frame}, name, title)
        if made is None:
            return function({passed})
        try:
            made.arguments = {arguments}
            before(made)
            result = {called}
        except BaseException as error:
            fail(made, failed, error)
            raise
        made.is_open = False  # as in `fail`
        if made.outer is not None:
            made.fiber.call = made.outer
        try:
            after(made, result)
        finally:
            made.frame = made.arguments = None
        return result
    return call
"""


@cache
def _maker(count: int, required: int, *, replaced: bool) -> Callable[..., Callable[..., Any]]:
    """Return a factory of wrappers with `count` parameters, the first `required` of which have no default."""
    names = [f"argument_{i}" for i in range(count)]
    listed = "".join(f"{name}, " for name in names)
    head = _BOUND.format(
        declared="".join(f"{name}=missing, " for name in names),
        passed=listed,
        last=names[required - 1],
        defaults="\n".join(
            f"        if {names[i]} is missing: {names[i]} = defaults[{i}]" for i in range(required, count)
        ),
    )
    called = "instead(made, function)" if replaced else f"function({listed})"
    return _compiled(head, "frame_of(caller)", listed, f"({listed})", called)


@cache
def _passing_maker(head: str, frame: str) -> Callable[..., Callable[..., Any]]:
    """Return a factory of wrappers that pass any arguments on, without binding them."""
    passed = "*args, **named"
    return _compiled(head, frame, passed, "None", f"function({passed})")


def _compiled(head: str, frame: str, passed: str, arguments: str, called: str) -> Callable[..., Callable[..., Any]]:
    source = _SOURCE.format(head=head, frame=frame, passed=passed, arguments=arguments, called=called)
    made: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), made)
    make: Callable[..., Callable[..., Any]] = made["make"]
    return make


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the defaults of a function by parameter name; None if it has other kinds of parameters."""
    parameters = signature(function).parameters
    if any(each.kind not in _PLAIN for each in parameters.values()):
        return None
    return {name: each.default for name, each in parameters.items()}


def _filling(parameters: Iterable[str], required: int) -> Callable[..., list[Any] | None]:
    """Return a function that assigns named arguments to positions; it returns None if they do not fit."""
    places = {name: i for i, name in enumerate(parameters)}

    def fill(values: tuple[Any, ...], named: dict[str, Any]) -> list[Any] | None:
        found = [*values]
        for name in named:
            place = places.get(name)
            if place is None or found[place] is not _MISSING:
                return None
            found[place] = named[name]
        return None if any(each is _MISSING for each in found[:required]) else found

    return fill


def _joined(functions: Sequence[Callable[..., object] | None]) -> Callable[..., object]:
    """Return one function that calls all of these that are not None, in order."""
    every = [each for each in functions if each is not None]
    if len(every) == 1:
        return every[0]

    def call(*args: Any) -> None:
        for function in every:
            function(*args)

    return call


class _Door:
    """The wrappers of one run."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        self.enter = self._entering()
        self.is_over = False

    def end(self) -> None:
        """Let pass all calls: a function imported by an installed module stays wrapped after the run."""
        self.is_over = True

    def wrapped(self, method: Callee, function: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return a method that notifies the tools; None if no tool asks for it."""
        found = [handlers for tool in self.tools if (handlers := tool.handlers(method)) is not None]
        if not found:
            return None
        layers = [each.instead for each in found if each.instead is not None]
        assert len(layers) <= 1, f"{method.title} is replaced by two layers"
        instead = layers[0] if layers else None
        before = _joined([each.before for each in found])
        after = _joined([each.after for each in reversed(found)])
        failed = _joined([each.failed for each in reversed(found)])
        hooks = self.enter, before, instead, after, failed
        common = function, method.name, method.title, hooks, _fail, _frame, CALLER, _MISSING
        parameters = _parameters(function) if any(each.bound for each in found) else None
        assert parameters or instead is None, f"{method.title} needs plain parameters to be replaced"
        if not parameters:
            return wraps(function)(_passing_maker(_PASSING, "frame_of(caller)")(*common, None, None, None))
        defaults = list(parameters.values())
        required = defaults.count(Parameter.empty)
        misfit = _passing_maker(_MISFIT, "frame")(*common, None, None, None)
        make = _maker(len(defaults), required, replaced=instead is not None)
        return wraps(function)(make(*common, defaults, _filling(parameters, required), misfit))

    def _entering(self) -> Callable[[FrameType, str, str], BoundCall | None]:
        """Return the function that begins each call; it returns None if the caller is not the program."""
        new_call = next((tool.new_call for tool in self.tools if tool.new_call is not None), BoundCall)
        # Code by address: hashing a code object takes microseconds.
        of_the_program: dict[int, CodeType] = {}

        # Hot path: every call of a program runs this.
        def enter(frame: FrameType, name: str, title: str) -> BoundCall | None:
            fiber = current.fiber
            if fiber is None or get_ident() != current.thread or self.is_over:
                return None
            code = frame.f_code
            call: BoundCall | None = fiber.call
            if call is None:
                if not is_program(fiber):
                    return None
                call = fiber.call = new_call(fiber, None)
            elif call.is_open:
                if is_simulator(code.co_filename):
                    return None
                call = fiber.call = new_call(fiber, call)
            call.is_open = True
            call.name = name
            call.title = title
            call.frame = frame
            if id(code) in of_the_program:
                call.code, call.at = code, frame.f_lasti
            else:
                outer = program_frame(frame)
                if outer is frame:
                    if len(of_the_program) >= _MOST_KEPT:
                        of_the_program.clear()
                    of_the_program[id(code)] = code
                call.code, call.at = outer.f_code, outer.f_lasti
            return call

        return enter


def _fail(call: BoundCall, notify: Callable[[BoundCall, BaseException], object], error: BaseException) -> None:
    """End a call, and notify tools of its exception."""
    call.is_open = False
    if call.outer is not None:
        call.fiber.call = call.outer
    try:
        notify(call, error)
    finally:
        call.frame = call.arguments = None


def open_door(patches: Patches, tools: Sequence[Tool]) -> None:
    """Let the calls of a run pass the door, if any tool is there to be notified.

    Before a call the tools are notified in this order, and after it in the reverse order.
    """
    if not tools:
        return
    door = _Door(tools)
    patches.at_end(door.end)
    for owner in OWNERS:
        for name in methods_of(owner):
            value = vars(owner)[name]
            function = value.__func__ if isinstance(value, classmethod) else value
            wrapped = door.wrapped(Callee(owner, name, f"{family(owner)}.{name}"), function)
            if wrapped is not None:
                _replace(patches, owner, name, classmethod(wrapped) if isinstance(value, classmethod) else wrapped)
    for name in FUNCTIONS:
        wrapped = door.wrapped(Callee(None, name, f"MPI.{name}"), getattr(MPI, name))
        if wrapped is not None:
            _replace(patches, MPI, name, wrapped)


def _replace(patches: Patches, owner: object, name: str, value: object) -> None:
    """Replace a method or function until the end of the run."""
    patches.at_end(partial(setattr, owner, name, vars(owner)[name]))
    setattr(owner, name, value)
