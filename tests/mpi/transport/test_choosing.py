"""A run makes the choices of its schedule, repeats its own to the bit, and says what else they could have been."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from tests.cases import Case, all_cases
from tests.simulated import run_simulated
from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.schedules import MatchSchedule, inline, pairs_of, text_of


def run(program: Any, **options: Any) -> Any:
    return simulate(program, stdout=io.StringIO(), stderr=io.StringIO(), **{"ranks": 4, **options})


def collects() -> Any:
    """Receive from all others in four ways, and return who came when."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    others = range(1, comm.size)
    if comm.rank:
        for tag in range(4):
            comm.send(comm.rank, dest=0, tag=tag)
        return None
    received = [comm.recv(source=MPI.ANY_SOURCE, tag=0) for _ in others]
    status = MPI.Status()
    for _ in others:
        comm.probe(source=MPI.ANY_SOURCE, tag=1, status=status)
        received.append(comm.recv(source=status.source, tag=1))
    requests = [comm.irecv(source=source, tag=2) for source in others]
    received += [MPI.Request.waitany(requests)[0] for _ in others]
    requests = [comm.irecv(source=source, tag=3) for source in others]
    while (some := MPI.Request.waitsome(requests)[0]) is not None:
        received.append(sorted(some))
    return received


def test_an_empty_schedule_and_one_that_is_watched_change_nothing() -> None:
    plain = run(collects)
    watched = run(collects, schedule=MatchSchedule({}, watch=True))
    assert plain.digest == run(collects, schedule=[]).digest == watched.digest
    assert plain.choices == []
    assert [choice.kind for choice in watched.choices][:7] == ["receive"] * 3 + ["probe"] * 3 + ["any"]


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_run_repeats_its_choices_to_the_bit(shards: int) -> None:
    wanted = [(0, choice) for choice in (3, 1, 2, 2, 3, 1, 2, 0, 5)]
    first = run(collects, schedule=wanted)
    assert first.values[0][:8] == [3, 1, 2, 2, 3, 1, 2, 0]
    assert first.values[0][9:] == [[0, 2], [1]]
    again = run(collects, schedule=pairs_of(first.choices), shards=shards)
    assert (again.digest, again.values) == (first.digest, first.values)
    assert run(collects, schedule=wanted, shards=shards).digest == first.digest


CASES = [case for case in all_cases() if case.ranks <= 8]
SAMPLE = CASES if CAMPAIGN else CASES[::50]


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_programs_of_all_kinds_repeat_themselves_by_their_choices(case: Case) -> None:
    plain = run_simulated(case)[1]
    watched = run_simulated(case, schedule=MatchSchedule({}, watch=True))[1]
    told = {"schedule": pairs_of(watched.choices), "shards": 3, "trace": True}
    assert plain.digest == watched.digest == run_simulated(case, **told)[1].digest


def test_ranks_in_processes_of_their_own_choose_as_well() -> None:
    wanted = [(0, 3), (0, 1)]
    here = run(collects, schedule=wanted)
    apart = run(collects, schedule=wanted, isolation="process:2")
    assert (apart.digest, apart.choices) == (here.digest, here.choices)


def test_choices_may_be_left_free_and_polls_wait_for_what_is_wanted() -> None:
    def polls() -> Any:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            comm.send(comm.rank, dest=0)
            return None
        found = []
        while len(found) < comm.size - 1:
            if message := comm.improbe(source=MPI.ANY_SOURCE):
                found.append(message.recv())
        return found

    assert run(polls).values[0] == [1, 2, 3]
    assert run(polls, schedule=[(0, -1), (0, 3)]).values[0] == [1, 3, 2]
    assert run(polls, schedule=[(0, 2), (0, 3)], shards=2).values[0] == [2, 3, 1]


