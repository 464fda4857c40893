import io
import json
from types import SimpleNamespace

import pytest

from tests.cli.helpers import FakeSimulator
from tests.report.helpers import SUMMARY, make_result
from xsim_py import __version__
from xsim_py.cli import main
from xsim_py.cli.run import print_failures
from xsim_py.errors import ConfigError, OptionProblem
from xsim_py.report import Result


def test_passes_on_every_option(simulator: FakeSimulator):
    words = "-n 8 --machine my.yaml --seed 5 --shards 3 --wall-limit 2min --set a.b=1=2 --set c=5us --label"
    assert main(["run", *words.split(), "--compute", "measured", "prog.py", "--its", "args"]) == 0
    (call,) = simulator.calls
    assert (call.program, call.kind, call.args) == ("prog.py", "script", ["--its", "args"])
    assert (call.ranks, call.machine, call.seed, call.shards) == (8, "my.yaml", 5, 3)
    assert (call.wall_limit, call.set) == (120.0, {"a.b": "1=2", "c": "5us"})
    assert (call.label, call.compute, call.progress) == (True, "measured", None)


def test_has_defaults_for_all_but_the_ranks(simulator: FakeSimulator):
    assert main(["run", "-n", "1", "-c", "pass"]) == 0
    (call,) = simulator.calls
    assert (call.program, call.kind, call.args) == ("pass", "code", [])
    assert (call.machine, call.seed, call.shards) == ("gige", 0, 1)
    assert (call.wall_limit, call.set, call.label, call.compute) == (None, {}, False, None)
    assert (call.fail, call.ft, call.restart) == ([], None, None)


@pytest.mark.parametrize("command", ["run -n 4", "compare --machines gige -n 4"])
def test_passes_on_what_is_said_of_failures(simulator: FakeSimulator, command: str):
    words = ["--fail", "rank=1@1ms", "--fail", "rank=2 before its 2nd Send", "--restart", "on-abort,max=3", "--no-ft"]
    assert main([*command.split(), *words, "prog.py", "--fail", "x"]) == 0
    (call,) = simulator.calls
    assert call.fail == ["rank=1@1ms", "rank=2 before its 2nd Send"]
    assert (call.ft, call.restart, call.args) == (False, "on-abort,max=3", ["--fail", "x"])
    assert main([*command.split(), "--ft", "prog.py"]) == 0
    assert (simulator.calls[1].fail, simulator.calls[1].ft) == ([], True)


@pytest.mark.parametrize("command", ["run -n 4", "compare --machines gige -n 4"])
def test_passes_on_all_that_is_said_of_collectives(simulator: FakeSimulator, command: str):
    words = ["--set", "mpi.ftco.radix=3", "--collectives", "ftco", "--collectives", "arrays"]
    assert main([*command.split(), *words, "prog.py"]) == 0
    (call,) = simulator.calls
    assert (call.collectives, call.set) == (["ftco", "arrays"], {"mpi.ftco.radix": "3"})


def test_begins_with_what_repeats_the_run_and_ends_with_what_came_of_it(simulator: FakeSimulator, capsys):
    main(["run", "-n", "1024", "--seed", "7", "prog.py"])
    out, err = capsys.readouterr()
    assert out == "from the program\n"
    assert err.splitlines() == [
        "xsim: version 0.1.0, seed 7, config 0123456789ab, 1,024 ranks on gige: 1,024 nodes",
        (
            "xsim: finished: virtual time 34.914 us (min 1.5 us, mean 12.8 us), "
            "12,345 events, 4,096 messages, digest feedface"
        ),
    ]


def test_quiet_leaves_only_what_went_wrong(simulator: FakeSimulator, capsys):
    simulator.result = make_result(ended="stalled", warnings=["one message was never received"], report="rank 0 waits")
    assert main(["run", "-n", "2", "--quiet", "prog.py"]) == 3
    assert capsys.readouterr().err.splitlines() == ["xsim: warning: one message was never received", "rank 0 waits"]


@pytest.mark.parametrize(
    ("ended", "status", "expected"),
    [("finished", 9, 9), ("aborted", 5, 5), ("wall limit", 0, 4), ("interrupted", 0, 130)],
)
def test_exit_status(simulator: FakeSimulator, ended: str, status: int, expected: int):
    simulator.result = make_result(ended=ended, exit_status=status)
    assert main(["run", "-n", "2", "prog.py"]) == expected


