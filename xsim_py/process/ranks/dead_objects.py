"""Freeing the objects of dead ranks at the end of the run, without running any of their code, finalizers included.

A rank that was killed, or that waits when the run ends, is in the middle of its program. Python has one way to free
a stack: it unwinds it with an exception, which runs each ``finally``, ``except``, ``__exit__`` and ``__del__``. Code of
a dead rank must not run, and keeping its frames forever costs all the memory that they refer to. So for a moment

* each frame of these stacks has a copy of its code without an exception table: there is no handler to enter
* the bytecode of the program's functions among them is replaced by instructions that only raise: if C code in
  between has swallowed the exception, the program raises again. Python's library is not modified; the simulator uses it
* types have no finalizers (``__del__``, suspended generators and coroutines, files), except for the simulator's types
* weak references have no callbacks, except for those of the weak containers of Python's library.

Then an exception is thrown into each greenlet and the collector frees the cycles; afterwards everything is restored.
Some objects cannot be freed this way and stay forever: greenlets created by a program, those whose functions are
observed by a tracer or coverage on Python 3.12 and later, and all of them on an interpreter whose object layout this
file does not know (it knows CPython 3.11 to 3.13).
"""

from __future__ import annotations

import _lsprof
import ctypes
import dis
import gc
import sys
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from types import CodeType, FrameType
from typing import Any

from greenlet import getcurrent, greenlet

from xsim_py.code_origin import of_program


class _DeadGreenlet:
    """A stand-in for the greenlet of a dead fiber; switching to it does nothing."""

    __slots__ = ()
    dead = False

    def switch(self, *_: object) -> None:
        """Do nothing."""


DEAD_GREENLET: Any = _DeadGreenlet()

_kept: list[Any] = []
_ends_soon = False
_CODE_BYTES = CodeType.__basicsize__  # the instructions follow the fixed part of a code object
_ONLY_RAISE = bytes((dis.opmap["RAISE_VARARGS"], 0))
_WORD = ctypes.sizeof(ctypes.c_void_p)
_ACTIVATION = 3  # of a frame object, the word that points to the interpreter's frame
_MOST_WORDS_OF_A_FRAME = 6  # among which its code is found
_INSTRUMENTED = frozenset(code for name, code in dis.opmap.items() if name.startswith("INSTRUMENTED_"))
_CALLBACK = 3  # of a weak reference, as a word of the object
_MOST_WORDS = 51  # present in all type objects
_WORDS = ctypes.c_void_p * _MOST_WORDS
_WEAK_CONTAINERS = ("weakref", "_weakrefset")
_PLAIN_KEYS = (str, int, bytes, type(None))
# A run patches these.
_collect, _trace, _profile = gc.collect, (sys.gettrace, sys.settrace), (sys.getprofile, sys.setprofile)
_Profiler: Any = _lsprof.Profiler
_enable = _Profiler.enable


def keep(thing: object) -> None:
    """Keep an object of a dead rank until `free` is called; a greenlet is then unwound."""
    _kept.append(thing)


