"""Show where a file uses a phrase of the style list (FILE ...), or record the hits of each file (--write)."""

import sys
from pathlib import Path

from tests.style.prose import counts, hits, prose, record

if sys.argv[1:] == ["--write"]:
    record(counts())
for name in (word for word in sys.argv[1:] if word != "--write"):
    for kind, text in prose(Path(name).resolve()).items():
        print(*(f"{name}: {kind}: {hit}" for hit in hits(text)), sep="\n")
