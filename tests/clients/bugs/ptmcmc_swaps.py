"""Parallel tempering with three chains, where the cold one says when all shall end."""

import sys
import tempfile
import time

import numpy as np
from mpi4py import MPI
from PTMCMCSampler.PTMCMCSampler import PTSampler


def loglike(point):
    time.sleep(1e-4 * (1 + MPI.COMM_WORLD.rank % 2))  # computers differ
    return -0.5 * float(point @ point)


def logprior(point):
    return 0.0


np.random.seed(3)  # noqa: NPY002 - the package draws from this
vars(np).update(int=int, bool=bool)  # as numpy before 1.24 had them
with tempfile.TemporaryDirectory() as folder:
    sampler = PTSampler(2, loglike, logprior, np.eye(2), outDir=folder, verbose=False)
    sampler.sample(np.zeros(2), int(sys.argv[1]), burn=50, covUpdate=50, thin=1, Tskip=5, isave=100)
print("done")
