"""`MPI.File`: files that ranks access independently or collectively."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import Background, begin
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.construct import duplicate
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.group import Members
from xsim_py.mpi.io import access, disk, manage, representation
from xsim_py.mpi.io.access import AT, INDIVIDUAL, ORDERED, SHARED, FileCall
from xsim_py.mpi.io.openfile import OpenFile
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi.transport.mailbox import Mailbox
from xsim_py.mpi.transport.message import Operation

from .bufspec import message
from .comm import Intracomm
from .commhandle import mailbox
from .datatype import INSTANCES, Datatype
from .errhandling import BoundHandler, HandleFactory, HasErrorHandler, Reporting, first_handler
from .group import Group, group_of
from .handle import Null, handle_of, predefine_null
from .info import INFO_NULL, Info
from .inside import comm_of, impl_of, live_impl
from .methods import Method, add_methods, attribute
from .request import Request
from .request_tasks import Task, set_empty
from .status import Status, set_message

__all__ = ["FILE_NULL", "File", "Register_datarep"]

R = TypeVar("R")

_BYTE = INSTANCES["BYTE"]


class _NullFile:
    """FILE_NULL as an owner of the error handler for errors while no file is open.

    Each process has a separate one.
    """

    __slots__ = ("errhandler",)

    def __init__(self) -> None:
        self.errhandler: BoundHandler | None = None

    @classmethod
    def of_running_process(cls) -> _NullFile:
        """Return the running process's instance."""
        return of_process("the error handler of FILE_NULL", cls)

    @property
    def box(self) -> Mailbox:
        return mailbox()

    def label(self) -> str:
        """Return the name for messages."""
        return "MPI_FILE_NULL"

    def fail(self, code: int, why: str) -> NoReturn:
        """Raise an error after passing it to the handler."""
        error = errors.error(code, why)
        self.report(error)
        raise error

    def report(self, error: errors.Exception) -> bool:
        """Pass an error to the handler; return True if it has handled it."""
        return self.errhandler is not None and errors.report_once(error) and self.errhandler(self, error)


class _Transfer(Task):
    """A request's task whose status gives the number of bytes transferred."""

    __slots__ = ()

    def _background(self, operation: Background, status: Status | None) -> None:
        _fill(status, operation.result)


def _fill(status: Status | None, size_bytes: int) -> None:
    set_empty(status)
    if status is not None:
        set_message(status, c.ANY_SOURCE, c.ANY_TAG, size_bytes)


