from tests.clients.description import Client, Expected
from tests.clients.judgement import counts, differences, failures, merged, unexpected
from tests.clients.page import Row, text
from tests.clients.running import ALL, ANY, END, OUTPUT, STATUS, Result


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


def outcomes_of(*ranks: dict[str, str]) -> dict[str, str]:
    found = {str(rank): tests for rank, tests in enumerate(ranks)}
    return merged(Result({ALL: {STATUS: "zero"}, **found}, 1.0, late=False, said="")).outcomes[ANY]


def test_of_all_ranks_a_test_has_failed_if_it_has_on_any_and_is_skipped_if_it_is_on_all():
    first = {"a": "passed", "b": "skipped", "c": "failed", "d": "skipped", END: "1"}
    second = {"a": "passed", "b": "passed", "c": "error", "d": "skipped", END: "0"}
    assert outcomes_of(first, second) == {"a": "passed", "b": "passed", "c": "error", "d": "skipped", END: "1"}


def test_a_test_that_only_one_rank_has_counts_as_it_does_there():
    assert outcomes_of({"a 0": "passed", END: "0"}, {"a 1": "failed", END: "1"})["a 1"] == "failed"


def test_what_a_rank_does_while_another_is_held_up_says_nothing():
    went_on = {"a": "passed", "b": "failed", "c": "failed", END: "1"}
    assert outcomes_of(went_on, {"a": "passed"}) == {"a": "passed", "b": "failed"}


def test_where_no_real_run_is_all_that_fails_is_told_and_an_end_that_is_missing():
    tests = {"a": "passed", "b": "error", "c": "skipped"}
    session = Result({ALL: {STATUS: "not zero"}, ANY: {**tests, END: "1"}}, 1.0, late=False, said="")
    assert [*map(str, failures(session))] == ["b: error"]
    del session.outcomes[ANY][END]
    assert [*map(str, failures(session))] == [f"{END}: no outcome", "b: error"]


def test_what_is_expected_is_not_unexpected():
    found = differences(result(), result("failed"))
    assert list(unexpected(found, (Expected(why="known", test="b"),), "greenlets", "run", 2)) == []
    assert list(unexpected(found, (Expected(why="known", test="c"),), "greenlets", "run", 2)) == found


def test_counts_are_over_all_ranks_and_a_script_counts_once():
    assert counts(result("failed")) == (2, 2, 0)
    assert counts(result("skipped")) == (2, 0, 2)
    assert counts(Result({ALL: {STATUS: "late"}, "0": {}}, 1.0, True, "")) == (0, 1, 0)
    assert counts(Result({ALL: {STATUS: "not zero"}, "0": {END: "5"}}, 1.0, False, "")) == (0, 0, 0)


def test_the_page_has_a_line_for_each_client_and_number_of_ranks():
    client = Client("one", ("one==1.0",), (), about="Its tests.")
    row = Row(client, "run", 2, {"mpiexec": result(), "greenlets": result("failed")}, versions={"one": "1.0"})
    row.found["greenlets"] = differences(row.results["mpiexec"], row.results["greenlets"])
    lines = list(text([row], {}))
    assert "| one | 2 | 4/0/0, 1 | 2/2/0, 1 |  | 1, 0 |" in lines
    assert "* **one**: Its tests. one 1.0." in lines
