"""The probe on machines that are known: it gives their figures back."""

import sys
from pathlib import Path

import pytest

from xsim_py.calibrate.probe import run_probe
from xsim_py.cli import main
from xsim_py.config import load_machine
from xsim_py.errors import ConfigError

KNOWN = """\
topology: {type: switch}
machine: {cores_per_node: 2}
network:
  eager_threshold: 16KiB
  segments:
    - {from: 0B, latency: 1us, bandwidth: 2GB/s, send_overhead: 200ns, recv_overhead: 300ns}
    - {from: 16385B, latency: 2us, bandwidth: 10GB/s, send_overhead: 100ns, recv_overhead: 300ns}
same_node: {latency: 300ns, bandwidth: 5GB/s, send_overhead: 100ns, recv_overhead: 100ns, eager_threshold: 8KiB}
"""


def test_a_simulated_machine_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The whole way round: probe under the simulator, calibrate, and compare with the machine that was simulated."""
    monkeypatch.chdir(tmp_path)
    Path("known.yaml").write_text(KNOWN, encoding="utf-8")
    command = f"'{sys.executable}' -m xsim_py run -n 3 --machine known.yaml --quiet"
    options = ("--largest", "64KiB", "--repetitions", "1")
    assert main(["calibrate", "--probe", command, *options, "-o", "found.yaml", "--quiet"]) == 0
    assert Path("found.csv").read_text().startswith("layer,op,bytes,median_s,p25_s,p75_s,count\n")
    known, found = load_machine("known.yaml"), load_machine("found.yaml")
    assert found.network is not None
    assert found.same_node is not None
    assert found.network.eager_threshold_bytes == 16384
    assert found.same_node.eager_threshold_bytes == 8192
    assert found.network.segments == known.network.segments
    for segment in found.same_node.segments or ():
        assert segment.latency_ps == known.same_node.latency_ps
        assert segment.ps_per_byte == known.same_node.ps_per_byte
        assert segment.send_overhead_ps == known.same_node.send_overhead_ps
        assert segment.recv_overhead_ps == known.same_node.recv_overhead_ps


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("nosuchlauncher -n 2", "nosuchlauncher: No such file"),
        (f"{sys.executable} -c 'raise SystemExit(\"no nodes\")'", "exit status 1\nno nodes"),
        (f"{sys.executable} -c 'print(1)'", "exit status 0\n1"),
        ("'", "No closing quotation"),
        ("", "expected a command"),
    ],
)
def test_a_command_that_measures_nothing(command: str, said: str):
    with pytest.raises(ConfigError, match=said):
        run_probe(command, options=[])
