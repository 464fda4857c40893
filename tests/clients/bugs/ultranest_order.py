"""Nested sampling on several ranks: each point must have the likelihood that was computed for it."""

import logging

import numpy as np
from mpi4py import MPI
from ultranest import ReactiveNestedSampler


def loglike(points):
    return -0.5 * (((points - 0.5) / 0.1) ** 2).sum(axis=1)


def flat(cube):
    return cube


vars(np)["int"] = int  # as numpy before 1.24 had it
logging.disable(logging.CRITICAL)
np.random.seed(1)  # noqa: NPY002 - the package draws from this
sampler = ReactiveNestedSampler(["a", "b"], loglike, transform=flat, vectorized=True, log_dir=None)
found = sampler.run(min_num_live_points=40, max_iters=120, viz_callback=False, show_status=False)["weighted_samples"]
if MPI.COMM_WORLD.rank == 0:
    print("points with the likelihood of another:", int((loglike(np.array(found["points"])) != found["logl"]).sum()))
