import argparse
import re
from pathlib import Path

import pytest

from xsim_py.cli import main
from xsim_py.cli.options import (
    Parser,
    ProgramSpec,
    add_parameters,
    exit_status,
    machine_labels,
    split_program,
)
from xsim_py.errors import ConfigError


def options() -> list[argparse.Action]:
    parser = Parser()
    add = parser.add_argument
    return [
        add("-n", "-np", "--ranks"),
        add("--label", action="store_true"),
        *add_parameters(parser, "description", "simulation"),
    ]


@pytest.mark.parametrize(
    ("line", "own", "program"),
    [
        ("-n 4 prog.py", ["-n", "4"], ("script", "prog.py", [])),
        ("-n4 prog.py -n 5 --seed 3", ["-n4"], ("script", "prog.py", ["-n", "5", "--seed", "3"])),
        ("-np 4 --label prog.py --label", ["-np", "4", "--label"], ("script", "prog.py", ["--label"])),
        ("--ft prog.py --no-ft", ["--ft"], ("script", "prog.py", ["--no-ft"])),
        ("--fail rank=1@1s prog.py", ["--fail", "rank=1@1s"], ("script", "prog.py", [])),
        ("--seed=3 prog.py -h", ["--seed=3"], ("script", "prog.py", ["-h"])),
        ("--seed 3 prog.py --version", ["--seed", "3"], ("script", "prog.py", ["--version"])),
        ("-n 2 -m pkg.mod -m other", ["-n", "2"], ("module", "pkg.mod", ["-m", "other"])),
        ("-n 2 -mpkg a", ["-n", "2"], ("module", "pkg", ["a"])),
        ("-n 2 -c print(1) -c 2", ["-n", "2"], ("code", "print(1)", ["-c", "2"])),
        ("-n 2 -- prog.py -- x", ["-n", "2"], ("script", "prog.py", ["--", "x"])),
        ("-n 2 -- -odd.py", ["-n", "2"], ("script", "-odd.py", [])),
        ("-n 2 prog.py -- x", ["-n", "2"], ("script", "prog.py", ["--", "x"])),
        ("-n prog.py", ["-n", "prog.py"], None),
        ("-n 2 --", ["-n", "2"], None),
        ("", [], None),
    ],
)
def test_everything_after_the_program_belongs_to_it(line, own, program):
    assert split_program(line.split(), options()) == (own, program and ProgramSpec(*program))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ft", "--no-ft"], "--ft and --no-ft cannot be combined; drop one"),
        (["--no-ft", "--ft"], "--ft and --no-ft cannot be combined; drop one"),
        (["--seed", "-1"], "argument --seed: -1 is out of range (at least 0)"),
        (["--seed", str(2**63)], f"argument --seed: {2**63} is out of range (at most {2**63 - 1})"),
        (["--seed", "9" * 5000], "is out of range (at most 9223372036854775807)"),
        (["--shards", "-" + "9" * 5000], "is out of range (at least 1)"),
        (["--shards", "1_0"], "argument --shards: expected an integer, got '1_0'"),
        (["--wall-limit", "1e15s"], "argument --wall-limit: 1e15s is out of range (at most thirty years); omit it"),
    ],
)
def test_what_an_option_cannot_be_is_bad_input(words, said):
    parser = Parser()
    add_parameters(parser, "description", "simulation")
    with pytest.raises(ConfigError, match=re.escape(said)):
        parser.parse_args(words)


def test_an_option_that_is_said_twice_alike_is_no_contradiction():
    parser = Parser()
    add_parameters(parser, "description", "simulation")
    assert parser.parse_args(["--ft", "--ft"]).ft is True
    assert parser.parse_args(["--seed", str(2**63 - 1), "--no-ft"]).ft is False


@pytest.mark.parametrize("command", ["run", "models", "ftco"])
def test_our_arguments_are_utf8(capsys, command):
    assert main([command, "--set", "name=\udcff", "p.py"]) == 2
    assert capsys.readouterr().err == "xsim: expected UTF-8 text, got the argument 'name=\\udcff'\n"


@pytest.mark.parametrize(("flag", "kind"), [("-m", "module"), ("-c", "code")])
def test_a_flag_without_its_program_is_bad_input(flag, kind):
    with pytest.raises(ConfigError, match=f"{flag} needs a {kind}"):
        split_program(["-n", "2", flag], options())


def test_the_simulators_reason_for_ending_comes_before_the_programs_status():
    assert [exit_status(ended, 7) for ended in ("finished", "aborted", "stalled", "wall limit", "interrupted")] == [
        *(7, 7, 3, 4, 130)
    ]
    assert exit_status("stalled", 74) == 74  # and its files could not be written, which costs more


def described(folder: Path, **names: str) -> list[str]:
    """Descriptions of machines in files, by file, with these names."""
    for file, name in names.items():
        (folder / f"{file}.yaml").write_text(f"name: {name}\n")
    return [str(folder / f"{file}.yaml") for file in names]


def test_machines_whose_names_are_the_same_in_names_of_files_are_refused(tmp_path: Path):
    first, second = described(tmp_path, one="a/b", two="a-b")
    with pytest.raises(ConfigError, match=f"{first} and {second} would both be named a-b in file names"):
        machine_labels([first, second])


def test_a_machine_that_is_called_what_another_was_asked_for_is_not_lost(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    described(tmp_path, x="q", y="q", z="x.yaml")
    labels = {"x.yaml": "x.yaml", "y.yaml": "y.yaml", "z.yaml": "z.yaml", "gige": "gige"}
    assert machine_labels(list(labels)) == labels
