"""The functions of MPI as compiled programs call them, on the methods of `xsim_py.mpi4py.MPI`.

Most functions need no code: a C function and the method of mpi4py have one name and equal parameters, a buffer is
followed by its count and type, and what a method returns goes to the ``out`` parameters in order. `bind` does this
from the description of the function (``library/interface.txt``); the others are in `by_hand`.
"""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.errhandler import ARE_FATAL
from xsim_py.mpi4py.inside import comm_of, handler_owner_of, impl_of
from xsim_py.mpi4py.misplaced_calls import abort_misplaced
from xsim_py.mpi4py.phase import of_process_now
from xsim_py.process.ranks.meter import metered

from .build import SOURCES
from .by_hand import AHEAD, FIRST_SERVICE, HOT, MAKERS, MPI, SERVICES, Body, Function, Given, body_of
from .child import BadAddress, Child
from .convert import (
    CParameter,
    blocks_at,
    buffer_at,
    new_status,
    null_number,
    parameters_of,
    read_status,
    write_status,
)
from .page import QUEUED_CALL

if TYPE_CHECKING:
    from types import CodeType

Route: TypeAlias = "tuple[Callable[..., Any], tuple[CodeType, int], Function]"
Convert: TypeAlias = "Callable[[Child, Given], Any]"
Output: TypeAlias = "Callable[[Child, Given, Any], None]"

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

_PREFIXES = {family.__name__: kind for kind, family in FAMILIES.items()} | {"Type": "DATATYPE"}
_METHODS = {
    "Cart_coords": "Cartcomm.Get_coords",
    "Cart_create": "Intracomm.Create_cart",
    "Cart_get": "Cartcomm.Get_topo",
    "Cart_shift": "Cartcomm.Shift",
    "Cartdim_get": "Cartcomm.Get_dim",
    "Dist_graph_neighbors_count": "Distgraphcomm.Get_dist_neighbors_count",
    "Graph_get": "Graphcomm.Get_topo",
    "Graph_neighbors": "Graphcomm.Get_neighbors",
    "Graph_neighbors_count": "Graphcomm.Get_neighbors_count",
    "Graphdims_get": "Graphcomm.Get_dims",
    "Error_class": "Get_error_class",
    "Error_string": "Get_error_string",
    "Abi_get_info": "Get_abi_info",
    "Buffer_flush": "Flush_buffer",
    "Buffer_iflush": "Iflush_buffer",
    "Get_elements_x": "Status.Get_elements",
    "Imrecv": "Message.Irecv",
    "Intercomm_create": "Intracomm.Create_intercomm",
    "Intercomm_create_from_groups": "Intercomm.Create_from_groups",
    "Intercomm_merge": "Intercomm.Merge",
    "Mrecv": "Message.Recv",
    "Status_set_elements_x": "Status.Set_elements",
    "Test_cancelled": "Status.Is_cancelled",
    "Comm_test_inter": "Comm.Is_inter",
    "Comm_failure_ack": "Comm.Ack_failed",
    "Topo_test": "Comm.Get_topology",
    "Type_get_extent_x": "Datatype.Get_extent",
    "Type_get_true_extent_x": "Datatype.Get_true_extent",
    "Type_size_x": "Datatype.Get_size",
}
"""The methods and functions of other names."""

DEPRECATED = {
    "Attr_delete": "Comm_delete_attr",
    "Attr_get": "Comm_get_attr",
    "Attr_put": "Comm_set_attr",
    "Keyval_create": "Comm_create_keyval",
    "Keyval_free": "Comm_free_keyval",
}
"""Old names of functions (MPI 5.0, 17)."""

_ALIASES = {
    "assertion": ("assert",),
    "attrval": ("attribute_val",),
    "buf": ("buffer",),
    "comm": ("comm2",),
    "compare": ("compare_addr",),
    "count": ("incount",),
    "datatypes": ("array_of_types",),
    "error": ("err",),
    "group": ("group2",),
    "index": ("index_type",),
    "keyval": ("comm_keyval", "type_keyval", "win_keyval"),
    "name": ("comm_name", "type_name", "win_name"),
    "origin": ("origin_addr",),
    "partitions": ("array_of_partitions",),
    "ranks": ("ranks1",),
    "result": ("result_addr",),
    "target": ("target_disp",),
    "value": ("value_type",),
}
"""Parameters of methods, and their names in C."""

_DISPENSABLE = ("info", "items", "num_to_ack")
"""Parameters of methods that need no argument in C."""