class File(HasErrorHandler):
    """File I/O context."""

    __slots__ = ()

    _kind = "File"

    _null: ClassVar[Null] = Null("FILE_NULL")
    _error = c.ERR_FILE

    def __new__(cls, file: File | None = None) -> Self:
        return cls._copy(file)

    def _file(self) -> OpenFile:
        if self._impl is self._null or self._impl.closed:
            _NullFile.of_running_process().fail(
                c.ERR_FILE, "the file is null" if self._impl is self._null else "the file was closed"
            )
        file: OpenFile = self._impl
        return file

    def _manage(self, function: Callable[..., R], *args: object) -> R | None:
        """Call a function of the file; return None if the error handler has handled an error."""
        file = self._file()
        with Reporting(file.comm):
            return function(file, *args)
        return None

    def free(self) -> None:
        if self:
            self.Close()

    # -------------------------------------------------------------------------------------- opening and managing files

    @classmethod
    def Open(
        cls,
        comm: Intracomm,
        filename: os.PathLike[Any] | str | bytes,
        amode: int = c.MODE_RDONLY,
        info: Info = INFO_NULL,
    ) -> Self:
        if not isinstance(comm, Intracomm):
            kind = type(comm).__name__
            raise TypeError(
                f"Argument 'comm' has incorrect type (expected mpi4py.MPI.Intracomm, got mpi4py.MPI.{kind})"
            )
        return cls._opened(manage.open_file, comm, filename, amode, info)

    @classmethod
    def _opened(
        cls, open_file: Callable[..., OpenFile], comm: Intracomm, filename: Any, amode: int, info: Info
    ) -> Self:
        path = os.fsdecode(filename)
        with Reporting(_NullFile.of_running_process()):
            file = open_file(comm_of(comm), path, operator.index(amode), info.items())
            factory: Any = HandleFactory(cls, file)
            of_null = _NullFile.of_running_process().errhandler
            default = of_null and BoundHandler(of_null.handler, factory)
            file.comm.errhandler = first_handler(factory, default)
            return cls._make(file)
        return cls()

    def Close(self) -> None:
        file = self._file()
        with Reporting(file.comm):
            self._impl = self._null
            manage.close(file)

    @classmethod
    def Delete(cls, filename: os.PathLike[Any] | str | bytes, info: Info = INFO_NULL) -> None:
        path = os.fsdecode(filename)
        with Reporting(_NullFile.of_running_process()):
            disk.remove(disk.place_of(path))

    def Set_size(self, size: int) -> None:
        self._manage(manage.set_size, operator.index(size))

    def Preallocate(self, size: int) -> None:
        self._manage(manage.preallocate, operator.index(size))

    def Get_size(self) -> int:
        return self._manage(manage.size) or 0

    size = attribute(Get_size)

    def Get_amode(self) -> int:
        return self._file().amode

    amode = attribute(Get_amode)

    def Get_group(self) -> Group:
        return group_of(Members(self._file().comm.shown.ranks))

    group = attribute(Get_group)

    @property
    def group_size(self) -> int:
        return len(self._file().comm.shown.ranks)

    @property
    def group_rank(self) -> int:
        return self._file().comm.shown.me

    def Set_info(self, info: Info) -> None:
        self._file().hints.update(info.items())

    def Get_info(self) -> Info:
        return Info.Create(self._file().hints.values)

    info = attribute(Get_info, Set_info)

    # ---------------------------------------------------------------------------------------------------- views

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = _BYTE,
        filetype: Datatype | None = None,
        datarep: str = "native",
        info: Info = INFO_NULL,
    ) -> None:
        file = self._file()
        basic = _core(etype, "etype")
        outer = basic if filetype is None else _core(filetype, "filetype")
        name = "native" if datarep is None else datarep
        with Reporting(file.comm):
            manage.set_view(file, operator.index(disp), basic, outer, name, info.items())

    def Get_view(self) -> tuple[int, Datatype, Datatype, str]:
        view = self._file().view
        return view.displacement, _returned_type(view.etype), _returned_type(view.filetype), view.representation

    def Get_type_extent(self, datatype: Datatype) -> int:
        return self._manage(lambda file: manage.type_extent(file, live_impl(datatype))) or 0

    def Get_byte_offset(self, offset: int) -> int:
        return self._manage(manage.byte_offset, operator.index(offset)) or 0

    # ------------------------------------------------------------------------------------------------- pointers

    def Seek(self, offset: int, whence: int = c.SEEK_SET) -> None:
        self._manage(manage.seek, operator.index(offset), operator.index(whence))

    def Get_position(self) -> int:
        file = self._file()
        with Reporting(file.comm):
            file.check_not_sequential("File.Get_position")
        return file.position

    def Seek_shared(self, offset: int, whence: int = c.SEEK_SET) -> None:
        self._manage(manage.seek_shared, operator.index(offset), operator.index(whence))

    def Get_position_shared(self) -> int:
        return self._manage(manage.shared_position) or 0

    # -------------------------------------------------------------------------------------------------- the calls

    def _do(self, call: FileCall, offset: int, buf: object, status: Status | None) -> None:
        file = self._file()
        with Reporting(file.comm):
            body = access.prepare(file, call, operator.index(offset), message(buf, writable=not call.writing))
            _fill(status, body())

    def _start(self, call: FileCall, offset: int, buf: object) -> Request:
        file = self._file()
        operation: Operation | None = None
        with Reporting(file.comm):
            body = access.prepare(file, call, operator.index(offset), message(buf, writable=not call.writing))
            operation = begin(call.name, body)
        return handle_of(Request, _Transfer(operation, comm=file.comm))

    def _begin(self, call: FileCall, offset: int, buf: object) -> None:
        file = self._file()
        with Reporting(file.comm):
            access.begin_split(file, call, operator.index(offset), message(buf, writable=not call.writing))

    def _end(self, call: FileCall, buf: object, status: Status | None) -> None:
        file = self._file()
        with Reporting(file.comm):
            message(buf, writable=not call.writing)
            _fill(status, access.end_split(file, call.name))

    # ---------------------------------------------------------------------------------------------- consistency

    def Set_atomicity(self, flag: bool) -> None:
        self._manage(manage.set_atomicity, bool(flag))

    def Get_atomicity(self) -> bool:
        return self._file().atomic

    atomicity = attribute(Get_atomicity, Set_atomicity)

    def Sync(self) -> None:
        self._manage(manage.sync)

    # --------------------------------------------------------------------------------------------------- errors

    def _handler_owner(self) -> Communicator | _NullFile:
        return _NullFile.of_running_process() if self._impl is self._null else self._file().comm

    def _handle_factory(self) -> HandleFactory:
        return HandleFactory(type(self), self._impl)


