"""The choice of the algorithm for a collective call: by name, or as by Open MPI's tuned module.

The decision rules are data (``ompi_tuned.json``, which names its source): for each operation, rows of ``[ranks below,
[[bytes below, algorithm], ...]]``. Open MPI's rules assume equal contributions; operations without rules (Gatherv,
Scatterv, Alltoallw, Scan, Exscan) are linear.

As in Open MPI, some algorithms switch to another: Rabenseifner's with fewer elements than ranks to linear, a ring with
fewer elements to recursive doubling, recursive doubling of Allgather on other than 2**k ranks to Bruck, neighbour
exchange on an odd number of ranks to the ring.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from xsim_py.config.algorithms import FTCO
from xsim_py.errors import ConfigError, close_match
from xsim_py.mpi.collectives import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    bcast,
    gather,
    reduce,
    reduce_scatter,
    scan,
    scatter,
)
from xsim_py.mpi.collectives.channel import Channel, Fold

Algorithm: TypeAlias = "Callable[..., Any]"
TUNED = "tuned"

_LINEAR_GATHER: Mapping[str, Algorithm] = {"linear": gather.linear, "linear_sync": gather.linear_sync}
_LINEAR_SCATTER: Mapping[str, Algorithm] = {"linear": scatter.linear, "linear_nb": scatter.linear_nb}
_ALLGATHER: Mapping[str, Algorithm] = {
    "linear": allgather.linear,
    "bruck": allgather.bruck,
    "recursive_doubling": allgather.recursive_doubling,
    "ring": allgather.ring,
    "neighbor": allgather.neighbor,
    "two_proc": allgather.ring,  # one exchange on two ranks
}
_ALLTOALLV: Mapping[str, Algorithm] = {
    "linear": alltoall.linear,
    "linear_sync": alltoall.linear_sync,
    "pairwise": alltoall.pairwise,
    "two_proc": alltoall.pairwise,  # one exchange on two ranks
}
_REDUCE_SCATTER: Mapping[str, Algorithm] = {
    "nonoverlapping": reduce_scatter.nonoverlapping,
    "recursive_doubling": reduce_scatter.recursive_doubling,
    "recursive_halving": reduce_scatter.recursive_halving,
    "ring": reduce_scatter.ring,
    "butterfly": reduce_scatter.butterfly,
}

REGISTRY: Mapping[str, Mapping[str, Algorithm]] = {
    "barrier": {
        "linear": barrier.linear,
        "double_ring": barrier.double_ring,
        "recursive_doubling": barrier.recursive_doubling,
        "bruck": barrier.bruck,
        "tree": barrier.tree,
    },
    "bcast": {
        "linear": bcast.linear,
        "chain": bcast.chain,
        "pipeline": bcast.pipeline,
        "split_binary_tree": bcast.split_binary_tree,
        "binary_tree": bcast.binary_tree,
        "binomial": bcast.binomial,
        "knomial": bcast.knomial,
        "scatter_allgather": bcast.scatter_allgather,
        "scatter_allgather_ring": bcast.scatter_allgather_ring,
    },
    "reduce": {
        "linear": reduce.linear,
        "chain": reduce.chain,
        "binary": reduce.binary,
        "binomial": reduce.binomial,
        "in_order_binary": reduce.in_order_binary,
        "rabenseifner": reduce.rabenseifner,
    },
    "allreduce": {
        "linear": allreduce.linear,
        "nonoverlapping": allreduce.nonoverlapping,
        "recursive_doubling": allreduce.recursive_doubling,
        "ring": allreduce.ring,
        "segmented_ring": allreduce.segmented_ring,
        "rabenseifner": allreduce.rabenseifner,
    },
    "gather": {**_LINEAR_GATHER, "binomial": gather.binomial},
    "gatherv": _LINEAR_GATHER,
    "scatter": {**_LINEAR_SCATTER, "binomial": scatter.binomial},
    "scatterv": _LINEAR_SCATTER,
    "allgather": _ALLGATHER,
    "allgatherv": _ALLGATHER,
    "alltoall": {**_ALLTOALLV, "bruck": alltoall.bruck},
    "alltoallv": _ALLTOALLV,
    "alltoallw": _ALLTOALLV,
    "reduce_scatter": _REDUCE_SCATTER,
    "reduce_scatter_block": _REDUCE_SCATTER,
    "scan": {"linear": scan.scan_linear, "recursive_doubling": scan.scan_recursive_doubling},
    "exscan": {"linear": scan.exscan_linear, "recursive_doubling": scan.exscan_recursive_doubling},
}

# Substitutes for algorithms that would change the order of operands of a non-commutative operation.
_IN_ORDER: Mapping[str, tuple[str, frozenset[str]]] = {
    "reduce": ("in_order_binary", frozenset({"linear", "in_order_binary"})),
    "allreduce": ("recursive_doubling", frozenset({"linear", "nonoverlapping", "recursive_doubling"})),
    "reduce_scatter": ("butterfly", frozenset({"nonoverlapping", "recursive_doubling", "butterfly"})),
    "reduce_scatter_block": ("butterfly", frozenset({"nonoverlapping", "recursive_doubling", "butterfly"})),
}


@lru_cache(maxsize=1)
def _rules() -> dict[str, dict[str, Any]]:
    """Read Open MPI's decision rules, on first use."""
    text = Path(__file__).with_name("ompi_tuned.json").read_text(encoding="utf-8")
    operations: dict[str, dict[str, Any]] = json.loads(text)["operations"]
    return operations