_LARGE = 1 << 16
_AT = 2
"""The offset of an instruction that stands for a call, in the code of its place."""
_functions: tuple[dict[int, Function], dict[int, Function]] = {}, {}
"""By number, with tools and without."""
_metered = cache(metered)


@cache
def interface() -> list[tuple[str, str, str]]:
    """Return all functions, by number: name, and parameters with counts of both widths."""
    lines = (SOURCES / "interface.txt").read_text(encoding="utf-8").splitlines()[1:]
    return [(name, small, large) for name, small, large in (line.split("|") for line in lines)]


def call(child: Child, function: int, site: int) -> int | None:
    """Execute a call of a program, and return its result: an error code, or None for success."""
    found = child.routes.get((function, site))
    if found is None:
        found = child.routes[function, site] = route(child, function, site)
    through, child.place, body = found
    try:
        result: int | None = through(body, child)
    except errors.Exception as error:
        return failed(child, error, None)
    return result


def route(child: Child, function: int, site: int) -> Route:
    """Return the place of a call in the program, and what executes it."""
    table = _functions[child.is_plain]
    body = table.get(function)
    if body is None:
        body = table[function] = _made(function, is_plain=child.is_plain)
    through = child.places.at(site, child.pid)
    return through, (through.__code__, _AT), _metered(body) if child.is_timed else body


def _made(function: int, *, is_plain: bool) -> Function:
    number = function & 0xFFFF
    if number >= FIRST_SERVICE:
        return SERVICES[number - FIRST_SERVICE]
    name, small_rows, large_rows = interface()[number]
    short = name.removeprefix("MPI_")
    if function & QUEUED_CALL:
        return AHEAD[short]
    short = DEPRECATED.get(short, short)
    parameters = parameters_of(large_rows if function & _LARGE else small_rows)
    make = MAKERS.get(short, partial(bind, short))
    whole = _reporting(name, body_of(short) or make(parameters) or _refusal(name), parameters)
    if short.endswith("_set_errhandler"):
        return partial(_without_queue, whole)
    return HOT[short](whole) if is_plain and short in HOT else whole


def _without_queue(body: Function, child: Child) -> int | None:
    """Set an error handler: from now on the calls that the program would queue may return errors."""
    child.let_go_ahead(False)
    return body(child)


def _reporting(name: str, body: Body, parameters: list[CParameter]) -> Function:
    """Return a function that passes errors to the error handler, and returns their code."""
    count = len(parameters)
    owner = next((i for i, each in enumerate(parameters) if each.kind in _OWNERS and each.direction != "out"), None)
    is_misplaced = None if _ANY_TIME.fullmatch(name) else misplaced
    returns_error = not name.endswith("_call_errhandler")
    file_null = CParameter("", "FILE", "in", "", "v", ""), null_number(MPI.File)

    def function(child: Child) -> int:
        if is_misplaced is not None and not child.is_inside:
            is_misplaced(child)
        given = child.arguments(count)
        child.handled = 0
        try:
            return body(child, given) or (child.handled if returns_error else 0)
        except errors.Exception as error:
            problem = error
        except BadAddress as error:
            problem = errors.error(c.ERR_BUFFER, f"{name}: {error}")
        except AttributeError as error:
            code = c.ERR_TOPOLOGY if _OF_TOPOLOGY.match(name) or "topo" in str(error) else c.ERR_COMM
            problem = errors.error(code, f"{name}: {error}")
        except (TypeError, ValueError, LookupError, BufferError, ArithmeticError) as error:
            problem = errors.error(c.ERR_ARG, f"{name}: {error}")
        if name in _WITHOUT_FILE:
            return failed(child, problem, file_null)
        return failed(child, problem, None if owner is None else (parameters[owner], given[owner]))

    return function


def failed(child: Child, error: errors.Exception, about: tuple[CParameter, int] | None) -> int:
    """Call the error handler, if no other has seen the error (MPI 5.0, 9.3); return the code.

    It is the handler of the object that the call is about, or else that of COMM_SELF. A program for MPI before 4.0 sets
    that of COMM_WORLD instead; like MPICH, use it if that of COMM_SELF is fatal.
    """
    owner = comm_of(MPI.COMM_SELF)
    if owner.errhandler is not None and owner.errhandler.handler is ARE_FATAL:
        world = comm_of(MPI.COMM_WORLD)
        if world.errhandler is None or world.errhandler.handler is not ARE_FATAL:
            owner = world
    if about is not None:
        parameter, value = about
        number = integers(child, value, 1, "q")[0] if parameter.form == "p" else value
        with suppress(errors.Exception):
            owner = handler_owner_of(child.handles.get(number, FAMILIES[parameter.kind]))
    owner.report(error)
    return error.Get_error_code()


