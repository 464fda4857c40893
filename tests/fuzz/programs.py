"""Random programs, drawn from the domains of the steps' arguments."""

from typing import Any

from hypothesis import strategies as st

from tests.fuzz.steps import STEPS
from tests.fuzz.types import PLAIN, STRUCTS

LEAVES = st.integers(0, 3).map(lambda variant: ["leaf", variant])
SMALL = st.integers(1, 3)
GAPS = st.lists(st.integers(0, 3), min_size=1, max_size=3)

INDEXED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=3)


def _indexed(blocks: list[tuple[int, int]], backwards: bool, inner: Any) -> tuple[Any, ...]:
    lengths, gaps = (list(part) for part in zip(*blocks, strict=True))
    lengths[0] = lengths[0] or 1  # bounds of types without elements are a matter of taste
    return "indexed", lengths, gaps, backwards, inner


def _wrapped(inner: Any) -> Any:
    return st.one_of(
        st.tuples(st.just("contiguous"), SMALL, inner),
        st.tuples(st.just("vector"), SMALL, SMALL, st.integers(0, 2), inner),
        st.tuples(st.just("hvector"), SMALL, SMALL, st.integers(0, 2), inner),
        st.builds(_indexed, INDEXED, st.booleans(), inner),
        st.tuples(st.just("blocks"), SMALL, GAPS, inner),
        st.tuples(st.just("subarray"), SMALL, st.integers(0, 2), st.integers(0, 2), inner),
        st.tuples(st.just("struct"), st.just(1), st.integers(0, 2), st.integers(0, 2), inner),
        st.tuples(st.just("resized"), st.integers(0, 2), inner),
        st.tuples(st.just("dup"), inner),
    ).map(list)  # fmt: skip


LEAF = st.just(["leaf", 0])
SHAPES = st.one_of(LEAF, LEAF, LEAVES, _wrapped(LEAVES), _wrapped(_wrapped(LEAVES)))
BASES = st.one_of(st.sampled_from(PLAIN), st.sampled_from(STRUCTS))


def _domain(what: Any) -> Any:
    if what == "base":
        return BASES
    if what == "shape":
        return SHAPES
    if isinstance(what, int):
        return st.integers(0, what - 1)
    return st.sampled_from(what)


def _one(name: str) -> Any:
    domains = STEPS[name][1]
    return st.fixed_dictionaries({"do": st.just(name), **{key: _domain(what) for key, what in domains.items()}})


# Some kinds have more to go wrong in, and are drawn more often.
OFTEN = {
    "message": 5,
    "exchange": 3,
    "shifted": 2,
    "communicator": 3,
    "blocks": 3,
    "uneven": 3,
    "reduction": 5,
    "bcast": 2,
}
NAMES = [name for name in STEPS for _ in range(OFTEN.get(name, 1))]


def programs(names: list[str] | None = None, *, most: int = 12) -> Any:
    """A number of ranks, and the steps they walk through."""
    steps = st.sampled_from(names or NAMES).flatmap(_one)
    return st.tuples(st.integers(2, 4), st.lists(steps, min_size=1, max_size=most))
