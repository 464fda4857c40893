from xsim_py.report.chart import Chart, Series
from xsim_py.report.page.charts import chart_figure
from xsim_py.report.ruler import Ruler

LINES = [Series("a<b", [1, 4], [2.0, 8.0], [0.5, 0.0], 0, 0), Series("theirs", [1], [3.0], [], 0, 1, points=True)]


def drawn(**more):
    told = {"title": "t", "x_label": "x", "y_label": "time\n[us]", "lines": LINES, **more}
    return chart_figure(Chart(**told))


def test_draws_the_points_of_a_chart_on_its_scales():
    figure = drawn(x_scale="log2", y_scale="log")
    line, points = figure["data"]
    assert (line["name"], line["x"], line["y"]) == ("a&lt;b", [1, 4], [2.0, 8.0])
    assert line["error_y"]["array"] == [0.5, 0.0]
    assert (line["mode"], points["mode"]) == ("lines+markers", "markers")
    assert "error_y" not in points
    axis = figure["layout"]["xaxis"]
    assert (axis["type"], axis["tickvals"], axis["ticktext"]) == ("log", [1, 4], ["1", "4"])
    assert figure["layout"]["yaxis"]["title"]["text"] == "time<br>[us]"
    assert "type" not in drawn()["layout"]["yaxis"]


def test_names_and_quantities_stand_along_the_axis():
    named = drawn(lines=[Series("l", ["gige", "<x>"], [1.0, 2.0], [], 0, 0)])
    assert named["data"][0]["x"] == ["gige", "&lt;x&gt;"]
    assert named["layout"]["xaxis"]["type"] == "category"
    ruler = Ruler.of(["1us", "2ms"])
    assert ruler is not None
    lines = [Series("l", [ruler.place("1us"), ruler.place("2ms")], [1.0, 2.0], [], 0, 0)]
    assert drawn(lines=lines, ruler=ruler)["layout"]["xaxis"]["ticktext"] == ["1 us", "2 ms"]
