"""One run of a client's tests in one of the ways, and what became of each test on each rank."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from glob import glob
from pathlib import Path

from tests.clients.description import MANY, PROGRAMS, Runs
from tests.clients.environment import Environment

INSIDE = Path(__file__).resolve().parent / "inside"
SESSION = "session"
WAYS = ("mpiexec", "greenlets", "process", SESSION)
STATUS, TRACEBACK, OUTPUT, ALL = "exit status", "traceback", "output", "all"
ANY = "any"  # what one report says of all ranks
END = "the session's end"  # as inside/clients_outcomes.py says it
# All ranks of a session are one process: where it would need more than this, a test fails, and nothing else is ended.
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


@dataclass(frozen=True)
class Run:
    """A command of Python's that is run on some ranks: a file, or a module, of a client's tests."""

    name: str
    command: tuple[str, ...]
    folder: str
    ranks: tuple[int, ...]
    runs: Runs

    def ways(self, ranks: int) -> tuple[str, ...]:
        """The ways in which it can be run on so many ranks."""
        if ranks == MANY:
            return (WAYS[0], SESSION) if self.runs.many_real else (SESSION,)
        return WAYS if self.runs.kind in ("pytest", "installed") else WAYS[:-1]

    def limit_s(self, ranks: int) -> int:
        """How long it may take."""
        return self.runs.many_limit_s if ranks == MANY else self.runs.limit_s


@dataclass
class Result:
    """What became of a run: ``outcomes[rank][test]``, and of the run as a whole as rank "all"."""

    outcomes: dict[str, dict[str, str]]
    seconds: float
    late: bool
    said: str

    def write(self, path: Path) -> None:
        """Keep this."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Result:
        """The result that was kept."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def all_runs(environment: Environment) -> Iterator[Run]:
    """The runs of a client, in order."""
    tests = environment.tests()
    for runs in environment.client.runs:
        for what in runs.what:
            if runs.kind == "installed":
                yield Run(what, _pytest(environment, "--pyargs", what, *runs.options), ".", runs.ranks, runs)
            elif runs.kind == "program":
                yield Run(what, (str(PROGRAMS / what), *runs.options), ".", runs.ranks, runs)
            elif tests is not None:
                for path in sorted(tests.glob(what)):
                    if path.name not in runs.but:
                        yield _of_file(environment, path, str(path.relative_to(tests)), runs)


def _of_file(environment: Environment, file: Path, path: str, runs: Runs) -> Run:
    ranks = runs.ranks
    if runs.ranks_said:
        said = re.search(runs.ranks_said, file.read_text(encoding="utf-8"))
        ranks = tuple(map(int, said[1].split())) if said else ()
    if runs.kind == "script":
        return Run(path, (Path(path).name, *runs.options), str(Path(path).parent), ranks, runs)
    return Run(path, _pytest(environment, path, *runs.options), ".", ranks, runs)


def _pytest(environment: Environment, *words: str) -> tuple[str, ...]:
    """Pytest with the client's configuration, and not with that of the folder that all this happens to lie in."""
    return "-m", "pytest", "-c", environment.client.config, "-p", "clients_outcomes", "-p", "no:cacheprovider", *words


def runs_on_many(environment: Environment) -> Iterator[Run]:
    """The runs of a client on many ranks: all files of a kind in one session."""
    for runs in environment.client.runs:
        each = [run for run in all_runs(environment) if run.runs is runs]
        if runs.many and runs.kind in ("pytest", "installed") and each:
            words = [run.command[-1 - len(runs.options)] for run in each]
            command = (*each[0].command[: -1 - len(runs.options)], *words, *runs.options, *runs.many_options)
            name = runs.what[0] if len(runs.what) == 1 else f"{runs.what[0]} and {len(runs.what) - 1} more"
            yield Run(name, command, each[0].folder, (MANY,), runs)


