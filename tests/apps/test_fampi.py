"""TryBlocks, and the solver that works in them."""

import io
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.apps.helpers import APPS, simulated
from tests.campaign import SHARDS, dealt
from xsim_py import simulate

PREAMBLE = f"""
import sys, time
sys.path.insert(0, {str(APPS)!r})
import numpy as np
import recovery
from mpi4py import MPI
from tryblock import TryBlock
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
"""
LATENCY_ONLY = {"network.bandwidth": "unlimited", "mpi.ulfm.agree": "early_returning"}
LATENCY_US = 20


def printed(code: str, ranks: int, **told: object) -> list[str]:
    """What the ranks print, by rank."""
    stdout = io.StringIO()
    result = simulate(PREAMBLE + code, kind="code", ranks=ranks, ft=True, label=True, stdout=stdout, **told)
    assert result.ended == "finished", result.report
    lines = sorted((line.partition("] ") for line in stdout.getvalue().splitlines()), key=lambda it: int(it[0][1:]))
    return [text for _, _, text in lines]


# ----------------------------------------------------------------------------------------------------------- tryblock


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 8, 16, 33])
def test_a_block_costs_one_agreement(ranks: int):
    times = "begin = MPI.Wtime()\n{}\nprint(round((MPI.Wtime() - begin) * 1e6, 3))"
    block, agree = (
        printed(times.format(what), ranks, set=LATENCY_ONLY) for what in ("with TryBlock(comm): pass", "comm.Agree(1)")
    )
    assert block == agree
    assert max(map(float, block)) == 2 * (ranks.bit_length() - 1) * LATENCY_US


INJECTED = """
with TryBlock(comm) as block:
    if rank in {who}:
        block.inject({code})
print(*block.outcome, block.outcome.codes, block.origins())
"""


@pytest.mark.parametrize(("who", "code"), dealt([[[0]], [[3]], [[5]], [[1, 4]], [[33]]], [3, 17, 26]))
def test_an_error_of_one_is_known_to_all(who: list[int], code: int):
    ranks = 6 if max(who) < 6 else 40
    said = f"{1 << code} () True () [{code}] {{{code}: {who}}}"
    assert printed(INJECTED.format(who=who, code=code), ranks) == [said] * ranks


def test_a_flag_of_one_is_known_to_all_and_no_error():
    code = """
with TryBlock(comm) as block:
    if rank in (1, 3):
        block.flag(rank)
print(*block.outcome, block.outcome.ok)
"""
    assert printed(code, 5) == ["0 () True (1, 3) True"] * 5


def test_a_code_that_is_none_is_refused():
    code = "block = TryBlock(comm)\ntry:\n    block.inject(2)\nexcept ValueError as error:\n    print(error)"
    assert printed(code, 1) == ["2 is not a code from 3 to 26"]


SILENT = """
time.sleep(0.001 * rank)
with TryBlock(comm, timeout={timeout}) as block:
    here = block.irecv(np.zeros(1), source=(rank - 1) % size)
    if rank != 2:
        block.isend(np.zeros(1), dest=(rank + 1) % size)
    try:
        block.wait_local(here)
    finally:
        late_ns = round((MPI.Wtime() - block.deadline) * 1e9, 3)
        print(here.done, here.errors, -1 if late_ns < 0 else late_ns)
print(*block.outcome, block.outcome.timed_out)
"""


@pytest.mark.parametrize("timeout", [0.0105, 0.5, 20.0])
def test_a_timeout_comes_within_a_look_of_its_time(timeout: float):
    """A look takes 100 ns; who sleeps to the deadline looks once more."""
    lines = printed(SILENT.format(timeout=timeout), 4)
    assert lines[1::2] == ["4 () True () True"] * 4
    assert lines[6] == "False 4 100.0"
    assert [lines[0], lines[2], lines[4]] == ["True 0 -1"] * 3


DEAD = """
with TryBlock(comm, timeout={timeout}) as block:
    if rank == 2:
        recovery.die()
    for step in range(3):
        here = block.irecv(np.zeros(1), source=(rank - 1) % size)
        block.isend(np.zeros(1), dest=(rank + 1) % size)
        block.wait_local(here)
print(block.outcome.errors & 1, block.outcome.failed, block.outcome.sick)
"""


@pytest.mark.parametrize("timeout", [None, 1e-4, 1.0])
def test_after_a_death_nobody_waits_and_all_know(timeout: float | None):
    """With a timeout that is shorter than detection, the agreement finds out."""
    assert printed(DEAD.format(timeout=timeout), 9) == ["1 (2,) True"] * 8


