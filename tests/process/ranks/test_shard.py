"""What shards exchange, with a list for a carrier: two shards, and no run."""

from typing import Any

import pytest

from xsim_py.engine import AT_ONCE_PS
from xsim_py.errors import InternalError
from xsim_py.process.output.collector import Output
from xsim_py.process.ranks.shard import ROW, Control, Shard

BLOCKS = [range(2), range(2, 4)]


@pytest.fixture
def shards() -> list[Shard]:
    control, nothing = Control(), None
    made = []
    for number in range(2):
        output = Output(None, label=False, control=control, spill=nothing, equal_tracebacks=nothing)
        made.append(Shard(number=number, blocks=BLOCKS, control=control, output=output, abort_delay_ps=10))
    return made


@pytest.fixture
def seen(shards: list[Shard]) -> list[Any]:
    """What has happened: in which shard, when, and with what argument."""
    found: list[Any] = []
    for shard in shards:
        shard.handlers["note"] = lambda what, shard=shard: found.append((shard.number, shard.kernel.now_ps, what))
        shard.take_row = lambda row, shard=shard: found.append((shard.number, shard.kernel.now_ps, row[2:]))
    return found


def exchange(shards: list[Shard]) -> dict[int, Any]:
    """Carry what shard 0 has for others; return it."""
    outbox = shards[0].take_outbox()
    for target, batch in outbox.items():
        shards[target].receive(batch)
    return outbox


def run(shards: list[Shard], end_ps: int = 1000) -> None:
    for shard in shards:
        shard.run_window(end_ps)


def test_an_event_for_a_rank_happens_where_it_lives(shards, seen):
    shards[0].post_to(1, 50, 1, "note", "here")
    shards[0].post_to(3, 50, 2, "note", "there")
    exchange(shards)
    run(shards)
    assert seen == [(0, 50, "here"), (1, 50, "there")]


def test_a_row_comes_as_it_was_sent(shards, seen):
    for time_ps in (70, 60):
        shards[0].post_row(2, time_ps, 1, *range(ROW))
    exchange(shards)
    run(shards)
    assert seen == [(1, 60, tuple(range(ROW))), (1, 70, tuple(range(ROW)))]


def test_an_event_for_all_shards_happens_in_each_of_them(shards, seen):
    shards[0].post_everywhere(50, 1, "note", "all")
    exchange(shards)
    run(shards)
    assert seen == [(0, 50, "all"), (1, 50, "all")]


def test_what_is_told_at_the_end_of_the_window_is_no_event(shards, seen):
    shards[0].tell(1, "note", "now")
    ((_, batch),) = exchange(shards).items()
    assert seen == [(1, 0, "now")]
    assert shards[1].kernel.events == 0
    assert Shard.span_ps(batch)[0] == AT_ONCE_PS


def test_a_batch_says_when_its_first_and_its_last_event_are(shards, seen):
    shards[0].post_to(3, 50, 2, "note", "")
    shards[0].post_row(2, 80, 1, *range(ROW))
    assert Shard.span_ps(shards[0].take_outbox()[1]) == (50, 80)


def test_an_outbox_is_given_away_once(shards, seen):
    shards[0].post_to(3, 50, 2, "note", "")
    assert list(shards[0].take_outbox()) == [1]
    assert not shards[0].take_outbox()


def test_what_comes_too_late_is_an_error_of_the_simulator(shards, seen):
    run(shards, 100)
    shards[0].post_to(3, 50, 2, "note", "late")
    with pytest.raises(InternalError, match="has reached 100 ps, and is sent what is for 50 ps"):
        exchange(shards)


def test_a_shard_that_takes_over_has_dealt_with_what_was_before(shards, seen):
    run(shards, 100)
    shards[1].takes_over = True
    shards[0].post_to(3, 50, 2, "note", "old")
    shards[0].post_to(3, 150, 2, "note", "new")
    exchange(shards)
    run(shards)
    assert seen == [(1, 150, "new")]


def test_an_abort_ends_both_shards_at_the_same_event(shards, seen):
    shards[0].post_everywhere(50, 1, "abort", (0, 40, 3, "enough"))
    shards[0].post_to(1, 60, 2, "note", "never")
    exchange(shards)
    run(shards)
    assert [shard.stopped_ps for shard in shards] == [50, 50]
    assert sum(shard.kernel.events for shard in shards) == 1
    assert not seen


def test_ranks_that_begin_later_live_where_the_launcher_has_put_them(shards, seen):
    for shard in shards:
        shard.add_ranks([1, 0, 1])
    assert [rank.number for rank in shards[0].ranks] == [0, 1, 5]
    assert [shards[0].owner(number) for number in range(4, 7)] == [1, 0, 1]
    assert shards[1].rank(6).number == 6
    assert shards[1].local(4)
    assert not shards[1].local(5)
