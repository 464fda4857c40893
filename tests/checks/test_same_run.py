"""A checked run is the run without checks: values, times and digest; and programs of this repository are right."""

import io
from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.report import Result

APPS = Path(__file__).parents[2] / "apps"


@pytest.mark.parametrize(
    ("program", "args"),
    [
        ("pi.py", ["--samples", "800"]),
        ("ring.py", ["--rounds", "2"]),
        ("heat2d.py", []),
        ("bag_of_tasks.py", []),
        ("allreduce_loop.py", []),
    ],
)
def test_the_run_is_the_same_and_nothing_is_found(program: str, args: list[str]):
    printed = io.StringIO(), io.StringIO()

    def run(stdout: io.StringIO, **told: bool) -> Result:
        return simulate(APPS / program, ranks=8, args=args, stdout=stdout, stderr=stdout, **told)

    plain, checked = run(printed[0]), run(printed[1], check=True)
    assert (checked.digest, checked.virtual_time_ps, checked.events) == (
        plain.digest,
        plain.virtual_time_ps,
        plain.events,
    )
    assert printed[1].getvalue() == printed[0].getvalue()
    assert checked.findings == ()
    assert checked.exit_status == plain.exit_status == 0


def test_a_program_that_has_been_changed_between_two_runs_is_looked_at_anew(tmp_path: Path):
    text = (
        "import numpy as np\nfrom mpi4py import MPI\nmine, other = np.zeros(4), np.zeros(4)\n"
        "window = MPI.Win.Create(mine, comm=MPI.COMM_WORLD)\nwindow.Fence()\n"
        "if MPI.COMM_WORLD.rank == 0:\n    window.Put(other, 1)\nelse:\n    {}[0] = 1\n"
        "window.Fence()\nwindow.Free()\n"
    )
    program = tmp_path / "program.py"
    for array, found in (("other", 0), ("mine", 2), ("other", 0)):
        program.write_text(text.format(array))
        assert len(simulate(program, ranks=2, check=True).findings) == found
