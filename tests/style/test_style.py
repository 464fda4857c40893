"""Phrases of the style list: none in messages, help and README, and never more in a file than before."""

from collections import Counter

from tests.style import __main__ as command
from tests.style.prose import ROOT, allowed, counts, hits, prose, rises, sources

WRITE = "python -m tests.style --write"


def test_messages_and_help_have_no_phrase_of_the_list() -> None:
    found = [f"{path.relative_to(ROOT)}: {hit}" for path in sources() for hit in hits(prose(path)["text"])]
    assert not found


def test_the_readme_has_no_phrase_of_the_list() -> None:
    assert not list(hits(prose(ROOT / "README.md")["page"]))


def test_no_file_has_more_phrases_than_recorded_and_the_record_falls_with_them() -> None:
    now, then = counts(), allowed()
    assert not rises(now), "python -m tests.style FILE shows them; mark a line that is right with `style: ok`"
    fewer = {name: f"{now[name]}, recorded {number}" for name, number in then.items() if now[name] < number}
    assert not fewer, f"record the progress: {WRITE}"


def test_a_phrase_is_found_across_lines_and_not_where_it_is_exempt_or_code(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It is for\never so. `for ever`\n\n```text\nfor ever\n```\nfor ever <!-- style: ok -->\n")
    assert [hit.split(" in ")[0] for hit in hits(prose(page)["page"])] == ["'for ever'"]
    code = tmp_path / "code.py"
    code.write_text('"""Waits\nfor ever."""\nsay("a rank", "waits for "\n    "ever")  # a rank outlives it\n')
    assert {kind: len(list(hits(text))) for kind, text in prose(code).items()} == {"comment": 1, "doc": 1, "text": 1}


def test_a_rise_is_shown_and_not_recorded(tmp_path, monkeypatch, capsys) -> None:
    (page := tmp_path / "page.md").write_text("It never ends, for ever.\n")
    recorded: list[Counter[str]] = []
    monkeypatch.setattr(command, "counts", lambda: Counter({str(page): 1}))
    monkeypatch.setattr(command, "record", recorded.append)
    assert command.main(["--write"]) == 1
    assert not recorded
    assert f"{page}: page: 'for ever'" in capsys.readouterr().out
