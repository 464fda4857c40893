"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.report.helpers import make_result, make_trace
from xsim_py.report import Table, perfetto
from xsim_py.report.files import check_file, whole_file, whole_path
from xsim_py.report.style import new_figure, save


class Torn(Exception):
    """Stands for Ctrl-C and everything else that comes in the middle."""


def tear(target: Path) -> None:
    with suppress(Torn), whole_file(target) as file:
        file.write("half of it")
        file.flush()
        raise Torn


def test_what_is_not_written_to_its_end_is_not_there(tmp_path: Path):
    tear(tmp_path / "result.json")
    assert [*tmp_path.iterdir()] == []


def test_a_new_file_has_its_name_when_it_is_whole(tmp_path: Path):
    target = tmp_path / "result.json"
    with whole_file(target) as file:
        file.write("new")
        file.flush()
        assert not target.exists()
    assert target.read_text() == "new"
    assert [*tmp_path.iterdir()] == [target]


def test_a_file_that_is_there_keeps_its_permissions_and_its_other_names(tmp_path: Path):
    target, other = tmp_path / "result.json", tmp_path / "other"
    target.write_text("an older and longer text")
    target.chmod(0o640)
    other.hardlink_to(target)
    with whole_file(target) as file:
        file.write("new")
    assert other.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    tear(target)
    assert [*tmp_path.iterdir()] == [other]
    assert other.read_text() == ""


def test_a_picture_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    figure = new_figure(1, 1)
    save(figure, tmp_path / "t.svg")
    assert "</svg>" in (tmp_path / "t.svg").read_text()
    with suppress(Torn), whole_path(tmp_path / "u.svg") as path:
        assert path.suffix == ".svg"
        path.write_text("<svg>")
        raise Torn
    assert [*tmp_path.iterdir()] == [tmp_path / "t.svg"]


def test_a_file_that_is_there_stays_if_nothing_was_written_into_it(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("of the user")
    with pytest.raises(ValueError, match="txt"):
        save(new_figure(1, 1), tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "of the user"


def test_links_and_devices_stay_what_they_are(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for target in (tmp_path / "link", Path(os.devnull)):
        check_file(target)
        with whole_file(target) as file:
            file.write("text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    tear(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == ""
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere" / "t.json")
    with pytest.raises(FileNotFoundError, match="lost"):
        check_file(tmp_path / "lost")
    assert Path(os.devnull).is_char_device()


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path):
    target = tmp_path / "nowhere" / "t.json"
    with pytest.raises(FileNotFoundError) as caught, whole_file(target):
        pass
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{target}'"


def test_looking_whether_a_file_can_be_written_changes_nothing(tmp_path: Path):
    check_file(tmp_path / "new")
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "old").write_text("old")
    check_file(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "old"
    with pytest.raises(OSError, match="nowhere"):
        check_file(tmp_path / "nowhere" / "t.json")


def test_a_trace_and_a_table_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each is interrupted when something of it has been written."""

    def halves(*_: object) -> Iterator[Any]:
        yield ""
        raise KeyboardInterrupt

    monkeypatch.setattr(perfetto._Export, "events", halves)
    with pytest.raises(KeyboardInterrupt):
        perfetto.write_perfetto(make_trace(), tmp_path / "trace.json", nodes=[0, 1, 2])
    monkeypatch.setattr(Table, "rows", halves)
    with pytest.raises(KeyboardInterrupt):
        make_result().to_csv(tmp_path)
    assert [*tmp_path.iterdir()] == []
