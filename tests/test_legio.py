"""Non-collective repair for programs, over the simulated network: what it gives, what it costs, and where it hangs."""

import random
import time
from typing import Any

import pytest

from tests.mpi.failures.test_recovery import LATENCY_ONLY, US, attempt, run
from xsim_py import legio
from xsim_py.errors import XsimError

WAIT_S = 1e-3  # everybody dies or lives by then


def numbers(comm: Any, group: Any) -> list[int]:
    """Which ranks of a communicator a group consists of."""
    return list(group.Translate_ranks(None, comm.Get_group()))


def each_call(members: list[int]) -> tuple[Any, ...] | None:
    """What each call of the module gives to a member of a group of COMM_WORLD."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    time.sleep(WAIT_S)
    if world.rank not in members:
        return None
    group = world.Get_group().Incl(members)
    made = [attempt(legio.create_group, world, group, 1)[0]]  # not all know of the failures
    shrunk = legio.shrink_group(world, group)
    parts = [shrunk, legio.create_group(world, group, 1), legio.create_from_group(group, "some tag")]
    flags = [legio.agree_group(world, group, ~(1 << world.rank))]
    flags.append(legio.agree_group(world, group, world.rank, op=MPI.BOR))
    listed = numbers(world, legio.alive(world, group))
    sums = [part.allreduce(world.rank) for part in parts]
    return made, [numbers(world, part.Get_group()) for part in parts], listed, flags, sums, world.Get_failed().size


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_each_call_gives_the_living_of_a_group_the_same(shards: int):
    """The group's order is not the communicator's, and a rank that is no member is dead, too."""
    members = [9, 0, 4, 3, 7, 8, 2]
    dead = [0, 3, 7, 5]
    result = run(each_call, 10, members, fail=[f"rank={rank}@1us" for rank in dead], shards=shards)
    assert result.ended == "finished"
    living = [rank for rank in members if rank not in dead]
    flags = [~sum(1 << rank for rank in living), 9 | 4 | 8 | 2]
    expected = ["failed"], [living] * 3, living, flags, [sum(living)] * 3, 3
    assert {rank: value for rank, value in enumerate(result.values) if value} == dict.fromkeys(living, expected)
    assert result.digest == run(each_call, 10, members, fail=[f"rank={rank}@1us" for rank in dead]).digest


def on_revoked() -> tuple[int, int, str, str]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.Revoke()
    group = world.Get_group()
    shrunk, flag = legio.shrink_group(world, group), legio.agree_group(world, group, 6)
    refused, _ = attempt(legio.create_group, world, group)
    return shrunk.size, flag, refused, str(legio.create_from_group(group).allreduce(1))


def test_revocation_stops_nothing_but_create_group():
    assert run(on_revoked, 4).values == [(4, 6, "revoked", "4")] * 4


def on_overlapping_groups() -> list[list[int]]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    whole = world.Get_group()
    time.sleep(WAIT_S)
    groups = [[0, 1, 2, 3], [3, 2, 1, 4], [4, 3, 0]]
    return [numbers(world, legio.alive(world, whole.Incl(group))) for group in groups if world.rank in group]


def test_discoveries_of_overlapping_groups_at_once_do_not_mix():
    result = run(on_overlapping_groups, 5, fail="rank=1@1us")
    found = {0: [0, 2, 3], 1: [3, 2, 4], 2: [4, 3, 0]}
    mine = [(0, 2), None, (0, 1), (0, 1, 2), (1, 2)]
    lists = [[found[each] for each in places] for places in mine if places]
    assert [value for value in result.values if value] == lists


# --------------------------------------------------------------------------------------------------------- the cost


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 64, 100, 1000, 1024])
def test_with_nobody_dead_it_takes_two_latencies_a_level_and_two_messages_a_member(ranks: int):
    def program() -> int:
        from mpi4py import MPI

        legio.alive(MPI.COMM_WORLD, MPI.COMM_WORLD.Get_group())
        return round(MPI.Wtime() * 10**12)

    result = run(program, ranks)
    assert max(result.values) == 2 * (ranks.bit_length() - 1) * US
    assert result.messages == 2 * (ranks - 1)


def test_lists_are_sent_at_four_bytes_a_rank_of_the_block_and_of_the_group():
    def program() -> None:
        from mpi4py import MPI

        legio.alive(MPI.COMM_WORLD, MPI.COMM_WORLD.Get_group())

    for ranks in (2, 8, 13):
        result = run(program, ranks)
        up = sum(min(rank & -rank, ranks - rank) for rank in range(1, ranks))
        assert result.bytes == 4 * up + 4 * ranks * (ranks - 1)


def discover_some(share: int) -> int | None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    time.sleep(1e-3 - MPI.Wtime())
    living = legio.alive(world, world.Get_group())
    took = MPI.Wtime() - 1e-3
    assert living.size == world.size - world.size * share // 100
    return round(took * 10**12)


@pytest.mark.sampled
@pytest.mark.parametrize(("share", "latencies"), [(0, 14), (1, 20), (10, 35), (25, 68), (50, 155)])
def test_with_dead_members_it_takes_no_longer_than_one_blocking_receive_after_the_other(share: int, latencies: int):
    """Means over five random sets of 128 members, beside those of an independent program of the published algorithm.

    A timeout is ten latencies, and who has noticed a death knows it. Here a root takes whoever of a block comes first,
    and need not notice all deaths before that one. One set has a time of its own, of +- 24 % with half of them dead.
    """
    times = []
    for seed in range(5 if share else 1):
        dead = random.Random(seed).sample(range(128), 128 * share // 100)
        result = run(discover_some, 128, share, fail=[f"rank={rank}@1us" for rank in dead])
        times.append(max(value for value in result.values if value) / US)
    assert (0.95 if share < 10 else 0.65) * latencies < sum(times) / len(times) < 1.1 * latencies


# ---------------------------------------------------------------------------------------------------- where it hangs


def hang(variant: str) -> list[int]:
    from mpi4py import MPI

    time.sleep(WAIT_S)
    return numbers(MPI.COMM_WORLD, legio.alive(MPI.COMM_WORLD, MPI.COMM_WORLD.Get_group(), variant=variant))


@pytest.mark.parametrize("shards", [1, 3])
def test_legio_hangs_where_a_survivor_inherits_twice_and_the_report_says_who_waits_for_whom(shards: int):
    dead = [f"rank={rank}@1us" for rank in range(5)]
    result = run(hang, 7, "legio", fail=dead, shards=shards)
    assert (result.ended, result.exit_status) == ("stalled", 3)
    assert "rank 6" in result.report
    assert "legio.alive on a group of 7 ranks: rank 5 of MPI_COMM_WORLD to take part" in result.report
    for variant in ("repaired", "safe"):
        assert run(hang, 7, variant, fail=dead, shards=shards).values[5:] == [[5, 6]] * 2


def test_naive_members_have_different_lists():
    result = run(hang, 6, "naive", fail=["rank=2@1us", "rank=5@1us"])
    assert [result.values[rank] for rank in (0, 1, 3, 4)] == [[0, 1, 4], [0, 1, 4], [3], [0, 1, 4]]


def test_a_member_that_never_calls_is_named():
    def program() -> None:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank != 2:
            legio.shrink_group(world, world.Get_group())

    result = run(program, 4)
    assert (result.ended, result.exit_status) == ("stalled", 3)
    assert "legio.shrink_group on a group of 4 ranks: rank 2 of MPI_COMM_WORLD to take part" in result.report


def test_different_calls_on_one_group_are_named():
    def program() -> None:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        (legio.alive if world.rank else legio.shrink_group)(world, world.Get_group())

    result = run(program, 4)
    assert result.exit_status == 3
    assert "collective mismatch" in result.report
    assert "legio.alive" in result.report


@pytest.mark.parametrize("at_us", range(0, 14, 2))
@pytest.mark.parametrize("victim", range(5))
def test_a_death_at_any_time_leaves_the_living_with_one_list(victim: int, at_us: int):
    """A latency is one microsecond: before, between and after all actions of a discovery among five."""

    def program() -> tuple[list[int], int]:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        made = legio.shrink_group(world, world.Get_group())
        return numbers(world, made.Get_group()), legio.agree_group(world, world.Get_group(), world.rank | 8)

    result = run(program, 5, fail=[f"rank={victim}@{at_us}us", f"rank={(victim + 2) % 5}@{2 * at_us}us"])
    assert result.ended == "finished"
    found = {str(value[0]) for value in result.values if value}
    living = {rank for rank, value in enumerate(result.values) if value}
    assert len(found) == 1
    assert all(str(rank) in found.copy().pop() for rank in living)


# ------------------------------------------------------------------------------------------------- mpi.create_group


def create(known: bool, with_dead: bool) -> tuple[str, str, str]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    time.sleep(WAIT_S)
    if known:
        attempt(world.barrier)
    group = world.Get_group() if with_dead else world.Get_group().Excl([1])
    said, _ = attempt(lambda: world.Create_group(group, 5).size)
    again, _ = attempt(lambda: world.Create_group(group, 5).size)
    return said, again, attempt(lambda: MPI.Intracomm.Create_from_group(group).size)[0]


PLAIN, DISCOVERED = ({"mpi.create_group": word} for word in ("plain", "liveness"))


@pytest.mark.parametrize(
    ("known", "with_dead", "plain", "discovered"),
    [
        (False, False, ("3", "3", "3"), ("3", "3", "3")),
        (False, True, ("failed", "failed", "failed"), ("failed", "3", "3")),
        (True, False, ("failed", "failed", "3"), ("3", "3", "3")),
        (True, True, ("failed", "failed", "failed"), ("3", "3", "3")),
    ],
)
def test_the_outcomes_of_creating_a_communicator_of_a_group(
    known: bool, with_dead: bool, plain: tuple[str, ...], discovered: tuple[str, ...]
):
    """The paper's section 3: a faulty parent, and a failed one; what discovery makes of them."""
    for options, expected in ((PLAIN, plain), (DISCOVERED, discovered)):
        result = run(create, 4, known, with_dead, fail="rank=1@1us", set=options)
        assert [value for value in result.values if value] == [expected] * 3


