"""Failures may come from a CSV file, and every bad line of it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failure.models import described, errors, model, times_s
from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.failure import FailureModel, check_failures


def written(folder: Path, text: str) -> Path:
    file = folder / "log.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_each_line_is_a_failure(tmp_path: Path) -> None:
    file = written(tmp_path, 'time, rank, cause\n5ms, 3, disk\n\n1e-3, 1,\n 2 s ,2, "a, b"\n')
    timed = model(f"trace={file}").schedule().timed
    assert timed == ((1, 10**9, "trace: log.csv:4"), (3, 5 * 10**9, "disk"), (2, 2 * 10**12, "a, b"))


def test_a_trace_may_be_of_nodes_or_of_other_components(tmp_path: Path) -> None:
    tree = [{"name": "blade", "nodes": 2}]
    for header, dead in [("time,node", [2, 3]), ("blade,time", [4, 5, 6, 7])]:
        file = written(tmp_path, f"{header}\n1,1\n")
        told = model(f"trace={file}", failures={"components": tree}, per_node=2)
        assert times_s(told) == dict.fromkeys(dead, 1)


def test_a_component_may_fail_again_after_a_restart(tmp_path: Path) -> None:
    file = written(tmp_path, "time,node\n3,1\n1,1\n2,0\n5,1\n")
    told = model(f"trace={file}")
    assert [times_s(told, start) for start in (0, 1, 2, 3, 5)] == [{1: 1, 0: 2}, {0: 2, 1: 3}, {1: 3}, {1: 5}, {}]


def test_the_failures_of_a_result_are_a_trace(tmp_path: Path) -> None:
    names = "start,rank,time_s,cause,known_by,first_known_s,last_known_s"
    file = written(tmp_path, f"{names}\n0,3,0.0012,injected: rank=3@1.2ms,7,0.0013,0.0014\n")
    assert model(f"trace={file}").schedule().timed == ((3, 1_200_000_000, "injected: rank=3@1.2ms"),)


def test_a_spreadsheet_may_have_written_it(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_bytes(b"\xef\xbb\xbftime,rank\r\n1,0\r\n")
    assert times_s(model(f"trace={file}")) == {0: 1}


def test_every_bad_line_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, "time,rank\n1ms,3\n-1ms,3\nsoon,3\n1ms\n1ms,x\n1ms,2.0\n1ms,3,oh\n")
    assert errors(f"trace={file}", "rank=1@-1s") == [
        f"{file}:3:1: -1ms is out of range: a time cannot be negative",
        f"{file}:4:1: expected a time, got 'soon'; write for example 20us, 1.5ms or 1e-6 (seconds)",
        f"{file}:5:1: expected 2 cells, as in the header, got 1",
        f"{file}:6:1: expected the number of a rank, got 'x'",
        f"{file}:7:1: expected the number of a rank, got '2.0'",
        f"{file}:8:1: expected 2 cells, as in the header, got 3",
        "--fail rank=1@-1s: -1s is out of range: a time cannot be negative",
    ]


def test_every_line_about_somebody_who_is_not_there_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, "time,rank\n1ms,3\n1ms,8\n1ms,-1\n")
    assert errors(f"trace={file}") == [
        f"{file}:3:1: rank 8 does not exist; expected 0 to 7",
        f"{file}:4:1: rank -1 does not exist; expected 0 to 7",
    ]


@pytest.mark.parametrize(
    "header", ["1ms,3", "time", "rank", "time,rank,node", "time,time_s,rank", "time,rank,cause,cause", "time,core"]
)
def test_a_header_must_say_what_the_columns_are(tmp_path: Path, header: str) -> None:
    file = written(tmp_path, f"{header}\n1ms,3\nx,y\n")
    wanted = "expected the columns time, one of machine, node, rank, and optionally cause"
    assert errors(f"trace={file}") == [f"{file}:1:1: {wanted}, got {header!r}"]


def test_what_is_no_csv_is_refused(tmp_path: Path) -> None:
    absent, file = tmp_path / "no.csv", written(tmp_path, "")
    assert errors(f"trace={absent}") == [f"{absent}: cannot read the trace: No such file or directory"]
    assert errors(f"trace={file}") == [f"{file}:1:1: the trace is empty; it needs a header"]
    file.write_bytes(b"time,rank\n\xff,1\n")
    assert "the trace is not valid CSV: 'utf-8' codec can't decode" in errors(f"trace={file}")[0]


def test_a_trace_is_a_file_of_bounded_size_and_of_its_mistakes_a_hundred_are_shown(tmp_path: Path) -> None:
    assert errors("trace=/dev/zero") == ["/dev/zero: cannot read the trace: too large (at most 16 MiB)"]
    assert errors(f"trace={'x' * 300}") == [f"{'x' * 300}: cannot read the trace: File name too long"]
    for line in ("oh,no", "1s,99999", f"1s,{'9' * 5000}"):
        file = written(tmp_path, "time,rank\n" + f"{line}\n" * 1000)
        assert 100 <= len(errors(f"trace={file}")) <= 101


def test_a_trace_lies_beside_the_description(tmp_path: Path) -> None:
    written(tmp_path, "time,rank\n1,2\n")
    file = tmp_path / "m.yaml"
    file.write_text("network: {latency: 1us}\nfailures: {trace: log.csv}\n")
    told = FailureModel(load_machine(file), ranks=4, node_of=range(4), seed=0)
    assert times_s(told) == {2: 1}


def test_a_description_can_be_checked_without_a_number_of_ranks(tmp_path: Path) -> None:
    check_failures(described({"at": ["rank=99@1s"], "draws": [{"per": "node", "mtbf": "1h"}]}))
    file = written(tmp_path, "time,rank\n1,x\n")
    with pytest.raises(ConfigError) as caught:
        check_failures(described({"trace": str(file), "at": ["rank=1"], "draws": [{"per": "nod", "mtbf": "1h"}]}))
    forms = "rank=5@1.2ms, node=3@10ms or rank=3 before its 2nd Allreduce"
    assert str(caught.value).splitlines() == [
        f"machine description: failures.at[0]: expected a failure, got 'rank=1'; write {forms}",
        "machine description: failures.draws[0].per: unknown component 'nod'; did you mean node?",
        f"{file}:2:1: expected the number of a rank, got 'x'",
    ]
