"""The page that says what is patched of Python's library says it of all that runs patch, and of nothing else."""

import importlib
from functools import cache, reduce
from itertools import product

import pytest

from tests.process.patch_table import KINDS, PAGE, REAL, RUNS, entries, page, recorded, split
from xsim_py.process.python.randomness import _of_numpy

FACE = {*product(("xsim_py.mpi4py", "xsim_py.mpi4py.MPI"), ("name", "__package__", "__name__"))}
"""The package takes mpi4py's name, and its module that of MPI."""

Names = set[tuple[str, str]]


@cache
def patched() -> dict[str, Names]:
    """What is there to be patched, and what runs of each kind patch."""
    return {way: {(place, name) for place, name in found} for way, found in recorded().items()}


def of_tables() -> Names:
    return {(entry.place, entry.name) for entry in entries()}


def of_simulator(names: Names) -> Names:
    return {each for each in names if each[0].startswith(("xsim_py.", "mpi4py."))}


@pytest.mark.parametrize("way", RUNS)
def test_a_run_patches_only_what_stands_in_the_tables(way: str):
    ((numpy, _, names),) = _of_numpy()
    others = patched()[way] - of_tables() - {(numpy, name) for name in names}
    assert others == of_simulator(others)


@pytest.mark.parametrize("way", RUNS)
def test_a_run_patches_nothing_of_the_simulator_itself(way: str):
    assert of_simulator(patched()[way]) <= FACE


def test_all_that_stands_in_the_tables_is_patched():
    assert patched()["there"] - set().union(*(patched()[way] for way in RUNS)) == set()


def test_only_a_storage_makes_a_run_patch_more_of_the_library():
    for way in RUNS.keys() - {"plain", "storage"}:
        more = patched()[way] - patched()["plain"]
        assert more == of_simulator(more)


def test_the_page_is_the_generated_one():
    written = split(PAGE.read_text(encoding="utf-8"))[1]
    assert written == f"\n{page()}\n", "python -m tests.process.patch_table --write puts it right"


def test_each_entry_says_what_a_rank_finds_there():
    assert {entry.finds.partition(":")[0] for entry in entries()} <= set(KINDS)


@pytest.mark.parametrize("name", REAL)
def test_what_the_page_says_is_real_is_there_and_is_not_patched(name: str):
    module, _, rest = name.partition(".")
    while rest and not hasattr(importlib.import_module(module), rest.split(".")[0]):
        inner, _, rest = rest.partition(".")
        module += f".{inner}"
    assert reduce(getattr, rest.split("."), importlib.import_module(module)) is not None
    assert tuple(name.rpartition(".")[::2]) not in of_tables()
