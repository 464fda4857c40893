"""What is said of algorithms that go by others is what they do."""

import sys
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tests.mpi.collectives.toy_network import Sums
from xsim_py.mpi.collectives import REGISTRY, bcast
from xsim_py.mpi.collectives.choose import choose, reduce_then_bcast, title
from xsim_py.mpi.collectives.substitutes import SUBSTITUTES, final

EVERY = {algorithm for algorithms in REGISTRY.values() for algorithm in algorithms.values()}
UNIT = 4


class WentOn(Exception):
    """The algorithm has called another, or has begun to communicate by itself (None)."""


def runs(algorithm: Any, patch: pytest.MonkeyPatch, size: int, elements: int) -> Any:
    """Which algorithm sends the first message of rank 0."""

    def stop(other: Any) -> NoReturn:
        raise WentOn(other)

    module = sys.modules[algorithm.__module__]
    data, fold = bytes(UNIT * elements), Sums("i4")
    kind = module.__name__.rpartition(".")[2]
    arguments = {
        "allreduce": (data, fold),
        "reduce": (data, fold, 0),
        "bcast": (data, 0, len(data)),
        "allgather": (data, [len(data)] * size),
    }[kind]
    talk: Any = {name: lambda *_: stop(None) for name in ("send", "recv", "sendrecv", "isend", "irecv", "wait")}
    with patch.context() as patched:
        for name, other in list(vars(module).items()):
            if callable(other) and other in EVERY and other is not algorithm:
                patched.setattr(module, name, lambda *_, other=other: stop(other))
        try:
            algorithm(SimpleNamespace(rank=0, size=size, **talk), *arguments)
        except WentOn as went:
            if went.args[0] is not None:
                found = went.args[0]
                return runs(found, patch, size, elements) if found in SUBSTITUTES else found
    return algorithm


@pytest.mark.parametrize(
    "algorithm", SUBSTITUTES, ids=lambda algorithm: f"{algorithm.__module__[-9:]}.{algorithm.__name__}"
)
def test_an_algorithm_that_goes_by_another_is_known_to(algorithm: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("xsim_py.mpi.collectives.allreduce.RING_SEGMENT_BYTES", 8)
    monkeypatch.setattr("xsim_py.mpi.collectives.allreduce.segmented_ring.__defaults__", (8,))
    for size in (1, 2, 3, 4, 7, 8, 9):
        for elements in (0, 1, 2, 3, 4, 7, 8, 9, 30):
            expected = runs(algorithm, monkeypatch, size, elements)
            assert final(algorithm, size, UNIT * elements, UNIT) is expected, (size, elements)


def test_algorithms_that_go_by_none_are_what_they_are():
    assert final(bcast.knomial, 7, 1) is bcast.knomial


def test_an_algorithm_has_a_title_with_its_parts():
    assert title(REGISTRY["allgather"]["two_proc"]) == "ring"
    assert title(choose("allgather", 64, 8, preference="linear")) == "linear (gather binomial, bcast knomial)"
    parts = REGISTRY["reduce"]["chain"], REGISTRY["bcast"]["linear"]
    assert title(reduce_then_bcast(*parts)) == "nonoverlapping (reduce chain, bcast linear)"
    assert [title(name) for name in ("inter", None)] == ["inter", ""]


def test_an_algorithm_made_of_others_is_one_object_for_all_sizes():
    """They are keys of the table of collectives, which must not grow with the sizes that occur."""
    assert len({choose("reduce_scatter_block", 64, size, preference="nonoverlapping") for size in range(900, 999)}) == 1
