"""Each algorithm takes the time, and sends the messages, that its own closed form says."""

from collections.abc import Callable
from math import ceil
from typing import Any

import pytest

from tests.mpi.collectives.toy_network import Matrices, Sums, ToyNetwork
from xsim_py.mpi.collectives import REGISTRY, neighbor

LATENCY = 1000
RANKS = [*range(1, 34), 48, 63, 64, 65, 96, 100, 127, 128, 129]
FEW_ELEMENTS = 3  # fewer than ranks in most cases

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
SAME = {"gatherv": "gather", "scatterv": "scatter", "allgatherv": "allgather", "alltoallv": "alltoall",
        "alltoallw": "alltoall", "reduce_scatter_block": "reduce_scatter"}


def test_every_algorithm_has_a_closed_form():
    registered = {(SAME.get(operation, operation), name) for operation, names in REGISTRY.items() for name in names}
    assert {pair for pair in registered if pair[1] not in ALIASES} == set(CLOSED_FORMS) | BY_ITSELF


def call(operation: str, name: str, ch: Any, *, elements: int = 0, root: int = 0) -> Any:
    """Run one algorithm with suitable arguments; vectors have `elements` elements of 4 bytes."""
    algorithm, p = REGISTRY[operation][name], ch.size
    vector, fold = bytes(4 * elements), Sums("i4")
    arguments: dict[str, tuple[Any, ...]] = {
        "barrier": (),
        "bcast": (vector if ch.rank == root else None, root, len(vector)),
        "reduce": (vector, fold, root),
        "allreduce": (vector, fold),
        "gather": (b"1234", root),
        "scatter": ([b"1234"] * p if ch.rank == root else None, root),
        "allgather": (b"1234", [4] * p),
        "alltoall": ([b"1234"] * p,),
        "reduce_scatter": ([b"1234"] * p, fold),
        "scan": (b"1234", fold),
        "exscan": (b"1234", fold),
    }
    return algorithm(ch, *arguments[operation])


def measure(p: int, operation: str, name: str, **arguments: int) -> tuple[float, int]:
    network = ToyNetwork(p, latency=LATENCY)
    network.run(lambda ch: call(operation, name, ch, **arguments))
    return max(network.times) / LATENCY, network.messages


@pytest.mark.parametrize(("operation", "name"), CLOSED_FORMS, ids=lambda value: value)
def test_time_and_messages_equal_the_closed_form(operation: str, name: str):
    time, messages = CLOSED_FORMS[operation, name]
    for p in RANKS:
        assert measure(p, operation, name, elements=p) == (time(p), messages(p)), p


@pytest.mark.parametrize(("operation", "name"), [pair for pair in CLOSED_FORMS if pair[0] in ("bcast", "reduce")])
def test_the_root_does_not_matter_to_a_tree(operation: str, name: str):
    time, messages = CLOSED_FORMS[operation, name]
    for p in (1, 2, 6, 13, 16):
        for root in range(p):
            assert measure(p, operation, name, elements=p, root=root) == (time(p), messages(p)), (p, root)


