"""Random numbers differ between ranks, and are the same in every run with one seed."""

import os
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.process.launch import launch, simulated, write

SOURCES = {
    "random": "import random; value = random.random()",
    "random.Random": "import random; value = random.Random().getrandbits(60)",
    "random.SystemRandom": "import random; value = random.SystemRandom().random()",
    "numpy.random": "import numpy; value = numpy.random.rand()",
    "RandomState": "import numpy; value = numpy.random.RandomState().rand()",
    "default_rng": "import numpy; value = numpy.random.default_rng().random()",
    "os.urandom": "import os; value = os.urandom(8)",
    "secrets": "import secrets; value = secrets.token_hex(8)",
    "uuid": "import uuid; value = uuid.uuid4()",
}


def drawn(source: str, *, seed: int, shards: int = 1) -> list[str]:
    code = f"from mpi4py import MPI; {source}; print(value)"
    return simulated(code, kind="code", ranks=3, seed=seed, shards=shards).lines


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_entropy_comes_from_the_seed_and_the_rank(source: str):
    first = drawn(source, seed=1)
    assert len(set(first)) == 3
    assert drawn(source, seed=1) == first
    assert sorted(drawn(source, seed=1, shards=2)) == sorted(first)
    assert not set(drawn(source, seed=2)) & set(first)


def test_temporary_files_have_the_same_names_in_each_run_however_ranks_take_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", None)  # as at first
    code = """
from mpi4py import MPI
import tempfile
for turn in range(2):
    print(MPI.COMM_WORLD.rank, turn, tempfile.mktemp())
    MPI.COMM_WORLD.Barrier()
"""
    runs = [simulated(code, kind="code", ranks=2, **way) for way in ({}, {}, {"isolation": "process"})]
    assert len(set(runs[0].lines)) == 4
    assert [sorted(run.lines) for run in runs] == [sorted(runs[0].lines)] * 3
    assert len({run.result.digest for run in runs}) == 1


def test_seeded_generators_are_as_everywhere(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import random, numpy
        random.seed(rank)
        numpy.random.seed(rank)
        comm.Barrier()
        print(random.randint(0, 10**9), numpy.random.randint(10**9), random.Random(5).random(),
              numpy.random.default_rng(7).random())
        """,
        ranks=3,
    )
    expected = []
    for rank in range(3):
        drawn_int = random.Random(rank).randint(0, 10**9)
        numpy_int = np.random.RandomState(rank).randint(10**9)
        expected.append(f"{drawn_int} {numpy_int} {random.Random(5).random()} {np.random.default_rng(7).random()}")
    assert done.lines == expected


def test_one_rank_s_drawing_does_not_move_another_s_generator(tmp_path: Path):
    text = """
        import random, numpy
        random.seed(1); numpy.random.seed(1)
        for _ in range({draws} if rank else 1):
            random.random(); numpy.random.rand()
        comm.Barrier()
        if rank == 0: print(random.random(), numpy.random.rand())
        """
    few, many = (launch(tmp_path, text.format(draws=draws), ranks=2).lines for draws in (1, 100))
    assert few == many


def test_state_can_be_saved_and_restored(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import random, numpy
        state, numpy_state = random.getstate(), numpy.random.get_state()
        first = random.gauss(0, 1), numpy.random.normal()
        random.setstate(state); numpy.random.set_state(numpy_state)
        print(first == (random.gauss(0, 1), numpy.random.normal()))
        """,
        ranks=2,
    )
    assert done.lines == ["True", "True"]


DRAWING = """
import os
import random
from uuid import uuid4
import numpy as np

def draw():
    return [random.random(), np.random.random(), os.urandom(2).hex(), uuid4().hex[:4], random.Random().random()]

TOKENS = draw()
"""


@pytest.mark.parametrize("others", ["", "import also_draws\n"])
def test_what_a_shared_module_draws_while_it_is_imported_moves_no_generator_of_a_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: str
):
    """Greenlets, of which one imports it for all, and processes draw the same, also if it is imported before them."""
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    write(tmp_path, {"site-packages/draws.py": DRAWING, "site-packages/also_draws.py": DRAWING})
    rank = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"
    seen = []
    for first, isolation in [("", "greenlets"), ("", "process"), ("sorted([])\n", "process")]:  # then in the processes
        text = f"{first}{others}import draws\n{rank}print(rank, draws.draw(), draws.TOKENS)\n"
        write(tmp_path, {"prog.py": text})
        seen.append(sorted(simulated(tmp_path / "prog.py", ranks=2, isolation=isolation).lines))
        for name in ("draws", "also_draws"):
            sys.modules.pop(name, None)
    assert seen[0] == seen[1] == seen[2]
    drawn, tokens = ({line.split("] ")[place] for line in seen[0]} for place in (0, 1))
    assert (len(tokens), len(drawn)) == (1, 2)
    alone = launch(tmp_path, f"draws = {{}}\nexec({DRAWING!r}, draws)\nprint(rank, draws['TOKENS'])\n", ranks=2)
    assert sorted(alone.lines) == sorted(f"{each}]" for each in drawn)


def global_generators() -> list[object]:
    numpy_state = np.random.mtrand._rand.get_state()[1].tolist()
    return [random.getstate(), numpy_state, random.random, np.random.__dict__["rand"], os.urandom]


def test_the_caller_s_generators_do_not_notice(tmp_path: Path):
    before = global_generators()
    launch(tmp_path, "import random, numpy; random.seed(9); random.random(); numpy.random.seed(9)", ranks=2)
    assert global_generators() == before
