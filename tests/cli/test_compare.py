import csv

from tests.cli.helpers import FakeSimulator
from tests.report.helpers import make_result
from xsim_py.cli import main
from xsim_py.report import Result


def test_runs_every_machine_with_every_number_of_ranks(simulator: FakeSimulator, capsys):
    assert main(["compare", "--machines", "gige,my/own.yaml", "-n", "16,4", "prog.py", "-n", "3"]) == 0
    told = [(call.machine, call.ranks) for call in simulator.calls]
    assert told == [("gige", 4), ("my/own.yaml", 4), ("gige", 16), ("my/own.yaml", 16)]
    assert all(call.args == ["-n", "3"] for call in simulator.calls)
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [
        ["4", "gige"],
        ["4", "own"],
        ["16", "gige"],
        ["16", "own"],
    ]
    assert "xsim: own, 16 ranks: finished, virtual time 34.914 us" in err


def test_a_machine_has_the_name_that_its_description_gives(simulator: FakeSimulator, tmp_path, capsys):
    (tmp_path / "ib.yaml").write_text("name: ibcluster\n")
    folder = tmp_path / "out"
    words = ["compare", "--machines", f"gige,{tmp_path}/ib.yaml", "-n", "4", "--out", str(folder), "prog.py"]
    assert main(words) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[2:]] == ["gige", "ibcluster"]
    assert (folder / "ibcluster-4.json").exists()


def test_machines_with_files_of_one_name_keep_their_folders(simulator: FakeSimulator, capsys):
    assert main(["compare", "--machines", "a/net.yaml,b/net.yaml", "-n", "4", "prog.py"]) == 0
    assert "a-net.yaml" in capsys.readouterr().out


def test_writes_table_picture_results_and_output(simulator: FakeSimulator, tmp_path):
    main(["compare", "--machines", "gige,shmem", "-n", "4", "--out", str(tmp_path), "prog.py"])
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"comparison.csv", "comparison.png"} | {
        f"{m}-4.{e}" for m in ("gige", "shmem") for e in ("json", "txt")
    }
    with open(tmp_path / "comparison.csv") as file:
        assert [row["machine"] for row in csv.DictReader(file)] == ["gige", "shmem"]
    assert Result.load(tmp_path / "gige-4.json").digest == "feedface"
    assert (tmp_path / "shmem-4.txt").read_text() == "from the program\n"


def test_status_is_that_of_the_first_run_that_failed(simulator: FakeSimulator, capsys):
    simulator.result = make_result(ended="stalled", report="rank 0 waits")
    assert main(["compare", "--machines", "gige", "-n", "4", "prog.py"]) == 3
    assert "rank 0 waits" in capsys.readouterr().err


def test_interrupt_ends_the_whole_comparison(simulator: FakeSimulator):
    simulator.result = make_result(ended="interrupted", exit_status=130)
    assert main(["compare", "--machines", "gige,shmem", "-n", "4", "prog.py"]) == 130
    assert len(simulator.calls) == 1


def test_bad_lists_are_bad_input(simulator: FakeSimulator, capsys):
    assert main(["compare", "--machines", "gige,,shmem", "-n", "4", "prog.py"]) == 2
    assert main(["compare", "--machines", "gige", "-n", "4,x", "prog.py"]) == 2
    assert capsys.readouterr().err.count("xsim: ") == 4


def test_what_is_wrong_for_one_machine_is_told_before_any_runs(tmp_path, capsys):
    (tmp_path / "ran.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    words = ["--machines", "gige,shmem", "-n", "2", "--set", "network.latency=1us", "--out", str(tmp_path / "out")]
    assert main(["compare", *words, str(tmp_path / "ran.py")]) == 2
    assert "xsim: shmem, 2 ranks: --set network.latency=1us: network: a single node has no" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
