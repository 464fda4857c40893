"""Runs of programs of apps/ under the real Open MPI with ULFM, recorded, and repeated in the simulator.

`python -m tests.apps.real [NAME...]` makes the runs of `RUNS` again, and says what is not as recorded; with --write it
records them in tests/apps/expected. A record holds every line that was printed, without repetitions and in order of the
alphabet, for after the death of who printed a result another may print it again. Lines that begin with `#` or `time:`
tell of times, and are left out. As in tests/real_ulfm.py, what mpirun itself says and returns means nothing.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.cases import ROOT
from tests.real_ulfm import ENVIRONMENT, MPIRUN, OPENMPI, OPTIONS

APPS, EXPECTED = ROOT / "apps", Path(__file__).parent / "expected"
TIME_LIMIT_S = 40  # it takes a few seconds, and may hang in MPI_Finalize
# Each process has a file of its own, for mpirun may cut and mix lines; those that are started later print nothing here.
TO_FILES = 'exec "$0" "$@" >"$FOLDER/$PMIX_RANK.out"'


class RealRun(NamedTuple):
    """A program, a number of ranks and arguments, of which there is a record."""

    app: str
    ranks: int
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join([self.app, str(self.ranks), *self.args])

    @property
    def record(self) -> Path:
        """The file with what the real MPI printed."""
        return EXPECTED / f"{self}.txt"

    def real(self) -> list[str]:
        """Run it under mpirun, and return its lines; a process that hangs in its end is ended."""
        with tempfile.TemporaryDirectory() as name:
            program = ["sh", "-c", TO_FILES, str(OPENMPI / "python"), str(APPS / f"{self.app}.py"), *self.args]
            launched = subprocess.Popen(
                [MPIRUN, *OPTIONS, "-n", str(self.ranks), *program],
                env={**ENVIRONMENT, "FOLDER": name},
                cwd=name,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            try:
                later, _ = launched.communicate(timeout=TIME_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(launched.pid, signal.SIGKILL)
                later, _ = launched.communicate()
            texts = [path.read_text(encoding="utf-8") for path in Path(name).glob("*.out")]
        return lines_of([*texts, later])


def lines_of(texts: Iterable[str]) -> list[str]:
    """Return the lines that a record holds."""
    lines = {line.rstrip() for text in texts for line in text.splitlines()}
    return sorted(line for line in lines if line and not line.startswith(("#", "time:")))


RUNS = [
    RealRun("ft_cg", 8),
    RealRun("ft_cg", 8, ("--die", "3@20", "--die", "4@20")),
    RealRun("ft_cg", 8, ("--recovery", "rollback", "--die", "3@25")),
    RealRun("ft_cg", 8, ("--recovery", "lossy", "--solver", "lanczos", "--die", "3@2")),
    RealRun("ft_cg", 8, ("--recovery", "restart", "--solver", "power", "--die", "0@7")),
    RealRun("fampi", 8),
    RealRun("fampi", 8, ("--die", "3@20")),
    RealRun("fampi", 8, ("--corrupt", "1@12", "--stall", "2@30", "--timeout", "0.5")),
    RealRun("fampi", 8, ("--recovery", "forward")),
    RealRun("fampi", 8, ("--recovery", "forward", "--die", "3@20", "--die", "4@20", "--corrupt", "1@12")),
    RealRun("ft_replace", 6),
    RealRun("ft_replace", 6, ("--die", "2@7")),
    RealRun("ft_replace", 6, ("--die", "2@7", "--die", "4@7")),
    *(
        RealRun("liveness", 8, ("--variant", variant, *(word for rank in dead for word in ("--die", rank))))
        for variant in ("naive", "legio", "repaired", "safe")
        for dead in ("", "25", "046", "01235")
    ),
    RealRun("liveness", 7, ("--variant", "legio", *(word for rank in "01234" for word in ("--die", rank)))),
    RealRun("lattice_boltzmann", 8),
    RealRun("lattice_boltzmann", 8, ("--die", "3@20")),
    RealRun("lattice_boltzmann", 6, ("--die", "3@64", "--die", "4@64", "--average", "block")),
    RealRun("lattice_boltzmann", 5, ("--die", "0@100", "--recovery", "buddy")),
    RealRun("ft_qr", 8),
    RealRun("ft_qr", 8, ("--die", "3@5")),
    RealRun("ft_qr", 6, ("--die", "0@4", "--recovery", "buddy")),
    RealRun("ft_qr", 6, ("--die", "1@4", "--die", "4@4")),
    RealRun("repartition", 8),
    RealRun("repartition", 8, ("--die", "5@20")),
    RealRun("repartition", 7, ("--die", "0@12", "--die", "3@41", "--recovery", "initial")),
    RealRun("repartition", 6, ("--mesh", "chain", "--die", "1@20")),
    RealRun("lattice_boltzmann", 4, ("--die", "0@8", "--die", "1@8", "--recovery", "buddy")),
    RealRun("bag_of_tasks", 6),
    RealRun("bag_of_tasks", 6, ("--die", "3@1", "--die", "5@0")),
    RealRun("bag_of_tasks", 4, ("--die", "1@0", "--die", "2@0", "--die", "3@0")),
    RealRun("bag_of_tasks", 6, ("--die", "0@20")),
    RealRun("netpipe", 4, ("--largest", "4096")),
    RealRun("netpipe", 4, ("--largest", "4096", "--die", "3@512")),
    RealRun("propagate", 6),
    RealRun("propagate", 6, ("--die", "1@1", "--work", "1e-3")),
    RealRun("propagate", 6, ("--die", "0@1", "--die", "1@1", "--die", "4@3")),
    RealRun("schwarz", 8),
    RealRun("schwarz", 8, ("--die", "2@5")),
    RealRun("schwarz", 8, ("--die", "2@5", "--die", "3@9")),
    RealRun("schwarz", 8, ("--subdomains", "2", "--synchronous", "--die", "1@20")),
    RealRun("resilient_pde", 8),
    RealRun("resilient_pde", 8, ("--die", "3@0", "--die", "5@1")),
    RealRun("resilient_pde", 8, ("--recovery", "again", "--die", "1@0", "--die", "2@1")),
    RealRun("resilient_pde", 8, ("--die", "1@0", "--die", "2@0", "--die", "3@0")),
    RealRun("resilient_pde", 8, ("--die", "4@9")),
    RealRun("sparse_grid", 8),
    RealRun("sparse_grid", 8, ("--die", "2@7")),
    RealRun("sparse_grid", 8, ("--recovery", "ac", "--die", "2@7", "--die", "5@3")),
    RealRun("sparse_grid", 8, ("--recovery", "cr", "--die", "1@7")),
    RealRun("sparse_grid", 12, ("--die", "1@7")),
    RealRun("falanx", 8),
    RealRun("falanx", 8, ("--die", "5@1")),
    RealRun("falanx", 8, ("--die", "5@1", "--die", "2@9", "--die", "6@3")),
    RealRun("falanx", 8, ("--die", "0@5")),
    RealRun("ft_mlmc", 8),
    RealRun("ft_mlmc", 10, ("--die", "2@5")),
    RealRun("ft_mlmc", 10, ("--die", "6@9", "--die", "7@9")),
    RealRun("ft_mlmc", 8, ("--save", "intermediate", "--work", "0.01")),
    RealRun("ft_mlmc", 8, ("--save", "intermediate", "--work", "0.01", "--die", "0@9", "--die", "4@5")),
    RealRun("wang_landau", 8),
    *(
        RealRun("wang_landau", ranks, ("--walkers", "100", "--tolerance", "0.5", "--ln-f", "1e-4", *deaths))
        for ranks, deaths in (
            (8, ("--die", "3@20")),
            (9, ("--die", "0@10", "--die", "5@60", "--die", "8@119")),
            (8, ("--die", "2@20", "--die", "3@40")),  # window 1 is connected anew
            (8, ("--die", "2@20", "--die", "3@20", "--patience", "3")),
        )
    ),
]


def main() -> None:
    """Compare with the records, or make them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these programs or runs")
    parser.add_argument("--write", action="store_true", help="write the records")
    arguments = parser.parse_args()
    differ = 0
    for run in RUNS:
        if arguments.names and not {run.app, str(run)} & {*arguments.names}:
            continue
        lines = run.real()
        if arguments.write:
            EXPECTED.mkdir(exist_ok=True)
            run.record.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            print(f"{run}: {len(lines)} lines")
        elif lines != run.record.read_text(encoding="utf-8").splitlines():
            differ += 1
            print(f"{run}: differs", *(f"  {line}" for line in lines), sep="\n")
    sys.exit(min(differ, 1))


if __name__ == "__main__":
    main()
