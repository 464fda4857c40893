"""Each algorithm takes the time, and sends the messages, that its own closed form says."""

from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from tests.mpi.collectives.closed_forms import (
    ALIASES,
    BY_ITSELF,
    CLOSED_FORMS,
    RANKS,
    SAME,
    ceil_log2,
    doubling,
    extra,
    floor_log2,
    subtree_messages,
)
from tests.mpi.collectives.toy_network import Matrices, Sums, ToyNetwork
from xsim_py.mpi.collectives import REGISTRY, neighbor

LATENCY = 1000
FEW_ELEMENTS = 3  # fewer than ranks in most cases


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


@pytest.mark.sampled
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
    for p in [*range(2, 34), 48, 63, 65] if CAMPAIGN else [*range(2, 14), 17, 24]:
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
