"""Programs that must come to the same in processes of their own as with greenlets: all that can be seen of a run.

python -m tests.isolated [WORD ...]     runs each in every way, or those with such a word in their name
"""

import argparse
import io
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.cases import ROOT, all_cases, largest_cases
from tests.ulfm_cases import VARIANTS, runs
from xsim_py import simulate

WAYS = ("process", "process:3")
APPS = ROOT / "apps"
STORAGE = {"storage.latency": "3us", "storage.bandwidth": "8Gbps"}
LINKS = {"network.contention": "links"}
MACHINES: dict[str, dict[str, Any]] = {
    "gige": {"machine": "gige"},
    "shmem": {"machine": "shmem"},
    "torus3d": {"machine": "torus3d", "set": {"machine.cores_per_node": "2"}},
    "links": {"machine": "torus3d", "set": LINKS},
    "storage": {"set": STORAGE},
}
HEARTBEAT = {"mpi.detector.type": "heartbeat", "mpi.detector.period": "100us", "mpi.detector.timeout": "300us"}
SCHEMES = ("ftco", "ulfm", "restart")
HEAT = ["--nx", "13", "--ny", "17", "--steps", "12"]


class Program(NamedTuple):
    """What to simulate, and how; see `xsim_py.simulate`."""

    name: str
    path: Any
    options: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def seen(program: Program, **options: Any) -> dict[str, Any]:
    """Everything that a run shows, by name."""
    stdout, stderr = io.StringIO(), io.StringIO()
    result = simulate(program.path, stdout=stdout, stderr=stderr, **{**program.options, **options})
    names = ("digest", "ended", "exit_status", "virtual_time_exact_s", "events", "failures", "report", "warnings")
    tables = {f"table {name}": str(table.columns) for name, table in result.tables.items()}
    trace = io.StringIO()
    if result.trace is not None:
        result.to_perfetto(trace)
    streams = {"stdout": stdout.getvalue(), "stderr": stderr.getvalue(), "trace": trace.getvalue()}
    return {name: getattr(result, name) for name in names} | tables | streams


def differences(program: Program, way: str) -> list[str]:
    """What of a run is not the same in another way."""
    one, other = seen(program), seen(program, isolation=way)
    return [
        f"{name}: {one.get(name)!r:.2000} with greenlets, {other.get(name)!r:.2000} with {way}"
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def programs() -> Iterator[Program]:
    """All of them."""
    for case in largest_cases(all_cases()):
        for name, machine in MACHINES.items():
            options = {**machine, "ranks": case.ranks, "args": case.args}
            if (case.path.stem, name) == ("io_errors", "storage"):
                continue  # it ends with an error that names a temporary folder
            yield Program(f"{case}-{name}", case.path, options)
    for case, variant in runs():
        options = {"ranks": case.ranks, "args": case.args, "ft": True, "set": VARIANTS[variant]}
        yield Program(f"{case}-{variant}", case.path, options)
    yield from _apps()


def _apps() -> Iterator[Program]:
    """Example programs with more of what a run can have."""
    for name, machine in MACHINES.items():
        yield Program(f"heat2d.traced-{name}", APPS / "heat2d.py", {**machine, "ranks": 4, "args": HEAT, "trace": True})
        dying = {"fail": ["rank=2@5ms", "rank=5 before its 3rd call"], "ft": True}
        yield Program(f"heat2d.failing-{name}", APPS / "heat2d.py", {**machine, **dying, "ranks": 8, "args": HEAT})
        dying = {"fail": ["rank=4 before its 3rd call"], "ft": True}
        for scheme in SCHEMES:
            options = {**machine, **dying, "ranks": 9, "args": ["--scheme", scheme]}
            yield Program(f"allreduce_loop.{scheme}-{name}", APPS / "allreduce_loop.py", options)
        again = {"fail": ["rank=1@1ms"], "restart": "on-abort,delay=1ms", "label": True}
        yield Program(f"ring.restarted-{name}", APPS / "ring.py", {**machine, **again, "ranks": 5})
    for name in ("ft_agree", "ft_replace", "ft_shrink_barrier"):
        for detector in ({}, HEARTBEAT):
            dying = {"fail": ["rank=1@500us"], "ft": True, "set": detector}
            yield Program(f"{name}.{len(detector)}", APPS / f"{name}.py", {**dying, "ranks": 6})
    for way in ("messages", "arrays"):
        yield Program(f"heat2d.{way}", APPS / "heat2d.py", {"ranks": 6, "args": HEAT, "collectives": way})
    for name in ("ring", "heat2d", "samplesort"):
        yield Program(f"{name}.64", APPS / f"{name}.py", {"ranks": 64, "machine": "torus3d"})
    yield Program("ring.256", APPS / "ring.py", {"ranks": 256, "machine": "torus3d"})


def large() -> Iterator[tuple[Program, str]]:
    """Some that are too large for a process a rank."""
    yield Program("ring.1000", APPS / "ring.py", {"ranks": 1000, "machine": "torus3d"}), "process:100"
    yield Program("pi.3000", APPS / "pi.py", {"ranks": 3000, "args": ["--samples", "5000"]}), "process:999"


def main() -> None:
    """Run them in every way, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    words = parser.parse_args().words
    found = 0
    for program, way in [*((each, way) for each in programs() for way in WAYS), *large()]:
        if not words or any(word in program.name for word in words):
            differs = differences(program, way)
            found += bool(differs)
            print(program, way, *(differs or ["same"]), sep="\n  " if differs else " ", flush=True)
    sys.exit(min(found, 1))


if __name__ == "__main__":
    main()
