"""Who has started this process is seen from its environment."""

import pytest

from xsim_py.engine import launched_by_mpiexec
from xsim_py.engine.transport import _PMIX, _SIZE_VARIABLES, _SLURM_SIZE


@pytest.mark.parametrize(
    ("environment", "launched"),
    [
        ({}, False),
        ({"PMI_SIZE": "1"}, False),
        ({"PMI_SIZE": "2", "PMI_RANK": "0"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "16"}, True),
        ({"MPI_LOCALNRANKS": "two"}, False),
        ({"SLURM_STEP_NUM_TASKS": "4"}, False),  # in a job script, which runs once
        ({"SLURM_STEP_NUM_TASKS": "4", "PMIX_RANK": "3"}, True),
        ({"SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "0"}, False),
    ],
)
def test_a_launcher_shows_in_the_environment(
    environment: dict[str, str], launched: bool, monkeypatch: pytest.MonkeyPatch
):
    for name in (*_SIZE_VARIABLES, _SLURM_SIZE, _PMIX):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert launched_by_mpiexec() is launched