def test_in_order_binary_reduce_takes_one_step_more_to_another_root():
    for p in RANKS:
        for root in {0, p // 2, p - 1}:
            more = root != p - 1
            assert measure(p, "reduce", "in_order_binary", root=root) == (floor_log2(p) + more, p - 1 + more)


def test_rabenseifner_reduce_at_every_root():
    for p in [*range(2, 34), 48, 63, 65]:
        k, r = floor_log2(p), extra(p)
        for root in range(p):
            dropped_out = root < 2 * r and root % 2 == 1
            virtual = root - r if root >= 2 * r else 0 if dropped_out else root // 2
            nearest = min(((virtual ^ low).bit_count() for low in range(r)), default=2)
            steps = 2 * k + max(0, 2 - nearest)
            messages = 3 * r + k * 2**k + 2**k - 1 + dropped_out
            assert measure(p, "reduce", "rabenseifner", elements=p, root=root) == (steps, messages), (p, root)


@pytest.mark.parametrize(
    ("operation", "name", "before"), [("bcast", "scatter_allgather", 1), ("reduce_scatter", "recursive_doubling", 0)]
)
def test_recursive_doubling_that_hands_blocks_on(operation: str, name: str, before: int):
    for p in RANKS[1:]:
        k, least = floor_log2(p), before * floor_log2(p) + ceil_log2(p)
        most = (before + 2) * k if extra(p) else (before + 1) * k
        time, messages = measure(p, operation, name, elements=p)
        assert messages == before * (p - 1) + subtree_messages(p)
        assert least <= time <= most
        if p == 2**k + 1:
            assert time == most
        if p in (3, 6, 12, 24, 48, 96):
            assert time == least


def test_few_elements_take_the_fallback_of_open_mpi():
    for p in RANKS[5:]:
        for operation in ("reduce", "allreduce"):
            linear = measure(p, operation, "linear", elements=FEW_ELEMENTS)
            assert measure(p, operation, "rabenseifner", elements=FEW_ELEMENTS) == linear
        doubled = measure(p, "allreduce", "recursive_doubling", elements=FEW_ELEMENTS)
        assert measure(p, "allreduce", "ring", elements=FEW_ELEMENTS) == doubled
        few = measure(p, "bcast", "linear", elements=0)
        assert measure(p, "bcast", "scatter_allgather", elements=0) == few
        assert measure(p, "bcast", "scatter_allgather_ring", elements=0) == few
        assert measure(p, "bcast", "split_binary_tree", elements=0) == measure(p, "bcast", "chain")


def test_segments_cost_messages_but_no_time_without_bandwidth():
    for p in (1, 2, 5, 12):
        network = ToyNetwork(p, latency=LATENCY)
        data = bytes(95)
        network.run(lambda ch, data=data: REGISTRY["bcast"]["pipeline"](ch, data, 0, len(data), 10))
        assert (max(network.times) / LATENCY, network.messages) == (p - 1, 10 * (p - 1))


def test_segmented_ring_takes_one_more_pass_for_each_segment():
    for p in (2, 5, 12):
        for segments in (2, 3):
            network = ToyNetwork(p, latency=LATENCY)
            vector = bytes(4 * 10 * segments * p)
            network.run(lambda ch, v=vector: REGISTRY["allreduce"]["segmented_ring"](ch, v, Sums("i4"), 40))
            steps = (segments + 1) * (p - 1)
            assert (max(network.times) / LATENCY, network.messages) == (steps, p * steps)


def test_a_binomial_broadcast_with_sender_overhead_obeys_logp():
    """Rank v is reached after bits(v) overheads and ones(v) latencies."""
    for p in RANKS:
        network = ToyNetwork(p, latency=LATENCY, overhead=70)
        network.run(lambda ch: call("bcast", "binomial", ch))
        reached = [v.bit_length() * 70 + v.bit_count() * LATENCY for v in range(p)]
        sends = [sum(1 for j in range(v.bit_length(), 8) if v + 2**j < p) for v in range(p)]
        assert network.times == [time + 70 * count for time, count in zip(reached, sends, strict=True)]


def test_a_linear_broadcast_with_sender_overhead_is_serial():
    for p in (2, 9, 33):
        network = ToyNetwork(p, latency=LATENCY, overhead=70)
        network.run(lambda ch: call("bcast", "linear", ch))
        assert network.times == [70 * (p - 1), *(70 * v + LATENCY for v in range(1, p))]


def test_a_neighbourhood_exchange_takes_one_latency():
    p = 12
    network = ToyNetwork(p, latency=LATENCY)

    def ring(ch: Any) -> Any:
        sides = [(ch.rank - 1) % p, (ch.rank + 1) % p]
        return neighbor.allgather(ch, bytes([ch.rank]), sides, sides)

    blocks = network.run(ring)
    assert blocks == [[bytes([(v - 1) % p]), bytes([(v + 1) % p])] for v in range(p)]
    assert (set(network.times), network.messages) == ({LATENCY}, 2 * p)


def test_an_ordered_fold_costs_the_same_as_one_that_commutes():
    for p in (5, 8):
        network = ToyNetwork(p, latency=LATENCY)
        network.run(lambda ch: REGISTRY["allreduce"]["recursive_doubling"](ch, b"abcd", Matrices()))
        assert max(network.times) / LATENCY == doubling(p)
