"""Memory in use is found touched, or not, whether the code up to the next call is watched or known before."""

from pathlib import Path

import pytest

from xsim_py import simulate

PROGRAM = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
def Sendrecv(array):
    return len(array)
def main(both, rest):
    used = both[4:]
    request = comm.Irecv(used, 1 - comm.rank)
    TOUCH
    comm.Send(rest, 1 - comm.rank)
    request.Wait()
main(np.zeros(8), np.ones(4))
"""
LINE = 1 + PROGRAM[: PROGRAM.index("TOUCH")].count("\n")


@pytest.mark.parametrize(
    ("touch", "is_found"),
    [
        ("total = rest[0] + 1", False),
        ("total = used[0] + 1", True),
        ("total = rest + used", True),
        ("rest[1] = 2.0", False),
        ("other = rest; other = used; total = other[0] + 1", True),
        ("total = [both[i] + 1 for i in range(4)]", False),
        ("total = [both[i] + 1 for i in range(5)]", True),
        ("for i in range(4): total = both[i] + 1", False),
        ("for i in range(5): total = both[i] + 1", True),
        ("total = used[0] if rest[0] > 1 else rest[0]", False),
        ("total = used[0] + 1 if rest[0] == 1 else rest[0]", True),
        ("wait = abs; total = wait(rest[0])", False),
        ("wait = abs; total = wait(used[0])", True),
        ("total = Sendrecv(rest)", False),  # names of methods, without an object
        ("at = len; total = at(rest)", False),
        ("at = np.max; total = at(used)", True),
    ],
)
def test_an_array_in_use_is_found_touched(tmp_path: Path, touch: str, is_found: bool):
    path = tmp_path / "touching.py"
    path.write_text(PROGRAM.replace("TOUCH", touch))
    result = simulate(path, ranks=2, check=True)
    assert result.ended == "finished"
    found = [(each.category, each.line) for each in result.findings]
    assert found == ([("LocalConcurrency", LINE)] if is_found else [])


@pytest.mark.parametrize(
    ("touch", "is_found"),
    [
        ("total = shown[0] + 1", True),
        ("shown += 1", True),
        ("index = 0; total = shown[index] + 1", True),
        ("total = shown[1] + 1", False),
        ("shown = shown + 0", True),
    ],
)
def test_a_window_is_found_touched_beside_a_put(tmp_path: Path, touch: str, is_found: bool):
    path = tmp_path / "window.py"
    path.write_text(
        "import numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nshown = np.zeros(2)\n"
        "win = MPI.Win.Create(shown, 8, comm=comm)\nwin.Fence()\n"
        "def main(shown):\n"
        "    win.Put(np.ones(1), 1 - comm.rank)\n"
        f"    {touch}\n"
        "    win.Fence()\n"
        "main(shown)\nwin.Free()\n"
    )
    findings = simulate(path, ranks=2, check=True).findings
    assert {(each.category, each.line) for each in findings} == (
        {("GlobalConcurrency", 8), ("GlobalConcurrency", 9)} if is_found else set()
    )


def test_a_call_that_is_refused_has_touched_nothing(tmp_path: Path):
    path = tmp_path / "refused.py"
    path.write_text(
        "import numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nshown = np.zeros(2)\n"
        "win = MPI.Win.Create(shown, 8, comm=comm)\nwin.Fence()\nwin.Put(np.ones(1), 1 - comm.rank)\n"
        "for call in (comm.Send, comm.Isend):\n"
        "    try:\n"
        "        call(shown, dest=9)\n"
        "    except MPI.Exception:\n"
        "        pass\n"
        "win.Fence()\nwin.Free()\n"
    )
    findings = simulate(path, ranks=2, check=True).findings
    assert findings == ()  # the program catches the errors
