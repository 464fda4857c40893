"""Objects of dead ranks go at the end of the run, and none of their code runs, not even a finalizer.

A rank that was killed, or that waits when the run ends, stands in the middle of its program. Python has one way to free
a stack: it unwinds it by an exception, and then runs each ``finally``, each ``except``, each ``__exit__`` and each
``__del__``. What is dead must not run, and to keep it for ever costs what its frames refer to. So for a moment

* each frame of these stacks has a copy of its code without an exception table: there is no handler to enter
* the bytecode of the program's functions among them is replaced by instructions that only raise: where C code in
  between has swallowed the exception, the program raises again. Code of Python's library is not touched; we run it, too
* types have no finalizers (``__del__``, suspended generators and coroutines, files), but for the simulator's own types
* weak references have no callbacks, but for those of the weak containers of Python's library.

Then each greenlet is thrown an exception, and the collector takes what is in cycles; all is put back after that.
What cannot be freed so stays for ever: greenlets that a program has made itself, those whose functions are watched by a
tracer or coverage on Python 3.12 and later, and all on an interpreter whose objects are laid out in another way than
this file knows (CPython 3.11 to 3.13).
"""

from __future__ import annotations

import ctypes
import dis
import gc
import sys
import weakref
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from types import CodeType, FrameType
from typing import Any

from greenlet import getcurrent, greenlet

from xsim_py.code_origin import of_program


class _DeadGreenlet:
    """The greenlet of a dead fiber: whoever would wake it wakes nobody."""

    __slots__ = ()
    dead = False

    def switch(self, *_: Any) -> None:
        """Do nothing."""


DEAD_GREENLET: Any = _DeadGreenlet()

_kept: list[Any] = []
_ends_soon = False
_CODE_BYTES = CodeType.__basicsize__  # the instructions follow the fixed part of a code object
_ONLY_RAISE = bytes((dis.opmap["RAISE_VARARGS"], 0))
_WORD = ctypes.sizeof(ctypes.c_void_p)
_ACTIVATION = 3  # of a frame object, the word that points to what the interpreter knows of it
_MOST_WORDS_OF_A_FRAME = 6  # in which its code is found
_INSTRUMENTED = frozenset(code for name, code in dis.opmap.items() if name.startswith("INSTRUMENTED_"))
_CALLBACK = 3  # of a weak reference, as a word of the object
_MOST_WORDS = 51  # that all type objects have
_WEAK_CONTAINERS = ("weakref", "_weakrefset")
_PLAIN_KEYS = (str, int, bytes, type(None))
# A run puts its own functions in the place of these.
_collect, _trace, _profile = gc.collect, (sys.gettrace, sys.settrace), (sys.getprofile, sys.setprofile)


def keep(thing: object) -> None:
    """Keep something of a dead rank until `free` is called; a greenlet is unwound then."""
    _kept.append(thing)


