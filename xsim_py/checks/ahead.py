"""The code of a program says, as far as it can, what is done between one of its MPI calls and the next ones."""

from __future__ import annotations

import dis
from bisect import bisect_right
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xsim_py.mpi4py.handle import Handle

from .elements import bounds
from .meanings import HEAP_TYPE, Scope, done_by_callee, is_defined, is_of_python_class, value_of
from .sources import Touch, callees_of, instructions_of, key_of, names_in

if TYPE_CHECKING:
    from types import CodeType


class Sight(NamedTuple):
    """An instruction that is to come touches an array, perhaps."""

    order: int
    offset: int
    line: int
    touch: Touch


class ArrayAhead(NamedTuple):
    """The instructions to come that touch what a name means, perhaps, or give it to one function."""

    sights: tuple[Sight, ...]
    are_certain: bool
    """True if they come on all ways, and their names mean until then what they mean now."""


class Ahead(NamedTuple):
    """Between a place in a function and its next MPI call lies this, if no other code of the program is run there."""

    owners: frozenset[tuple[str, ...]]
    """Names that mean objects of mpi4py, or classes: a method of each of these is the next call."""
    harmless: frozenset[tuple[str, ...]]
    """Names that mean functions of Python which run none of the program."""
    arrays: tuple[ArrayAhead, ...]
    """The code works on these arrays, perhaps."""
    stored: frozenset[str]
    """The variables and attributes that it stores to."""
    attributes: frozenset[tuple[tuple[str, ...], str]]
    """The names of objects, each with an attribute of it: the program may have defined what runs for that."""
    known: set[Any]
    """The classes that are mpi4py's, as was found before, and those with an attribute that runs no code."""

    def holds(self, scope: Scope) -> bool:
        """Return whether names of functions mean what they meant when this was found out."""
        known = self.known  # hot path
        for owner in self.owners:
            value = value_of(owner, scope)
            kind = value if isinstance(value, type) else type(value)
            if kind not in known:
                if not _is_of_mpi(kind):
                    return False
                known.add(kind)
        for owner, name in self.attributes:
            value = value_of(owner, scope)
            if (type(value), name) not in known:
                if _runs_code(value, name):
                    return False
                known.add((type(value), name))
        return not self.harmless or all(_is_harmless(callee, scope) for callee in self.harmless)

    def near(self, scope: Scope, guards: list[Any]) -> list[Sight] | None:
        """Return what touches guarded memory; None where that cannot be known before it comes."""
        near: list[Sight] = []
        for sights, are_certain in self.arrays:
            touch = sights[0].touch
            names = touch.array.names
            value = value_of(names, scope)
            if isinstance(value, _NO_ARRAYS):
                if any(sight.touch.array.indices for sight in sights) and not self.stored.isdisjoint(names):
                    return None  # what has elements then is something else
                continue
            if type(value) is np.ndarray and not value.dtype.hasobject:
                if not are_certain and not self.stored.isdisjoint(names):
                    return None
                if value.size and _is_near(value, guards):
                    if not are_certain:
                        return None
                    near += sights
            elif not touch.callee or value is None or is_of_python_class(value) or done_by_callee(touch, scope):
                return None
        return near


def _is_near(array: Any, guards: list[Any]) -> bool:
    """Return whether guarded memory lies between the addresses where an array has its elements."""
    low, high = bounds(array)
    for guard in guards:
        pieces = guard.pieces
        if pieces and pieces[0][0] < high and low < pieces[-1][1]:
            return True
    return False


