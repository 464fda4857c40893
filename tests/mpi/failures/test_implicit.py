"""Hints by which a program asks for implicit actions after failures: whom they concern, and uniform errors."""

import time
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from tests.mpi.failures.test_recovery import US, attempt, run

DIES_S = 1e-3


def hinted(comm: Any, **hints: str) -> Any:
    from mpi4py import MPI

    return comm.Dup(MPI.Info.Create({f"mpi_error_{key}": value for key, value in hints.items()}))


def between_the_living(error_range: str) -> tuple[str, str, bool, bool]:
    """Ranks 0 and 1, and rank 2 of another half, learn of a death in the whole; then 0 and 1 go on by themselves."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    whole = hinted(world, range=error_range)
    half = hinted(world.Split(world.rank // 3, world.rank), range=error_range)
    request = whole.irecv(source=1 - world.rank, tag=9) if world.rank < 2 else None
    time.sleep(DIES_S)
    attempt(world.barrier)
    said, _ = attempt(request.wait) if request and error_range != "local" else ("", 0)
    inside, _ = attempt(half.barrier)
    revoked = whole.Is_revoked(), half.Is_revoked()
    assert whole.Shrink().size == 5
    return said, inside, *revoked


@pytest.mark.parametrize(
    ("error_range", "expected"),
    [
        ("local", ("", "None", False, False)),
        ("group", ("revoked", "None", True, False)),
        ("universe", ("revoked", "revoked", True, True)),
    ],
)
@pytest.mark.parametrize("shards", [1, 2])
def test_a_failure_in_the_range_revokes_where_it_is_known(error_range: str, expected: tuple[Any, ...], shards: int):
    """Rank 4 dies; ranks 0 to 2 are a half without it."""
    result = run(between_the_living, 6, error_range, fail=f"rank=4@{DIES_S}s", shards=shards)
    assert result.ended == "finished"
    assert result.values[:2] == [expected] * 2
    assert result.values[2] == ("", *expected[1:])


def collective(name: str, uniform: str) -> tuple[str, int]:
    from mpi4py import MPI

    comm = hinted(MPI.COMM_WORLD, uniform=uniform)
    time.sleep(DIES_S - MPI.Wtime())
    start = MPI.Wtime()
    if name == "Agree":
        comm.Agree(1)
        said = ""
    elif name == "Dup":
        said, _ = attempt(lambda: comm.Dup().size)
    elif name == "Create_cart":
        said, _ = attempt(lambda: comm.Create_cart([comm.size]).size)
    elif name == "Create_dist_graph":
        said, _ = attempt(lambda: comm.Create_dist_graph([comm.rank], [1], [(comm.rank + 1) % comm.size]).size)
    elif name == "Create_group":
        said, _ = attempt(lambda: comm.Create_group(comm.Get_group()).size)
    else:
        said, _ = attempt(getattr(comm, name), 1)
    return said, round((MPI.Wtime() - start) * 10**12)


@pytest.mark.parametrize(
    ("uniform", "name"),
    [("coll", "bcast"), ("coll", "allreduce"), ("coll", "Dup"), ("construct", "Dup"), ("construct", "Create_cart")],
)
def test_uniform_errors_cost_an_agreement_to_the_picosecond(uniform: str, name: str):
    def longest(*what: str) -> int:
        return max(took for _, took in run(collective, 8, *what).values)

    assert longest("Agree", "local") == 6 * US
    assert longest(name, uniform) == longest(name, "local") + 6 * US
    assert longest("bcast", "construct") == longest("bcast", "local")
    assert longest("allreduce", "construct") == longest("allreduce", "local") + 6 * US  # for its duplicate


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "uniform"),
    [
        ("bcast", "coll"),
        ("reduce", "coll"),
        ("Dup", "coll"),
        ("Dup", "construct"),
        ("Create_group", "construct"),
        ("Create_cart", "construct"),
        ("Create_dist_graph", "construct"),
    ],
)
@pytest.mark.parametrize("victim", range(5))
def test_every_survivor_gets_the_same_error_whoever_dies_whenever(name: str, uniform: str, victim: int):
    classes = set()
    for at_us in range(0, 8, 1 if CAMPAIGN else 3):
        failure = f"rank={victim}@{round(DIES_S * 1e6) + at_us}us" if at_us else f"rank={victim}@999us"
        result = run(collective, 5, name, uniform, fail=failure)
        assert result.ended == "finished"
        said = {value[0] if value[0] == "failed" else "" for value in result.values if value}
        assert len(said) == 1
        classes |= said
    assert name in ("bcast", "reduce") or "failed" in classes  # where a leaf is dead, the others get through


def test_without_the_hint_errors_differ():
    """Rank 3 alone has its data from rank 1."""
    for uniform, failed in (("local", {3}), ("coll", {0, 2, 3, 4})):
        result = run(collective, 5, "bcast", uniform, fail="rank=1@999us")
        assert {rank for rank, value in enumerate(result.values) if value and value[0] == "failed"} == failed


def test_unknown_values_are_refused():
    def program() -> str:
        from mpi4py import MPI

        try:
            hinted(MPI.COMM_SELF, range="all")
        except MPI.Exception as error:
            return str(error)
        return ""

    (said,) = run(program, 1).values
    assert (
        said == "MPI_ERR_INFO_VALUE: invalid info value (mpi_error_range: expected local or group or universe, got all)"
    )


def raising(where: str) -> tuple[str, int]:
    from mpi4py import MPI

    comm = hinted(MPI.COMM_WORLD, uniform="coll")

    def bad(one: Any, other: Any) -> None:
        raise ZeroDivisionError

    try:
        if where == "in the middle":
            comm.reduce(comm.rank, op=bad)
        elif comm.rank == 3:
            comm.bcast(lambda: None, root=3)  # it can not be pickled
        said = "returned"
    except (ZeroDivisionError, AttributeError, TypeError) as error:
        said = type(error).__name__
    return said, comm.allreduce(1)


def test_errors_of_one_process_keep_nobody_from_the_next_call():
    values = run(raising, 4, "in the middle").values
    assert values == [*[("ZeroDivisionError", 4)] * 3, ("returned", 4)]  # rank 3 combines nothing
    said = [said for said, total in run(raising, 4, "before it").values if total == 4]
    assert said[:3] == ["returned"] * 3
    assert said[3] != "returned"
