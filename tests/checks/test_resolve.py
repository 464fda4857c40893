"""The functions of numpy that are said to look at no element of an array do not: its memory cannot be read here."""

import subprocess
import sys

import pytest

from xsim_py import simulate

PROGRAM = """
import ctypes, mmap, os
import numpy as np
from xsim_py.checks.resolve import _METADATA_ONLY, _SHARING

places = np, np.ma, np.lib, np.lib.stride_tricks, getattr(np.lib, "array_utils", np)

def closed(shape):
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    array = np.ndarray(shape, buffer=memory)
    address = array.__array_interface__["data"][0]
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, 0)
    return array

forms = [
    lambda f, x: f(x),
    lambda f, x: f(x, 0),
    lambda f, x: f(x, 2),
    lambda f, x: f(x, 0, 1),
    lambda f, x: f(x, (2, 8)),
    lambda f, x: f(x, x.shape),
    lambda f, x: f(x, x),
    lambda f, x: f(x, float),
    lambda f, x: f(4, buffer=x),
]

def looks_not(function):
    for shape in (16,), (4, 4), (4, 2, 2):
        array = closed(shape)
        for form in forms:
            child = os.fork()
            if not child:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                try:
                    form(function, array)
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            if os.waitpid(child, 0)[1] == 0:
                return True
    return False

assert not looks_not(np.sort) and not looks_not(np.sum)
for name in sorted(_METADATA_ONLY | _SHARING):
    function = next((vars(place)[name] for place in places if name in vars(place)), None)
    if function is not None and not looks_not(function):
        print(name, flush=True)
"""


def test_the_functions_that_look_at_no_element_do_not():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert not done.stdout


@pytest.mark.parametrize("use", ["statistics.watch(box)", "kept(box)", "statistics.Watch(box)"])
def test_a_module_of_the_program_may_be_named_like_one_of_the_library(tmp_path, monkeypatch, use):
    monkeypatch.delitem(sys.modules, "statistics", raising=False)  # ranks share what the host has loaded of the library
    own = "seen = []\ndef watch(box): seen.append(box)\nclass Watch:\n    def __init__(self, box): self.box = box\n"
    (tmp_path / "statistics.py").write_text(own)
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\nimport statistics\nfrom statistics import watch as kept\nfrom mpi4py import MPI\n"
        "comm, box = MPI.COMM_WORLD, np.zeros(2)\n"
        f"request = comm.Irecv(box, 1 - comm.rank)\n{use}\ncomm.Send(np.ones(2), 1 - comm.rank)\nrequest.Wait()\n"
    )
    result = simulate(program, ranks=2, check=True)
    assert (result.findings, result.exit_status) == ((), 0)
