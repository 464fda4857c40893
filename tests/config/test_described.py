"""A description knows where each thing in it was written."""

from dataclasses import dataclass

import pytest

from xsim_py.config.described import Described
from xsim_py.config.entries import Location, Problem
from xsim_py.config.value_kinds import TIME, Key, option, options


@dataclass(frozen=True, kw_only=True)
class Section(Described):
    delay_ps: int = option(TIME, "How long.", default=5)
    rate: int = option(TIME, "How often.", key="every", required=True)


FILE, KEY, ITEM = (Location.in_file("a.yaml", line, 1) for line in (1, 2, 3))


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("network", KEY),
        ("network.gap", KEY),
        ("edges[1]", ITEM),
        ("edges[1].x", ITEM),
        ("edges[2].x", FILE),
        ("mpi.x.y", FILE),
        ("", FILE),
    ],
)
def test_what_was_left_out_stands_where_its_section_does(path: str, where: Location) -> None:
    told = Section(places={"": FILE, "network": KEY, "edges[1]": ITEM})
    assert told.place(path) == where
    assert told.error(path, "wrong").problems == (Problem(where, path, "wrong"),)


def test_a_key_is_named_by_its_field_without_a_unit_or_by_itself() -> None:
    assert [(each.name, each.key, each.required) for each in options(Section)] == [
        ("delay_ps", "delay", False),
        ("rate", "every", True),
    ]
    assert Key("a", "a", TIME, "", list, "", False).default_value() == []


def test_options_come_after_files_and_name_the_entry_that_they_set() -> None:
    given = Location.in_option("--set network.gap=1\n", "network.gap")
    assert sorted([given, KEY, FILE]) == [FILE, KEY, given]
    assert (str(given), given.entry) == ("--set network.gap=1\\n", "network.gap")
