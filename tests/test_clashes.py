"""No output is an input or another output, whatever names it has."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from xsim_py.clashes import InputFile, OutputFile, failure_files, machine_files, program_files, refuse_clashes
from xsim_py.errors import ConfigError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*outputs: str | OutputFile, inputs: Iterable[str] = ()) -> str:
    """What is said of outputs, given by their names."""
    listed = [each if isinstance(each, OutputFile) else OutputFile(each, each) for each in outputs]
    try:
        refuse_clashes(listed, lambda: [InputFile(f"input {name}", name) for name in inputs])
    except ConfigError as error:
        return str(error)
    return ""


def test_a_file_has_many_names(here: Path):
    (here / "p.py").write_text("")
    (here / "link").symlink_to("p.py")
    (here / "hard").hardlink_to("p.py")
    (here / "folder").symlink_to(".")
    (here / "inner").mkdir()
    for name in ("p.py", "./p.py", "link", "hard", "folder/p.py", f"{here}/p.py", "inner/../p.py"):
        said = f"{name}: this is input p.py, which would be overwritten; name another file"
        assert check(name, inputs=["p.py"]) == said
        assert check("p.py", inputs=[name]) != ""
    assert check("other", "folder/more", inputs=["p.py"]) == ""


def test_two_outputs_are_one_also_where_nothing_is_yet(here: Path):
    (here / "link").symlink_to("new")
    (here / "folder").symlink_to(".")
    assert check("new", "other") == ""
    for name in ("new", "./new", "link", "folder/new"):
        assert check("new", name) == f"{name}: new is the same file; name another file"


def test_devices_and_pipes_take_more_than_one(here: Path):
    os.mkfifo(here / "pipe")
    assert check(os.devnull, os.devnull, "pipe", "pipe", "/dev/stdout", "/dev/stdout", inputs=[os.devnull]) == ""


def test_a_link_in_a_folder_of_results_is_replaced_and_is_not_what_it_leads_to(here: Path):
    (here / "p.py").write_text("")
    (here / "result.json").symlink_to("p.py")
    assert check(OutputFile("out", "result.json", follow=False), "p.py") == ""
    assert check(OutputFile("out", "result.json", follow=False), inputs=["p.py"]) == ""
    assert "this is input" in check(OutputFile("out", "result.json", follow=False), inputs=["result.json"])


def test_standard_output_may_be_a_file(here: Path):
    before = os.dup(1)
    with open(here / "printed", "w") as printed:
        os.dup2(printed.fileno(), 1)
        try:
            said, other = check("printed"), check("/dev/stdout", "other")
        finally:
            os.dup2(before, 1)
            os.close(before)
    assert (said, other) == ("printed: standard output is written there, too; name another file", "")


def test_inputs_are_looked_for_only_where_an_output_is_there(here: Path):
    def inputs() -> list[InputFile]:
        raise ConfigError("looked for")

    refuse_clashes([OutputFile("new", "new"), OutputFile("null", os.devnull), OutputFile("folder", ".")], inputs)
    (here / "old").write_text("")
    with pytest.raises(ConfigError, match="looked for"):
        refuse_clashes([OutputFile("old", "old")], inputs)


def test_what_a_simulation_reads(here: Path):
    (here / "p.py").write_text("")
    (here / "package").mkdir()
    (here / "package" / "__main__.py").write_text("")
    (here / "edges.txt").write_text("a b\n")
    (here / "log.csv").write_text("time,rank\n1ms,0\n")
    network = "topology: {type: graph, file: edges.txt}\nnetwork: {latency: 1us, bandwidth: 1GB/s}\n"
    (here / "m.yaml").write_text(f"{network}failures: {{trace: log.csv}}\n")

    def found(inputs: Iterable[InputFile]) -> list[tuple[str, str]]:
        return [(what, os.path.relpath(path)) for what, path in inputs]

    assert found(program_files("p.py", "script")) == [("the program", "p.py")]
    for name, kind in (("package", "module"), ("package", "script")):
        assert found(program_files(name, kind)) == [("the program", "package/__main__.py")]
    assert found(program_files("p", "module")) == [("the program", "p.py")]
    assert found(program_files("print()", "code")) == []
    of_machine = [
        ("the machine", "m.yaml"),
        ("the machine's graph", "edges.txt"),
        ("the machine's failures", "log.csv"),
    ]
    assert found(machine_files("m.yaml", {})) == of_machine
    assert found(machine_files("gige", {})) == []
    assert found(failure_files(["rank=1@1ms", "trace=log.csv"])) == [("what fails", "log.csv")]


def test_what_comes_through_a_pipe_is_left_for_the_run(here: Path):
    os.mkfifo(here / "pipe.yaml")
    assert list(machine_files("pipe.yaml", {})) == []
    assert list(program_files("pipe.yaml", "script")) == []
