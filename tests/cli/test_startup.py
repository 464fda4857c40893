"""`xsim run -n 1` starts nearly as fast as Python and numpy do."""

import os
import subprocess
import sys

MAX_EXTRA_S = 0.4


def cpu_s(*command: str) -> float:
    """The least CPU time of a few runs, which, unlike wall time, does not depend on what else the machine does."""
    used = []
    for _ in range(4):
        process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        used.append(usage.ru_utime + usage.ru_stime)
    return min(used)


def test_start_up():
    extra_s = cpu_s("-m", "xsim_py", "run", "-n", "1", "-c", "from mpi4py import MPI") - cpu_s("-c", "import numpy")
    assert extra_s < MAX_EXTRA_S


def test_the_command_line_itself_imports_no_library():
    code = "import sys, xsim_py.cli; print(*{m.partition('.')[0] for m in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"greenlet", "matplotlib", "mpi4py", "networkx", "numpy", "simpy", "yaml"} & set(loaded)
