"""Computing that was recorded once is charged the same to the bit, however the run is simulated."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from xsim_py import simulate
from xsim_py.cli import main
from xsim_py.errors import ConfigError
from xsim_py.process.ranks.stretches import StretchTimes, classes, write
from xsim_py.study import load_study, plan_runs

PROGRAM = """\
from mpi4py import MPI
comm = MPI.COMM_WORLD
for step in range(3):
    sum(range(100_000 * (1 + 3 * (comm.rank == 0))))
    comm.Barrier()
print(f"{MPI.Wtime():.9f}")
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("prog.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


def run(ranks: int = 4, **options: Any) -> Any:
    return simulate("prog.py", ranks=ranks, **options)


def test_what_is_recorded_is_charged_each_time(there: Path) -> None:
    measured = run(compute="record=times.yaml")
    assert any("measured" in warning for warning in measured.warnings)
    stretches = yaml.safe_load(Path("times.yaml").read_text(encoding="utf-8"))["stretches"]
    rows = {(each["from"], each["to"], each["ranks"]): each for each in stretches}
    loop = {ranks: each for (*ends, ranks), each in rows.items() if ends == ["prog.py:5", "prog.py:5"]}
    assert sum(each["repetitions"] for each in loop.values()) == 8  # of 4 ranks, two each
    root, other = (next(each for ranks, each in loop.items() if word in ranks) for word in ("0", "3"))
    assert 2 < float(root["time"][:-2]) / float(other["time"][:-2]) < 8
    runs = [run(compute="times.yaml", **how) for how in ({}, {"shards": 2}, {"shards": 3}, {"isolation": "process:2"})]
    assert len({each.digest for each in runs}) == 1
    assert not runs[0].warnings
    assert runs[0].virtual_time_s == pytest.approx(measured.virtual_time_s, rel=0.5)
    assert runs[0].config_hash != measured.config_hash


def times(rows: str, ranks: int = 2) -> None:
    Path("times.yaml").write_text(f"ranks: {ranks}\nstretches:\n{rows}", encoding="utf-8")


BARRIERS = """\
- {from: start, to: "prog.py:5", ranks: 0-1, time: 10ms}
- {from: "prog.py:5", to: "prog.py:5", ranks: 0, time: 30ms}
- {from: "prog.py:5", to: "prog.py:5", ranks: 1, time: 20ms}
- {from: "prog.py:5", to: "prog.py:6", ranks: 0-1, time: 0s}
- {from: "prog.py:6", to: "prog.py:6", ranks: 0-1, time: 0s}
- {from: "prog.py:6", to: "end", ranks: 0-1, time: 1ms}
"""


@pytest.mark.parametrize(("speed", "seconds"), [(1, 0.071), (2, 0.0355)])
def test_the_slowest_rank_of_each_class_decides_and_speed_divides(there: Path, speed: float, seconds: float) -> None:
    times(BARRIERS)
    free = run(2).virtual_time_s
    result = run(2, compute="times.yaml", set={"compute.speed": speed})
    assert result.virtual_time_s == pytest.approx(
        free + seconds, abs=1e-4
    )  # who comes late may find the others' messages
    assert (
        result.virtual_time_s
        == run(2, set={"compute.speed": speed, "compute.times": str(there / "times.yaml")}).virtual_time_s
    )


def test_a_stretch_that_the_file_does_not_know_is_told_once(there: Path) -> None:
    times(BARRIERS.replace("start", "begin"))
    result = run(2, compute=Path("times.yaml"))
    assert result.virtual_time_s == pytest.approx(run(2).virtual_time_s + 0.061, abs=1e-4)
    assert result.warnings == ["computation missing from the file of times took no time: start to prog.py:5"]


def test_other_numbers_of_ranks_are_told_and_go_by_place(there: Path) -> None:
    times("- {from: a, to: b, ranks: 0, time: 1ps}\n- {from: a, to: b, ranks: 1-6, time: 2ps}\n"
          "- {from: a, to: b, ranks: 7, time: 3ps}\n", ranks=8)  # fmt: skip
    for ranks in (3, 8, 20):
        charged = StretchTimes(Path("times.yaml"), ranks)
        assert [charged.of(rank, ("a", "b")) for rank in range(ranks)] == [1, *[2] * (ranks - 2), 3]
        assert bool(charged.complaints) == (ranks != 8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ranks: 2\n", "times.yaml:1:1: stretches: missing"),
        ("ranks: 2\nstretches:\n- {from: a, to: b, ranks: 3-1, time: 1s}", "times.yaml:3:27: stretches[0].ranks"),
        ("ranks: 2\nstretches:\n- {from: a, to: b, ranks: 0, time: soon}", "times.yaml:3:36: stretches[0].time"),
        ("ranks: 2\nstretches:\n" + "- {from: a, to: b, ranks: 0, time: 1s}\n" * 2, "times.yaml:4:3: stretches[1]"),
    ],
)
def test_what_is_wrong_in_a_file_has_its_place(there: Path, text: str, said: str) -> None:
    Path("times.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        run(compute="times.yaml")
    assert said in str(caught.value)


MEDIANS = st.dictionaries(st.integers(0, 20), st.integers(0, 10**9), min_size=1, max_size=12)


@given(MEDIANS)
def test_a_class_holds_ranks_that_take_about_as_long_and_the_file_says_so(medians: dict[int, int]) -> None:
    found = list(classes({rank: array("q", [took_ns]) for rank, took_ns in medians.items()}))
    assert sorted(rank for ranks, _ in found for rank in ranks) == sorted(medians)
    for ranks, _ in found:
        least = min(medians[rank] for rank in ranks)
        assert all(medians[rank] <= max(1.25 * least, least + 5_000) for rank in ranks)


@given(MEDIANS)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, medians: dict[int, int]) -> None:
    path = tmp_path_factory.getbasetemp() / "written.yaml"
    recorded = {(rank, "a b.py:3", "end"): array("q", [took_ns]) for rank, took_ns in medians.items()}
    write(path, recorded, ranks=21, program='a "b".py', version="1")
    charged = StretchTimes(path, 21)
    for rank, took_ns in medians.items():
        charged_ns = charged.of(rank, ("a b.py:3", "end")) / 1000
        assert charged_ns == pytest.approx(took_ns, rel=0.26, abs=5_000)
    assert not charged.unknown


