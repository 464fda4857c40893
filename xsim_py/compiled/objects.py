"""Datatypes, packing, groups, info objects, buffers for sends, and failures: functions that differ from the methods."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import external32
from xsim_py.mpi.datatype import Recipe, Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.failures import repair
from xsim_py.mpi.group import Members
from xsim_py.mpi.predefined import FORTRAN_ONLY
from xsim_py.mpi.transport.p2p import complete
from xsim_py.mpi4py import send_buffers
from xsim_py.mpi4py.commhandle import mailbox
from xsim_py.mpi4py.group import group_of
from xsim_py.mpi4py.handle import handle_of
from xsim_py.mpi4py.inside import comm_of, handler_owner_of, impl_of, live_impl, task_of
from xsim_py.mpi4py.request import Task

from .by_hand import MAKERS, MPI, Body, Given, by_hand, register
from .calls import bind, elements, integers, write_handle, write_integers
from .convert import CParameter, null_number

if TYPE_CHECKING:
    from .child import Child


def _is_large(parameters: list[CParameter]) -> bool:
    return any(each.ctype == "MPI_Count" for each in parameters)


def _codes(parameters: list[CParameter]) -> list[str]:
    return [each.code for each in parameters]


# ---------------------------------------------------------------------------------------------------------- datatypes

_CONSTRUCTORS = (
    "contiguous", "vector", "indexed", "create_hvector", "create_hindexed", "create_indexed_block",
    "create_hindexed_block", "create_struct", "create_subarray", "create_darray", "create_resized",
)  # fmt: skip
_AT_END = {c.COMBINER_HVECTOR: 1, c.COMBINER_RESIZED: 2}
"""How many of the last arguments are addresses, for a number that does not depend on the arguments."""


def _constructor(name: str, parameters: list[CParameter]) -> Body | None:
    """Return a constructor; a type made without large counts describes itself with integers and addresses."""
    body = bind(name, parameters)
    if body is None or _is_large(parameters):
        return body

    def construct(child: Child, given: Given) -> None:
        body(child, given)
        made: Type = impl_of(child.handles.get(integers(child, given[-1], 1, "q")[0], MPI.Datatype))
        made.recipe = _with_small_counts(made.recipe)

    return construct


def _with_small_counts(recipe: Recipe) -> Recipe:
    """Return the arguments of a constructor as integers and addresses (MPI 5.0, 5.1.13)."""
    head, counts = [*recipe.integers], [*recipe.counts]
    addresses: list[int] = []
    if recipe.combiner in (c.COMBINER_SUBARRAY, c.COMBINER_DARRAY):
        at = 1 if recipe.combiner == c.COMBINER_SUBARRAY else 3
        counts = head[:at] + counts + head[at:]
    else:
        of_count = recipe.combiner in (c.COMBINER_HINDEXED, c.COMBINER_STRUCT, c.COMBINER_HINDEXED_BLOCK)
        at = len(counts) - (counts[0] if of_count else _AT_END.get(recipe.combiner, 0))
        counts, addresses = counts[:at], counts[at:]
    return Recipe(recipe.combiner, recipe.params, integers=counts, addresses=addresses, types=recipe.types)


for _name in _CONSTRUCTORS:
    MAKERS[f"Type_{_name}"] = partial(_constructor, f"Type_{_name}")


def _parts(child: Child, number: int, *, large: bool) -> tuple[Recipe, list[Any]]:
    recipe: Recipe = live_impl(child.handles.get(number, MPI.Datatype)).recipe
    if recipe.counts and not large:
        fail(c.ERR_TYPE, "the datatype was made with large counts")
    return recipe, [recipe.integers, recipe.addresses, *((recipe.counts,) * large), recipe.types]


def _get_envelope(parameters: list[CParameter]) -> Body:
    codes, large = _codes(parameters), _is_large(parameters)

    def envelope(child: Child, given: Given) -> None:
        recipe, parts = _parts(child, given[0], large=large)
        for place, code, value in zip(given[1:], codes[1:], [*map(len, parts), recipe.combiner], strict=True):
            write_integers(child, place, [value], code)

    return envelope


def _get_contents(parameters: list[CParameter]) -> Body:
    codes, large = _codes(parameters), _is_large(parameters)

    def contents(child: Child, given: Given) -> None:
        recipe, parts = _parts(child, given[0], large=large)
        if recipe.combiner == c.COMBINER_NAMED:
            fail(c.ERR_TYPE, "a named datatype has no contents")
        n = len(parts)
        if any(len(part) > most for part, most in zip(parts, given[1:], strict=False)):
            fail(c.ERR_ARG, "the arrays are too short for the contents of the datatype")
        parts[-1] = [child.handles.number(handle_of(MPI.Datatype, each)) for each in parts[-1]]
        for part, place, code in zip(parts, given[n + 1 :], codes[n + 1 :], strict=True):
            write_integers(child, place, part, code)

    return contents


MAKERS["Type_get_envelope"] = _get_envelope
MAKERS["Type_get_contents"] = _get_contents


# ------------------------------------------------------------------------------------------------------------ packing


def _pack(is_external: bool, parameters: list[CParameter]) -> Body:
    code = parameters[-1 if is_external else -2].code

    def pack(child: Child, given: Given) -> None:
        name, given = (child.text(given[0]), given[1:]) if is_external else ("", given)
        source, count, datatype, target, size, place = given[:6]
        message = elements(child, source, count, datatype)
        data = message.pack()
        if is_external:
            data = external32.encode(name, message.datatype, data)
        (position,) = integers(child, place, 1, code)
        if position < 0 or position + len(data) > size:
            fail(c.ERR_ARG, f"packing needs bytes {position} to {position + len(data)} of a buffer of {size}")
        child.write(target + position, data)
        write_integers(child, place, [position + len(data)], code)

    return pack


def _unpack(is_external: bool, parameters: list[CParameter]) -> Body:
    code = parameters[3 if is_external else 2].code

    def unpack(child: Child, given: Given) -> None:
        name, given = (child.text(given[0]), given[1:]) if is_external else ("", given)
        source, size, place, target, count, datatype = given[:6]
        message = elements(child, target, count, datatype)
        core = message.datatype
        nbytes = count * (external32.size(name, core) if is_external else core.size)
        (position,) = integers(child, place, 1, code)
        if position < 0 or position + nbytes > size:
            fail(c.ERR_ARG, f"unpacking needs bytes {position} to {position + nbytes} of a buffer of {size}")
        data = bytes(child.read(source + position, nbytes))
        message.unpack(external32.decode(name, core, data) if is_external else data)
        write_integers(child, place, [position + nbytes], code)

    return unpack


for _suffix in ("", "_external"):
    MAKERS[f"Pack{_suffix}"] = partial(_pack, bool(_suffix))
    MAKERS[f"Unpack{_suffix}"] = partial(_unpack, bool(_suffix))


# ------------------------------------------------------------------------------------------------------------- groups


def _ranges(name: str, parameters: list[CParameter]) -> Body:
    def select(child: Child, given: Given) -> None:
        ranks = integers(child, given[2], 3 * given[1], "i")
        triplets = [*zip(ranks[::3], ranks[1::3], ranks[2::3], strict=True)]
        write_handle(child, given[3], getattr(child.handles.get(given[0], MPI.Group), name)(triplets))

    return select


MAKERS["Group_range_incl"] = partial(_ranges, "Range_incl")
MAKERS["Group_range_excl"] = partial(_ranges, "Range_excl")


# -------------------------------------------------------------------------------------------------------------- info


def _value(child: Child, given: Given) -> bytes | None:
    value = child.handles.get(given[0], MPI.Info).Get(child.text(given[1]))
    return None if value is None else value.encode("utf-8", "surrogateescape")


@by_hand
def Info_get(child: Child, given: Given) -> None:
    value = _value(child, given)
    if value is not None:
        child.write(given[3], value[: max(given[2], 0)] + b"\0")
    write_integers(child, given[4], [value is not None], "i")


@by_hand
def Info_get_string(child: Child, given: Given) -> None:
    value = _value(child, given)
    if value is not None:
        _write_cut(child, given[3], given[2], value)
    write_integers(child, given[4], [value is not None], "i")


def _write_cut(child: Child, address: int, size_address: int, text: bytes) -> None:
    """Write what fits of a text, whose size with a null character replaces that of its place."""
    (size,) = integers(child, size_address, 1, "i")
    if size > 0:
        child.write(address, text[: size - 1] + b"\0")
    write_integers(child, size_address, [len(text) + 1], "i")


@by_hand
def Info_get_valuelen(child: Child, given: Given) -> None:
    value = _value(child, given)
    if value is not None:
        write_integers(child, given[2], [len(value)], "i")
    write_integers(child, given[3], [value is not None], "i")


@by_hand
def Info_create_env(child: Child, given: Given) -> None:
    arguments = [child.text(address) for address in integers(child, given[1], given[0], "q")]
    write_handle(child, given[2], MPI.Info.Create_env(arguments))


@by_hand
def Session_get_nth_pset(child: Child, given: Given) -> None:
    session, info = child.handles.get(given[0], MPI.Session), child.handles.get(given[1], MPI.Info)
    _write_cut(child, given[4], given[3], session.Get_nth_pset(given[2], info).encode())


# -------------------------------------------------------------------------------------------------- memory, versions


@by_hand
def Abi_get_version(child: Child, given: Given) -> None:
    for place, number in zip(given, (1, 0), strict=True):
        write_integers(child, place, [number], "i")


@by_hand
def Abi_get_fortran_booleans(child: Child, given: Given) -> None:
    size, true, false, is_set = given
    code = {1: "b", 2: "h", 4: "i", 8: "q"}.get(size)
    if code is not None:
        write_integers(child, true, [1], code)
        write_integers(child, false, [0], code)
    write_integers(child, is_set, [code is not None], "i")


@by_hand
def Abi_get_fortran_info(child: Child, given: Given) -> None:
    info = MPI.Get_abi_fortran_info()
    for each in FORTRAN_ONLY.values():
        key = f"{each.name.lower()}_supported"
        if info.Get(key):
            info.Set(key, "true")
    write_handle(child, given[0], info)


def _too_late(child: Child, given: Given) -> None:
    fail(c.ERR_ABI, "the library knows the types of Fortran already")


register("Abi_set_fortran_booleans", _too_late)
register("Abi_set_fortran_info", _too_late)


def _attach(prefix: str, parameters: list[CParameter]) -> Body:
    def attach(child: Child, given: Given) -> None:
        owner = _buffer_owner(child, prefix, given)
        address, size = given[-2:]
        if address == 0:
            fail(c.ERR_BUFFER, "no buffer can be attached at the null address")
        send_buffers.attach(owner, (address, size), None if address == _AUTOMATIC else size)

    return attach


def _detach(prefix: str, parameters: list[CParameter]) -> Body:
    code = parameters[-1].code

    def detach(child: Child, given: Given) -> None:
        buffer: Any = send_buffers.detach(_buffer_owner(child, prefix, given), mailbox())
        address, size = buffer
        write_integers(child, given[-2], [address], "q")
        write_integers(child, given[-1], [0 if address == _AUTOMATIC else size], code)

    return detach


_AUTOMATIC = 2  # MPI_BUFFER_AUTOMATIC


def _buffer_owner(child: Child, prefix: str, given: Given) -> Any:
    if prefix == "Buffer":
        return send_buffers.process_owner(mailbox())
    return handler_owner_of(child.handles.get(given[0], MPI.Comm if prefix == "Comm" else MPI.Session))


for _prefix, _suffix in (("Buffer", ""), ("Comm", "_buffer"), ("Session", "_buffer")):
    MAKERS[f"{_prefix}_attach{_suffix}"] = partial(_attach, _prefix)
    MAKERS[f"{_prefix}_detach{_suffix}"] = partial(_detach, _prefix)


# ------------------------------------------------------------------------------------------------------------ failures


@by_hand
def Comm_agree(child: Child, given: Given) -> None:
    comm = comm_of(child.handles.get(given[0], MPI.Comm))
    call = repair.begin_agree(comm, integers(child, given[1], 1, "i")[0], "Comm.Agree")
    complete(call)
    write_integers(child, given[1], [repair.agreed_flag(call)], "i")
    repair.check_agreed(call)


@by_hand
def Comm_iagree(child: Child, given: Given) -> None:
    comm = comm_of(child.handles.get(given[0], MPI.Comm))
    call = repair.begin_agree(comm, integers(child, given[1], 1, "i")[0], "Comm.Iagree")

    def finish(_: object) -> None:
        write_integers(child, given[1], [repair.agreed_flag(call)], "i")
        repair.check_agreed(call)

    write_integers(child, given[2], [child.handles.add(handle_of(MPI.Request, Task(call, finish)))], "q")


@by_hand
def Comm_ishrink(child: Child, given: Given) -> None:
    made, request = child.handles.get(given[0], MPI.Comm).Ishrink()
    number = child.handles.add(made)
    task = task_of(request)
    shrink = task.finish

    def finish(result: object) -> None:
        shrink(result)
        handler = child.handles.later.pop(number, None)
        if handler is not None:
            made.Set_errhandler(handler)

    task.finish = finish
    write_integers(child, given[1], [number], "q")
    write_integers(child, given[2], [child.handles.add(request)], "q")


@by_hand
def Comm_set_errhandler(child: Child, given: Given) -> None:
    comm, handler = child.handles.get(given[0], MPI.Comm), child.handles.get(given[1], MPI.Errhandler)
    if comm or given[0] == null_number(MPI.Comm):
        comm.Set_errhandler(handler)
    else:
        child.handles.later[given[0]] = handler  # it is still being shrunk


@by_hand
def Comm_failure_get_acked(child: Child, given: Given) -> None:
    comm = comm_of(child.handles.get(given[0], MPI.Comm))
    write_handle(child, given[1], group_of(Members(tuple(comm.acknowledged_members()))))
