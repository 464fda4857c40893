"""A program of random collectives that knows nothing of failures, and what must hold of its results when ranks die."""

import io
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

from xsim_py import ftco, simulate
from xsim_py.mpi.ftco import driver

NETWORKS: dict[str, dict[str, Any]] = {
    "gige": {"topology": {"type": "switch"}, "network": {"latency": "20us", "bandwidth": "1Gbps"}},
    "logp": {
        "topology": {"type": "switch"},
        "network": {"latency": "10us", "send_overhead": "1us", "recv_overhead": "1us", "gap": "500ns"},
    },
    "nodes": {
        "machine": {"cores_per_node": 4},
        "topology": {"type": "torus"},
        "network": {"latency": "1us", "per_hop": "1us", "send_overhead": "300ns"},
        "same_node": {"latency": "500ns", "recv_overhead": "100ns"},
    },
}

LATENCY_S = {"gige": 20e-6, "logp": 10e-6, "nodes": 500e-9}
"""The shortest way from a rank to another."""

KINDS = (
    "Allreduce",
    "Iallreduce",
    "overlapping",
    "Reduce",
    "Bcast",
    "Barrier",
    "Allgather",
    "Gather",
    "Scatter",
    "Reduce_scatter_block",
    "Iallgather",
    "user operation",
    "concatenation",
    "allreduce",
    "bcast",
    "gather",
    "messages",
    "sub",
)


class Step(NamedTuple):
    """What all ranks do together; `root` is taken modulo the number of ranks."""

    kind: str
    root: int = 0


@dataclass
class Scenario:
    """A run: how many ranks, on which network, with which trees, what they do, and who dies when (in microseconds)."""

    ranks: int
    steps: list[Step]
    deaths: dict[int, float] = field(default_factory=dict)
    late: dict[int, float] = field(default_factory=dict)
    network: str = "gige"
    settings: dict[str, Any] = field(default_factory=dict)
    detector: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    instances: int = 64
    """After how many operations that tell nobody that all are through there is one that does."""

    @property
    def living(self) -> list[int]:
        return [rank for rank in range(self.ranks) if rank not in self.deaths]


@st.composite
def scenarios(draw: Any, most: int = 64) -> Scenario:
    """Random ones."""
    ranks = draw(st.integers(1, 8) | st.integers(1, most))
    members = st.integers(0, ranks - 1)
    times = st.just(0.0) | st.floats(0, 400) | st.floats(0, 4000)
    deaths = draw(st.dictionaries(members, times, max_size=ranks - 1))
    if draw(st.booleans()):
        deaths = dict(list(deaths.items())[:2])
    settings = {
        "algorithm": draw(st.sampled_from(["tree", "recursive_doubling"])),
        "tree": draw(st.sampled_from(["knomial", "kary"])),
        "radix": draw(st.sampled_from(["auto", 2, 3, 5])),
        "roots": draw(st.sampled_from(["single", "multi"])),
        "service_distance": draw(st.sampled_from(["rsd", "disd", "none"])),
        "timeout": draw(st.sampled_from(["paper", "paper", "200us", "1ms"])),
        "missing": draw(st.sampled_from(["nan", "none", "zero"])),
    }
    return Scenario(
        ranks=ranks,
        steps=draw(st.lists(st.builds(Step, st.sampled_from(KINDS), members), min_size=1, max_size=6)),
        deaths=deaths,
        late=draw(st.dictionaries(members, st.floats(0, 1500), max_size=3)),
        network=draw(st.sampled_from(sorted(NETWORKS))),
        settings=settings,
        detector=draw(st.sampled_from([{}, {"type": "heartbeat", "period": "300us", "timeout": "1ms"}])),
        seed=draw(st.integers(0, 3)),
        instances=draw(st.sampled_from([64, 2, 3])),
    )


def run(scenario: Scenario, *, shards: int = 1, **options: Any) -> Any:
    """Simulate it."""
    with patch.object(driver, "_OPERATIONS_PER_CHECK", scenario.instances):
        return _simulated(scenario, shards, options)


def _simulated(scenario: Scenario, shards: int, options: dict[str, Any]) -> Any:
    return simulate(
        play,
        ranks=scenario.ranks,
        machine=NETWORKS[scenario.network]
        | {"mpi": {"collectives": "ftco", "ftco": scenario.settings, "detector": scenario.detector}},
        args=[scenario.steps, scenario.late],
        fail=[f"rank={rank}@{time:.6f}us" for rank, time in scenario.deaths.items()],
        seed=scenario.seed,
        ft=True,
        shards=min(shards, scenario.ranks),
        wall_limit=60,
        stdout=io.StringIO(),
        stderr=io.StringIO(),
        **options,
    )


