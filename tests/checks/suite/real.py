"""Runs the programs without a mistake under a real MPI: each must come to its end with status 0.

python -m tests.checks.suite.real [--mpiexec PATH] [NAME ...]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.checks.suite.programs import Program, all_programs
from tests.real_mpi import BATCH, ENVIRONMENT, MPIEXEC

LIMIT_S, ALONE_LIMIT_S = 120, 30


def launch(launcher: list[str], batch: list[Program], limit_s: float) -> dict[str, str]:
    """Run programs one after the other in one job, and return what is wrong with those that have come to their end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = [[str(program.write(folder / program.name)), []] for program in batch]
        (folder / "jobs.json").write_text(json.dumps([*jobs, *jobs[:1]] if len(jobs) == 1 else jobs))
        command = [*launcher, "-n", str(batch[0].ranks), _python(launcher), str(BATCH), str(folder)]
        done = subprocess.Popen(
            command, cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            done.wait(limit_s)
        except subprocess.TimeoutExpired:
            done.terminate()
            done.wait()
        return dict(_wrongs(folder, batch))


def _environment() -> dict[str, str]:
    return {**ENVIRONMENT, "OMPI_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PATH": os.environ["PATH"]}


def _python(launcher: list[str]) -> str:
    beside = Path(launcher[0]).parent / "python"
    return str(beside) if beside.exists() else sys.executable


def _wrongs(folder: Path, batch: list[Program]) -> Iterator[tuple[str, str]]:
    for job, program in enumerate(batch):
        statuses = [path.read_text() for path in folder.glob(f"{job}.*.status")]
        if len(statuses) < program.ranks:
            continue
        errors = [line for path in folder.glob(f"{job}.*.err") for line in path.read_text().splitlines()[-1:]]
        yield program.name, "" if set(statuses) == {"0"} else f"statuses {', '.join(statuses)}: {'; '.join(errors)}"


def failing(launcher: list[str], programs: list[Program]) -> dict[str, str]:
    """Return the programs that do not come to an orderly end, and what was seen of them."""
    by_ranks: dict[int, list[Program]] = defaultdict(list)
    for program in programs:
        by_ranks[program.ranks].append(program)
    wrong: dict[str, str] = {}
    for same in by_ranks.values():
        for first in range(0, len(same), 60):
            batch = same[first : first + 60]
            seen = launch(launcher, batch, LIMIT_S)
            for program in batch:
                if seen.get(program.name, "no end"):
                    seen |= launch(launcher, [program], ALONE_LIMIT_S)
                if seen.get(program.name, "no end"):
                    wrong[f"{program.name} ({program.ranks} ranks)"] = seen.get(program.name, "no end")
    return wrong


def main() -> int:
    """Run them all, and list those that do not end well."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.suite.real", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only programs whose names contain one of these")
    parser.add_argument("--mpiexec", default=str(MPIEXEC), help="the launcher; its python is taken, too")
    arguments = parser.parse_args()
    names = arguments.names
    programs = [each for each in all_programs() if each.is_correct and not each.fail]
    programs = [each for each in programs if not names or any(name in each.name for name in names)]
    wrong = failing(arguments.mpiexec.split(), programs)
    for name, said in wrong.items():
        print(f"{name}: {said}")
    print(f"{len(programs)} programs, {len(wrong)} of them do not end well")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
