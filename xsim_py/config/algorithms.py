"""The names of the collective algorithms that a description may contain.

The algorithms belong to an upper layer, `xsim_py.mpi.collectives`, which a description cannot import. Their names are
repeated here to detect a wrong one before anything runs. A test keeps the two lists equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ALLGATHER: Final = ("linear", "bruck", "recursive_doubling", "ring", "neighbor", "two_proc")
_ALLTOALL: Final = ("linear", "linear_sync", "pairwise", "two_proc")
_REDUCE_SCATTER: Final = ("nonoverlapping", "recursive_doubling", "recursive_halving", "ring", "butterfly")
_SCAN: Final = ("linear", "recursive_doubling")

ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "barrier": ("linear", "double_ring", "recursive_doubling", "bruck", "tree"),
    "bcast": (
        "linear",
        "chain",
        "pipeline",
        "split_binary_tree",
        "binary_tree",
        "binomial",
        "knomial",
        "scatter_allgather",
        "scatter_allgather_ring",
    ),
    "reduce": ("linear", "chain", "binary", "binomial", "in_order_binary", "rabenseifner"),
    "allreduce": ("linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner"),
    "gather": ("linear", "linear_sync", "binomial"),
    "gatherv": ("linear", "linear_sync"),
    "scatter": ("linear", "linear_nb", "binomial"),
    "scatterv": ("linear", "linear_nb"),
    "allgather": _ALLGATHER,
    "allgatherv": _ALLGATHER,
    "alltoall": (*_ALLTOALL, "bruck"),
    "alltoallv": _ALLTOALL,
    "alltoallw": _ALLTOALL,
    "reduce_scatter": _REDUCE_SCATTER,
    "reduce_scatter_block": _REDUCE_SCATTER,
    "scan": _SCAN,
    "exscan": _SCAN,
}

FTCO: Final = "ftco"
"""The fault-tolerant algorithm, and the operations that it supports; see `xsim_py.mpi.ftco`."""

FTCO_OPERATIONS: Final = (
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "reduce_scatter",
    "reduce_scatter_block",
)