def test_json_to_a_file_is_the_summary(simulator: FakeSimulator, tmp_path):
    main(["run", "-n", "2", "--json", str(tmp_path / "r.json"), "prog.py"])
    written = json.loads((tmp_path / "r.json").read_text())
    assert {name: written[name] for name in SUMMARY} == SUMMARY
    assert "tables" not in written


def test_json_to_standard_output_stands_there_alone(simulator: FakeSimulator, capsys):
    main(["run", "-n", "2", "--json", "-", "prog.py"])
    out, err = capsys.readouterr()
    assert json.loads(out)["digest"] == "feedface"
    assert "from the program" in err


def test_out_takes_the_tables(simulator: FakeSimulator, tmp_path):
    main(["run", "-n", "2", "--out", str(tmp_path / "new" / "folder"), "prog.py"])
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == ["collectives.csv", "ranks.csv", "result.json"]
    assert Result.load(folder / "result.json").tables == simulator.result.tables


@pytest.mark.parametrize(
    ("view", "why"),
    [("time=5s:6s", "a timeline from 5 s on is empty"), ("ranks=9", "a timeline of rank 9: the ranks of the run are")],
)
def test_what_cannot_be_drawn_takes_nothing_else_along(tmp_path, monkeypatch, capsys, view: str, why: str):
    monkeypatch.chdir(tmp_path)
    words = f"run -n 2 --quiet --timeline t.png --view {view} --waits w.csv --pairs p.png --report r.html --json -"
    assert main([*words.split(), "-c", "from mpi4py import MPI; MPI.COMM_WORLD.bcast(1)"]) == 2
    out, err = capsys.readouterr()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png", "r.html", "w.csv"]
    assert json.loads(out)["ended"] == "finished"
    assert f"--timeline: {why}" in err


def test_the_files_of_a_run_are_named_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = ["--waits", "w.csv", "--trace", "t.json", "--out", "all", "--timeline", "-"]
    main(["run", "-n", "2", *files, "-c", "from mpi4py import MPI; MPI.COMM_WORLD.bcast(1)"])
    assert capsys.readouterr().err.splitlines()[-1] == "xsim: wrote all/, t.json and w.csv"
    assert {path.name for path in tmp_path.iterdir()} == {"all", "t.json", "w.csv"}


def test_quiet_runs_and_runs_without_files_name_none(simulator: FakeSimulator, tmp_path, capsys):
    main(["run", "-n", "2", "--quiet", "--json", str(tmp_path / "r.json"), "prog.py"])
    main(["run", "-n", "2", "prog.py"])
    assert "wrote" not in capsys.readouterr().err


def test_only_the_process_that_is_told_of_the_start_reports(simulator: FakeSimulator, capsys, tmp_path):
    simulator.first_process = False
    assert main(["run", "-n", "2", "--json", str(tmp_path / "r.json"), "prog.py"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("run prog.py", "the following arguments are required: -n/-np/--ranks\n"),
        ("run prog.py --n -n 2", "-n/-np/--ranks; move -n before prog.py: options after the program are passed to it"),
        ("check -m mod --ranks=2", "move --ranks=2 before -m mod: options after the program are passed to it"),
        ("explore failures prog.py -n 2", "move -n before prog.py: options after the program are passed to it"),
        (
            "run -n 2 --collectives ftcoo prog.py",
            "expected tuned, ftco, messages, arrays or auto, got 'ftcoo'",
        ),
        ("run -n 0 prog.py", "argument -n/-np/--ranks: 0 is out of range (at least 1)"),
        ("run -n two prog.py", "expected an integer, got 'two'"),
        ("run -n 2", "run: no program; name a file, -m MODULE or -c CODE (see xsim run --help)"),
        ("run -n 2 -m", "-m needs a module"),
        ("run -n 2 --shards 0 prog.py", "argument --shards: 0 is out of range (at least 1)"),
        ("run -n 2 --wall-limit 3kg prog.py", "argument --wall-limit: unknown unit in '3kg'"),
        ("run -n 2 --wall-limit -3 prog.py", "--wall-limit"),
        ("run -n 2 --set latency prog.py", "expected path=value, got 'latency'"),
        ("run -n 2 --sed 3 prog.py", "unrecognized arguments: --sed\nxsim: try: xsim run --help"),
        ("run -n 2 --compute all prog.py", "argument --compute: expected none, measured, record=FILE or the name of"),
        ("run -n 2 --json no/such/folder/r.json prog.py", "no such directory; create it or choose another"),
        ("run -n 2 --out pyproject.toml prog.py", "--out pyproject.toml: File exists"),
        ("walk", "invalid choice: 'walk'"),
    ],
)
def test_bad_input_is_a_message_and_status_2(simulator: FakeSimulator, capsys, line: str, complaint: str):
    assert main(line.split()) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert all(said.startswith("xsim: ") for said in err.splitlines())
    assert not simulator.calls


