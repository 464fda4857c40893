"""What `simulate` and `xsim run` take: the same, by the same names, with the same answer to a wrong value."""

import inspect
import io
import re
from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.doc_blocks import ROOT
from tests.test_docs import options_of, rows
from xsim_py import run, simulate
from xsim_py.cli import main
from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.parameters import PARAMETERS, RunArguments, RunParameters, read
from xsim_py.study.description import OPTIONS
from xsim_py.testing import plugin

OF_THE_CALLER = ("program", "background", "stdout", "stderr", "progress", "started")


def asked(**told: Any) -> RunParameters:
    return read(RunArguments(**{"ranks": 1, **told}))


def test_simulate_and_its_docstring_have_the_parameters_of_the_table():
    signature = inspect.signature(simulate).parameters
    assert set(signature) - set(OF_THE_CALLER) == set(PARAMETERS)
    text = inspect.getdoc(simulate).partition("\nReturns\n")[0]
    described = re.findall(r"^(\w+(?:, \w+)*) : ", text, re.MULTILINE)
    assert sorted(name for names in described for name in names.split(", ")) == sorted(signature)
    for each in fields(RunArguments):
        assert each.type in (signature[each.name].annotation, "Any")
        assert PARAMETERS[each.name].default == (
            MISSING if signature[each.name].default is inspect.Parameter.empty else signature[each.name].default
        )


def test_simulate_hands_on_what_it_is_given(monkeypatch: pytest.MonkeyPatch):
    """Each by its own name, which `RunArguments` cannot check."""
    given: list[RunArguments] = []

    def note(program: Any, arguments: RunArguments) -> None:
        given.append(arguments)
        raise ConfigError("enough")

    monkeypatch.setattr(run, "_settings", note)
    with pytest.raises(ConfigError, match="enough"):
        simulate("pass", **{name: name for name in PARAMETERS})  # type: ignore[arg-type]
    assert {name: getattr(given[0], name) for name in PARAMETERS} == {name: name for name in PARAMETERS}


def test_front_ends_have_what_the_table_says():
    options = {name for name, row in PARAMETERS.items() if row.option}
    assert {flag for name in options for flag in PARAMETERS[name].flags} <= options_of("run")
    assert {name for name, row in PARAMETERS.items() if row.study is not None} == set(OPTIONS) - {"program"}


def test_options_of_the_pytest_plugin_are_parameters_with_the_same_values():
    """The plugin cannot read the table, because every session of pytest loads it."""
    added: dict[str, dict[str, Any]] = {}
    group = SimpleNamespace(addoption=lambda name, **settings: added.update({name: settings}))
    config = SimpleNamespace(getini=lambda name: (), invocation_params=SimpleNamespace(args=()))
    plugin.pytest_addoption(SimpleNamespace(getgroup=lambda *_: group), SimpleNamespace(getplugin=lambda _: config))
    found = {name: added[f"--xsim-{name}"] for name in PARAMETERS if f"--xsim-{name}" in added and name != "ranks"}
    assert list(found) == ["machine", "seed", "shards", "fail", "check"]
    for name, settings in found.items():
        row = PARAMETERS[name]
        assert settings.get("metavar", "") == row.metavar
        assert (settings.get("action") == "append") == (row.each is not None)


def test_what_is_not_said_is_none_or_empty():
    assert asked() == RunParameters(
        1, None, [], 0, 1, {}, None, None, [], (), None, None, None, "greenlets", *[False] * 4, None, (), None, (), 0
    )
    assert (asked().overrides, asked().way, asked().ranks_per_process, asked().spawned) == ({}, "auto", 0, False)


def test_values_may_be_as_on_the_command_line_or_python_s_own():
    assert [asked(wall_limit=limit).wall_limit_s for limit in ("5min", 300, 300.0, "300")] == [300.0] * 4
    assert [asked(ranks=ranks, seed=7).ranks for ranks in (4, np.int64(4), "4")] == [4] * 3
    assert asked(fail="rank=1@1ms").fail == asked(fail=["rank=1@1ms"]).fail == ("rank=1@1ms",)
    assert asked(set=["a.b=1=2", "c=5us"]).overrides == asked(set={"a.b": "1=2", "c": "5us"}).overrides


