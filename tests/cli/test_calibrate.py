"""``xsim calibrate``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calibrate.helpers import DATA, table
from xsim_py.cli import main
from xsim_py.config import load_machine

LATENCY = str(DATA / "azure-osu_latency.txt")
BARRIER = str(DATA / "fram-osu_barrier-512.txt")


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_from_osu_to_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", LATENCY, "--out", "cluster.yaml", "--draw", "fit.png", "--source", "a cloud"]) == 0
    printed = capsys.readouterr()
    assert "network: 24 sizes, 7 segments; error of the fit: mean 0.14 %" in printed.out
    assert "no measurement above 4,194,304 B; these times are extrapolated" in printed.err
    assert Path("fit.png").read_bytes().startswith(b"\x89PNG")
    assert main(["models", "check", "cluster.yaml", "-n", "4"]) == 0
    capsys.readouterr()
    assert main(["models", "times", "cluster.yaml", "--bytes", "0,4KiB,4MiB"]) == 0
    times = [float(row["seconds"]) for row in table(capsys.readouterr().out)]
    assert times == pytest.approx([1.61e-6, 3.55e-6, 179.11e-6], rel=0.01)
    assert load_machine("cluster.yaml").source == "a cloud"


def test_both_layers(capsys: pytest.CaptureFixture[str]) -> None:
    words = [LATENCY, "--same-node", LATENCY, "--eager-threshold", "8KiB", "--same-node-eager-threshold", "4KiB"]
    assert main(["calibrate", *words, "-o", "-", "--like", "gige"]) == 0
    Path("made.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    spec = load_machine("made.yaml")
    assert (spec.name, spec.network.eager_threshold_bytes, spec.same_node.eager_threshold_bytes) == (
        "calibrated",
        8192,
        4096,
    )


def test_judging_a_new_machine_and_one_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", LATENCY, "-o", "m.yaml", "--quiet", "--judge", LATENCY, BARRIER, "-n", "16"]) == 0
    new = capsys.readouterr().out
    assert "latency, 2 ranks: mean error 0.1 %" in new
    assert "barrier, 16 ranks: mean error" in new
    for words in (["m.yaml"], ["--machine", "m.yaml"]):
        assert main(["calibrate", *words, "--judge", LATENCY, BARRIER, "-n", "16"]) == 0
        assert capsys.readouterr().out == new


def test_what_cannot_be_judged_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.csv").write_text("op,bytes,seconds\npingpong,8,1e-4\nisend,8,1e-6\nrecv,8,1e-6\n")
    assert main(["calibrate", "--machine", "gige", "--judge", "all.csv"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "xsim: not validated: all.csv: isend, recv\n"
    assert "latency, 2 ranks: mean error" in printed.out


def test_what_does_not_fit_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.csv").write_text("op,bytes,seconds,ranks\nalltoall,8,1e-6,4\nalltoall,1073741824,1,4\n")
    assert main(["calibrate", "--machine", "gige", "--judge", "all.csv"]) == 0
    assert "all.csv: skipped sizes whose buffers exceed memory: 1 GiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "calibrate: no measurements; name files or add --probe COMMAND"),
        ([LATENCY], "calibrate: missing option: -o MACHINE.yaml, the description to write"),
        ([LATENCY, "-o", "m.yaml", "--machine", "gige"], "calibrate: --machine cannot be combined with measurements"),
        (["--machine", "gige"], "calibrate: --machine needs measurements to compare with; add --judge FILE"),
        ([LATENCY, "-o", "-", "--judge", BARRIER], "--judge cannot be combined with -o -; name a file with -o"),
        ([LATENCY, "-o", "m.yaml", "--eager-threshold", "lots"], "expected a size, got 'lots'"),
        ([LATENCY, "-o", "m.yaml", "--like", "gigee"], "did you mean gige?"),
        ([BARRIER, "-o", "m.yaml"], "network: needs one-way times (osu_latency, PingPong, pingpong), got barrier"),
        (["--machine", "gige", "--judge", BARRIER], "unknown number of ranks of barrier; add -n"),
        (["--judge", BARRIER], "calibrate: --judge needs a machine; add --machine with a preset or a file"),
        (["nowhere.txt", "-o", "m.yaml"], "nowhere.txt: No such file"),
        ([LATENCY, "-o", "nowhere/m.yaml"], "no such directory; create it or choose another"),
        (["--probe", "true", "-o", "m.csv"], "calibrate: --probe needs -o FILE.yaml"),
    ],
)
def test_what_cannot_be_done(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", *words]) == 2
    assert said in capsys.readouterr().err
    assert not Path("m.yaml").exists()


def test_a_measurement_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text("bytes,seconds\n1,1e-6\n")
    assert main(["calibrate", "a.csv", "-o", "a.csv"]) == 2
    assert "would be overwritten" in capsys.readouterr().err


OMB_PY = """
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    print("# OMB-Py MPI Latency Test\\n# Size (B)        Latency (us)")
for size in (0, 1, 16, 1024, 65536):
    start = MPI.Wtime()
    for turn in (0, 1):
        if comm.rank == turn:
            comm.Send(bytearray(size), 1 - turn)
        else:
            comm.Recv(bytearray(size), turn)
    if comm.rank == 0:
        print(f"{size:<10}{1e6 * (MPI.Wtime() - start) / 2:>18.2f}")
"""


@pytest.mark.parametrize(
    "benchmark", [["-m", "mpi4py.bench", "pingpong", "-n", "65536", "-s", "0", "-l", "1"], ["-c", OMB_PY]]
)
def test_benchmarks_on_virtual_ranks_give_the_machine_again(
    benchmark: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "-n", "2", "--machine", "gige", "--quiet", *benchmark]) == 0
    Path("bench.txt").write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["calibrate", "bench.txt", "--out", "again.yaml"]) == 0
    assert main(["models", "times", "again.yaml", "--bytes", "1,100,30000"]) == 0
    lines = capsys.readouterr().out.partition("bytes,seconds")
    times = [float(row["seconds"]) for row in table(lines[1] + lines[2])]
    assert times == pytest.approx([20e-6 + size / 125e6 for size in (1, 100, 30000)], rel=0.001)
