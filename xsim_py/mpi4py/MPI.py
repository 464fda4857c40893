"""The simulated ``mpi4py.MPI``: every name of the real module and no other.

Programs find this module under the name ``mpi4py.MPI``. The names are collected here; their implementations are in the
other files of this directory (one for each class) and, below them, in `xsim_py.mpi`. Names that do not belong to mpi4py
begin with an underscore.
"""

# ruff: noqa: F401  the names are for programs

from __future__ import annotations

from xsim_py.mpi import constants as _constants
from xsim_py.mpi.errors import Exception
from xsim_py.mpi4py import datatype as _datatype
from xsim_py.mpi4py import functions as _functions
from xsim_py.mpi4py import op as _op
from xsim_py.mpi4py import options as _options
from xsim_py.mpi4py.comm import COMM_NULL, COMM_SELF, COMM_WORLD, Comm, Intercomm, Intracomm
from xsim_py.mpi4py.datatype import Datatype
from xsim_py.mpi4py.docstrings import document as _document
from xsim_py.mpi4py.errhandler import ERRHANDLER_NULL, ERRORS_ABORT, ERRORS_ARE_FATAL, ERRORS_RETURN, Errhandler
from xsim_py.mpi4py.file import FILE_NULL, File
from xsim_py.mpi4py.group import GROUP_EMPTY, GROUP_NULL, Group
from xsim_py.mpi4py.info import INFO_ENV, INFO_NULL, Info
from xsim_py.mpi4py.interop import capsules as _capsules
from xsim_py.mpi4py.memory import (
    BOTTOM,
    BUFFER_AUTOMATIC,
    IN_PLACE,
    BottomType,
    BufferAutomaticType,
    InPlaceType,
    buffer,
    memory,
)
from xsim_py.mpi4py.op import Op
from xsim_py.mpi4py.pickling import Pickle, pickle
from xsim_py.mpi4py.plain_arguments import convert_arguments as _convert_arguments
from xsim_py.mpi4py.probes import MESSAGE_NO_PROC, MESSAGE_NULL, Message
from xsim_py.mpi4py.request import REQUEST_NULL, Grequest, Prequest, Request
from xsim_py.mpi4py.session import SESSION_NULL, Session
from xsim_py.mpi4py.status import Status
from xsim_py.mpi4py.topocomm import Cartcomm, Distgraphcomm, Graphcomm, Topocomm
from xsim_py.mpi4py.type_names import give_full_names as _give_full_names
from xsim_py.mpi4py.win import WIN_NULL, Win

__pyx_capi__: dict[str, object] = _capsules(
    {
        **{cls.__name__: cls for cls in (Status, Datatype, Request, Message, Op, Group, Info, Errhandler)},
        **{cls.__name__: cls for cls in (Session, Comm, Win, File)},
    }
)
_typedict = _datatype.TYPE_DICT
_typedict_c = _datatype.TYPE_DICT_C
_typedict_f = _datatype.TYPE_DICT_F

globals().update({name: value for name, value in vars(_constants).items() if name.isupper()})
globals().update(_datatype.INSTANCES)
globals().update(_op.INSTANCES)
globals().update({name: getattr(_functions, name) for name in _functions.__all__})

_convert_arguments(globals(), except_in=("p2p", "probes", "collective_calls", "errors"))
_document(globals())
_give_full_names(globals())
__spec__ = _options.with_import_hook(__spec__)

del annotations, _capsules, _constants, _datatype, _document, _functions, _give_full_names, _op, _options
