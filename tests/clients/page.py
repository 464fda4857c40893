"""The page of the documentation that says how the clients do: docs/reference/clients.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.clients.description import Client
from tests.clients.environment import ROOT
from tests.clients.judgement import Difference, counts
from tests.clients.running import WAYS, Result

PAGE = ROOT / "docs" / "reference" / "clients.md"
MARK = "<!-- what follows is written by `python -m tests.clients --write` -->"


@dataclass
class Row:
    """One run on so many ranks, in each of the ways."""

    client: Client
    run: str
    ranks: int
    results: dict[str, Result] = field(default_factory=dict)
    found: dict[str, list[Difference]] = field(default_factory=dict)
    unexpected: dict[str, list[Difference]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def write_page(rows: Sequence[Row], cannot: dict[str, str]) -> None:
    """Write what is below the mark anew."""
    above = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(above + MARK + "\n\n" + "\n".join(text(rows, cannot)) + "\n", encoding="utf-8")


def text(rows: Sequence[Row], cannot: dict[str, str]) -> Iterator[str]:
    """The lines of the tables; what the real MPI has not run is no evidence, but it is known to be missing."""
    every, rows = _grouped(rows), [row for row in rows if WAYS[0] in row.results]
    yield "| client | ranks | " + " | ".join(f"{way}: passed/failed/skipped, s" for way in WAYS) + " | differ |"
    yield "| --- | ---: " + "| ---: " * len(WAYS) + "| ---: |"
    for (name, ranks), group in _grouped(rows).items():
        cells = [
            _cell([row.results[way] for row in group if way in row.results], len(every[name, ranks])) for way in WAYS
        ]
        differing = [sum(len(row.found.get(way, [])) for row in group) for way in WAYS[1:]]
        yield f"| {name} | {ranks} | {' | '.join(cells)} | {', '.join(map(str, differing))} |"
    yield ""
    for client in dict.fromkeys(row.client for row in rows):
        yield f"* **{client.name}**: {client.about} {_versions(client, rows)}"
        for known in client.expected:
            yield f"  * {' '.join(filter(None, (known.way, known.run, known.test)))}: {known.why}"
    for name in cannot:
        yield f"* **{name}**: not all could be run where this table was made."


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.client.name, row.ranks].append(row)
    return dict(sorted(groups.items()))


def _cell(results: Sequence[Result], runs: int) -> str:
    """What became of all runs; dots say that not all have been run in this way."""
    if not results:
        return ""
    dots = "" if len(results) == runs else "…"
    each = [counts(result) for result in results]
    return (
        f"{'/'.join(str(sum(kind)) for kind in zip(*each, strict=True))}, {sum(r.seconds for r in results):.0f}{dots}"
    )


def _versions(client: Client, rows: Sequence[Row]) -> str:
    found = next(row.versions for row in rows if row.client is client)
    names = {requirement.partition("==")[0].lower() for requirement in (*client.requires, "numpy", "mpich", "mpi4py")}
    return ", ".join(f"{name} {version}" for name, version in found.items() if name.lower() in names) + "."