class Done(NamedTuple):
    """What one rank has seen of one step."""

    begin_s: float
    end_s: float
    value: Any
    missing: list[int] | None


def play(steps: list[Step], late: dict[int, float]) -> list[Done]:
    """What each rank runs."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank in late:
        time.sleep(late[comm.rank] * 1e-6)
    done = []
    for number, step in enumerate(steps):
        begin_s = MPI.Wtime()
        value = act(MPI, comm, step, number)
        done.append(Done(begin_s, MPI.Wtime(), value, ftco.missing(comm)))
    assert ftco.failed(comm) == sorted(comm.Get_failed().Translate_ranks(None, comm.group))
    return done


def act(MPI: Any, comm: Any, step: Step, number: int) -> Any:  # noqa: N803
    """One step of one rank."""
    me, size, root = comm.rank, comm.size, step.root % comm.size
    mine = np.zeros(size, "i4")
    mine[me] = 1
    total = np.full(size, -1, "i4")
    match step.kind:
        case "Allreduce":
            comm.Allreduce(mine, total)
            return total.tolist()
        case "Iallreduce":
            request = comm.Iallreduce(mine, total)
            request.Wait()
            return total.tolist()
        case "overlapping":
            other = np.full(size, -1, "i4")
            first = comm.Iallreduce(mine, total)
            comm.Allreduce(mine, other)
            first.Wait()
            return [total.tolist(), other.tolist()]
        case "Reduce":
            comm.Reduce(mine, total, root=root)
            return total.tolist() if me == root else None
        case "Bcast":
            data = np.array([number, me], "i4")
            try:
                comm.Bcast(data, root=root)
            except MPI.Exception as error:
                return error.Get_error_class() == MPI.ERR_PROC_FAILED
            return data.tolist()
        case "Barrier":
            comm.Barrier()
            return None
        case "Allgather":
            comm.Allgather(np.array([me + 1], "i4"), total)
            return total.tolist()
        case "Iallgather":
            comm.Iallgather(np.array([me + 1], "i4"), total).Wait()
            return total.tolist()
        case "Gather":
            comm.Gather(np.array([me + 1], "i4"), total, root=root)
            return total.tolist() if me == root else None
        case "Scatter":
            block = np.zeros(1, "i4")
            try:
                comm.Scatter(np.arange(size, dtype="i4"), block, root=root)
            except MPI.Exception as error:
                return error.Get_error_class() == MPI.ERR_PROC_FAILED
            return block.tolist() == [me]
        case "Reduce_scatter_block":
            block = np.zeros(1, "i4")
            comm.Reduce_scatter_block(np.full(size, 1 + (me << 8), "i4"), block)
            return block.tolist()
        case _:
            return act_otherwise(MPI, comm, step, number)


def act_otherwise(MPI: Any, comm: Any, step: Step, number: int) -> Any:  # noqa: N803
    """Those that move objects, run the program's code, or use other communicators."""
    me, size, root = comm.rank, comm.size, step.root % comm.size
    match step.kind:
        case "user operation":
            keep_order = MPI.Op.Create(_append, commute=False)
            names = np.zeros(size + 1, "i4")
            names[:2] = 1, me
            total = np.zeros(size + 1, "i4")
            comm.Allreduce(names, total, keep_order)
            return total[1 : total[0] + 1].tolist()
        case "concatenation":
            return comm.allreduce([me], op=lambda left, right: left + right)
        case "allreduce":
            mine = np.zeros(size, "i4")
            mine[me] = 1
            return comm.allreduce(mine).tolist()
        case "bcast":
            try:
                return comm.bcast({"from": me, "step": number}, root=root)
            except MPI.Exception as error:
                return error.Get_error_class() == MPI.ERR_PROC_FAILED
        case "gather":
            return comm.gather(str(me), root=root)
        case "messages":
            return _talk(MPI, comm)
        case _:
            return _split(comm, me)


def _append(first: Any, second: Any, _: Any) -> None:
    """Lists of numbers, the first of which is their length: second = first + second."""
    left, right = (np.frombuffer(memory, "i4") for memory in (first, second))
    both = [*left[1 : left[0] + 1], *right[1 : right[0] + 1]]
    right[: len(both) + 1] = [len(both), *both]


