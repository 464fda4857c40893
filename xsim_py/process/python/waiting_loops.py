"""Bytecode analysis: a loop waits for a time if the clock reading decides whether it continues.

``while time() < end: ...`` waits, and so does ``while True: ...; if now() > end: break``, where ``now`` is a function
of the program that returns a clock reading. A program that times its steps reads the same clock as often, but its
readings decide nothing. Neither does a clock in a ``for`` loop, which ends by itself.

The value of a reading is followed through the instructions after it: expressions, variables and attributes of the same
function, and into the caller if it is returned. No source is needed, and the result is the same in every process.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from types import CodeType, FrameType
from typing import NamedTuple

WAITS, RETURNED, NEITHER = "waits", "returned", "neither"

COMPILED = "a line of a compiled program"
"""A global of frames that represent one. It is true in the program's own lines, which wait if they read a clock that
often and do nothing else. A library, or an interpreter, reads clocks in one line for many purposes.
"""

_NO_EFFECT = frozenset(
    ("NOP", "RESUME", "CACHE", "PRECALL", "KW_NAMES", "EXTENDED_ARG", "MAKE_CELL", "COPY_FREE_VARS", "NOT_TAKEN")
)
_GIVING = frozenset(("RETURN_VALUE", "YIELD_VALUE"))
_LEAVING = ("RETURN_", "RAISE_", "RERAISE")
_ONE_AND_MORE = ("LOAD_ATTR", "LOAD_METHOD", "UNPACK_")  # they take one value, and leave one or more
_MOST_KNOWN = 10_000

_Taints = frozenset[int]  # stack depths of values that derive from a reading; 0 is the top
_known: dict[tuple[int, int], tuple[CodeType, str]] = {}  # by identity: hashing a code object takes as long as a step


def waiting_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the loop that waits for the value of the running instruction; None if no loop does."""
    while frame is not None:
        is_own = frame.f_globals.get(COMPILED)
        if is_own is not None:
            return frame if is_own else None
        use = _use_of(frame.f_code, frame.f_lasti)
        if use != RETURNED:
            return frame if use == WAITS else None
        frame = frame.f_back
    return None


def _use_of(code: CodeType, offset: int) -> str:
    """Return how the value that the instruction at an offset produces is used."""
    found = _known.get((id(code), offset))
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[id(code), offset] = code, use_of(code, offset)
    return found[1]


def use_of(code: CodeType, offset: int) -> str:
    """Return how the value that an instruction produces is used; `_use_of` caches the result."""
    steps = list(dis.get_instructions(code))
    at = {step.offset: index for index, step in enumerate(steps)}
    # During a call, a frame may be at the instruction's cache, after it.
    first = bisect_right(steps, offset, key=attrgetter("offset")) - 1
    if steps[first].opname == "PRECALL":
        first = next(index for index in range(first, len(steps)) if steps[index].opname.startswith("CALL"))
    flow = [tuple(_successors(steps, at, index)) for index in range(len(steps))]
    reached = _users_of_top(steps, at, first)
    if any("JUMP" in steps[index].opname and _decides(steps, flow, index, first) for index in reached):
        return WAITS
    return RETURNED if any(steps[index].opname in _GIVING for index in reached) else NEITHER


def _decides(steps: list[dis.Instruction], flow: list[tuple[int, ...]], jump: int, reading: int) -> bool:
    """Return True if a jump decides whether the loop of a reading continues."""
    ways = [_reachable(flow, way) for way in flow[jump]]
    again, left = [way for way in ways if jump in way], [way for way in ways if jump not in way]
    if len(again) != 1 or reading not in again[0]:
        return False
    # A loop does not wait for a failed assertion.
    after = [steps[index] for way in left for index in way]
    is_assertion = any(step.opname == "LOAD_ASSERTION_ERROR" or step.argval == "AssertionError" for step in after)
    return not is_assertion or any(step.opname.startswith("RETURN_") for step in after)


def _reachable(flow: list[tuple[int, ...]], start: int) -> set[int]:
    found, pending = set[int](), [start]
    while pending:
        index = pending.pop()
        if index not in found:
            found.add(index)
            pending += flow[index]
    return found


def _successors(steps: list[dis.Instruction], at: dict[int, int], index: int) -> Iterator[int]:
    """Yield the possible successors of an instruction; the end of a ``for`` body continues after the loop."""
    step = steps[index]
    target = _target(step, at)
    if target is not None:
        loop = steps[target]
        yield target if loop.opname != "FOR_ITER" or target > index else at[int(loop.argval)]
    if not step.opname.startswith(_LEAVING) and not _is_plain_jump(step) and index + 1 < len(steps):
        yield index + 1


