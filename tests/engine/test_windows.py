"""Windows: any number of shards gives the same events, none before its time."""

import itertools
import json
import sys
from functools import partial
from random import Random
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import ROOT
from tests.engine.toy import LOOKAHEAD_PS, Arrival, Rule, ToyShard, blocks_of
from tests.real_mpi import MPIEXEC, mpiexec
from xsim_py.engine import INFINITY_PS, Loopback, shortest_times
from xsim_py.engine.windows import window_end_ps

RANKS = 5
tables = st.dictionaries(
    st.tuples(st.integers(0, RANKS - 1), st.integers(0, 4)),
    st.lists(st.tuples(st.integers(0, RANKS - 1), st.integers(0, 12)), max_size=3),
    max_size=20,
)


def rule_of(table: dict[tuple[int, int], list[tuple[int, int]]]) -> Rule:
    return lambda rank, count: table.get((rank, count), [])


def run(rule: Rule, shards: int, *, lookahead_ps: int = LOOKAHEAD_PS, stop_at: int | None = None) -> list[ToyShard]:
    """All windows end together: each shard's own events count as if they came back to it at once."""
    blocks = blocks_of(RANKS, shards)
    made = [ToyShard(number, blocks, rule, limit=6) for number in range(shards)]
    for shard in made:
        shard.stop_at = stop_at
        shard.begin()
    Loopback(shards).run(made, [[lookahead_ps] * shards] * shards)
    return made


def latency_ps(a: int, b: int) -> int:
    """Neighbours are near each other, others far."""
    return 0 if a == b else 3 if abs(a - b) == 1 else 17


def run_by_distance(rule: Rule, shards: int) -> list[ToyShard]:
    """Each shard looks ahead as far as the latencies to each other one allow."""
    blocks = blocks_of(RANKS, shards)
    made = [ToyShard(number, blocks, rule, limit=6, latency_ps=latency_ps) for number in range(shards)]
    for shard in made:
        shard.begin()
    direct = [[min((latency_ps(i, j) for i in a for j in b), default=17) for b in blocks] for a in blocks]
    Loopback(shards).run(made, shortest_times(direct))
    return made


def arrivals(shards: list[ToyShard]) -> dict[int, list[Arrival]]:
    return {rank: seen for shard in shards for rank, seen in shard.arrivals.items()}


@given(tables)
def test_every_number_of_shards_gives_the_events_of_one(table: dict[tuple[int, int], list[tuple[int, int]]]):
    rule = rule_of(table)
    expected = arrivals(run(rule, 1, lookahead_ps=1 << 90))
    assert all(times == sorted(times) for times in ([entry[0] for entry in seen] for seen in expected.values()))
    for shards in (2, 3, 7):
        assert arrivals(run(rule, shards)) == expected
    assert arrivals(run(rule, 3, lookahead_ps=1)) == expected


@given(tables)
def test_in_turn_all_shards_together_run_their_events_in_order(table: dict[tuple[int, int], list[tuple[int, int]]]):
    happened: list[tuple[int, int]] = []  # the time of each event, and its shard

    def note(shard: ToyShard) -> None:
        happened.append((shard.kernel.now_ps, shard.number))

    blocks = blocks_of(RANKS, 3)
    made = [ToyShard(number, blocks, rule_of(table), limit=6) for number in range(3)]
    for shard in made:
        shard.in_turn = True
        shard.on_arrival = partial(note, shard)
        shard.begin()
    Loopback(3).run(made, [[LOOKAHEAD_PS] * 3] * 3)
    assert happened == sorted(happened)
    assert arrivals(made) == arrivals(run(rule_of(table), 1))


@given(tables)
def test_shards_may_be_near_and_far_from_each_other(table: dict[tuple[int, int], list[tuple[int, int]]]):
    expected = arrivals(run_by_distance(rule_of(table), 1))
    for shards in (2, 3, 5, 7):
        made = run_by_distance(rule_of(table), shards)  # a shard refuses what comes too late
        assert arrivals(made) == expected


def test_who_is_far_from_all_others_looks_further_ahead():
    """Rank 0 of 2 counts by itself while rank 1 has nothing to do before time 100."""
    rule = rule_of({(0, count): [(0, 5)] for count in range(5)} | {(1, 0): [(1, 100)]})
    alone, together = run_by_distance(rule, 5), run(rule, 5, lookahead_ps=3)
    assert arrivals(alone) == arrivals(together)
    assert len(alone[0].horizons) < len(together[0].horizons)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(1, 50), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_ways_by_way_of_others_are_the_shortest(direct: list[list[int]]):
    shards = range(len(direct))
    found = shortest_times(direct)
    for i, j in itertools.product(shards, repeat=2):
        between = [path for n in range(len(direct)) for path in itertools.permutations(set(shards) - {i, j}, n)]
        lengths = [
            sum(direct[a][b] for a, b in itertools.pairwise((i, *path, j))) for path in between if path or i != j
        ]
        assert found[i][j] == min(lengths, default=INFINITY_PS)


