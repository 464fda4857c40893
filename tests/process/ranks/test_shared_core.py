"""Ranks that share a core, and ranks and nodes of another speed."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py import simulate
from xsim_py.errors import ConfigError

MS = 10**9


def machine(cores: int, nodes: int = 1, **more: Any) -> dict[str, Any]:
    nodes_section = {"nodes": nodes, "cores_per_node": cores, "oversubscribe": True}
    return {"machine": nodes_section | more.pop("machine", {}), "network": {"latency": "1us"}, **more}


def stretches(*plans: list[tuple[int, int]]) -> list[int]:
    """Sleep and compute so many microseconds, again and again; when each stretch was done, in picoseconds."""
    from time import sleep

    from mpi4py import MPI

    ends = []
    for pause_us, work_us in plans[MPI.COMM_WORLD.rank]:
        sleep(pause_us * 1e-6)
        MPI.Pcontrol(work_us * 1000)
        ends.append(round(MPI.Wtime() * 10**12))
    return ends


def run(plans: list[list[tuple[int, int]]], described: dict[str, Any], *, shards: int = 1, **more: Any) -> Any:
    result = simulate(stretches, ranks=len(plans), machine=described, args=plans, shards=shards, **more)
    assert result.ended == "finished", result.report
    return result


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize(("ranks", "cores", "shared"), [(8, 1, [8]), (8, 4, [2]), (7, 4, [1, 2]), (5, 8, [1])])
def test_k_ranks_on_a_core_take_k_times_as_long(ranks: int, cores: int, shared: list[int], shards: int) -> None:
    result = run([[(0, 1000)]] * ranks, machine(cores), shards=shards)
    assert sorted({end // MS for (end,) in result.values}) == shared


def test_who_waits_costs_the_others_nothing() -> None:
    plans = [[(0, 4000)], [(1000, 1000)], [(50_000, 1000)]]
    # alone 1 ms, then two until the second has had its 1 ms, then alone again
    assert run(plans, machine(1)).values == [[5 * MS], [3 * MS], [51 * MS]]


def by_hand(plans: list[list[tuple[int, int]]]) -> list[list[Fraction]]:
    """Share one core equally among those who compute, from event to event."""
    now = Fraction(0)
    ends: list[list[Fraction]] = [[] for _ in plans]
    ahead = [list(plan) for plan in plans]
    wakes = {rank: Fraction(plan[0][0]) for rank, plan in enumerate(plans)}
    left: dict[int, Fraction] = {}
    while wakes or left:
        soonest = min([*wakes.values(), *(now + work * len(left) for work in left.values())])
        left = {rank: work - (soonest - now) / len(left) for rank, work in left.items()}
        now = soonest
        for rank in [rank for rank, work in left.items() if work == 0]:
            del left[rank]
            ends[rank].append(now)
            if ahead[rank]:
                wakes[rank] = now + ahead[rank][0][0]
        for rank in [rank for rank, time in wakes.items() if time == now]:
            del wakes[rank]
            left[rank] = Fraction(ahead[rank].pop(0)[1])
    return ends


PLAN = st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 5000)), min_size=1, max_size=4)


@settings(max_examples=30 if CAMPAIGN else 10)
@given(st.lists(PLAN, min_size=1, max_size=5))
def test_random_stretches_end_as_by_hand(plans: list[list[tuple[int, int]]]) -> None:
    found = run(plans, machine(1)).values
    expected = by_hand(plans)
    for rank, ends in enumerate(found):
        assert [end / 10**6 for end in ends] == pytest.approx([float(end) for end in expected[rank]], abs=1e-4)


def test_who_dies_leaves_the_core_to_the_others() -> None:
    result = run([[(0, 10_000)]] * 4, machine(1), fail="rank=2@20ms", ft=True)
    assert [values and values[0] // MS for values in result.values] == [35, 35, None, 35]


STARTING = """
import sys, time
from mpi4py import MPI
child = "from mpi4py import MPI; MPI.Pcontrol(10**9); print(round(MPI.Wtime(), 3))"
if MPI.COMM_WORLD.rank == 0:
    MPI.COMM_SELF.Spawn(sys.executable, ["-c", child])
