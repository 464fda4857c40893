"""The functions of MPI as compiled programs call them, on the methods of `xsim_py.mpi4py.MPI`.

Most functions need no code: a C function and the method of mpi4py have one name and equal parameters, a buffer is
followed by its count and type, and what a method returns goes to the ``out`` parameters in order. `bind` does this
from the description of the function (``library/interface.txt``); the others are in `by_hand`.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi4py.inside import comm_of, impl_of

from .build import SOURCES
from .by_hand import MAKERS, MPI, Function, body_of
from .child import BadAddress
from .convert import (
    CParameter,
    RemoteBlocks,
    RemoteElements,
    null_number,
    parameters_of,
    read_status,
    write_status,
)

if TYPE_CHECKING:
    from .by_hand import Body
    from .child import Child

Convert: TypeAlias = "Callable[[Child, tuple[int, ...]], Any]"

FAMILIES: dict[str, Any] = {
    "COMMUNICATOR": MPI.Comm,
    "DATATYPE": MPI.Datatype,
    "GROUP": MPI.Group,
    "INFO": MPI.Info,
    "WINDOW": MPI.Win,
    "FILE": MPI.File,
    "SESSION": MPI.Session,
    "REQUEST": MPI.Request,
    "OPERATION": MPI.Op,
    "ERRHANDLER": MPI.Errhandler,
    "MESSAGE": MPI.Message,
    "STATUS": MPI.Status,
}
"""The class of each kind of handle."""

_PREFIXES = {
    "Comm": "COMMUNICATOR",
    "Type": "DATATYPE",
    "Group": "GROUP",
    "Info": "INFO",
    "Win": "WINDOW",
    "File": "FILE",
    "Session": "SESSION",
    "Request": "REQUEST",
    "Op": "OPERATION",
    "Errhandler": "ERRHANDLER",
    "Message": "MESSAGE",
    "Status": "STATUS",
}
_ALIASES = {
    "assertion": ("assert",),
    "attrval": ("attribute_val",),
    "blocklengths": ("array_of_blocklengths",),
    "buf": ("buffer",),
    "comm": ("comm2",),
    "compare": ("compare_addr",),
    "datatypes": ("array_of_types",),
    "displacements": ("array_of_displacements",),
    "group": ("group2",),
    "keyval": ("comm_keyval", "type_keyval", "win_keyval"),
    "name": ("comm_name", "type_name", "win_name"),
    "origin": ("origin_addr",),
    "ranks": ("ranks1",),
    "result": ("result_addr",),
    "target": ("target_disp",),
}
"""Parameters of methods, and their names in C."""

_functions: dict[int, Function] = {}


@cache
def interface() -> list[tuple[str, str, str]]:
    """Return all functions, by number: name, and parameters with counts of both widths."""
    lines = (SOURCES / "interface.txt").read_text(encoding="utf-8").splitlines()[1:]
    return [(name, small, large) for name, small, large in (line.split("|") for line in lines)]


def call(child: Child, number: int, large: int, site: int) -> int:
    """Execute a call of a program and return its result, an error code."""
    function = _functions.get(2 * number + large)
    if function is None:
        function = _functions[2 * number + large] = _made(number, bool(large))
    result: int = child.places.at(site)(function, child)
    return result


def _made(number: int, large: bool) -> Function:
    name, small_rows, large_rows = interface()[number]
    short = name.removeprefix("MPI_")
    parameters = parameters_of(large_rows if large else small_rows)
    by_hand = body_of(short)
    if by_hand is not None:
        function: Function | None = partial(_with_arguments, by_hand, len(parameters))
    else:
        make = MAKERS.get(short, partial(bind, short))
        function = make(parameters)
    return _reporting(name, function or _refusal(name))


def _with_arguments(body: Body, count: int, child: Child) -> int | None:
    return body(child, child.arguments(count))


def _reporting(name: str, body: Function) -> Function:
    """Return a function that passes errors to the error handler, and returns their code."""

    def function(child: Child) -> int:
        child.handled = 0
        try:
            return body(child) or child.handled
        except errors.Exception as error:
            return _failed(error)
        except BadAddress as error:
            return _failed(errors.error(c.ERR_BUFFER, f"{name}: {error}"))
        except (TypeError, ValueError, KeyError, IndexError, BufferError, OverflowError) as error:
            return _failed(errors.error(c.ERR_ARG, f"{name}: {error}"))

    return function


def _failed(error: errors.Exception) -> int:
    """Call the error handler of COMM_SELF, if no other has seen the error (MPI 5.0, 9.3); return the code."""
    comm_of(MPI.COMM_SELF).report(error)
    return error.Get_error_code()


def _refusal(name: str) -> Function:
    def function(child: Child) -> int:
        errors.fail(c.ERR_UNSUPPORTED_OPERATION, f"xsim_py does not have {name} for compiled programs")

    return function


# -------------------------------------------------------------------------------------------------------- conversion


def bind(name: str, parameters: list[CParameter]) -> Function | None:
    """Return a function that calls the method of the same name; None if there is none with equal parameters."""
    found = _method(name, parameters)
    if found is None:
        return None
    owner, method, kind = found
    places = {each.name: i for i, each in enumerate(parameters)}
    used: set[str] = set()
    converts: list[Convert] = []
    declared = [*inspect.signature(getattr(owner, method)).parameters]
    if declared[:1] == ["self"]:
        declared.pop(0)
        own = next((i for i, each in enumerate(parameters) if each.kind == kind and each.form != "a"), None)
        if own is None:
            return None
        converts.append(_single(parameters[own], own))
        used.add(parameters[own].name)
    else:
        converts.append(lambda child, given: owner)
    for each in declared:
        names = [alias for alias in (each, *_ALIASES.get(each, ())) if alias in places and alias not in used]
        if not names:
            return None
        used.add(names[0])
        make = _target if each == "target" else _argument
        converts.append(make(parameters, places[names[0]]))
    status = next((i for i, each in enumerate(parameters) if each.kind == "STATUS" and each.direction == "out"), None)
    outputs = [
        (i, _output(each))
        for i, each in enumerate(parameters)
        if each.direction != "in" and each.kind not in ("STATUS", "BUFFER") and each.name not in used
    ]
    function = _calling(method, len(parameters), converts, outputs, status)
    inout = kind, "inout", "p"
    freed = next((i for i, each in enumerate(parameters) if (each.kind, each.direction, each.form) == inout), None)
    return function if freed is None else partial(_freeing, function, converts[0], freed)


def _freeing(function: Function, convert: Convert, place: int, child: Child) -> None:
    """Call a function that may set a handle to null."""
    given = child.arguments(place + 1)
    handle = convert(child, given)
    impl, number = impl_of(handle), integers(child, given[place], 1, "q")[0]
    try:
        function(child)
    finally:
        if not handle:
            child.handles.drop(number, impl)
            write_handle(child, given[place], handle)


def _calling(method: str, count: int, converts: list[Convert], outputs: list[Any], status: int | None) -> Function:
    first, *rest = converts

    def function(child: Child) -> None:
        given = child.arguments(count)
        values = [convert(child, given) for convert in rest]
        result = getattr(first(child, given), method)(*values)
        if status is not None and given[status]:
            write_status(child, given[status], next(each for each in values if isinstance(each, MPI.Status)))
        if len(outputs) == 1:
            place, write = outputs[0]
            write(child, given[place], result)
        elif outputs:
            for (place, write), value in zip(outputs, result, strict=True):
                write(child, given[place], value)

    return function


def _method(name: str, parameters: list[CParameter]) -> tuple[Any, str, str] | None:
    """Return the class and the method for a C function, and the kind of handle to which it belongs."""
    head, _, rest = name.partition("_")
    if head in _PREFIXES and rest:
        kinds, bases = [_PREFIXES[head]], [rest]
    else:
        kinds, bases = [each.kind for each in parameters if each.kind in FAMILIES], [name]
    for kind in kinds:
        for cls in (FAMILIES[kind], *FAMILIES[kind].__subclasses__(), MPI.Cartcomm, MPI.Graphcomm, MPI.Distgraphcomm):
            for base in bases:
                for prefix in ("", "Get_", "Create_", "Is_"):
                    method = prefix + (base if prefix else base[0].upper() + base[1:])
                    if issubclass(cls, FAMILIES[kind]) and hasattr(cls, method):
                        return cls, method, kind
    return None


def _single(parameter: CParameter, place: int) -> Convert:
    """Return a function that converts a handle passed by value or by address."""
    family = FAMILIES[parameter.kind]
    if parameter.kind == "STATUS":
        return lambda child, given: read_status(child, given[place])
    if parameter.form == "p":
        return lambda child, given: child.handles.get(integers(child, given[place], 1, "q")[0], family)
    return lambda child, given: child.handles.get(given[place], family)


def _argument(parameters: list[CParameter], place: int) -> Convert:
    """Return a function that converts the argument at a place, with those that belong to it."""
    parameter = parameters[place]
    kind = parameter.kind
    if kind == "STATUS" and parameter.direction == "out":
        return lambda child, given: MPI.Status() if given[place] else None
    if kind in ("BUFFER", "C_BUFFER"):
        return _buffer(parameters, place)
    if parameter.form == "a":
        return _array(parameters, place)
    if kind in FAMILIES:
        return _single(parameter, place)
    if kind == "STRING":
        return lambda child, given: child.text(given[place])
    if kind.startswith("LOGICAL"):
        return lambda child, given: bool(given[place])
    if parameter.form == "p" and parameter.direction != "out":
        return lambda child, given: integers(child, given[place], 1, parameter.code)[0]
    return lambda child, given: given[place]


def _array(parameters: list[CParameter], place: int) -> Convert:
    """Return a function that reads an array whose length is another argument."""
    parameter = parameters[place]
    named = {each.name: i for i, each in enumerate(parameters)}
    counted = named.get(parameter.length)
    if counted is None:
        lengths = [i for i, each in enumerate(parameters) if each.kind.startswith(("ARRAY_LENGTH", "NUM_DIMS"))]
        counted = named.get("count", lengths[0] if lengths else 0)
    code = parameter.code
    if parameter.kind in FAMILIES:
        family = FAMILIES[parameter.kind]
        return lambda child, given: [
            child.handles.get(number, family) for number in integers(child, given[place], given[counted], "q")
        ]
    if parameter.kind.startswith("LOGICAL"):
        return lambda child, given: [*map(bool, integers(child, given[place], given[counted], code))]
    return lambda child, given: integers(child, given[place], given[counted], code)


def _buffer(parameters: list[CParameter], place: int) -> Convert:
    """Return a function that makes a message of a buffer and the count and type that follow it."""
    typed = next((i for i in range(place, len(parameters)) if parameters[i].kind == "DATATYPE"), None)
    if typed is None:
        return lambda child, given: given[place]
    counted = next((i for i in range(place, typed) if "NUM_ELEM" in parameters[i].kind), None)

    def convert(child: Child, given: tuple[int, ...]) -> Any:
        count = 1 if counted is None else given[counted]
        return elements(child, given[place], count, given[typed])

    return convert


def _target(parameters: list[CParameter], place: int) -> Convert:
    """Return a function that takes a displacement with the count and type that follow it, if any, as one argument."""
    if parameters[place + 1].name != "target_count":
        return _argument(parameters, place)
    return lambda child, given: (*given[place : place + 2], child.handles.get(given[place + 2], MPI.Datatype))


def elements(child: Child, address: int, count: int, datatype: int) -> Any:
    """Return a message in the program's memory, or `IN_PLACE`."""
    if address == 1:
        return MPI.IN_PLACE
    return RemoteElements(child, address, count, impl_of(child.handles.get(datatype, MPI.Datatype)))


