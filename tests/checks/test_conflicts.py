"""What is forgotten between fences changes nothing: the same is found where all accesses are kept until the end."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from xsim_py import simulate
from xsim_py.checks import conflicts, monitor, rerun
from xsim_py.checks.monitor import Monitor

RANKS = 3
PRELUDE = """
import json, sys
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD

def send(source, dest):
    if source == comm.rank:
        comm.send(None, dest)
    elif dest == comm.rank:
        comm.recv(source=source)

"""
PROGRAM = (
    PRELUDE
    + """shown = np.zeros(6)
win = MPI.Win.Create(shown, 8, comm=comm)
win.Fence()
for epoch in json.loads(sys.argv[1]):
    for kind, rank, other, start, count in epoch:
        one, many = np.ones(1), np.ones(count)
        if kind == "send":
            send(rank, other)
        elif rank != comm.rank:
            pass
        elif kind == "put":
            win.Put(many, other, start)
        elif kind == "get":
            win.Get(many, other, start)
        elif kind == "accumulate":
            win.Accumulate(many, other, start)
        elif kind == "load":
            one[0] = shown[start]
        elif kind == "store":
            shown[start] = 2.0
    win.Fence()
win.Free()
"""
)
KINDS = ("put", "get", "accumulate", "load", "store", "send")


@st.composite
def deeds(draw: st.DrawFn) -> tuple[str, int, int, int, int]:
    """Draw what a rank does between two fences: to which other one, and to which elements there."""
    rank, start = draw(st.integers(0, RANKS - 1)), draw(st.integers(0, 5))
    kind = draw(st.sampled_from(KINDS))
    other = draw(st.sampled_from([each for each in range(RANKS) if kind != "send" or each != rank]))
    return kind, rank, other, start, draw(st.integers(1, min(2, 6 - start)))


def findings(folder: Path, program: str, told: Any) -> Any:
    """What is found in a program that is told this as JSON."""
    path = folder / "program.py"
    path.write_text(program)
    return simulate(path, ranks=RANKS, args=[json.dumps(told)], check=True, stdout=io.StringIO()).findings


@settings(
    max_examples=max(2, settings().max_examples // 10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(deeds(), max_size=5), max_size=4))
def test_the_same_is_found_as_if_all_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: Any):
    mine = findings(tmp_path, PROGRAM, epochs)
    with monkeypatch.context() as patched:
        patched.setattr(conflicts, "drop_epoch", lambda *_: None)
        assert findings(tmp_path, PROGRAM, epochs) == mine


@pytest.fixture
def monitors(monkeypatch: pytest.MonkeyPatch) -> list[Monitor]:
    """The monitors of the runs of a test."""
    made: list[Monitor] = []

    class Seen(Monitor):
        def __init__(self, **told: bool) -> None:
            super().__init__(**told)
            made.append(self)

    monkeypatch.setattr(rerun, "Monitor", Seen)
    return made


def test_a_long_program_with_fences_keeps_nothing(tmp_path: Path, monitors: list[Monitor]):
    path = tmp_path / "epochs.py"
    path.write_text(PROGRAM)
    epochs = [[("put", 0, 1, 0, 2)], [("load", 1, 1, 0, 1)]] * 100
    result = simulate(path, ranks=RANKS, args=[json.dumps(epochs)], check=True, stdout=io.StringIO())
    assert result.findings == ()
    assert monitors[0].accesses == {}
    assert max(len(state.steps.pending) for state in monitors[0].ranks.values()) < 10


def test_ranks_that_also_post_to_themselves_give_each_signal_to_whom_it_is_for(tmp_path: Path, monitors: list[Monitor]):
    path = tmp_path / "posts.py"
    path.write_text(
        "import numpy as np\nfrom mpi4py import MPI\nwin = MPI.Win.Create(np.zeros(1), 8, comm=MPI.COMM_WORLD)\n"
        "world = MPI.COMM_WORLD.Get_group()\n"
        "for _ in range(3):\n"
        "    win.Post(world)\n    win.Start(world)\n    win.Complete()\n    win.Wait()\n"
        "world.Free()\nwin.Free()\n"
    )
    assert simulate(path, ranks=RANKS, check=True).findings == ()
    assert monitors[0].signals == {}


TURNS = """
import json, sys
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
shown = np.zeros(6)
win = MPI.Win.Create(shown, 8, comm=comm)

def access(kind, target, start, count):
    many = np.ones(count)
    if kind == "put":
        win.Put(many, target, start)
    elif kind == "get":
        win.Get(many, target, start)
    else:
        win.Accumulate(many, target, start)
    return many

