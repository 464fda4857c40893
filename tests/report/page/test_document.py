import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.page.helpers import Tags, figures, own, shown
from xsim_py.errors import ConfigError
from xsim_py.report import Table
from xsim_py.report.page import document
from xsim_py.report.page.document import (
    HtmlPage,
    cards,
    check_page,
    data_table,
    facts_table,
    new_figure,
    note,
    verbatim,
)

UNFRIENDLY = "a<b>&amp;'\"</script><!--<script>"


def test_a_page_needs_nothing_else(tmp_path):
    page = HtmlPage("Title", "below")
    page.add("One", note("words"), page.figure({"some": 1}, "matrix"))
    page.add("Empty")
    page.write(tmp_path / "page.html")
    text = own(tmp_path / "page.html")
    tags = Tags(text).found
    assert not [tag for tag, given in tags if tag in ("link", "img", "iframe") or "src" in given]
    assert {given["href"] for tag, given in tags if tag == "a"} == {"#section-1"}
    policy = next(given["content"] for tag, given in tags if given.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert figures(text) == [{"some": 1}]
    assert "Empty" not in text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_no_text_can_be_taken_for_a_tag(text):
    table = Table(text, {text or "x": [text], "other": [1]})
    for part in (note(text), verbatim(text), cards({text: text}), facts_table({text: text}), data_table(table)):
        kinds = {tag for tag, _ in Tags(part).found}
        assert kinds <= {"p", "pre", "dl", "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td"}
    page = HtmlPage(text)
    data = page.figure({"text": text}, "timeline")
    assert [tag for tag, _ in Tags(data).found] == ["div", "script"]
    assert figures(data) == [{"text": text}]


def test_names_that_html_would_misread_are_shown_as_they_are(tmp_path):
    page = HtmlPage(UNFRIENDLY, UNFRIENDLY)
    page.add(UNFRIENDLY, verbatim(UNFRIENDLY), page.figure(new_figure([], x=UNFRIENDLY, y="")))
    page.write(tmp_path / "page.html")
    text = own(tmp_path / "page.html")
    assert shown(text).count(UNFRIENDLY) == 6  # the title twice, its line, the link, the heading, and the text
    assert json.dumps(figures(text)).count("a&lt;b&gt;&amp;amp;") == 1  # plotly knows some tags


def test_a_table_is_in_units_that_suit_and_says_what_it_leaves_out(monkeypatch):
    table = Table("t", {"rank": [0, 1, 2], "late_s": [5_000_000, None, 2_500_000_001], "bytes": [7, 1234567, 9]},
                  {"bytes": "B"}, exact=["late_s"])  # fmt: skip
    text = data_table(table)
    assert "late [ms]" in text
    assert '<td class="n">2.5</td>' in text
    assert '<td class="n">0.005</td><td class="n">7</td>' in text
    assert "1,234,567" in text
    monkeypatch.setattr(document, "MOST_ROWS", 2)
    kept = data_table(table, by="bytes")
    assert "Of 3 rows these are 2: the ones with the most bytes." in kept
    assert "1,234,567" in kept
    assert '<td class="n">7</td>' not in kept


@pytest.mark.parametrize("name", ["-", "page.txt", "page", "prog.py"])
def test_a_page_has_a_name_that_a_browser_knows(name):
    with pytest.raises(ConfigError, match="html"):
        check_page(name)
