"""What the memory of an idle rank is made of: ``python -m tests.bench.rank_bytes 65536``.

The ranks of ``programs/idle.py`` are looked at when each of them has begun and waits: what Python's collector finds is
sorted by type, greenlets tell how much of the C stack they keep, and the rest of what the process has grown by is what
cannot be seen from Python: the pages with the frames of the interpreter, small objects, and room between objects.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from greenlet import greenlet

from xsim_py import simulate
from xsim_py.process.ranks.shard import Shard

PROGRAM = Path(__file__).parent / "programs" / "idle.py"
KINDS = ("program", "simulator", "greenlet and C stack", "frames and the rest", "total")
_HEADER_BYTES = 16  # malloc's, of a copy of a stack
_PAGE_BYTES = resource.getpagesize()


def measure(ranks: int) -> dict[str, float]:
    """Bytes a rank by kind, as in `KINDS`."""
    found: dict[str, float] = {}
    begin = Shard._start

    def begin_and_look(shard: Shard, body: Callable[[Any], None]) -> None:
        before = _resident()
        begin(shard, body)
        found.update(_sorted(ranks, _resident() - before))

    simulate(PROGRAM, ranks=2)
    Shard._start = begin_and_look  # type: ignore[method-assign]
    try:
        simulate(PROGRAM, ranks=ranks)
    finally:
        Shard._start = begin  # type: ignore[method-assign]
    return found


def _sorted(ranks: int, grown: int) -> dict[str, float]:
    sizes: Counter[str] = Counter()
    for thing in gc.get_objects():
        size = sys.getsizeof(thing)
        if isinstance(thing, greenlet):
            sizes["greenlet and C stack"] += size + thing._stack_saved + _HEADER_BYTES
        elif isinstance(thing, FunctionType | ModuleType | dict):
            sizes["program"] += size
        else:
            sizes["simulator"] += size
    sizes["frames and the rest"] = grown - sum(sizes.values())
    sizes["total"] = grown
    return {kind: sizes[kind] / ranks for kind in KINDS}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