def test_algorithms_of_collectives_and_how_they_are_simulated_are_said_together():
    """As on the command line, what the machine's entries say comes after."""
    words = ["ftco", "messages", "arrays"]
    assert (asked(collectives="ftco").overrides, asked(collectives="ftco").way) == ({"mpi.collectives": "ftco"}, "auto")
    both = asked(collectives=words, set={"mpi.ftco.radix": 3})
    assert (list(both.overrides), both.way) == (["mpi.collectives", "mpi.ftco.radix"], "arrays")
    own = asked(collectives=words, set=["mpi.collectives={barrier: ftco}"])
    assert own.overrides == {"mpi.collectives": "{barrier: ftco}"}


BAD = [
    ("ranks", "0"),
    ("ranks", "two"),
    ("shards", "-1"),
    ("seed", "x"),
    ("wall_limit", "3kg"),
    ("set", "latency"),
    ("compute", "all"),
    ("isolation", "thread"),
    ("isolation", "process:0"),
    ("isolation", "greenlets:2"),
    ("collectives", "ftcoo"),
    ("fail", "rank=one"),
    ("restart", "on-abort,max=x"),
    ("machine", "gigi"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_wrong_value_gets_the_answer_of_the_command_line(name: str, value: str, capsys: pytest.CaptureFixture[str]):
    option = f"--{name.replace('_', '-')}"
    words = [option, value] if name == "ranks" else ["-n", "2", option, value]
    assert main(["run", *words, "-c", "pass"]) == 2
    with pytest.raises(ConfigError) as caught:
        simulate("pass", **{"ranks": 2, "kind": "code", name: value})
    said = str(caught.value).removeprefix(f"{name}: ")
    assert said in capsys.readouterr().err.replace("\nxsim: ", "\n")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ranks", True),
        ("label", "no"),
        ("ft", 1),
        ("args", "word"),
        ("fail", 3),
        ("restart", 3),
        ("set", [3]),
        ("set", {5: "x"}),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(name: str, value: object):
    with pytest.raises(ConfigError, match=f"^{name}: "):
        asked(**{name: value})


@pytest.mark.parametrize("machine", [None, 5, b"gige", "", [1]])
def test_what_is_no_machine_is_refused(machine: object):
    with pytest.raises(ConfigError, match=r"^machine: expected a preset, a file or a mapping, got .*"):
        simulate("pass", kind="code", ranks=1, machine=machine)  # type: ignore[arg-type]


def test_a_text_is_no_function():
    with pytest.raises(ConfigError, match=r"program: kind callable needs a function, got 'pass'"):
        simulate("pass", kind="callable", ranks=1)


def test_numbers_of_numpy_are_numbers():
    latency = np.linspace(1e-6, 2e-6, 3)[1]
    assert load_machine("gige", overrides={"network.latency": latency}) == load_machine(
        "gige", overrides={"network.latency": 1.5e-6}
    )
    assert load_machine({"network": {"latency": np.float64(2.0)}, "machine": {"nodes": np.int64(4)}}).machine.nodes == 4
    assert asked(wall_limit=np.float64(5)).wall_limit_s == 5


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(ConfigError) as caught:
        simulate(3, ranks=0, seed=None, stdout=io.StringIO())  # type: ignore[arg-type]
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["program", "ranks", "seed"]


def test_the_guide_has_every_option_and_every_parameter():
    """An option is a parameter of the same name, or something that the result does."""
    table = [row for row in rows(ROOT / "docs" / "guides" / "python-api.md", "Parameters") if row[0].startswith("`")]
    told = {row[0].split("`")[1].split()[0]: row[1] for row in table if row[0].startswith("`--")}
    options = {option.partition("=")[0] for option in options_of("run") if option.startswith("--")}
    assert set(told) == options - {"--help", "--ft"}
    named = {option.removeprefix("--no-").removeprefix("--").replace("-", "_"): text for option, text in told.items()}
    parameters = set(inspect.signature(simulate).parameters)
    assert {name for name, text in named.items() if text.startswith(f"`{name}=")} == named.keys() & parameters
    assert all("`result." in named[name] for name in named.keys() - parameters)
    others = {name for row in table if not row[0].startswith("`--") for name in row[0].split("`")[1::2]}
    assert others == parameters - named.keys()
