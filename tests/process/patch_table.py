"""The page docs/reference/patched.md: how names of Python's standard library behave in a rank.

It is generated from the tables of replaced names (`PATCHED` in the files of xsim_py/process).

python -m tests.process.patch_table --write     updates the page
"""

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import xsim_py.process
from xsim_py import simulate
from xsim_py.process.files import file_calls
from xsim_py.process.ranks import patches
from xsim_py.process.ranks.patches import Patches, Wrapper

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "patched.md"
MARKS = ("<!-- the tables are written by `python -m tests.process.patch_table --write` -->\n", "<!-- end of tables -->")
KINDS = ("virtual", "private", "refused", "watched", "real")
REAL = {
    "subprocess.Popen": "Starts a real child process, with the rank's environment. The child takes no virtual time.",
    "os.waitpid": "Waits for a real child process. Virtual time does not advance, but other threads of the rank run.",
    "multiprocessing.Process": "Starts a real child process, outside the simulation. Choose the start method `fork`.",
    "concurrent.futures.ProcessPoolExecutor": "Starts real child processes; real threads supply them with tasks.",
    "os.times": "Returns the CPU time of the simulator.",
    "resource.getrusage": "Returns the usage of the simulator with all ranks. `resource.setrlimit` limits this usage.",
    "os.getppid": "Returns the process ID of the simulator's parent.",
    "os.cpu_count": "Returns the number of processors of the host, not of a simulated node.",
    "socket.gethostname": "Returns the name of the host. `MPI.Get_processor_name()` names the simulated node.",
    "uuid.uuid1": "Uses the real time. `uuid.uuid4` uses `os.urandom`, so its result follows from the seed of the run.",
    "secrets.token_bytes": "Uses `os.urandom`, so its result follows from the seed of the run.",
    "ssl.RAND_bytes": "Returns real random bytes, which differ in each run.",
    "threading.Thread.run": "Runs unchanged, as do all methods that the table of `threading` does not list.",
    "threading.Event": "Waits in virtual time, because its lock does. The same applies to `Condition` and `Timer`.",
    "queue.Queue": "Waits in virtual time, because its locks do.",
    "asyncio.sleep": "Waits in virtual time, because the event loop's selector does.",
    "sys.exit": "Raises `SystemExit`, which ends the rank if its program does not catch it.",
    "builtins.print": "Writes to the `sys.stdout` of the rank.",
    "builtins.id": "Returns a real address, which may differ between runs.",
    "mmap.mmap": "Maps real memory and real files.",
    "ctypes.CDLL": "Loads compiled code, which reads the real clock, and whose waits take no virtual time.",
    "faulthandler.enable": "Affects all ranks, as does `tracemalloc.start`.",
}
"""Names that a reader may look for and that are not replaced, each with a sentence."""


class Entry(NamedTuple):
    """A name that a run replaces."""

    file: str
    place: str
    name: str
    finds: str
    value: Any


def entries() -> Iterator[Entry]:
    """Yield all that stands in the tables of xsim_py."""
    for found in pkgutil.walk_packages(xsim_py.process.__path__, "xsim_py.process."):
        for place, finds, values in getattr(importlib.import_module(found.name), "PATCHED", ()):
            file = found.name.replace(".", "/") + ".py"
            yield from (Entry(file, place, name, finds, value) for name, value in values.items())


def module_of(place: str) -> str:
    """Return the module in which something is that has a dotted name."""
    while True:
        try:
            return importlib.import_module(place).__name__ and place
        except ImportError:
            place = place.rpartition(".")[0]


def shown(entry: Entry) -> str:
    """Return a name as the page shows it."""
    if entry.name == "__class__":
        named = [f"`{entry.place}.{name}`" for name, value in vars(entry.value).items() if isinstance(value, property)]
        more = [] if entry.value.__setattr__ is ModuleType.__setattr__ else [f"attributes of `{entry.place}`"]
        return ", ".join(named + more)
    return f"defaults of `{entry.place}`" if entry.name == "__defaults__" else f"`{entry.place}.{entry.name}`"


