"""Many random programs in a process of its own, for what is kept of dead ranks stays in memory.

python -m tests.mpi.ftco.campaign SEED CASES
"""

import sys

from hypothesis import HealthCheck, given, seed, settings

from tests.mpi.ftco.programs import Scenario, check, run, scenarios


def main() -> None:
    """Try them; a failing one is shown, smaller if possible, and ends the process with status 1."""
    number, cases = int(sys.argv[1]), int(sys.argv[2])
    checks = list(HealthCheck)

    @seed(number)
    @settings(max_examples=cases, deadline=None, database=None, derandomize=False, suppress_health_check=checks)
    @given(scenarios())
    def keeps_its_promises(scenario: Scenario) -> None:
        check(scenario, run(scenario))

    keeps_its_promises()


if __name__ == "__main__":
    main()
