"""`MPI.File`: files that ranks read and write, each for itself or all together."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import begin
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.construct import duplicate
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.group import Members
from xsim_py.mpi.io import access, disk, manage, representation
from xsim_py.mpi.io.access import AT, INDIVIDUAL, ORDERED, SHARED, Call
from xsim_py.mpi.io.openfile import OpenFile
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi.transport.mailbox import Mailbox
from xsim_py.mpi.transport.message import Operation

from .bufspec import message
from .comm import Intracomm
from .commhandle import mailbox
from .datatype import INSTANCES, Datatype
from .errhandling import BoundHandler, Erring, Face, Reporting, first_handler
from .group import Group
from .handle import Null
from .info import INFO_NULL, Info
from .request import Request
from .status import Status
from .task import Task, empty

__all__ = ["FILE_NULL", "File", "Register_datarep"]

_BYTE = INSTANCES["BYTE"]

# The calls: name, whether it writes, where, and whether all ranks have to call it.
_READ_AT = Call("File.Read_at", False, AT, False)
_WRITE_AT = Call("File.Write_at", True, AT, False)
_IREAD_AT = Call("File.Iread_at", False, AT, False)
_IWRITE_AT = Call("File.Iwrite_at", True, AT, False)
_READ_AT_ALL = Call("File.Read_at_all", False, AT, True)
_WRITE_AT_ALL = Call("File.Write_at_all", True, AT, True)
_IREAD_AT_ALL = Call("File.Iread_at_all", False, AT, True)
_IWRITE_AT_ALL = Call("File.Iwrite_at_all", True, AT, True)
_READ = Call("File.Read", False, INDIVIDUAL, False)
_WRITE = Call("File.Write", True, INDIVIDUAL, False)
_IREAD = Call("File.Iread", False, INDIVIDUAL, False)
_IWRITE = Call("File.Iwrite", True, INDIVIDUAL, False)
_READ_ALL = Call("File.Read_all", False, INDIVIDUAL, True)
_WRITE_ALL = Call("File.Write_all", True, INDIVIDUAL, True)
_IREAD_ALL = Call("File.Iread_all", False, INDIVIDUAL, True)
_IWRITE_ALL = Call("File.Iwrite_all", True, INDIVIDUAL, True)
_READ_SHARED = Call("File.Read_shared", False, SHARED, False)
_WRITE_SHARED = Call("File.Write_shared", True, SHARED, False)
_IREAD_SHARED = Call("File.Iread_shared", False, SHARED, False)
_IWRITE_SHARED = Call("File.Iwrite_shared", True, SHARED, False)
_READ_ORDERED = Call("File.Read_ordered", False, ORDERED, True)
_WRITE_ORDERED = Call("File.Write_ordered", True, ORDERED, True)


class _OfNull:
    """FILE_NULL, as something with an error handler, which sees what goes wrong while no file is open.

    Each process has its own.
    """

    __slots__ = ("errhandler",)

    def __init__(self) -> None:
        self.errhandler: BoundHandler | None = None

    @classmethod
    def mine(cls) -> _OfNull:
        """The running process's."""
        return of_process("the error handler of FILE_NULL", cls)

    @property
    def box(self) -> Mailbox:
        return mailbox()

    def label(self) -> str:
        """Its name, for messages."""
        return "MPI_FILE_NULL"

    def fail(self, code: int, why: str) -> NoReturn:
        """Raise an error that the handler has seen."""
        error = errors.error(code, why)
        self.report(error)
        raise error

    def report(self, error: errors.Exception) -> bool:
        """Let the handler see an error; True where it has dealt with it."""
        if error._reported or self.errhandler is None:
            return False
        error._reported = True
        return self.errhandler(self, error)


class _Transfer(Task):
    """Of a request: what its status says is how many bytes were moved."""

    __slots__ = ()

    def _background(self, operation: Any, status: Status | None) -> None:
        _fill(status, operation.result)


def _fill(status: Status | None, size_bytes: int) -> None:
    empty(status)
    if status is not None:
        status._set(c.ANY_SOURCE, c.ANY_TAG, size_bytes)


