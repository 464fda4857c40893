import sys

import pytest
from matplotlib import image

from xsim_py.errors import ConfigError
from xsim_py.report.chart import Chart, Line


def chart(*lines: Line, **changes: str) -> Chart:
    return Chart(title="title", x_label="ranks", y_label="time [s]", lines=lines, **changes)


def line(x: list, y: list, number: int = 0, errors: list | None = None) -> Line:
    return Line(f"line {number}", x, y, errors or [0.0] * len(y), colour=number, dashes=number % 3)


@pytest.mark.parametrize(
    ("picture", "changes"),
    [
        ([line([1, 2, 4], [1.0, 2.0, 3.0])], {}),
        ([line([4, 8, 32768], [1.0, 2.0, 3000.0], errors=[0.1, 0.2, 3.0])], {"x_scale": "log2", "y_scale": "log"}),
        ([line([0, 8], [0.0, 2.0])], {"x_scale": "log2", "y_scale": "log"}),
        ([line(["small", "large"], [1.0, 2.0]), line(["large", 5], [2.0, 1.0], 1)], {"x_scale": "log"}),
        ([line([1], [1.0])], {"x_scale": "log", "y_scale": "log2"}),
        ([line([1, 2], [1.0, float(number)], number) for number in range(12)], {}),
    ],
)
def test_any_lines_make_a_picture(tmp_path, picture: list[Line], changes: dict[str, str]):
    chart(*picture, **changes).draw(tmp_path / "c.png")
    assert image.imread(tmp_path / "c.png").shape[:2] == (690, 1080)


def test_says_how_to_get_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'xsim-py\[plot\]'"):
        chart(line([1], [1.0])).draw(tmp_path / "c.png")
