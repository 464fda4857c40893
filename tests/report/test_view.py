import pytest

from xsim_py.errors import ConfigError
from xsim_py.report.style import Look
from xsim_py.report.view import PictureView


def test_settings_say_what_is_shown():
    view = PictureView.of(["time=1ms:2.5ms", "ranks=0-2,7", "size=7x3.5", "font=serif", "font_size=9"])
    assert view == PictureView(10**9, 25 * 10**8, (0, 1, 2, 7), Look(size=(7.0, 3.5), font="serif", font_size=9.0))
    assert PictureView.of(["time=:3us", "time=2us:"]) == PictureView(since_ps=2_000_000)
    assert PictureView.of([]) == PictureView()
    styled = PictureView.of(["columns=1", "title=", "labels=ranks; T [s]", "legend=below", "width=5"])
    assert styled == PictureView(look=Look(columns=1, title="", labels=("ranks", "T [s]"), legend="below", width=5.0))
    assert (styled.look.points, Look(columns=2).inches, Look().points) == (8.0, 7.2, 10.0)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("colour=red", "write KEY=VALUE with time, ranks"),
        ("ranks", "write KEY=VALUE"),
        ("time=1ms", "FROM:TO"),
        ("time=2ms:1ms", "ends before it begins"),
        ("time=2parsecs:", "2parsecs"),
        ("ranks=0-", "numbers and ranges"),
        ("ranks=7-3", "7-3 ends before it begins"),
        ("ranks=99999999999", "99999999999"),
        ("size=7", "7x3.5"),
        ("size=0x3", "from 1x1"),
        ("font_size=big", "points"),
        ("font_size=0", "points"),
        ("columns=3", "1 or 2 columns"),
        ("width=0", "from 1 to 60"),
        ("labels=ranks", "semicolon"),
        ("legend=left", "below, right or none"),
        ("legend=", "write KEY=VALUE"),
    ],
)
def test_other_settings_are_refused(setting, said):
    with pytest.raises(ConfigError, match=said):
        PictureView.of([setting])


@pytest.mark.parametrize("family", ["serif", "sans-serif", "monospace"])
def test_families_are_fonts(family: str):
    with Look(font=family).applied():
        pass


def test_a_font_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="'no such font'"), Look(font="no such font").applied():
        pass
