"""Analysis of the code between one MPI call of a program and the next."""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from xsim_py.mpi4py.handle import Handle

from .elements import bounds
from .resolve import HEAP_TYPE, Scope, access_by_callee, is_defined, runs_code, value_of
from .sources import Index, Touch, callees_of, instructions_of, iterated_of, key_of, names_in
from .stack import CONTAINER, MADE, PART, UNKNOWN, Entry, Stack, after, entry, stored

Names = tuple[str, ...]
"""A variable, and attributes from there."""


class FutureAccess(NamedTuple):
    """A future instruction that may access an array."""

    order: int
    offset: int
    line: int
    touch: Touch


class ArrayAhead(NamedTuple):
    """Future instructions that may access the value of a name, or pass it to a function."""

    accesses: tuple[FutureAccess, ...]
    are_certain: bool
    """True if they run on all paths, with their names unchanged until then."""
    indices: frozenset[Names]
    """Variables and attributes used in the indices of these instructions."""
    has_parts: bool
    """True if one of them accesses a part selected by an index."""


class CodeAhead(NamedTuple):
    """The code from one location in a function to its next MPI call.

    This holds if no other program code runs in between.
    """

    owners: frozenset[Names]
    """Names of mpi4py objects or classes: the next call is a method of one of these."""
    harmless: frozenset[Names]
    """Names of Python functions that run no program code."""
    arrays: tuple[ArrayAhead, ...]
    """Arrays that the code may access."""
    stored: frozenset[str]
    """Variables and attributes that the code stores to."""
    attributes: frozenset[tuple[Names, str]]
    """Object names, each with an accessed attribute: the program may define code that this runs."""
    valued: frozenset[Names]
    """Names whose truth value or index value is used: their classes may define code that this runs."""
    iterated: frozenset[Names]
    """The iterables of a loop that the code continues."""
    aliases: frozenset[Names]
    """Names whose values are assigned to variables that the code accesses later."""
    has_parts: bool
    """True if it also assigns parts of other objects, which may be arrays."""
    known: set[Any]
    """Classes already known to belong to mpi4py or to have an attribute that runs no code."""

    def is_valid(self, scope: Scope) -> bool:
        """Return True if the names still refer to the functions and classes found by the analysis."""
        known = self.known  # hot path
        for owner in self.owners:
            value = value_of(owner, scope)
            kind = type(value)
            if kind is type:
                kind = value
            if kind not in known:
                if not _is_of_mpi(kind):
                    return False
                known.add(kind)
        for owner, name in self.attributes:
            value = value_of(owner, scope)
            key = value if type(value) is type else type(value), name
            if key not in known:
                if _runs_for_attribute(value, name):
                    return False
                known.add(key)
        for names in self.valued:
            if runs_code(value_of(names, scope)):
                return False
        for names in self.iterated:
            if type(value_of(names, scope)) not in _ITERATED:
                return False
        return not self.harmless or all(_is_harmless(callee, scope) for callee in self.harmless)

    def near(self, scope: Scope, guards: list[Any]) -> list[FutureAccess] | None:
        """Return the accesses to guarded memory; None if they cannot be known in advance."""
        near: list[FutureAccess] = []
        for names in self.aliases:
            value = value_of(names, scope)
            is_array = type(value) is np.ndarray and not value.dtype.hasobject
            if (value.size and is_near(value, guards)) if is_array else not _is_plain(value):
                return None
        for accesses, are_certain, indices, has_parts in self.arrays:
            touch = accesses[0].touch
            names = touch.array.names
            value = value_of(names, scope)
            kind = type(value)
            if kind in _NUMBERS and not has_parts:
                continue  # hot path
            if kind is np.ndarray and not value.dtype.hasobject:
                if not are_certain and not self.stored.isdisjoint(names):
                    return None
                if value.size and is_near(value, guards):
                    if not are_certain:
                        return None
                    for index in indices:
                        if isinstance(value_of(index, scope), _SELECTING):
                            return None  # its content may change before the access
                    near += accesses
            elif _is_plain(value) and value is not None:
                if has_parts and not self.stored.isdisjoint(names):
                    return None  # by then the name may refer to another object with elements
            elif not touch.callee or value is None or runs_code(value) or _may_read(touch, scope):
                return None
        return None if near and self.has_parts else near