def test_a_study_charges_from_a_file_beside_it_and_records_none(there: Path) -> None:
    times(BARRIERS)
    study: dict[str, Any] = {"program": "prog.py", "ranks": 2, "compute": "times.yaml", "sweep": {"seed": [0, 1]}}
    first, *others = plan_runs(load_study(study))
    assert first.arguments["compute"] == str(there / "times.yaml")
    times(BARRIERS.replace("10ms", "11ms"))
    assert plan_runs(load_study(study))[0].key != first.key != others[0].key
    for compute, said in (("record=x.yaml", "a study cannot record"), ("lost.yaml", "cannot find the file")):
        with pytest.raises(ConfigError, match=said):
            plan_runs(load_study({**study, "compute": compute}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--compute record=prog.py", "--compute prog.py: this is the program, which would be overwritten"),
        ("--compute record=lost/x.yaml", "lost/x.yaml: no such directory; create it or choose another"),
        ("--compute times.yaml --json times.yaml", "this is what computing costs, which would be overwritten"),
        ("--compute record=", "missing file name in 'record='"),
        ("--compute lost.yaml", "expected none, measured, record=FILE or the name of a file, got 'lost.yaml'"),
    ],
)
def test_files_that_cannot_be_are_refused_before_the_run(
    there: Path, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    times(BARRIERS)
    assert main(["run", "-n", "2", *words.split(), "prog.py"]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err.replace(f"{there}/", "")) == ("", True), err