def launcher(environment: Environment, way: str, ranks: int, limit_s: int) -> list[str]:
    """What comes before the command."""
    if way == SESSION:
        return [str(environment.bin / "python")]
    if way == "mpiexec":
        return [str(environment.bin / "mpiexec"), "-n", str(ranks), str(environment.bin / "python")]
    isolation = ["--isolation", "process"] if way == "process" else []
    options = ["--machine", "shmem", "--quiet", "--wall-limit", f"{limit_s}s", *isolation, *environment.client.xsim]
    return [str(environment.bin / "xsim"), "run", "-n", str(ranks), *options]


def run(environment: Environment, one: Run, ranks: int, way: str) -> Result:
    """Run it in a fresh copy of the tests: what an earlier run has left behind is not there."""
    place = environment.folder / "running"
    shutil.rmtree(place, ignore_errors=True)
    for pattern in environment.client.leaves:
        for left in glob(pattern):
            os.unlink(left)
    _copy(environment, place / "tests")
    (place / "outcomes").mkdir()
    limit_s = one.limit_s(ranks)
    # What the plugin of pytest adds comes last.
    session = ("--xsim-session", str(ranks), "--xsim-machine", "shmem") if way == SESSION else ()
    began = time.monotonic()
    late, status, said = _launch(
        [
            *launcher(environment, way, ranks, limit_s),
            *(word.replace("{ranks}", str(ranks)) for word in one.command),
            *session,
        ],
        place / "tests" / one.folder,
        _environment(environment, place / "outcomes"),
        limit_s + (20 if way in ("greenlets", "process") else 0),
    )
    outcomes = {ALL: {STATUS: "late" if late else "zero" if status == 0 else "not zero"}}
    if one.runs.kind in ("script", "program"):
        outcomes[ALL][TRACEBACK] = "said" if "Traceback (most" in said else "not said"
    if one.runs.prints:
        outcomes[ALL][OUTPUT] = "\n".join(sorted(said.splitlines()))
    for rank in [ANY] if way == SESSION else map(str, range(ranks)):
        outcomes[rank] = _written(place / "outcomes" / f"{rank}.jsonl")
    return Result(outcomes, round(time.monotonic() - began, 1), late, said[-4000:])


def _copy(environment: Environment, target: Path) -> None:
    tests = environment.tests()
    target.mkdir(parents=True)
    (target / "pytest.ini").touch()
    if tests is None:
        return
    for pattern in environment.client.keep:
        for path in tests.glob(pattern):
            there = target / path.relative_to(tests)
            there.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, there, symlinks=True)
            else:
                shutil.copy(path, there)


def _environment(environment: Environment, outcomes: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    return kept | {
        "PATH": f"{environment.bin}{os.pathsep}{kept.get('PATH', '')}",
        "PYTHONPATH": str(INSIDE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CLIENTS_OUTCOMES": str(outcomes),
        "MPLBACKEND": "Agg",
        # More ranks than cores: no thread of numpy's may spin besides.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Nor may a rank of MPICH that waits: it gives its core to those that compute.
        "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    }


def _launch(command: list[str], folder: Path, environment: dict[str, str], limit_s: float) -> tuple[bool, int, str]:
    """Run a command for so long; whether it was late, its exit status, and what it said."""
    output = folder / ".said"
    with output.open("wb") as file:
        launched = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        resource.prlimit(launched.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
        late = False
        try:
            launched.wait(limit_s)
        except subprocess.TimeoutExpired:
            late = True
            launched.terminate()  # a launcher that is killed leaves its ranks behind
            with suppress(subprocess.TimeoutExpired):
                launched.wait(10)
        finally:  # the campaign may be ended, too
            with suppress(ProcessLookupError):
                os.killpg(launched.pid, signal.SIGKILL)
            launched.wait()
    return late, launched.returncode, output.read_text(encoding="utf-8", errors="replace")


def _written(path: Path) -> dict[str, str]:
    """What a rank has written: a line that it was writing when it was ended does not count."""
    outcomes = dict[str, str]()
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                name, outcome = json.loads(line)
                outcomes[name] = outcome
    return outcomes
