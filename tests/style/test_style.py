"""Phrases of the style list: none in messages, help and README, and never more in a file than before."""

from tests.style.prose import ROOT, allowed, counts, hits, prose, sources

WRITE = "python -m tests.style --write"


def test_messages_and_help_have_no_phrase_of_the_list() -> None:
    found = [f"{path.relative_to(ROOT)}: {hit}" for path in sources() for hit in hits(prose(path)["text"])]
    assert not found


def test_the_readme_has_no_phrase_of_the_list() -> None:
    assert not list(hits(prose(ROOT / "README.md")["page"]))


def test_no_file_has_more_phrases_than_recorded_and_the_record_falls_with_them() -> None:
    now, then = counts(), allowed()
    more = {
        name: f"{number}, recorded {then.get(name, 0)}" for name, number in now.items() if number > then.get(name, 0)
    }
    assert not more, "python -m tests.style FILE shows them; mark a line that is right with `style: ok`"
    fewer = {name: f"{now[name]}, recorded {number}" for name, number in then.items() if now[name] < number}
    assert not fewer, f"record the progress: {WRITE}"


def test_a_phrase_is_found_across_lines_and_not_where_it_is_exempt_or_code(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It is for\never so. `for ever`\n\n```text\nfor ever\n```\nfor ever <!-- style: ok -->\n")
    assert [hit.split(" in ")[0] for hit in hits(prose(page)["page"])] == ["'for ever'"]
    code = tmp_path / "code.py"
    code.write_text('"""Waits\nfor ever."""\nsay("a rank", "waits for "\n    "ever")  # a rank outlives it\n')
    assert {kind: len(list(hits(text))) for kind, text in prose(code).items()} == {"comment": 1, "doc": 1, "text": 1}
