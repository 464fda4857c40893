import json
import os
from pathlib import Path
from typing import Any

import pytest

from xsim_py.errors import ConfigError
from xsim_py.study.store import NAME, Store, read_outcomes

GOOD: dict[str, Any] = {"ended": "finished", "exit_status": 0, "said": "", "last_lines": []}


def fill(folder: Path, *keys: str) -> None:
    with Store(folder) as store:
        for key in keys:
            store.add(key, {"ranks": 2}, {"ranks": 2}, {**GOOD, "of": key})


def test_what_was_added_is_there_the_next_time(tmp_path):
    fill(tmp_path / "new" / "folder", "a", "b")
    fill(tmp_path / "new" / "folder", "c")
    assert list(read_outcomes(tmp_path / "new" / "folder")) == ["a", "b", "c"]


def test_the_last_line_of_a_key_counts(tmp_path):
    fill(tmp_path, "a")
    with Store(tmp_path) as store:
        assert store.outcomes["a"]["ended"] == "finished"
        store.add("a", {}, {}, {**GOOD, "ended": "crashed"})
    assert read_outcomes(tmp_path)["a"]["ended"] == "crashed"


@pytest.mark.parametrize("left", [0, 1, 5, 20, -1])
def test_a_line_that_a_crash_has_torn_is_left_out_and_nothing_else(tmp_path, left: int):
    fill(tmp_path, "a", "b")
    file = tmp_path / NAME
    first, second, _ = file.read_bytes().split(b"\n")
    file.write_bytes(first + b"\n" + second[:left])
    fill(tmp_path, "c")
    assert list(read_outcomes(tmp_path)) == ["a", "c"]


WRONG = [
    "{}",
    "5",
    "null",
    "[" * 100_000,
    json.dumps({**GOOD, "ended": None}),
    json.dumps({**GOOD, "exit_status": "0"}),
    json.dumps({**GOOD, "captured": 5}),
    json.dumps({**GOOD, "captured": {"a": [1]}}),
    json.dumps({**GOOD, "captured": {"a": 10**4000}}),
    json.dumps({**GOOD, "given_up": {"a": 1}}),
    json.dumps({**GOOD, "spread": {"a": [1, 2, 3, 4]}}),
    json.dumps({**GOOD, "last_lines": [1]}),
    json.dumps({**GOOD, "virtual_time_s": float("nan")}),
    json.dumps({**GOOD, "virtual_time_s": {}}),
    json.dumps({**GOOD, "events": 10**400}),
    json.dumps({**GOOD, "wall_limit_s": "1"}),
    json.dumps({"ended": "finished", "exit_status": 0}),
]


@pytest.mark.parametrize("outcome", WRONG, ids=range(len(WRONG)))
def test_a_line_with_something_else_than_a_result_in_it_is_left_out_too(tmp_path, outcome: str):
    fill(tmp_path, "a", "b")
    with open(tmp_path / NAME, "a") as file:
        file.write(f'{{"key": "b", "outcome": {outcome}}}\n{{"key": "a", "key": 5, "outcome": {{}}}}\n')
    assert list(read_outcomes(tmp_path)) == ["a", "b"]


def test_fresh_forgets_what_is_there(tmp_path):
    fill(tmp_path, "a")
    with Store(tmp_path, fresh=True) as store:
        assert not store.outcomes
    assert not read_outcomes(tmp_path)


def test_another_file_of_that_name_is_not_touched(tmp_path):
    (tmp_path / NAME).write_text("something else\n")
    with pytest.raises(ConfigError, match=r"runs\.jsonl:1: not a result of a study; use another directory"):
        Store(tmp_path)
    assert (tmp_path / NAME).read_text() == "something else\n"


def test_a_link_or_a_pipe_of_that_name_is_not_used(tmp_path):
    fill(tmp_path / "other", "a")
    (tmp_path / NAME).symlink_to(tmp_path / "other" / NAME)
    wrong = r"runs\.jsonl: results cannot be written through a link or a pipe; use another directory"
    for use in (Store, read_outcomes):
        with pytest.raises(ConfigError, match=wrong):
            use(tmp_path)
    (tmp_path / NAME).unlink()
    os.mkfifo(tmp_path / NAME)
    for use in (Store, read_outcomes):
        with pytest.raises(ConfigError, match=wrong):
            use(tmp_path)


def test_two_studies_do_not_write_into_one_folder_at_a_time(tmp_path):
    with Store(tmp_path), pytest.raises(ConfigError, match="this directory is in use by another study"):
        Store(tmp_path)
    Store(tmp_path).__exit__(None, None, None)


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"File exists|Not a directory"):
        Store(tmp_path / "file")


def test_where_nothing_is_there_is_nothing(tmp_path):
    assert read_outcomes(tmp_path / "no" / "folder") == {}
