"""The names of datatypes, operations and memory, as a module like mpi4py.MPI: what these tests need of it."""

import json
import subprocess
import sys
from types import ModuleType

from xsim_py.mpi import constants, errors
from xsim_py.mpi4py import comm, datatype, memory, op, pickling


def simulated() -> ModuleType:
    module = ModuleType("mpi4py.MPI")
    names = {name: value for name, value in vars(constants).items() if name.isupper()}
    names |= datatype.INSTANCES | op.INSTANCES | {name: getattr(memory, name) for name in memory.__all__}
    names |= {"Datatype": datatype.Datatype, "Op": op.Op, "Exception": errors.Exception, "COMM_SELF": comm.COMM_SELF}
    names |= {"Pickle": pickling.Pickle, "pickle": pickling.pickle, "_datatype_create": datatype._datatype_create}
    vars(module).update(names)
    for face in (datatype.Datatype, op.Op):
        face.__module__ = "mpi4py.MPI"
    return module


def real_answers(*command: str, text: str = "") -> list:
    """What a script prints under the real mpi4py: JSON, one value a line."""
    run = subprocess.run([*command], input=text, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in run.stdout.splitlines()]


def python(script: str) -> list[str]:
    return [sys.executable, script]
