"""Where results go is looked at before the run."""

from pathlib import Path

import pytest

from tests.cli.helpers import FakeSimulator
from tests.report.helpers import make_result
from xsim_py.cli import main
from xsim_py.report.table import every_table
from xsim_py.run import simulate


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text("print()")
    (tmp_path / "m.yaml").write_text("network: {latency: 1us, bandwidth: 1GB/s}\n")
    (tmp_path / "log.csv").write_text("time,rank\n1ms,0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run -n 1 --json p.py p.py", "--json p.py: this is the program"),
        ("run -n 1 --trace p.py -m p", "--trace p.py: this is the program"),
        ("run -n 1 --json m.yaml --machine m.yaml p.py", "--json m.yaml: this is the machine"),
        ("run -n 1 --json log.csv --fail trace=log.csv p.py", "--json log.csv: this is what fails"),
        (f"run -n 1 --json {'f' * 300} p.py", f"--json {'f' * 300}: File name too long"),
        (f"run -n 1 --timeline {'f' * 300}.png p.py", f"--timeline {'f' * 300}.png: File name too long"),
        ("run -n 1 --json f --trace ./f p.py", "--json f: --trace ./f is the same file"),
        ("run -n 1 --json o/result.json --out o p.py", "--out o (result.json): --json o/result.json is the same file"),
        ("run -n 1 --json pairs.csv --out . p.py", "--out . (pairs.csv): --json pairs.csv is the same file"),
        ("compare-recovery -n 4 --json m.yaml --machine m.yaml p.py", "--json m.yaml: this is the machine"),
        ("compare-recovery -n 4 --json recovery.json --out . p.py", "--out . (recovery.json): --json recovery.json is"),
        ("compare --machines m.yaml -n 1 --out . m-1.txt", "--out . (m-1.txt): this is the program"),
        ("failures -n 1 --json m.yaml --machine m.yaml", "--json m.yaml: this is the machine"),
        ("run -n 1 --json p.py/x p.py", "--json p.py/x: no such directory; create it or choose another"),
        (f"run -n 1 --out {'x' * 300} p.py", f"--out {'x' * 300}: File name too long"),
        ("run -n 1 --json /dev/fd/999 p.py", "--json /dev/fd/999: Bad file descriptor"),
        ("run -n 1 --out p.py p.py", "--out p.py: File exists"),
        ("ftco --nodes 4 --json f --csv f", "--csv f: --json f is the same file"),
    ],
)
def test_an_output_that_is_an_input_or_another_output_or_no_name_of_a_file_is_refused(
    line: str, said: str, simulator: FakeSimulator, capsys: pytest.CaptureFixture[str], here: Path
):
    (here / "m-1.txt").symlink_to("p.py")
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert main(line.split()) == 2
    assert capsys.readouterr().err.startswith(f"xsim: {said}")
    assert simulator.calls == []
    assert {path: path.read_bytes() for path in here.iterdir()} == before


@pytest.mark.parametrize("option", ["--json", "--trace"])
def test_a_file_that_cannot_be_replaced_is_status_74_before_the_run(
    option: str, simulator: FakeSimulator, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", "-n", "1", option, "/proc/self/comm", "p.py"]) == 74
    assert capsys.readouterr().err == f"xsim: {option} /proc/self/comm: No such file or directory\n"
    assert simulator.calls == []


def test_results_replace_links_in_their_folder_and_follow_those_that_were_named(simulator: FakeSimulator, here: Path):
    (here / "precious").write_text("of the user")
    (here / "o").mkdir()
    for name in ("result.json", *(f"{table}.csv" for table in make_result().tables)):
        (here / "o" / name).symlink_to("../precious")
    (here / "link").symlink_to("target")
    assert main(["run", "-n", "1", "--quiet", "--out", "o", "--json", "link", "p.py"]) == 0
    assert (here / "precious").read_text() == "of the user"
    assert not any(path.is_symlink() for path in (here / "o").iterdir())
    assert (here / "link").is_symlink()
    assert (here / "target").read_text().startswith("{")


def test_every_table_of_a_run_is_known():
    assert set(simulate("", kind="code", ranks=1, profile=True).tables) <= set(every_table())
