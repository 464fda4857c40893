"""What a real MPI, the MPICH of the package index, makes of the programs of tests/cases.py.

`python -m tests.real_mpi` runs them all and says what differs from tests/programs/expected; with --write it records.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.cases import EXPECTED, Case, Outcome, all_cases

MPIEXEC = Path(sys.executable).parent / "mpiexec"
BATCH = Path(__file__).parent / "real_mpi_batch.py"
TIME_LIMIT_S = 300
# MPICH 5.0 itself stands still in one of eight runs of three processes in which several threads call collectives.
ALONE_LIMIT_S, ATTEMPTS = 30, 6
# More ranks than cores: no thread of numpy's may spin besides.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def mpiexec(ranks: int, *command: str | Path, limit_s: int = TIME_LIMIT_S) -> subprocess.CompletedProcess[str]:
    """Run a Python command on real MPI ranks."""
    line = [MPIEXEC, "-n", str(ranks), sys.executable, *command]
    return subprocess.run(
        line, env=ENVIRONMENT, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL
    )


def run_real(cases: Sequence[Case]) -> dict[Case, Outcome]:
    """Run all cases under the real MPI, in few launches."""
    batches: dict[object, list[Case]] = defaultdict(list)
    for case in cases:
        batches[case if case.alone else case.ranks].append(case)
    outcomes: dict[Case, Outcome] = {}
    for batch in batches.values():
        outcomes |= _launch(batch)
    for case in cases:  # whatever a crash in the same batch has hidden
        if case not in outcomes:
            outcomes |= _launch([case])
    return outcomes


def differing(cases: Sequence[Case]) -> dict[Case, tuple[Outcome, Outcome | None]]:
    """Of the cases that are not as recorded, what the real MPI makes of them and the record, if there is one."""
    records = {case: Outcome.recorded(case) if case.record.exists() else None for case in cases}
    return {case: (found, records[case]) for case, found in run_real(cases).items() if found != records[case]}


def _launch(batch: list[Case]) -> dict[Case, Outcome]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "jobs.json").write_text(json.dumps([[str(case.path), case.args] for case in batch]))
        status = -1
        alone = len(batch) == 1
        for _ in range(ATTEMPTS if alone else 1):
            with suppress(subprocess.TimeoutExpired):
                limit_s = ALONE_LIMIT_S if alone else TIME_LIMIT_S
                status = mpiexec(batch[0].ranks, BATCH, folder, limit_s=limit_s).returncode
                break
        if len(batch) == 1:
            return {batch[0]: _outcome(folder, 0, batch[0], status)}
        return {
            case: _outcome(folder, job, case, max(statuses))
            for job, case in enumerate(batch)
            if len(statuses := _statuses(folder, job)) == case.ranks
        }


def _statuses(folder: Path, job: int) -> list[int]:
    return [int(path.read_text() or -1) for path in folder.glob(f"{job}.*.status")]


def _outcome(folder: Path, job: int, case: Case, status: int) -> Outcome:
    files = [folder / f"{job}.{rank}.out" for rank in range(case.ranks)]
    return Outcome.of(case, "\n".join(file.read_text(encoding="utf-8") for file in files if file.exists()), status)


def main() -> None:
    """Compare with the records, or make them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these programs")
    parser.add_argument("--write", action="store_true", help="write the records")
    arguments = parser.parse_args()
    cases = [case for case in all_cases() if not arguments.names or case.path.stem in arguments.names]
    EXPECTED.mkdir(exist_ok=True)
    if arguments.write and not arguments.names:
        for old in EXPECTED.glob("*.txt"):
            old.unlink()
    if arguments.write:
        for case, outcome in run_real(cases).items():
            case.record.write_text(outcome.as_text(), encoding="utf-8")
    else:
        for case in differing(cases):
            print(f"{case} differs from its record")


if __name__ == "__main__":
    main()
