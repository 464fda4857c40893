"""The picture of measured against fitted times."""

from pathlib import Path

from xsim_py.report.fitted_times import FittedTimes, draw_fitted_times


def test_each_layer_is_drawn(tmp_path: Path):
    sizes, seconds = [0.0, 1024.0, 65536.0], [1e-6, 2e-6, 9e-5]
    line = [([0, 4096], [1e-6, 4e-6]), ([4097, 65536], [6e-6, 9e-5])]
    layers = [
        FittedTimes(name, sizes, seconds, seconds, line, limit) for name, limit in (("network", 4096), ("node", None))
    ]
    draw_fitted_times(layers, tmp_path / "fit.svg")
    drawn = (tmp_path / "fit.svg").read_text()
    for text in ("network", "node", "measured", "fitted", "eager up to here", "4 KiB", "error [%]"):
        assert f">{text}</text>" in drawn