class File(Erring):
    """File I/O context."""

    __slots__ = ()

    _kind = "File"

    _null: ClassVar[Null] = Null("FILE_NULL")
    _error = c.ERR_FILE

    def __new__(cls, file: File | None = None) -> Self:
        return cls._copy(file)

    def _file(self) -> OpenFile:
        if self._impl is self._null or self._impl.closed:
            _OfNull.mine().fail(c.ERR_FILE, "the file is null" if self._impl is self._null else "the file was closed")
        file: OpenFile = self._impl
        return file

    def free(self) -> None:
        if self:
            self.Close()

    # ------------------------------------------------------------------------------------------ files as a whole

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
        path = os.fsdecode(filename)
        with Reporting(_OfNull.mine()):
            file = manage.open_file(comm._comm(), path, operator.index(amode), info.items())
            face: Any = Face(cls, file)
            of_null = _OfNull.mine().errhandler
            mpis = of_null and BoundHandler(of_null.handler, face)
            file.comm.errhandler = first_handler(face, mpis)
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
        with Reporting(_OfNull.mine()):
            disk.remove(disk.place_of(path))

    def Set_size(self, size: int) -> None:
        file = self._file()
        with Reporting(file.comm):
            manage.set_size(file, operator.index(size))

    def Preallocate(self, size: int) -> None:
        file = self._file()
        with Reporting(file.comm):
            manage.preallocate(file, operator.index(size))

    def Get_size(self) -> int:
        file = self._file()
        with Reporting(file.comm):
            return manage.size(file)
        return 0

    @property
    def size(self) -> int:
        return self.Get_size()

    def Get_amode(self) -> int:
        return self._file().amode

    @property
    def amode(self) -> int:
        return self.Get_amode()

    def Get_group(self) -> Group:
        return Group._of(Members(self._file().comm.ranks))

    @property
    def group(self) -> Group:
        return self.Get_group()

    @property
    def group_size(self) -> int:
        return len(self._file().comm.ranks)

    @property
    def group_rank(self) -> int:
        return self._file().comm.me

    def Set_info(self, info: Info) -> None:
        self._file().hints.update(info.items())

    def Get_info(self) -> Info:
        return Info.Create(self._file().hints.values)

    @property
    def info(self) -> Info:
        return self.Get_info()

    @info.setter
    def info(self, info: Info) -> None:
        self.Set_info(info)

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
        return view.displacement, _shown(view.etype), _shown(view.filetype), view.representation

    def Get_type_extent(self, datatype: Datatype) -> int:
        file = self._file()
        with Reporting(file.comm):
            return manage.type_extent(file, datatype._live())
        return 0

    def Get_byte_offset(self, offset: int) -> int:
        file = self._file()
        with Reporting(file.comm):
            return manage.byte_offset(file, operator.index(offset))
        return 0

    # ------------------------------------------------------------------------------------------------- pointers

    def Seek(self, offset: int, whence: int = c.SEEK_SET) -> None:
        file = self._file()
        with Reporting(file.comm):
            manage.seek(file, operator.index(offset), operator.index(whence))

    def Get_position(self) -> int:
        file = self._file()
        with Reporting(file.comm):
            file.check_not_sequential("File.Get_position")
        return file.position

    def Seek_shared(self, offset: int, whence: int = c.SEEK_SET) -> None:
        file = self._file()
        with Reporting(file.comm):
            manage.seek_shared(file, operator.index(offset), operator.index(whence))

    def Get_position_shared(self) -> int:
        file = self._file()
        with Reporting(file.comm):
            return manage.shared_position(file)
        return 0

    # -------------------------------------------------------------------------------------------------- the calls

    def _do(self, call: Call, offset: int, buf: Any, status: Status | None) -> None:
        file = self._file()
        with Reporting(file.comm):
            body = access.prepare(file, call, operator.index(offset), message(buf, writable=not call.writing))
            _fill(status, body())

    def _start(self, call: Call, offset: int, buf: Any) -> Request:
        file = self._file()
        operation: Operation | None = None
        with Reporting(file.comm):
            body = access.prepare(file, call, operator.index(offset), message(buf, writable=not call.writing))
            operation = begin(call.name, body)
        request: Request = Request._make(_Transfer(operation, comm=file.comm))
        return request

    def _begin(self, call: Call, offset: int, buf: Any) -> None:
        file = self._file()
        with Reporting(file.comm):
            access.begin_split(file, call, operator.index(offset), message(buf, writable=not call.writing))

    def _end(self, call: Call, buf: Any, status: Status | None) -> None:
        file = self._file()
        with Reporting(file.comm):
            message(buf, writable=not call.writing)
            _fill(status, access.end_split(file, call.name))

    # ------------------------------------------------------------------------------------ explicit offsets

    def Read_at(self, offset: int, buf: Any, status: Status | None = None) -> None:
        self._do(_READ_AT, offset, buf, status)

    def Write_at(self, offset: int, buf: Any, status: Status | None = None) -> None:
        self._do(_WRITE_AT, offset, buf, status)

    def Iread_at(self, offset: int, buf: Any) -> Request:
        return self._start(_IREAD_AT, offset, buf)

    def Iwrite_at(self, offset: int, buf: Any) -> Request:
        return self._start(_IWRITE_AT, offset, buf)

    def Read_at_all(self, offset: int, buf: Any, status: Status | None = None) -> None:
        self._do(_READ_AT_ALL, offset, buf, status)

    def Write_at_all(self, offset: int, buf: Any, status: Status | None = None) -> None:
        self._do(_WRITE_AT_ALL, offset, buf, status)

    def Iread_at_all(self, offset: int, buf: Any) -> Request:
        return self._start(_IREAD_AT_ALL, offset, buf)

    def Iwrite_at_all(self, offset: int, buf: Any) -> Request:
        return self._start(_IWRITE_AT_ALL, offset, buf)

    def Read_at_all_begin(self, offset: int, buf: Any) -> None:
        self._begin(_READ_AT_ALL, offset, buf)

    def Read_at_all_end(self, buf: Any, status: Status | None = None) -> None:
        self._end(_READ_AT_ALL, buf, status)

    def Write_at_all_begin(self, offset: int, buf: Any) -> None:
        self._begin(_WRITE_AT_ALL, offset, buf)

    def Write_at_all_end(self, buf: Any, status: Status | None = None) -> None:
        self._end(_WRITE_AT_ALL, buf, status)

    # ------------------------------------------------------------------------------ the individual pointer

    def Read(self, buf: Any, status: Status | None = None) -> None:
        self._do(_READ, 0, buf, status)

    def Write(self, buf: Any, status: Status | None = None) -> None:
        self._do(_WRITE, 0, buf, status)

    def Iread(self, buf: Any) -> Request:
        return self._start(_IREAD, 0, buf)

    def Iwrite(self, buf: Any) -> Request:
        return self._start(_IWRITE, 0, buf)

    def Read_all(self, buf: Any, status: Status | None = None) -> None:
        self._do(_READ_ALL, 0, buf, status)

    def Write_all(self, buf: Any, status: Status | None = None) -> None:
        self._do(_WRITE_ALL, 0, buf, status)

    def Iread_all(self, buf: Any) -> Request:
        return self._start(_IREAD_ALL, 0, buf)

    def Iwrite_all(self, buf: Any) -> Request:
        return self._start(_IWRITE_ALL, 0, buf)

    def Read_all_begin(self, buf: Any) -> None:
        self._begin(_READ_ALL, 0, buf)

    def Read_all_end(self, buf: Any, status: Status | None = None) -> None:
        self._end(_READ_ALL, buf, status)

    def Write_all_begin(self, buf: Any) -> None:
        self._begin(_WRITE_ALL, 0, buf)

    def Write_all_end(self, buf: Any, status: Status | None = None) -> None:
        self._end(_WRITE_ALL, buf, status)

    # ---------------------------------------------------------------------------------- the shared pointer

    def Read_shared(self, buf: Any, status: Status | None = None) -> None:
        self._do(_READ_SHARED, 0, buf, status)

    def Write_shared(self, buf: Any, status: Status | None = None) -> None:
        self._do(_WRITE_SHARED, 0, buf, status)

    def Iread_shared(self, buf: Any) -> Request:
        return self._start(_IREAD_SHARED, 0, buf)

    def Iwrite_shared(self, buf: Any) -> Request:
        return self._start(_IWRITE_SHARED, 0, buf)

    # ----------------------------------------------------------- the shared pointer, in the order of ranks

    def Read_ordered(self, buf: Any, status: Status | None = None) -> None:
        self._do(_READ_ORDERED, 0, buf, status)

    def Write_ordered(self, buf: Any, status: Status | None = None) -> None:
        self._do(_WRITE_ORDERED, 0, buf, status)

    def Read_ordered_begin(self, buf: Any) -> None:
        self._begin(_READ_ORDERED, 0, buf)

    def Read_ordered_end(self, buf: Any, status: Status | None = None) -> None:
        self._end(_READ_ORDERED, buf, status)

    def Write_ordered_begin(self, buf: Any) -> None:
        self._begin(_WRITE_ORDERED, 0, buf)

    def Write_ordered_end(self, buf: Any, status: Status | None = None) -> None:
        self._end(_WRITE_ORDERED, buf, status)

    # ---------------------------------------------------------------------------------------------- consistency

    def Set_atomicity(self, flag: bool) -> None:
        file = self._file()
        with Reporting(file.comm):
            manage.set_atomicity(file, bool(flag))

    def Get_atomicity(self) -> bool:
        return self._file().atomic

    @property
    def atomicity(self) -> bool:
        return self.Get_atomicity()

    @atomicity.setter
    def atomicity(self, value: bool) -> None:
        self.Set_atomicity(value)

    def Sync(self) -> None:
        file = self._file()
        with Reporting(file.comm):
            manage.sync(file)

    # --------------------------------------------------------------------------------------------------- errors

    def _erring(self) -> Communicator | _OfNull:
        return _OfNull.mine() if self._impl is self._null else self._file().comm

    def _face(self) -> Face:
        return Face(type(self), self._impl)


def Register_datarep(
    datarep: str,
    read_fn: Callable[..., None],
    write_fn: Callable[..., None],
    extent_fn: Callable[[Datatype], int],
) -> None:
    """Register a data representation of the program's own."""
    with Reporting(_OfNull.mine()):
        representation.register(datarep, read_fn, write_fn, extent_fn)


def _core(datatype: Datatype, name: str) -> Type:
    if not isinstance(datatype, Datatype):
        kind = type(datatype).__name__
        raise TypeError(f"Argument '{name}' has incorrect type (expected mpi4py.MPI.Datatype, got {kind})")
    return datatype._impl


def _shown(datatype: Type) -> Datatype:
    """A type as MPI_File_get_view gives it: the program frees it."""
    return Datatype._make(datatype if datatype.is_predefined else duplicate(datatype))


FILE_NULL: Any = File._constant("FILE_NULL", File._null, 0x118)