def blocks(child: Child, address: int, counts: list[int], displacements: list[int], datatypes: list[Any]) -> Any:
    """Return blocks in the program's memory, displacements in bytes, or `IN_PLACE`."""
    if address == 1:
        return MPI.IN_PLACE
    return RemoteBlocks(
        child, counts, [address + each for each in displacements], [impl_of(each) for each in datatypes]
    )


def integers(child: Child, address: int, count: int, code: str) -> list[int]:
    """Return integers from the program's memory; `code` is that of `struct`."""
    if count <= 0 or not address:
        return []
    return [*struct.unpack(f"={count}{code}", child.read(address, count * struct.calcsize(code)))]


def write_integers(child: Child, address: int, values: Any, code: str) -> None:
    """Write integers to the program's memory."""
    values = [*values]
    if address and values:
        child.write(address, struct.pack(f"={len(values)}{code}", *values))


def _output(parameter: CParameter) -> Callable[[Child, int, Any], None]:
    """Return a function that writes a result to an address."""
    kind, code = parameter.kind, parameter.code
    if kind == "REQUEST" and parameter.direction == "out":
        return lambda child, address, value: write_integers(child, address, [_request_number(child, value)], "q")
    if kind in FAMILIES and kind != "STATUS":
        return write_handle
    if kind == "STRING":
        return write_text
    if parameter.form == "a":
        return lambda child, address, value: write_integers(child, address, map(int, value), code)
    return lambda child, address, value: write_integers(child, address, [int(value)], code)


def write_handle(child: Child, address: int, value: Any) -> None:
    """Write the number of a handle."""
    write_integers(child, address, [child.handles.number(value)], "q")


def _request_number(child: Child, request: Any) -> int:
    return child.handles.add(request) if request else null_number(MPI.Request)


def write_text(child: Child, address: int, value: str) -> None:
    """Write a string with a null character."""
    child.write(address, value.encode("utf-8", "surrogateescape") + b"\0")
