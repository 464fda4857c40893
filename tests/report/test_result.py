import io
import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.helpers import SUMMARY, make_result
from xsim_py.errors import FOUND, ConfigError, InternalError
from xsim_py.findings import CALL_ORDERING, MESSAGE_RACE, Finding
from xsim_py.report import Result


def test_every_entry_of_the_summary_is_an_attribute():
    result = make_result()
    assert {name: getattr(result, name) for name in SUMMARY} == SUMMARY == result.summary


def test_prints_what_a_person_wants_to_know():
    assert str(make_result()).splitlines() == [
        "prog.py: 1,024 ranks on gige: 1,024 nodes",
        "  virtual time  34.914 us (min 1.5 us, mean 12.8 us)",
        "  ended         finished, exit status 0",
        "  simulated     12,345 events, 4,096 messages, 1.5 MiB",
        "  host cost     0.25 s CPU, 0.5 s wall, 64 MiB memory",
        "  made by       xsim_py 0.1.0, seed 7, config 0123456789ab, shards 1",
        "  digest        feedface",
    ]
    complaining = str(make_result(warnings=["unreceived"], report="rank 0 waits\nrank 1 waits"))
    assert complaining.endswith("\nwarning: unreceived\nrank 0 waits\nrank 1 waits")


@given(st.integers(0, 10**25))
def test_virtual_time_prints_exactly_to_the_picosecond(time_ps: int):
    number, unit = make_result(virtual_time_ps=time_ps).virtual_time().split()
    assert Fraction(number) * {"s": 10**12, "ms": 10**9, "us": 10**6, "ns": 1000, "ps": 1}[unit] == time_ps


def test_notebook_view_holds_summary_findings_and_tables():
    html = make_result(warnings=["a < b"], report="rank 0 <waits>")._repr_html_()
    for part in ("34.914 us", "a &lt; b", "rank 0 &lt;waits&gt;", "ranks: 3 rows", "feedface"):
        assert part in html


def test_json_has_the_summary_on_top_and_no_tables_unless_wanted():
    file = io.StringIO()
    make_result(warnings=["w"]).to_json(file, tables=False)
    written = json.loads(file.getvalue())
    assert {name: written.pop(name) for name in SUMMARY} == SUMMARY
    assert written == {"program": "prog.py", "machine": "gige: 1,024 nodes", "warnings": ["w"], "report": ""}


@pytest.mark.parametrize("tables", [True, False])
def test_loads_what_it_wrote(tmp_path, tables: bool):
    result = make_result(warnings=["w"], report="r")
    result.to_json(tmp_path / "r.json", tables=tables)
    loaded = Result.load(tmp_path / "r.json")
    assert loaded.tables == (result.tables if tables else {})
    assert loaded.to_dict(tables=False) == result.to_dict(tables=False)


FOUND_HERE = (
    Finding(CALL_ORDERING, "a.py", 3, "Comm.Recv never completes", (0, 2), ("b.py:4: rank 1 in Comm.Barrier",)),
    Finding(MESSAGE_RACE, "a.py", 5, "a race", is_mistake=False),
)


@pytest.mark.parametrize("findings", [FOUND_HERE, FOUND_HERE[1:], ()])
def test_json_of_a_checked_run_has_its_findings(tmp_path, findings: tuple[Finding, ...]):
    result = make_result()
    result.set_findings(findings)
    result.to_json(tmp_path / "r.json", tables=False)
    loaded = Result.load(tmp_path / "r.json")
    assert loaded.findings == findings
    assert loaded.exit_status == (FOUND if findings == FOUND_HERE else 0)
    assert loaded.to_dict(tables=False) == result.to_dict(tables=False)
    assert "findings" in result.to_dict(tables=False)


def test_refuses_findings_that_are_none(tmp_path):
    whole = {**make_result().to_dict(tables=False), "findings": [{"category": "x"}]}
    (tmp_path / "r.json").write_text(json.dumps(whole))
    with pytest.raises(ConfigError, match="not a result"):
        Result.load(tmp_path / "r.json")


def test_csv_is_a_file_a_table(tmp_path):
    paths = make_result().to_csv(tmp_path / "deep" / "folder")
    assert [path.name for path in paths] == ["ranks.csv", "collectives.csv"]
    assert paths[1].read_text() == "name,calls\nBcast,3\n"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"virtual_time_s": 1}', "not json"])
def test_refuses_to_load_anything_else(tmp_path, text: str):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ConfigError, match=r"r\.json: not a result"):
        Result.load(tmp_path / "r.json")


def test_says_when_there_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="No such file or directory"):
        Result.load(tmp_path / "none.json")


def test_a_summary_has_all_its_entries_and_no_other():
    with pytest.raises(InternalError, match="digest"):
        Result({name: value for name, value in SUMMARY.items() if name != "digest"})
    with pytest.raises(InternalError, match="extra"):
        make_result(extra=1)
    with pytest.raises(InternalError, match="'exploded'"):
        make_result(ended="exploded")


def test_loads_what_was_written_before_virtual_time_was_exact(tmp_path):
    whole = make_result().to_dict()
    del whole["virtual_time_exact_s"], whole["isolation"], whole["ranks_end_s"]
    (tmp_path / "r.json").write_text(json.dumps(whole))
    loaded = Result.load(tmp_path / "r.json")
    assert (loaded.virtual_time_exact_s, loaded.isolation) == ("0.000034914", "greenlets")
    assert (loaded.ranks_end_s, loaded.times()) == ({}, "34.914 us")