def keep_forever(thing: object) -> None:
    """Never free `thing`: it keeps its memory until this process ends, and is not finalized even then."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def keep_all() -> None:
    """Make `free` keep everything from now on: this process ends soon, and the system then reclaims it all at once."""
    global _ends_soon
    _ends_soon = True


def free(idle: Collection[greenlet]) -> None:
    """Free the kept objects without running any of their code; called by the hub while no rank runs.

    The `idle` greenlets are those that will run again.
    """
    if not _kept:
        return
    if _ends_soon or _finalizer_word() is None:
        keep_forever(_kept.copy())
        _kept.clear()
        return
    with ExitStack() as stack:
        for silence in (_no_hooks(), _no_finalizers(), _no_callbacks()):
            stack.enter_context(silence)
        _unwind([each for each in _kept if _is_suspended(each)], idle)
        _kept.clear()
        _collect()


def _unwind(dead: list[greenlet], idle: Collection[greenlet]) -> None:
    """End greenlets without running their code; keep those that cannot be ended and those created by programs."""
    hub = getcurrent()
    ours = {id(each) for each in dead if each.parent is hub}
    others = {id(each) for each in (hub, *idle)} | ours
    # In one expression: it sees every object of the process.
    for each in [each for each in gc.get_objects() if issubclass(type(each), greenlet)]:
        if id(each) not in others and _is_suspended(each):
            keep_forever(each)
    watched = [each for each in dead if id(each) not in ours or any(_is_watched(f.f_code) for f in _frames(each))]
    for each in watched:
        keep_forever(each)
        dead.remove(each)
    bare: dict[int, CodeType] = {}
    saved: dict[int, bytes] = {}
    try:
        for each in dead:
            for frame in _frames(each):
                code = frame.f_code
                if id(code) not in bare:  # a copy, taken before the next lines
                    bare[id(code)] = code.replace(co_exceptiontable=b"")
                if of_program(code.co_filename) and (begin := id(code) + _CODE_BYTES) not in saved:
                    saved[begin] = ctypes.string_at(begin, len(code.co_code))
                    ctypes.memmove(begin, _ONLY_RAISE * (len(code.co_code) // 2), len(code.co_code))
                _put_code(frame, bare[id(code)])
            with suppress(BaseException):
                each.throw()
            if not each.dead:
                keep_forever(each)
    finally:
        for begin, instructions in saved.items():
            ctypes.memmove(begin, instructions, len(instructions))


def _is_suspended(thing: object) -> bool:
    # Not `isinstance`, which asks the object for its class: that may be code of a package.
    return issubclass(type(thing), greenlet) and bool(thing)


def _frames(suspended: greenlet) -> Iterator[FrameType]:
    frame = suspended.gr_frame
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_watched(code: CodeType) -> bool:
    """Return True if a tracer, profiler or coverage has instrumented a code object (Python 3.12 and later)."""
    if not _INSTRUMENTED:
        return False
    instructions = ctypes.string_at(id(code) + _CODE_BYTES, len(code.co_code))
    pairs = zip(code.co_code[::2], instructions[::2], strict=True)
    return any(plain and found in _INSTRUMENTED for plain, found in pairs)  # a cache entry is 0 in the plain code


def _code_of(frame: FrameType) -> Any:
    """Return the memory word that refers to the code a frame executes; None if it is not where expected."""
    activation = ctypes.c_void_p.from_address(id(frame) + _ACTIVATION * _WORD).value
    if activation is None:
        return None
    words = (ctypes.c_void_p * _MOST_WORDS_OF_A_FRAME).from_address(activation)
    place = next((place for place, word in enumerate(words) if word == id(frame.f_code)), None)
    return None if place is None else ctypes.c_void_p.from_address(activation + place * _WORD)


def _put_code(frame: FrameType, code: CodeType) -> None:
    """Make a frame execute other code, which ends here like the original but has no handlers.

    The frame owns a reference to its code. The reference to the old code is not released, because the interpreter is
    still reading it.
    """
    word = _code_of(frame)
    if word is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
        word.value = id(code)


@contextmanager
def _no_finalizers() -> Iterator[None]:
    """Return a context in which only the simulator's own types have finalizers.

    It refers to the types weakly: those of a dead rank are freed too, and with them the namespaces of its modules.
    """
    word: Any = _finalizer_word()
    offset, at = word * _WORD, ctypes.c_void_p.from_address
    saved = [
        (weakref.ref(each), finalizer)
        for each in _all_types()
        if (finalizer := at(id(each) + offset).value)
        and not str(each.__dict__.get("__module__")).startswith("xsim_py.")
    ]
    _put_finalizers(word, [(each, None) for each, _ in saved])
    try:
        yield
    finally:
        _put_finalizers(word, saved)


def _put_finalizers(word: int, finalizers: list[tuple[weakref.ref[type], Any]]) -> None:
    for each, finalizer in finalizers:
        known = each()
        if known is not None:
            _words(known)[word] = finalizer


def _all_types() -> set[type]:
    found: set[type] = {object}
    pending: list[type] = [object]
    subclasses: Callable[[type], list[type]] = type.__subclasses__
    while pending:
        if below := subclasses(pending.pop()):  # most have none
            new = [each for each in below if each not in found]
            found.update(new)
            pending += new
    return found


def _words(thing: object) -> Any:
    """Return the memory of an object, as far as all types have it."""
    return _WORDS.from_address(id(thing))


@cache
def _finalizer_word() -> int | None:
    """Return the index of the word that holds a type's finalizer; None if the object layout is unknown."""

    class Without:
        pass

    class With:
        def __del__(self) -> None: ...

    def callback(_: object) -> None: ...

    code = compile("pass", "<layout>", "exec")
    reference: Any = weakref.ref(Without, callback)
    written = ctypes.string_at(id(code) + _CODE_BYTES, len(code.co_code))
    # Every second byte is an opcode; caches have the opcode 0, and hold counters.
    has_code = all(wanted in (found, 0) for wanted, found in zip(code.co_code[::2], written[::2], strict=True))
    has_callback = (ctypes.c_void_p * (_CALLBACK + 1)).from_address(id(reference))[_CALLBACK] == id(callback)
    first, second = _words(Without), _words(With)
    places = [index for index in range(40, _MOST_WORDS) if not first[index] and second[index]]
    has_frames = _code_of(sys._getframe()) is not None
    return places[0] if has_code and has_callback and has_frames and len(places) == 1 else None


@contextmanager
def _no_callbacks() -> Iterator[None]:
    """Return a context in which no weak reference calls a function of the program."""
    saved = []
    for each in [each for each in gc.get_objects() if issubclass(type(each), weakref.ref)]:
        if _calls_program(each):
            callback = (ctypes.c_void_p * 1).from_address(id(each) + _CALLBACK * ctypes.sizeof(ctypes.c_void_p))
            saved.append((each, callback, callback[0]))
            callback[0] = None
    each = None
    try:
        yield
    finally:
        for _, callback, function in saved:
            callback[0] = function


def _calls_program(reference: weakref.ref[Any]) -> bool:
    """Return True if a weak reference's callback is not one of Python's weak containers, or hashes a program's key."""
    callback = reference.__callback__
    if callback is None:
        return False
    if getattr(type(callback), "__name__", "") != "function" or callback.__module__ not in _WEAK_CONTAINERS:
        return True
    return type(reference) is weakref.KeyedRef and type(reference.key) not in _PLAIN_KEYS


@contextmanager
def _no_hooks() -> Iterator[None]:
    """Return a context in which Python's hooks (unraisable exceptions, tracing, profiling) are off."""
    hooks = {name: vars(sys)[name] for name in ("unraisablehook", "excepthook")}
    watching: list[tuple[Any, Any]] = [(put, get()) for get, put in (_trace, _profile)]
    vars(sys).update(dict.fromkeys(hooks, _ignore))
    for put, watcher in watching:
        if watcher is not None:
            put(None)
    try:
        yield
    finally:
        vars(sys).update(hooks)
        for put, watcher in watching:
            if isinstance(watcher, _Profiler):  # in C, which `sys.setprofile` does not accept
                _enable(watcher)
            elif watcher is not None:
                put(watcher)


def _ignore(*_: object) -> None:
    """Ignore an exception."""
