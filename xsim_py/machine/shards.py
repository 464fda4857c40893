"""The division of ranks into shards."""

from __future__ import annotations

from collections.abc import Sequence


def shard_blocks(node_of: Sequence[int], *, shards: int) -> list[range]:
    """Divide the ranks into consecutive blocks of about the same size, one per shard.

    Nodes are not split as long as there are enough of them: latencies within a node are the shortest, and a shard may
    only look ahead by its minimum latency to other shards. If `shards` exceeds the number of ranks, the last blocks are
    empty.
    """
    ranks = len(node_of)
    if shards == 1:
        return [range(ranks)]
    starts = [0, *(rank for rank in range(1, ranks) if node_of[rank] != node_of[rank - 1])]
    if len(starts) < shards:
        starts = list(range(ranks))
    count = min(shards, len(starts))
    cuts = [0]
    at = 0
    for shard in range(1, count):
        ideal = shard * ranks / count
        last = len(starts) - (count - shard)  # leave a node for each of the following shards
        at += 1
        while at < last and abs(starts[at + 1] - ideal) <= abs(starts[at] - ideal):
            at += 1
        cuts.append(starts[at])
    cuts += [ranks] * (shards + 1 - len(cuts))
    return [range(cuts[shard], cuts[shard + 1]) for shard in range(shards)]