def misplaced(child: Child) -> None:
    """End the job because of a call outside MPI_Init and MPI_Finalize, unless the process has had a session."""
    if not of_process_now().has_session:
        abort_misplaced("after MPI_Finalize" if child.finalized else "before MPI_Init")


_OWNERS = ("COMMUNICATOR", "WINDOW", "FILE", "SESSION")
"""The kinds of objects that have an error handler."""

_WITHOUT_FILE = ("MPI_File_open", "MPI_File_delete", "MPI_Register_datarep")
"""The functions whose errors go to the handler of MPI_FILE_NULL (MPI 5.0, 14.7)."""

_ANY_TIME = re.compile(
    "MPI_(Abi_|Add_error|Remove_error|Error_|Errhandler_|Finalized|Get_hw|Get_library|Get_version|Info_|Init|Session_|"
    "Wtime|Pcontrol).*"
)
"""The functions that may be called before MPI_Init and after MPI_Finalize (MPI 5.0, 11.4.1)."""


_OF_TOPOLOGY = re.compile("MPI_(Cart|Graph|Dist_graph)")


def _refusal(name: str) -> Body:
    def function(child: Child, given: Given) -> None:
        errors.fail(c.ERR_UNSUPPORTED_OPERATION, f"xsim_py does not have {name} for compiled programs")

    return function


# -------------------------------------------------------------------------------------------------------- conversion


def bind(name: str, parameters: list[CParameter]) -> Body | None:
    """Return a function that calls the method of the same name; None if there is none with equal parameters."""
    found = _method(name, parameters)
    if found is None:
        return None
    owner, method, kind = found
    places = {each.name: i for i, each in enumerate(parameters)}
    used: set[str] = set()
    converts: list[Convert] = []
    declared = [*inspect.signature(getattr(owner, method)).parameters]
    own = None
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
        aliases = (each, *_ALIASES.get(each, ()), f"array_of_{each}")
        names = [alias for alias in aliases if alias in places and alias not in used]
        if not names:
            if each in _DISPENSABLE and each == declared[-1]:
                continue
            return None
        used.add(names[0])
        make = _target if each == "target" else _argument
        converts.append(make(parameters, places[names[0]]))
    status = next((i for i, each in enumerate(parameters) if each.kind == "STATUS" and each.direction == "out"), None)
    changes = own is not None and parameters[own].direction == "inout"
    outputs = _outputs(parameters, used)
    if own is not None and changes and kind == "STATUS":
        return _setting(method, converts, own)
    function = _calling(method, converts, outputs, status)
    return _freeing(function, own, method, kind) if own is not None and changes else function


def _setting(method: str, converts: list[Convert], own: int) -> Body:
    """Return a function that changes the status at an address."""
    first, *rest = converts

    def function(child: Child, given: Given) -> None:
        status = first(child, given)
        getattr(status, method)(*[convert(child, given) for convert in rest])
        write_status(child, given[own], status)

    return function


def _calling(method: str, converts: list[Convert], outputs: list[Output], status: int | None) -> Body:
    first, *rest = converts

    def function(child: Child, given: Given) -> None:
        values = [convert(child, given) for convert in rest]
        result = getattr(first(child, given), method)(*values)
        if status is not None and given[status] and result is not False:
            write_status(child, given[status], next(each for each in values if isinstance(each, MPI.Status)))
        if child.handled:
            return
        if len(outputs) == 1:
            outputs[0](child, given, result)
        elif outputs:
            for write, value in zip(outputs, result, strict=True):
                write(child, given, value)

    return function


_FREEING = ("Free", "Disconnect", "Finalize", "Close", "Recv", "Irecv")
"""The methods after which a handle is null, predefined ones (errors are returned, a message of no process) included."""


def _freeing(function: Body, own: int, method: str, kind: str) -> Body:
    """Return a function after which the program's handle is null, if the method has made it so."""
    family = FAMILIES[kind]

    def freeing(child: Child, given: Given) -> None:
        (number,) = integers(child, given[own], 1, "q")
        handle = child.handles.get(number, family)
        impl = impl_of(handle)
        if method == "Free" and child.handles.is_shared(impl):
            child.handles.drop(number, impl)
            write_integers(child, given[own], [null_number(family)], "q")
            return
        is_freed = False
        try:
            function(child, given)
            is_freed = method in _FREEING
        finally:
            if is_freed or not handle:
                child.handles.drop(number, impl)
                write_integers(child, given[own], [null_number(family)], "q")

    return freeing