def _may_read(touch: Touch, scope: Scope) -> bool:
    """Return True if a function reads an array that is passed to it, alone or in a list."""
    return bool(access_by_callee(touch, scope) or access_by_callee(touch, scope, list))


def _is_plain(value: object) -> bool:
    """Return True if a value neither is nor holds an array, and using it runs no program code."""
    return value is None or (isinstance(value, _NO_ARRAYS) and not runs_code(value))


def is_near(array: object, guards: list[Any]) -> bool:
    """Return True if guarded memory overlaps the bounds of an array."""
    low, high = bounds(array)
    for guard in guards:
        pieces = guard.pieces
        if pieces and pieces[0][0] < high and low < pieces[-1][1]:
            return True
    return False


class _OtherCode(Exception):
    """Other program code may run."""


def read_ahead(
    code: CodeType, touching: dict[int, tuple[int, tuple[Touch, ...]]], offset: int, scope: Scope
) -> CodeAhead | None:
    """Return the code from one location to the next MPI calls, on all paths.

    The result is None if other code may run.

    Between two calls that begin a receive and a send there is often none. It is analysed once per location. `touching`
    maps the offset of each instruction that may access arrays to its line and these accesses.
    """
    reader = _Reader(code, touching, scope)
    try:
        reader.read(offset)
        return reader.found()
    except _OtherCode:
        return None


