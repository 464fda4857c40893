"""``xsim models flows`` against routes by the formulas of the literature and exact filling, both written here anew."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.cli.flow_sets import FlowSet

Way = list[str]


def ends_exactly(links: dict[str, tuple[Any, Any]], flows: list[tuple[Any, int, Way]]) -> list[Fraction]:
    """When flows (start, bytes, route) end: all rates are found anew in fractions whenever one comes or goes."""
    comes = [Fraction(start) + sum(Fraction(links[name][1]) for name in way) for start, _, way in flows]
    left = [Fraction(size) for _, size, _ in flows]
    ends: dict[int, Fraction] = {f: comes[f] for f in range(len(flows)) if not left[f] or not flows[f][2]}
    now = min(comes)
    while len(ends) < len(flows):
        active = [f for f in range(len(flows)) if f not in ends and comes[f] <= now]
        rates: dict[int, Fraction] = {}
        while len(rates) < len(active):  # raise the rates of all that still can have more, to the next full link
            shares = {}
            for name in {name for f in active if f not in rates for name in flows[f][2]}:
                used = sum(rates[f] * flows[f][2].count(name) for f in rates)
                users = sum(flows[f][2].count(name) for f in active if f not in rates)
                shares[name] = (Fraction(links[name][0]) - used) / users
            level = min(shares.values())
            full = {name for name, share in shares.items() if share == level}
            rates |= {f: level for f in active if f not in rates and full & set(flows[f][2])}
        times = [comes[f] for f in range(len(flows)) if f not in ends and comes[f] > now]
        later = min([*times, *(now + left[f] / rates[f] for f in active)])
        for f in active:
            left[f] -= rates[f] * (later - now)
            if left[f] == 0:
                ends[f] = later
        now = later
    return [ends[f] for f in range(len(flows))]


def tree_way(m: list[int], w: list[int], p: list[int], cables: str, s: int, t: int) -> Way:
    """D-mod-K, with labels written out: digits of a vertex of level i count parents up to i and children above."""

    def digits(place: int, radices: list[int]) -> list[int]:
        found = []
        for radix in radices:
            found.append(place % radix)
            place //= radix
        return found

    def name(level: int, label: list[int]) -> str:
        place = 0
        for digit, radix in reversed(list(zip(label, [*w[:level], *m[level:]], strict=True))):
            place = place * radix + digit
        return f"s{level}.{place}" if level else f"h{place}"

    def cable(number: int) -> str:
        return f"#{number}" if number else ""

    def above(level: int) -> int:
        product = 1
        for parents in w[:level]:
            product *= parents
        return product

    if s == t:
        return []
    way, label, goal, level = [], digits(s, m), digits(t, m), 0
    while level == 0 or label[level:] != goal[level:]:
        chosen = t // above(level) % (w[level] * p[level])
        upper = [*label[:level], chosen % w[level], *label[level + 1 :]]
        way.append(f"{name(level, label)}>{name(level + 1, upper)}{cable(chosen // w[level])}")
        label, level = upper, level + 1
    while level:
        lower = [*label[: level - 1], goal[level - 1], *label[level:]]
        number = s % p[level - 1] if cables == "source" else t // above(level - 1) % (w[level - 1] * p[level - 1])
        number = number if cables == "source" else number // w[level - 1]
        way.append(f"{name(level, label)}>{name(level - 1, lower)}{cable(number)}")
        label, level = lower, level - 1
    return way


def dragonfly_way(p: int, a: int, h: int, wiring: str, s: int, t: int, via: int | None) -> Way:
    groups = a * h + 1

    def owner(group: int, to: int) -> int:
        port = (to - group - 1) % groups if wiring == "relative" else to if to < group else to - 1
        return port // h

    goal = (t // (p * a), t // p % a)
    places = [(s // (p * a), s // p % a)]
    if s == t:
        return []
    stops = [via] if via not in (None, places[0][0], goal[0]) and places[0][0] != goal[0] else []
    for group in [*stops, goal[0]]:
        here = places[-1][0]
        if group is not None and group != here:
            places += [(here, owner(here, group)), (group, owner(group, here))]
    places.append(goal)
    places = [place for index, place in enumerate(places) if not index or place != places[index - 1]]
    names = [f"h{s}", *(f"r{group}.{router}" for group, router in places), f"h{t}"]
    return [f"{one}>{other}" for one, other in pairwise(names)]


def torus_way(dims: list[int], ties: str, s: int, t: int) -> Way:
    names, at, unit = [s], s, 1
    for length in dims:
        while at // unit % length != t // unit % length:
            one, goal = names[-1] // unit % length, t // unit % length
            start = s // unit % length
            up = (goal - start) % length
            if 2 * up == length:
                forward = ties == "up" or goal > start or start > length // 2
            else:
                forward = 2 * up < length
            at += unit * ((one + (1 if forward else -1)) % length - one)
            names.append(at)
        unit *= length
    return [f"n{one}>n{other}" for one, other in pairwise(names)]


def cascade_way(groups: int, chassis: int, blades: int, hosts: int, s: int, t: int) -> Way:
    def place(host: int) -> tuple[int, int, int]:
        router = host // hosts
        return router // (blades * chassis), router // blades % chassis, router % blades

    if s == t:
        return []
    (g, c, b), goal = place(s), place(t)
    places = [(g, c, b)]
    if g != goal[0]:
        places += [(g, c, goal[0]), (g, 0, goal[0]), (goal[0], 0, g)]
    group, chassis_now, _ = places[-1]
    places += [(group, chassis_now, goal[2]), goal]
    places = [each for index, each in enumerate(places) if not index or each != places[index - 1]]
    names = [f"h{s}", *(f"r{x}.{y}.{z}" for x, y, z in places), f"h{t}"]
    return [f"{one}>{other}" for one, other in pairwise(names)]


COUNTS = st.lists(st.integers(1, 3), min_size=1, max_size=3)


@st.composite
def topologies(draw: Any) -> tuple[dict[str, Any], int, Any]:
    """A topology, how many ranks it has, and what its routes are."""
    kind = draw(st.sampled_from(["fat_tree", "dragonfly", "torus", "dragonfly_cascade", "switch"]))
    told: dict[str, Any] = {"type": kind, "bandwidth_Bps": 1e6, "latency_s": 0.0009765625}
    if kind == "fat_tree":
        m = draw(COUNTS)
        w, p = (draw(st.lists(st.integers(1, 3), min_size=len(m), max_size=len(m))) for _ in range(2))
        cables = draw(st.sampled_from(["destination", "source"]))
        hosts = 1
        for each in m:
            hosts *= each
        return told | {"m": m, "w": w, "p": p, "cables": cables}, hosts, lambda s, t, _: tree_way(m, w, p, cables, s, t)
    if kind == "dragonfly":
        p, a, h = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
        wiring = draw(st.sampled_from(["relative", "absolute"]))
        hosts = p * a * (a * h + 1)
        told |= {"p": p, "a": a, "h": h, "wiring": wiring}
        return told, hosts, lambda s, t, via: dragonfly_way(p, a, h, wiring, s, t, via)
    if kind == "torus":
        dims = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
        ties = draw(st.sampled_from(["up", "simgrid"]))
        hosts = 1
        for each in dims:
            hosts *= each
        return told | {"dims": dims, "ties": ties}, hosts, lambda s, t, _: torus_way(dims, ties, s, t)
    if kind == "dragonfly_cascade":
        blades, chassis, hosts = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        groups = draw(st.integers(1, blades))
        told |= {"groups": groups, "chassis": chassis, "blades": blades, "nodes_per_blade": hosts}
        count = groups * chassis * blades * hosts
        return told, count, lambda s, t, _: cascade_way(groups, chassis, blades, hosts, s, t)
    nodes, per_node, half = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.booleans())
    backbone = draw(st.booleans())
    told |= {"nodes": nodes, "ranks_per_node": per_node, "duplex": "half" if half else "full", "memory_Bps": 3e6}
    told |= {"backbone_Bps": 2e6} if backbone else {}

    def way(s: int, t: int, _: Any) -> Way:
        a, b = s // per_node, t // per_node
        if a == b:
            return [f"n{a}.mem"]
        middle = ["sw"] if backbone else []
        return [f"n{a}.port", *middle, f"n{b}.port"] if half else [f"n{a}>sw", *middle, f"sw>n{b}"]

    return told, nodes * per_node, way


FEW = settings(max_examples=60 if CAMPAIGN else 15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(topologies(), st.data())
@FEW
def test_own_routes_and_ends_on_any_topology(tmp_path: Path, of: Any, data: Any) -> None:
    told, ranks, way = of
    flows = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, ranks - 1),
                st.integers(0, ranks - 1),
                st.sampled_from([0, 1, 1000, 1000, 10**6]),
                st.sampled_from([0, 0, 0.0009765625, 0.5]),
            ),
            min_size=1,
            max_size=12,
        )
    )
    via = data.draw(st.none() | st.integers(0, told["a"] * told["h"])) if told["type"] == "dragonfly" else None
    given_via = {} if via is None else {"via_group": via}
    listed = [{"src": s, "dst": t, "bytes": size, "start_s": start, **given_via} for s, t, size, start in flows]
    file = tmp_path / "set.json"
    file.write_text(json.dumps({"topology": told, "flows": listed}))
    found = FlowSet(file).solve("own")
    ways = [way(s, t, via) for s, t, _, _ in flows]
    assert found["routes"] == ways
    figures: dict[str, tuple[float, float]] = {}
    for name in {name for each in ways for name in each}:
        figures[name] = (1e6, 0.0009765625)
        if name == "sw":
            figures[name] = (2e6, 0.0)
        if name.endswith(".mem"):
            figures[name] = (3e6, 0.0)
    exact = ends_exactly(figures, [(start, size, each) for (_, _, size, start), each in zip(flows, ways, strict=True)])
    assert found["finish_s"] == pytest.approx([float(end) for end in exact], rel=1e-9)


NAMES = ["a", "a>b", "a>b#1", "h0>s1.0", "ring 7", "\N{LATIN SMALL LETTER U WITH DIAERESIS}ber", "", "0"]


@given(
    st.lists(st.tuples(st.sampled_from([1.0, 3.5, 1e6, 1e9]), st.sampled_from([0, 0.25])), min_size=8, max_size=8),
    st.lists(
        st.tuples(
            st.sampled_from([0, 0, 0.25, 1]),
            st.sampled_from([0, 1, 64, 64, 10**6]),
            st.lists(st.sampled_from(NAMES), max_size=5),
        ),
        min_size=1,
        max_size=15,
    ),
)
@FEW
def test_any_links_and_routes_that_are_given(tmp_path: Path, figures: Any, flows: Any) -> None:
    links = dict(zip(NAMES, figures, strict=True))
    listed = [{"src": 0, "dst": 1, "bytes": size, "start_s": start, "route": way} for start, size, way in flows]
    file = tmp_path / "set.json"
    file.write_text(json.dumps({"links": links, "flows": listed}))
    found = FlowSet(file).solve(None)
    assert found["routes"] == [way for *_, way in flows]
    assert found["finish_s"] == pytest.approx([float(end) for end in ends_exactly(links, flows)], rel=1e-9)
