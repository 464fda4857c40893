import pytest

from xsim_py.report.chart import Series
from xsim_py.report.scaling import against_fewest

SERIAL_S, PARALLEL_S = 1.0, 8.0


def times(ranks, colour=0):
    """Return the times of Amdahl's law."""
    return Series("a", ranks, [SERIAL_S + PARALLEL_S / p for p in ranks], [], colour, 0)


def test_speedups_are_those_of_amdahls_law():
    line, ideal = against_fewest([times([1, 2, 8])], "speedup")
    assert line.y == pytest.approx([1.0, 9 / 5, 9 / 2])
    assert (ideal.x, ideal.y) == ([1, 2, 8], [1.0, 2.0, 8.0])
    assert (line.reference, ideal.reference) == (False, True)


def test_each_line_stands_against_its_own_fewest_ranks():
    one, other, ideal = against_fewest([times([1, 4]), times([2, 4], colour=1)], "efficiency")
    assert one.y == pytest.approx([1.0, 9 / (4 * 3)])
    assert other.y == pytest.approx([1.0, 2 * 5 / (4 * 3)])
    assert set(ideal.y) == {1.0}


def test_with_a_problem_that_grows_the_time_should_stay():
    line, _ = against_fewest([Series("a", [1, 4], [10.0, 12.5], [1.0, 0.0], 0, 0)], "weak efficiency")
    assert line.y == [1.0, 0.8]
    assert line.errors == pytest.approx([0.0, 0.08])


def test_times_of_nothing_have_no_point():
    assert against_fewest([Series("a", [1, 2], [0.0, 0.0], [], 0, 0)], "speedup") == []
