"""What the real MPIs make of mpi4py's tests, recorded: ``python -m tests.conformance --record`` writes the file.

One line for each test; in it a word for each number of ranks, 1 first, and in each word a letter for each MPI: ``p``
passed, ``s`` skipped, ``f`` failed, ``-`` did not end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.judgement import CUT, Outcomes

RECORDED = Path(__file__).with_name("recorded.json")
MPIS = ("MPICH", "Open MPI")
SIZES = (1, 2, 3, 4, 5)

_LETTERS = {"passed": "p", "skipped": "s", "failed": "f", CUT: "-"}
_MEANINGS = {letter: outcome for outcome, letter in _LETTERS.items()}

Records = Mapping[tuple[str, int], Outcomes]
"""Outcomes by MPI and number of ranks."""


def recorded(ranks: int, path: Path = RECORDED) -> list[Outcomes]:
    """The outcomes under each real MPI on so many ranks; none where they have not been recorded.

    A module of which tests did not end has `CUT`, too.
    """
    if ranks not in SIZES:
        return []
    found: list[Outcomes] = [{} for _ in MPIS]
    for test, words in json.loads(path.read_text()).items():
        for outcomes, letter in zip(found, words.split()[SIZES.index(ranks)], strict=True):
            outcomes[test if letter != "-" else f"{test.partition('.')[0]}.*"] = _MEANINGS[letter]
    return found


def write(records: Records, path: Path = RECORDED) -> None:
    """Write outcomes of all MPIs and numbers of ranks; those that are missing stay what they are."""
    old = {(mpi, ranks): outcomes for ranks in SIZES for mpi, outcomes in zip(MPIS, recorded(ranks, path), strict=True)}
    merged = {key: {**outcomes, **records.get(key, {})} for key, outcomes in old.items()}
    tests = sorted(test for test in set().union(*merged.values()) if not test.endswith(".*"))
    lines = []
    for test in tests:
        words = ["".join(_LETTERS[merged[mpi, n].get(test, CUT)] for mpi in MPIS) for n in SIZES]
        lines.append(f'"{test}": "{" ".join(words)}"')
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
