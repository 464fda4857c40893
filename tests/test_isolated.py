"""A run comes to the same in processes of their own, in all that can be seen of it: a sample, and in a campaign all."""

import gc
import os
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from tests.cases import ROOT
from tests.fuzz.programs import programs as random_programs
from tests.fuzz.simulated import MACHINES, simulated
from tests.isolated import LINKS, STORAGE, WAYS, Program, differences, large, programs, seen
from xsim_py import App, simulate
from xsim_py.errors import ConfigError
from xsim_py.isolation import Isolation
from xsim_py.vitals import TICK_S

SAMPLE = {
    "rma_mutex.n3-shmem": "process",
    "spawn.n3-links": "process:3",
    "io_shared.n4-storage": "process",
    "heat2d.traced-torus3d": "process:3",
    "heat2d.failing-gige": "process",
    "ring.restarted-storage": "process:3",
    "allreduce_loop.ulfm-links": "process",
    "heat2d.arrays": "process:3",
}
EVERY = [(program, way) for program in programs() for way in WAYS] + list(large())
CASES = EVERY if CAMPAIGN else [(program, way) for program, way in EVERY if SAMPLE.get(program.name) == way]


@pytest.mark.sampled
@pytest.mark.parametrize(("program", "way"), CASES, ids=str)
def test_processes_of_their_own_make_no_difference(program: Program, way: str):
    assert differences(program, way) == []


def test_the_sample_is_there():
    assert {program.name for program, _ in CASES} >= SAMPLE.keys()


