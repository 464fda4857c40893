import sys

import pytest
from matplotlib import image

from tests.report.helpers import make_result
from xsim_py.errors import ConfigError
from xsim_py.report import Comparison

TIMES_S = {("gige", 4): 3e-3, ("shmem", 4): 1e-3, ("gige", 16): 6e-3, ("shmem", 16): 4e-3}


def comparison() -> Comparison:
    results = {
        key: make_result(virtual_time_ps=round(time_s * 10**12), ranks=key[1]) for key, time_s in TIMES_S.items()
    }
    return Comparison(results, title="prog.py")


def test_table_is_ordered_by_ranks_and_relates_to_the_fastest_of_as_many():
    table = comparison().table()
    assert list(zip(table["machine"], table["ranks"], strict=True)) == list(TIMES_S)
    assert table["virtual_time_s"] == list(TIMES_S.values())
    assert table["relative"] == [3.0, 1.0, 1.5, 1.0]


def test_terminal_has_one_unit_of_time_and_leaves_hashes_to_the_files():
    head, _, first, *_ = str(comparison()).splitlines()
    assert "virtual time [ms]" in head
    assert "digest" not in head
    assert first.split() == ["4", "gige", "3", "3", "4,096", "1,572,864", "0.25", "finished"]


def test_a_program_that_takes_no_time_has_no_ratio():
    table = Comparison({("gige", 1): make_result(virtual_time_ps=0, ranks=1)}).table()
    assert table["relative"] == [None]


def test_a_hole_in_the_grid_is_no_row():
    results = comparison().results
    del results["shmem", 16]
    assert len(Comparison(results).table()) == 3


@pytest.mark.parametrize("sizes", [{4, 16}, {4}])
def test_draws_a_picture_of_one_panel_or_two(tmp_path, sizes: set[int]):
    results = {key: result for key, result in comparison().results.items() if key[1] in sizes}
    Comparison(results, title="prog.py").draw(tmp_path / "c.png")
    height, width, _ = image.imread(tmp_path / "c.png").shape
    legend = 0 if len(sizes) == 1 else 140
    assert width == pytest.approx(840 * len(sizes) + legend, abs=20)
    assert height > 500


def test_draws_runs_that_took_no_time(tmp_path):
    results = {("gige", ranks): make_result(virtual_time_ps=0, ranks=ranks) for ranks in (1, 2)}
    Comparison(results).draw(tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 1000


def test_says_how_to_get_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xsim_py.report.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'xsim-py\[plot\]'"):
        comparison().draw(tmp_path / "c.png")


def test_nothing_to_compare():
    with pytest.raises(ConfigError, match="nothing to compare"):
        Comparison({})