def _method(name: str, parameters: list[CParameter]) -> tuple[Any, str, str] | None:
    """Return the class and the method for a C function, and the kind of handle to which it belongs."""
    head, _, rest = name.partition("_")
    if name in _METHODS:
        family, _, method = _METHODS[name].rpartition(".")
        cls = getattr(MPI, family) if family else MPI
        return cls, method, next((kind for kind, base in FAMILIES.items() if family and issubclass(cls, base)), "")
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
    return (MPI, name, "") if inspect.isroutine(getattr(MPI, name, None)) else None


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
        return lambda child, given: new_status() if given[place] else None
    if kind in ("BUFFER", "C_BUFFER"):
        return _buffer(parameters, place)
    if kind == "STRING":
        return lambda child, given: child.text(given[place])
    if parameter.form == "a":
        return _array(parameters, place)
    if kind in FAMILIES:
        return _single(parameter, place)
    if kind.startswith("LOGICAL"):
        return lambda child, given: bool(given[place])
    if parameter.form == "p" and parameter.direction == "inout":
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
    if typed is None:  # the end of a split collective
        return lambda child, given: buffer_at(child, given[place], 0, impl_of(MPI.BYTE))
    counted = next((i for i in range(place, typed) if "NUM_ELEM" in parameters[i].kind), None)

    def convert(child: Child, given: Given) -> Any:
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
    kind = child.handles.get(datatype, MPI.Datatype)
    if not count and not kind:
        kind = MPI.BYTE  # MPICH and Open MPI look at the type of elements only
    return buffer_at(child, address, count, impl_of(kind))


def blocks(child: Child, address: int, counts: list[int], displacements: list[int], datatypes: list[Any]) -> Any:
    """Return blocks in the program's memory, displacements in bytes, or `IN_PLACE`."""
    if address == 1:
        return MPI.IN_PLACE
    return blocks_at(child, counts, [address + each for each in displacements], [impl_of(each) for each in datatypes])


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


def _outputs(parameters: list[CParameter], used: set[str]) -> list[Output]:
    """Return functions that write the results of a method, in order."""
    found: list[Output] = []
    for i, each in enumerate(parameters):
        is_given = each.name in used and (each.kind in FAMILIES or each.form == "a" or each.direction == "in")
        if each.direction == "in" or is_given or each.kind in ("STATUS", "BUFFER"):
            continue
        if each.kind == "STRING_LENGTH" and i and parameters[i - 1].kind == "STRING":
            found[-1] = partial(_write_text_and_length, i)
        else:
            found.append(_output(parameters, i))
    return found


def _output(parameters: list[CParameter], place: int) -> Output:
    """Return a function that writes a result to the address given at a place."""
    parameter = parameters[place]
    kind, code = parameter.kind, parameter.code
    if kind == "REQUEST":
        return lambda child, given, value: write_integers(child, given[place], [_request_number(child, value)], "q")
    if kind in FAMILIES and kind != "STATUS":
        return lambda child, given, value: write_handle(child, given[place], value)
    if kind == "STRING":
        return lambda child, given, value: write_text(child, given[place], value)
    if parameter.form == "a":
        most = next((i for i, each in enumerate(parameters) if each.name == parameter.length), None)
        return lambda child, given, value: write_integers(
            child, given[place], [*map(int, value)][: None if most is None else max(given[most], 0)], code
        )
    return lambda child, given, value: write_integers(child, given[place], [_fitting(int(value), code)], code)


def _fitting(value: int, code: str) -> int:
    """Return a result, or MPI_UNDEFINED if it is too large for its type."""
    return value if code != "i" or -(2**31) <= value < 2**31 else c.UNDEFINED


def _write_text_and_length(place: int, child: Child, given: Given, value: str) -> None:
    """Write a text to the address before a place, and its length to that at the place."""
    write_text(child, given[place - 1], value)
    write_integers(child, given[place], [len(value.encode("utf-8", "surrogateescape"))], "i")


def write_handle(child: Child, address: int, value: Any) -> None:
    """Write the number of a handle."""
    write_integers(child, address, [child.handles.number(value)], "q")


def _request_number(child: Child, request: Any) -> int:
    return child.handles.add(request) if request else null_number(MPI.Request)


def write_text(child: Child, address: int, value: str) -> None:
    """Write a string with a null character."""
    child.write(address, value.encode("utf-8", "surrogateescape") + b"\0")
