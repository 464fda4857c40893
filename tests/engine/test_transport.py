"""Who has started this process is seen from its environment."""

import pytest

from xsim_py.engine import launched_by_mpiexec
from xsim_py.engine.transport import _PMIX, _SIZE_VARIABLES, _SLURM_SIZE


@pytest.mark.parametrize(
    ("environment", "launched"),
    [
        ({}, 0),
        ({"PMI_SIZE": "1"}, 1),
        ({"PMI_SIZE": "2", "PMI_RANK": "0"}, 2),
        ({"OMPI_COMM_WORLD_SIZE": "16"}, 16),
        ({"MPI_LOCALNRANKS": "two"}, 0),
        ({"SLURM_STEP_NUM_TASKS": "4"}, 0),  # in a job script, which runs once
        ({"SLURM_STEP_NUM_TASKS": "4", "PMIX_RANK": "3"}, 4),
        ({"SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "0"}, 1),
    ],
)
def test_a_launcher_shows_in_the_environment(
    environment: dict[str, str], launched: int, monkeypatch: pytest.MonkeyPatch
):
    for name in (*_SIZE_VARIABLES, _SLURM_SIZE, _PMIX):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert launched_by_mpiexec() == launched