def _target(step: dis.Instruction, at: dict[int, int]) -> int | None:
    return at[step.argval] if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs else None


def _is_plain_jump(step: dis.Instruction) -> bool:
    return step.opname.startswith("JUMP_") and "_IF_" not in step.opname


class _Value(NamedTuple):
    """Values on the stack after an instruction that derive from a reading."""

    after: int
    taints: _Taints


def _users_of_top(steps: list[dis.Instruction], at: dict[int, int], first: int) -> set[int]:
    """Return the instructions that use the value left on top of the stack by the first one."""
    used, names = set[int](), set[str]()
    seen = set[_Value]()
    pending = [_Value(first, frozenset((0,)))]
    while pending:
        value = pending.pop()
        if value in seen or not value.taints or value.after + 1 >= len(steps):
            continue
        seen.add(value)
        step, index = steps[value.after + 1], value.after + 1
        if 0 in value.taints and ("JUMP" in step.opname or step.opname in _GIVING):
            used.add(index)
        for name in _stored(step, value.taints) - names:
            names.add(name)
            pending += [_Value(place, taints) for place, taints in _loads(steps, name)]
        if step.opname.startswith(_LEAVING):
            continue
        target = _target(step, at)
        if not _is_plain_jump(step):
            pending.append(_Value(index, _after(step, value.taints, jump=False)))
        if target is not None and target > index:
            pending.append(_Value(target - 1, _after(step, value.taints, jump=True)))
    return used


def _after(step: dis.Instruction, taints: _Taints, *, jump: bool) -> _Taints:
    """Return the stack depths of derived values after an instruction, including results computed from them."""
    name, argument = step.opname, step.arg or 0
    if name in _NO_EFFECT:
        return taints
    if name == "COPY":
        return frozenset(depth + 1 for depth in taints) | ({0} if argument - 1 in taints else frozenset())
    if name == "SWAP":
        moved = {0: argument - 1, argument - 1: 0}
        return frozenset(moved.get(depth, depth) for depth in taints)
    if name == "STORE_FAST_LOAD_FAST":
        return taints - {0}
    taken, left = _pops_and_pushes(step, jump=jump)
    kept = frozenset(depth - taken + left for depth in taints if depth >= taken)
    return kept | frozenset(range(left)) if any(depth < taken for depth in taints) else kept


def _pops_and_pushes(step: dis.Instruction, *, jump: bool) -> tuple[int, int]:
    """Return the number of values that an instruction pops from the stack, and the number it pushes."""
    name, argument = step.opname, step.arg or 0
    if name == "CALL":
        return argument + 2, 1
    effect = dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None, jump=jump)
    if name.startswith(_ONE_AND_MORE):
        return 1, 1 + effect
    if effect > 0:
        return 0, effect
    leaves_none = name.startswith(("STORE_", "POP_", "DELETE_", "LIST_", "SET_", "MAP_", "DICT_", "JUMP_", "END_"))
    return (-effect, 0) if leaves_none else (1 - effect, 1)


def _stored(step: dis.Instruction, taints: _Taints) -> set[str]:
    """Return the variable, or the attribute with a dot, in which a derived value is stored."""
    name = step.opname
    if name == "STORE_ATTR":
        return {f".{step.argval}"} if 1 in taints else set()
    if not name.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")) or not taints & {0, 1}:
        return set()
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    if name == "STORE_FAST_LOAD_FAST":
        names = names[:1]
    return {names[depth] for depth in taints if depth < len(names)}


def _loads(steps: list[dis.Instruction], name: str) -> Iterator[tuple[int, _Taints]]:
    """Yield the instructions that load a variable or an attribute, and its stack depths afterwards."""
    for index, step in enumerate(steps):
        if step.opname.startswith("LOAD_ATTR") and f".{step.argval}" == name:
            yield index, frozenset((0,))
        elif not name.startswith(".") and "LOAD_" in step.opname and "ATTR" not in step.opname:
            names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            if step.opname == "STORE_FAST_LOAD_FAST":
                names = names[1:]
            depths = frozenset(depth for depth, each in enumerate(reversed(names)) if each == name)
            if depths and step.opname not in ("LOAD_CONST", "LOAD_METHOD"):
                yield index, depths
