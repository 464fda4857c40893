"""The C programs of MPICH's test suite, here and with a real ``mpiexec``: ``python -m tests.compiled.suites SOURCES``.

SOURCES is the directory ``test/mpi`` of MPICH's sources. Each line of a ``testlist`` names a program, a number of ranks
and arguments. A program passes if it prints "No Errors" and ends with status 0, unless its line says otherwise.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from tests.compiled import suites_page
from xsim_py.cli.cc import command_line

DIRECTORIES = "attr coll comm datatype errhan group info init pt2pt part rma session spawn topo io"
BUILT = Path("build/compiled-suites")
MOST_GB = 1.5
"""Tests that the suite says need more memory are skipped."""
CONFIGURED = """
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define POINTERINT_t long
#define USE_STRICT_MPI 1
""" + re.sub(
    r"(\w+)\s*",
    r"#define HAVE_\1 1\n",
    "STDARG_H SYS_TIME_H SYS_RESOURCE_H STRING_H STRINGS_H UNISTD_H STDLIB_H MEMORY_H STRDUP USLEEP GETRUSAGE"
    " LONG_DOUBLE LONG_LONG LONG_LONG_INT ATOMIC MPI_WIN_CREATE MPI_SPAWN MPI_IO PTHREAD_H PTHREAD_BARRIER_INIT"
    " LONG_DOUBLE__COMPLEX MPI_INIT_THREAD FLOAT16",
)
"""The headers that the suite's ``configure`` would write."""

YIELDING = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1",
}
"""Settings of MPICH with which waiting ranks yield: more ranks than cores take a fraction of the time."""

_SKIPPED = ("lock", "strict", "xfail")
"""Tests of very many ranks, of functions that MPI has removed, and that MPICH fails."""


class Case(NamedTuple):
    """One line of a testlist."""

    directory: str
    program: str
    ranks: int
    arguments: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return " ".join((f"{self.directory}/{self.program}", str(self.ranks), *self.arguments))


def cases(sources: Path, directory: str) -> Iterator[Case]:
    """Yield the different tests of a directory; lines that differ only in settings of MPICH are the same test."""
    lists = [path for name in ("testlist", "testlist.in") if (path := sources / directory / name).exists()]
    seen = set()
    for line in re.sub(r"@\w+@", "", lists[0].read_text()).splitlines() if lists else ():
        words = line.partition("#")[0].split()
        if len(words) < 2 or not words[1].isdigit():
            continue
        options = [word.partition("=")[::2] for word in words[2:] if not word.startswith("-")]
        values = dict(options)
        arguments: list[str] = []
        arguments += [value for name, value in options if name == "arg"]
        case = Case(directory, words[0], int(words[1]), tuple(arguments), values.get("resultTest", "TestNormal"))
        if case not in seen and float(values.get("mem", 0)) <= MOST_GB and not set(_SKIPPED) & set(values):
            seen.add(case)
            yield case


def _compile(sources: Path, language: str, words: list[str]) -> str:
    """Compile with the suite's headers, and return an error, or an empty string."""
    include = [f"-I{path}" for path in (BUILT / "include", sources / "include", BUILT / "dtpools" / "include")]
    line = command_line(language, ["-g", "-O1", "-w", "-std=gnu17", *include, *words])
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return next((each for each in done.stderr.splitlines() if "error" in each or "undefined" in each), done.stderr)


def build_library(sources: Path) -> None:
    """Compile what all programs of the suite use."""
    if (BUILT / "libmtest.a").exists():
        return
    (BUILT / "include").mkdir(parents=True, exist_ok=True)
    (BUILT / "include" / "mpitestconf.h").write_text(CONFIGURED)
    (BUILT / "include" / "mtest_mpix.h").touch()
    shutil.copytree(sources / "dtpools", BUILT / "dtpools", dirs_exist_ok=True)
    (BUILT / "dtpools" / "dtpoolsconf.h").write_text("#define HAVE_MEMSET 1\n")
    util = [
        sources / "util" / f"{name}.c" for name in ("mtest", "mtest_common", "mtest_single", "run_mpitests", "dtypes")
    ]
    objects = []
    for path in [*util, *(BUILT / "dtpools" / "src").glob("*.c")]:
        objects.append(BUILT / f"{path.stem}.o")
        if error := _compile(sources, "cc", ["-c", str(path), "-o", str(objects[-1])]):
            raise SystemExit(f"{path}: {error}")
    subprocess.run(["ar", "rcs", BUILT / "libmtest.a", *objects], check=True)


