import copy
import csv
import io
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest

from xsim_py.errors import InternalError
from xsim_py.report import Table


def test_prints_aligned_with_units_and_numbers_on_the_right():
    table = Table(
        "pairs",
        {"name": ["a", "long name"], "size": [8, 1048576], "time_s": [0.5, None], "ok": ["yes", "no"]},
        {"size": "B", "time_s": "s"},
    )
    assert str(table).splitlines() == [
        "name        size [B]  time_s  ok",
        "---------  ---------  ------  ---",
        "a                  8     0.5  yes",
        "long name  1,048,576          no",
    ]


def test_long_table_shows_both_ends():
    text = Table("ranks", {"rank": list(range(100_000))}).to_text(max_rows=5).splitlines()
    assert text == ["  rank", "------", "     0", "     1", "     2", "... 99,995 more rows ...", "99,998", "99,999"]


def test_a_table_of_exactly_the_limit_is_whole():
    assert "more rows" not in Table("ranks", {"rank": list(range(20))}).to_text()
    assert "more rows" not in Table("ranks", {"rank": list(range(99))}).to_text(max_rows=None)


def test_empty_table_prints_its_headings():
    assert str(Table("collectives", {"name": [], "calls": []})).splitlines() == ["name  calls", "----  -----"]


def test_html_escapes_and_shortens():
    html = Table("a<b", {"name": ["<script>"] * 100})._repr_html_()
    assert "<script>" not in html
    assert "a&lt;b" in html
    assert "80 more rows" in html
    assert html.count("<tr>") == 22


def test_csv_reads_back_exactly():
    cells = {"rank": [0, 1], "finish_s": [0.1 + 0.2, 1e-12], "note": ['comma, "quote"\nline', "ü"]}
    file = io.StringIO()
    Table("ranks", cells, {"finish_s": "s"}).to_csv(file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert [float(row["finish_s"]) for row in rows] == cells["finish_s"]
    assert [row["note"] for row in rows] == cells["note"]


def test_columns_of_whole_picoseconds_are_seconds_that_csv_and_json_have_to_the_last_digit():
    times_ps = [9_000_000_040_000_040, None, 5, 2 * 10**12]
    table = Table("ranks", {"rank": [0, 1, 2, 3], "end_s": times_ps}, exact=["end_s"])
    assert (table["end_s"], table.headings()) == ([9000.00004000004, None, 5e-12, 2.0], ["rank", "end_s"])
    file = io.StringIO()
    table.to_csv(file)
    digits = ["9000.00004000004", "", "0.000000000005", "2.0"]
    assert file.getvalue().splitlines()[1:] == [f"{rank},{text}" for rank, text in enumerate(digits)]
    again = Table.from_dict("ranks", json.loads(json.dumps(table.to_dict())))
    assert (again, again.picoseconds) == (table, {"end_s": times_ps})


def test_csv_to_a_path(tmp_path):
    Table("t", {"size": [1]}, {"size": "B"}).to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b"size [B]\n1\n"


def test_numpy_columns_become_plain_numbers():
    table = Table("t", {"n": np.arange(3), "x": np.array([0.5, 1.0, 1.5])})
    assert json.loads(json.dumps(table.to_dict())) == {"units": {}, "columns": {"n": [0, 1, 2], "x": [0.5, 1.0, 1.5]}}


def test_refuses_what_is_not_a_table():
    with pytest.raises(InternalError, match="differ in length"):
        Table("t", {"a": [1], "b": [1, 2]})
    with pytest.raises(InternalError, match="does not have"):
        Table("t", {"a": [1]}, {"b": "s"})


def test_columns_that_are_made_when_somebody_looks():
    made = []

    def make():
        made.append(1)
        return {"rank": np.arange(2), "time": [1, 2]}

    table = Table("ranks", make, {"time": "s"})
    assert not made
    assert table.to_dict() == {"units": {"time": "s"}, "columns": {"rank": [0, 1], "time": [1, 2]}}
    assert len(table) == 2
    assert made == [1]


def test_a_table_is_a_dict_of_its_columns_as_pandas_wants_it():
    made = []

    def columns():
        made.append(True)
        return {"a b": [1, 2, 3], "c": ["x", None, "z"]}

    table = Table("any", columns)
    assert isinstance(table, dict)
    assert not made
    # What `pandas.DataFrame` does with a dict (pandas 3.1, core/internals/construction.py, dict_to_mgr).
    assert {name: table[name] for name in list(table.keys())} == columns()
    assert dict(table) == {**table} == dict(table.items()) == columns()
    assert list(table) == ["a b", "c"]
    assert list(table.values()) == [table["a b"], table.get("c")]
    assert "c" in table
    assert "d" not in table
    assert len(table) == 3
    assert pickle.loads(pickle.dumps(table)) == copy.deepcopy(table) == table
    with pytest.raises(TypeError, match="cannot be changed"):
        table["d"] = [1, 2, 3]


def test_an_empty_table_keeps_its_columns():
    assert dict(Table("any", {"a": [], "b": []})) == {"a": [], "b": []}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"units": {"stray": "B"}}, "table 'ranks': it has units for columns that it does not have"),
        ({"columns": {"rank": [0, 1], "size": [1]}}, "table 'ranks': its columns differ in length"),
        ({"columns": {"rank": [0, "1"]}}, "column 'rank' of table 'ranks' contains number and str"),
        ({"columns": {"rank": [[0]]}}, "column 'rank' of table 'ranks' contains list"),
    ],
)
def test_a_damaged_table_is_no_table(damage: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Table.from_dict("ranks", {"columns": {"rank": [0, 1], "name": ["a", None]}, "units": {}} | damage)


def test_no_cell_of_a_csv_file_is_a_formula() -> None:
    texts = ["=1+cmd|'/C calc'!A0", "+1", "@SUM(A1)", "\t=1", "-n 3", "a=b", ""]
    target = io.StringIO()
    Table("captured", {"value": texts, "number": [-1, +2, 0.5, None, 1, 2, 3]}).to_csv(target)
    rows = list(csv.DictReader(io.StringIO(target.getvalue())))
    assert [row["value"] for row in rows] == [*(f"'{text}" for text in texts[:4]), *texts[4:]]
    assert [row["number"] for row in rows] == ["-1", "2", "0.5", "", "1", "2", "3"]