class _Reader:
    """A reader of all paths from one location."""

    def __init__(self, code: CodeType, touching: dict[int, tuple[int, tuple[Touch, ...]]], scope: Scope) -> None:
        self._file = code.co_filename
        self._instructions = instructions_of(code, self._file)
        self._touching = touching
        self._scope = scope
        self._has_forked = False
        self._owners, self._harmless = set[Names](), set[Names]()
        self._attributes, self._arrays = set[tuple[Names, str]](), dict[Any, ArrayAhead]()
        self._valued, self._iterated = set[Names](), set[Names]()
        self._sources: dict[str, set[Entry]] = {}
        self._renamed = {is_touched: set[str]() for is_touched in (False, True)}
        entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # missing from typeshed
        self._caught = [range(each.start, each.end) for each in entries]

    def read(self, offset: int) -> None:
        """Follow all paths from one location to the next MPI calls."""
        at = {instruction.offset: i for i, instruction in enumerate(self._instructions)}
        # Within a call, `f_lasti` is in the cache after the instruction.
        ahead: list[tuple[int, Stack]] = [(bisect_right(list(at), offset), (MADE,))]
        visited, read = set[tuple[int, Stack]](), set[int]()
        while ahead:
            state = place, stack = ahead.pop()
            if state in visited:
                continue
            visited.add(state)
            instruction = self._instructions[place]
            name = instruction.opname
            if len(visited) > _MOST_STATES or any(instruction.offset in each for each in self._caught):
                raise _OtherCode  # an exception would be handled in the same function
            result: Entry = UNKNOWN
            if name.startswith("CALL"):
                result = self._result(place)
                if result == _OF_MPI:
                    continue
            elif name == "FOR_ITER":
                result = self._loop_value(place)
            elif name.startswith(_LEAVING) or (name in ("BUILD_MAP", "BUILD_SET") and instruction.arg):
                raise _OtherCode
            self._note_types(instruction, stack)
            for target, source in stored(stack, instruction).items():
                self._sources.setdefault(target, set()).add(source)
            if place not in read:
                self._note_arrays(instruction, len(read))
            read.add(place)
            jumps = instruction.opcode in _JUMPS
            if jumps:
                ahead.append((at[instruction.argval], after(stack, instruction, jumps=True)))
            if not (jumps and name in _ALWAYS):
                ahead.append((place + 1, after(stack, instruction, result)))
                self._has_forked = self._has_forked or jumps

    def found(self) -> CodeAhead:
        """Return the result of the analysis."""
        sources = set[Entry]()
        for is_touched, names in self._renamed.items():
            found, known = set[Entry](), set[str]()
            while names:
                known |= names
                found = {source for name in known for source in self._sources.get(name, ())}
                names = {name for source in found if isinstance(source, tuple) for name in source} - known
            if UNKNOWN in found or (is_touched and CONTAINER in found):
                raise _OtherCode
            sources |= found
        return CodeAhead(
            frozenset(self._owners),
            frozenset(self._harmless),
            tuple(self._arrays.values()),
            frozenset(self._sources),
            frozenset(each for each in self._attributes if each[0] not in self._owners),
            frozenset(self._valued),
            frozenset(self._iterated),
            frozenset(source for source in sources if isinstance(source, tuple)),
            PART in sources,
            set(),
        )

    def _result(self, place: int) -> Entry:
        """Return the result of a call; `_OF_MPI` for an MPI method."""
        instruction = self._instructions[place]
        key = key_of(instruction)
        callee = callees_of(self._file).get(key, ()) if key is not None else ()
        if len(callee) > 1 and callee[-1] in _methods() and _is_of_mpi(value_of(callee[:-1], self._scope)):
            self._owners.add(callee[:-1])
            return _OF_MPI
        before = self._instructions[max(place - 2, 0) : place]
        has_names = instruction.opname == "CALL_KW" or any(each.opname == "KW_NAMES" for each in before)
        if has_names or not _is_harmless(callee, self._scope):  # a builtin may call its `key` argument
            raise _OtherCode
        self._harmless.add(callee)
        return UNKNOWN if callee[-1] in ("enumerate", "zip") else MADE

    def _loop_value(self, place: int) -> Entry:
        """Return the value a loop gets from its iterator, which may have been created earlier."""
        for each in reversed(self._instructions[max(place - 6, 0) : place]):
            if each.argval == ".0":
                self._iterated.add((".0",))
                return PART
            if each.opname == "GET_ITER":
                key = key_of(each)
                iterated = iterated_of(self._file).get(key) if key is not None else None
                if iterated is None or not all(_is_harmless(callee, self._scope) for callee in iterated.callees):
                    break
                self._harmless.update(iterated.callees)
                self._iterated.update(iterated.names)
                return MADE if iterated.callees[:1] == (("range",),) else PART
        raise _OtherCode

    def _note_types(self, instruction: dis.Instruction, stack: Stack) -> None:
        """Record the objects whose classes decide what an instruction does."""
        name, top = instruction.opname, entry(stack, 1)
        if name in _OF_ATTRIBUTES:
            if not isinstance(top, tuple):
                raise _OtherCode
            self._attributes.add((top, instruction.argval))
            self._use(top)
        elif name.endswith(_OF_TRUTH):
            if top == UNKNOWN:
                raise _OtherCode
            self._value(top)
        elif name in ("BINARY_OP", "COMPARE_OP") and instruction.offset not in self._touching:
            self._value(top)
            self._value(entry(stack, 2))

    def _value(self, value: Entry) -> None:
        if isinstance(value, tuple):
            self._valued.add(value)
            self._use(value)

    def _use(self, names: Names, *, touches: bool = False) -> None:
        """Record names that may refer to different objects by then."""
        if self._has_forked or not self._sources.keys().isdisjoint(names):
            self._renamed[touches].update(names)

    def _note_arrays(self, instruction: dis.Instruction, order: int) -> None:
        """Record the arrays that an instruction may access."""
        line, touches = self._touching.get(instruction.offset, (0, ()))
        for touch in touches:
            access = FutureAccess(order, instruction.offset, line, touch)
            is_certain = not self._has_forked and self._sources.keys().isdisjoint(names_in(touch))
            before = self._arrays.get((touch.array.names, touch.callee), _NOTHING)
            names = [index.code.co_names for index in touch.array.indices if isinstance(index, Index)]
            indices = frozenset(tuple(name.split(".")) for each in names for name in each)
            self._arrays[touch.array.names, touch.callee] = ArrayAhead(
                (*before.accesses, access),
                before.are_certain and is_certain,
                before.indices | indices,
                before.has_parts or bool(touch.array.indices),
            )
            self._use(touch.array.names, touches=True)
            for index in indices:
                self._value(index)