def one_after_the_other(direct: list[list[int]]) -> list[list[int]]:
    """The same ways, number by number."""
    shards = range(len(direct))
    ways = [[INFINITY_PS if i == j else direct[i][j] for j in shards] for i in shards]
    for via, i, j in itertools.product(shards, repeat=3):
        ways[i][j] = min(ways[i][j], ways[i][via] + ways[via][j])
    return ways


@given(st.integers(1, 12), st.sampled_from([1, 10**9, 1 << 60, 10**27]), st.randoms(use_true_random=False))
def test_ways_of_many_shards_are_those_of_the_plain_loop(shards: int, scale: int, random: Random):
    direct = [[random.randint(1, 50) * scale for _ in range(shards)] for _ in range(shards)]
    found = shortest_times(direct)
    assert found == one_after_the_other(direct)
    assert {type(ps) for row in found for ps in row} == {int}  # windows end at times that no 64 bits hold


def test_many_shards_take_a_pass_over_the_table_each_and_no_loop_over_its_cells():
    """Counted in steps of the interpreter, of which there are as many on every computer."""
    direct = [[5 + (i * j) % 7 for j in range(40)] for i in range(40)]
    shortest_times(direct)  # what is imported is there now
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal steps
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        steps += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        shortest_times(direct)
    finally:
        sys.settrace(before)
    assert steps < 40 * 40 * 40


@given(tables)
def test_windows_follow_one_another(table: dict[tuple[int, int], list[tuple[int, int]]]):
    for shard in run(rule_of(table), 3):
        assert shard.horizons == sorted(set(shard.horizons))


def ring(rank: int, count: int) -> list[tuple[int, int]]:
    return [((rank + 1) % RANKS, 0)]


def test_what_was_sent_before_the_first_window_arrives():
    """Every rank waits for a message from another shard: no event is in any queue yet."""
    made = run(lambda rank, count: [((rank + 1) % RANKS, 3)] if count == 0 else [], RANKS)
    assert arrivals(made) == {rank: [(13, (rank - 1) % RANKS, 1)] for rank in range(RANKS)}


def test_one_shard_needs_one_window():
    (shard,) = run(ring, 1, lookahead_ps=1 << 90)
    assert shard.horizons == [LOOKAHEAD_PS]


def test_no_events_no_windows():
    assert [shard.horizons for shard in run(lambda rank, count: [], 3)] == [[], [], []]


def test_one_shard_that_asks_stops_all():
    made = run(ring, 3, stop_at=30)
    assert [shard.horizons[-1] for shard in made] == [30] * 3


def test_gathering_and_telling_are_trivial_in_one_process():
    transport = Loopback(3)
    assert (transport.size, transport.local) == (3, range(3))
    assert transport.gather(["a", "b", "c"]) == ["a", "b", "c"]
    assert transport.broadcast("x") == "x"
    with transport.together(), pytest.raises(KeyError):
        raise KeyError


REAL = """
import json, sys
from tests.engine.test_windows import arrivals, blocks_of, ring, RANKS, LOOKAHEAD_PS, ToyShard
from xsim_py.engine import make_transport
transport = make_transport(1)
shard = ToyShard(transport.local[0], blocks_of(RANKS, transport.size), ring, limit=6)
shard.begin()
transport.run([shard], [[LOOKAHEAD_PS] * transport.size] * transport.size)
parts = transport.gather([arrivals([shard])])
joined = transport.broadcast(parts and [{k: v for part in parts for k, v in part.items()}, transport.size])
if parts: print(json.dumps(joined))
"""

if MPIEXEC.exists():

    def test_real_mpi_ranks_give_the_same(monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(ROOT)
        done = mpiexec(3, "-c", REAL)
        assert done.returncode == 0, done.stderr
        found, size = json.loads(done.stdout)
        assert size == 3
        expected = arrivals(run(ring, 1, lookahead_ps=1 << 90))
        assert found == {str(rank): [list(arrival) for arrival in seen] for rank, seen in expected.items()}

    def test_an_exception_in_one_process_ends_all(monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(ROOT)
        broken = REAL.replace("shard.begin()", "shard.begin()\nif shard.number == 1: shard.rule = None")
        done = mpiexec(3, "-c", broken.replace("transport.run(", "\nwith transport.together(): transport.run("))
        assert done.returncode != 0
        assert "TypeError: 'NoneType' object is not callable" in done.stderr


def test_a_shard_stops_where_another_goes_on_so_that_they_work_together() -> None:
    lookahead = [[20, 10], [10, 20]]
    assert [window_end_ps(shard, [0, 15], lookahead) for shard in range(2)] == [15, 10]
    assert [window_end_ps(shard, [0, 5], lookahead) for shard in range(2)] == [10, 10]
    assert [window_end_ps(shard, [0, 90], lookahead) for shard in range(2)] == [20, 10]
