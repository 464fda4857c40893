"""Whether the tests are those of every change, or of `make campaign`, which has hours and goes through every case."""

import os
from collections.abc import Iterable, Sequence
from itertools import cycle, product
from typing import Any

CAMPAIGN = os.environ.get("HYPOTHESIS_PROFILE") == "campaign"
SHARDS = (1, 2, 3, 7) if CAMPAIGN else (1, 3)


def dealt(cases: Iterable[Sequence[Any]], values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return each case with each of the values in a campaign, and with one of them, in turn, otherwise."""
    pairs = product(cases, values) if CAMPAIGN else zip(cases, cycle(values), strict=False)
    return [(*case, value) for case, value in pairs]
