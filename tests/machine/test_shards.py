"""Which ranks are simulated together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsim_py.machine import shard_blocks

RANKS = st.integers(1, 60)
CORES = st.integers(1, 8)
SHARDS = st.integers(1, 70)


@given(RANKS, CORES, SHARDS)
def test_blocks_are_consecutive_and_hold_every_rank_once(ranks: int, cores: int, shards: int) -> None:
    blocks = shard_blocks([rank // cores for rank in range(ranks)], shards=shards)
    assert len(blocks) == shards
    assert [rank for block in blocks for rank in block] == list(range(ranks))
    assert all(blocks[: min(shards, ranks)])


@given(RANKS, CORES, SHARDS)
def test_nodes_stay_whole_while_there_are_enough(ranks: int, cores: int, shards: int) -> None:
    node_of = [rank // cores for rank in range(ranks)]
    blocks = shard_blocks(node_of, shards=shards)
    if node_of[-1] + 1 >= shards:
        nodes = [node for block in blocks for node in {node_of[rank] for rank in block}]
        assert len(nodes) == len(set(nodes))


@given(RANKS, SHARDS)
def test_single_ranks_are_shared_out_evenly(ranks: int, shards: int) -> None:
    sizes = [len(block) for block in shard_blocks(range(ranks), shards=shards) if block]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 20), CORES, SHARDS)
def test_full_nodes_are_shared_out_evenly(nodes: int, cores: int, shards: int) -> None:
    blocks = shard_blocks([node for node in range(nodes) for _ in range(cores)], shards=shards)
    if nodes >= shards:
        sizes = [len(block) // cores for block in blocks]
        assert max(sizes) - min(sizes) <= 1


def test_ranks_that_are_dealt_out_are_cut_anywhere() -> None:
    assert shard_blocks([0, 1, 0, 1, 0, 1], shards=3) == [range(2), range(2, 4), range(4, 6)]