@pytest.mark.parametrize("command", ["run", "check", "compare --machines gige"])
def test_an_option_of_which_the_simulator_says_what_is_wrong_has_its_dashes(simulator: FakeSimulator, capsys, command):
    simulator.raises = ConfigError(OptionProblem("clock_from", "nosuch: cannot be read"), "my.yaml:3:1: latency: wrong")
    assert main([*command.split(), "-n", "2", "prog.py"]) == 2
    said = ["xsim: --clock-from: nosuch: cannot be read", "xsim: my.yaml:3:1: latency: wrong"]
    assert capsys.readouterr().err.splitlines()[-2:] == said


def test_what_the_simulator_cannot_use_is_bad_input_too(simulator: FakeSimulator, capsys):
    simulator.raises = ConfigError("my.yaml:3:1: latency: is negative\nmy.yaml:4:1: nodes: is missing")
    assert main(["run", "-n", "2", "prog.py"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "xsim: my.yaml:3:1: latency: is negative",
        "xsim: my.yaml:4:1: nodes: is missing",
    ]


def test_interrupt_is_130(simulator: FakeSimulator):
    simulator.raises = KeyboardInterrupt()
    assert main(["run", "-n", "2", "prog.py"]) == 130


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"xsim_py {__version__}\n"


def test_help_after_the_program_is_the_programs(simulator: FakeSimulator):
    assert main(["run", "-n", "2", "prog.py", "--help"]) == 0
    assert simulator.calls[0].args == ["--help"]


def test_shows_and_removes_a_live_line_on_a_terminal(simulator: FakeSimulator, monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("sys.stdout", screen)
    main(["run", "-n", "2", "prog.py"])
    assert "of 1,024 ranks finished\r\x1b[Kfrom the program\nxsim: finished" in screen.getvalue()


def test_the_failure_that_has_ended_the_job_is_in_the_report_only() -> None:
    failures = [
        {"rank": rank, "time_s": 0.0, "time_exact_s": "0.000000000005", "cause": "ValueError: bad"} for rank in (1, 2)
    ]
    printed = io.StringIO()
    report = "rank 1 ended the job at 5 ps: ValueError: bad\n    prog.py:3 in <module>"
    print_failures(SimpleNamespace(failures=failures, tables={}, report=report), printed)
    assert printed.getvalue() == "xsim: rank 2 failed at 5 ps: ValueError: bad\n"


def test_ranks_that_fail_together_are_one_line() -> None:
    together = [(0, 5, "injected: node=1@1ms"), *((rank, 7, "drawn: cabinet 0") for rank in (1, 2, 3, 6))]
    apart = [(rank, 10 + rank, "killed by SIGKILL") for rank in range(10, 19)]
    failures = [
        {"rank": rank, "time_s": time_ps / 1e12, "time_exact_s": f"0.{time_ps:012}", "cause": cause}
        for rank, time_ps, cause in [*together, *apart]
    ]
    printed = io.StringIO()
    print_failures(SimpleNamespace(failures=failures, tables={}, report=""), printed)
    lines = printed.getvalue().splitlines()
    assert lines[:2] == [
        "xsim: rank 0 failed at 5 ps: injected: node=1@1ms",
        "xsim: ranks 1-3, 6 failed at 7 ps: drawn: cabinet 0",
    ]
    assert lines[-1] == "xsim: ... and 3 more failures"
