"""Error classes, codes and strings, and the exception that carries one: `MPI.Exception`.

An error *class* is one of the constants or was added by `add_error_class`; an error *code* belongs to a class and may
be more specific. Additions of a program are private to its process (see `per_process`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NoReturn

from xsim_py.mpi import constants as c
from xsim_py.mpi.per_process import of_process

STRINGS: dict[int, str] = {
    c.SUCCESS: "MPI_SUCCESS: no error",
    c.ERR_BUFFER: "MPI_ERR_BUFFER: invalid buffer",
    c.ERR_COUNT: "MPI_ERR_COUNT: invalid count",
    c.ERR_TYPE: "MPI_ERR_TYPE: invalid datatype",
    c.ERR_TAG: "MPI_ERR_TAG: invalid tag",
    c.ERR_COMM: "MPI_ERR_COMM: invalid communicator",
    c.ERR_RANK: "MPI_ERR_RANK: invalid rank",
    c.ERR_REQUEST: "MPI_ERR_REQUEST: invalid request",
    c.ERR_ROOT: "MPI_ERR_ROOT: invalid root",
    c.ERR_GROUP: "MPI_ERR_GROUP: invalid group",
    c.ERR_OP: "MPI_ERR_OP: invalid operation",
    c.ERR_TOPOLOGY: "MPI_ERR_TOPOLOGY: invalid topology",
    c.ERR_DIMS: "MPI_ERR_DIMS: invalid dimensions",
    c.ERR_ARG: "MPI_ERR_ARG: invalid argument",
    c.ERR_UNKNOWN: "MPI_ERR_UNKNOWN: unknown error",
    c.ERR_TRUNCATE: "MPI_ERR_TRUNCATE: message longer than the receive buffer",
    c.ERR_OTHER: "MPI_ERR_OTHER: another known error",
    c.ERR_INTERN: "MPI_ERR_INTERN: internal error",
    c.ERR_PENDING: "MPI_ERR_PENDING: request still pending",
    c.ERR_IN_STATUS: "MPI_ERR_IN_STATUS: the error code is in the status",
    c.ERR_ACCESS: "MPI_ERR_ACCESS: permission denied",
    c.ERR_AMODE: "MPI_ERR_AMODE: invalid access mode",
    c.ERR_ASSERT: "MPI_ERR_ASSERT: invalid assertion",
    c.ERR_BAD_FILE: "MPI_ERR_BAD_FILE: invalid file name",
    c.ERR_BASE: "MPI_ERR_BASE: invalid base address",
    c.ERR_CONVERSION: "MPI_ERR_CONVERSION: a data conversion function failed",
    c.ERR_DISP: "MPI_ERR_DISP: invalid displacement",
    c.ERR_DUP_DATAREP: "MPI_ERR_DUP_DATAREP: data representation already registered",
    c.ERR_FILE_EXISTS: "MPI_ERR_FILE_EXISTS: file exists",
    c.ERR_FILE_IN_USE: "MPI_ERR_FILE_IN_USE: file is in use",
    c.ERR_FILE: "MPI_ERR_FILE: invalid file handle",
    c.ERR_INFO_KEY: "MPI_ERR_INFO_KEY: invalid info key",
    c.ERR_INFO_NOKEY: "MPI_ERR_INFO_NOKEY: no such info key",
    c.ERR_INFO_VALUE: "MPI_ERR_INFO_VALUE: invalid info value",
    c.ERR_INFO: "MPI_ERR_INFO: invalid info object",
    c.ERR_IO: "MPI_ERR_IO: input or output failed",
    c.ERR_KEYVAL: "MPI_ERR_KEYVAL: invalid attribute key",
    c.ERR_LOCKTYPE: "MPI_ERR_LOCKTYPE: invalid lock type",
    c.ERR_NAME: "MPI_ERR_NAME: service name not published",
    c.ERR_NO_MEM: "MPI_ERR_NO_MEM: out of memory",
    c.ERR_NOT_SAME: "MPI_ERR_NOT_SAME: arguments differ between processes",
    c.ERR_NO_SPACE: "MPI_ERR_NO_SPACE: no space left",
    c.ERR_NO_SUCH_FILE: "MPI_ERR_NO_SUCH_FILE: no such file",
    c.ERR_PORT: "MPI_ERR_PORT: invalid port name",
    c.ERR_QUOTA: "MPI_ERR_QUOTA: quota exceeded",
    c.ERR_READ_ONLY: "MPI_ERR_READ_ONLY: read-only file or file system",
    c.ERR_RMA_ATTACH: "MPI_ERR_RMA_ATTACH: memory cannot be attached",
    c.ERR_RMA_CONFLICT: "MPI_ERR_RMA_CONFLICT: conflicting accesses to a window",
    c.ERR_RMA_RANGE: "MPI_ERR_RMA_RANGE: memory outside the window",
    c.ERR_RMA_SHARED: "MPI_ERR_RMA_SHARED: memory cannot be shared",
    c.ERR_RMA_SYNC: "MPI_ERR_RMA_SYNC: wrong synchronisation of window accesses",
    c.ERR_SERVICE: "MPI_ERR_SERVICE: invalid service name",
    c.ERR_SIZE: "MPI_ERR_SIZE: invalid size",
    c.ERR_SPAWN: "MPI_ERR_SPAWN: processes could not be started",
    c.ERR_UNSUPPORTED_DATAREP: "MPI_ERR_UNSUPPORTED_DATAREP: unsupported data representation",
    c.ERR_UNSUPPORTED_OPERATION: "MPI_ERR_UNSUPPORTED_OPERATION: unsupported operation",
    c.ERR_WIN: "MPI_ERR_WIN: invalid window",
    c.ERR_RMA_FLAVOR: "MPI_ERR_RMA_FLAVOR: wrong window flavour",
    c.ERR_PROC_ABORTED: "MPI_ERR_PROC_ABORTED: a process has aborted",
    c.ERR_VALUE_TOO_LARGE: "MPI_ERR_VALUE_TOO_LARGE: value too large for its type",
    c.ERR_SESSION: "MPI_ERR_SESSION: invalid session",
    c.ERR_ERRHANDLER: "MPI_ERR_ERRHANDLER: invalid error handler",
    c.ERR_ABI: "MPI_ERR_ABI: ABI call came too late or does not apply",
    c.ERR_PROC_FAILED: "MPI_ERR_PROC_FAILED: a process has failed",
    c.ERR_PROC_FAILED_PENDING: "MPI_ERR_PROC_FAILED_PENDING: a process has failed, the request is still pending",
    c.ERR_REVOKED: "MPI_ERR_REVOKED: the communicator has been revoked",
}


class ErrorTable:
    """The error classes, codes and strings that one process has added."""

    __slots__ = ("classes", "last_used", "strings")

    def __init__(self) -> None:
        self.classes: dict[int, int] = {}  # code -> class; a class is its own code
        self.strings: dict[int, str] = {}
        # The value of the attribute ``LASTUSEDCODE``: the largest code assigned so far.
        self.last_used: int = c.ERR_LASTCODE

    def new_code(self, error_class: int | None = None) -> int:
        """Assign a new code of a class, or a new class if `error_class` is None."""
        self.last_used += 1
        self.classes[self.last_used] = self.last_used if error_class is None else error_class
        return self.last_used


def table() -> ErrorTable:
    """Return the additions of the current process."""
    return of_process("errors", ErrorTable)


def error_class(errorcode: int) -> int:
    """Return the class of an error code, `ERR_UNKNOWN` if there is no such code."""
    if errorcode in STRINGS:
        return errorcode
    return table().classes.get(errorcode, c.ERR_UNKNOWN)


def error_string(errorcode: int) -> str:
    """Return the text of an error code; a code that was added without a text has an empty one."""
    text = STRINGS.get(errorcode)
    if text is not None:
        return text
    added = table()
    if errorcode in added.classes:
        return added.strings.get(errorcode, "")
    return f"MPI_ERR_UNKNOWN: unknown error code {errorcode}"


def add_error_class() -> int:
    """Add an error class (MPI_Add_error_class)."""
    return table().new_code()


def add_error_code(errorclass: int) -> int:
    """Add an error code of a predefined or an added class (MPI_Add_error_code)."""
    added = table()
    if errorclass not in STRINGS and added.classes.get(errorclass) != errorclass:
        fail(c.ERR_ARG, f"unknown error class {errorclass}")
    return added.new_code(errorclass)


def add_error_string(errorcode: int, string: str) -> None:
    """Set the text of an added class or code (MPI_Add_error_string)."""
    _added(errorcode).strings[errorcode] = string[: c.MAX_ERROR_STRING - 1]


def remove_error_class(errorclass: int) -> None:
    """Remove an added class without codes and without a text (MPI_Remove_error_class)."""
    added = _added(errorclass)
    if added.classes[errorclass] != errorclass:
        fail(c.ERR_OTHER, f"{errorclass} is an error code, not a class")
    if list(added.classes.values()).count(errorclass) > 1:
        fail(c.ERR_OTHER, f"error class {errorclass} still has error codes")
    _remove(added, errorclass)


def remove_error_code(errorcode: int) -> None:
    """Remove an added code without a text (MPI_Remove_error_code)."""
    added = _added(errorcode)
    if added.classes[errorcode] == errorcode:
        fail(c.ERR_OTHER, f"{errorcode} is an error class, not a code")
    _remove(added, errorcode)


def remove_error_string(errorcode: int) -> None:
    """Remove the text of an added class or code (MPI_Remove_error_string)."""
    _added(errorcode).strings.pop(errorcode, None)


def _added(code: int) -> ErrorTable:
    added = table()
    if code not in added.classes:
        fail(c.ERR_OTHER, f"{code} is not an error class or code that this process has added")
    return added


def _remove(added: ErrorTable, code: int) -> None:
    if code in added.strings:
        fail(c.ERR_OTHER, f"error {code} still has an error string")
    del added.classes[code]


class Exception(RuntimeError):
    """An MPI error, comparable with integers by its error code."""

    __module__ = "mpi4py.MPI"

    # The detail of the failing call, and whether an error handler has seen it. No slots: with them a program could not
    # derive a class from this one and another kind of error.
    _detail = ""
    _reported = False
    _tells_of_failures = False  # for ERR_IN_STATUS

    def __init__(self, ierr: int = c.SUCCESS, /) -> None:
        code = int(operator.index(ierr))
        super().__init__(code if code >= c.SUCCESS else c.ERR_UNKNOWN)

    @property
    def _code(self) -> int:
        code: int = self.args[0]
        return code

    def __int__(self) -> int:
        return self._code

    def __bool__(self) -> bool:
        return self._code != c.SUCCESS

    def __hash__(self) -> int:
        return hash(self._code)

    def __eq__(self, other: object, /) -> bool:
        return bool(self._code == _code_of(other))

    def __ne__(self, other: object, /) -> bool:
        return bool(self._code != _code_of(other))

    def __lt__(self, other: int | Exception, /) -> bool:
        return bool(self._code < _code_of(other))

    def __le__(self, other: int | Exception, /) -> bool:
        return bool(self._code <= _code_of(other))

    def __gt__(self, other: int | Exception, /) -> bool:
        return bool(self._code > _code_of(other))

    def __ge__(self, other: int | Exception, /) -> bool:
        return bool(self._code >= _code_of(other))

    def __repr__(self) -> str:
        return f"MPI.Exception({self._code})"

    def __str__(self) -> str:
        return self.Get_error_string()

    def Get_error_code(self) -> int:  # noqa: N802
        """Error code."""
        return self._code

    def Get_error_class(self) -> int:  # noqa: N802
        """Error class of the code."""
        return error_class(self._code)

    def Get_error_string(self) -> str:  # noqa: N802
        """Text of the error."""
        text = error_string(self._code)
        return f"{text} ({self._detail})" if self._detail else text

    @property
    def _is_about_failures(self) -> bool:
        """True for an error about a failed process or a revocation."""
        return self._tells_of_failures or self._code in (c.ERR_PROC_FAILED, c.ERR_PROC_FAILED_PENDING, c.ERR_REVOKED)

    @property
    def error_code(self) -> int:
        """Error code."""
        return self.Get_error_code()

    @property
    def error_class(self) -> int:
        """Error class."""
        return self.Get_error_class()

    @property
    def error_string(self) -> str:
        """Error text."""
        return self.Get_error_string()


class ReturnedError(Exception):
    """The error code that a function of a compiled program has returned."""


is_about_failures = operator.attrgetter("_is_about_failures")
"""Return True for an `Exception` about a failed process or a revocation."""


def add_detail(exception: Exception, text: str) -> None:
    """Append to the bracketed detail of an exception's text."""
    detail = exception._detail
    exception._detail = f"{detail}; {text}" if detail else text


def report_once(exception: Exception) -> bool:
    """Return True for the first call with an exception, until `report_again`: an error handler sees an error once."""
    is_new = not exception._reported
    exception._reported = True
    return is_new


def report_again(exception: Exception) -> None:
    """Let an error handler see an exception once more."""
    exception._reported = False


def _code_of(other: object) -> Any:
    return other.args[0] if isinstance(other, Exception) else other


def fail(code: int, detail: str = "") -> NoReturn:
    """Raise the exception of an error code.

    The code is one of the `ERR_` constants, or an added code. `detail` has the details in a few words; it is appended
    to the text of the code.
    """
    raise error(code, detail)


def error(code: int, detail: str = "") -> Exception:
    """Return the exception of an error code, for a caller that consults an error handler first."""
    exception = Exception(code)
    if detail:
        add_detail(exception, detail)
    return exception


def in_status(causes: Iterable[Exception]) -> Exception:
    """Return the exception of a call for several requests that failed for these reasons: ERR_IN_STATUS."""
    causes = list(causes)
    exception = error(c.ERR_IN_STATUS, str(causes[0]))
    exception._tells_of_failures = any(map(is_about_failures, causes))
    return exception
