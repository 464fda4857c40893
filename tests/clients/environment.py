"""An environment for each client, and the sources of its tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.clients.description import Client

ROOT = Path(__file__).resolve().parents[2]
# The real MPI, the same for all.
MPI = ("mpi4py==4.1.2", "mpich==5.0.2")
# Python before 3.11.4 unpacks whatever a file says.
_CHECKED: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


class CannotRun(Exception):
    """A client's tests cannot be run here; says why, and what to do."""


class Environment:
    """What a client needs, in a folder of its own."""

    def __init__(self, client: Client, folder: Path):
        self.client = client
        self.folder = folder / client.name
        self.bin = self.folder / "venv" / "bin"
        self._checkouts = folder / "checkouts"

    def make(self) -> None:
        """Install what is not yet installed, and fetch the tests."""
        self.folder.mkdir(parents=True, exist_ok=True)
        wanted = json.dumps([*MPI, *self.client.requires, "/", *self.client.without_dependencies])
        installed = self.folder / "installed.json"
        if not installed.exists() or installed.read_text() != wanted:
            self._install()
            installed.write_text(wanted)
        if self.client.checkout and not self.tests():
            self._clone()

    def tests(self) -> Path | None:
        """The folder with the client's tests; none if they are installed with it, or not there."""
        if self.client.sdist:
            return self.fetched(self.client.sdist)
        folder = self._checkouts / self.client.name
        return folder if self.client.checkout and folder.is_dir() else None

    def missing(self) -> str:
        """What is not there, and what to do; nothing, if all is there."""
        if not self.client.checkout or self.tests():
            return ""
        return (
            f"the tests of {self.client.name} are not in the package index, and they could not be cloned: put "
            f"{self.client.checkout} into {self._checkouts / self.client.name}."
        )

    def versions(self) -> dict[str, str]:
        """What is installed."""
        said = self.pip("list", "--format", "json", "--disable-pip-version-check")
        return {package["name"]: package["version"] for package in json.loads(said)}

    def _install(self) -> None:
        made = subprocess.run(
            [sys.executable, "-m", "venv", str(self.folder / "venv")], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise CannotRun(f"no environment can be made: {made.stdout}{made.stderr}")
        self.pip("install", *MPI, *self.client.requires, "--editable", str(ROOT))
        if self.client.without_dependencies:
            self.pip("install", "--no-deps", *self.client.without_dependencies)

    def _clone(self) -> None:
        """Clone the version of the public repository that is named, as ``URL TAG``; it is `missing` if that fails."""
        url, _, tag = self.client.checkout.partition(" ")
        folder = self._checkouts / self.client.name
        fresh = folder.with_suffix(".part")
        shutil.rmtree(fresh, ignore_errors=True)
        command = ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, url, str(fresh)]
        with suppress(OSError):
            asks_nobody = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
            if subprocess.run(command, check=False, env=asks_nobody).returncode == 0:
                fresh.rename(folder)

    def fetched(self, requirement: str) -> Path:
        folder = self.folder / "sdist" / requirement
        if not folder.is_dir():
            name = requirement.partition("==")[0]
            fetched = self.folder / "fetched"
            shutil.rmtree(fetched, ignore_errors=True)
            self.pip("download", "--no-deps", "--no-binary", name, requirement, "--dest", str(fetched))
            with tarfile.open(next(fetched.glob("*.tar.gz"))) as archive:
                archive.extractall(fetched, **_CHECKED)
            folder.parent.mkdir(exist_ok=True)
            next(path for path in fetched.iterdir() if path.is_dir()).rename(folder)
        return folder

    def pip(self, *words: str) -> str:
        done = subprocess.run(
            [str(self.bin / "python"), "-m", "pip", *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CannotRun(f"pip {' '.join(words)} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout
