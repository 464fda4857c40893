"""A symbolic evaluation stack: the names of the values that instructions push and pop."""

from __future__ import annotations

import dis
from collections.abc import Mapping
from typing import Any, Final

Entry = tuple[str, ...] | str
"""A value on the stack: its names, as a variable and attributes from there; or one of the words below."""
MADE: Final = "a new value: a number, a string, a new array"
PART: Final = "a part of another value: an element, or an array of elements"
CONTAINER: Final = "a new list, tuple or dictionary"
UNKNOWN: Final = "any value"
Stack = tuple[Entry, ...]
"""The values on top of the stack, the top one last. Values below are unknown."""

_PUSHED: Mapping[str, tuple[Entry, ...]] = {
    **dict.fromkeys(("UNARY_NOT", "UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "IS_OP", "CONTAINS_OP"), (MADE,)),
    **dict.fromkeys(
        ("BINARY_OP", "COMPARE_OP", "BUILD_STRING", "BUILD_SLICE", "LOAD_CONST", "LOAD_SMALL_INT"), (MADE,)
    ),
    **dict.fromkeys(("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"), (MADE,)),
    **dict.fromkeys(("BUILD_LIST", "BUILD_TUPLE", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_SET"), (CONTAINER,)),
    **dict.fromkeys(("PUSH_NULL", "GET_ITER"), (UNKNOWN,)),
    **dict.fromkeys(("LIST_APPEND", "LIST_EXTEND", "PRECALL", "KW_NAMES", "NOP", "TO_BOOL", "EXTENDED_ARG"), ()),
    **dict.fromkeys(("POP_TOP", "POP_ITER", "END_FOR", "NOT_TAKEN"), ()),
}

_OF_PARTS = {"BINARY_SUBSCR": 2, "BINARY_SLICE": 3}


def entry(stack: Stack, depth: int) -> Entry:
    """Return the value at a depth of the stack; the top has depth 1."""
    return stack[-depth] if depth <= len(stack) else UNKNOWN


def after(stack: Stack, instruction: dis.Instruction, result: Entry = UNKNOWN, *, jumps: bool = False) -> Stack:
    """Return the stack after an instruction, which may jump.

    `result` is the result of a call or iterator.
    """
    name, argument = instruction.opname, instruction.arg
    if name == "SWAP":
        assert argument is not None
        swapped = [entry(stack, depth) for depth in range(max(argument, len(stack)), 0, -1)]
        swapped[-1], swapped[-argument] = swapped[-argument], swapped[-1]
        return tuple(swapped)
    effect = dis.stack_effect(instruction.opcode, argument, jump=jumps)
    pushed = () if jumps else _pushed(stack, instruction, result)
    if pushed is None:
        return ()
    popped = len(pushed) - effect
    if popped < 0:  # `argval` of a method also has its owner
        pushed, popped = (*[UNKNOWN] * -popped, *pushed), 0
    return (*stack[: max(len(stack) - popped, 0)], *pushed)


def _pushed(stack: Stack, instruction: dis.Instruction, result: Entry) -> tuple[Entry, ...] | None:
    """Return the values that an instruction pushes; None if unknown."""
    name, value = instruction.opname, instruction.argval
    if name in _OF_PARTS or (name == "BINARY_OP" and instruction.argrepr == "[]"):
        container = entry(stack, _OF_PARTS.get(name, 2))
        return (UNKNOWN if container in (UNKNOWN, CONTAINER) else PART,)
    if name in _PUSHED:
        return _PUSHED[name]
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        owner = entry(stack, 1)
        found = (*owner, value) if isinstance(owner, tuple) else UNKNOWN
        return (found,) if dis.stack_effect(instruction.opcode, instruction.arg) == 0 else (UNKNOWN, found)
    if name.startswith("LOAD_"):
        return tuple((each,) if isinstance(each, str) else UNKNOWN for each in _each(value))
    if name == "STORE_FAST_LOAD_FAST":
        return ((value[1],),)
    if name == "UNPACK_SEQUENCE":
        return (PART,) * int(value)
    if name == "COPY":
        return (entry(stack, value),)
    if name.startswith("CALL") or name == "FOR_ITER":
        return (result,)
    return () if name.startswith(("STORE_", "POP_JUMP", "JUMP")) else None


def stored(stack: Stack, instruction: dis.Instruction) -> dict[str, Entry]:
    """Return what an instruction stores or deletes, with the new values."""
    name, value = instruction.opname, instruction.argval
    if not name.startswith(("STORE_", "DELETE_")) or value is None:
        return {}
    names = _each(value)[:1] if name == "STORE_FAST_LOAD_FAST" else _each(value)
    first = 2 if name == "STORE_ATTR" else 1
    return {each: entry(stack, first + i) for i, each in enumerate(names)}


def _each(value: object) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
