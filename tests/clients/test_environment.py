import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import __main__ as campaign
from tests.clients.description import Client
from tests.clients.environment import CannotRun, Environment


def repository(folder: Path) -> str:
    """Make a repository with a tag, and return its address."""
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_it.py").write_text("")
    who = ["-c", "user.name=who", "-c", "user.email=who@where"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "All"], ["tag", "v1"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder.as_uri()


def installed(tmp_path: Path, checkout: str) -> Environment:
    environment = Environment(Client("one", (), (), checkout=checkout), tmp_path)
    environment.folder.mkdir(parents=True)
    environment._install = lambda: None
    environment.make()
    return environment


def test_tests_that_are_in_a_public_repository_are_cloned_at_a_tag(tmp_path: Path):
    environment = installed(tmp_path / "clients", f"{repository(tmp_path / 'theirs')} v1")
    assert not environment.missing()
    tests = environment.tests()
    assert tests is not None
    assert (tests / "tests" / "test_it.py").exists()


def test_what_cannot_be_cloned_is_missing_and_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    environment = installed(tmp_path / "clients", f"{(tmp_path / 'nothing').as_uri()} v1")
    assert f"put {(tmp_path / 'nothing').as_uri()} v1 into " in environment.missing()
    assert "nothing" in capfd.readouterr().err


def test_a_client_that_cannot_be_installed_is_said_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def install(self: Environment) -> None:
        if self.client.name == "distwq":
            raise CannotRun("pip has failed")
        self.bin.mkdir(parents=True)
        (self.bin / "python").symlink_to(sys.executable)

    monkeypatch.setattr(Environment, "_install", install)
    monkeypatch.setattr(Environment, "versions", lambda self: {})
    assert campaign.main(["distwq", "pyomo", "-n", "1", "--folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("distwq (1 of 2): distwq==")
    assert lines[1] == "  pip has failed"
    assert lines[2].startswith("pyomo (2 of 2): pyomo==")
    assert lines[-1] == "0 runs, 0 unexpected differences, 1 clients could not be run"
