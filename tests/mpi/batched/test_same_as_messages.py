"""Collectives as arrays and message by message: not one bit, picosecond, event or word of a report differs."""

import io
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py import simulate
from xsim_py.config.algorithms import ALGORITHMS
from xsim_py.mpi.batched.instances import CollectiveInstances
from xsim_py.mpi.batched.timing import _Ranks
from xsim_py.mpi.batched.undo import Resender
from xsim_py.report import Result

MOST = 33 if CAMPAIGN else 17
"""The ranks of the largest random program: one more than a power of two."""

LAYER = {"bandwidth": "8Gbps", "eager_threshold": "1KiB"}
OVERHEADS = {"send_overhead": "300ns", "recv_overhead": "700ns", "gap": "400ns"}
MACHINES: dict[str, dict[str, Any]] = {
    "plain": {"network": {**LAYER, "latency": "1us"}},
    "overheads": {"network": {**LAYER, **OVERHEADS, "latency": "1us"}},
    "slow receivers": {"network": {"latency": "10ns", "recv_overhead": "3us", "recv_overhead_per_byte": "1ns"}},
    "distances": {
        "topology": {"type": "torus", "dims": [3, 4, 3]},
        "network": {**LAYER, **OVERHEADS, "latency": "500ns", "per_hop": "500ns"},
    },
    "near and far": {
        "machine": {"cores_per_node": 3, "placement": "round_robin", "nodes": 11},
        "network": {**LAYER, "latency": "5us"},
        "same_node": {**LAYER, "latency": "1us", "send_overhead": "100ns"},
    },
    "most ask first": {"network": {**LAYER, **OVERHEADS, "latency": "1us", "eager_threshold": "20B"}},
    "far ones ask first": {
        "machine": {"cores_per_node": 3, "placement": "round_robin", "nodes": 11},
        "network": {**LAYER, **OVERHEADS, "latency": "2us", "eager_threshold": "0B"},
        "same_node": {**LAYER, "latency": "1us"},
    },
    "overtaking": {
        "network": {
            "eager_threshold": "500B",
            "segments": [
                {"from": "0B", "latency": "1us", "bandwidth": "1GB/s"},
                {"from": "9B", "latency": "3us", "send_overhead": "100ns"},
                {"from": "100B", "latency": "9us", "bandwidth": "10GB/s", "recv_overhead": "300ns"},
                {"from": "300B", "latency": "1us", "gap": "2us"},
            ],
        }
    },
}
COMPUTED = ("barrier", "allreduce", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw")
"""Of these some algorithms are computed; the others go message by message, also in between."""
OPERATIONS = (
    *COMPUTED,
    "reduce_scatter",
    "reduce_scatter_block",
    "bcast",
    "reduce",
    "scan",
    "exscan",
)
FEW = {
    "bcast": ("scatter_allgather", "scatter_allgather_ring"),
    "reduce": ("rabenseifner",),
    "scan": ("recursive_doubling",),
    "exscan": ("recursive_doubling",),
}
"""Of these, which go message by message, the algorithms that have the most messages are enough."""
OBJECTS = ("all get objects", "objects for each", "objects together", "scan of objects", "exscan of objects")
OPS = ("SUM", "MAX", "PROD", "BXOR", "LAND", "MAXLOC")
TYPES = {"SUM": "f8", "MAX": "f4", "PROD": "i4", "BXOR": "u1", "LAND": "i8"}


class Step(NamedTuple):
    """Something that all ranks do, or that some do to others."""

    kind: str
    count: int = 0
    op: str = "SUM"
    rank: int = 0
    other: int = 0
    sub: int = 0


def collective(comm: Any, step: Step) -> Any:
    """One collective with numbers that differ from rank to rank."""
    from mpi4py import MPI

    size, rank = comm.size, comm.rank
    op = getattr(MPI, step.op)
    kind, count = step.kind, step.count

    def data(items: int) -> Any:
        if step.op == "MAXLOC" and kind not in ("allgather", "allgatherv", "alltoall"):
            pairs = np.zeros(items, [("value", "f8"), ("index", "i4")])
            pairs["value"], pairs["index"] = np.arange(items) * rank % 5, rank
            return [pairs, items, MPI.DOUBLE_INT]
        kind_of = TYPES.get(step.op, "f8")
        return ((np.arange(items) * 7 + rank * 13 + 1) * 0.37 % 101).astype(kind_of)

    def space(items: int) -> Any:
        made = data(items)
        return [np.zeros_like(made[0]), *made[1:]] if isinstance(made, list) else np.zeros_like(made)

    if kind == "barrier":
        return comm.Barrier()
    if kind in ("alltoallv", "alltoallw"):
        return exchange(comm, step)
    if kind in OBJECTS:
        return objects(comm, step)
    counts = [count + i % 3 for i in range(size)]
    out = space({"allgather": count * size, "alltoall": count * size, "allgatherv": sum(counts)}.get(kind, count))
    if kind == "allreduce":
        comm.Allreduce(data(count), out, op)
    elif kind == "allgather":
        comm.Allgather(data(count), out)
    elif kind == "allgatherv":
        comm.Allgatherv(data(counts[rank]), [out, counts])
    elif kind == "alltoall":
        comm.Alltoall(data(count * size), out)
    elif kind in ("scan", "exscan"):
        (comm.Scan if kind == "scan" else comm.Exscan)(data(count), out, op)
    elif kind == "reduce":
        comm.Reduce(data(count), out if rank == step.rank % size else None, op, root=step.rank % size)
    elif kind == "bcast":
        out = data(count) if rank == step.rank % size else out
        comm.Bcast(out, root=step.rank % size)
    elif kind == "reduce_scatter_block":
        comm.Reduce_scatter_block(data(count * size), out, op)
    else:
        out = space(counts[rank])
        comm.Reduce_scatter(data(sum(counts)), out, counts, op)
    return (out[0] if isinstance(out, list) else out).tobytes()


def objects(comm: Any, step: Step) -> Any:
    """One with objects of many kinds and sizes, of which nobody may get another's."""
    size, rank = comm.size, comm.rank
    kinds = [rank, "x" * (rank * step.count % 41), (rank, 0.5), [rank] * step.count, np.arange(step.count) * rank]
    change = step.op in ("BXOR", "LAND")
    if step.kind in OBJECTS[2:]:
        return together(comm, step, kinds)
    if step.kind == "all get objects":
        got = comm.allgather(kinds[(step.rank + rank * change) % len(kinds)])
    else:
        got = comm.alltoall([kinds[(step.rank + (rank + other) * change) % len(kinds)] for other in range(size)])
    said = repr(got)
    for each in got:
        if isinstance(each, list):
            each.append(rank)
    return said, size


def together(comm: Any, step: Step, kinds: list[Any]) -> Any:
    """Where two of them can not be combined, the first rank that tries ends the job."""
    from mpi4py import MPI

    count, rank = step.count, comm.rank
    numbers = [
        0.1 * rank,
        np.float64(count + rank),
        (count * rank % 7, rank),
        np.arange(count * 2.0).reshape(2, count).T - rank,
        rank if rank % 3 else 0.5,
        np.float32(1e38 if rank == count else rank),
        10 ** (count * rank % 160),
        [[rank]],
    ]
    op: Any = getattr(MPI, step.op)
    if step.other % 8 == 1:
        op = lambda x, y: x if rank % 2 else y  # noqa: E731
    try:
        call = {"objects together": comm.allreduce, "scan of objects": comm.scan}.get(step.kind, comm.exscan)
        with np.errstate(over="ignore", invalid="ignore"):
            got = call([*kinds, *numbers][step.rank % 13], op)
    except (TypeError, ValueError) as error:
        MPI.COMM_WORLD.Abort(len(str(error)) % 100)
    said = repr(got)
    if isinstance(got, list):
        for each in got:
            if isinstance(each, list):
                each.append(count)
    elif isinstance(got, np.ndarray):
        got += rank
    return said


def exchange(comm: Any, step: Step) -> bytes:
    """Blocks of sizes that differ, from places that need not lie one after the other; sometimes some are empty."""
    from mpi4py import MPI

    size, rank = comm.size, comm.rank
    room = 3 * step.count + 3  # sometimes more than goes eagerly
    least = 0 if step.op == "MAX" else 1

    def counts(source: int, dest: int) -> int:
        return least + (step.count + source * 5 + dest * 3) % room if step.op != "BXOR" else step.count

    data = np.arange(size * (room + least)) * 7 + rank * 13 & 0x7F
    sent = [counts(rank, dest) for dest in range(size)]
    got = [counts(source, rank) for source in range(size)]
    if step.op == "LAND" and rank == step.rank % size:
        got[-1] += 1  # which nobody sends
    spread = [i * (room + least) for i in range(size)] if step.op == "PROD" else None
    out = np.zeros(size * (room + least + 1), "i2")
    if step.kind == "alltoallv":
        source = [data.astype("i2"), sent] if spread is None else [data.astype("i2"), (sent, spread)]
        comm.Alltoallv(source, [out, got] if spread is None else [out, got, spread, MPI.SHORT])
    else:
        types = [MPI.SHORT if i % 3 or step.op == "SUM" else MPI.CHAR for i in range(size)]
        mine = [types[rank]] * size
        places = [i * 2 * (room + least) for i in range(size)]
        comm.Alltoallw([data.astype("i2"), sent, places, types], [out, got, places, mine])
    return out.tobytes()


def walk(steps: list[Step]) -> list[Any]:
    """What one rank does; returns what it has got, and when."""
    import time

    from mpi4py import MPI

    world = MPI.COMM_WORLD
    odd = world.Split(world.rank % 3 == 1, -world.rank)
    found: list[Any] = []
    pending: list[Any] = []
    for number, step in enumerate(steps):
        here = world.rank == step.rank % world.size
        there = world.rank == step.other % world.size
        if step.kind in (*OPERATIONS, *OBJECTS):
            found.append(collective(odd if step.sub else world, step))
        elif step.kind == "ibarrier":
            pending.append(world.Ibarrier())
        elif step.kind == "some" and odd.size < world.size / 2:
            pending.append(odd.Iallreduce(np.ones(step.count), np.zeros(step.count)))
        elif step.kind == "tell":
            found.append(world.bcast(number, root=step.rank % world.size))
        elif step.kind == "sleep":
            time.sleep((world.rank * step.rank % 7) * step.count * 1e-7)
        elif step.kind == "wait":
            MPI.Request.Waitall(pending)
            pending.clear()
        elif step.kind == "die" and here:
            raise RuntimeError(number)
        elif step.kind == "leave" and here:
            return found
        elif step.kind == "abort" and here:
            world.Abort(7)
        elif step.kind == "agree":
            found.append(world.Agree(step.count | world.rank))
        elif step.kind == "say" and here:
            print(number, world.rank)
        elif step.kind == "revoke" and here:
            odd.Revoke()
        elif step.kind == "alone" and here:
            collective(world, step._replace(kind="allreduce", count=3))
        elif step.kind == "persistent" or (step.kind == "odd" and here):
            out = np.zeros(step.count)
            request = (world.Exscan_init if step.kind == "odd" else world.Allreduce_init)(np.ones(step.count), out)
            for _ in range(1 + (step.kind == "persistent")):
                request.Start()
                if step.other % 2:
                    world.Barrier()
                request.Wait()
            found.append(out.tobytes())
        elif step.kind == "odd":
            found.append(collective(world, step._replace(kind="reduce_scatter_block")))
        elif step.kind == "send" and here is not there:
            if here:
                pending.append(world.Isend(np.full(step.count, number, "u1"), step.other % world.size, 3))
            elif there:
                pending.append(world.Irecv(np.zeros(5000, "u1"), step.rank % world.size, 3))
        found.append(round(MPI.Wtime() * 10**12))
    MPI.Request.Waitall(pending)
    return found


def survive(steps: list[Step]) -> list[Any]:
    """The same of one who goes on without those who have failed."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    found: list[Any] = []
    pending: list[Any] = []
    for step in steps:
        try:
            if step.kind == "agree":
                found.append(comm.Agree(step.count | comm.rank))
            elif step.kind == "iagree":
                flag = np.array([comm.rank | 8], "i4")
                pending.append((comm.Iagree(flag), flag))
            elif step.kind == "wait":
                found += [(request.Wait(), int(flag[0]))[1] for request, flag in pending]
                pending.clear()
            elif step.kind == "revoke" and comm.rank == step.rank % comm.size:
                comm.Revoke()
            elif step.kind == "shrink":
                comm = comm.Shrink()
                comm.Set_errhandler(MPI.ERRORS_RETURN)
            elif step.kind == "sleep":
                time.sleep((comm.rank * step.rank % 7) * step.count * 1e-7)
            elif step.kind in (*OPERATIONS, *OBJECTS):
                found.append(collective(comm, step))
        except MPI.Exception as error:
            pending.clear()
            comm.Revoke()
            comm = comm.Shrink()
            comm.Set_errhandler(MPI.ERRORS_RETURN)
            found.append((error.Get_error_class(), comm.size))
        found.append(round(MPI.Wtime() * 10**12))
    return found


def everything(result: Result) -> dict[str, Any]:
    """All that a run says of itself, but for what it has cost."""
    costs = ("cpu_s", "wall_s", "peak_rss_bytes")
    return {
        **{key: value for key, value in result.summary.items() if key not in costs},
        **{name: dict(table) if hasattr(table, "keys") else str(table) for name, table in result.tables.items()},
        **{name: getattr(result, name) for name in ("report", "warnings", "values")},
        "trace": result.trace and (list(result.trace.spans), [*map(on_the_way, result.trace.messages)]),
    }


def on_the_way(message: Any) -> Any:
    return message._replace(entered_ps=None, posted_ps=None)  # only messages one by one know both


def outcome(steps: Any, machine: dict[str, Any], ranks: int, program: Any = walk, **options: Any) -> dict[str, Any]:
    said = io.StringIO()
    result = simulate(program, ranks=ranks, machine=machine, args=[steps], stderr=said, stdout=said, **options)
    return {**everything(result), "said": said.getvalue()}


def check(steps: list[Step], machine: dict[str, Any], ranks: int, **options: Any) -> None:
    way, other = (outcome(steps, machine, ranks, collectives=way, **options) for way in ("arrays", "messages"))
    assert way == other


RANK, FIRST = st.integers(0, 40), st.just(0)


def steps_of(
    kinds: Any, counts: Any = (0,), *, ops: Any = ("SUM",), rank: Any = FIRST, other: Any = FIRST
) -> st.SearchStrategy[Step]:
    """All fields are named: `builds` draws those of a named tuple that it is not given, whatever their defaults."""
    drawn = [st.sampled_from(list(choices)) for choices in (kinds, counts, ops)]
    sub = st.sampled_from([0, 0, 1] if kinds in (OPERATIONS, OBJECTS) else [0])
    return st.builds(Step, *drawn, rank=rank, other=other, sub=sub)


COUNTS = [0, 1, 2, 5, 40, 200]
COLLECTIVE = st.one_of(
    *[steps_of(OPERATIONS, COUNTS, ops=OPS)] * 3, steps_of(OBJECTS, COUNTS, ops=OPS, rank=RANK, other=RANK)
)
AROUND = st.one_of(
    steps_of(["sleep"], range(61), rank=RANK),
    steps_of(["send"], [0, 100, 3000], rank=RANK, other=RANK),
    steps_of(["wait", "wait", "ibarrier", "some"]),
    steps_of(["bcast"], rank=RANK),
    steps_of(["persistent"], [0, 3, 300], other=RANK),
    steps_of(["say"], rank=RANK),
    steps_of(["agree"], [0, 5]),
)
RECOVERY = st.one_of(
    steps_of(["agree", "iagree", "wait", "revoke", "shrink"], [0, 5], rank=RANK),
    steps_of(["sleep"], range(61), rank=RANK),
)
TROUBLE = steps_of(["die", "leave", "abort", "alone", "odd", "revoke"], [0, 1], rank=RANK)
SHARDS = st.sampled_from([1, 1, 2, 3, 7])
CHOICES = {name: FEW.get(name, ALGORITHMS[name]) for name in OPERATIONS}
PREFERENCE = st.fixed_dictionaries({}, optional={name: st.sampled_from(names) for name, names in CHOICES.items()})


@given(
    st.lists(st.one_of(COLLECTIVE, COLLECTIVE, AROUND), max_size=12),
    st.sampled_from(sorted(MACHINES)),
    st.integers(1, MOST),
    PREFERENCE,
    st.booleans(),
    SHARDS,
)
def test_any_program(
    steps: list[Step], machine: str, ranks: int, wanted: dict[str, str], trace: bool, shards: int
) -> None:
    check(steps, {**MACHINES[machine], "mpi": {"collectives": wanted}}, ranks, trace=trace, shards=shards)


@given(
    st.lists(st.one_of(COLLECTIVE, AROUND), max_size=6),
    TROUBLE,
    st.lists(st.one_of(COLLECTIVE, AROUND, TROUBLE), min_size=1, max_size=6),
    st.sampled_from(sorted(MACHINES)),
    st.integers(2, MOST),
    PREFERENCE,
    st.booleans(),
    SHARDS,
)
def test_any_program_that_goes_wrong(
    before: list[Step],
    trouble: Step,
    after: list[Step],
    machine: str,
    ranks: int,
    wanted: dict[str, str],
    trace: bool,
    shards: int,
) -> None:
    described = {**MACHINES[machine], "mpi": {"collectives": wanted}}
    check([*before, trouble, *after], described, ranks, trace=trace, shards=shards)


@pytest.mark.parametrize(
    ("operation", "algorithm", "count"),
    [
        ("allgather", "recursive_doubling", 100),  # the first round is eager
        ("allreduce", "recursive_doubling", 150),
        ("allreduce", "rabenseifner", 512),  # a vector that the ranks divide
        ("alltoallv", "pairwise", 500),  # some are eager
    ],
)
def test_messages_above_the_threshold_are_computed(
    operation: str, algorithm: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    keys = _Ranks._rendezvous_keys
    monkeypatch.setattr(_Ranks, "_rendezvous_keys", lambda it, stage, *args: made.append(it) or keys(it, stage, *args))
    monkeypatch.setattr("xsim_py.mpi.batched.timing._MOST_KEPT", 100)  # some are kept, others found out again
    machine = {**MACHINES["overheads"], "mpi": {"collectives": {operation: algorithm}}}
    step = Step(operation, count)
    check([Step("sleep", 9, rank=3), step, Step("leave", rank=3), step], machine, 8, shards=3, trace=True)
    assert len({id(ranks) for ranks in made}) >= 3


def test_who_has_left_before_another_dies_has_answered_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[int] = []
    again = Resender.resend
    monkeypatch.setattr(Resender, "resend", lambda sender, place: gone.append(place) or again(sender, place))
    machine = {**MACHINES["near and far"], "mpi": {"collectives": {"allgather": "recursive_doubling"}}}
    check([Step("sleep", 50, rank=3), Step("allgather", 150), Step("die")], machine, 8, shards=3, trace=True)
    assert len(gone) == 4


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_persistent_collective_that_does_not_fit_the_others(rank: int, shards: int) -> None:
    check([Step("odd", 1, rank=rank)], MACHINES["plain"], 4, shards=shards)  # each start counted the rank once more


@pytest.mark.parametrize("shards", [1, 2])
def test_what_a_rank_has_begun_before_it_undoes_a_call_comes_after_it(shards: int) -> None:
    check([Step("barrier"), Step("some", 100), Step("barrier")], MACHINES["plain"], 8, shards=shards)


def test_who_waits_for_a_request_and_for_one_that_is_not_begun() -> None:
    steps = [Step("all get objects"), Step("ibarrier"), Step("send", rank=7)]
    check(steps, MACHINES["distances"], 33, fail=["rank=19 before its 3rd call"], ft=False)


def dups(count: int) -> None:
    """Each communicator is gone before the next one is made."""
    from mpi4py import MPI

    for _ in range(count):
        made = MPI.COMM_WORLD.Dup()
        made.Barrier()
        made.Free()


def test_what_was_sent_on_communicators_that_are_no_more_is_counted() -> None:
    way, other = (outcome(100, MACHINES["plain"], 4, dups, collectives=way) for way in ("arrays", "messages"))
    assert way == other


@pytest.mark.parametrize("nth", [2, 3])
def test_the_trace_of_a_rank_that_dies_after_it_has_left_a_call_that_is_undone(nth: int) -> None:
    steps = [Step("agree", 5), Step("barrier")]
    check(steps, MACHINES["plain"], 6, fail=[f"rank=4 before its {nth}th call"], trace=True, shards=2)


def test_a_revocation_that_comes_without_a_message() -> None:
    steps = [Step("revoke", rank=2), Step("allreduce", 5, sub=1)]  # by one who has not come yet
    check(steps, {**MACHINES["plain"], "mpi": {"ulfm": {"revoke": "local"}}}, 8, shards=3, ft=True)


DEATHS = st.lists(
    st.tuples(st.integers(0, MOST - 1), st.booleans(), st.integers(0, 150_000)),
    min_size=1,
    max_size=3,
    unique_by=itemgetter(0),
)


@given(
    st.lists(st.one_of(COLLECTIVE, AROUND), min_size=1, max_size=8),
    DEATHS,
    st.sampled_from(sorted(MACHINES)),
    PREFERENCE,
    st.booleans(),
    SHARDS,
)
def test_any_program_in_which_ranks_fail(
    steps: list[Step],
    deaths: list[tuple[int, bool, int]],
    machine: str,
    wanted: dict[str, str],
    trace: bool,
    shards: int,
) -> None:
    failures = [
        f"rank={rank}@{when}ns" if timed else f"rank={rank} before its {when % 9 + 1}th call"
        for rank, timed, when in deaths
    ]
    described = {**MACHINES[machine], "mpi": {"collectives": wanted}}
    check(steps, described, MOST, fail=failures, ft=False, trace=trace, shards=shards)


@settings(max_examples=50 if CAMPAIGN else 8)
@given(
    st.lists(st.one_of(COLLECTIVE, COLLECTIVE, RECOVERY), min_size=1, max_size=9),
    DEATHS,
    st.sampled_from(["timeout", "heartbeat"]),
    st.sampled_from(["reliable_broadcast", "direct", "local"]),
    st.sampled_from(["early_returning", "two_phase"]),
    st.sampled_from(sorted(MACHINES)),
    PREFERENCE,
    st.booleans(),
    SHARDS,
)
def test_any_program_that_goes_on_without_those_who_fail(
    steps: list[Step],
    deaths: list[tuple[int, bool, int]],
    detector: str,
    revoke: str,
    agree: str,
    machine: str,
    wanted: dict[str, str],
    trace: bool,
    shards: int,
) -> None:
    mpi = {"collectives": wanted, "detector": {"type": detector}, "ulfm": {"revoke": revoke, "agree": agree}}
    failures = [
        f"rank={rank}@{4 * when}ns" if timed else f"rank={rank} before its {when % 9 + 1}th call"
        for rank, timed, when in deaths
    ]
    options: dict[str, Any] = {"fail": failures, "ft": True, "trace": trace, "shards": shards}
    check(steps, {**MACHINES[machine], "mpi": mpi}, MOST, program=survive, **options)


@pytest.mark.parametrize("shards", [1, 2])
def test_collectives_of_survivors_are_computed(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    finish = CollectiveInstances.finish
    monkeypatch.setattr(
        CollectiveInstances, "finish", lambda self, call: (computed.append(call.comm.context.size), finish(self, call))
    )
    steps = [Step("barrier"), Step("barrier"), Step("agree", 1), *[Step("allreduce", 3)] * 3]
    check(
        steps,
        MACHINES["plain"],
        33,
        program=survive,
        fail=["rank=5 before its 2nd Barrier"],
        ft=True,
        shards=shards,
    )
    assert computed.count(32) >= 3 * shards
    computed.clear()
    steps = [Step("iagree"), *[Step("barrier")] * 8, Step("wait")]  # a notice comes to ranks that wait in a barrier
    check(steps, MACHINES["plain"], 33, program=survive, ft=True, shards=shards)
    assert computed.count(33) >= 5 * shards


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("operation", "algorithm"), [(operation, name) for operation in COMPUTED for name in ALGORITHMS[operation]]
)
@settings(max_examples=6 if CAMPAIGN else 2)
@given(
    st.integers(2, MOST),
    st.sampled_from([0, 1, 3, 50]),
    st.sampled_from(OPS),
    st.sampled_from(sorted(MACHINES)),
    RANK,
    SHARDS,
)
def test_every_algorithm(
    operation: str, algorithm: str, ranks: int, count: int, op: str, machine: str, skew: int, shards: int
) -> None:
    steps = [Step("sleep", 9, rank=skew), *[Step(operation, count, op, rank=skew)] * 2]
    check(steps, {**MACHINES[machine], "mpi": {"collectives": {operation: algorithm}}}, ranks, shards=shards)
