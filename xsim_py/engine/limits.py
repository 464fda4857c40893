"""How much one simulation may hold: known before it begins, also to who only plans one."""

from __future__ import annotations

from typing import Final

__all__ = ["most_shards"]

_SHARDS_OF_FEW_RANKS: Final = 64
_MOST_SHARDS: Final = 1024


def most_shards(ranks: int) -> int:
    """How many shards one process takes; more would only be slow.

    Each shard looks at all others in each window, and needs a time to each of them. Some without ranks are no mistake:
    the same number may be asked for in a test of any size, and ranks that are started while others run live in them,
    too.
    """
    return min(max(ranks, _SHARDS_OF_FEW_RANKS), _MOST_SHARDS)