def page() -> str:
    """Return the generated part of the page."""
    rows: dict[str, dict[tuple[str, str], list[str]]] = {}
    for entry in entries():
        name = "sys.monitoring" if entry.place == "sys.monitoring" else module_of(entry.place)
        rows.setdefault(name, {}).setdefault((entry.finds, entry.file), []).append(shown(entry))
    lines = ["## Names that are not replaced", "", "| name | behaviour in a rank |", "| --- | --- |"]
    lines += [f"| `{name}` | {told} |" for name, told in sorted(REAL.items())]
    for name in sorted(rows, key=lambda name: (name.startswith("_"), name)):
        lines += ["", f"## `{name}`", "", "| name | behaviour | implementation |", "| --- | --- | --- |"]
        lines += [f"| {', '.join(names)} | {finds} | `{file}` |" for (finds, file), names in rows[name].items()]
    return "\n".join(lines) + "\n"


def split(text: str) -> tuple[str, str, str]:
    """Return the page up to the tables, the tables, and the rest."""
    before, _, rest = text.partition(MARKS[0])
    inside, _, after = rest.partition(MARKS[1])
    return before + MARKS[0], inside, MARKS[1] + after


# --------------------------------------------------------------------------------------------- what runs really patch

_BEFORE = "asyncio bdb cProfile glob multiprocessing.connection multiprocessing.context numpy sched subprocess timeit"
_PROGRAM = """
import sys
from mpi4py import MPI
sys.settrace(None)
MPI.COMM_WORLD.Barrier()
"""
_MACHINE = {"network": {"latency": "10us"}, "storage": {"latency": "1us", "bandwidth": "1GB/s"}}
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "storage": {"machine": _MACHINE},
    "measured": {"compute": "measured"},
    "traced": {"trace": True},
    "failing": {"fail": "rank=1 before its 9th Barrier"},
    "checked": {"check": True},
    "resilient": {"resilience": "legio"},
}


def recorded() -> dict[str, list[list[str]]]:
    """Return what runs of each kind really replace: the owners, and the names; in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), PYTHONDONTWRITEBYTECODE="1")
        command = [sys.executable, "-m", "tests.process.patch_table", "--record", folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        told = Path(folder, "told.json")
        assert told.exists(), done.stderr
        answer: dict[str, list[list[str]]] = json.loads(told.read_text())
    return answer


def record_here(folder: Path) -> None:
    """Run the program in each way, and leave what was replaced in the folder."""
    for name in _BEFORE.split():
        importlib.import_module(name)
    places = {id(owner): entry.place for entry in entries() if (owner := patches._found(entry.place)) is not None}
    told = {"there": [[each.place, each.name] for each in entries() if _exists(each)]}
    real_set, real_put = Patches.set, Patches.put

    def noting(self: Patches, owner: Any, name: str, value: Any) -> None:
        place = places.get(id(owner))
        if place is None:
            of_module = getattr(owner, "__name__", None) or owner.name  # of a spec
            place = f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else of_module
        found.append([place, name])
        real_set(self, owner, name, value)

    def noting_put(self: Patches, table: dict[str, Any], key: str, value: Any) -> None:
        assert value in (*file_calls._taken.values(), file_calls.open_)
        real_put(self, table, key, value)

    Patches.set, Patches.put = noting, noting_put  # type: ignore[method-assign]
    with open(os.devnull, "w") as nowhere:
        for way, options in RUNS.items():
            found: list[list[str]] = []
            result = simulate(_PROGRAM, kind="code", ranks=2, stdout=nowhere, wall_limit=60, **options)
            assert result.ended == "finished", result.report
            told[way] = found
    (folder / "told.json").write_text(json.dumps(told))


def _exists(entry: Entry) -> bool:
    owner = patches._found(entry.place)
    return hasattr(owner, entry.name) or (isinstance(owner, type) and not isinstance(entry.value, Wrapper))


def main() -> None:
    """Write the page, or show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record is not None:
        record_here(arguments.record)
    elif arguments.write:
        before, _, after = split(PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(f"{before}\n{page()}\n{after}", encoding="utf-8")
    else:
        print(page())


if __name__ == "__main__":
    main()
