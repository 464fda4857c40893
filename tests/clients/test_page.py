from tests.clients.description import Client
from tests.clients.page import Row, session_table, text
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