for way, target, others, deeds in json.loads(sys.argv[1]):
    kept = []
    if way == "post":
        if comm.rank == target:
            win.Post(comm.group.Incl(others))
        if comm.rank in others:
            win.Start(comm.group.Incl([target]))
            kept = [access(*deed[1:2], target, *deed[2:]) for deed in deeds if deed[0] == comm.rank]
            win.Complete()
        for deed in deeds:
            if comm.rank == target == deed[0] and deed[1] == "put":
                shown[deed[2]] = 2.0
        if comm.rank == target:
            win.Wait()
    elif way in ("shared", "exclusive"):
        if comm.rank in others:
            win.Lock(target, MPI.LOCK_SHARED if way == "shared" else MPI.LOCK_EXCLUSIVE)
            kept = [access(*deed[1:2], target, *deed[2:]) for deed in deeds if deed[0] == comm.rank]
            win.Unlock(target)
    elif way == "local" and comm.rank == target:
        for deed in deeds:
            if deed[1] == "get":
                kept.append(float(shown[deed[2]]))
            else:
                shown[deed[2]] = 3.0
    elif way == "send" and comm.rank == target:
        for other in others:
            comm.send(None, other)
    elif way == "send" and comm.rank in others:
        comm.recv(source=target)
comm.barrier()
win.Free()
"""


@st.composite
def turns(draw: st.DrawFn) -> tuple[str, int, list[int], list[tuple[int, str, int, int]]]:
    """Draw how some ranks come to the memory of one, and what they do there."""
    target = draw(st.integers(0, RANKS - 1))
    strangers = [rank for rank in range(RANKS) if rank != target]
    others = draw(st.lists(st.sampled_from(strangers), min_size=1, unique=True))
    kinds = st.sampled_from(("put", "get", "accumulate"))
    deed = st.tuples(st.integers(0, RANKS - 1), kinds, st.integers(0, 1), st.integers(1, 2))
    way = draw(st.sampled_from(("post", "post", "shared", "exclusive", "local", "send")))
    return way, target, others, draw(st.lists(deed, min_size=1, max_size=4))


@settings(
    max_examples=max(3, settings().max_examples // 5), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(turns(), max_size=6))
def test_the_same_is_found_as_with_the_clocks_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: Any):
    mine = findings(tmp_path, TURNS, epochs)
    with monkeypatch.context() as patched:
        patched.setattr(conflicts, "_cannot_conflict", lambda _: False)
        assert findings(tmp_path, TURNS, epochs) == mine


MEETINGS = """
import json, sys
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
shown, one = np.zeros(2), np.ones(1)
win = MPI.Win.Create(shown, 8, comm=comm)
under_way, begun = [], []

def take_all():
    MPI.Request.Waitall(begun)
    begun.clear()
    for source, dest in under_way:
        if dest == comm.rank:
            comm.recv(source=source)
    under_way.clear()

for kind, rank, other, place in json.loads(sys.argv[1]):
    if kind == "meet":
        comm.allreduce(1)
    elif kind == "take":
        take_all()
    elif kind == "begin":
        begun.append(comm.Ibarrier())
    elif kind == "send":
        under_way.append((rank, other))
        if rank == comm.rank:
            comm.send(None, other)
    elif rank != comm.rank:
        pass
    elif kind == "store":
        shown[place] = 2.0
    else:
        win.Lock(other, MPI.LOCK_SHARED)
        if kind == "put":
            win.Put(one, other, place)
        else:
            win.Get_accumulate(one, np.zeros(1), other, place)
        win.Unlock(other)
take_all()
win.Free()
"""


@st.composite
def deeds_and_meetings(draw: st.DrawFn) -> tuple[str, int, int, int]:
    """Draw what a rank does, or all of them."""
    kind = draw(st.sampled_from(("meet", "meet", "take", "begin", "send", "store", "put", "put", "fetch")))
    rank, other = draw(st.permutations(range(RANKS)))[:2]
    return kind, rank, other, draw(st.integers(0, 1))


@settings(
    max_examples=max(3, settings().max_examples // 5), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(deeds_and_meetings(), max_size=16))
@example([("store", 0, 1, 0), ("meet", 0, 1, 0), ("send", 0, 1, 0), ("store", 0, 1, 0), ("put", 2, 0, 0)])
@example(
    [
        *(("fetch", 0, 2, 1), *[("put", 1, 2, 1)] * 5, ("send", 1, 0, 0)),
        *(("meet", 1, 2, 0), ("put", 1, 2, 0), ("take", 0, 1, 0), ("put", 0, 2, 0)),
    ]
)
def test_the_same_is_found_if_all_is_settled_at_each_meeting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deeds: Any
):
    mine = findings(tmp_path, MEETINGS, deeds)
    with monkeypatch.context() as patched:
        patched.setattr(monitor, "MANY_STEPS", -1)
        assert findings(tmp_path, MEETINGS, deeds) == mine


def test_a_long_program_with_locks_keeps_what_comes_between_two_meetings(tmp_path: Path, monitors: list[Monitor]):
    path = tmp_path / "locks.py"
    path.write_text(MEETINGS)
    deeds = [
        ("put", 0, 1, 0),
        ("meet", 0, 0, 0),
        ("put", 2, 1, 0),
        ("send", 1, 2, 0),
        ("take", 0, 0, 0),
        ("meet", 0, 0, 0),
    ]
    result = simulate(path, ranks=RANKS, args=[json.dumps(deeds * 200)], check=True, stdout=io.StringIO())
    assert result.findings == ()
    assert sum(map(len, monitors[0].accesses.values())) < monitor.MANY_STEPS
    assert max(len(state.steps.pending) for state in monitors[0].ranks.values()) < 2 * monitor.MANY_STEPS


EARLY_MESSAGE = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
request = comm.isend(None, 1) if comm.rank == 0 else None
win = MPI.Win.Create(np.zeros(6), 8, comm=comm)
win.Fence()
if comm.rank == 1:
    comm.recv(source=0)
if comm.rank < 2:
    win.Put(np.ones(1), 2)
win.Fence()
if request is not None:
    request.wait()
win.Free()
"""