def _talk(MPI: Any, comm: Any) -> None:  # noqa: N803
    """Messages to the next rank beside a collective; who hears nothing does not mind."""
    request = comm.isend("hello", dest=(comm.rank + 1) % comm.size, tag=7)
    try:
        comm.recv(source=(comm.rank - 1) % comm.size, tag=7)
        request.wait()
    except MPI.Exception as error:
        if error.Get_error_class() != MPI.ERR_PROC_FAILED:
            raise


def _split(comm: Any, me: int) -> Any:
    """A part of the communicator has collectives, too."""
    part = comm.Split(me % 2, me)
    total = part.allreduce([me], op=lambda left, right: left + right)
    part.Free()
    return total


# ------------------------------------------------------------------------------------------------- what must hold


def check(scenario: Scenario, result: Any) -> None:
    """All of it."""
    assert result.ended == "finished", result.report
    living = scenario.living
    for number, step in enumerate(scenario.steps):
        seen = {rank: result.values[rank][number] for rank in living}
        check_step(scenario, step, number, seen)
    died_s = {failure["rank"]: failure["time_s"] for failure in result.failures}
    for _, failed, rank, time_s, how in result.tables["learned"].rows():
        assert failed in died_s
        assert time_s >= died_s[failed] + LATENCY_S[scenario.network] - 1e-12, (failed, rank, how)
    assert result.virtual_time_s < longest_s(scenario)


def longest_s(scenario: Scenario) -> float:
    """No run takes longer: twice the time that somebody is late, and some time limits for each step and each death."""
    late_us = max(scenario.late.values(), default=0) + max(scenario.deaths.values(), default=0)
    return 2e-6 * late_us + 3e-3 * len(scenario.steps) * (2 + len(scenario.deaths))


def check_step(scenario: Scenario, step: Step, number: int, seen: dict[int, Done]) -> None:
    """Equal results at all living ranks, all of them are in, and nobody is in twice."""
    size, root, living = scenario.ranks, step.root % scenario.ranks, set(seen)
    values = [done.value for done in seen.values()]
    match step.kind:
        case "Allreduce" | "Iallreduce" | "allreduce":
            _check_counts(_same(values), living)
        case "overlapping":
            for counts in _same(values):
                _check_counts(counts, living)
        case "Reduce":
            if root in living:
                _check_counts(seen[root].value, living)
        case "Bcast" | "bcast" | "Scatter":
            value = _same(values)
            told: Any = {"Bcast": [number, root], "bcast": {"from": root, "step": number}, "Scatter": True}[step.kind]
            assert value == told or (root not in living and value is True), value
        case "Barrier":
            assert max(done.begin_s for done in seen.values()) <= min(done.end_s for done in seen.values())
        case "Allgather" | "Iallgather":
            _check_blocks(scenario, _same(values), living)
        case "Gather":
            if root in living:
                _check_blocks(scenario, seen[root].value, living)
        case "gather":
            if root in living:
                blocks = seen[root].value
                assert all(
                    block == str(rank) or (block is None and rank not in living) for rank, block in enumerate(blocks)
                )
        case "Reduce_scatter_block":
            (total,) = _same(values)
            assert size >= total & 255 >= len(living)
        case "user operation" | "concatenation":
            names = _same(values)
            assert names == sorted(set(names))
            assert living <= set(names)
        case "sub":
            for half in (0, 1):
                names = _same([value for rank, value in zip(seen, values, strict=True) if rank % 2 == half])
                assert names is None or (
                    names == sorted(set(names)) and {r for r in living if r % 2 == half} <= set(names)
                )
    if step.kind in ("Allreduce", "Allgather", "Barrier", "concatenation"):
        missing = _same([done.missing for done in seen.values()])
        assert not living & set(missing)
        if step.kind == "concatenation":
            assert sorted({*missing, *_same(values)}) == list(range(size))


def _same(values: list[Any]) -> Any:
    assert all(value == values[0] for value in values), values
    return values[0] if values else None


def _check_counts(counts: list[int], living: set[int]) -> None:
    assert set(counts) <= {0, 1}, counts
    assert all(counts[rank] == 1 for rank in living), counts


def _check_blocks(scenario: Scenario, blocks: list[int], living: set[int]) -> None:
    hole = -1 if scenario.settings.get("missing") == "none" else 0
    for rank, block in enumerate(blocks):
        assert block == rank + 1 or (rank not in living and block == hole), blocks
