"""apps/pingpong.py measures a message, and nothing else."""

import pytest

from tests.apps.helpers import simulated

MACHINE = {
    "machine": {"cores_per_node": 4},
    "topology": {"type": "switch"},
    "network": {"latency": "1.3us", "per_hop": "100ns", "bandwidth": "100Gbps", "eager_threshold": "8KiB"},
}


@pytest.mark.parametrize("repetitions", [1, 3, 10])
def test_the_time_is_the_closed_form_with_any_number_of_repetitions(repetitions: int):
    args = ["--sizes", 0, 1, 16384, "--repetitions", repetitions]
    run = simulated("pingpong.py", *args, ranks=29, machine=MACHINE)
    times_us = [line.split()[1] for line in run.out.splitlines()[1:]]
    assert times_us == ["1.5000", "1.5001", "5.8107"]  # L + W; three times L where the message asks first
