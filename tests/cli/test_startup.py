"""`xsim run -n 1` imports little beyond what numpy does; how long that takes is for `make bench`."""

import subprocess
import sys

PROGRAM = "import sys; from mpi4py import MPI; print(*sys.modules)"
LIBRARIES = {"greenlet", "isal", "mpi4py", "numpy", "simpy", "xsim_py", "yaml"}
# What extension modules bring along, and how the standard library was built.
PARTS = ("_cython_", "_sysconfigdata_", "_yaml", "cython_runtime")
# Each of these takes as long to import as a tenth of xsim_py.
HEAVY = {"asyncio", "concurrent.futures.process", "ctypes", "http", "multiprocessing", "sqlite3", "ssl", "unittest"}
MODULES_AT_MOST = 480  # Python 3.13 and the oldest numpy bring some ten of their own


def loaded(*command: str) -> set[str]:
    """The modules that Python has in the end, by their full names."""
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_a_run_loads_few_modules_and_none_that_is_heavy():
    more = loaded("-m", "xsim_py", "run", "-n", "1", "-c", PROGRAM)
    more -= loaded("-c", "import sys, numpy; print(*sys.modules)")
    others = {name.partition(".")[0] for name in more} - sys.stdlib_module_names - LIBRARIES
    assert not {name for name in others if not name.startswith(PARTS)}
    assert not more & HEAVY
    assert {"mpi4py.MPI", "simpy", "xsim_py.run"} <= more  # what is compared is a run
    assert len(more) <= MODULES_AT_MOST


def test_the_command_line_itself_imports_no_library():
    code = "import sys, xsim_py.cli; print(*{m.partition('.')[0] for m in sys.modules})"
    assert not {"greenlet", "matplotlib", "mpi4py", "networkx", "numpy", "simpy", "yaml"} & loaded("-c", code)
