"""The limits of one simulation, known before it begins, also to those who only plan one."""

from __future__ import annotations

from typing import Final

_SHARDS_OF_FEW_RANKS: Final = 64
_MOST_SHARDS: Final = 1024

MOST_PROCESSES: Final = 1024
"""How many processes of their own ranks may have at first: each is a shard, and one process looks after all."""


def most_shards(ranks: int) -> int:
    """Return how many shards one process takes; more would only be slow.

    Each shard looks at all others in each window, and needs a time to each of them. Some without ranks are no mistake:
    the same number may be asked for in a test of any size, and ranks that are started while others run live in them,
    too.
    """
    return min(max(ranks, _SHARDS_OF_FEW_RANKS), _MOST_SHARDS)


def problem_of_shards(shards: int, ranks: int) -> str:
    """Return why so many shards cannot be in one process; empty if they can."""
    most = most_shards(ranks)
    if shards <= most:
        return ""
    noun = "rank" if ranks == 1 else "ranks"
    return f"{shards:,} is out of range for {ranks:,} {noun} in one process (at most {most:,})"


def processes_of(ranks: int, each: int) -> int:
    """Return how many processes so many ranks begin in, with `each` in one of its own; 0: one has all."""
    return -(-ranks // each) if each else 1


def problem_of_processes(ranks: int, each: int) -> str:
    """Return why so many ranks cannot have `each` of them in one process, and what to write; empty if they can."""
    wanted = processes_of(ranks, each)
    if wanted <= MOST_PROCESSES:
        return ""
    least = -(-ranks // MOST_PROCESSES)
    return f"{wanted:,} processes are more than {MOST_PROCESSES:,}; give each more ranks, as in process:{least}"