def ahead_of(
    code: CodeType, touching: dict[int, tuple[int, tuple[Touch, ...]]], offset: int, scope: Scope
) -> Ahead | None:
    """Return what comes between a place and the next MPI call, on all ways; None where other code is run, perhaps.

    There is none between two calls that begin a receive and a send, as often as not. It is asked once for a place.
    Of each instruction that may touch arrays, `touching` has the line and these, by its offset.
    """
    file = code.co_filename
    callees = callees_of(file)
    instructions = instructions_of(code, file)
    at = {instruction.offset: i for i, instruction in enumerate(instructions)}
    # Within a call the frame stands somewhere in the cache behind the instruction.
    ahead, seen = [bisect_right(list(at), offset)], set[int]()
    owners, harmless, arrays = set[tuple[str, ...]](), set[tuple[str, ...]](), dict[Any, ArrayAhead]()
    stored, attributes, chain = set[str](), set[tuple[tuple[str, ...], str]](), tuple[str, ...]()
    has_forked = False
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # typeshed has it not
    caught = [range(each.start, each.end) for each in entries]
    while ahead:
        place = ahead.pop()
        if place in seen:
            continue
        seen.add(place)
        instruction = instructions[place]
        name = instruction.opname
        if any(instruction.offset in each for each in caught):
            return None  # what raises an exception has something else come
        if name.startswith("CALL"):
            key = key_of(instruction)
            callee = callees.get(key, ()) if key is not None else ()
            if len(callee) > 1 and callee[-1] in _methods() and _is_of_mpi(value_of(callee[:-1], scope)):
                owners.add(callee[:-1])
                continue
            has_names = name == "CALL_KW" or any(each.opname == "KW_NAMES" for each in instructions[place - 2 : place])
            if has_names or not _is_harmless(callee, scope):  # a function of Python may call its key
                return None
            harmless.add(callee)
        elif name.startswith(_LEAVING):
            return None
        elif name in _OF_ATTRIBUTES:
            if chain:
                attributes.add((chain, instruction.argval))
            elif instructions[place - 1].opname != "SWAP":  # it has been loaded before, for `box.total += 1`
                return None
        chain = _chain(chain, instruction)
        if name.startswith(_CHANGING):
            stored.update([instruction.argval] if type(instruction.argval) is str else instruction.argval or ())
        line, touches = touching.get(instruction.offset, (0, ()))
        for touch in touches:
            sight = Sight(len(seen), instruction.offset, line, touch)
            is_certain = not has_forked and stored.isdisjoint(names_in(touch))
            sights, are_certain = arrays.get((touch.array.names, touch.callee), ((), True))
            arrays[touch.array.names, touch.callee] = ArrayAhead((*sights, sight), are_certain and is_certain)
        jumps = instruction.opcode in _JUMPS
        if jumps:
            ahead.append(at[instruction.argval])
        if not (jumps and name in _ALWAYS):
            ahead.append(place + 1)
            has_forked = has_forked or jumps
    near = tuple(arrays.values())
    attributes = {(chain, name) for chain, name in attributes if chain not in owners}
    return Ahead(frozenset(owners), frozenset(harmless), near, frozenset(stored), frozenset(attributes), set())


_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_ALWAYS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"))
_LEAVING = (
    *("RETURN", "RERAISE", "RAISE", "YIELD", "SEND", "BEFORE_WITH", "IMPORT", "ASYNC", "GET_AWAITABLE"),
    "MAKE_FUNCTION",  # a function of Python may call it
)
_OF_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
_CHANGING = ("STORE_", "DELETE_")
_HARMLESS = frozenset(("range", "len", "enumerate", "zip", "isinstance", "int", "float", "min", "max", "abs"))
_NO_ARRAYS = (int, float, complex, str, bytes, bool, ModuleType, type, Handle)


def _chain(before: tuple[str, ...], instruction: dis.Instruction) -> tuple[str, ...]:
    """Return the names that mean what lies on the stack after an instruction; none where there are none."""
    name, value = instruction.opname, instruction.argval
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        return (*before, value)
    if "LOAD_" not in name or "CONST" in name:
        return before if name in ("PUSH_NULL", "COPY") else ()
    last = value[-1] if type(value) is tuple else value
    return (last,) if type(last) is str else ()


def _runs_code(owner: Any, name: str) -> bool:
    """Return whether code of the program may run where an attribute of an object is loaded or stored."""
    kind = type(owner)
    if owner is None or not kind.__flags__ & HEAP_TYPE or isinstance(owner, Handle):
        return owner is None
    classes = kind.__mro__
    return any("__getattr__" in each.__dict__ or type(each.__dict__.get(name)) is property for each in classes)


def _is_of_mpi(owner: Any) -> bool:
    """Return whether it is an object or a class of mpi4py, before whose methods the watch is paused."""
    kind = owner if isinstance(owner, type) else type(owner)
    return issubclass(kind, Handle) and kind.__module__ == "mpi4py.MPI"  # and not one that the program has made of it


@cache
def _methods() -> frozenset[str]:
    from xsim_py.mpi4py.call_hooks import known_calls

    return known_calls()


def _is_harmless(callee: tuple[str, ...], scope: Scope) -> bool:
    """Return whether names mean a function of Python that runs none of the program."""
    if len(callee) == 1:
        return callee[0] in _HARMLESS and not is_defined(callee[0], scope)
    return len(callee) == 2 and callee[1] in ("append", "extend") and type(value_of(callee[:1], scope)) is list
