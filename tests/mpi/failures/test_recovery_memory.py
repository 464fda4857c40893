"""What ranks keep in memory while they recover, and that what saves memory changes nothing else."""

import gc
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.mpi.failures.test_recovery import attempt, run
from tests.process.launch import launch
from xsim_py.mpi.comm import Context
from xsim_py.mpi.failures.knowledge import Knowledge
from xsim_py.mpi.failures.revocation import Revocation
from xsim_py.process.ranks import shard

WITH_A_GAP = {"network": {"latency": "7us", "bandwidth": "8.8Gbps"}}


def revoke_twice() -> list[tuple[str, int]]:
    """Some ranks revoke at once, and again what the survivors have made; nobody leaves the first call otherwise."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    seen = [attempt(world.Reduce if world.rank else world.recv, *([b"12345678", None] if world.rank else [None, 5]))]
    world.Revoke()
    smaller = world.Shrink()
    if smaller.rank % 7 == 2:
        smaller.Revoke()
    seen.append(attempt(smaller.recv, None, smaller.rank, 3))
    return seen


@pytest.mark.parametrize(
    ("revoke", "failures"),
    [
        ("direct", ["rank=6@1us"]),
        ("reliable_broadcast", ["rank=4@1us", "rank=9@1us", "rank=30@150us", "rank=31@153us"]),
    ],
)
def test_notices_in_a_fan_are_the_notices_one_by_one(
    revoke: str, failures: Sequence[str], monkeypatch: pytest.MonkeyPatch
):
    """Also where some of them go to dead ranks, and where they cross shards."""
    told: dict[str, Any] = {"machine": WITH_A_GAP, "set": {"mpi.ulfm.revoke": revoke}, "fail": failures}
    fans = [run(revoke_twice, 40, shards=shards, **told) for shards in (1, 2, 7)]

    def one_by_one(self: Revocation, rank: Any, fan: Any, transit_ps: int) -> None:
        counted.append(len(fan.offsets))
        self._notify_each(rank, (fan.cid, fan.members, fan.me), fan.offsets, self.shard.kernel.now_ps)

    counted: list[int] = []
    monkeypatch.setattr(Revocation, "_fan_out", one_by_one)
    single = run(revoke_twice, 40, **told)
    assert sum(counted) > 500
    for fan in fans:
        assert (fan.digest, fan.events, fan.messages) == (single.digest, single.events, single.messages)
        assert fan.values == single.values


def test_a_handled_error_shows_the_program_s_frames_only():
    def program() -> list[list[str]]:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        seen: list[list[str]] = []
        for recover in (world.Revoke, world.Shrink):
            try:
                world.Barrier()
            except MPI.Exception as error:
                recover()
                seen.append([frame.name for frame in traceback.extract_tb(error.__traceback__)])
        return seen

    result = run(program, 4, fail=["rank=2@0s"])
    assert result.values[0] == [["program"]] * 2


def test_ranks_that_learn_the_same_share_it_until_they_learn_more():
    first, second, both = {3: (10, "timeout")}, {5: (20, "agreement")}, Knowledge()
    other = Knowledge()
    both.note(first)
    other.note(first)
    assert both.known is other.known
    both.note(second)
    both.note({7: (30, "timeout")})
    assert list(both.known.items()) == [(3, (10, "timeout")), (5, (20, "agreement")), (7, (30, "timeout"))]
    assert other.known == {3: (10, "timeout")}
    assert second == {5: (20, "agreement")}


def test_a_recovery_s_tables_are_there_while_there_is_something_in_them():
    state, other = Knowledge(), Knowledge()
    assert state.drop("early", (1, 1, 0)) is None
    state.keep("early", (1, 1, 0), ["packet"])
    assert isinstance(state.early, Mapping)
    assert not other.early
    assert state.drop("early", (1, 1, 0)) == ["packet"]
    assert state.early is other.early


@pytest.mark.parametrize("ranks", [range(8), range(4, 40, 3), (1, 4, 5, 9), (9, 1, 5, 4), (7,), ()])
def test_a_context_knows_the_places_of_its_members_only(ranks: Sequence[int]):
    context = Context(2, ranks, None)
    assert [context.place(number) for number in ranks] == list(range(len(ranks)))
    assert {context.place(number) for number in {*range(-2, 50)} - {*ranks}} == {-1}


@pytest.mark.parametrize("kept", [True, False])
def test_the_collector_looks_often_where_programs_leave_cycles(kept: bool, tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shard, "_SAMPLE", 4)
    monkeypatch.setattr(shard, "_GARBAGE_AT_ONCE", 3000)
    before = gc.get_threshold()
    program = f"""
        import gc
        made = [[] for _ in range(40)]
        for each in made:
            each.append(each)
        if not {kept}:
            del made, each
        print(gc.get_threshold()[0])
        comm.Barrier()
    """
    launch(tmp_path, program, ranks=6)  # what a first run loads may be 4,000 objects, and the collector looks then
    seen = [int(line) for line in launch(tmp_path, program, ranks=6).lines]
    assert seen[:4] == [4000] * 4
    assert seen[4:] == [4000 if kept else 3000] * 2
    assert gc.get_threshold() == before
