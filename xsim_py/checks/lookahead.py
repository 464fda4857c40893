"""The code of a program says, as far as it can, what is done between one of its MPI calls and the next ones."""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xsim_py.mpi4py.handle import Handle

from .elements import bounds
from .resolve import HEAP_TYPE, Scope, done_by_callee, is_defined, runs_code, value_of
from .sources import Index, Touch, callees_of, instructions_of, iterated_of, key_of, names_in
from .stack import CONTAINER, MADE, PART, UNKNOWN, Entry, Stack, after, entry, stored

if TYPE_CHECKING:
    from types import CodeType

Names = tuple[str, ...]
"""A variable, and attributes from there."""


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
    indices: frozenset[Names]
    """The indices of these instructions name these variables and attributes."""
    has_parts: bool
    """True if one of them works on a part, by an index."""


class Ahead(NamedTuple):
    """Between a place in a function and its next MPI call lies this, if no other code of the program is run there."""

    owners: frozenset[Names]
    """Names that mean objects of mpi4py, or classes: a method of each of these is the next call."""
    harmless: frozenset[Names]
    """Names that mean functions of Python which run none of the program."""
    arrays: tuple[ArrayAhead, ...]
    """The code works on these arrays, perhaps."""
    stored: frozenset[str]
    """The variables and attributes that it stores to."""
    attributes: frozenset[tuple[Names, str]]
    """The names of objects, each with an attribute of it: the program may have defined what runs for that."""
    valued: frozenset[Names]
    """Names whose values it asks for their truth or takes as indices: their classes say what runs for that."""
    iterated: frozenset[Names]
    """The code goes on with a loop over these."""
    aliases: frozenset[Names]
    """It stores what these mean where it works on it later."""
    has_parts: bool
    """True if it does so also with parts of others, which may be arrays, too."""
    known: set[Any]
    """The classes that are mpi4py's, as was found before, and those with an attribute that runs no code."""

    def holds(self, scope: Scope) -> bool:
        """Return whether names of functions mean what they meant when this was found out."""
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
            seen = value if type(value) is type else type(value), name
            if seen not in known:
                if _runs_for_attribute(value, name):
                    return False
                known.add(seen)
        for names in self.valued:
            if runs_code(value_of(names, scope)):
                return False
        for names in self.iterated:
            if type(value_of(names, scope)) not in _ITERATED:
                return False
        return not self.harmless or all(_is_harmless(callee, scope) for callee in self.harmless)

    def near(self, scope: Scope, guards: list[Any]) -> list[Sight] | None:
        """Return what touches guarded memory; None where that cannot be known before it comes."""
        near: list[Sight] = []
        for names in self.aliases:
            value = value_of(names, scope)
            is_array = type(value) is np.ndarray and not value.dtype.hasobject
            if (value.size and is_near(value, guards)) if is_array else not _is_plain(value):
                return None
        for sights, are_certain, indices, has_parts in self.arrays:
            touch = sights[0].touch
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
                        if isinstance(value_of(index, scope), _PICKING):
                            return None  # what that has may change before
                    near += sights
            elif _is_plain(value) and value is not None:
                if has_parts and not self.stored.isdisjoint(names):
                    return None  # what has elements then is something else
            elif not touch.callee or value is None or runs_code(value) or _may_look(touch, scope):
                return None
        return None if near and self.has_parts else near


def _may_look(touch: Touch, scope: Scope) -> bool:
    """Return whether a function looks at an array that it is given, or at arrays in a list."""
    return bool(done_by_callee(touch, scope) or done_by_callee(touch, scope, list))


def _is_plain(value: Any) -> bool:
    """Return whether a value is neither an array nor holds one, and no code of the program runs to compute with it."""
    return value is None or (isinstance(value, _NO_ARRAYS) and not runs_code(value))


def is_near(array: Any, guards: list[Any]) -> bool:
    """Return whether guarded memory lies between the addresses where an array has its elements."""
    low, high = bounds(array)
    for guard in guards:
        pieces = guard.pieces
        if pieces and pieces[0][0] < high and low < pieces[-1][1]:
            return True
    return False


class _OtherCode(Exception):
    """Other code of the program may be run."""


def ahead_of(
    code: CodeType, touching: dict[int, tuple[int, tuple[Touch, ...]]], offset: int, scope: Scope
) -> Ahead | None:
    """Return what comes between a place and the next MPI call, on all ways; None where other code is run, perhaps.

    There is none between two calls that begin a receive and a send, as often as not. It is asked once for a place.
    Of each instruction that may touch arrays, `touching` has the line and these, by its offset.
    """
    reader = _Reader(code, touching, scope)
    try:
        reader.read(offset)
        return reader.found()
    except _OtherCode:
        return None


