"""``python -m tests.clients``: run the tests of public packages on virtual ranks and under a real mpiexec.

Each client of ``suites/`` gets an environment of its own in ``.clients/``, with the real MPI of the package index. What
has been run is kept there and not run again. ``--write`` renews the lines of the pages that were made whole, and lets
the others stay. Ends with status 1 if a test does otherwise on virtual ranks and the client's description does not
say why.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.clients.description import MANY, RANKS, BadDescription, Client, clients
from tests.clients.environment import ROOT, CannotRun, Environment
from tests.clients.judgement import counts, differences, failures, merged, unexpected
from tests.clients.page import Row, session_table, write_pages
from tests.clients.running import SESSION, WAYS, Result, Run, all_runs, run, runs_on_many

WRITE = (
    "write the pages of the documentation, too: a line that was made whole, in each way that the page has of it, "
    "replaces that of the same client and ranks; one with dots, only one with dots; all others stay"
)


class Campaign:
    """Runs what is asked for, and says how each run does as soon as that is known."""

    def __init__(self, options: argparse.Namespace):
        self._options = options
        self._ranks = [int(size) for size in options.ranks.split(",")]
        self._ways = options.ways.split(",")
        self.rows: list[Row] = []
        self.cannot: dict[str, str] = {}

    def client(self, client: Client, place: str = "") -> None:
        """Run a client's tests."""
        print(f"{client.name}{place}: {', '.join(client.requires)}", flush=True)
        environment = Environment(client, self._options.folder)
        environment.make()
        if missing := environment.missing():
            self.cannot[client.name] = missing
            print(f"  {missing}", flush=True)
        versions = environment.versions()
        for one in (*all_runs(environment), *runs_on_many(environment)):
            for ranks in self._ranks:
                if ranks in one.ranks:
                    self.rows.append(self._row(environment, one, ranks))
                    self.rows[-1].versions.update(versions)

    def _row(self, environment: Environment, one: Run, ranks: int) -> Row:
        row = Row(environment.client, one.name, ranks, ways=one.ways(ranks))
        for way, result in self._results(environment, one, ranks):
            row.results[way] = result
            said = f"  {one.name}, {ranks} ranks, {way}: {'/'.join(map(str, counts(result)))}, {result.seconds:.0f} s"
            real = row.results.get(WAYS[0])
            if way != WAYS[0] and (real or ranks == MANY):
                row.found[way] = (
                    differences(merged(real) if way == SESSION else real, result) if real else failures(result)
                )
                row.unexpected[way] = list(
                    unexpected(row.found[way], environment.client.expected, way, one.name, ranks)
                )
                told = ("differ", "as mpiexec") if real else ("not passed", "all passed")
                said += f", {len(row.found[way])} {told[0]}" if row.found[way] else f", {told[1]}"
            print(said, *(f"    {found}" for found in row.unexpected.get(way, [])), sep="\n", flush=True)
        return row

    def _results(self, environment: Environment, one: Run, ranks: int) -> Iterator[tuple[str, Result]]:
        meant = self._options.runs in one.name
        for way in one.ways(ranks):
            kept = environment.folder / "results" / f"{one.name.replace('/', '_')}-{ranks}-{way}.json"
            if kept.exists() and not (meant and way in self._options.again.split(",")):
                yield way, Result.read(kept)
            elif meant and way in self._ways:
                result = run(environment, one, ranks, way)
                result.write(kept)
                yield way, result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="clients (default: all)")
    parser.add_argument("-n", "--ranks", default=",".join(map(str, (*RANKS, MANY))), help="numbers of ranks")
    parser.add_argument("--ways", default=",".join(WAYS), help="ways to run that are not yet there")
    parser.add_argument("--again", default="", help="ways to run again even if they are there")
    parser.add_argument("--runs", default="", help="run only what has this in its name")
    parser.add_argument("--folder", type=Path, default=ROOT / ".clients", help="where to install and to keep results")
    parser.add_argument("--write", action="store_true", help=WRITE)
    options = parser.parse_args(arguments)
    options.folder = options.folder.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    campaign = Campaign(options)
    try:
        each = list(clients(options.names))
        for number, client in enumerate(each, 1):
            try:
                campaign.client(client, f" ({number} of {len(each)})")
            except CannotRun as problem:
                campaign.cannot[client.name] = str(problem)
                print(f"  {problem}", flush=True)
    except BadDescription as problem:
        print(problem, file=sys.stderr)
        return 2
    if options.write:
        write_pages(campaign.rows, campaign.cannot, options.ways.split(","))
    print(*session_table(campaign.rows, campaign.cannot), sep="\n")
    bad = sum(len(found) for row in campaign.rows for found in row.unexpected.values())
    print(f"{len(campaign.rows)} runs, {bad} unexpected differences, {len(campaign.cannot)} clients could not be run")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
