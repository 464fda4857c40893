"""The study of servers and clients that sample a PDE, on few ranks."""

import pytest

from tests.study.test_presets import by, results_of

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_clients_are_busy_and_deaths_take_no_round_where_there_is_room(tmp_path):
    """240 samples on 63 clients: 4 rounds, of which 12 places are free, so that clients work 95 % of the time."""
    results = results_of("resilient-pde", tmp_path, only=["ranks=256", "scaling=weak"])
    assert by(results, "work_percent") == pytest.approx([95, 95], abs=1)
    assert by(results, "missing") == [0, 5]
