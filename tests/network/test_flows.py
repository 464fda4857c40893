"""Max-min fair shares: closed forms, the property that defines them, and flows that come and go."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.network.flows import FairFlows, max_min_rates, max_min_rates_of_few

SETS = sorted((Path(__file__).parent / "flow_sets").glob("*.json"))

CAPACITIES = [1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 10.0, 1e9]
WAY = st.lists(st.integers(0, len(CAPACITIES) - 1), min_size=1, max_size=4)
FLOW = st.tuples(st.integers(0, 6), st.sampled_from([0, 1, 3, 10, 64, 64]), WAY)


def with_links(capacities: Sequence[float], *, integer_times: bool = False) -> tuple[FairFlows, list[int]]:
    flows = FairFlows(integer_times=integer_times)
    return flows, [flows.add_link(capacity) for capacity in capacities]


def rates(capacities: Sequence[float], ways: Sequence[Sequence[int]]) -> list[float]:
    flows, links = with_links(capacities)
    for name, way in enumerate(ways):
        flows.add(name, 0.0, 1.0, [links[link] for link in way])
    flows.advance(0.0)
    return [flows.rates[name] for name in range(len(ways))]


def ends(capacities: Sequence[float], given: Sequence[tuple[float, float, Sequence[int]]]) -> list[float]:
    """When flows (begin, size, links) end."""
    flows, links = with_links(capacities)
    for name, (begin, size, way) in enumerate(given):
        flows.add(name, float(begin), size, [links[link] for link in way])
    found = {name: time for time, name in flows.advance(1e30)}
    assert flows.next_time == math.inf
    return [found[name] for name in range(len(given))]


def ends_by_definition(capacities: Sequence[float], given: Sequence[tuple[float, float, Sequence[int]]]) -> list[float]:
    """When they end by the plainest filling there is, of all flows at every event."""
    found = [begin if not size else math.nan for begin, size, _ in given]
    left = [float(size) for _, size, _ in given]
    now = 0.0
    while any(map(math.isnan, found)):
        flowing = [f for f, end in enumerate(found) if math.isnan(end) and given[f][0] <= now]
        shares = filled_at_once(capacities, {f: given[f][2] for f in flowing})
        times = [given[f][0] for f, end in enumerate(found) if math.isnan(end) and given[f][0] > now]
        later = min([*times, *(now + left[f] / shares[f] for f in flowing)])
        for f in flowing:
            left[f] -= shares[f] * (later - now)
            if left[f] < 1e-9 * given[f][1] or later + left[f] / shares[f] == later:
                found[f] = later
        now = later
    return found


def filled_at_once(capacities: Sequence[float], ways: dict[int, Sequence[int]]) -> dict[int, float]:
    """Raise all rates together; when a link is full, its flows keep theirs."""
    shares: dict[int, float] = {}
    left = list(capacities)
    while len(shares) < len(ways):
        users = Counter(link for f, way in ways.items() if f not in shares for link in way)
        full, level = min(((link, left[link] / n) for link, n in users.items()), key=lambda pair: pair[1])
        for f, way in ways.items():
            if f not in shares and full in way:
                shares[f] = level
                for link in way:
                    left[link] -= level
    return shares


@pytest.mark.parametrize(
    ("capacities", "ways", "expected"),
    [
        ([1, 10, 1], [[0, 1, 2], [0], [1], [2]], [0.5, 0.5, 9.5, 0.5]),  # the parking lot
        (
            [10] * 10,
            [[4, 5, 6], [0, 1, 2], [7, 8], [4, 5], [5, 6, 7], [9], [7, 9], [0, 1], [1, 2, 3], [4, 5, 6, 7, 9],
             [6, 7, 8]],
            [3, 10 / 3, 2, 3, 2, 6, 2, 10 / 3, 10 / 3, 2, 2],
        ),
        ([3], [[0], [0, 0]], [1, 1]),  # who crosses a link twice counts twice
    ],
)  # fmt: skip
def test_rates_are_those_of_the_books(capacities: list[float], ways: list[list[int]], expected: list[float]) -> None:
    assert rates(capacities, ways) == pytest.approx(expected, rel=1e-12)


def test_flows_that_come_and_go_end_as_worked_by_hand() -> None:
    given = [(0.0035, 1e6, [0, 1, 2]), (0.001, 1e6, [0]), (0.102, 3e6, [1]), (0.0005, 5e5, [2])]
    expected = [2.001, 1.9985, 0.102 + 3 / 9.5, 0.9975]
    assert ends([1e6, 1e7, 1e6], given) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("file", SETS, ids=lambda file: file.stem)
def test_sets_of_flows_end_when_simgrid_says(file: Path) -> None:
    told: dict[str, Any] = json.loads(file.read_text())
    numbers = {name: number for number, name in enumerate(told["links"])}
    latency = {name: parameters[1] for name, parameters in told["links"].items()}
    given = [
        (flow["start_s"] + sum(map(latency.__getitem__, flow["route"])), flow["bytes"], flow["route"])
        for flow in told["flows"]
    ]
    found = ends(
        [parameters[0] for parameters in told["links"].values()],
        [(begin, size, [numbers[name] for name in route]) for begin, size, route in given],
    )
    assert found == pytest.approx(told["finish_s"], rel=1e-11)  # they are written with 12 digits


@given(st.lists(WAY, min_size=1, max_size=40))
@settings(max_examples=40 if CAMPAIGN else 10)
def test_every_flow_has_a_full_link_on_which_nobody_has_more(ways: list[list[int]]) -> None:
    shares = rates(CAPACITIES, ways)
    used = [sum(share * way.count(link) for share, way in zip(shares, ways, strict=True)) for link in range(8)]
    assert all(use <= capacity * (1 + 1e-12) for use, capacity in zip(used, CAPACITIES, strict=True))
    pairs = list(zip(shares, ways, strict=True))
    most = [max((share for share, way in pairs if link in way), default=0) for link in range(8)]
    for share, way in pairs:
        assert any(used[at] >= CAPACITIES[at] * (1 - 1e-12) and share >= most[at] * (1 - 1e-12) for at in way)


@given(st.lists(WAY, min_size=1, max_size=40))
@settings(max_examples=40 if CAMPAIGN else 10)
def test_arrays_and_lists_fill_alike_to_the_last_bit(ways: list[list[int]]) -> None:
    capacities = np.array([np.inf, *CAPACITIES])
    numbered = [[link + 1 for link in way] for way in ways]
    width = max(map(len, ways))
    routes = np.array([way + [0] * (width - len(way)) for way in numbered])
    assert max_min_rates(routes, capacities).tolist() == max_min_rates_of_few(numbered, capacities)
    many = np.concatenate([capacities, np.full(4 * routes.size + 1, 1.0)])  # of which most are not used
    assert max_min_rates(routes, many).tolist() == max_min_rates_of_few(numbered, capacities)


@given(st.lists(FLOW, min_size=1, max_size=30))
@settings(max_examples=40 if CAMPAIGN else 10)
def test_what_is_found_bit_by_bit_is_what_is_found_anew_at_every_event(flows: list[Any]) -> None:
    assert ends(CAPACITIES, flows) == pytest.approx(ends_by_definition(CAPACITIES, flows), rel=1e-9)


@given(st.lists(FLOW, min_size=1, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=8)
def test_many_flows_are_found_as_few_are(flows: list[Any], random: Any) -> None:
    # Copies on links of their own: looked for among all, and filled by arrays.
    copies = 20
    capacities = CAPACITIES * copies
    copied = [
        (copy, (begin, size, [link + copy * len(CAPACITIES) for link in way]))
        for copy in range(copies)
        for begin, size, way in flows
    ]
    copied += [(copies, (0.0, 1e6, [len(capacities) + link, len(capacities) + copies])) for link in range(copies)] * 20
    random.shuffle(copied)
    found = ends([*capacities, *[1e6] * (copies + 1)], [flow for _, flow in copied])
    alone = sorted(ends(CAPACITIES, flows))
    for copy in range(copies):
        assert sorted(end for end, (of, _) in zip(found, copied, strict=True) if of == copy) == pytest.approx(alone)


@given(st.lists(FLOW, min_size=2, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=40 if CAMPAIGN else 10)
def test_the_order_in_which_flows_are_told_does_not_matter(flows: list[Any], random: Any) -> None:
    order = list(range(len(flows)))
    random.shuffle(order)
    found = ends(CAPACITIES, [flows[number] for number in order])
    straight = ends(CAPACITIES, flows)
    assert [found[order.index(number)] for number in range(len(flows))] == straight  # to the last bit


@given(st.lists(FLOW, min_size=1, max_size=20), st.integers(0, 2**70))
@settings(max_examples=40 if CAMPAIGN else 10)
def test_whole_times_are_the_nearest_ones_wherever_the_clock_stands(flows: list[Any], start: int) -> None:
    step = 10**9
    capacities = [capacity / step for capacity in CAPACITIES]
    account, links = with_links(capacities, integer_times=True)
    for name, (begin, size, way) in enumerate(flows):
        account.add(name, start + begin * step, size, [links[link] for link in way])
    found: dict[int, int] = {}
    while account.next_time < math.inf:  # as a run does it: from event to event
        time = account.next_time
        found |= {name: end - start for end, name in account.advance(time)}
        assert account.next_time > time or math.isinf(account.next_time)
    exact = ends(CAPACITIES, flows)
    assert [found[name] for name in range(len(flows))] == pytest.approx([end * step for end in exact], abs=100)


def test_a_flow_may_begin_while_others_flow() -> None:
    account, (link,) = with_links([2.0])
    account.add("first", 0.0, 8.0, [link])
    assert account.advance(1.0) == []
    assert account.next_time == 4.0
    account.add("second", 1.0, 1.0, [link])
    account.add("empty", 1.5, 0.0, [link])
    account.add("free", 1.5, 5.0, [])
    assert account.advance(2.0) == [(1.5, "empty"), (1.5, "free"), (2.0, "second")]
    assert account.advance(10.0) == [(4.5, "first")]


def test_a_link_without_a_limit_slows_nobody_and_one_without_capacity_is_refused() -> None:
    account, (narrow, wide) = with_links([1.0, math.inf])
    account.add(0, 0.0, 3.0, [wide, narrow])
    account.add(1, 0.0, 3.0, [wide])
    assert account.advance(5.0) == [(0.0, 1), (3.0, 0)]
    with pytest.raises(ValueError, match="a link capacity of 0 is out of range: it must be positive"):
        account.add_link(0)


MOST = st.sampled_from([0.25, 0.5, 1.0, 4.0, math.inf])


@given(st.lists(st.tuples(WAY, MOST), min_size=1, max_size=60))
@settings(max_examples=60 if CAMPAIGN else 10)
def test_a_rate_that_a_flow_does_not_exceed_is_a_link_of_its_own(flows: list[tuple[list[int], float]]) -> None:
    capacities = np.array([math.inf, *CAPACITIES])
    own = np.array([*capacities, *(most for _, most in flows)])
    ways = [[link + 1 for link in way] for way, _ in flows]
    most = [each for _, each in flows]
    wanted = max_min_rates_of_few([[*way, len(capacities) + number] for number, way in enumerate(ways)], own)
    assert max_min_rates_of_few(ways, capacities, most) == wanted
    routes = np.array([[*way, *[0] * (4 - len(way))] for way in ways])
    assert max_min_rates(routes, capacities, np.array(most)).tolist() == wanted
    account, links = with_links(CAPACITIES)
    for number, (way, rate) in enumerate(flows):
        account.add(number, 0.0, 1.0, [links[link] for link in way], rate)
    account.advance(0.0)
    assert [account.rates[number] for number in range(len(flows))] == wanted
