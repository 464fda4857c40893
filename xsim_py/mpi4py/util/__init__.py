"""``mpi4py.util``: mpi4py's own modules, except for `dtlib`.

They are plain Python on top of MPI.
"""

import sys
from importlib.machinery import PathFinder

from xsim_py.process.programs.private_modules import SharedPackage

_real = PathFinder.find_spec("mpi4py")
__path__ = [*__path__, *(f"{folder}/util" for folder in (_real and _real.submodule_search_locations) or ())]

_private = ("pkl5", "pool")
sys.modules[__name__].__class__ = SharedPackage
