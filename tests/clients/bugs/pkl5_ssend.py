"""A large array sent synchronously by pickle protocol 5, to a rank that looks for it with mprobe.

The argument is the file of the module mpi4py.util.pkl5, as a version before 4 has it.
"""

import importlib.util
import sys

import numpy as np
from mpi4py import MPI


class Pickle(MPI.Pickle):
    """The interface of mpi4py 3.1: out-of-band buffers by dumps and loads themselves."""

    def __init__(self, dumps, loads, protocol):
        super().__init__(dumps, loads, protocol)
        self._functions = dumps, loads

    def dumps(self, obj, buffer_callback):
        return self._functions[0](obj, self.PROTOCOL, buffer_callback=buffer_callback)

    def loads(self, data, buffers):
        return self._functions[1](data, buffers=buffers)


MPI.Pickle = Pickle
spec = importlib.util.spec_from_file_location("mpi4py.util.pkl5", sys.argv[1])
pkl5 = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pkl5)

comm = pkl5.Intracomm(MPI.COMM_WORLD)
if comm.rank == 0:
    comm.ssend(np.arange(100_000), dest=1)
elif comm.rank == 1:
    message = comm.mprobe(source=0)
    print(message.recv().sum())
