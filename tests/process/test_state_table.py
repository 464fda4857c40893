"""The guide says of each piece of state what a program finds."""

import pytest

from tests.process.state_table import PAGE, WAYS, measured, split, state, ways
from tests.versions import as_checked


def in_the_page() -> dict[str, dict[str, str]]:
    """What the page says of each row, by ways."""
    lines = [line for line in split(PAGE.read_text(encoding="utf-8"))[1].splitlines() if line.startswith("|")]
    head, _, *cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    rows = [row for row in cells if not row[0].startswith("**")]
    return {title: {f"{number}: {row[0]}": row[at] for number, row in enumerate(rows)} for at, title in enumerate(head)}


if as_checked("numpy"):  # its answers are those of this version

    @pytest.mark.parametrize("way", ways())
    def test_what_is_private_is_what_the_guide_says(way: str):
        names = [row["name"] for group in state() for row in group["rows"]]
        found = {
            f"{number}: {name}": told for number, (name, told) in enumerate(zip(names, measured(way), strict=True))
        }
        assert in_the_page().get(WAYS[way]) == found, "python -m tests.process.state_table --write puts it right"
