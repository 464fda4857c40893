"""Prints the digest of every program of tests/cases.py, as JSON: in a process of its own, or on real MPI ranks.

python -m tests.simulated [--shards K] [NAME ...]
mpiexec -n 2 python -m tests.simulated
"""

import argparse
import io
import json
import os
import sys
from typing import Any

from tests.cases import Case, Outcome, all_cases, largest_cases
from xsim_py import simulate
from xsim_py.report import Result


def run_simulated(case: Case, **options: Any) -> tuple[Outcome, Result]:
    """Simulate a case on the default machine."""
    stdout, stderr = io.StringIO(), io.StringIO()
    result = simulate(case.path, ranks=case.ranks, args=case.args, stdout=stdout, stderr=stderr, **options)
    return Outcome.of(case, stdout.getvalue(), result.exit_status), result


def digest_of(case: Case, *, shards: int = 1) -> str:
    """Return the digest of one simulated run."""
    return str(run_simulated(case, shards=shards)[1].digest)


def main() -> None:
    """Simulate the programs in turn; of several processes the first prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these programs")
    parser.add_argument("--shards", type=int, default=1)
    arguments = parser.parse_args()
    cases = [case for case in largest_cases(all_cases()) if not arguments.names or case.path.stem in arguments.names]
    digests = {str(case): digest_of(case, shards=arguments.shards) for case in cases}
    if os.environ.get("PMI_RANK", "0") == "0":
        json.dump(digests, sys.stdout)


if __name__ == "__main__":
    main()
