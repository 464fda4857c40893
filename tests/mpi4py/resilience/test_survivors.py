"""Whoever dies whenever, those who are left go on with one result, and it is theirs."""

import json
import random
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.pi import count_hits
from tests.campaign import CAMPAIGN
from tests.mpi4py.resilience.layered import DIE, layered
from xsim_py import simulate
from xsim_py.mpi4py.call_table import COLLECTIVES
from xsim_py.mpi4py.resilience.attempts import ROOTED

pytestmark = pytest.mark.usefixtures("in_this_process")

RANKS = 7
BY_LEVELS = {"mpi.resilience.group": 4}
MANY = max(settings().max_examples, 33)  # and 5,000 in a campaign


def hits_of(ranks: list[int], size: int, samples: int) -> tuple[int, int]:
    """What pi.py counts at some ranks of a run: hits and samples."""
    own = {rank: samples // size + (rank < samples % size) for rank in ranks}
    return sum(count_hits(own[rank], np.random.default_rng([1, rank])) for rank in ranks), sum(own.values())


@pytest.mark.parametrize(
    ("shards", "options"),
    [*product([1, 2, 3, 7], [{}, BY_LEVELS])] if CAMPAIGN else [(1, BY_LEVELS), (3, {}), (3, BY_LEVELS)],
)
@pytest.mark.parametrize("dead", [0, 1, 5, 18])
def test_pi_is_exactly_the_estimate_of_those_who_are_left(dead: int, shards: int, options: dict, capsys):
    victims = random.Random(dead).sample(range(1, 20), dead)
    fail = [f"rank={rank} before its 1st Reduce" for rank in victims]
    told = {"ranks": 20, "args": ["--samples", "2013"], "fail": fail, "shards": shards, "set": options}
    result = simulate("apps/pi.py", **told, resilience="legio")
    hits, samples = hits_of([rank for rank in range(20) if rank not in victims], 20, 2013)
    out = capsys.readouterr().out
    assert out.startswith(f"hits: {hits} of {samples}\npi is about {4 * hits / samples:.8f}, ")
    assert result.ended == "finished"
    assert len(result.failures) == dead


STEPS = """
import json
half = comm.Dup()
def reduced(): return comm.allreduce(1 << comm.rank)
def in_place():
    mask = np.array([1 << comm.rank])
    comm.Allreduce(MPI.IN_PLACE, mask)
    return int(mask[0])
def duplicate(): return half.allreduce(1 << half.rank)
def parts():
    part = half.Split(0, -half.rank)
    found = part.allreduce(1 << comm.rank)
    part.Free()
    return found
def gathered():
    found = half.gather(comm.rank, root=0)
    return sum(1 << rank for rank in (found or ()) if rank is not None)
def window():
    seen = np.zeros(1, int)
    win = MPI.Win.Create(seen, 8, comm=comm)
    win.Fence()
    win.Put(np.full(1, 1 << comm.rank), comm.rank)
    win.Fence()
    win.Free()
    return comm.allreduce(int(seen[0]))
def barrier(): return comm.Barrier() or 0
for name in NAMES:
    print(json.dumps([name, comm.rank, vars()[name]()]))
"""


REPAIRS = [
    {},
    {"mpi.ulfm.agree": "early_returning", "mpi.ulfm.shrink": "agreement"},
    {"mpi.ulfm.agree": "liveness", "mpi.ulfm.shrink": "liveness"},
    {"mpi.detector.type": "heartbeat"},
]


@st.composite
def stories(draw):
    """Operations, who dies when, and how the layer does it."""
    names = draw(
        st.lists(
            st.sampled_from(["reduced", "in_place", "duplicate", "parts", "gathered", "window", "barrier"]),
            min_size=3,
            max_size=8,
        )
    )
    victims = draw(st.lists(st.integers(0, RANKS - 1), unique=True, max_size=RANKS - 1))
    when = st.one_of(
        st.integers(1, 4_000).map(lambda us: f"@{us}us"),
        st.tuples(st.sampled_from(["before", "after"]), st.integers(4, 18)).map(
            lambda each: f" {each[0]} its {each[1]}th call"
        ),
    )
    return (
        names,
        [f"rank={victim}{draw(when)}" for victim in victims],
        draw(st.sampled_from([{}, {"group": 2}, {"group": 3}])),
        draw(st.sampled_from(REPAIRS)),
    )


@settings(max_examples=MANY // 6)
@given(stories())
def test_all_who_are_left_have_one_result_with_the_share_of_each_of_them(story):
    names, fail, options, repair = story
    out, result = layered(f"NAMES = {names}{STEPS}", ranks=RANKS, fail=fail, options=options, set=repair)
    assert result.ended == "finished", (fail, result.report, out)
    dead = {failure["rank"] for failure in result.failures}
    found = {rank: [] for rank in range(RANKS)}
    for line in out.splitlines():
        name, rank, mask = json.loads(line)
        found[rank].append((name, mask))
    left = [rank for rank in range(RANKS) if rank not in dead]
    assert all([name for name, _ in found[rank]] == names for rank in left)
    before = (1 << RANKS) - 1
    for step, name in enumerate(names):
        masks = {
            found[rank][step][1]
            for rank in range(RANKS)
            if len(found[rank]) > step and (name != "gathered" or rank == 0)
        }
        if name == "barrier" or (name == "gathered" and 0 in dead):
            continue
        (mask,) = masks
        assert mask & ~before == 0, "nobody comes back"
        assert all(mask >> rank & 1 for rank in left), "nobody who lives is left out"
        for rank in dead:
            assert not mask >> rank & 1 or len(found[rank]) >= step, "nobody has a share who was dead before the step"
        before = mask


@settings(max_examples=MANY // 33)
@given(stories())
def test_shards_change_nothing(story):
    names, fail, options, repair = story
    told = {"ranks": RANKS, "fail": fail, "options": options}
    code = f"NAMES = {names}{STEPS}"
    out, one = layered(code, **told, set=dict(repair))
    for shards in (2, 3, 7):
        said, result = layered(code, **told, set=dict(repair), shards=shards)
        assert (said, result.digest, result.virtual_time_ps) == (out, one.digest, one.virtual_time_ps)


def test_messages_that_were_sent_before_a_repair_are_received_after_it():
    code = """
if comm.rank == 2: comm.send("early", 3); request = comm.isend(np.zeros(9**6), 3)
if comm.rank == 3: later = comm.irecv(source=0)
if comm.rank == 1: os.kill(os.getpid(), 9)
comm.Barrier(); comm.Barrier()
if comm.rank == 0: comm.send("late", 3)
if comm.rank == 3: print(comm.recv(source=2), len(comm.recv(source=2)), later.wait())
if comm.rank == 2: request.wait()
"""
    out, result = layered(code)
    assert (out, result.ended) == (f"early {9**6} late\n", "finished")


OVER_A_REPAIR = """
seen = np.full(4, -1.0)
win = MPI.Win.Create(seen, 8, comm=comm)
file = MPI.File.Open(comm, "file", MPI.MODE_CREATE | MPI.MODE_EXCL | MPI.MODE_RDWR)
file.Set_view(8 * comm.rank, MPI.DOUBLE, MPI.DOUBLE.Create_resized(0, 32).Commit())
win.Fence()
file.Write_all(np.full(1, 1.0 + comm.rank))
if comm.rank == 1: os.kill(os.getpid(), 9)
for target in range(4): win.Put(np.full(1, 1.0 * comm.rank), target, comm.rank)
comm.Barrier()
win.Fence()
file.Write_all(np.full(1, 10.0 + comm.rank))
got = np.zeros(4)
win.Get(got, 3)
win.Fence()
print(seen, got, win.group_size, win.group_rank, file.group_size, file.Get_position())
win.Free()
file.Close()
"""


def test_a_program_for_which_errors_are_fatal_goes_on_too():
    code = """
comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
if comm.rank == 0: waiting = comm.irecv(source=MPI.ANY_SOURCE)
if comm.rank == 1: os.kill(os.getpid(), 9)
comm.Barrier()
comm.send(1, 1); comm.isend(np.zeros(9**6), 1).wait()
comm.recv(source=1); comm.irecv(source=1).wait(); comm.reduce(1, root=1)
if comm.rank == 2: time.sleep(1); comm.send("first", 0); comm.send("second", 0)
if comm.rank == 0: print(waiting.wait(), comm.recv())
print(comm.Dup().allreduce(1))
"""
    out, result = layered(code, options={"recv": "skip", "any_source": "wait"})
    assert (sorted(out.split("\n")), result.ended) == (["", "3", "3", "3", "first second"], "finished")


def test_windows_and_files_go_on_over_a_repair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, result = layered(OVER_A_REPAIR, shards=2)
    assert result.ended == "finished"
    assert sorted(out.splitlines()) == [f"[ 0. -1.  2.  3.] [ 0. -1.  2.  3.] 4 {rank} 4 2" for rank in (0, 2, 3)]
    assert np.fromfile("file").tolist() == [1.0, 2.0, 3.0, 4.0, 10.0, 0.0, 12.0, 13.0]


def test_a_group_of_living_makes_a_communicator_and_says_once_that_one_is_dead():
    code = (
        DIE
        + """
group = comm.group.Excl([3])
for tag in range(2 * (comm.rank != 3)):
    try:
        part = comm.Create_group(group, tag)
        print(part.size, part.allreduce(1))
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_PROC_FAILED)
part = MPI.Intracomm.Create_from_group(comm.group)
print("all", part.size)
"""
    )
    out, result = layered(code)
    assert (sorted(out.split("\n")), result.ended) == (["", "2 2", "2 2", "True", "True", *["all 3"] * 3], "finished")


@pytest.mark.parametrize(
    "call",
    [
        "comm.allgather(1)", "comm.Alltoall(np.zeros(4), np.zeros(4))", "comm.Create_cart([4])", "comm.Ibarrier()",
        "comm.Gatherv(np.zeros(1), np.zeros(4))", "comm.exscan(1)", "comm.Barrier_init()", "comm.Idup()",
        "comm.Spawn('x')", "MPI.Win.Allocate_shared(8, comm=comm)", "MPI.Win.Create(np.zeros(1), comm=comm).Lock_all()",
        "MPI.File.Open(comm, 'f', MPI.MODE_CREATE | MPI.MODE_WRONLY).Write_shared(b'x')", "comm.Psend_init(b'x', 1, 0)",
        "comm.Create_intercomm(0, comm, 1)", "comm.Reduce_scatter_block(np.zeros(4), np.zeros(1))",
    ],
)  # fmt: skip
def test_what_is_not_covered_says_so(call: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, _ = layered(f"try: {call}\nexcept NotImplementedError as error: print(error, *error.__notes__)")
    name = re.findall(r"(?<!np)\.(\w+)\(", call)[-1]
    lines = out.splitlines()
    assert len(lines) == 4
    assert all(f".{name}: the resilience layer legio does not cover it" in line for line in lines)
    assert "legio-and-non-collective-repair.md" in lines[0]


def test_each_collective_is_covered_or_says_that_it_is_not():
    others = [form for row in COLLECTIVES.values() if row.owner != "Topocomm" for form in row.forms]
    covered = {*ROOTED, "barrier", "Barrier", "Allreduce", "allreduce", "Scan", "scan"}
    code = f"""
from inspect import Parameter, signature
for name in {sorted({*others} - covered)}:
    call = getattr(comm, name)
    needed = [each for each in signature(call).parameters.values() if each.default is Parameter.empty]
    try: call(*[None] * len(needed))
    except NotImplementedError: continue
    except Exception as error: print(name, repr(error))
print(comm.allreduce(1))
"""
    out, result = layered(code, ranks=2)
    assert (out, result.ended) == ("2\n2\n", "finished")


def test_what_concerns_one_process_alone_is_covered_all_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = """
alone = MPI.COMM_SELF
alone.Ibarrier().Wait()
file = MPI.File.Open(alone, str(comm.rank), MPI.MODE_CREATE | MPI.MODE_WRONLY)
file.Write_ordered(b"abc"); file.Write_shared(b"de")
print(alone.allgather(1), alone.Create_cart([1]).size, file.Get_position_shared())
"""
    out, result = layered(code)
    assert (out, result.ended) == ("[1] 1 5\n" * 4, "finished")


@pytest.mark.parametrize("more", [{}, {"check": True}, {"trace": True}], ids=["plain", "checked", "traced"])
def test_forms_of_covered_calls_are_covered_too(more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = """
win = MPI.Win.Allocate(8, comm=comm)
file = MPI.File.Open(comm, "file", MPI.MODE_CREATE | MPI.MODE_WRONLY)
if comm.rank == 1: os.kill(os.getpid(), 9)
twin = comm.Clone(); other = twin.Dup_with_info(MPI.INFO_NULL)
other.barrier(); win.Fence(); file.Write_at_all(0, b"x")
print(other.allreduce(1), win.group.size, win.group_rank - comm.rank, file.group.size, file.group_rank - comm.rank)
twin.free(); other.Disconnect(); win.free(); file.free()
print(bool(twin), bool(other), bool(win), bool(file))
"""
    out, result = layered(code, **more)
    assert (sorted(out.splitlines()), result.ended) == (["3 4 0 4 0"] * 3 + ["False False False False"] * 3, "finished")
