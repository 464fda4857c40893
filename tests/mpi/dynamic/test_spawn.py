"""Spawn: when new ranks begin, where, under which numbers, and how they and their parents end."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.report import Result

US = 10**6
SHARDS = [1, 2, 3, 7]
TIMES = {"spawn.startup": "7ms", "spawn.startup_per_process": "100us"}
CHILD = "from mpi4py import MPI; parent = MPI.Comm.Get_parent(); world = MPI.COMM_WORLD\n"


def run(program: Callable[..., Any], *args: Any, ranks: int = 1, **options: Any) -> Result:
    return simulate(program, ranks=ranks, args=args, **{"set": TIMES, **options})


def printed(program: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
    out = io.StringIO()
    result = run(program, *args, stdout=out, **options)
    assert (result.ended, result.exit_status, result.warnings) == ("finished", 0, []), result.report
    return out.getvalue().splitlines()


def times(counts: list[int], alone: bool) -> tuple[int, list[int]]:
    """When this rank has its children, and when they began, in picoseconds."""
    from mpi4py import MPI

    comm = MPI.COMM_SELF if alone else MPI.COMM_WORLD
    code = CHILD + "begun = MPI.Wtime(); parent.gather(begun, root=0); parent.Disconnect()"
    began = []
    there = 0
    for count in counts:
        inter = comm.Spawn(sys.executable, ["-c", code], count)
        there = there or round(MPI.Wtime() * 10**12)
        began += inter.gather(None, root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL) or []
        inter.Disconnect()
    return there, [round(time * 10**12) for time in began]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_processes_begin_a_notice_after_the_launcher_is_done(count: int) -> None:
    """GigE: a notice takes 20 us; there, the work, to the nodes, and back to who has asked."""
    values = run(times, [count], True, ranks=2).values
    work = [7000 * US + count * 100 * US, 2 * (7000 * US + count * 100 * US)]
    for there, began in values:
        which = 0 if began[0] < 2 * 7000 * US else 1  # it does what one asks for after the other
        assert began == [20 * US + work[which] + 20 * US] * count
        assert there == began[0] + 20 * US
    assert sorted(began[0] for _, began in values)[1] > work[1]


def test_a_single_rank_is_as_far_from_the_launcher_as_on_one_node() -> None:
    ((there, began),) = run(times, [3], True).values
    assert (began[0], there) == (7300 * US + 2 * 800_800, 7300 * US + 3 * 800_800)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_shards_make_no_difference(ranks: int) -> None:
    results = [run(times, [1, 3, 2], False, ranks=ranks, shards=shards, trace=True) for shards in SHARDS]
    assert len({result.digest for result in results}) == 1
    assert len({str(result.values) for result in results}) == 1
    assert len({str(result.tables["ranks"].columns) for result in results}) == 1
    assert len({result.summary["events"] for result in results}) == 1
    traced = [list(result.trace.messages) for result in results if result.trace is not None]
    assert traced == [traced[0]] * len(SHARDS)


def tell() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    lines = [["-c", CHILD + f"print({name!r}, world.rank, MPI.Get_processor_name())"] for name in "ab"]
    inter = comm.Spawn_multiple([sys.executable] * 2, lines, [1, 2])
    print(inter.remote_size)


def test_ranks_are_numbered_on_and_take_free_places() -> None:
    out = io.StringIO()
    cores = {"machine.cores_per_node": "3", **TIMES}
    result = run(tell, ranks=2, set=cores, stdout=out, label=True)
    lines = ["[0] 3", "[1] 3", "[2] a 0 node0", "[3] b 1 node1", "[4] b 2 node1"]
    assert sorted(out.getvalue().splitlines()) == lines
    assert result.tables["ranks"].columns["rank"] == [0, 1, 2, 3, 4]
    assert result.tables["ranks"].columns["node"] == [0, 0, 0, 1, 1]
    worlds = result.tables["worlds"].columns
    assert [worlds[name] for name in ("world", "first_rank", "size", "parent")] == [[1], [2], [3], [0]]
    assert [round(time * 10**12) for time in worlds["born_s"]] == [7300 * US + 2 * 800_800]


def fill_up(wanted: int) -> list[Any]:
    from mpi4py import MPI

    seen: list[Any] = [MPI.COMM_WORLD.Get_attr(MPI.UNIVERSE_SIZE)]
    code = CHILD + "parent.Disconnect()"
    for count in (wanted, wanted + 1):
        for _ in range(2):
            codes: list[int] = []
            try:
                inter = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code], count, errcodes=codes)
            except MPI.Exception as error:
                seen.append(error.Get_error_class() == MPI.ERR_SPAWN)
                seen.append(str(error).partition("(")[2])
            else:
                seen.append((inter.remote_size, codes))
                inter.Disconnect()
                time.sleep(1e-3)  # until the launcher has heard that they have ended
    return seen


def test_where_no_place_is_free_nothing_starts_and_places_come_back() -> None:
    overrides = {"machine.nodes": "4", **TIMES}
    (seen,) = run(fill_up, 3, set=overrides).values
    assert seen[:3] == [4, (3, [0, 0, 0]), (3, [0, 0, 0])]
    assert seen[3] is seen[5] is True
    assert seen[4].startswith("the machine has no 4 free places for python")
    assert seen[4].endswith("; give it more nodes, or a spawn.universe of more than 4)")


def refused_in_part() -> list[int]:
    from mpi4py import MPI

    codes = ["-c", CHILD + "parent.Disconnect()"]
    wrong = MPI.Info.Create({"soft": "x"})
    with pytest.raises(MPI.Exception):
        MPI.COMM_SELF.Spawn_multiple([sys.executable] * 2, [codes] * 2, [2, 1], [MPI.INFO_NULL, wrong])
    errors: list[int] = []
    MPI.COMM_SELF.Spawn(sys.executable, codes, 3, errcodes=errors).Disconnect()
    return errors


def test_what_is_refused_in_part_takes_no_place() -> None:
    (errors,) = run(refused_in_part, set={"machine.nodes": "4", **TIMES}).values
    assert errors == [0, 0, 0]


def with_hints(*hints: dict[str, str]) -> list[Any]:
    from mpi4py import MPI

    seen: list[Any] = []
    for hint in hints:
        codes: list[int] = []
        code = CHILD + "parent.gather(MPI.Get_processor_name(), root=0); parent.Disconnect()"
        try:
            inter = MPI.COMM_SELF.Spawn(sys.executable, ["-c", code], 4, info=MPI.Info.Create(hint), errcodes=codes)
        except MPI.Exception as error:
            seen.append(error.Get_error_class() == MPI.ERR_SPAWN)
        else:
            there = inter.gather(None, root=MPI.ROOT) if inter.remote_size else []
            seen.append((there, [code != MPI.SUCCESS for code in codes]))
            inter.Disconnect()
            time.sleep(1e-3)
    return seen


def test_hints_say_where_and_how_many() -> None:
    overrides = {"machine.nodes": "3", "machine.cores_per_node": "2", **TIMES}
    hints = [
        {"soft": "0:3"},
        {"soft": "1,2"},
        {"soft": "9:7:-1"},
        {"soft": "x"},
        {"host": "node2,node1"},
        {"host": "node2", "soft": "0:4"},
        {"host": "elsewhere"},
        {"wdir": "/no/such/place"},
    ]
    (seen,) = run(with_hints, *hints, set=overrides).values
    missing = [False, False, False, True], [False, False, True, True]
    assert seen[0] == (["node0", "node1", "node1"], missing[0])
    assert seen[1] == (["node0", "node1"], missing[1])
    assert seen[2:4] == [True, True]
    assert seen[4] == (["node1", "node1", "node2", "node2"], [False] * 4)
    assert seen[5] == (["node2", "node2"], missing[1])
    assert seen[6:] == [True, True]


ENDS = {
    "raise": "1 / 0",
    "abort": "world.Abort(7)",
    "exit": "parent.Disconnect(); import sys; sys.exit(3)",
    "wait": "world.recv(source=0)",
    "kill": "import os; os.kill(os.getpid(), 9)",
}


def ending(how: str) -> None:
    from mpi4py import MPI

    inter = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", CHILD + "parent.barrier()\n" + ENDS[how]], 1)
    inter.barrier()
    if how == "exit":
        inter.Disconnect()
    else:
        inter.recv(source=0)


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize(
    ("how", "ended", "status", "report"),
    [
        ("raise", "aborted", 1, "rank 2 ended the job at 7.220264 ms: ZeroDivisionError: division by zero"),
        ("abort", "aborted", 7, "rank 2 ended the job at 7.220264 ms: MPI.Comm.Abort(7) on MPI_COMM_WORLD of world 1"),
        ("kill", "aborted", 137, "rank 2 ended the job at 7.220264 ms: killed by SIGKILL"),
        (
            "wait",
            "stalled",
            3,
            "MPI_COMM_WORLD of world 1: a message from rank 0, any tag; it is rank 2 of the whole run",
        ),
    ],
)
def test_who_was_started_later_ends_as_the_first_do(
    how: str, ended: str, status: int, report: str, shards: int
) -> None:
    result = run(ending, how, ranks=2, shards=shards, stderr=io.StringIO())
    assert (result.ended, result.exit_status) == (ended, status)
    assert report in result.report
    assert (ended, "0 of 3 ranks have ended" in result.report) in {("aborted", False), ("stalled", True)}


def test_an_exit_status_counts_and_does_not_end_the_job() -> None:
    result = run(ending, "exit", ranks=2)
    assert (result.ended, result.exit_status) == ("finished", 3)
    assert result.tables["ranks"].columns["exit_status"] == [0, 0, 3]


def survive(how: str) -> list[Any]:
    from mpi4py import MPI

    inter = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", CHILD + "parent.barrier()\n" + ENDS[how]], 2)
    inter.barrier()
    failed = []
    for child in range(2):
        try:
            inter.recv(source=child)
        except MPI.Exception as error:
            failed.append(error.Get_error_class() == MPI.ERR_PROC_FAILED)
    return [failed, inter.Get_failed().size, inter.Shrink().remote_size]


@pytest.mark.parametrize("detector", ["timeout", "heartbeat"])
@pytest.mark.parametrize("shards", SHARDS)
def test_a_job_that_tolerates_failures_outlives_those_who_were_started_later(detector: str, shards: int) -> None:
    overrides = {"mpi.detector.type": detector, **TIMES}
    result = run(survive, "kill", ranks=2, shards=shards, ft=True, set=overrides)
    assert (result.ended, result.values) == ("finished", [[[True, True], 2, 0]] * 2)
    assert [failure["rank"] for failure in result.failures] == [2, 3]
    assert result.digest == run(survive, "kill", ranks=2, ft=True, set=overrides).digest


def start_over() -> list[int]:
    from mpi4py import MPI

    inter = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", CHILD + "parent.barrier()"], 2)
    inter.barrier()
    MPI.COMM_WORLD.Barrier()
    return [inter.remote_size]


@pytest.mark.parametrize("shards", SHARDS)
def test_a_job_that_is_started_again_spawns_again(shards: int) -> None:
    result = run(start_over, ranks=2, shards=shards, fail=["rank=1@7.3ms"], restart="on-abort", ft=False)
    assert (result.ended, result.summary["restarts"], result.values) == ("finished", 1, [[2], [2]])
    worlds = result.tables["worlds"].columns
    assert (worlds["start"], worlds["first_rank"]) == ([0, 1], [2, 2])
    assert result.digest == run(start_over, ranks=2, fail=["rank=1@7.3ms"], restart="on-abort", ft=False).digest


def test_the_timeline_has_a_row_for_each_from_its_birth_on() -> None:
    quick = {"spawn.startup": "20us", "spawn.startup_per_process": "0s"}
    result = run(times, [2], False, ranks=2, trace=True, set=quick)
    rows = [line for line in result.timeline_text(width=50).splitlines() if line.startswith("rank ")]
    assert [row.split()[1] for row in rows] == ["0", "1", "2", "3"]
    lives = [row.partition("|")[2].rstrip("|") for row in rows]
    assert all(life[0] == "S" for life in lives[:2])
    assert all(life.startswith("   ") and life.strip() for life in lives[2:])


@pytest.mark.parametrize("shards", SHARDS)
def test_a_single_rank_that_gets_no_processes_ends_the_job(shards: int) -> None:
    one = {"machine.nodes": "1", **TIMES}
    result = run(times, [1], True, set=one, shards=shards, stderr=io.StringIO())
    assert (result.ended, result.exit_status) == ("aborted", 1)
    assert "MPI_ERR_SPAWN" in result.report


def crowd() -> list[Any]:
    from mpi4py import MPI

    body = "both = parent.Merge(high=True); world.allreduce(1); world.Barrier(); both.allgather(both.rank)"
    inter = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", CHILD + body], 30)
    both = inter.Merge(high=False)
    both.allgather(both.rank)
    return [both.size, MPI.Wtime()]


@pytest.mark.parametrize("ranks", [1, 3])
def test_collectives_of_those_who_were_started_later_may_be_computed_at_once(ranks: int) -> None:
    messages, arrays, parts = (
        run(crowd, ranks=ranks, **options)
        for options in ({"collectives": "messages"}, {"collectives": "arrays"}, {"shards": 3})
    )
    assert messages.values == arrays.values == parts.values
    assert messages.digest == arrays.digest == parts.digest


@pytest.mark.parametrize(
    ("machine", "overrides"),
    [
        ("shmem", {}),
        ("torus3d", {"spawn.universe": "20"}),
        ("gige", {"machine.cores_per_node": "3", "machine.placement": "round_robin"}),
        ("gige", {"network.contention": "links"}),
        ("gige", {"network.contention": "flows"}),
        ("gige", {"storage.latency": "3us"}),
        ("gige", {"spawn.startup": "0s", "spawn.startup_per_process": "0s"}),
    ],
)
def test_shards_make_no_difference_on_any_machine(machine: str, overrides: dict[str, str]) -> None:
    results = [
        run(times, [2, 3], False, ranks=3, shards=shards, machine=machine, set={**TIMES, **overrides})
        for shards in SHARDS
    ]
    assert {result.ended for result in results} == {"finished"}
    assert len({result.digest for result in results}) == 1


def outlive(nap_s: float) -> list[Any]:
    from mpi4py import MPI

    code = CHILD + f"import time; time.sleep({nap_s}); parent.send(world.rank, 0)"
    inter = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", code], 3)
    seen: list[Any] = []
    for child in range(3) if MPI.COMM_WORLD.rank == 0 else ():
        try:
            seen.append(inter.recv(source=child))
        except MPI.Exception as error:
            seen.append(error.Get_error_class() == MPI.ERR_PROC_FAILED)
    return seen


@pytest.mark.parametrize("shards", SHARDS)
def test_who_runs_on_a_node_that_fails_dies_with_it(shards: int) -> None:
    """Two cores a node: on node 1 are rank 2, which has ended, and rank 3."""
    overrides = {"machine.cores_per_node": "2", **TIMES}
    result = run(outlive, 0.01, ranks=3, shards=shards, fail=["node=1@9ms"], set=overrides)
    assert (result.ended, result.values[0]) == ("finished", [True, 1, 2])
    assert [(failure["rank"], failure["cause"]) for failure in result.failures] == [(3, "injected: node=1@9ms")]


def test_draws_hold_for_those_who_are_started_later() -> None:
    drawn = {"failures.draws": "[{per: rank, mtbf: 40ms}]", "mpi.fault_tolerance": "true", **TIMES}
    results = [run(outlive, 1.0, ranks=1, shards=shards, set=drawn, seed=4) for shards in SHARDS]
    assert {failure["rank"] for failure in results[0].failures} >= {1, 2, 3}
    assert len({result.digest for result in results}) == 1


@pytest.mark.parametrize("shards", SHARDS)
def test_where_more_ranks_are_to_come_failures_can_name_them(shards: int) -> None:
    failures = ["rank=2@9ms", "rank=3 before its 1st send", "node=4@1ms", "node=4@11ms", "rank=7@1s"]
    overrides = {"spawn.universe": "5", **TIMES}
    result = run(outlive, 0.01, ranks=2, shards=shards, fail=failures, set=overrides)
    assert (result.ended, result.values[0]) == ("finished", [True, True, True])
    assert [(failure["rank"], failure["cause"]) for failure in result.failures] == [
        (2, "injected: rank=2@9ms"),
        (4, "injected: node=4@11ms"),
        (3, "injected: rank=3 before its 1st send"),
    ]
    with pytest.raises(ConfigError, match="rank 2 does not exist"):
        run(outlive, 0.01, ranks=2, fail=failures[:1])


def replace_the_dead() -> str:
    """Start a process for the one that has died, and return on which node it is, or why it is not."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    try:
        comm.Barrier()
    except MPI.Exception:
        comm.Revoke()
    left = comm.Shrink()
    code = CHILD + "parent.gather(MPI.Get_processor_name(), root=0); parent.Disconnect()"
    try:
        inter = left.Spawn(sys.executable, ["-c", code], comm.size - left.size)
    except MPI.Exception as error:
        return error.Get_error_string()
    names = inter.gather(None, root=MPI.ROOT if left.rank == 0 else MPI.PROC_NULL)
    inter.Disconnect()
    return " ".join(names or [])


@pytest.mark.parametrize(
    ("fail", "spare", "there"),
    [
        (["rank=2@1us"], 0, "node1"),
        (["rank=2@1us", "rank=3@1us"], 0, "node1 node1"),
        (["rank=2@1us"], 1, "node2"),
        (["node=1@1us"], 0, ""),
        (["blade=1@1us"], 0, ""),
        (["node=1@1us"], 1, "node2 node2"),
        (["socket=2@1us"], 0, "node1"),
    ],
)
def test_the_core_of_a_failed_process_is_free_unless_its_node_has_failed(
    fail: list[str], spare: int, there: str
) -> None:
    parts = [{"name": "blade", "nodes": 1}, {"name": "socket", "cores": 1}]
    machine = {
        "network": {"latency": "2us", "bandwidth": "10Gbps"},
        "machine": {"cores_per_node": 2, "nodes": 2 + spare},
        "failures": {"components": parts},
    }
    for shards in (1, 2):
        result = simulate(replace_the_dead, ranks=4, machine=machine, set=TIMES, fail=fail, shards=shards)
        if there:
            assert result.values[0] == there
        else:
            assert "the machine has no 2 free places" in result.values[0]