NESTED = """
row = comm.Split(rank // 2)
with TryBlock(comm, timeout=1) as outer:
    with outer.nested(row) as first:
        if rank == 3:
            first.inject(9)
    first.handled = {handled}
    with outer.nested(timeout=5) as second:
        if rank == 0:
            second.inject(5)
    second.handled = {handled}
print(first.outcome.codes, second.outcome.codes, outer.outcome.codes, second.deadline == outer.deadline)
"""


@pytest.mark.parametrize(("handled", "left"), [(False, [5, 9]), (True, [])])
def test_errors_of_a_block_within_another_are_its_errors_unless_handled(handled: bool, left: list[int]):
    lines = printed(NESTED.format(handled=handled), 6)
    assert lines == [f"{[9] if rank in (2, 3) else []} [5] {left} True" for rank in range(6)]


def test_who_is_out_of_patience_has_no_consensus():
    code = """
if rank == 1:
    time.sleep(2)
with TryBlock(comm, patience=0.5) as block:
    pass
print(*block.outcome, block.outcome.ok)
"""
    none, consensus = "0 () False () False", "0 () True () True"
    assert printed(code, 4) == [none, consensus, none, none]


LEFT_LYING = """
there = np.full({length}, float(rank))
with TryBlock(comm, timeout=0.01) as block:
    if rank == 0:
        block.isend(there, dest=1)
    if rank == 1:
        time.sleep(0.1)
        block.irecv(np.zeros(1), source=2)
with TryBlock(comm, timeout=1.0) as again:
    if rank == 2:
        again.isend(there, dest=1)
    if rank == 1:
        here = again.irecv(there, source={source})
        again.wait_local(here)
        print(there[0])
print(block.outcome.timed_out, again.outcome.errors)
"""


@pytest.mark.parametrize("length", [1, 100_000])  # eager, and with a handshake
@pytest.mark.parametrize(("source", "came", "errors"), [("2", "2.0", 0), ("0", None, 4)])
def test_a_message_of_a_failed_block_is_not_received_in_another(length: int, source: str, came: str, errors: int):
    lines = printed(LEFT_LYING.format(length=length, source=source), 3)
    assert [line for line in lines if " " not in line] == ([came] if came else [])
    assert [line for line in lines if " " in line] == [f"True {errors}"] * 3


def test_other_exceptions_go_on():
    code = "try:\n    with TryBlock(comm):\n        1 / 0\nexcept ZeroDivisionError:\n    print('raised')"
    assert printed(code, 2) == ["raised"] * 2


# -------------------------------------------------------------------------------------------------------- mathematics


@pytest.fixture
def fampi(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(APPS))
    import fampi

    yield fampi
    for name in ("fampi", "tryblock", "recovery"):
        sys.modules.pop(name, None)


def test_the_stencil_is_that_of_assembled_elements(fampi):
    """Two points of Gauss along each axis are exact."""
    points = [(1 - 3**-0.5) / 2, (1 + 3**-0.5) / 2]
    stencil = np.zeros((3, 3, 3))
    corners = list(itertools.product((0, 1), repeat=3))
    for x in itertools.product(points, repeat=3):
        slopes = [
            [
                np.prod([(2 * corner[axis] - 1) if axis == d else abs(1 - corner[axis] - x[axis]) for axis in range(3)])
                for d in range(3)
            ]
            for corner in corners
        ]
        for (a, one), (b, other) in itertools.product(enumerate(corners), repeat=2):
            stencil[tuple(np.subtract(other, one) + 1)] += 36 / 8 * np.dot(slopes[a], slopes[b])
    np.testing.assert_allclose(fampi.STENCIL, stencil, atol=1e-12)
    assert fampi.STENCIL[1, 1, 1] == fampi.DIAGONAL


def test_modes_are_eigenvectors_and_the_closed_form_is_that_of_the_sweeps(fampi):
    box = fampi.Box(6, 3)
    every = range(6)
    for waves in [(1, 1, 1), (3, 2, 1), (6, 3, 3)]:
        mode = box.mode(waves, every)
        np.testing.assert_allclose(
            fampi.times_matrix(np.pad(mode, 1)), box.eigenvalue(waves) * mode, atol=1e-11, rtol=0
        )
    sweeps, u = fampi.serial(box, 0.0, 7, 21)
    np.testing.assert_allclose(u, box.after(sweeps, every), atol=1e-14, rtol=0)
    np.testing.assert_allclose(fampi.serial(box, 1e-11, 5, 1000)[1], box.solution(every), atol=1e-11, rtol=0)
    matrix = np.array([fampi.times_matrix(np.pad(e.reshape(6, 3, 3), 1)).ravel() for e in np.eye(54)])
    assert np.linalg.eigvalsh(matrix)[0] == pytest.approx(box.eigenvalue((1, 1, 1)))


# --------------------------------------------------------------------------------------------------------- the solver

SMALL = ("--nodes", 2, "--tolerance", 1e-2, "--block", 2)


