"""Write the generated files of the Fortran binding: its entry points in C, ``mpif.h`` and the source of the modules.

A procedure of Fortran is a C function of the same name in lower case with an underscore: all arguments come by
address, strings with hidden lengths. The three interfaces share it: a handle of ``mpi_f08`` is a type of one integer,
an absent ``ierror`` the null address, and choice arguments are passed without a check of their type.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from tests.compiled.generate import _HANDLES, _NOTE, _ULFM, _constants, _handles

_BY_HAND = re.compile("MPI_((Comm|Type|Win)_(create_keyval|get_attr)|Attr_get|Keyval_create|Grequest_start)")
"""Procedures in ``library/fortran.c``."""

_COUNTED_FROM_ONE = re.compile("MPI_((Wait|Test)(any|some)|Request_get_status_(any|some))")
_STRINGS = ("STRING", "STRING_ARRAY", "STRING_2DARRAY")
_TKR = ("!GCC$ ATTRIBUTES NO_ARG_CHECK :: {0}", "!DIR$ IGNORE_TKR {0}")
_IN_COMMON = {
    "MPI_BOTTOM": "", "MPI_IN_PLACE": "", "MPI_BUFFER_AUTOMATIC": "", "MPI_UNWEIGHTED": "(1)",
    "MPI_WEIGHTS_EMPTY": "(1)", "MPI_ERRCODES_IGNORE": "(1)", "MPI_ARGV_NULL": "(1)", "MPI_ARGVS_NULL": "(1,1)",
    "MPI_STATUS_IGNORE": "(MPI_STATUS_SIZE)", "MPI_STATUSES_IGNORE": "(MPI_STATUS_SIZE,1)",
}  # fmt: skip
_PREDEFINED_FUNCTIONS = {
    f"MPI_{kind}_{name}_FN": f"MPI_{kind.capitalize()}_{what}_attr_function"
    for kind in ("COMM", "TYPE", "WIN")
    for name, what in (("DUP", "copy"), ("NULL_COPY", "copy"), ("NULL_DELETE", "delete"))
}
_OLD_FUNCTIONS = ("MPI_DUP_FN", "MPI_NULL_COPY_FN", "MPI_NULL_DELETE_FN", "MPI_CONVERSION_FN_NULL")
_OF_C_ONLY = ("ABI_VERSION", "ABI_SUBVERSION", "DISPLACEMENT_CURRENT")
_KINDS = {"MPI_ADDRESS_KIND": 8, "MPI_COUNT_KIND": 8, "MPI_OFFSET_KIND": 8, "MPI_INTEGER_KIND": 4}


def texts() -> dict[str, str]:
    """Return the generated files by name."""
    return {"fortran_calls.c": calls(), "include/mpif.h": mpif(), "mpi.f90": modules()}


def procedures() -> Iterator[tuple[Any, Any, Any, bool]]:
    """Yield C, Fortran 90 and Fortran 2008 forms of each procedure, with small and with large counts."""
    import pympistandard as standard

    if not standard.PROCEDURES:
        standard.use_api_version(1)
    for _, each in sorted(standard.PROCEDURES.items()):
        if each.express.f90 is not None and each.express.iso_c is not None:
            yield each.express.iso_c, each.express.f90, each.express.f08, False
            if each.has_embiggenment():
                large = each.express.embiggen
                yield large.iso_c, None, large.f08 if _types(large.f08) != _types(each.express.f08) else None, True


def _types(f08: Any) -> list[str]:
    """Return the types of parameters; those of addresses and counts are one."""
    return [each.type.replace("COUNT", "ADDRESS") for each in f08.parameters]


# ----------------------------------------------------------------------------------------------- entry points in C


def calls() -> str:
    """Return the text of ``fortran_calls.c``."""
    lines = [f"/* The entry points of Fortran. {_NOTE} */", '#include "fortran.h"', '#include "mpi-ext.h"']
    for c, f90, f08, _ in procedures():
        if not _BY_HAND.fullmatch(c.name) and (f90 or f08):
            given = {each.name.lower() for each in (f90 or f08).parameters}
            parameters = [(each, each.name in given) for each in c.parameters if each.kind.name != "VARARGS"]
            lines += _entry(c.name, str(c.return_type), parameters, has_error="ierror" in given)
            if any(each.kind.name == "C_BUFFER2" for each in c.parameters):
                lines += _entry(c.name, "int", parameters, has_error=True, suffix="_f08")
    for name, text in _ULFM.items():
        parameters = [(_Plain(*each.rsplit(" ", 1)), True) for each in text.split(", ")]
        for prefix in ("MPI_", "MPIX_"):
            lines += _entry(prefix + name, "int", parameters, has_error=True)
    return "\n".join([*lines, ""])


class _Plain:
    """A parameter of a function that the standard does not have."""

    def __init__(self, ctype: str, name: str) -> None:
        self.type, self.name, self.array = ctype, name, False
        self.kind = type("kind", (), {"name": "COMMUNICATOR" if "Comm" in ctype else "INDEX"})
        self.direction = type("direction", (), {"name": "OUT" if "*" in ctype else "IN"})


def _entry(
    function: str, returns: str, parameters: list[tuple[Any, bool]], *, has_error: bool, suffix: str = ""
) -> list[str]:
    """Return an entry point: declarations, the call, and what is copied back."""
    prefix, _, short = function.partition("_")
    before, after, given = [], [], []
    declared = [_declared(each) for each, is_there in parameters if is_there]
    lengths = [f"size_t {each.name}_length" for each, is_there in parameters if is_there and each.kind.name in _STRINGS]
    for each, is_there in parameters:
        first, argument, last = _converted(function, each, suffix) if is_there else ("", "0", "")
        before += [first] * bool(first)
        after += [last] * bool(last)
        given.append(argument)
    call = f"P{function.replace('MPIX_', 'MPI_')}({', '.join(given)})"
    macro = "FORTRAN" if prefix == "MPI" else "FORTRAN_MPIX"
    if returns != "int":
        body = f"return AT({call});"
    else:
        body = f"CALL({call});" if has_error else f"AT({call});"
        returns = "void"
    taken = [*declared, *["int *ierror"] * has_error, *lengths]
    head = f"{macro}({returns}, {short.lower()}{suffix}, ({', '.join(taken) or 'void'})) {{"
    return [head, *(f"  {line}" for line in (*before, body, *after)), "}"]


def _declared(each: Any) -> str:
    """Return the declaration of a parameter as Fortran passes it."""
    ctype = each.type.rstrip("*")
    if "FUNCTION" in each.kind.name or each.kind.name in ("BUFFER", "C_BUFFER", "C_BUFFER2", "LOGICAL_VOID"):
        return f"void *{each.name}"
    if ctype.removeprefix("MPI_") in (*_HANDLES, "Status", "F08_status"):
        ctype = "int"
    if ctype == "void":
        ctype = "int" if each.kind.name.endswith("_10") else "MPI_Aint"
    return f"{ctype} *{each.name}"


def _converted(function: str, each: Any, suffix: str) -> tuple[str, str, str]:
    """Return what to do with a parameter before the call, the argument of C, and what to do after the call."""
    name, kind, direction = each.name, each.kind.name, each.direction.name
    handle = each.type.rstrip("*").removeprefix("MPI_")
    if handle in _HANDLES:
        if each.array:
            length = _length(function, each)
            after = f"NUMBERS({name}, {length});" if direction != "IN" else ""
            return f"HANDLES({handle}, {name}, {length});", f"c_{name}", after
        if each.type.endswith("*"):
            return f"HANDLE({handle}, {name});", f"&c_{name}", f"NUMBER({name});"
        return "", f"TO({handle}, *{name})", ""
    if kind == "STATUS":
        return "", f"xsim_status({name})", ""
    if kind in ("BUFFER", "WEIGHT") or (kind == "ERROR_CODE" and each.array):
        return "", f"xsim_address({name})", ""
    if kind == "C_BUFFER2":
        return "", name if suffix else "&(void *){0}", ""
    if kind in _STRINGS:
        return _string(function, each)
    if direction == "INOUT" and kind in ("STRING_LENGTH", "INFO_VALUE_LENGTH"):
        return f"int c_{name} = *{name} > 0 ? *{name} + 1 : 0;", f"&c_{name}", f"*{name} = c_{name} - (c_{name} > 0);"
    if _COUNTED_FROM_ONE.fullmatch(function) and kind == "INDEX":
        return "", name, f"xsim_from_one({name}, {'*outcount' if each.array else '1'});"
    if kind.startswith(("ATTRIBUTE_VAL", "EXTRA_STATE")):
        return "", f"(void *)(MPI_Aint)*{name}", ""
    if each.array or each.type.endswith("*") or kind == "LOGICAL_VOID":
        return "", f"(void *){name}" if "status" in each.type.lower() or name == "ranges" else name, ""
    return "", f"*{name} != 0" if kind == "LOGICAL" else f"*{name}", ""


def _length(function: str, each: Any) -> str:
    """Return the number of handles in an array."""
    length = each._parseset["length"]  # the public interface lacks it
    if length != "*":
        return f"*{length}"
    side = each.name.removesuffix("types")
    kind = "GROUP" if "eighbor" not in function else "SOURCES" if side == "recv" else "DESTINATIONS"
    return f"xsim_peers({side}buf, *comm, {kind})"


def _string(function: str, each: Any) -> tuple[str, str, str]:
    name = each.name
    if each.kind.name == "STRING_2DARRAY":
        return "", f"xsim_rows({name}, {name}_length, *count)", ""
    if each.kind.name == "STRING_ARRAY":
        return "", f"xsim_words({name}, {name}_length, 1, {'*count' if 'array_of' in name else '-1'})", ""
    if each.direction.name == "IN":
        trimmed = "xsim_stripped" if function.startswith("MPI_Info") else "xsim_text"
        return f"char *c_{name} = {trimmed}(alloca({name}_length + 1), {name}, {name}_length);", f"c_{name}", ""
    return f"TEXT({name});", f"c_{name}", f"xsim_padded({name}, {name}_length, c_{name});"


# ------------------------------------------------------------------------------------------------- mpif.h, modules


def _integers() -> Iterator[tuple[str, int]]:
    """Yield the constants that are integers, with the values of Fortran."""
    yield from _KINDS.items()
    yield from (("MPI_VERSION", 5), ("MPI_SUBVERSION", 0), ("MPI_ABI_VERSION", 1), ("MPI_ABI_SUBVERSION", 0))
    yield from (("MPI_STATUS_SIZE", 8), ("MPI_SOURCE", 1), ("MPI_TAG", 2), ("MPI_ERROR", 3))
    for name, value in _constants():
        if name not in _OF_C_ONLY:
            yield f"MPI_{name}", value - name.startswith("MAX_")  # without the null character of C


def _displacement() -> int:
    return dict(_constants())["DISPLACEMENT_CURRENT"]


def mpif() -> str:
    """Return the text of ``mpif.h``, for fixed and for free form."""
    lines = [f"! {_NOTE}"]

    def constant(ctype: str, name: str, value: object) -> None:
        lines.extend((f"{ctype} {name}", f"parameter ({name}={value})"))

    for name, value in (*_integers(), *((name, number) for name, _, number in _handles())):
        constant("integer", name, value)
    constant(f"integer*{_KINDS['MPI_OFFSET_KIND']}", "MPI_DISPLACEMENT_CURRENT", f"{_displacement()}_8")
    for name in ("MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"):
        constant("logical", name, ".false.")
    for name, shape in _IN_COMMON.items():
        ctype = "character*1" if "ARGV" in name else "integer"
        lines += [f"{ctype} {name}{shape}", f"common /{_symbol(name)}/ {name}"]
    for prefix in ("MPI", "PMPI"):
        for ctype, function in (("double precision", "WTIME"), ("double precision", "WTICK"),
                                ("integer*8", "AINT_ADD"), ("integer*8", "AINT_DIFF")):  # fmt: skip
            lines += [f"{ctype} {prefix}_{function}", f"external {prefix}_{function}"]
    lines += [f"external {name}" for name in (*_PREDEFINED_FUNCTIONS, *_OLD_FUNCTIONS)]
    return "\n".join([lines[0], *(f"      {line}" for line in lines[1:]), ""])


def _symbol(name: str) -> str:
    return "xsim_" + name.removeprefix("MPI_").lower()


def _variable(ctype: str, name: str, shape: str, suffix: str = "") -> str:
    """Return the declaration of a variable of the library: that of the common block, or a twin of it."""
    return f'{ctype}, bind(C, name="{_symbol(name)}{suffix}_") :: {name}{shape}'


def modules() -> str:
    """Return the source of the modules ``mpi`` and ``mpi_f08``."""
    lines = [f"! {_NOTE}", "module xsim_mpi", "use, intrinsic :: iso_c_binding, only: c_char, c_ptr", "implicit none"]
    lines += [f"integer, parameter :: {name} = {value}" for name, value in _integers()]
    lines.append(f"integer(MPI_OFFSET_KIND), parameter :: MPI_DISPLACEMENT_CURRENT = {_displacement()}")
    lines.append("logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .false., MPI_ASYNC_PROTECTS_NONBLOCKING = .false.")
    for kind in _HANDLES:
        lines += [f"type, bind(C) :: MPI_{kind}", "integer :: MPI_VAL", "end type"]
    lines += ["type, bind(C) :: MPI_Status", "integer :: MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal(5)", "end type"]
    for name, shape in _IN_COMMON.items():
        if "STATUS" not in name:
            ctype = "character(kind=c_char)" if "ARGV" in name else "integer"
            lines.append(_variable(ctype, name, shape))
    lines += ["end module", "", "module mpi", "use xsim_mpi", "implicit none"]
    lines += [f"integer, parameter :: {name} = {number}" for name, _, number in _handles()]
    lines += [_variable("integer", name, shape) for name, shape in _IN_COMMON.items() if "STATUS" in name]
    lines += [f"external :: {name}" for name in (*_PREDEFINED_FUNCTIONS, *_OLD_FUNCTIONS)]
    lines.append("interface")
    for c, f90, _, _ in procedures():
        if f90 is not None:
            lines += _interface(str(f90), _choices(c))
    lines += [
        "end interface",
        "end module",
        "",
        "module mpi_f08",
        "use xsim_mpi",
        "implicit none",
        *_f08(),
        "end module",
    ]
    return "\n".join([*_short(lines), ""])


def _choices(c: Any) -> list[str]:
    """Return the parameters of any type."""
    return [each.name for each in c.parameters if each.kind.name in ("BUFFER", "C_BUFFER", "C_BUFFER2")]


def _f08() -> Iterator[str]:
    """Yield the statements of the module ``mpi_f08``."""
    import pympistandard as standard

    every = [each for each in procedures() if each[2] is not None]
    yield from (f"type(MPI_{kind}), parameter :: {name} = MPI_{kind}({number})" for name, kind, number in _handles())
    for name, shape in (("MPI_STATUS_IGNORE", ""), ("MPI_STATUSES_IGNORE", "(1)")):
        yield _variable("type(MPI_Status)", name, shape, "_f08")
    for operator, name in (("==", "eq"), ("/=", "ne")):
        yield f"interface operator({operator})"
        for kind in _HANDLES:
            yield from (f"logical function xsim_{kind}_{name}(a, b)", "import", f"type(MPI_{kind}), intent(in) :: a, b")
            yield "end function"
        yield "end interface"
    yield "abstract interface"
    for callback in standard.CALLBACKS.values():
        for express in (callback.express, callback.express.embiggen if callback.has_embiggenment() else None):
            if express is not None and express.f08 is not None:
                yield from _interface(str(express.f08).partition("\n")[2], [])
    yield "end interface"
    yield from (f"procedure({interface}) :: {name}" for name, interface in _PREDEFINED_FUNCTIONS.items())
    for place, (c, _, f08, is_large) in enumerate(every):
        is_alone = is_large and f08.name.endswith("_c")
        if is_alone or not is_large:
            yield f"interface {f08.name}"
        text = str(f08).replace(f08.name, c.name, 1)
        if any(each.kind.name == "C_BUFFER2" for each in c.parameters):
            text = text.replace(c.name, f"{c.name}_f08", 1)
        yield from _interface(text, [each for each in _choices(c) if "C_PTR" not in text])
        following = every[place + 1 : place + 2]
        if is_alone or not following or not following[0][3] or following[0][2].name.endswith("_c"):
            yield "end interface"


def _interface(text: str, choices: list[str]) -> list[str]:
    """Return the interface body of a procedure."""
    head, *declared = (line.strip() for line in text.strip().splitlines())
    found = re.fullmatch(r"(.* )?(\w+)(\(.*\))", head)
    assert found is not None, head
    what = "function" if found[1] else "subroutine"
    lines = [f"{found[1] or ''}{what} {found[2]}{found[3]}"]
    uses = [line for line in declared if line.startswith("USE")]
    lines += [*uses, "import", "implicit none"]
    for each in choices:
        lines += [line.format(each) for line in _TKR]
    if "<type>" in text or "BASEPTR" in text:
        lines += [f"type(*), dimension(*) :: {each}" for each in choices]
    for line in declared:
        line = re.sub(r"^\S+ BASEPTR$|, BASEPTR", "", line.replace("DIMENSION(..)", "DIMENSION(*)"))
        line = re.sub(r"CHARACTER(\*\(\*\)|\(LEN=\w+\))", "CHARACTER(LEN=*)", line)
        lines += [line] * (line not in ("", *uses) and not line.startswith("<type>"))
    return [*lines, f"end {what}"]


def _short(lines: list[str]) -> Iterator[str]:
    """Yield lines that fit into free form."""
    for line in lines:
        parts = textwrap.wrap(line, 120, break_long_words=False) or [""]
        yield " &\n  ".join(parts)
