"""``xsim models``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest
import yaml

from xsim_py.cli.models import add_models_parser, run_models
from xsim_py.config import config_hash, load_machine, presets
from xsim_py.errors import ConfigError


def run(*words: str) -> int:
    parser = ArgumentParser()
    add_models_parser(parser.add_subparsers())
    return run_models(parser.parse_args(["models", *words]))


@pytest.mark.parametrize("words", [(), ("list",)])
def test_the_list_has_every_preset_with_figures_and_source(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run(*words) == 0
    shown = capsys.readouterr().out
    for name in presets():
        assert f"\n{name} " in f"\n{shown}"
    assert shown.count("source: ") == len(presets())
    assert "network:   latency 0 s + 10 us a hop, bandwidth 1 Gbps, rendezvous above 128 KiB" in shown
    assert "rendezvous above 65535 B" in shown
    assert max(map(len, shown.splitlines())) <= 120


def test_show_prints_a_file_that_can_be_read_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("show", "torus3d") == 0
    copy = tmp_path / "copy.yaml"
    copy.write_text(capsys.readouterr().out, encoding="utf-8")
    assert config_hash(load_machine(copy)) == config_hash(load_machine("torus3d"))


def test_show_knows_what_there_is() -> None:
    with pytest.raises(ConfigError, match="did you mean torus3d"):
        run("show", "torus")


def test_check_says_what_a_description_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "torus3d", "-n", "512", "--set", "network.per_hop=100ns") == 0
    configuration = config_hash(load_machine("torus3d", overrides={"network.per_hop": "100ns"}))
    assert capsys.readouterr().out == (
        f"torus3d: good; configuration {configuration}\n"
        "  8x8x8 torus, not twisted; 1 rank per node, block placement\n"
        "  network:   latency 7 us + 100 ns a hop, bandwidth 8.8 Gbps, rendezvous above 128 KiB\n"
        "  same node: latency 800.8 ns, bandwidth 10.63 Gbps, rendezvous above 128 KiB\n"
        "  512 nodes, diameter 12, mean distance 6.0117\n"
        "  bisection bandwidth 1.126 Tbps\n"
    )


def test_check_prints_bare_lines_about_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("network: {latency: -1us, gab: 0}\nmachine: {nodes: 2}\n")
    assert run("check", str(file), "-n", "3") == 2
    assert capsys.readouterr().err == (
        f"{file}:1:20: network.latency: -1us is out of range: a time cannot be negative\n"
        f"{file}:1:26: network.gab: unknown key; did you mean gap?\n"
    )
    file.write_text("network: {latency: 1us}\nmachine: {nodes: 2}\n")
    assert run("check", str(file), "-n", "3") == 2
    assert "machine m has 2 cores (2 nodes of 1), too few for 3 ranks" in capsys.readouterr().err


def test_schema_is_json_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("schema") == 0
    assert json.loads(capsys.readouterr().out)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert run("schema", "--markdown") == 0
    assert "| `network.gap` | a time up to a day | 0s |" in capsys.readouterr().out


def test_the_models_are_plain_yaml() -> None:
    for path in presets().values():
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["name"] == path.stem


def test_check_looks_for_what_is_to_fail_among_so_many_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("check", "gige", "--set", "failures.at=[rank=7@1ms, rank=1 before its 2nd Allreduce]")
    assert run(*words) == run(*words, "-n", "8") == 0
    assert run(*words, "-n", "2") == 2
    assert "--set failures.at=[rank=7@1ms, rank=1 before its 2nd Allreduce]: rank 7 does" in capsys.readouterr().err


def test_check_tells_hops_between_routers_and_what_flows_between_halves(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "machine.yaml"
    network = "network: {latency: 1us, bandwidth: 100Gbps}"
    for topology, lines in (
        (
            "{type: dragonfly, hosts_per_router: 8, links: {global: {bandwidth: 50Gbps}}}",
            [
                "16512 nodes and 2064 switches, diameter 5, mean distance 4.8602",
                "hops between routers: at most 3, mean 2.8614",
                "bisection bandwidth 208 Tbps",
            ],
        ),
        (
            "{type: fattree, radix: 36}",
            ["648 nodes and 54 switches, diameter 4, mean distance 3.9474", "bisection bandwidth 32.4 Tbps"],
        ),
        (
            "{type: graph, edges: [[a, s], [b, s], [c, s], [s, d], [s, d]], hosts: '[a-d]'}",
            [
                "4 nodes and 1 switch, diameter 2, mean distance 2.0000",
                "bisection bandwidth 200 Gbps (first half of the nodes to the second)",
            ],
        ),
        ("{type: torus, dims: [4, 2], twist: half}", ["8 nodes, diameter 2, mean distance 1.4286"]),
    ):
        file.write_text(f"topology: {topology}\n{network}\n")
        assert run("check", str(file)) == 0
        shown = [line for line in capsys.readouterr().out.splitlines()[3:] if not line.startswith("  links: ")]
        assert shown == [f"  {line}" for line in lines]


def test_draw_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loads = tmp_path / "loads.csv"
    loads.write_text("link,bytes\nn0>sw,5\n")
    target = tmp_path / "gige.svg"
    assert run("draw", "gige", "-n", "4", "--loads", str(loads), "-o", str(target)) == 0
    assert ">sw</text>" in target.read_text()
    assert capsys.readouterr().err == f"xsim: wrote {target}\n"
    with pytest.raises(ConfigError, match=r"the name of a figure ends with .png, .svg or .pdf"):
        run("draw", "gige", "-o", str(tmp_path / "gige.txt"))
