"""Judging machines: what a machine itself has printed is predicted without an error."""

from pathlib import Path

import pytest

from tests.calibrate.helpers import data
from xsim_py import simulate
from xsim_py.calibrate.benchmarks import read_osu
from xsim_py.calibrate.judge import PROGRAM, Judged, lines_of, predict, reproducible
from xsim_py.calibrate.measured import PINGPONG, SAME_NODE, Measured
from xsim_py.config.loader import bundled_apps
from xsim_py.errors import ConfigError

MACHINE = """\
topology: {type: switch}
machine: {cores_per_node: 2}
network: {latency: 1us, bandwidth: 10GB/s, send_overhead: 200ns, recv_overhead: 300ns, eager_threshold: 16KiB}
same_node: {latency: 300ns, bandwidth: 5GB/s, send_overhead: 100ns, recv_overhead: 100ns, eager_threshold: 8KiB}
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE, encoding="utf-8")
    return path


@pytest.mark.parametrize("operation", ["barrier", "allreduce", "alltoall", "bcast", "allgather"])
def test_a_machine_predicts_itself(operation: str, machine: Path, tmp_path: Path):
    printed = tmp_path / "printed"
    with printed.open("w") as file:
        words = [operation, "--repetitions", "1", *([] if operation == "barrier" else ["--sizes", "8", "65536"])]
        simulate(bundled_apps() / PROGRAM, ranks=6, machine=machine, args=words, stdout=file)
    (series,) = read_osu(printed.read_text().splitlines(), "printed")
    rows, left_out = predict(series, machine, ranks=6)
    assert [row.error for row in rows] == pytest.approx([0] * (1 if operation == "barrier" else 2))
    assert left_out == []
    assert f"{operation}, 6 ranks: mean error 0.0 %" in "\n".join(lines_of(rows))


def test_one_way_times_are_those_of_the_formula(machine: Path):
    for layer, seconds in ((None, {0: 1.5e-6, 65536: 3.5e-6 + 6.5536e-6}), (SAME_NODE, {0: 0.5e-6, 4096: 1.3192e-6})):
        rows, _ = predict(Measured(PINGPONG, seconds, "a", layer=layer), machine)
        assert [row.error for row in rows] == pytest.approx([0, 0], abs=1e-5)


def test_a_stream_is_as_fast_as_the_interface(machine: Path):
    rows, _ = predict(Measured("stream", {65536: 1e-6}, "a"), machine)
    assert rows[0].predicted_s == pytest.approx(65536 / 10e9, rel=0.02)


def test_another_cluster_of_the_kind_is_predicted():
    (series,) = data("azure2-osu_latency.txt")
    rows, _ = predict(series, "azure-hdr")
    assert sum(abs(row.error) for row in rows) / len(rows) < 0.02  # the two clusters differ by 1.4 %


def test_ranks_come_from_the_file_or_the_option(machine: Path):
    series = Measured("allreduce", {8: 1e-6}, "a", ranks=4)
    assert predict(series, machine, ranks=3, ranks_per_node=1)[0][0].ranks == 4
    with pytest.raises(ConfigError, match="a: unknown number of ranks of allreduce; add -n"):
        predict(Measured("allreduce", {8: 1e-6}, "a"), machine)


def test_what_does_not_fit_is_left_out(machine: Path):
    rows, left_out = predict(Measured("alltoall", {8: 1e-6, 2**30: 1.0}, "a", ranks=4), machine)
    assert [row.size_bytes for row in rows] == [8]
    assert left_out == [2**30]


def test_what_cannot_be_judged_is_left_out():
    one_way, isend, receive = (Measured(name, {8: 1e-6}, "a.csv") for name in (PINGPONG, "isend", "recv"))
    assert reproducible([isend, one_way, receive, isend]) == ([one_way], ["a.csv: isend, recv"])
    assert reproducible([one_way]) == ([one_way], [])
    with pytest.raises(ConfigError, match=r"a\.csv: isend; known: latency, bw, barrier, allreduce, reduce, bcast"):
        reproducible([isend])


def test_errors_are_told_by_mean_percentile_and_largest():
    rows = [Judged("latency", 2, size, 1.0, 1 + sign * size / 100) for size in range(101) for sign in [(-1) ** size]]
    (line,) = lines_of(rows)
    assert line == "latency, 2 ranks: mean error 50.0 %, 95th percentile 95.0 %, largest +100.0 % at 100 B"


def test_what_does_not_run(machine: Path):
    small = machine.read_text().replace("cores_per_node: 2", "cores_per_node: 2, nodes: 2")
    machine.write_text(small, encoding="utf-8")
    with pytest.raises(ConfigError, match="too few for 100 ranks"):
        predict(Measured("bcast", {8: 1e-6}, "a", ranks=100), machine)
