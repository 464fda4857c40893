"""Records what many runs show, before a change of the structure, and compares it with what they show after it.

python -m tests.baseline --save FILE [WORD ...]      records all runs, or those with such a word in their name
python -m tests.baseline --against FILE [WORD ...]   names the runs that show something else than FILE says

A run is a program in one of the ways of `WAYS`. Kept of each is a hash of its digest, times, tables, output and report
(see `tests.isolated.seen`): a record is made by one commit, and read by the next one.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

from tests.cases import ROOT
from tests.isolated import APPS, Program, programs, seen

WAYS: dict[str, dict[str, Any]] = {
    "1 shard": {"shards": 1},
    "3 shards": {"shards": 3},
    "checked": {"check": True},
    "traced": {"trace": True},
    "checked, traced, 3 shards": {"check": True, "trace": True, "shards": 3},
}
_LONG = {"bag_of_tasks", "liveness", "network_benchmarks", "wang_landau"}


def _apps() -> Iterator[Program]:
    """Yield each example with its default arguments, without failures and with one."""
    for path in sorted(APPS.glob("*.py")):
        if path.stem not in _LONG and "__main__" in path.read_text(encoding="utf-8"):
            yield Program(f"apps.{path.stem}", path, {"ranks": 8})
            dying = {"fail": ["rank=3 before its 5th call"], "ft": True}
            yield Program(f"apps.{path.stem}.failing", path, {"ranks": 8, **dying})


def shown(program: Program, options: dict[str, Any]) -> str:
    """Return a hash of what a run in an empty folder shows, or of its error."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        try:
            text = repr(sorted(seen(program, **options).items()))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
    text = text.replace(str(ROOT), "").replace(folder, "")
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def main() -> None:
    """Record the runs, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--save", type=Path, metavar="FILE")
    what.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args()
    before = {} if options.save else json.loads(options.against.read_text(encoding="utf-8"))
    runs = {f"{program}: {way}": (program, more) for program in (*programs(), *_apps()) for way, more in WAYS.items()}
    wanted = [name for name in {**runs, **before} if any(word in name for word in options.words or [""])]
    now, differ = {}, 0
    for name in (name for name in wanted if name in runs):
        now[name] = shown(*runs[name])
        if options.against and now[name] != before.get(name):
            differ += 1
            print(f"{name}: {now[name]}, before {before.get(name, 'not run')}", flush=True)
    lost = [name for name in wanted if name not in now]
    for name in lost:
        print(f"{name}: not run, before {before[name]}", flush=True)
    if options.save:
        options.save.write_text(json.dumps(now, indent=0), encoding="utf-8")
    print(f"{len(now):,} runs, {differ + len(lost)} differ" if options.against else f"{len(now):,} runs")
    sys.exit(min(differ + len(lost), 1) if now else "no run has such a word in its name")


if __name__ == "__main__":
    main()
