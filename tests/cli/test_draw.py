import csv
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import FakeSimulator
from tests.report.helpers import make_result
from xsim_py import simulate
from xsim_py.cli import main
from xsim_py.cli.options import ProgramSpec, repeated_by
from xsim_py.report.page import document


def program():
    from mpi4py import MPI

    MPI.COMM_WORLD.allreduce(1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for ranks in (1, 4, 16):
        simulate(program, ranks=ranks, trace=ranks == 4).save(folder / f"run{ranks}")
    return folder


@pytest.fixture
def saved(runs, tmp_path) -> Path:
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(autouse=True)
def _in_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_draws_one_run(saved, capsys):
    words = (
        "--timeline tl.svg --waits waits.csv --pairs pairs.csv --trace trace.json --view time=1us:30us --view size=4x3"
    )
    assert main(["draw", "run4", *words.split()]) == 0
    assert main(["draw", "run4", "--timeline", "-", "--report", "page.html"]) == 0
    assert capsys.readouterr().out.startswith("timeline of ")
    assert 'width="288pt" height="216pt"' in (saved / "tl.svg").read_text()
    assert (saved / "waits.csv").read_text() == (saved / "run4" / "waits.csv").read_text()
    assert (saved / "pairs.csv").read_text() == (saved / "run4" / "pairs.csv").read_text()
    assert json.loads((saved / "trace.json").read_text())["traceEvents"]
    assert "<title>program: 4 ranks</title>" in (saved / "page.html").read_text()


def test_speedup_and_efficiency_of_several_runs(saved, capsys):
    assert main(["draw", "run1", "run4", "run16/result.json", "--speedup", "s.png", "--efficiency", "e.csv"]) == 0
    assert (saved / "s.png").read_bytes().startswith(b"\x89PNG")
    head, *rows = csv.reader((saved / "e.csv").read_text().splitlines())
    assert head == ["line", "ranks", "efficiency"]
    assert [row[:2] for row in rows] == [["gige", "4"], ["gige", "16"]]  # alone, a rank takes no time
    assert float(rows[0][2]) == 1.0
    assert main(["draw", "run4", "run16", "--report", "page.html"]) == 0


def test_speedup_of_a_study_and_of_a_comparison(saved, capsys):
    columns = {"ranks": [1, 4], "machine": ["gige", "gige"], "runs": [1, 1], "failed": [0, 0]}
    columns |= {"virtual_time_s": [8.0, 2.5], "virtual_time_s_stderr": [None, None]}
    whole = {"study": "s", "tables": {"summary": {"units": {}, "columns": columns}}}
    (saved / "study").mkdir()
    (saved / "study" / "results.json").write_text(json.dumps(whole))
    assert main(["draw", "study", "--speedup", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["    1        1", "    4      3.2"]
    (saved / "cmp").mkdir()
    (saved / "cmp" / "comparison.csv").touch()
    for ranks in (1, 4, 16):
        make_result(ranks=ranks, virtual_time_ps=8 * 10**9 // ranks).to_json(saved / "cmp" / f"gige-{ranks}.json")
    assert main(["draw", "cmp", "--efficiency", "-", "--only", "ranks<=4"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["gige      1           1", "gige      4           1"]


def test_only_a_part_of_a_study_is_drawn(saved, capsys):
    columns = {"ranks": [1, 4] * 2, "mode": ["strong"] * 2 + ["weak"] * 2, "runs": [1] * 4, "failed": [0] * 4}
    columns |= {"virtual_time_s": [8.0, 2.5, 3.0, 3.5], "virtual_time_s_stderr": [None] * 4}
    (saved / "study").mkdir()
    whole = {"study": "s", "tables": {"summary": {"units": {}, "columns": columns}}}
    (saved / "study" / "results.json").write_text(json.dumps(whole))
    assert main(["draw", "study", "--speedup", "-", "--only", "mode=strong"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["    1        1", "    4      3.2"]
    assert main(["draw", "study", "--speedup", "-", "--only", "mod=strong"]) == 2
    assert "--only: 'mod=strong': unknown name mod; did you mean mode?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run4", "draw: nothing to draw; add one of --speedup,"),
        ("nowhere --waits -", "cannot read nowhere: No such file or directory"),
        ("empty --waits -", "empty: expected result.json, results.json or comparison.csv in this directory"),
        ("run4 run16 --waits -", "--waits: expected one run, got 2 runs"),
        ("run16 --waits -", "--waits: run16: this run was not traced; run it with xsim run --out DIR --waits FILE"),
        ("run16 --timeline -", "--timeline: run16: no trace was saved"),
        ("run4 --speedup -", "speed-up and efficiency need runs with different rank counts"),
        ("run4 run4 --speedup -", "run4: a second result of gige with 4 ranks; name one of them"),
        ("run4 --speedup - --waits -", "--waits - and --speedup -: only one option can write to standard output"),
        ("run4 --report -", "--report -: an HTML report cannot be written to standard output"),
        ("run4 --pairs x.gif", "x.gif: the name of a figure ends with"),
        ("run4/result.json --pairs run4/result.json", "run4/result.json: the name of a figure ends with"),
        ("run4 --view time=9 --waits -", "--view time=9: it is FROM:TO"),
        ("run4 --only ranks=5 --waits -", "--only: no result fulfils ranks=5"),
        ("run4 --only ranks --waits -", "--only: expected a condition, got 'ranks'"),
        ("broken --speedup -", "broken/results.json: not the results of a study"),
    ],
)
def test_says_what_cannot_be_drawn(saved, capsys, words, said):
    (saved / "empty").mkdir()
    (saved / "broken").mkdir()
    (saved / "broken" / "results.json").write_text("[]")
    assert main(["draw", *words.split()]) == 2
    assert said in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ pages


def test_a_run_is_traced_for_its_page_which_has_the_command(simulator: FakeSimulator, tmp_path, monkeypatch):
    monkeypatch.setattr(document, "_plotly_js", lambda: "/** drawing */")
    words = ["-n", "8", "--quiet", "--report", "p.html", "--json=s.json", "--seed", "5", "prog.py", "--report", "x y"]
    assert main(["run", *words]) == 0
    assert simulator.calls[0].trace
    assert "xsim run -n 8 --seed 5 prog.py --report &#x27;x y&#x27;" in (tmp_path / "p.html").read_text()


def test_a_command_is_repeated_without_what_says_where_results_go():
    own = ["-n", "4", "--out", "d", "--view", "size=1x1", "--timeline=-", "--machine", "my machine.yaml", "-j", "2"]
    line = repeated_by("run", own, ProgramSpec("code", "print('a b')", ["--quiet"]))
    assert line == "xsim run -n 4 --machine 'my machine.yaml' -c 'print('\"'\"'a b'\"'\"')' --quiet"


@pytest.mark.parametrize("command", ["run -n 1", "compare --machines gige -n 1", "compare-recovery -n 4"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("-", "--report -: an HTML report cannot be written to standard output"),
        ("page.txt", "--report page.txt: the name of an HTML report ends with .html or .htm"),
        ("no/page.html", "--report no/page.html: no such directory; create it or choose another"),
        ("folder.html", "--report folder.html: is a directory; name a file"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(
    simulator, tmp_path, capsys, command, name, said
):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "prog.py").touch()
    assert main([*command.split(), "--report", name, "prog.py"]) == 2
    assert said in capsys.readouterr().err
    assert not simulator.calls


@pytest.mark.parametrize("command", ["run -n 1", "compare --machines gige -n 1", "compare-recovery -n 4", "study"])
def test_says_how_to_install_what_a_page_needs(simulator, tmp_path, capsys, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    (tmp_path / "prog.py").touch()
    (tmp_path / "s.yaml").write_text("program: prog.py\nranks: 1\n")
    last = "s.yaml" if command == "study" else "prog.py"
    assert main([*command.split(), "--report", "page.html", last]) == 2
    said = "--report an HTML report needs plotly; install it with: pip install 'xsim-py[report]'"
    assert said in capsys.readouterr().err
    assert not simulator.calls
