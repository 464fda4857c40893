"""The pages of the documentation that say how the clients do: docs/reference/clients.md and sessions.md."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tests.clients.description import Client
from tests.clients.environment import ROOT
from tests.clients.judgement import Difference, counts, merged
from tests.clients.running import ANY, END, SESSION, WAYS, Result

_COUNTS = "passed/failed/skipped, s"
PAGE, SESSIONS = ROOT / "docs" / "reference" / "clients.md", ROOT / "docs" / "reference" / "sessions.md"
DOTS = "…"  # not every run of a line has been made
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
    """Write what has been made below the mark, in the pages of the ways that were asked for."""
    if set(ways) & set(EACH_RANK[1:]):
        _write(PAGE, text(rows, cannot))
    if SESSION in ways:
        _write(SESSIONS, session_text(rows, cannot))


def _write(page: Path, lines: Iterable[str]) -> None:
    above, _, below = page.read_text(encoding="utf-8").partition(MARK)
    lines = renewed(below.splitlines(), lines)
    page.write_text(above + MARK + "\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def renewed(old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    """Yield the old lines with the new ones that replace them, and of each client with such a line the new notes."""
    (old_head, rows, notes), (head, new_rows, new_notes) = _parsed(old), _parsed(new)
    fresh = {key: line for key, line in new_rows.items() if _replaces(line, rows.get(key, DOTS))}
    clients = {client for client, _ in fresh}
    rows |= fresh
    notes |= {client: lines for client, lines in new_notes.items() if client in clients or client not in notes}
    yield from head or old_head
    yield from (rows[key] for key in sorted(rows))
    yield ""
    yield from chain.from_iterable(notes[client] for client in sorted(notes))


def _parsed(lines: Iterable[str]) -> tuple[list[str], dict[tuple[str, int], str], dict[str, list[str]]]:
    """Return the head of a table, its lines by client and ranks, and the notes by client."""
    head, rows, notes = list[str](), dict[tuple[str, int], str](), defaultdict[str, list[str]](list)
    client = ""
    for line in lines:
        if row := re.match(r"\| (\S+) \| (\d+) \|", line):
            rows[row[1], int(row[2])] = line
        elif line.startswith("|"):
            head.append(line)
        elif line:
            note = re.match(r"\* \*\*(.+?)\*\*: ", line)
            client = note[1] if note else client
            notes[client].append(line)
    return head, rows, dict(notes)


def _replaces(new: str, old: str) -> bool:
    """Say whether a new line is whole, without dots and with each cell that the old one has, or the old has dots."""
    cells = zip(new.split("|"), old.split("|"), strict=False)
    return DOTS in old or not (DOTS in new or any(there.strip() and not cell.strip() for cell, there in cells))


def text(rows: Sequence[Row], cannot: dict[str, str]) -> Iterator[str]:
    """The lines of the tables; what the real MPI has not run is no evidence, but it is known to be missing."""
    every, rows = _grouped(rows), [row for row in rows if WAYS[0] in row.results]
    yield "| client | ranks | " + " | ".join(f"{way}: {_COUNTS}" for way in EACH_RANK) + " | differences |"
    yield "| --- | ---: " + "| ---: " * len(EACH_RANK) + "| ---: |"
    for (name, ranks), group in _grouped(rows).items():
        number = len(every[name, ranks]) + (name in cannot)
        cells = [_cell([row.results[way] for row in group if way in row.results], number) for way in EACH_RANK]
        differing = [sum(len(row.found.get(way, [])) for row in group) for way in EACH_RANK[1:]]
        yield f"| {name} | {ranks} | {' | '.join(cells)} | {', '.join(map(str, differing))} |"
    yield ""
    yield from _notes(rows, cannot, EACH_RANK)


def session_text(rows: Sequence[Row], cannot: dict[str, str]) -> Iterator[str]:
    """The lines of the table of sessions, and what is to be said of the clients in it."""
    yield from session_table(rows, cannot)
    yield ""
    yield from _notes([row for row in rows if SESSION in row.results], cannot, (SESSION,))


def session_table(rows: Sequence[Row], cannot: Collection[str] = ()) -> Iterator[str]:
    """The lines of the table of sessions, in which a test counts once; nothing, if there is none."""
    every = _grouped(row for row in rows if SESSION in row.ways)
    rows = [row for row in rows if SESSION in row.results]
    if rows:
        yield f"| client | ranks | mpiexec: {_COUNTS} | session: {_COUNTS} | differences |"
        yield "| --- | ---: | ---: | ---: | ---: |"
    for (name, ranks), group in _grouped(rows).items():
        real = [merged(row.results[WAYS[0]]) for row in group if WAYS[0] in row.results]
        number = len(every[name, ranks]) + (name in cannot)
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
                scope = " ".join(filter(None, (known.way, known.run, known.test)))
                ranks = f" on {', '.join(map(str, known.ranks))} ranks" if known.ranks else ""
                yield f"  * `{scope}`{ranks}: {known.why}."
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
    dots = "" if len(results) == runs else DOTS
    each = [counts(result) for result in results]
    return (
        f"{'/'.join(str(sum(kind)) for kind in zip(*each, strict=True))}, {sum(r.seconds for r in results):.0f}{dots}"
    )


def _versions(client: Client, rows: Sequence[Row]) -> str:
    found = next(row.versions for row in rows if row.client is client)
    names = {requirement.partition("==")[0].lower() for requirement in (*client.requires, "numpy", "mpich", "mpi4py")}
    return ", ".join(f"{name} {version}" for name, version in found.items() if name.lower() in names) + "."
