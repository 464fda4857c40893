from tests.clients.description import Client, Expected
from tests.clients.judgement import counts, differences, unexpected
from tests.clients.page import Row, text
from tests.clients.running import ALL, END, OUTPUT, STATUS, Result


def result(outcome: str = "passed", *, late: bool = False, whole: bool = True, status: str = "zero") -> Result:
    tests = {"a": "passed", "b": outcome} if whole else {"a": outcome}
    session = {**tests, END: "0"} if whole else tests
    return Result({ALL: {STATUS: status}, "0": dict(session), "1": dict(session)}, 1.0, late, "")


def test_equal_runs_do_not_differ():
    assert differences(result(), result()) == []


def test_a_difference_names_test_ranks_and_both_outcomes():
    here = result()
    here.outcomes["1"]["b"] = "failed"
    assert [*map(str, differences(result(), here))] == ["b on rank 1: failed, by mpiexec passed"]


def test_a_run_that_ended_early_is_one_difference_and_not_one_for_each_test():
    here = result(whole=False, status="not zero")
    assert [*map(str, differences(result(), here))] == [
        "exit status: not zero, by mpiexec zero",
        f"{END} on rank 0, 1: no outcome, by mpiexec 0",
    ]


def test_a_real_run_that_was_late_says_nothing_of_what_it_had_not_reached():
    real = result(late=True, whole=False, status="late")
    assert differences(real, result()) == []
    assert [found.test for found in differences(real, result("failed", whole=False))] == ["a"]


def test_of_two_outputs_the_first_line_that_differs_is_shown():
    real, here = result(), result()
    real.outcomes[ALL][OUTPUT], here.outcomes[ALL][OUTPUT] = "x\ny\nz", "x\nn"
    assert [*map(str, differences(real, here))] == ["output: 'n', by mpiexec 'y'"]


def test_what_is_expected_is_not_unexpected():
    found = differences(result(), result("failed"))
    assert list(unexpected(found, (Expected(why="known", test="b"),), "greenlets", "run", 2)) == []
    assert list(unexpected(found, (Expected(why="known", test="c"),), "greenlets", "run", 2)) == found


def test_counts_are_over_all_ranks_and_a_script_counts_once():
    assert counts(result("failed")) == (2, 2, 0)
    assert counts(result("skipped")) == (2, 0, 2)
    assert counts(Result({ALL: {STATUS: "late"}, "0": {}}, 1.0, True, "")) == (0, 1, 0)


def test_the_page_has_a_line_for_each_client_and_number_of_ranks():
    client = Client("one", ("one==1.0",), (), about="Its tests.")
    row = Row(client, "run", 2, {"mpiexec": result(), "greenlets": result("failed")}, versions={"one": "1.0"})
    row.found["greenlets"] = differences(row.results["mpiexec"], row.results["greenlets"])
    lines = list(text([row], {}))
    assert "| one | 2 | 4/0/0, 1 | 2/2/0, 1 |  | 1, 0 |" in lines
    assert "* **one**: Its tests. one 1.0." in lines