_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_ALWAYS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"))
_LEAVING = (
    *("RETURN", "RERAISE", "RAISE", "YIELD", "SEND", "BEFORE_WITH", "IMPORT", "ASYNC", "GET_AWAITABLE"),
    *("DELETE_ATTR", "DELETE_SUBSCR", "MATCH", "SET_ADD", "MAP_ADD"),
    "MAKE_FUNCTION",  # a builtin may call it
)
_OF_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
_OF_TRUTH = ("IF_TRUE", "IF_FALSE", "IF_TRUE_OR_POP", "IF_FALSE_OR_POP")
_HARMLESS = frozenset(("range", "len", "enumerate", "zip", "isinstance", "int", "float", "min", "max", "abs"))
_NUMBERS = frozenset((int, float, bool))
_NO_ARRAYS = (int, float, complex, str, bytes, bool, ModuleType, type, Handle)
_EMPTY: tuple[Iterable[Any], ...] = ([], (), {}, {}.items(), {}.values(), set(), "", b"", range(0))
_ITERATED = frozenset(
    (
        *(list, tuple, dict, set, frozenset, str, bytes, range, np.ndarray),
        *(type(iter(each)) for each in _EMPTY),
    )
)
"""Iterating over objects of these types runs no program code."""
_MOST_STATES = 5000
_NOTHING = ArrayAhead((), True, frozenset(), False)
_SELECTING = (np.ndarray, list)
_OF_MPI = "the result of an MPI call"


def _runs_for_attribute(owner: object, name: str) -> bool:
    """Return True if loading or storing an attribute of an object may run program code."""
    kind = type(owner)
    if not kind.__flags__ & HEAP_TYPE and kind is not type:
        return owner is None
    kinds: tuple[Any, ...] = (owner, kind) if isinstance(owner, type) else (kind,)
    if issubclass(kinds[0], Handle):
        return False
    return any(each.__flags__ & HEAP_TYPE and _has_code_for(each, name) for each in kinds)


def _has_code_for(kind: type, name: str) -> bool:
    """Return True if a class defines code in Python for an attribute."""
    written = [each.__dict__ for each in kind.__mro__ if each.__flags__ & HEAP_TYPE]
    if any(each in of_class for each in ("__getattr__", "__getattribute__", "__setattr__") for of_class in written):
        return True
    found = type(next((each.__dict__[name] for each in kind.__mro__ if name in each.__dict__), None))
    is_written = bool(found.__flags__ & HEAP_TYPE)
    return found is property or (is_written and (hasattr(found, "__get__") or hasattr(found, "__set__")))


def _is_of_mpi(owner: object) -> bool:
    """Return True for an object or class of mpi4py, whose methods pause the watch."""
    kind = owner if isinstance(owner, type) else type(owner)
    return issubclass(kind, Handle) and kind.__module__ == "mpi4py.MPI"  # not a subclass from the program


@cache
def _methods() -> frozenset[str]:
    from xsim_py.mpi4py.door import known_calls

    return known_calls()


def _is_harmless(callee: Names, scope: Scope) -> bool:
    """Return True if names refer to a Python function that runs no program code."""
    if len(callee) == 1:
        return callee[0] in _HARMLESS and not is_defined(callee[0], scope)
    return len(callee) == 2 and callee[1] in ("append", "extend") and type(value_of(callee[:1], scope)) is list