EARLY_COLLECTIVE = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
win = MPI.Win.Allocate(8, 8, comm=comm)
begun = comm.Ibarrier()
if comm.rank == 0:
    awaited = comm.Irecv(np.zeros(1), source=1)
else:
    if comm.rank == 1:
        comm.Send(np.zeros(1), dest=0)
    begun.Wait()
win.Fence()
win.Put(np.ones(1), 0)
win.Fence()
if comm.rank == 0:
    begun.Wait()
    awaited.Wait()
win.Free()
"""


def test_a_collective_that_is_waited_for_after_an_access_hides_nothing(tmp_path: Path):
    path = tmp_path / "early.py"
    path.write_text(EARLY_COLLECTIVE)
    result = simulate(path, ranks=RANKS, check=True)
    assert [(finding.category, finding.line) for finding in result.findings] == [("GlobalConcurrency", 14)]


def test_a_message_that_is_older_than_the_first_access_hides_nothing(tmp_path: Path):
    path = tmp_path / "early.py"
    path.write_text(EARLY_MESSAGE)
    result = simulate(path, ranks=RANKS, check=True)
    assert [(finding.category, finding.line) for finding in result.findings] == [("GlobalConcurrency", 11)]


READS = (
    PRELUDE
    + """shown, got, one = np.zeros(3), np.zeros(1), np.ones(1)
win = MPI.Win.Create(shown, 8, comm=comm)
win.Lock_all()
comm.Barrier()
complete = {"flush": win.Flush, "flush locally": win.Flush_local, "wait": lambda _: request.Wait()}[sys.argv[1]]
for kind, rank, other, place in json.loads(sys.argv[2]):
    if kind == "barrier":
        comm.Barrier()
    elif kind == "send":
        send(rank, other)
    elif rank != comm.rank:
        pass
    elif kind == "put":
        win.Put(one, other, place)
        win.Flush(other)
    elif kind == "get":
        request = win.Rget(got, other, place) if sys.argv[1] == "wait" else win.Get(got, other, place)
        complete(other)
    elif kind == "store":
        shown[place] = 2.0
        win.Sync()
win.Unlock_all()
win.Free()
"""
)


@st.composite
def reads_and_writes(draw: st.DrawFn) -> tuple[str, int, int, int]:
    """Draw what a rank does: to which other one, and to which element there."""
    kind, rank = draw(st.sampled_from(("put", "get", "get", "store", "send", "barrier"))), draw(st.integers(0, 2))
    others = [each for each in range(RANKS) if kind != "send" or each != rank]
    return kind, rank, draw(st.sampled_from(others)), draw(st.integers(0, 2))


@settings(
    max_examples=max(2, settings().max_examples // 10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(reads_and_writes(), max_size=10))
def test_a_get_is_over_when_its_data_are_there_however_that_is_known(tmp_path: Path, deeds: Any):
    path = tmp_path / "reads.py"
    path.write_text(READS)
    seen = []
    for how in ("flush", "flush locally", "wait"):
        result = simulate(path, ranks=RANKS, args=[how, json.dumps(deeds)], check=True, stdout=io.StringIO())
        assert result.ended == "finished", result.report
        seen.append({(each.category, each.line, each.ranks) for each in result.findings})
    assert seen[0] == seen[1] == seen[2]


REFUSED = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
shown = np.zeros(4)
win = MPI.Win.Create(shown, 8, comm=comm)
win.Lock_all()
if comm.rank > 0:
    try:
        win.Put(np.ones(1), 0, 5 - comm.rank)
    except MPI.Exception:
        pass
comm.Barrier()
if comm.rank == 0:
    win.Sync()
    shown[1] = 5
elif comm.rank == 2:
    win.Put(np.ones(1), 0, 1)
win.Unlock_all()
win.Free()
"""


def test_an_access_that_is_refused_hides_no_other(tmp_path: Path):
    path = tmp_path / "refused.py"
    path.write_text(REFUSED)
    found = {(each.category, each.line) for each in simulate(path, ranks=RANKS, check=True).findings}
    assert found == {("GlobalConcurrency", 16), ("GlobalConcurrency", 18)}
