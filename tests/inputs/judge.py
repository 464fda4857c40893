"""What may come of an input, and what comes of it: in a process of its own, forked from one that has loaded everything.

Bad input ends with status 2 and one line for each mistake, with its place. Good input runs. Nothing else may happen: no
traceback of ours, no crash, no more than a second of CPU time or 500 MB.
"""

import base64
import json
import os
import re
import resource
import select
import signal
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.inputs.corpus import Case, outcome

MOST_CPU_S = 1.0
MOST_BYTES = 500 << 20
_WAIT_S = 60
_MOST_ADDRESSES = 2 << 30
_STATUSES = {
    "run": {0, 1, 2, 3, 4, 74, 137},
    "compare": {0, 1, 2, 3, 4, 74, 137},
    "study": {0, 1, 2, 74},
    "compare-recovery": {0, 1, 2, 74},
}
_OTHERS = {0, 2, 74}
_PLACE = re.compile(r":\d+:\d+: |(?<!\w)--?[a-zA-Z]")
_SHOWN_OF_A_WORD = 40


class Verdict(NamedTuple):
    """What came of a case, and what is wrong with that; nothing if it is all right."""

    status: int
    cpu_s: float
    peak_bytes: int
    said: str
    wrong: str


def judge(case: Case) -> Verdict:
    """Try an input."""
    with tempfile.TemporaryDirectory(prefix="inputs-") as folder:
        for name, data in case.files.items():
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_bytes(data)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            here_bytes, before_bytes = _memory()
            child = os.fork()
            if child == 0:
                _be_child(case.argv, folder, out.fileno(), err.fileno(), here_bytes + _MOST_ADDRESSES)
            late = _is_late(child)
            _, status, usage = os.wait4(child, 0)
            err.seek(0)
            said = err.read().decode(errors="replace")
    cpu_s, peak_bytes = usage.ru_utime + usage.ru_stime, max(usage.ru_maxrss * 1024 - before_bytes, 0)
    ended = os.waitstatus_to_exitcode(status)
    return Verdict(ended, cpu_s, peak_bytes, said, _wrong(case, ended, cpu_s, peak_bytes, said, late))


def _memory() -> tuple[int, int]:
    """What this process has of addresses and of memory, which its child begins with."""
    words = Path("/proc/self/statm").read_text().split()
    return int(words[0]) * resource.getpagesize(), int(words[1]) * resource.getpagesize()


def _is_late(child: int) -> bool:
    """Wait for it; one that does not end is killed."""
    handle = os.pidfd_open(child)
    late = not select.select([handle], [], [], _WAIT_S)[0]
    os.close(handle)
    if late:
        os.kill(child, signal.SIGKILL)
    return late


def _be_child(argv: list[str], folder: str, out: int, err: int, most_addresses: int) -> None:
    """Be the process that does it; this never returns."""
    try:
        os.chdir(folder)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_AS, (most_addresses, most_addresses))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from xsim_py.cli import main

        status = main(argv)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _wrong(case: Case, ended: int, cpu_s: float, peak_bytes: int, said: str, late: bool) -> str:
    """What is wrong with an end, in words."""
    command = next((word for word in case.argv if not word.startswith("-")), "")
    if late:
        return f"it has not ended in {_WAIT_S} s"
    if ended < 0:
        return f"it was killed by {signal.Signals(-ended).name}"
    if ended == 70 or ("Traceback" in said and "/xsim_py/" in said):
        return "a traceback of ours"
    if ended not in _STATUSES.get(command, _OTHERS):
        return f"status {ended} is none that {command} has"
    if cpu_s > MOST_CPU_S:
        return f"it took {cpu_s:.1f} s of CPU time"
    if peak_bytes > MOST_BYTES:
        return f"it took {peak_bytes >> 20} MB"
    return "status 2 without a place" if ended == 2 and not _has_place(case, said) else ""


def _has_place(case: Case, said: str) -> bool:
    """Whether bad input is told with a line and column, an option, or at least the word that is wrong."""
    names = [name.rpartition("=")[2] for name in (*case.argv, *case.files)]  # of trace=t.csv, the file
    words = [word.splitlines()[0][:_SHOWN_OF_A_WORD] for name in names for word in (name, repr(name)[1:-1]) if word]
    lines = [line for line in said.splitlines() if not line.startswith("xsim: version")]
    return any(_PLACE.search(line) or any(word in line for word in words) for line in lines)


def load_everything() -> None:
    """Load here what children need, and let studies make their runs without worker processes or simulations."""
    import numpy  # noqa: F401

    import xsim_py.ftco.ensemble
    import xsim_py.run
    import xsim_py.study.conduct
    import xsim_py.study.recovery.experiment
    import xsim_py.study.task
    from xsim_py.cli import main
    from xsim_py.mpi4py.door import known_calls
    from xsim_py.report.chart import Chart, Series

    known_calls()

    def here(tasks: Any, _jobs: int) -> Any:
        for number, task in enumerate(tasks):
            yield number, outcome() if task.command is None else xsim_py.study.task.do(task)

    def in_order(function: str, tasks: Any, _jobs: int, **_imports: Any) -> Any:
        module, _, name = function.partition(":")
        return ((number, getattr(import_module(module), name)(task)) for number, task in enumerate(tasks))

    xsim_py.study.conduct.do_in_workers = here
    xsim_py.study.recovery.experiment.do_in_workers = xsim_py.ftco.ensemble.do_in_workers = in_order
    with tempfile.TemporaryDirectory() as folder:
        line = Series(label="a", x=[1, 2], y=[1.0, 2.0], errors=(), colour=0, dashes=0)
        Chart(title="t", x_label="x", y_label="y", lines=[line]).draw(Path(folder, "p.png"))
    assert main(["run", "-n", "1", "--quiet", "-c", "pass"]) == 0


def written(case: Case) -> str:
    """A case as text."""
    files = {name: base64.b64encode(data).decode() for name, data in case.files.items()}
    return json.dumps({"about": case.about, "argv": case.argv, "files": files})


def read(text: str) -> Case:
    """The case of such a text."""
    told = json.loads(text)
    return Case(told["argv"], {name: base64.b64decode(data) for name, data in told["files"].items()}, told["about"])
