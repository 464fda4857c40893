"""Programs in Python, here and with the real mpi4py on our C library.

The command is ``python -m tests.compiled.differential``.

The programs are those of tests/cases.py. Each is run twice with `xsim run`: as a Python program, and as an argument of
the Python interpreter, which is a compiled program. Times, messages, bytes, the exit status and the lines that are
printed must be equal. So must the digest, unless the program sends objects, whose content is in the digest only if they
are sent as bytes, as the real mpi4py does. Standard output is part of it, and is cut differently by the two; so the
programs print on standard error.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cases import Case, all_cases, largest_cases
from tests.conformance.suite import COMPILED, build_compiled, download

PRINTING_ON_STDERR = """
import os, runpy, sys
sys.stdout = sys.stderr
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
COMPARED = "virtual_time_exact_s", "messages", "bytes", "exit_status"


def run(case: Case, words: list[str], environment: Mapping[str, str], limit_s: float) -> dict[str, Any]:
    """Run a program, and return its result and what it printed, in an order that does not depend on time."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "printing.py")
        script.write_text(PRINTING_ON_STDERR)
        command = [str(Path(sys.executable).parent / "xsim"), "run", "-n", str(case.ranks), "--quiet"]
        command += ["--json", "result.json", "--wall-limit", f"{limit_s}s", *words, str(script), str(case.path)]
        done = subprocess.run(
            [*command, *case.args], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        result = json.loads(Path(folder, "result.json").read_text())
    found = {key: result[key] for key in COMPARED}
    found["digest"] = result["digest"]
    found["lines"] = sorted(line for line in done.stderr.splitlines() if not line.startswith(("xsim:", " ", "rank ")))
    return found


def main() -> int:
    """Run the programs, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only programs whose names contain this")
    parser.add_argument("--limit", type=float, default=120, help="seconds per run (default: %(default)s)")
    args = parser.parse_args()
    download()
    build_compiled()
    real = {**os.environ, "PYTHONPATH": str(COMPILED)}
    cases = [case for case in largest_cases(all_cases()) if args.only in str(case)]
    equal = same_digest = 0
    for case in cases:
        ours = run(case, [], os.environ, args.limit)
        theirs = run(case, [sys.executable], real, args.limit)
        same_digest += ours.pop("digest") == theirs.pop("digest")
        different = [key for key in ours if ours[key] != theirs[key]]
        equal += not different
        print(f"{case}: {', '.join(different) or 'equal'}", flush=True)
        for key in different:
            print(f"    {key}: {ours[key]} here, {theirs[key]} with the real mpi4py", flush=True)
    print(f"{equal} of {len(cases)} are equal, {same_digest} also in the digest")
    return int(equal < len(cases))


if __name__ == "__main__":
    raise SystemExit(main())