# ------------------------------------------------------------------------------------------------------- bad arguments


def test_bad_arguments_are_named():
    def program() -> list[str]:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        half = world.Split(world.rank % 2, world.rank)
        others = world.Get_group().Excl([world.rank])
        said = []
        for call in (
            lambda: legio.alive(half, world.Get_group()),
            lambda: legio.alive(world, others),
            lambda: legio.create_from_group(others),
            lambda: legio.alive(world, world.Get_group(), variant="best"),
            lambda: legio.agree_group(world, world.Get_group(), 1, op=MPI.SUM),
        ):
            try:
                call()
            except (MPI.Exception, ValueError) as error:
                said.append(str(error))
        assert not legio.create_group(world, others)
        return said

    (said,) = {tuple(value) for value in run(program, 4).values}
    no_member = "MPI_ERR_GROUP: invalid group (this process is not a member of the group)"
    assert said[0] == "MPI_ERR_GROUP: invalid group (the group is not a subset of the communicator's)"
    assert said[1:3] == (no_member, no_member)
    assert said[3:] == (
        "unknown variant 'best'; known: naive, legio, repaired, safe",
        "legio.agree_group combines flags by MPI.BAND or MPI.BOR",
    )


def test_arguments_are_checked_as_those_of_mpi4py():
    def program() -> list[str]:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        group = world.Get_group()
        half = world.Split(world.rank % 2)
        between = half.Create_intercomm(0, world, 1 - world.rank % 2)
        said = []
        for call in (
            lambda: legio.create_group(between, half.Get_group()),
            lambda: legio.alive(group, world),
            lambda: legio.create_from_group(None),
            lambda: legio.agree_group(world, group, 2**40),
            lambda: legio.agree_group(world, group, 1.5),
            lambda: legio.create_group(world, group, "a"),
        ):
            with pytest.raises((TypeError, OverflowError)) as raised:
                call()
            said.append(str(raised.value))
        return said

    (said,) = {tuple(value) for value in run(program, 2).values}
    assert said[0] == "legio.create_group: expected mpi4py.MPI.Intracomm, got Intercomm"
    assert said[1] == "legio.alive: expected mpi4py.MPI.Intracomm, got Group"
    assert said[2] == "legio.create_from_group: expected mpi4py.MPI.Group, got NoneType"
    assert said[3] == "value too large to convert to int"
    assert all("cannot be interpreted as an integer" in each for each in said[4:])


def from_two_worlds() -> int:
    import sys

    from mpi4py import MPI

    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        text = f"import {__name__} as test; test.from_two_worlds()"
        parent = MPI.COMM_WORLD.Spawn(sys.executable, ["-c", text], maxprocs=2)
        whole = parent.Merge(high=False)
    else:
        whole = parent.Merge(high=True)
    total: int = MPI.Intracomm.Create_from_group(whole.Get_group()).allreduce(1)
    return total * legio.create_from_group(whole.Get_group()).size


def test_the_group_may_be_of_two_worlds():
    machine = {**LATENCY_ONLY, "mpi": {"create_group": "liveness"}, "machine": {"nodes": 4}}
    assert run(from_two_worlds, 2, machine=machine).values == [16, 16]


def test_outside_a_simulation_it_says_so():
    with pytest.raises(
        XsimError, match=r"xsim_py\.legio\.alive: needs a simulated program; run the program by: xsim run"
    ):
        legio.alive(None, None)