def _transfers() -> Iterator[Method]:
    """Yield the read and write methods, for each file pointer, collective or not, and form."""
    for suffix, where, is_collective, forms in (
        ("_at", "AT", False, ("{}", "I{}")),
        ("_at_all", "AT", True, ("{}", "I{}", "split")),
        ("", "INDIVIDUAL", False, ("{}", "I{}")),
        ("_all", "INDIVIDUAL", True, ("{}", "I{}", "split")),
        ("_shared", "SHARED", False, ("{}", "I{}")),
        ("_ordered", "ORDERED", True, ("{}", "split")),
    ):
        parameters, offset = ("offset buf", "offset") if where == "AT" else ("buf", "0")
        for verb, is_writing in (("Read", False), ("Write", True)):
            name = verb + suffix
            call = f"_call('File.{{}}', {is_writing}, {where}, {is_collective})"
            for form in forms:
                if form == "{}":
                    statement = f"self._do({call.format(name)}, {offset}, buf, status)"
                    yield Method(name, f"{parameters} status", "None", statement)
                elif form == "I{}":
                    begun = f"I{name.lower()}"
                    yield Method(
                        begun, parameters, "Request", f"return self._start({call.format(begun)}, {offset}, buf)"
                    )
                else:
                    call_text = call.format(name)
                    yield Method(f"{name}_begin", parameters, "None", f"self._begin({call_text}, {offset}, buf)")
                    yield Method(f"{name}_end", "buf status", "None", f"self._end({call_text}, buf, status)")


_NAMES = {"__name__": __name__, "__file__": __file__, "_call": lru_cache(maxsize=None)(FileCall)}
_NAMES |= {"AT": AT, "INDIVIDUAL": INDIVIDUAL, "SHARED": SHARED, "ORDERED": ORDERED}
add_methods(File, _NAMES, _transfers())


def Register_datarep(
    datarep: str,
    read_fn: Callable[..., None],
    write_fn: Callable[..., None],
    extent_fn: Callable[[Datatype], int],
) -> None:
    """Register a user-defined data representation."""
    with Reporting(_NullFile.of_running_process()):
        representation.register(datarep, read_fn, write_fn, extent_fn)


def _core(datatype: Datatype, name: str) -> Type:
    if not isinstance(datatype, Datatype):
        kind = type(datatype).__name__
        raise TypeError(f"Argument '{name}' has incorrect type (expected mpi4py.MPI.Datatype, got {kind})")
    core: Type = impl_of(datatype)
    return core


def _returned_type(datatype: Type) -> Datatype:
    """Return a type as returned by MPI_File_get_view: the program frees it."""
    return handle_of(Datatype, datatype if datatype.is_predefined else duplicate(datatype))


FILE_NULL: Any = predefine_null(File, 0x118)
