"""What is left of a shard at the end of a run, as plain data that can travel to the shard that reports."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xsim_py.process.fiber import Fiber
from xsim_py.process.output import Line

from .calls import AllOf, Background
from .comm import WORLD_CID
from .message import Receive, Send

if TYPE_CHECKING:
    from xsim_py.process.program import Program
    from xsim_py.process.rank import Rank
    from xsim_py.process.shard import Shard

    from .p2p import Fabric

__all__ = ["Leftover", "Part", "Waiting", "harvest"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_LEFTOVERS = 1000


@dataclass(slots=True)
class Waiting:
    """A rank that had not ended.

    Attributes
    ----------
    rank, clock_ps : int
        Who, and at what virtual time.
    reason : str
        What it waits for; empty if it was running.
    kind : str
        The same without the particulars, to group ranks by.
    place : str
        File and line of the program.
    peer : int or None
        The one rank that it waits for, if it is one.
    collective : (str, int, str) or None
        Communicator, number and note of the collective that it is in.
    """

    rank: int
    clock_ps: int
    reason: str
    kind: str
    place: str
    peer: int | None
    collective: tuple[str, int, str] | None


@dataclass(slots=True)
class Leftover:
    """A message that arrived and was never received; ranks are those of the whole run."""

    source: int
    dest: int
    tag: int
    size_bytes: int


@dataclass(slots=True)
class Part:
    """One shard's share of the result; lists have one entry for each of its ranks, in order.

    `unread` names the messages of collectives that nobody took: communicator, number, note, and sender.
    """

    first: int
    lines: list[Line]
    digest: int
    events: int
    now_ps: int
    stopped_ps: int | None
    abort: tuple[int, int, int, str] | None
    stop_reason: str
    ended_ps: list[int | None]
    exit_status: list[int | None]
    messages: list[int]
    sent_bytes: list[int]
    waited_ps: list[int]
    nodes: list[int]
    pairs: list[tuple[int, int, int, int]]
    collectives: dict[tuple[str, str], tuple[int, int, int, int]]
    waiting: list[Waiting] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    leftover_count: int = 0
    unread: list[tuple[str, int, str, int]] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


def harvest(shard: Shard, program: Program, fabric: Fabric) -> Part:
    """Collect what shard and ranks know, before their memory is given up."""
    ranks = shard.ranks
    part = Part(
        first=shard.first,
        lines=[] if shard.number == 0 else shard.output.take(),
        digest=shard.digest,
        events=shard.kernel.events,
        now_ps=shard.kernel.now_ps,
        stopped_ps=shard.stopped_ps,
        abort=shard.abort,
        stop_reason=shard.control.stop_reason,
        ended_ps=[rank.ended_ps for rank in ranks],
        exit_status=[rank.exit_status for rank in ranks],
        messages=[rank.messages_sent for rank in ranks],
        sent_bytes=[rank.bytes_sent for rank in ranks],
        waited_ps=[rank.waited_ps for rank in ranks],
        nodes=[fabric.settings.machine.node_of[rank.number] for rank in ranks],
        pairs=_pairs(ranks),
        collectives={key: (row[0], row[1], row[2], row[3]) for key, row in fabric.calls.items()},
    )
    part.waiting = [_waiting(rank, program) for rank in ranks if rank.exit_status is None]
    unread: set[tuple[str, int, str, int]] = set()
    for rank in ranks:
        for message in rank.mpi.all_kept() if rank.mpi is not None else ():
            if message.cid & 1 == 0:
                part.leftover_count += 1
                if len(part.leftovers) < _MOST_LEFTOVERS:
                    part.leftovers.append(Leftover(message.origin, rank.number, message.tag, message.size_bytes))
            else:
                label = "MPI_COMM_WORLD" if message.cid == WORLD_CID | 1 else "a communicator"
                unread.add((label, message.tag, str(message.note), message.origin))
    part.unread = sorted(unread)[:_MOST_LEFTOVERS]
    if program.kind == "callable":
        part.values = [rank.extra.get("value") if rank.extra else None for rank in ranks]
    return part


def _pairs(ranks: list[Rank]) -> list[tuple[int, int, int, int]]:
    """(source, destination, size class, messages); a size class k holds the sizes of k bits: 2**(k-1) to 2**k - 1."""
    return [
        (rank.number, slot >> 6, slot & 63, count)
        for rank in ranks
        if rank.mpi is not None
        for slot, count in sorted(rank.mpi.pairs.items())
    ]


def _waiting(rank: Rank, program: Program) -> Waiting:
    fiber = rank.fiber
    reason = fiber.waiting
    inner = reason
    if isinstance(reason, Background) and reason.fiber is not None and reason.fiber.waiting is not None:
        inner = reason.fiber.waiting
    if isinstance(inner, AllOf):
        inner = inner.first
    note = getattr(inner, "note", None)
    collective = None
    peer = None
    if isinstance(inner, Receive | Send):
        comm = inner.comm
        if note is not None:
            collective = (comm.label(), comm.collectives, str(note))
        other = inner.source if isinstance(inner, Receive) else inner.dest
        peer = comm.remote[other] if other >= 0 else None
    name = getattr(inner, "name", type(reason).__name__)
    if reason is None:
        kind = "running"
    else:
        kind = f"in {note.name}" if note is not None else f"in {name}" if inner is not reason or peer else str(name)
    return Waiting(
        rank=rank.number,
        clock_ps=fiber.clock_ps,
        reason=reason.describe() if reason is not None else "",
        kind=kind,
        place=_place(fiber, program),
        peer=peer,
        collective=collective,
    )


def _place(fiber: Fiber, program: Program) -> str:
    """Where in the user's own code a parked fiber stands: the innermost frame under the program's folder."""
    greenlet = fiber.greenlet
    frame = greenlet.gr_frame if greenlet is not None else None
    first = ""
    folder = str(program.folder) + os.sep if program.folder is not None else None
    while frame is not None:
        file = frame.f_code.co_filename
        if not os.path.abspath(file).startswith(_PACKAGE) and not file.startswith("<frozen"):
            place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
            if folder is None or file == program.file or os.path.abspath(file).startswith(folder):
                return place
            first = first or place
        frame = frame.f_back
    return first
