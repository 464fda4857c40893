"""Configurations from the text of options."""

import pytest

from xsim_py.errors import ConfigError
from xsim_py.ftco.model import RULES
from xsim_py.ftco.options import configurations, rules_text


def said(given: dict[str, str], **more) -> list[str]:
    with pytest.raises(ConfigError) as error:
        configurations(given, **more)
    return str(error.value).splitlines()


def test_lists_are_combined_and_the_last_varies_fastest():
    made = configurations({"nodes": "16, 32", "tree": "knomial:4,kary:2", "inactive": "0,1"})
    assert [(each.nodes, each.tree, each.radix, each.inactive) for each in made] == [
        (nodes, tree, radix, inactive)
        for nodes in (16, 32)
        for tree, radix in (("knomial", 4), ("kary", 2))
        for inactive in (0, 1)
    ]


def test_the_radix_auto_is_the_best_one():
    made = configurations({"nodes": "1024,65536", "tree": "knomial:auto"})
    assert [each.radix for each in made] == [11, 9]
    assert configurations({"nodes": "1024", "tree": "knomial"}) == made[:1]


def test_what_is_not_given_has_the_papers_values():
    (made,) = configurations({"nodes": "64"})
    assert (made.tree, made.roots, made.L, made.o, made.operation) == ("knomial", "multi", 10, 1, "allreduce")
    assert made.rules == RULES["reference"]
    assert made.timeout is made.window is None


def test_rules_may_be_several_and_the_service_distance_changes_all():
    made = configurations({"nodes": "8", "service": "none"}, rules=["reference,order=printed", "paper"])
    assert [(each.rules.order, each.rules.traversal, each.rules.service) for each in made] == [
        ("printed", "reference", "none"),
        ("printed", "paper", "none"),
    ]


@pytest.mark.parametrize(
    "text", ["reference", "paper", "reference,order=printed,service=none", "paper,draw=replacement"]
)
def test_rules_as_text_are_read_back(text: str):
    (made,) = configurations({"nodes": "8", "rules": text})
    assert rules_text(made.rules) == text


def test_windows_and_timeouts():
    (made,) = configurations({"nodes": "8", "failures": "1", "window": "3..40", "timeout": "500"})
    assert (made.window, made.timeout) == ((3, 40), 500)


def test_everything_that_is_wrong_is_said_at_once():
    assert said({"nodes": "10,x", "tree": "kary:y", "window": "5", "timeout": "soon"}, rules=["papr"]) == [
        "rules: expected reference or paper, got 'papr'",
        "timeout: expected an integer, got 'soon'",
        "nodes: expected an integer, got 'x'",
        "tree: expected an integer or auto, got 'y'; write for example knomial:9",
        "window: expected auto or steps such as 0..40, got '5'",
    ]
    wrong = {"nodes": "10", "tree": "knomial:1,knomial:20", "L": "7", "o": "2", "inactive": "10", "timeout": "0"}
    assert said(wrong) == [
        "tree: 1 is out of range (at least 2)",
        "L: expected a positive multiple of o = 2, got 7",
        "timeout: 0 steps is out of range: it must be positive",
        "inactive: 10 faults of 10 nodes; at least one node must survive",
        "tree: a tree with 20 roots does not fit 10 nodes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nodes: missing option; give the number of nodes, e.g. 1024"),
        ({"nodes": "0"}, "nodes: 0 is out of range (at least 1)"),
        ({"nodes": "8", "service": "fifo"}, "service: expected rsd or disd or none, got 'fifo'"),
        ({"nodes": "8", "imbalance": "uniform"}, "imbalance: expected none, uniform:S or normal:S, got 'uniform'"),
        ({"nodes": "8", "window": "9..9"}, "window: empty window: no step from 9 to before 9"),
        ({"nodes": "8", "inactive": "-1"}, "inactive: -1 is out of range (at least 0)"),
        ({"nodes": "8", "tree": "binomial"}, "tree: expected knomial or kary, got 'binomial'"),
    ],
)
def test_what_is_wrong(given: dict[str, str], message: str):
    assert said(given) == [message]
