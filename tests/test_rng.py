"""Random streams: named, independent, and the same everywhere."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from xsim_py.rng import derive_seed, stream

NAMES = st.lists(st.text(max_size=5) | st.integers(), max_size=4).map(tuple)


def test_a_stream_is_the_same_in_every_process() -> None:
    program = "from xsim_py.rng import stream; print(stream(42, 'failure', 'rank', 17).random())"
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert answers == {f"{stream(42, 'failure', 'rank', 17).random()}\n"}


def test_the_seed_of_a_stream_does_not_change_between_versions() -> None:
    assert derive_seed(0) == 239606232355709118366850476343552795225
    assert derive_seed(42, "rank", 17) == 83519107930337664704821321669945405358


@given(st.integers(), st.integers(), NAMES, NAMES)
def test_different_names_or_seeds_give_different_streams(
    one: int, other: int, path: tuple[str | int, ...], way: tuple[str | int, ...]
) -> None:
    same = (one, *path) == (other, *way) and list(map(type, path)) == list(map(type, way))
    assert (derive_seed(one, *path) == derive_seed(other, *way)) == same


def test_names_are_not_run_together() -> None:
    assert (
        len({derive_seed(1, *path) for path in [("a", "b"), ("ab",), ("a", "b", ""), (1, 2), (12,), ("1", "2")]}) == 6
    )


def test_drawing_from_one_stream_leaves_the_others_alone() -> None:
    alone = stream(7, "b").random()
    first = stream(7, "a")
    second = stream(7, "b")
    first.random()
    assert second.random() == alone