def _first_row(rows: list[Any], value: int) -> Any:
    """Return the second item of the first row whose bound is above `value` (None: no bound)."""
    return next(row[1] for row in rows if row[0] is None or value < row[0])


@lru_cache(maxsize=4096)
def choose_name(
    operation: str, comm_size: int, size_bytes: int = 0, commutative: bool = True, preference: str = TUNED
) -> str:
    """Return the name of the algorithm for one collective call.

    Parameters and errors as for `choose`.
    """
    names = REGISTRY[operation]
    if preference == TUNED:
        rules = _rules().get(operation)
        if rules is None:
            return "linear"
        rows = rules["commutative"] if commutative else rules.get("ordered", rules["commutative"])
        name: str = rules["names"][str(_first_row(_first_row(rows, comm_size), size_bytes))]
        return name
    if preference not in names:
        near = close_match(preference, [*names, TUNED])
        hint = f"; did you mean {near!r}?" if near else ""
        raise ConfigError(f"{operation} has no algorithm {preference!r}{hint} It has: {TUNED}, {', '.join(names)}")
    if not commutative and operation in _IN_ORDER:
        stand_in, ordered = _IN_ORDER[operation]
        return preference if preference in ordered else stand_in
    return preference


@lru_cache(maxsize=4096)
def choose(
    operation: str, comm_size: int, size_bytes: int = 0, commutative: bool = True, preference: str = TUNED
) -> Algorithm:
    """Return the function that runs one collective call.

    All ranks of a call must pass the same arguments, else they run different algorithms.

    The `operation` is a key of `REGISTRY`: ``"bcast"``, ``"allgatherv"``, ... `size_bytes` is the size that Open MPI's
    rules use: the whole vector for bcast, reduce and allreduce; one rank's block for gather, scatter, allgather,
    alltoall and reduce_scatter_block; the mean block (total // ranks) for allgatherv; all blocks together for
    reduce_scatter. The others do not use it. `commutative` tells whether the operands may be swapped; if not, the
    algorithm preserves rank order in any case. The `preference` is ``"tuned"``, or the name of an algorithm. Raises a
    `ConfigError` if the operation has no such algorithm.
    """
    name = choose_name(operation, comm_size, size_bytes, commutative, preference)
    algorithm = REGISTRY[operation][name]
    if algorithm is allreduce.nonoverlapping:
        return reduce_then_bcast(
            choose("reduce", comm_size, size_bytes, commutative), choose("bcast", comm_size, size_bytes)
        )
    if algorithm is reduce_scatter.nonoverlapping:
        block = operation == "reduce_scatter_block"
        whole_bytes = size_bytes * comm_size if block else size_bytes
        return _made_of(
            algorithm,
            reduce=choose("reduce", comm_size, whole_bytes, commutative),
            scatter=choose("scatter", comm_size, size_bytes) if block else scatter.linear,
        )
    if algorithm is allgather.linear:
        return _made_of(
            algorithm,
            gather=choose("gather", comm_size, size_bytes) if operation == "allgather" else gather.linear,
            bcast=choose("bcast", comm_size, size_bytes * comm_size),
        )
    return algorithm


@lru_cache(maxsize=256)
def _made_of(algorithm: Algorithm, **parts: Algorithm) -> Algorithm:
    """Return an algorithm bound to its parts, as one object for all sizes."""
    return partial(algorithm, **parts)


@lru_cache(maxsize=256)
def reduce_then_bcast(reduction: Algorithm, broadcast: Algorithm) -> Algorithm:
    """Return `allreduce.nonoverlapping` with its two parts bound: hot path.

    A `partial` would do, but is called through C, and every C frame is part of the stack that a switch of ranks copies.
    """

    def nonoverlapping(ch: Channel, data: bytes, fold: Fold) -> bytes:
        result: bytes = broadcast(ch, reduction(ch, data, fold, 0), 0, len(data))
        return result

    # The attributes of an equivalent `partial`.
    vars(nonoverlapping).update(func=allreduce.nonoverlapping, keywords={"reduce": reduction, "bcast": broadcast})
    return nonoverlapping


_NAMES = {algorithm: name for known in REGISTRY.values() for name, algorithm in known.items() if name != "two_proc"}


def title(algorithm: Algorithm | str | None) -> str:
    """Return the name of an algorithm in tables: its name in `REGISTRY`, with those of its parts.

    Algorithms that are not in `REGISTRY` belong to FTCO. A str is returned as it is, and None as an empty name.
    """
    if algorithm is None or isinstance(algorithm, str):
        return algorithm or ""
    parts = getattr(algorithm, "keywords", None)
    if parts is None:
        return _NAMES.get(algorithm, FTCO)
    whole: Any = algorithm
    return f"{title(whole.func)} ({', '.join(f'{part} {title(each)}' for part, each in parts.items())})"