def build(sources: Path, directory: str, program: str) -> str:
    """Compile a program as its ``Makefile.am`` says, and return an error, or an empty string."""
    makefile = (sources / directory / "Makefile.am").read_text().replace("\\\n", " ")

    def said(what: str) -> list[str]:
        found = re.search(rf"^{re.escape(program)}_{what}\s*=(.*)$", makefile, re.MULTILINE)
        return found[1].split() if found else []

    output = BUILT / directory / program
    if output.exists() and output.stat().st_mtime > (BUILT / "libmtest.a").stat().st_mtime:
        return ""
    files = [word for word in said("SOURCES") if word.endswith(".c")] or [f"{program}.c"]
    words = [f"-I{sources / directory}", *(word for word in said("CPPFLAGS") if word.startswith("-"))]
    words += [*(str(sources / directory / name) for name in files), "-o", str(output)]
    output.parent.mkdir(exist_ok=True)
    return _compile(sources, "cc", [*words, f"-L{BUILT}", "-lmtest", "-lm", "-lpthread"])


def run(case: Case, command: list[str], environment: dict[str, str], limit: float) -> tuple[str, str]:
    """Run a program, and return "passed", "failed" or "timeout", and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (BUILT / case.directory).resolve().iterdir():
            Path(folder, path.name).symlink_to(path)
        words = [*command, "-n", str(case.ranks), f"./{case.program}", *case.arguments]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            own = {"cwd": folder, "env": environment, "start_new_session": True}  # mpiexec may end its process group
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **own)
            status: int | None = None
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(limit)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.seek(0)
            text = output.read(100_000)
    if status is None:
        return "timeout", text
    no_errors = re.search(r"^\s*(No Errors|Test Passed|.*SKIP)", text, re.MULTILINE | re.IGNORECASE) is not None
    wanted = {"TestStatus": status != 0, "TestErrFatal": status != 0, "TestStatusNoErrors": status != 0 and no_errors}
    return "passed" if wanted.get(case.result, status == 0 and no_errors) else "failed", text


def main() -> int:
    """Run the tests, keep the outcomes in ``build/compiled-suites/outcomes.json``, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="the directory test/mpi of MPICH's sources")
    parser.add_argument("directories", nargs="*", default=DIRECTORIES.split(), help="default: %(default)s")
    parser.add_argument("--mpiexec", type=Path, help="run with this mpiexec of the standard ABI, too")
    parser.add_argument("--only", default="", help="only tests whose lines match this expression")
    parser.add_argument("--limit", type=float, default=60, help="seconds per test (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="tests at once (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/reference/compiled-suites.md")
    args = parser.parse_args()
    build_library(args.sources)
    kept = BUILT / "outcomes.json"
    outcomes: dict[str, dict[str, str]] = json.loads(kept.read_text()) if kept.exists() else {}
    sides = {"xsim": ([str(Path(sys.executable).parent / "xsim"), "run"], dict(os.environ))}
    if args.mpiexec:
        library = args.mpiexec.absolute().parent.parent / "lib"
        environment = {**os.environ, **YIELDING, "LD_LIBRARY_PATH": str(library)}
        sides["mpich"] = ([str(args.mpiexec.absolute())], environment)
    found = [case for each in args.directories for case in cases(args.sources, each) if re.search(args.only, str(case))]
    locks = {case[:2]: Lock() for case in found}

    def judge(case: Case) -> None:
        row = outcomes.setdefault(str(case), {})
        with locks[case[:2]]:
            error = build(args.sources, *case[:2])
        for side, (command, environment) in sides.items():
            if side == "mpich" and row.get(side, "not built") != "not built":
                continue
            row[side], text = ("not built", error) if error else run(case, command, environment, args.limit)
            (BUILT / f"{str(case).replace('/', '-').replace(' ', '_')[:120]}.{side}.txt").write_text(text)
            print(f"{side}: {case}: {row[side]}", flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        for _ in pool.map(judge, found):
            kept.write_text(json.dumps({case: dict(outcomes[case]) for case in sorted(outcomes)}, indent=0))
    print(suites_page.table(outcomes))
    if args.write:
        suites_page.write(outcomes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