def last(run) -> str:
    return run.out.splitlines()[-1]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("ranks", "recovery"),
    [(8, "backward"), (9, "forward"), (10, "forward"), (11, "backward"), (12, "backward"), (13, "forward")],
)
def test_the_default_is_right_on_any_number_of_ranks(ranks: int, recovery: str):
    run = simulated("fampi.py", "--recovery", recovery, ranks=ranks)
    assert (last(run), run.status, run.err) == ("right: True", 0, "")


SCENARIOS = [
    ([], ()),
    (["rank=2@700us"], ()),
    (["rank=0@500us", "rank=3 before its 1st Shrink"], ()),
    (["rank=1 before its 9th Isend"], ("--corrupt", "2@3")),
    ([], ("--stall", "0@3", "--timeout", 0.001, "--die", "4@5", "--corrupt", "1@1")),
]


@pytest.mark.sampled
@pytest.mark.parametrize("recovery", ["backward", "forward"])
@pytest.mark.parametrize(("fail", "options"), SCENARIOS)
def test_what_goes_wrong_changes_nothing_whatever_the_shards(recovery: str, fail: list[str], options: tuple):
    words, shards = ("--recovery", recovery, *SMALL, *options), SHARDS if options else (1, 3)
    runs = [simulated("fampi.py", *words, ranks=6, fail=fail, ft=True, shards=n) for n in shards]
    assert all(run == runs[0] for run in runs)
    assert [line for line in runs[0].out.splitlines() if line[0] != "#"][-2:] == [
        f"fampi: {recovery}, 48 nodes, largest error 1.6e-03" + (", 6 sweeps" if recovery == "backward" else ""),
        "right: True",
    ]
    assert runs[0].status == 0


def test_who_found_an_error_is_told_and_only_the_block_is_done_again():
    run = simulated("fampi.py", *SMALL, "--corrupt", "3@3", ranks=6)
    assert run.out.startswith("# repeat sweeps from 2, at ")
    assert ": wrong checksum on ranks [3]\n" in run.out


@pytest.mark.parametrize("recovery", ["backward", "forward"])
def test_only_neighbours_that_die_together_take_data_along_and_only_backward(recovery: str):
    run = simulated("fampi.py", "--recovery", recovery, *SMALL, "--die", "2@3", "--die", "3@3", ranks=6, ft=True)
    expected = ("lost: the data of ranks [2], with all copies", 1) if recovery == "backward" else ("right: True", 0)
    assert (last(run), run.status, run.err) == (*expected, "")


def test_a_time_that_is_too_short_is_no_stall():
    run = simulated("fampi.py", *SMALL, "--timeout", 1e-9, "--tries", 3, ranks=4)
    *_, why, _, verdict = run.out.splitlines()
    assert (why, verdict) == ("fampi: 3 failed attempts of the sweeps from 0 on", "right: False")
    assert (run.status, run.err) == (1, "")


@pytest.mark.parametrize(
    ("text", "spoilt", "options"),
    [
        ("new = u + residual / DIAGONAL", "new = u + residual / (1.001 * DIAGONAL)", ()),
        ("wide[side, 1:-1, 1:-1] = ghost", "wide[side, 1:-1, 1:-1] = ghost * (1 + 1e-9)", ()),
        ("return low[1] + ", "return 0 * low[1] + ", ("--recovery", "forward", "--die", "2@3", "--max-sweeps", 6)),
        ("self.b = self.box.right_side(planes)", "self.b = self.box.right_side(range(len(planes)))", ()),
    ],
)
def test_its_judgement_can_fail(text: str, spoilt: str, options: tuple[object, ...], tmp_path: Path):
    for name in ("recovery.py", "tryblock.py", "fampi.py"):
        (tmp_path / name).write_text((APPS / name).read_text(encoding="utf-8"), encoding="utf-8")
    program = tmp_path / "fampi.py"
    whole = program.read_text(encoding="utf-8")
    assert text in whole
    program.write_text(whole.replace(text, spoilt).replace("block.inject(CORRUPT)", "pass"), encoding="utf-8")
    run = simulated(str(program), *SMALL, *options, ranks=6, ft=True)
    assert (last(run), run.status) == ("right: False", 1)


def test_blocks_cost_an_agreement_each():
    """And so in proportion to their number; the last one is there with every length."""
    words = ("--recovery", "forward", "--max-sweeps", 24, "--tolerance", 1e-30, "--work", 1e-3)
    ends = {}
    for block in (2, 6, 12, 24):
        run = simulated("fampi.py", *words, "--block", block, ranks=16, set=LATENCY_ONLY)
        ends[block] = float(run.out.split("# ")[1].split()[0])
    each = [round((ends[block] - ends[24]) / (24 // block - 1) * 1e6, 3) for block in (2, 6, 12)]
    assert each == [2 * 4 * LATENCY_US] * 3