class _Reader:
    """Reads what comes, on all ways."""

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
        entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # typeshed has it not
        self._caught = [range(each.start, each.end) for each in entries]

    def read(self, offset: int) -> None:
        """Go all ways from a place to the next MPI calls."""
        at = {instruction.offset: i for i, instruction in enumerate(self._instructions)}
        # Within a call the frame stands somewhere in the cache behind the instruction.
        ahead: list[tuple[int, Stack]] = [(bisect_right(list(at), offset), (MADE,))]
        seen, read = set[tuple[int, Stack]](), set[int]()
        while ahead:
            state = place, stack = ahead.pop()
            if state in seen:
                continue
            seen.add(state)
            instruction = self._instructions[place]
            name = instruction.opname
            if len(seen) > _MOST_STATES or any(instruction.offset in each for each in self._caught):
                raise _OtherCode  # what raises an exception has something else come
            result: Entry = UNKNOWN
            if name.startswith("CALL"):
                result = self._result(place)
                if result == _OF_MPI:
                    continue
            elif name == "FOR_ITER":
                result = self._iterates(place)
            elif name.startswith(_LEAVING) or (name in ("BUILD_MAP", "BUILD_SET") and instruction.arg):
                raise _OtherCode
            self._asks(instruction, stack)
            for target, source in stored(stack, instruction).items():
                self._sources.setdefault(target, set()).add(source)
            if place not in read:
                self._touches(instruction, len(read))
            read.add(place)
            jumps = instruction.opcode in _JUMPS
            if jumps:
                ahead.append((at[instruction.argval], after(stack, instruction, jumps=True)))
            if not (jumps and name in _ALWAYS):
                ahead.append((place + 1, after(stack, instruction, result)))
                self._has_forked = self._has_forked or jumps

    def found(self) -> Ahead:
        """Return what has been found."""
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
        return Ahead(
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
        """Return what a call returns; `_OF_MPI` of a method of MPI."""
        instruction = self._instructions[place]
        key = key_of(instruction)
        callee = callees_of(self._file).get(key, ()) if key is not None else ()
        if len(callee) > 1 and callee[-1] in _methods() and _is_of_mpi(value_of(callee[:-1], self._scope)):
            self._owners.add(callee[:-1])
            return _OF_MPI
        before = self._instructions[max(place - 2, 0) : place]
        has_names = instruction.opname == "CALL_KW" or any(each.opname == "KW_NAMES" for each in before)
        if has_names or not _is_harmless(callee, self._scope):  # a function of Python may call its key
            raise _OtherCode
        self._harmless.add(callee)
        return UNKNOWN if callee[-1] in ("enumerate", "zip") else MADE

    def _iterates(self, place: int) -> Entry:
        """Return what a loop gets from its iterator, which may have been made before."""
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

    def _asks(self, instruction: dis.Instruction, stack: Stack) -> None:
        """Take note of the objects whose classes say what an instruction does."""
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
        """Take note of names which by then may mean something else."""
        if self._has_forked or not self._sources.keys().isdisjoint(names):
            self._renamed[touches].update(names)

    def _touches(self, instruction: dis.Instruction, order: int) -> None:
        """Take note of the arrays, perhaps, on which an instruction works."""
        line, touches = self._touching.get(instruction.offset, (0, ()))
        for touch in touches:
            sight = Sight(order, instruction.offset, line, touch)
            is_certain = not self._has_forked and self._sources.keys().isdisjoint(names_in(touch))
            before = self._arrays.get((touch.array.names, touch.callee), _NOTHING)
            names = [index.code.co_names for index in touch.array.indices if isinstance(index, Index)]
            indices = frozenset(tuple(name.split(".")) for each in names for name in each)
            self._arrays[touch.array.names, touch.callee] = ArrayAhead(
                (*before.sights, sight),
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
    "MAKE_FUNCTION",  # a function of Python may call it
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
"""Who iterates over these runs no code of the program."""
_MOST_STATES = 5000
_NOTHING = ArrayAhead((), True, frozenset(), False)
_PICKING = (np.ndarray, list)
_OF_MPI = "what is not known before it comes"


def _runs_for_attribute(owner: Any, name: str) -> bool:
    """Return whether code of the program may run where an attribute of an object is loaded or stored."""
    kind = type(owner)
    if not kind.__flags__ & HEAP_TYPE and kind is not type:
        return owner is None
    kinds: tuple[Any, ...] = (owner, kind) if isinstance(owner, type) else (kind,)
    if issubclass(kinds[0], Handle):
        return False
    return any(each.__flags__ & HEAP_TYPE and _has_code_for(each, name) for each in kinds)


def _has_code_for(kind: type, name: str) -> bool:
    """Return whether a class says in Python what an attribute of its objects is, or that of the class."""
    written = [each.__dict__ for each in kind.__mro__ if each.__flags__ & HEAP_TYPE]
    if any(each in of_class for each in ("__getattr__", "__getattribute__", "__setattr__") for of_class in written):
        return True
    found = type(next((each.__dict__[name] for each in kind.__mro__ if name in each.__dict__), None))
    is_written = bool(found.__flags__ & HEAP_TYPE)
    return found is property or (is_written and (hasattr(found, "__get__") or hasattr(found, "__set__")))


def _is_of_mpi(owner: Any) -> bool:
    """Return whether it is an object or a class of mpi4py, before whose methods the watch is paused."""
    kind = owner if isinstance(owner, type) else type(owner)
    return issubclass(kind, Handle) and kind.__module__ == "mpi4py.MPI"  # and not one that the program has made of it


@cache
def _methods() -> frozenset[str]:
    from xsim_py.mpi4py.call_hooks import known_calls

    return known_calls()


def _is_harmless(callee: Names, scope: Scope) -> bool:
    """Return whether names mean a function of Python that runs none of the program."""
    if len(callee) == 1:
        return callee[0] in _HARMLESS and not is_defined(callee[0], scope)
    return len(callee) == 2 and callee[1] in ("append", "extend") and type(value_of(callee[:1], scope)) is list
