"""What tests read in a page."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

LIBRARY = re.compile(r"<script>/\*\*.*?</script>", re.DOTALL)


def own(page: Path) -> str:
    """Return a page without the library that draws."""
    return LIBRARY.sub("", page.read_text(encoding="utf-8"))


def figures(text: str) -> list[Any]:
    """Return what the figures of a page are drawn from."""
    return [json.loads(data) for data in re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)]


def shown(text: str) -> str:
    """Return the text of a page, without tags."""
    return unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)))


class Tags(HTMLParser):
    """Counts the tags of a text, as a browser sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
