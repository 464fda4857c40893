"""The limits of one simulation, known before it begins, for planning as well."""

from __future__ import annotations

from typing import Final

_SHARDS_OF_FEW_RANKS: Final = 64
_MOST_SHARDS: Final = 1024

MOST_PROCESSES: Final = 1024
"""The maximum number of processes with ranks: each is a shard, and one coordinator serves all."""


def most_shards(ranks: int) -> int:
    """Return the maximum number of shards per process; more would only be slow.

    Each shard looks at all others in each window, and stores a time to each. Shards without ranks are allowed: a test
    may use one number of shards for any number of ranks, and dynamic processes run in them, too.
    """
    return min(max(ranks, _SHARDS_OF_FEW_RANKS), _MOST_SHARDS)


def problem_of_shards(shards: int, ranks: int) -> str:
    """Return why a process cannot have this number of shards; empty if it can."""
    most = most_shards(ranks)
    if shards <= most:
        return ""
    noun = "rank" if ranks == 1 else "ranks"
    return f"{shards:,} is out of range for {ranks:,} {noun} in one process (at most {most:,})"


def processes_of(ranks: int, each: int) -> int:
    """Return the number of initial processes with `each` ranks per process.

    0 stands for a single process.
    """
    return -(-ranks // each) if each else 1


def problem_of_processes(ranks: int, each: int) -> str:
    """Return why the ranks cannot be split into processes of `each` and what to write.

    The text is empty if they can.
    """
    wanted = processes_of(ranks, each)
    if wanted <= MOST_PROCESSES:
        return ""
    least = -(-ranks // MOST_PROCESSES)
    return f"{wanted:,} processes are more than {MOST_PROCESSES:,}; give each more ranks, as in process:{least}"
