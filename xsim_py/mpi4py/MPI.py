"""The simulated ``mpi4py.MPI``: every name of the real one, and no other.

A program finds this module under the name ``mpi4py.MPI``. The names are collected here; what they mean is in the files
beside this one (one for each class) and, below them, in `xsim_py.mpi`. Names that are not mpi4py's begin with an
underscore.
"""

from __future__ import annotations

from xsim_py.mpi import constants as _constants
from xsim_py.mpi4py import datatype as _datatype
from xsim_py.mpi4py import functions as _functions
from xsim_py.mpi4py import op as _op

__pyx_capi__: dict[str, object] = {}  # what the real one offers to compiled code; there is nothing to offer here
_typedict = _datatype.TYPE_DICT
_typedict_c = _datatype.TYPE_DICT_C
_typedict_f = _datatype.TYPE_DICT_F

globals().update({name: value for name, value in vars(_constants).items() if name.isupper()})
globals().update(_datatype.INSTANCES)
globals().update(_op.INSTANCES)
globals().update({name: getattr(_functions, name) for name in _functions.__all__})

del annotations, _constants, _datatype, _functions, _op
