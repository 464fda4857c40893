"""Random programs do under xsim what they do under a real MPI."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.programs import programs
from tests.fuzz.real import RealMPI
from tests.fuzz.simulated import MACHINES, simulated
from tests.real_mpi import MPIEXEC

CASES = 2 * settings().max_examples  # 200, and 10,000 in a campaign
MOST_DROPPED = 0.02


if MPIEXEC.exists():  # without a real MPI the programs that were recorded must do: test_found.py

    def test_random_programs_do_what_they_do_under_a_real_mpi() -> None:
        dropped = []

        @settings(max_examples=CASES)
        @given(programs(), st.sampled_from(sorted(MACHINES)), st.sampled_from([1, 1, 2, 3]))
        def same(program: Any, machine: str, shards: int) -> None:
            ranks, steps = program
            expected = real.walk(ranks, steps)
            found = json.loads(json.dumps(simulated(ranks, steps, machine, min(shards, ranks)))) if expected else None
            if found != expected and real.walk(ranks, steps) != expected:
                dropped.append(program)  # the real one does not agree with itself
                return
            assert found == expected
            if expected is None:
                dropped.append(program)

        with RealMPI() as real:
            same()
        assert len(dropped) <= MOST_DROPPED * CASES, dropped