def test_what_else_a_choice_could_have_been_does_not_depend_on_it() -> None:
    def chain() -> None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            for answer in (True, False):
                source = comm.recv(source=MPI.ANY_SOURCE)
                if answer:
                    comm.ssend(0, dest=3)
                assert source
        elif comm.rank < 3:
            comm.ssend(comm.rank, dest=0)
        else:
            comm.recv(source=0)
            comm.send(3, dest=0)

    first, second = run(chain, schedule=MatchSchedule({}, watch=True)).choices
    assert (first.alternatives, second.alternatives) == ((2,), (3,))
    assert second.after & first.bit
    assert not first.after & second.bit


def test_a_file_has_what_a_command_line_has(tmp_path: Path) -> None:
    pairs = [(0, 2), (0, -1), (1, 3)]
    path = tmp_path / "a.schedule"
    path.write_text(text_of(pairs, {0: "the first"}))
    assert path.read_text().startswith("0 2  # the first\n0 -1\n")
    assert run(collects, schedule=path).digest == run(collects, schedule=inline(pairs)).digest


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("nowhere.schedule", "No such file"),
        (3, "expected a file or a list of pairs"),
        ([(0,)], "expected a file or a list of pairs"),
        ("0:x", "No such file"),
    ],
)
def test_what_is_no_schedule_is_refused(told: object, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^schedule: .*{said}"):
        run(collects, schedule=told)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("0:9", "choice 0:9 cannot be made: at .* is a choice among 4 ranks, 0 to 3: no rank is 9"),
        ("0:-2", "choice 0:-2 cannot be made: .* no rank is -2"),
        ("0:-1 0:-1 0:-1 0:4", "choice 0:4 cannot be made: .* among 4 ranks"),
        (
            "0:-1 0:-1 0:-1 0:-1 0:-1 0:-1 0:3",
            "choice 0:3 cannot be made: .* among 3 requests, 0 to 2: no request is 3",
        ),
        (f"{'0:-1 ' * 9}0:8", "choice 0:8 cannot be made: .* among 3 requests, 0 to 2: 8 is not a sum of"),
        ("9:1", "choice 9:1 was never made: rank 9 is out of range"),
    ],
)
def test_a_choice_of_what_is_not_there_is_refused(told: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^schedule: {said}"):
        run(collects, schedule=told)


@pytest.mark.parametrize("options", [{"shards": 3}, {"isolation": "process:2"}], ids=str)
def test_it_is_refused_wherever_the_rank_is(options: Any) -> None:
    with pytest.raises(ConfigError, match=r"no rank is 9$"):
        run(collects, schedule="0:9", **options)


def test_a_poll_for_a_rank_that_is_not_there_is_refused() -> None:
    def polls() -> None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            comm.send(comm.rank, dest=0)
        while comm.rank == 0 and not comm.improbe(source=MPI.ANY_SOURCE):
            pass

    with pytest.raises(ConfigError, match="no rank is 7"):
        run(polls, schedule="0:7")


def test_a_rank_that_is_spawned_has_choices(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(
        "from mpi4py import MPI\n"
        "parent = MPI.Comm.Get_parent()\n"
        "parent.send([parent.recv(source=MPI.ANY_SOURCE) for _ in range(2)], dest=0)\n"
    )

    def spawns() -> Any:
        import sys

        from mpi4py import MPI

        child = MPI.COMM_WORLD.Spawn(sys.executable, [str(tmp_path / "child.py")], maxprocs=1)
        child.send(MPI.COMM_WORLD.rank, dest=0)
        return None if MPI.COMM_WORLD.rank else child.recv(source=0)

    assert run(spawns, ranks=2, schedule="2:1 2:0").values[0] == [1, 0]
    for told, said in {"2:2": "a choice among 2 ranks", "3:0": "schedule: choice 3:0 was never made: rank 3"}.items():
        with pytest.raises(ConfigError, match=said):
            run(spawns, ranks=2, schedule=told)


def test_a_line_that_is_no_choice_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("0 1\n0 one\n")
    with pytest.raises(ConfigError, match="bad:2: expected a rank and its choice"):
        run(collects, schedule=tmp_path / "bad")


def test_what_is_watched_has_one_shard() -> None:
    with pytest.raises(ConfigError, match="drop shards"):
        run(collects, schedule=MatchSchedule({}, watch=True), shards=2)
