"""Which environments the tests run in, and with which packages."""

from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import versions

EXAMPLE = {
    "name": "some-package",
    "dependencies": ["old>=1.0; python_version < '3.13'", "old>=2.0; python_version >= '3.13'", "plain>=0.5"],
    "optional-dependencies": {"Fast": ["quick>=3,<4"], "test": ["some-package[Fast]", "checker"]},
}
PYTHONS = {"3.11.7": "a", "3.13.0": "b"}


@pytest.mark.parametrize(
    ("python", "old"), [("3.11.7", "1.0"), ("3.12.9", "1.0"), ("3.13.0", "2.0"), ("3.20.1", "2.0")]
)
def test_bounds_are_those_of_the_python(python: str, old: str):
    assert versions.bounds(EXAMPLE, python) == {"old": old, "plain": "0.5", "quick": "3"}


def test_a_dependency_without_a_lower_bound_is_named():
    with pytest.raises(ValueError, match=r"plain<2 has no lower bound; write plain>=VERSION"):
        versions.bounds({**EXAMPLE, "dependencies": ["plain<2"]}, "3.11.0")


def test_the_newest_environment_pins_tools_only_and_the_oldest_all_bounds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(versions, "pins", lambda: {"checker": "7.1", "plain": "0.9"})
    assert versions.asked_for("newest", EXAMPLE, "3.11.7") == ["checker==7.1"]
    oldest = ["checker==7.1", "old==1.0", "plain==0.5", "quick==3"]
    assert versions.asked_for("oldest", EXAMPLE, "3.11.7") == oldest


def test_a_package_in_another_version_is_named_with_both():
    checked = {"numpy": "2.4.6", "networkx": "3.6.1", "elsewhere": "1.0"}
    here = {"numpy": "2.5.5", "networkx": "3.6.1", "unknown": "1"}
    said = ["numpy 2.5.5 is installed; the tests were checked with numpy 2.4.6"]
    assert versions.differences(checked, here) == said


def test_make_test_fails_at_once_where_versions_differ(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(versions, "installed", lambda: {"numpy": "0.1"})
    assert versions.main(["--check"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("numpy 0.1 is installed; ")
    assert "rm .venv/installed-test && make test" in said[1]
    monkeypatch.setattr(versions, "installed", versions.pins)
    assert (versions.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_all_that_the_tests_need_is_pinned():
    wanted, seen = ["xsim-py[test]"], set()
    while wanted:
        requirement = Requirement(wanted.pop())
        asked = (requirement.name, *requirement.extras)
        if asked not in seen:
            seen.add(asked)
            requires = map(Requirement, metadata.requires(requirement.name) or ())
            wanted += [
                str(each)
                for each in requires
                if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in asked)
            ]
    assert {versions.canonicalize_name(name) for name, *_ in seen} - {"xsim-py"} <= set(versions.pins())


def test_pythons_are_those_that_run_and_the_first_of_each_version():
    known = {"/a/python3": "3.13.0", "/b/python3.13": "3.13.0", "/c/python3.9": None, "/d/python3.11": "3.11.7"}
    assert versions.found_pythons(known, known.get) == {"3.11.7": "/d/python3.11", "3.13.0": "/a/python3"}


def test_what_is_no_python_is_passed_over(tmp_path: Path):
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    assert [versions.probe(str(each)) for each in (broken, tmp_path / "none", "true")] == [None] * 3


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ["3.11.7-newest", "3.11.7-oldest", "3.13.0-newest", "3.13.0-oldest"]),
        (["3.13"], ["3.13.0-newest", "3.13.0-oldest"]),
        (["3.11.7", "3.1"], ["3.11.7-newest", "3.11.7-oldest"]),
        (["*-oldest"], ["3.11.7-oldest", "3.13.0-oldest"]),
        (["3.13.0-newest"], ["3.13.0-newest"]),
    ],
)
def test_environments_are_chosen_by_name(patterns: list[str], names: list[str]):
    assert [each.name for each in versions.chosen(PYTHONS, patterns)] == names


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> versions.Environment:
    """An environment whose tests are a line in a file: what its Python would print, and its status."""
    monkeypatch.setattr(versions, "FOLDER", tmp_path)
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    monkeypatch.setattr(versions, "install", lambda *_: True)
    made = versions.Environment("python", "3.13.0", "oldest")
    python = made.folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho ran >>{tmp_path}/runs\ncat {tmp_path}/says\nexit $(cat {tmp_path}/status)\n")
    python.chmod(0o755)
    return made


def test_tests_that_have_passed_are_repeated_only_for_another_commit(environment, tmp_path, monkeypatch):
    (tmp_path / "says").write_text("...\n3 passed in 0.1s\n")
    for commit, status, good, runs in [
        ("a", 1, False, 1),
        ("a", 0, True, 2),
        ("a", 1, True, 2),
        ("b", 1, False, 3),
        ("", 0, True, 4),
        ("", 0, True, 5),
    ]:
        monkeypatch.setattr(versions, "state", lambda commit=commit: commit)
        (tmp_path / "status").write_text(str(status))
        assert versions.tested(environment, EXAMPLE, "1") == (good, "3 passed in 0.1s")
        assert (tmp_path / "runs").read_text().count("ran") == runs


def test_a_failure_is_told_with_its_log(environment):
    said = versions.line(environment, False, "=== 1 failed, 2 passed in 0.1s ===")
    assert said == "Python 3.13.0-oldest: FAILED, see 3.13.0-oldest.log: 1 failed, 2 passed in 0.1s ()"
