"""The JSON Schema accepts what the checker accepts, and sees every mistake of form that the checker sees."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import load_machine, presets
from xsim_py.config.loader import every_path
from xsim_py.config.schema import json_schema, markdown_table
from xsim_py.errors import ConfigError

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
# What only the checker can see, because it is about two keys at once, or about rounding.
BEYOND_SCHEMA = (
    "simulated clock",
    "whole number of bytes",
    "only a ",
    "a single node",
    "given by topology.dims",
    "needs topology.dims",
    "missing key: message costs",
    "missing key: time from the end",
    "segments must be in ascending order",
    "measured times cannot be combined",
    "both zero",
    "must be positive",
    "half of x",
    "a graph needs",
    "missing key of a fat tree",
    "given by topology.leaves",
    "a graph defines",
    "torus has",
    "cannot be shifted",
    "another twist shifts",
    "must be less",
    "cannot find the file",
    "braces",
    "(1B to 1GiB)",
    "has no period",
)

QUANTITIES = st.sampled_from(
    [
        "1us",
        "5 ns",
        "-1us",
        "1e-6",
        2.0,
        0,
        -1,
        3,
        "1Gbps",
        "0bps",
        "1GB/s",
        "6ns/B",
        "unlimited",
        "64KiB",
        "x",
        "",
        True,
        "1.5B",
    ]
)
LAYER = dict.fromkeys(
    ("latency", "bandwidth", "send_overhead", "gap", "eager_threshold", "send_overhead_per_byte", "count_first_byte"),
    QUANTITIES,
)
SEGMENT = st.fixed_dictionaries(
    {"from": st.sampled_from(["0B", "1KiB", 7, "1ns", None])},
    optional={"latency": QUANTITIES, "bandwidth": QUANTITIES, "send_overhead": QUANTITIES, "until": st.just(1)},
)
BY_SIZE = {"segments": st.lists(SEGMENT, max_size=2) | st.just(3), "times": st.sampled_from(["none.csv", 3, None])}
TWIST = st.fixed_dictionaries(
    {}, optional={"wrap": st.sampled_from(["y", "z", "q", 1]), "shift": st.sampled_from("xyz"), "by": st.integers(0, 3)}
)
VALUES = {
    "name": st.sampled_from(["a", 3, ["a"]]),
    "unknown": st.just(1),
    "machine": st.fixed_dictionaries(
        {},
        optional={
            "nodes": st.integers(-1, 4),
            "placement": st.sampled_from(["block", "blck"]),
            "cores_per_node": QUANTITIES,
        },
    ),
    "topology": st.just("torus")
    | st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["single", "switch", "torus", "fattree", "graph", "ring", None]),
            "nodes_per_leaf": st.integers(0, 3),
            "dims": st.lists(st.integers(0, 4) | st.just("a"), max_size=7) | st.integers(),
            "twist": st.sampled_from(["none", "half", "whole"]) | st.lists(TWIST, max_size=2),
            "edges": st.lists(st.lists(st.sampled_from(["a", 1, "", True]), min_size=1, max_size=3), max_size=2),
            "hosts": st.sampled_from(["*", 3]),
        },
    ),
    "network": st.none()
    | st.fixed_dictionaries(
        {}, optional=LAYER | BY_SIZE | {"per_hop": QUANTITIES, "contention": st.sampled_from(["links", "flows"])}
    ),
    "same_node": st.none() | st.fixed_dictionaries({}, optional=LAYER | BY_SIZE | {"per_hop": QUANTITIES}),
    "mpi": st.fixed_dictionaries(
        {},
        optional={
            "poll_time": QUANTITIES,
            "collectives": st.sampled_from(["tuned", "ftco", "x", {"bcast": "ring"}, {"a": "b"}, {"scan": 1}])
            | st.fixed_dictionaries(
                {},
                optional={
                    "bcast": st.dictionaries(
                        st.sampled_from(["1", "64", "0", "x", "01", "9999999999", "12345678901"]),
                        st.sampled_from(["tuned", "ftco", "chain", "ring", 3]),
                    )
                },
            ),
            "fault_tolerance": st.sampled_from([True, False, "yes", 1, None]),
            "detector": st.fixed_dictionaries(
                {},
                optional={
                    "type": st.sampled_from(["timeout", "heartbeat", "ring"]),
                    "timeout": QUANTITIES,
                    "period": QUANTITIES,
                },
            ),
            "ulfm": st.fixed_dictionaries(
                {}, optional={"agree": st.sampled_from(["two_phase", "x"]), "revoke": st.sampled_from(["local", None])}
            ),
            "ftco": st.fixed_dictionaries(
                {},
                optional={
                    "tree": st.sampled_from(["kary", "binary"]),
                    "radix": st.sampled_from(["auto", "paper", 1, 2, 2.0, 2.5, None]),
                    "timeout": QUANTITIES | st.sampled_from(["paper", "auto"]),
                    "missing": st.sampled_from(["zero", "one"]),
                },
            ),
        },
    ),
    "failures": st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "at": st.lists(st.sampled_from(["rank=1@1ms", 3]), max_size=2) | st.just("rank=1@1ms"),
            "trace": st.sampled_from(["no.csv", 3]),
            "draws": st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "per": st.sampled_from(["node", 1]),
                        "law": st.sampled_from(["weibull", "normal"]),
                        "mtbf": QUANTITIES,
                        "shape": QUANTITIES,
                    },
                ),
                max_size=2,
            ),
            "components": st.lists(
                st.fixed_dictionaries(
                    {}, optional={"name": st.sampled_from(["a", 1, True]), "nodes": st.integers(0, 2)}
                ),
                max_size=2,
            ),
        },
    ),
    "storage": st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "latency": QUANTITIES,
            "bandwidth": QUANTITIES,
            "layout": st.sampled_from(["node", "nodes"]),
            "block": QUANTITIES | st.just("2GiB"),
            "path": st.sampled_from(["out", ["out"], [], [3]]),
        },
    ),
    "compute": st.fixed_dictionaries(
        {},
        optional={
            "mode": st.sampled_from(["none", "measured", "all"]),
            "speed": QUANTITIES | st.just(1.5),
            "times": st.just(3),
            "flops": QUANTITIES | st.sampled_from([10e9, "10e9", "2.5 Gflop/s", "G"]),
            "bandwidth": QUANTITIES,
            "noise": st.fixed_dictionaries(
                {},
                optional={"work": st.sampled_from([0, 0.1, "much"]), "law": st.sampled_from(["exponential", "none"])},
            ),
        },
    ),
}


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", sorted(presets()))
def test_the_schema_accepts_the_presets(name: str) -> None:
    VALIDATOR.validate(yaml.safe_load(presets()[name].read_text(encoding="utf-8")))


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_schema_and_checker_agree(description: dict[str, Any]) -> None:
    before = copy.deepcopy(description)
    try:
        load_machine(description)
    except ConfigError as error:
        problems = [line for line in str(error).splitlines() if not any(word in line for word in BEYOND_SCHEMA)]
    else:
        problems = []
    assert VALIDATOR.is_valid(description) == (not problems), problems
    assert description == before


def test_the_schema_and_the_table_have_every_key() -> None:
    def paths(schema: dict[str, Any], prefix: str = "") -> set[str]:
        found: set[str] = set()
        for key, value in schema.get("properties", {}).items():
            found.add(prefix + key)
            for form in value.get("anyOf", [value]):
                found |= paths(form, f"{prefix}{key}.")
                for inner in form.get("anyOf", []):
                    found |= paths(inner, f"{prefix}{key}.")
        return found

    assert paths(SCHEMA) == set(every_path())
    table = markdown_table()
    assert [path for path in every_path() if f"`{path}`" not in table and not path.startswith("mpi.collectives.")] == []


def test_every_key_is_explained_in_a_sentence() -> None:
    for row in markdown_table().splitlines()[2:]:
        assert row.endswith(". |"), row