@settings(max_examples=max(1, settings().max_examples // 20))
@given(random_programs(), st.sampled_from(sorted(MACHINES)), st.sampled_from(WAYS))
def test_random_programs_come_to_the_same(program: Any, machine: str, way: str):
    ranks, steps = program
    assert simulated(ranks, steps, machine, isolation=way) == simulated(ranks, steps, machine)


def adds(number: int) -> tuple[int, list[int]]:
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank + number, MPI.COMM_WORLD.allgather(number)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_function_returns_comes_back(way: str):
    result = simulate(adds, ranks=4, args=[10], isolation=way)
    assert result.values == [(10 + rank, [10] * 4) for rank in range(4)]
    assert (result.isolation, result.shards) == (way, {"process": 4, "process:3": 2}[way])
    assert result.digest == simulate(adds, ranks=4, args=[10]).digest


HASHES = "from mpi4py import MPI; import os; print(hash('a'), os.environ.get('PYTHONHASHSEED'))"


def test_each_new_interpreter_has_its_own_hash_seed_which_follows_from_the_seed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    once, again, other = (
        seen(Program("hashes", HASHES, {"kind": "code", "ranks": 2, "seed": seed}), isolation="spawn")["stdout"]
        for seed in (0, 0, 1)
    )
    assert once == again
    assert len({*once.splitlines(), *other.splitlines()}) == 4
    assert all(line.endswith(" 77") for line in once.splitlines())


def test_new_interpreters_make_no_other_difference():
    ending = "import os; from mpi4py import MPI; MPI.COMM_WORLD.rank == 2 and os._exit(3); MPI.COMM_WORLD.barrier()"
    names = ("spawn.n3-links", "io_shared.n4-storage") if CAMPAIGN else ("io_shared.n4-storage",)
    cases = [program for program in programs() if program.name in names]
    cases.append(Program("ends", ending, {"kind": "code", "ranks": 4, "args": ["x"]}))
    assert {program.name: differences(program, "spawn:2") for program in cases} == {str(each): [] for each in cases}


@pytest.mark.parametrize(("program", "also", "said"), [
    (print, {}, "cannot pass this program to a new interpreter: a function exists in one interpreter only"),
    ([App(print, 2)], {}, "cannot pass this program to a new interpreter: a function exists in one interpreter only"),
    ("1", {"kind": "code", "restart": "on-abort"}, "restart: cannot be combined with isolation spawn"),
])  # fmt: skip
def test_what_a_new_interpreter_cannot_do_is_refused(program: Any, also: dict[str, str], said: str):
    with pytest.raises(ConfigError, match=said):
        simulate(program, ranks=2, isolation="spawn", **also)


def odd() -> Any:
    from mpi4py import MPI

    return threading.Lock() if MPI.COMM_WORLD.rank == 1 else 0


def test_a_value_that_cannot_leave_its_process_is_named():
    with pytest.raises(ConfigError, match=r"what the function returned on rank 1 cannot leave its process: .*lock"):
        simulate(odd, ranks=2, isolation="process")


def test_native_processes_go_on_beside_ranks_of_other_processes():
    def ticks(env: Any) -> Any:
        for _ in range(3):
            yield env.timeout(3_000_000)
            seen.append(env.now)

    seen: list[int] = []
    simulate("import time; time.sleep(7e-6)", kind="code", ranks=2, background=[ticks], isolation="process")
    assert seen[:2] == [3_000_000, 6_000_000]


def works(number: int) -> int:
    from mpi4py import MPI

    until = os.times().elapsed + 2.5 * TICK_S
    while os.times().elapsed < until:
        number = (number * 7) % 1009
    return MPI.COMM_WORLD.allreduce(1)


def test_it_works_in_a_thread_of_the_caller():
    """For longer than it takes until a process looks after itself."""
    ended: list[str] = []
    thread = threading.Thread(
        target=lambda: ended.append(simulate(works, ranks=2, args=[3], isolation="process").ended)
    )
    thread.start()
    thread.join()
    assert ended == ["finished"]


@pytest.mark.parametrize("overrides", [{}, LINKS, STORAGE], ids=["plain", "links", "storage"])
def test_nobody_is_started_where_the_coordinator_is(overrides: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """On nodes where nobody is yet, and there are no processes for later where something is common to all."""
    homes: list[int] = []
    prepare = Isolation.prepare
    monkeypatch.setattr(Isolation, "prepare", lambda self, told: homes.extend(told) or prepare(self, told))
    done = seen(Program("spawn", ROOT / "tests/programs/spawn.py", {"ranks": 2, "set": overrides}), isolation="process")
    assert (done["ended"], done["exit_status"]) == ("finished", 0)
    assert homes[:3] == [[3, 4, 5], [1, 2, 1]][bool(overrides)]
    assert 0 not in homes


SHARING = """
import numpy, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
window = MPI.Win.Allocate_shared(8, 8, comm=comm)
seen = numpy.frombuffer(window.Shared_query(0)[0], "i8")
print(comm.rank, "finds", seen[0])
comm.Barrier()
if comm.rank == 0:
    seen[0] = 7
time.sleep(1e-3)
comm.Barrier()
print(comm.rank, "has", seen[0])
window.Free()
"""


def test_a_job_that_is_started_again_finds_its_shared_memory_empty():
    again = {"kind": "code", "ranks": 3, "machine": "shmem", "fail": ["rank=1@500us"], "restart": "on-abort"}
    program = Program("sharing", SHARING, again)
    assert differences(program, "process:2") == []
    assert seen(program, isolation="process")["stdout"].count("finds 0") == 6


def test_a_run_leaves_no_cycles_behind():
    """Python's garbage collector would find them late."""

    def objects() -> int:
        simulate(adds, ranks=2, args=[1], isolation="process")
        return len(gc.get_objects())

    objects()
    gc.collect()
    gc.disable()
    try:
        before = objects()
        assert objects() - before < 250
    finally:
        gc.enable()


def test_too_many_processes_are_refused():
    with pytest.raises(ConfigError, match=r"isolation: 5,000 processes are more than 1,024; .* as in process:5"):
        simulate("pass", kind="code", ranks=5000, isolation="process")


def test_a_rank_that_makes_imports_impossible_harms_itself_only():
    def breaks(word: str) -> str:
        import builtins
        import sys

        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 0:
            builtins.__import__ = None  # type: ignore[assignment]
            if word == "modules":
                sys.modules.clear()
        MPI.COMM_WORLD.Barrier()
        MPI.COMM_WORLD.sendrecv([1], 1 - MPI.COMM_WORLD.rank)
        return f"{word} {builtins.__import__ is None}"

    for word in ("import", "modules"):
        result = simulate(breaks, ranks=2, args=[word], isolation="process")
        assert (result.ended, result.values) == ("finished", [f"{word} True", f"{word} False"]), result.report
