"""mpi4py's demonstration programs, and what a real MPI makes of them.

Those that need no compiler, no graphics, no GPU and no network. ``python -m tests.conformance.demos`` runs them under
the real MPI beside this Python and says what differs from the records; with ``--write`` it records.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.conformance.suite import suite

RECORDED = Path(__file__).with_name("demos.json")
OSU = Path(__file__).with_name("osu.py")


class Demo(NamedTuple):
    """One program on a number of ranks; `module` is what runs it, as ``python -m``."""

    path: str
    ranks: int
    args: str = ""
    stdin: str = ""
    module: str = ""

    def __str__(self) -> str:
        return " ".join([*self.module.split(), self.path, *self.args.split(), f"n{self.ranks}"])

    @property
    def folder(self) -> Path:
        """Where it is run."""
        return (suite().parent / "demo" / self.path).parent

    def command(self) -> list[str]:
        """The program and its arguments."""
        if self.path.startswith("osu_"):
            return [str(OSU), str(self.folder), self.path.removesuffix(".py")]
        if self.path.startswith("spawning"):
            _make_worker(self.folder)
        program = str(self.folder / Path(self.path).name)
        return [*(["-m", self.module] if self.module else []), program, *self.args.split()]


def _make_worker(folder: Path) -> None:
    """What `make` does in the folder: the worker becomes a program that can be started by its name."""
    worker = folder / "cpi-worker-py.exe"
    worker.write_text(f"#!{sys.executable}\n" + (folder / "cpi-worker.py").read_text())
    worker.chmod(0o755)


_OPTIONS = (
    "threads=true", "threads=false", "thread_level=single", "thread_level=funneled", "thread_level=serialized",
    "thread_level=multiple", "fast_reduce=true", "fast_reduce=false", "recv_mprobe=true", "recv_mprobe=false",
    "irecv_bufsz=0", "irecv_bufsz=1", "irecv_bufsz=1024", "errors=exception",
    "errors=default", "errors=abort", "errors=fatal",
)  # fmt: skip
_REFERENCE = ("2.01", "2.08", "2.16", "2.29", "2.32", "2.34", "2.35", *(f"3.{i:02}" for i in range(1, 14) if i != 10))
_OSU = ("allgather", "alltoall", "alltoallv", "barrier", "bcast", "gather", "multi_lat", "scatter")
DEMOS = [
    Demo("helloworld.py", 5),
    Demo("compute-pi/cpi-cco.py", 5, stdin="100\n"),
    Demo("compute-pi/cpi-rma.py", 5, stdin="100\n"),
    Demo("compute-pi/cpi-dpm.py", 1, "5", stdin="100\n"),
    Demo("mandelbrot/mandelbrot.py", 7),
    Demo("mandelbrot/mandelbrot-seq.py", 1),
    Demo("profiling/ring.py", 5),
    Demo("profiling/cpi.py", 5, stdin="100\n"),
    Demo("reductions/test_reductions.py", 5, "-q"),
    Demo("sequential/test_seq.py", 5),
    Demo("test-run/run-script.py", 3),
    Demo("threads/sendrecv.py", 1),
    Demo("spawning/cpi-master.py", 1, "./cpi-worker-py.exe"),
    *(Demo(f"futures/run_{name}.py", 1) for name in ("cpi", "hello")),
    *(Demo(f"futures/run_{name}.py", 5, module="mpi4py.futures") for name in ("cpi", "hello")),
    *(Demo("futures/test_futures.py", ranks, module=module) for module in ("", "mpi4py.futures") for ranks in (1, 2)),
    *(Demo(f"nxtval/nxtval-{name}.py", 5) for name in ("threads", "dynproc", "onesided", "scalable", "mpi3")),
    *(Demo(f"mpi-ref-v1/ex-{number}.py", 2) for number in _REFERENCE),
    *(Demo("init-fini/test_0.py", 2, option) for option in _OPTIONS),
    *(Demo(f"init-fini/test_{name}.py", 2) for name in ("1", "2", "3", "4", "5", "6", "mpi40")),
    *(Demo(f"osu_{name}.py", 4) for name in _OSU),
    *(Demo(f"osu_{name}.py", 2) for name in ("bibw", "bw", "latency")),
]


class Outcome(NamedTuple):
    """What a run printed, in an order that does not depend on time, and its exit status."""

    status: int
    lines: list[str]

    @classmethod
    def of(cls, demo: Demo, text: str, status: int) -> Outcome:
        """Take the text of a run, and drop its times and the machine's names."""
        text = text.replace(f"{demo.folder}{os.sep}", "")
        lines = text.replace("Hello,", "\nHello,").splitlines()  # of many writers, whose line ends come late
        if demo.path.startswith("osu_"):
            lines = [re.sub(r"(?<=\d)\s+[\d.]+$| *\d+\.\d+$", " ...", line) for line in lines]
        lines = [re.sub(r"\d[-\d.e]* seconds", "... seconds", line) for line in lines]
        lines = [re.sub(r"(?<=\.\d{12})\d+", "...", line) for line in lines]  # sums in another order
        lines = [re.sub(r" on \S+\.\0*$", " on ...", line) for line in lines]
        lines = [re.sub(r"\s+", " ", line).strip() for line in lines]
        return cls(int(status != 0), sorted(line for line in lines if line))


def recorded() -> dict[str, Outcome]:
    """What a real MPI made of them."""
    return {name: Outcome(status, lines) for name, (status, lines) in json.loads(RECORDED.read_text()).items()}


def run(launcher: list[str], demo: Demo) -> Outcome:
    """Run a program by a launcher, in which ``{ranks}`` stands for how many there are."""
    command = demo.command()
    words = [word.format(ranks=demo.ranks) for word in launcher]
    done = subprocess.run(
        [*words, *command],
        input=demo.stdin,
        capture_output=True,
        text=True,
        cwd=demo.folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
        timeout=300,
        check=False,
    )
    return Outcome.of(demo, done.stdout, done.returncode)


def main() -> None:
    """Compare a real MPI with the records, or make them."""
    launcher = [str(Path(sys.executable).parent / "mpiexec"), "-n", "{ranks}", sys.executable]
    real = {str(demo): run(launcher, demo) for demo in DEMOS}
    if sys.argv[1:] == ["--write"]:
        RECORDED.write_text(json.dumps(real, indent=1) + "\n")
        return
    for name, outcome in real.items():
        if recorded().get(name) != outcome:
            print(f"{name} differs from its record")


if __name__ == "__main__":
    main()