time.sleep(0.5 - MPI.Wtime())
MPI.Pcontrol(10**9)
print(round(MPI.Wtime(), 3))
"""


@pytest.mark.parametrize("way", [{"shards": 1}, {"shards": 2}, {"isolation": "process"}])
def test_who_is_started_later_shares_no_core(way: dict[str, Any], tmp_path: Path) -> None:
    file, said = tmp_path / "ranks.csv", io.StringIO()
    file.write_text("rank,node,core\n0,0,0\n1,0,2\n")  # the next core in the order is taken, and another one free
    described = machine(3, machine={"rank_file": str(file)})
    simulate(STARTING, kind="code", ranks=2, machine=described, stdout=said, **way)
    assert said.getvalue().split() == ["1.24", "1.5", "1.5"]


def test_ranks_and_nodes_have_speeds_of_their_own() -> None:
    speeds = [{"nodes": "1-2", "speed": 0.5}, {"ranks": "0, 3", "speed": 4}, {"ranks": 4, "nodes": 0, "speed": 9}]
    described = machine(2, nodes=3, compute={"speeds": speeds, "speed": 2})
    assert run([[(0, 8000)]] * 6, described).values == [[t * MS] for t in (1, 4, 8, 2, 8, 8)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"nodes": "1, 3-4"}, r"compute\.speeds\[1\]\.nodes: node 4 is out of range \(0 to 2\)"),
        ({"ranks": 6}, r"compute\.speeds\[1\]\.ranks: rank 6 is out of range \(0 to 5\)"),
    ],
)
def test_speeds_of_what_is_not_there_are_refused(entry: dict[str, object], message: str) -> None:
    speeds = [{"nodes": 2, "ranks": 5, "speed": 2}, {**entry, "speed": 2}]
    with pytest.raises(ConfigError, match=message):
        run([[(0, 1)]] * 2, machine(2, nodes=3, compute={"speeds": speeds}))


@pytest.mark.parametrize("shards", [1, 2])
def test_speeds_that_no_rank_has_are_told(shards: int) -> None:
    speeds = [{"nodes": 1, "speed": 2}, {"nodes": 7, "speed": 2}, {"ranks": 1, "nodes": 0, "speed": 2}]
    described = {"network": {"latency": "1us"}, "compute": {"speeds": speeds}}  # with as many nodes as ranks
    result = run([[(0, 1)]] * 2, described, shards=shards)
    assert result.warnings == [f"compute.speeds[{index}]: matches no rank" for index in (1, 2)]
    assert run([[(0, 1)]] * 8, described, shards=shards).warnings == ["compute.speeds[2]: matches no rank"]


def test_a_file_says_where_ranks_are(tmp_path: Path) -> None:
    file = tmp_path / "ranks.csv"
    file.write_text("node, rank, core\n1, 0, 0\n0, 1, 1\n0, 2, 1\n1, 3, 1\n")
    described = machine(2, nodes=2, machine={"rank_file": str(file)})
    results = [run([[(0, 1000)]] * 4, described, shards=shards) for shards in (1, 2, 4)]
    assert [result.values for result in results] == [[[MS], [2 * MS], [2 * MS], [MS]]] * 3
    assert len({result.digest for result in results}) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rank,node\n", "missing column core; the header needs rank, node and core"),
        ("rank,node,core\n0,0,0\n", "missing line for rank 1"),
        ("rank,node,core\n0,0,0\n1,2,0\n", "out of range: expected a node from 0 to 1 and a core from 0 to 1"),
        ("rank,node,core\n0,0,0\n1,0,2\n", "out of range: expected a node from 0 to 1 and a core from 0 to 1"),
        ("rank,node,core\n0,0,0\n0,0,1\n", "duplicate line of rank 0"),
        ("rank,node,core\n0,0,0\n1,0,0\n", ":3: rank 0 is on the same core; set machine.oversubscribe to share cores"),
        ("rank,node,core\n0,zero,0\n", ":2: node: expected the number of a node or core, got 'zero'"),
        (None, "cannot find the file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "ranks.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        run([[(0, 1)]] * 2, machine(2, nodes=2, machine={"rank_file": str(file), "oversubscribe": False}))


@pytest.mark.parametrize("numbers", ["3-1", "a", "1,,2", -1, "1-2-3", True])
def test_what_is_no_list_of_numbers_is_refused(numbers: object) -> None:
    with pytest.raises(ConfigError, match=r"compute.speeds\[0\].ranks"):
        run([[(0, 1)]], machine(1, compute={"speeds": [{"ranks": numbers, "speed": 2}]}))


@pytest.mark.parametrize(
    ("for_ms", "ft", "ends"), [(3, False, [17, 20]), (30, False, [11, 41]), (30, True, [11, None])]
)
def test_who_hangs_leaves_the_core_to_the_others_until_it_comes_back(for_ms: int, ft: bool, ends: list[Any]) -> None:
    """Both have 10 ms of work; rank 1 stands still after 2 ms, in which each has done 1 ms of it."""
    result = run([[(0, 10_000)]] * 2, machine(1), fail=f"hang:rank=1,at=2ms,for={for_ms}ms", ft=ft)
    assert [values and values[0] / MS for values in result.values] == ends
