"""Blocks of failed ranks that successful calls left unchanged in receive buffers, for a warning."""

from __future__ import annotations

from typing import Any, NamedTuple

from xsim_py.code_origin import PACKAGE
from xsim_py.process.ranks import current

from .call_sites import here, line_of


class UnchangedBlocks(NamedTuple):
    """The first such block of a shard, and their number."""

    time_ps: int
    rank: int
    call: str
    file: str
    line: int
    block: int
    option: str
    blocks: int = 1

    def __str__(self) -> str:
        """Return the warning about the block."""
        place = f" ({self.file}:{self.line})" if self.line else ""
        more = f" (and {self.blocks - 1:,} more)" if self.blocks > 1 else ""
        what = f"rank {self.rank}: {self.call}{place} kept old bytes in block {self.block} of its buffer{more}"
        return f"{what}: they may differ between ranks and runs; drop {self.option}=none"


def keep(comm: Any, call: str, block: int, option: str) -> None:
    """Record that an option made a call of the running rank leave a block of its buffer unchanged."""
    fabric = comm.fabric
    file, line = line_of(here())
    if file.startswith(PACKAGE):
        line = 0  # in the background, without a frame of the program
    kept = UnchangedBlocks(current.running().clock_ps, comm.box.rank.number, call, file, line, block, option)
    fabric.unchanged_blocks = kept if fabric.unchanged_blocks is None else joined(fabric.unchanged_blocks, kept)


def joined(one: UnchangedBlocks, other: UnchangedBlocks) -> UnchangedBlocks:
    """Return the first block of two, with the total number."""
    return min(one, other)._replace(blocks=one.blocks + other.blocks)
