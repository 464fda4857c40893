"""Show where a file uses a phrase of the style list (FILE ...), or record the hits of each file (--write).

If a file has more hits than recorded, nothing is recorded: its phrases are shown, with exit status 1.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.style.prose import ROOT, counts, hits, prose, record, rises


def main(arguments: Sequence[str]) -> int:
    """Show the phrases of files, or record the hits, and return the exit status."""
    found = counts() if "--write" in arguments else None
    more = rises(found) if found else {}
    for name in (*(word for word in arguments if word != "--write"), *more):
        for kind, text in prose((ROOT / name if name in more else Path(name)).resolve()).items():
            print(*(f"{name}: {kind}: {hit}" for hit in hits(text)), sep="\n")
    for name, numbers in more.items():
        print(f"{name}: hits may not rise ({numbers}); nothing was recorded", file=sys.stderr)
    if found is not None and not more:
        record(found)
    return bool(more)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
