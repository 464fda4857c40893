from tests.clients.description import Client
from tests.clients.page import Row, renewed, session_table, text
from tests.clients.running import END, Result


def row(run: str, *ways: str) -> Row:
    result = Result({"all": {"exit status": "zero"}, "any": {"a": "passed", END: "0"}}, 1.0, late=False, said="")
    return Row(Client("one", (), (), about="It."), run, 2, dict.fromkeys(ways, result))


def test_dots_say_that_a_way_lacks_runs_also_if_mpiexec_does():
    lines = list(text([row("a", "mpiexec", "greenlets"), row("b", "greenlets"), row("c")], {}))
    assert lines[2] == "| one | 2 | 1/0/0, 1… | 1/0/0, 1… |  | 0, 0 |"


def test_what_mpiexec_has_not_run_at_all_is_no_line():
    assert list(text([row("a", "greenlets")], {}))[2:] == [""]


def test_a_session_has_its_own_table_also_where_mpiexec_has_run_nothing():
    lines = list(session_table([row("a", "mpiexec", "session"), row("b", "mpiexec")]))
    assert lines[2:] == ["| one | 2 | 1/0/0, 1… | 1/0/0, 1… | 0 |"]
    assert list(session_table([row("a", "session")]))[2:] == ["| one | 2 |  | 1/0/0, 1 |  |"]
    assert list(session_table([row("a", "mpiexec")])) == []
    early = row("a", "session")
    del early.results["session"].outcomes["any"][END]
    assert list(session_table([early]))[2:] == ["| one | 2 |  | 1/0/0, 1, 1 ended early |  |"]


HEAD = ["| client | ranks | mpiexec | session | differences |", "| --- | ---: | ---: | ---: | ---: |"]
PAGE = [
    *HEAD,
    "| one | 2 | 1/0/0, 1… | 1/0/0, 1 | 0 |",
    "| one | 64 |  | 1/0/0, 1 |  |",
    "| two | 2 | 2/0/0, 2 | 2/0/0, 2 | 0 |",
    "",
    "* **one**: Its tests. one 1.0.",
    "  * test_a: it is slow",
    "* **two**: Its tests. two 1.0.",
]


def test_a_line_of_the_page_stays_where_nothing_better_was_made():
    assert list(renewed(PAGE, [])) == PAGE
    worse = ["| two | 2 | 3/0/0, 2 | 3/0/0, 2… | 0 |", "", "* **two**: Others."]
    assert list(renewed(PAGE, [*HEAD, *worse])) == PAGE
    assert list(renewed(PAGE, [*HEAD, "| two | 2 |  | 3/0/0, 2 |  |", *worse[1:]])) == PAGE


def test_a_whole_line_replaces_the_one_of_the_page_and_one_with_dots_one_with_dots():
    dots, whole = "| one | 2 | 3/0/0, 1… | 3/0/0, 1 | 0 |", "| one | 64 |  | 4/0/0, 4 |  |"
    notes = ["* **one**: Its tests. one 2.0.", "* **one**: not all could be run where this table was made."]
    made = list(renewed(PAGE, [*HEAD, dots, whole, "", *notes]))
    assert made == [*HEAD, dots, whole, *PAGE[4:6], *notes, PAGE[-1]]


def test_a_line_that_is_missing_comes_to_its_place_also_with_dots():
    lines = [f"| {client} | {ranks} | 1/0/0, 1… |  |  |" for client, ranks in (("one", 4), ("one", 8), ("three", 2))]
    made = list(renewed(PAGE, [*HEAD, *lines, "", "* **one**: New.", "* **three**: New."]))
    assert made == [
        *HEAD,
        PAGE[2],
        *lines[:2],
        PAGE[3],
        lines[2],
        *PAGE[4:6],
        "* **one**: New.",
        "* **three**: New.",
        PAGE[-1],
    ]
    assert list(renewed(made, [])) == made


def test_a_client_of_which_not_all_could_be_had_has_no_whole_line():
    lines = list(text([row("a", "mpiexec", "greenlets", "process")], {"one": "no tests"}))
    assert lines[2] == "| one | 2 | 1/0/0, 1… | 1/0/0, 1… | 1/0/0, 1… | 0, 0 |"
    assert list(session_table([row("a", "session")], {"one"}))[2:] == ["| one | 2 |  | 1/0/0, 1… |  |"]