def keep_for_ever(thing: object) -> None:
    """Never free `thing`. That costs its memory until this process ends, and then Python does not look at it either."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def never_free() -> None:
    """Have `free` keep all for ever from now on: this process ends soon, and the system takes back all at once."""
    global _ends_soon
    _ends_soon = True


def free(idle: Collection[greenlet]) -> None:
    """Free what was kept, without running any code of it; called by the simulator's greenlet, when no rank runs.

    Parameters
    ----------
    idle : collection of greenlet
        Those that will run again.
    """
    if not _kept:
        return
    if _ends_soon or _finalizer_word() is None:
        keep_for_ever(_kept.copy())
        _kept.clear()
        return
    with ExitStack() as stack:
        for silence in (_no_hooks(), _no_finalizers(), _no_callbacks()):
            stack.enter_context(silence)
        _unwind([each for each in _kept if _is_suspended(each)], idle)
        _kept.clear()
        _collect()


def _unwind(dead: list[greenlet], idle: Collection[greenlet]) -> None:
    """End greenlets without running their code; keep for ever those that cannot be ended, and those of programs."""
    hub = getcurrent()
    ours = {id(each) for each in dead if each.parent is hub}
    others = {id(each) for each in (hub, *idle)} | ours
    for each in gc.get_objects():
        if id(each) not in others and _is_suspended(each):
            keep_for_ever(each)
    watched = [each for each in dead if id(each) not in ours or any(_is_watched(f.f_code) for f in _frames(each))]
    for each in watched:
        keep_for_ever(each)
        dead.remove(each)
    bare: dict[int, CodeType] = {}
    saved: dict[int, bytes] = {}
    try:
        for each in dead:
            for frame in _frames(each):
                code = frame.f_code
                if id(code) not in bare:  # a copy of what it was before the next lines
                    bare[id(code)] = code.replace(co_exceptiontable=b"")
                if of_program(code.co_filename) and (begin := id(code) + _CODE_BYTES) not in saved:
                    saved[begin] = ctypes.string_at(begin, len(code.co_code))
                    ctypes.memmove(begin, _ONLY_RAISE * (len(code.co_code) // 2), len(code.co_code))
                _put_code(frame, bare[id(code)])
            with suppress(BaseException):
                each.throw()
            if not each.dead:
                keep_for_ever(each)
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
    """Return whether a tracer, profiler or coverage has instructions of its own in a code (Python 3.12 and later)."""
    if not _INSTRUMENTED:
        return False
    instructions = ctypes.string_at(id(code) + _CODE_BYTES, len(code.co_code))
    pairs = zip(code.co_code[::2], instructions[::2], strict=True)
    return any(plain and found in _INSTRUMENTED for plain, found in pairs)  # a cache is 0 as long as it is plain


def _code_of(frame: FrameType) -> Any:
    """Return the word in memory that says which code a frame executes; None if it is not where it should be."""
    activation = ctypes.c_void_p.from_address(id(frame) + _ACTIVATION * _WORD).value
    if activation is None:
        return None
    words = (ctypes.c_void_p * _MOST_WORDS_OF_A_FRAME).from_address(activation)
    place = next((place for place, word in enumerate(words) if word == id(frame.f_code)), None)
    return None if place is None else ctypes.c_void_p.from_address(activation + place * _WORD)


def _put_code(frame: FrameType, code: CodeType) -> None:
    """Have a frame execute other code, which ends here like its own but has no handlers.

    The frame owns a reference to its code. That to the old one is not given back: what runs in the frame reads it.
    """
    word = _code_of(frame)
    if word is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
        word.value = id(code)


@contextmanager
def _no_finalizers() -> Iterator[None]:
    """Return a context in which no type has a finalizer but the simulator's own types.

    It refers to the types weakly: those of a dead rank go, too, and with them the namespaces of its modules.
    """
    word: Any = _finalizer_word()
    saved = [(weakref.ref(each), _words(each)[word]) for each in _all_types() if _words(each)[word]]
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
    while pending:
        subclasses: list[type] = type.__subclasses__(pending.pop())
        for each in subclasses:
            if each not in found and not str(each.__dict__.get("__module__")).startswith("xsim_py."):
                found.add(each)
                pending.append(each)
    return found


def _words(thing: Any) -> Any:
    """Return the memory of an object that has as much as all types."""
    return (ctypes.c_void_p * _MOST_WORDS).from_address(id(thing))


@cache
def _finalizer_word() -> int | None:
    """Return which word of a type is its finalizer; None where objects are not as this file expects them."""

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
    for each in gc.get_objects():
        if issubclass(type(each), weakref.ref) and _calls_program(each):
            callback = (ctypes.c_void_p * 1).from_address(id(each) + _CALLBACK * ctypes.sizeof(ctypes.c_void_p))
            saved.append((each, callback, callback[0]))
            callback[0] = None
    each = None
    try:
        yield
    finally:
        for _, callback, function in saved:
            callback[0] = function


def _calls_program(reference: Any) -> bool:
    """Return whether a weak reference calls more than Python's weak containers, or asks a program's key."""
    callback = reference.__callback__
    if callback is None:
        return False
    if getattr(type(callback), "__name__", "") != "function" or callback.__module__ not in _WEAK_CONTAINERS:
        return True
    return type(reference) is weakref.KeyedRef and type(reference.key) not in _PLAIN_KEYS


@contextmanager
def _no_hooks() -> Iterator[None]:
    """Return a context in which Python tells nothing of what it does."""
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
            if watcher is not None:
                put(watcher)


def _ignore(*_: object) -> None:
    """Hear of an exception, and say nothing."""
