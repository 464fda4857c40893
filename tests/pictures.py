"""How each picture of the documentation is made, and whether it still shows what it would show today.

A picture is made by a command in an empty folder with `apps/` and with the files of the page's blocks, or, where the
runs of a study take hours, from the rows that are kept in models/studies. What it shows (data, not pixels) has a
digest, which the PNG file carries (`xsim_py.report.shown`). `make test` makes every second of those that take no more
than a few seconds, `make campaign` and `make pictures` make all.

python -m tests.pictures [NAME ...]            says which pictures show something else today
python -m tests.pictures --write [NAME ...]    makes these again
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.doc_blocks import PAGES, ROOT, blocks, prepared
from tests.study.kept import rows_file, rows_of
from xsim_py.report.shown import digest_in
from xsim_py.study import load_study, plan_runs
from xsim_py.study.results import StudyResults

PICTURES = ROOT / "docs" / "pictures"
DRAWN_BY_A_BROWSER = ("report",)
"""A page in Chromium: `make browser` looks at such pages."""

_FTCO = "xsim ftco --nodes 7 --tree kary:2 --roots single --rules paper --trace picture.png --operation"
_QUICK_SPAWN = "--set spawn.startup_per_process=0s --set spawn.startup"
_UNLIMITED = "xsim run -n {} --set network.bandwidth=unlimited --timeline picture.png"


class Made(NamedTuple):
    """How a picture is made."""

    command: str
    """For bash."""
    file: str = "picture.png"
    """What the command calls it."""
    seconds: float = 1
    """About how much CPU time that takes."""
    study: str = ""
    """Whose rows it shows."""

    @property
    def is_kept(self) -> bool:
        """True if models/studies has the rows of its study."""
        return bool(self.study) and rows_file(self.study).exists()


def _study(name: str, seconds: float, file: str = "") -> Made:
    return Made(f"xsim study {name} --quiet", f"{name}-results/{file or name}.png", seconds, name)


COMMANDS = {
    "bag-of-tasks": _study("bag-of-tasks", 90),
    "bag-of-tasks-timeline": Made(
        f"{_UNLIMITED.format(6)} --fail rank=3@1.5ms apps/bag_of_tasks.py --tasks 22 --work 1e-3"
    ),
    "compare-recovery": Made("xsim compare-recovery -n 64 --out out", "out/timelines-gige-64.png", 8),
    "compare-recovery-jobs": Made(
        "xsim compare-recovery -n 12 --timeout 1ms --failures none,1,2s --out out apps/lattice_boltzmann.py --steps 64",
        "out/timelines-gige-12.png",
        5,
    ),
    "failure-space": Made(
        "xsim explore failures -n 8 --quiet --accept 'right: True' --picture picture.png sums.py", seconds=4
    ),
    "failures": Made("xsim run -n 8 --machine shmem --timeline picture.png --fail rank=3@80us recover.py"),
    "falanx": _study("falanx", 120),
    "falanx-loss": _study("falanx-loss", 60),
    "falanx-timeline": Made(
        "xsim run -n 8 --fail rank=5@400us --fail rank=6@900us --timeline picture.png "
        "apps/falanx.py --fragments 3 --work 50e-6"
    ),
    "fampi-granularity": _study("fampi-granularity", 270),
    "fampi-timeline": Made(
        "xsim run -n 5 --fail 'rank=3 before its 11th Isend' --timeline picture.png apps/fampi.py --recovery forward "
        "--nodes 2 --tolerance 1e-2 --block 2 --work 50e-6 --corrupt 1@1"
    ),
    "ft-cg-recovery": _study("ft-cg-recovery", 300),
    "ft-cg-timeline": Made(
        "xsim run -n 5 --set spawn.startup=300us --set spawn.startup_per_process=50us --fail 'rank=3 before its 9th "
        "Allgather' --timeline picture.png apps/ft_cg.py --rows 2 --columns 3 --tolerance 1e-2 --work 50e-6"
    ),
    "ft-mlmc": Made(
        "xsim run -n 10 --fail rank=1@1ms --fail rank=6@0.7ms --timeline picture.png "
        "apps/ft_mlmc.py --units 4 --work 0.0001"
    ),
    "ft-qr": _study("ft-qr", 60),
    "ft-qr-timeline": Made(
        f"xsim run -n 5 --ft {_QUICK_SPAWN}=200us --timeline picture.png "
        "apps/ft_qr.py --block 2 --groups 1 --die 3@2 --work 50e-6"
    ),
    "ftco-bcast": Made(f"{_FTCO} bcast"),
    "ftco-data-timeout": Made(f"{_FTCO} reduce --kill 1"),
    "ftco-fig6": _study("ftco-fig6", 30),
    "ftco-fig7": _study("ftco-fig7", 40),
    "ftco-fig8": _study("ftco-fig8", 3600),
    "ftco-keepalive-timeout": Made(f"{_FTCO} reduce --kill 6"),
    "ftco-reduce": Made(f"{_FTCO} reduce"),
    "ftco-table1": _study("ftco-table1", 20),
    "lattice-boltzmann-error": _study("lattice-boltzmann-error", 30),
    "lattice-boltzmann-scale": _study("lattice-boltzmann", 180, "lattice-boltzmann-scale"),
    "lattice-boltzmann-timeline": Made(
        f"xsim run -n 6 --ft {_QUICK_SPAWN}=300us --timeline picture.png "
        "apps/lattice_boltzmann.py --columns 16 --rows 48 --steps 12 --every 4 --work 50e-6 --die 3@6"
    ),
    "lda-fig4": _study("lda-fig4", 900),
    "mlmc-fig5": _study("mlmc-fig5", 30),
    **{f"mlmc-fig6{panel}": _study("mlmc-fig6", 600, f"mlmc-fig6{panel}") for panel in "abcd"},
    "mlmc-scale": _study("mlmc-scale", 360),
    "networks": Made(
        "xsim compare --machines gige,shmem,torus3d -n 4,16,64,256 --out out apps/heat2d.py", "out/comparison.png", 8
    ),
    "pairs": Made("xsim run -n 16 --pairs picture.png apps/heat2d.py --steps 4"),
    "propagate-timeline": Made(
        f"{_UNLIMITED.format(8)} --fail rank=1@300us apps/propagate.py --laps 2 --spares 1 --work 20e-6"
    ),
    "propagation": _study("propagation", 240),
    "recovery": Made(
        "xsim run -n 8 --fail 'rank=3 before its 1st Reduce' --timeline picture.png apps/ft_shrink_barrier.py"
    ),
    "repartition": _study("repartition", 120),
    "repartition-timeline": Made(
        "xsim run -n 6 --ft --timeline picture.png "
        "apps/repartition.py --vertices 36 --tolerance 0.01 --work 10e-6 --die 3@12"
    ),
    "resilient-pde": _study("resilient-pde", 510),
    "resilient-pde-timeline": Made(
        f"{_UNLIMITED.format(8)} --fail 'rank=3 before its 2nd Send' "
        "apps/resilient_pde.py --work 1e-3 --subdomains 2 --samples 6"
    ),
    "respawn-phases": _study("respawn-phases", 20),
    "schwarz": _study("schwarz", 10),
    "sparse-grid": _study("sparse-grid", 300),
    "sparse-grid-weibull": _study("sparse-grid-weibull", 300),
    "studies": Made("xsim study sizes.yaml --quiet", "sizes-results/sizes.png", 3),
    "timeline": Made("xsim run -n 8 --timeline picture.png pipeline.py"),
    "waits": Made("xsim run -n 4 --waits picture.png pipeline.py"),
    "wang-landau": _study("wang-landau", 360),
    "wang-landau-timeline": Made(
        f"xsim run -n 8 {_QUICK_SPAWN}=15ms --fail rank=3@27ms --timeline picture.png "
        "apps/wang_landau.py --walkers 4 --rounds 4 --checks 4 --steps 3 --tolerance 99 --ln-f 9 --work 0.01"
    ),
    **{name: _study(name, 600) for name in ("xsim-fig1", "xsim-fig2", "xsim-fig3")},
}
CHEAP_S = 2
"""The CPU time up to which a picture is made in `make test`."""


def names() -> list[str]:
    """Return the pictures of the documentation."""
    return sorted(path.stem for path in PICTURES.glob("*.png"))


def is_cheap(name: str) -> bool:
    """Return True if a picture is made in few seconds."""
    return COMMANDS[name].is_kept or COMMANDS[name].seconds <= CHEAP_S


def together(wanted: Iterable[str]) -> list[list[str]]:
    """Return the pictures that one command makes, for each command, the quickest first."""
    of: dict[str, list[str]] = {}
    for name in sorted(wanted, key=_cost):
        of.setdefault(COMMANDS[name].command, []).append(name)
    return list(of.values())


def make(wanted: Sequence[str], folder: Path) -> dict[str, Path]:
    """Make the pictures of one command in an empty folder, and return their files."""
    if COMMANDS[wanted[0]].is_kept:
        _draw_rows(COMMANDS[wanted[0]].study, folder)
        return {name: folder / Path(COMMANDS[name].file).name for name in wanted}
    command, environment = COMMANDS[wanted[0]].command, prepared(folder)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if any(f"pictures/{name}.png" in text for name in wanted):
            for block in blocks(text):
                if block.file is not None and f" {block.file}" in command:
                    (folder / block.file).write_text(block.body, encoding="utf-8")
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    files = {name: folder / COMMANDS[name].file for name in wanted}
    for file in files.values():
        if not file.exists():
            raise SystemExit(f"{command}: makes no {file.relative_to(folder)}\n{done.stdout}{done.stderr}")
    return files


def _draw_rows(name: str, folder: Path) -> None:
    """Draw the pictures of a study from the rows that are kept of it."""
    spec = load_study(name)
    planned, outcomes = plan_runs(spec), {}
    for run in planned:
        columns = {column: str(value) for column, value in run.columns.items()}
        for row in rows_of(name):
            if all(columns[column] == row[column] for column in columns if column in row):
                numbers = {key: float(text) for key, text in row.items() if text and re.fullmatch(r"[-\d.e+]+", text)}
                errors = {key: [numbers[f"{key}_stderr"]] for key in numbers if f"{key}_stderr" in numbers}
                outcome = {"ended": "finished", "exit_status": 0, "captured": numbers, "spread": errors}
                outcomes[run.key] = outcome | numbers
    results = StudyResults(spec, planned, outcomes)
    assert not results.missing
    results.draw_all(folder)


def stale(wanted: Sequence[str], *, write: bool = False) -> list[str]:
    """Return what is wrong with pictures of one command: each shows something else today, or has no digest."""
    was = {name: digest_in(PICTURES / f"{name}.png") for name in wanted}
    never = [_wrong(name, "was never drawn with a digest of what it shows") for name in wanted if was[name] is None]
    if never and not write:  # to make it would take minutes, and tell nothing
        return never
    with tempfile.TemporaryDirectory() as told:
        (folder := Path(told) / "page").mkdir()
        others = {name: file for name, file in make(wanted, folder).items() if digest_in(file) != was[name]}
        if write:
            for name, file in others.items():
                (PICTURES / f"{name}.png").write_bytes(file.read_bytes())
    return never + [_wrong(name, "shows something else today") for name in others if was[name] is not None]


def _wrong(name: str, what: str) -> str:
    return f"docs/pictures/{name}.png {what}: python -m tests.pictures --write {name}"


def main() -> None:
    """Say which pictures are stale, and make them again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--write", action="store_true", help="put today's into the documentation")
    parser.add_argument("--cheap", action="store_true", help="only those that take few seconds each")
    parser.add_argument("--jobs", type=int, default=1, help="at once")
    options = parser.parse_args()
    for name in options.names:
        if name not in COMMANDS:
            parser.error(f"{name}: no command here makes such a picture; known are {', '.join(sorted(COMMANDS))}")
    wanted = options.names or [name for name in names() if name not in DRAWN_BY_A_BROWSER]
    wanted = [name for name in wanted if is_cheap(name) or not options.cheap]
    found = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for said in pool.map(lambda names: stale(names, write=options.write), together(wanted)):
            found = found or bool(said)
            print(*said, sep="\n", end="\n" if said else "", flush=True)
    sys.exit(found and not options.write)


def _cost(name: str) -> float:
    return 0 if COMMANDS[name].is_kept else COMMANDS[name].seconds


if __name__ == "__main__":
    main()
