import re
from pathlib import Path

import pytest

from tests.clients.description import SUITES, BadDescription, Expected, clients, read
from tests.clients.environment import Environment
from tests.clients.running import all_runs, launcher, runs_on_many

SAID = "requires: [one==1.0]\nruns:\n  - pytest: tests/test_*.py\n    options: [-x]\n    ranks: [2]\n"


def test_every_description_that_is_there_is_read_and_pins_what_it_installs():
    for client in clients([]):
        assert client.runs, client.name
        assert client.about, client.name
        assert re.fullmatch(r"[\w.-]+==[\w.]+", [*client.without_dependencies, *client.requires][0]), client.name


def test_a_client_that_nobody_describes_is_refused_with_those_that_are_there():
    with pytest.raises(BadDescription, match=r"no client is called none\. There are: .*pylops-mpi"):
        list(clients(["none"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "one.yaml: a client is a mapping"),
        ("runs: [{options: []}]", "one.yaml: each of the runs has one of pytest, installed, script, program"),
        ("requires: []\nwrong: 1", "one.yaml: .*unexpected keyword argument 'wrong'"),
    ],
)
def test_a_wrong_description_says_what_is_wrong(text: str, message: str):
    with pytest.raises(BadDescription, match=message):
        read("one", text)


def test_each_file_that_matches_is_a_run(tmp_path: Path):
    environment = Environment(read("one", f"checkout: it\n{SAID}"), tmp_path)
    assert environment.missing()
    folder = tmp_path / "checkouts" / "one" / "tests"
    folder.mkdir(parents=True)
    for name in ("test_a.py", "test_b.py", "other.py"):
        (folder / name).touch()
    assert not environment.missing()
    assert [(run.name, run.command[-2:], run.ranks) for run in all_runs(environment)] == [
        ("tests/test_a.py", ("tests/test_a.py", "-x"), (2,)),
        ("tests/test_b.py", ("tests/test_b.py", "-x"), (2,)),
    ]
    (many,) = runs_on_many(environment)
    assert (many.name, many.command[-3:], many.ranks) == (
        "tests/test_*.py",
        ("tests/test_a.py", "tests/test_b.py", "-x"),
        (64,),
    )


def test_a_script_may_say_its_ranks(tmp_path: Path):
    said = "requires: []\ncheckout: it\nruns:\n  - {script: '*.py', ranks_said: 'RANKS: (.*)'}\n"
    environment = Environment(read("one", said), tmp_path)
    folder = tmp_path / "checkouts" / "one"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("# RANKS: 2 4\n")
    (folder / "b.py").write_text("")
    assert [(run.command, run.ranks) for run in all_runs(environment)] == [(("a.py",), (2, 4)), (("b.py",), ())]


def test_the_ways_differ_in_what_comes_before_the_command(tmp_path: Path):
    environment = Environment(read("one", SAID), tmp_path)
    words = {way: launcher(environment, way, 3, 60)[1:] for way in ("mpiexec", "greenlets", "process")}
    assert words["mpiexec"][:2] == ["-n", "3"]
    assert [word for word in words["process"] if word not in words["greenlets"]] == ["--isolation", "process"]


def test_what_is_expected_fits_by_patterns():
    known = Expected(why="", way="greenlets", test="^a$", ranks=(2,))
    assert known.fits("greenlets", "any", 2, "a")
    assert not known.fits("process", "any", 2, "a")
    assert not known.fits("greenlets", "any", 2, "ab")
    assert not known.fits("greenlets", "any", 3, "a")


def test_the_suites_are_where_they_are_looked_for():
    assert list(SUITES.glob("*.yaml"))
