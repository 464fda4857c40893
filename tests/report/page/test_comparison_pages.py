import pytest

from tests.report.helpers import make_result
from tests.report.page.helpers import figures, own, shown
from xsim_py.report import Comparison
from xsim_py.report.page.comparison_pages import without_costs
from xsim_py.report.phases import Phase, Phases
from xsim_py.study.recovery.comparison import Case, RecoveryComparison, RecoveryRun


def compared(*, cpu_s=0.25):
    times = {("a<b", 1): 8, ("a<b", 4): 4, ("gige", 1): 8, ("gige", 4): 2}
    results = {key: make_result(ranks=key[1], virtual_time_ps=time * 10**9, cpu_s=cpu_s) for key, time in times.items()}
    return Comparison(results, title="prog.py")


def test_a_comparison_has_times_speedups_and_no_costs(tmp_path):
    compared().to_html(tmp_path / "a.html", command="xsim compare prog.py")
    text = own(tmp_path / "a.html")
    bars, speedup, efficiency = figures(text)
    assert [(bar["name"], bar["y"]) for bar in bars["data"]] == [("a&lt;b", [8, 4]), ("gige", [8, 2])]
    assert [(line["name"], line["y"]) for line in speedup["data"]] == [
        ("a&lt;b", [1, 2]),
        ("gige", [1, 4]),
        ("ideal", [1, 4]),
    ]
    assert [line["y"] for line in efficiency["data"]] == [[1, 0.5], [1, 1], [1, 1]]
    assert "xsim compare prog.py" in shown(text)
    compared(cpu_s=0.5).to_html(tmp_path / "b.html", command="xsim compare prog.py")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert set(compared().table()) - set(without_costs(compared().table())) == {"cpu_s"}


@pytest.mark.parametrize("long_ps", [10**6, 10**13])
def test_bars_of_phases_are_as_long_as_they_last_or_hatched(tmp_path, long_ps):
    phases = Phases(
        rank=0, phases=(Phase("collective", 0, 3 * 10**6), Phase("detection", 3 * 10**6, 3 * 10**6 + long_ps))
    )
    run = RecoveryRun(Case("gige", 4, "1", "ulfm"), ("1",), phases, ended="finished", digest="feed")
    lost = run._replace(case=Case("gige", 4, "1", "restart"), phases=None, ended="stalled", said="waits <for> ever")
    comparison = RecoveryComparison([run, lost], title="prog.py")
    comparison.to_html(tmp_path / "page.html", facts={"seed": "7"}, descriptions={"gige": "name: gige"})
    text = own(tmp_path / "page.html")
    (figure,) = figures(text)
    widths = {bar["name"]: (bar["x"], bar["marker"]["pattern"]["shape"]) for bar in figure["data"]}
    if long_ps == 10**6:
        assert widths == {"collective": ([3], [""]), "detection": ([1], [""])}
    else:
        assert widths["detection"][1] == ["/"]
        assert widths["detection"][0][0] < 1
        assert next(bar["customdata"] for bar in figure["data"] if bar["name"] == "detection") == ["10 s"]
    for words in ("failed: gige, 4 ranks, 1, restart: stalled", "waits <for> ever", "name: gige", "seed"):
        assert words in shown(text)
