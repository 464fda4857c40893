"""The pages of the documentation that say how the clients do: docs/reference/clients.md and sessions.md."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.description import Client
from tests.clients.environment import ROOT
from tests.clients.judgement import Difference, counts, merged
from tests.clients.running import ANY, END, SESSION, WAYS, Result

_COUNTS = "passed/failed/skipped, s"
PAGE, SESSIONS = ROOT / "docs" / "reference" / "clients.md", ROOT / "docs" / "reference" / "sessions.md"
EACH_RANK = WAYS[:-1]  # what tells of each rank by itself
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
    ways: tuple[str, ...] = WAYS


def write_pages(rows: Sequence[Row], cannot: dict[str, str], ways: Sequence[str]) -> None:
    """Write what is below the mark anew, in the pages of the ways that were asked for."""
    if set(ways) & set(EACH_RANK[1:]):
        _write(PAGE, text(rows, cannot))
    if SESSION in ways:
        _write(SESSIONS, session_text(rows, cannot))


def _write(page: Path, lines: Iterable[str]) -> None:
    above = page.read_text(encoding="utf-8").partition(MARK)[0]
    page.write_text(above + MARK + "\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def text(rows: Sequence[Row], cannot: dict[str, str]) -> Iterator[str]:
    """The lines of the tables; what the real MPI has not run is no evidence, but it is known to be missing."""
    every, rows = _grouped(rows), [row for row in rows if WAYS[0] in row.results]
    yield "| client | ranks | " + " | ".join(f"{way}: {_COUNTS}" for way in EACH_RANK) + " | differ |"
    yield "| --- | ---: " + "| ---: " * len(EACH_RANK) + "| ---: |"
    for (name, ranks), group in _grouped(rows).items():
        number = len(every[name, ranks])
        cells = [_cell([row.results[way] for row in group if way in row.results], number) for way in EACH_RANK]
        differing = [sum(len(row.found.get(way, [])) for row in group) for way in EACH_RANK[1:]]
        yield f"| {name} | {ranks} | {' | '.join(cells)} | {', '.join(map(str, differing))} |"
    yield ""
    yield from _notes(rows, cannot, EACH_RANK)


def session_text(rows: Sequence[Row], cannot: dict[str, str]) -> Iterator[str]:
    """The lines of the table of sessions, and what is to be said of the clients in it."""
    yield from session_table(rows)
    yield ""
    yield from _notes([row for row in rows if SESSION in row.results], cannot, (SESSION,))


def session_table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table of sessions, in which a test counts once; nothing, if there is none."""
    every = _grouped(row for row in rows if SESSION in row.ways)
    rows = [row for row in rows if SESSION in row.results]
    if rows:
        yield f"| client | ranks | mpiexec: {_COUNTS} | session: {_COUNTS} | differ |"
        yield "| --- | ---: | ---: | ---: | ---: |"
    for (name, ranks), group in _grouped(rows).items():
        real = [merged(row.results[WAYS[0]]) for row in group if WAYS[0] in row.results]
        number = len(every[name, ranks])
        cells = _cell(real, number), _cell([row.results[SESSION] for row in group], number)
        late = sum(row.results[SESSION].late for row in group)
        early = sum(END not in row.results[SESSION].outcomes.get(ANY, {}) for row in group) - late
        ended = "".join(f", {n} ended {how}" for n, how in ((late, "by the limit"), (early, "early")) if n)
        differing = str(sum(len(row.found[SESSION]) for row in group if SESSION in row.found)) if real else ""
        yield f"| {name} | {ranks} | {cells[0]} | {cells[1]}{ended} | {differing} |"


def _notes(rows: Sequence[Row], cannot: dict[str, str], ways: Sequence[str]) -> Iterator[str]:
    for client in dict.fromkeys(row.client for row in rows):
        yield f"* **{client.name}**: {client.about} {_versions(client, rows)}"
        for known in client.expected:
            if any(re.search(known.way, way) for way in ways):
                ranks = known.ranks and f"on {', '.join(map(str, known.ranks))} ranks"
                yield f"  * {' '.join(filter(None, (known.way, known.run, known.test, ranks)))}: {known.why}"
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
