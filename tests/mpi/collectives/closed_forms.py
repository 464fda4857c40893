"""The closed forms of the collective algorithms: steps of one latency each, and messages, for p ranks.

They hold for vectors of at least p elements, where nothing but the latency costs time.
"""

from collections.abc import Callable
from math import ceil

from tests.campaign import CAMPAIGN

RANKS = [*range(1, 34), 48, 63, 64, 65, 96, 100, 127, 128, 129] if CAMPAIGN else [*range(1, 14), 16, 17, 24, 31, 32, 33]

Form = Callable[[int], int]
Closed = tuple[Form, Form]


def floor_log2(p: int) -> int:
    return p.bit_length() - 1


def ceil_log2(p: int) -> int:
    return (p - 1).bit_length()


def extra(p: int) -> int:
    """How many ranks are beyond the power of two."""
    return p - 2 ** floor_log2(p)


def once(p: int) -> int:
    return int(p > 1)


def doubling(p: int) -> int:
    """Recursive doubling with the extra ranks folded in before and served after."""
    k, r = floor_log2(p), extra(p)
    return k if r == 0 else k + 1 if r <= 2**k // 2 else k + 2


def doubling_messages(p: int) -> int:
    return floor_log2(p) * 2 ** floor_log2(p) + 2 * extra(p)


def quaternary_digits(p: int) -> int:
    m = 0
    while (4 ** (m + 1) - 1) // 3 < p:
        m += 1
    return m


def split_binary(p: int) -> int:
    return floor_log2(p) + (p > 1 and (extra(p) > 0))


def subtree_messages(p: int) -> int:
    masks = [2**i for i in range(ceil_log2(p))]
    return sum(((v ^ mask) & -mask) < p for mask in masks for v in range(p))


def partner_messages(p: int) -> int:
    return sum(v ^ 2**i < p for i in range(ceil_log2(p)) for v in range(p))


def butterfly(p: int) -> int:
    k, r = floor_log2(p), extra(p)
    return k + int(p > 2) if r < 2 else k + 2


def butterfly_messages(p: int) -> int:
    k = floor_log2(p)
    return doubling_messages(p) + 2**k - 2 ** ceil(k / 2)


def rabenseifner_messages(p: int) -> int:
    return 2 * floor_log2(p) * 2 ** floor_log2(p) + 4 * extra(p)


def rabenseifner(p: int) -> int:
    return 2 * floor_log2(p) + (3 if extra(p) else 0)


def times(factor: int, form: Form) -> Form:
    return lambda p: factor * form(p)


def others(p: int) -> int:
    return p - 1


def everyone(p: int) -> int:
    return p * (p - 1)


CLOSED_FORMS: dict[tuple[str, str], Closed] = {
    ("barrier", "linear"): (times(2, once), times(2, others)),
    ("barrier", "double_ring"): (lambda p: 2 * p * once(p), lambda p: 2 * p * once(p)),
    ("barrier", "recursive_doubling"): (doubling, doubling_messages),
    ("barrier", "bruck"): (ceil_log2, lambda p: p * ceil_log2(p)),
    ("barrier", "tree"): (times(2, floor_log2), times(2, others)),
    ("bcast", "linear"): (once, others),
    ("bcast", "chain"): (others, others),
    ("bcast", "pipeline"): (others, others),
    ("bcast", "split_binary_tree"): (split_binary, times(2, others)),
    ("bcast", "binary_tree"): (floor_log2, others),
    ("bcast", "binomial"): (floor_log2, others),
    ("bcast", "knomial"): (quaternary_digits, others),
    ("bcast", "scatter_allgather_ring"): (lambda p: floor_log2(p) + p - 1, lambda p: p - 1 + p * (p - 1)),
    ("reduce", "linear"): (once, others),
    ("reduce", "chain"): (others, others),
    ("reduce", "binary"): (floor_log2, others),
    ("reduce", "binomial"): (floor_log2, others),
    ("allreduce", "linear"): (times(2, once), times(2, others)),
    ("allreduce", "nonoverlapping"): (times(2, floor_log2), times(2, others)),
    ("allreduce", "recursive_doubling"): (doubling, doubling_messages),
    ("allreduce", "ring"): (times(2, others), times(2, everyone)),
    ("allreduce", "segmented_ring"): (times(2, others), times(2, everyone)),
    ("allreduce", "rabenseifner"): (rabenseifner, rabenseifner_messages),
    ("gather", "linear"): (once, others),
    ("gather", "binomial"): (floor_log2, others),
    ("gather", "linear_sync"): (times(2, others), times(2, others)),
    ("scatter", "linear"): (once, others),
    ("scatter", "linear_nb"): (once, others),
    ("scatter", "binomial"): (floor_log2, others),
    ("allgather", "linear"): (times(2, once), times(2, others)),
    ("allgather", "bruck"): (ceil_log2, lambda p: p * ceil_log2(p)),
    ("allgather", "recursive_doubling"): (ceil_log2, lambda p: p * ceil_log2(p)),
    ("allgather", "ring"): (others, everyone),
    ("allgather", "neighbor"): (
        lambda p: p - 1 if p % 2 else p // 2,
        lambda p: everyone(p) if p % 2 else p * p // 2,
    ),
    ("alltoall", "linear"): (once, everyone),
    ("alltoall", "linear_sync"): (lambda p: ceil((p - 1) / 32), everyone),
    ("alltoall", "pairwise"): (others, everyone),
    ("alltoall", "bruck"): (ceil_log2, lambda p: p * ceil_log2(p)),
    ("reduce_scatter", "nonoverlapping"): (lambda p: floor_log2(p) + once(p), times(2, others)),
    ("reduce_scatter", "recursive_halving"): (doubling, doubling_messages),
    ("reduce_scatter", "ring"): (others, everyone),
    ("reduce_scatter", "butterfly"): (butterfly, butterfly_messages),
    ("scan", "linear"): (others, others),
    ("scan", "recursive_doubling"): (ceil_log2, partner_messages),
    ("exscan", "linear"): (others, others),
    ("exscan", "recursive_doubling"): (ceil_log2, partner_messages),
}
BY_ITSELF = {  # their time depends on more than p, or is known for some p only: tests of their own
    ("bcast", "scatter_allgather"),
    ("reduce", "in_order_binary"),
    ("reduce", "rabenseifner"),
    ("reduce_scatter", "recursive_doubling"),
}
ALIASES = {"two_proc"}
SAME = {
    "gatherv": "gather",
    "scatterv": "scatter",
    "allgatherv": "allgather",
    "alltoallv": "alltoall",
    "alltoallw": "alltoall",
    "reduce_scatter_block": "reduce_scatter",
}
