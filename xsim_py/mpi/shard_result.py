"""The result of a shard at the end of a run: plain data that can be sent to the reporting shard."""

# ruff: noqa: RUF009 - `_of_ranks` makes a dataclasses.field, as a default here must be

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.code_origin import PACKAGE, of_program, shown, text_of
from xsim_py.engine import UNBOUNDED_PS
from xsim_py.process.output.collector import finish_lines
from xsim_py.process.output.spilled_lines import Line, SpilledRun
from xsim_py.process.python.threads import name_of, others
from xsim_py.process.ranks.fiber import UNTIL
from xsim_py.process.ranks.rank import Abort, Rank

from .calls import ABANDONED, AllOf, Background
from .collectives.choose import title
from .comm import WORLD_CID
from .constants import ANY_SOURCE, ANY_TAG
from .dynamic.launcher import Launcher, World
from .failures.deaths import Deaths
from .failures.repair import RepairCall
from .rma.waits import WindowWait
from .transport import message as envelopes
from .transport.call_order import Begun, RefusedCall
from .transport.call_sites import call_of, sent_at, tag_of_program
from .transport.mailbox import Probe
from .transport.message import Receive, Send
from .transport.unchanged_blocks import UnchangedBlocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from xsim_py.process.programs.apps import Apps
    from xsim_py.process.programs.program import Program as One
    from xsim_py.process.ranks.fiber import Fiber

    Program = One | Apps
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Shard
    from xsim_py.process.ranks.stretches import Computed
    from xsim_py.schedules import MadeChoice
    from xsim_py.trace import Recorder

    from .transport.fabric import Fabric

_MOST_LEFTOVERS = 1000
_ACTS = re.compile(r"\.(?!Get_|Is_)([A-Z]|i?[bs]?send\b)")
"""Calls that communicate, unlike local queries: a loop of the program may be interrupted in one."""


@dataclass(slots=True)
class WaitingRank:
    """A rank that had not ended, or one of its additional threads."""

    rank: int
    clock_ps: int
    """Since when it waits, or until when it sleeps."""
    reason: str
    """The reason of its wait, if any."""
    place: str
    """File, line and text of the program."""
    peers: list[int]
    """The world ranks all of which it waits for; empty if one of several would do."""
    collectives: list[tuple[str, int, str]]
    """Communicator, number and note of each collective that it is in."""
    polled: list[int] = field(default_factory=list)
    """The world ranks one of which it polls for."""


@dataclass(slots=True)
class Leftover:
    """A message that arrived and was never received; ranks are world ranks.

    `place` is the source location of its send, if known.
    """

    source: int
    dest: int
    tag: int
    size_bytes: int
    place: str


def _of_ranks(column: str, fill: Callable[[Rank, Any], Any] | None = None) -> Any:
    """Return a field with a value per rank for a column of the table ``ranks``; `collect` fills it otherwise."""
    return field(default_factory=list, metadata={"filled": (column, fill)})


@dataclass(slots=True)
class ShardResult:
    """One shard's share of the result; lists have one entry for each of its ranks, in order.

    If ranks have not ended, `begun` and `refused` are the collective calls that ranks have made (see
    `transport.call_order`), and `counted` their numbers, by the number of the communicator and by rank. `unread` are
    the unreceived messages of collectives: communicator, number, note, and sender. `failures` are those of this shard's
    ranks: time, rank, cause; `learned` are the detections: failed rank, time, detecting rank, how; `failure_seen` is
    whether calls may have been left in the middle because of failures or revocations; `storage` is the use of a
    simulated storage by each rank: operations, bytes read, bytes written, picoseconds; `profile` is the wall-clock
    seconds spent in each of `process.profiler.PARTS`. The last ranks are the spawned ones (`spawned`); `worlds`, in the
    first part, are those of the whole run; `shared`, in the first part of a process, is the state that its ranks have
    changed for each other, by name; `choices` are those of the ranks, in a run with a schedule; `polls` is True if a
    rank has polled unsuccessfully; `computed`, in the first part of a process, is the result of compute measurements,
    and `called` the calls made instead of those at which ranks were to fail; `faults` are those of other kinds that
    have occurred, by kind; `peak_bytes` is the maximum memory of each rank's arrays, if counted; `clock_waits`
    are the loops that waited for a time in growing ticks: file and line, rank, picoseconds; `unchanged_blocks` are
    those that calls left in receive buffers.
    """

    first: int
    lines: list[Line | SpilledRun]
    digest: int
    events: int
    now_ps: int
    stopped_ps: int | None
    abort: Abort | None
    abort_place: str
    stop_reason: str
    pairs: NDArray[np.int64]
    collectives: dict[tuple[str, str, str], tuple[int, int, int, int]]
    nodes: list[int] = _of_ranks("node", lambda rank, fabric: fabric.settings.machine.node_of[rank.number])
    ended_ps: list[int | None] = _of_ranks("end_s", lambda rank, fabric: rank.ended_ps)
    exit_status: list[int | None] = _of_ranks("exit_status", lambda rank, fabric: rank.exit_status)
    messages: list[int] = _of_ranks("messages")
    sent_bytes: list[int] = _of_ranks("bytes")
    waited_ps: list[int] = _of_ranks("waited_s")
    peak_bytes: list[int] = _of_ranks("peak_bytes")
    waiting: list[WaitingRank] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    leftover_count: int = 0
    unread: list[tuple[str, int, str, int]] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    refused: list[RefusedCall] = field(default_factory=list)
    counted: dict[int, dict[int, int]] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    trace: Recorder | None = None
    failure_seen: bool = False
    failures: list[tuple[int, int, str]] = field(default_factory=list)
    learned: list[tuple[int, int, int, str]] = field(default_factory=list)
    storage: list[tuple[int, int, int, int]] = field(default_factory=list)
    profile: list[float] = field(default_factory=list)
    spawned: list[int] = field(default_factory=list)
    worlds: list[World] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)
    choices: list[MadeChoice] = field(default_factory=list)
    polls: bool = False
    computed: Computed | None = None
    called: dict[str, str] = field(default_factory=dict)
    faults: dict[str, list[tuple[int, Any, tuple[Any, ...]]]] = field(default_factory=dict)
    clock_waits: list[tuple[str, int, int]] = field(default_factory=list)
    unchanged_blocks: UnchangedBlocks | None = None

    @property
    def occurred(self) -> set[str]:
        """The faults that have occurred, as specified."""
        return {str(fault) for occurred in self.faults.values() for _, fault, _ in occurred}


_FILLED = {each.name: each.metadata["filled"] for each in fields(ShardResult) if "filled" in each.metadata}
OF_RANKS = {name: column for name, (column, _) in _FILLED.items()}
"""The lists of the values of ranks, and their columns in the table ``ranks``."""


def joined(parts: list[ShardResult], first: int) -> list[ShardResult]:
    """Move the spawned ranks from the parts to an additional one, ordered by number.

    So lists over ranks are in order, part by part; `first` is the first number of a spawned rank.
    """
    if not any(part.spawned for part in parts):
        return parts
    nothing: Any = {field.name: [] for field in fields(ShardResult)}
    nothing.update(first=first, digest=0, events=0, now_ps=0, stopped_ps=None, abort=None, abort_place="")
    nothing.update(stop_reason="", collectives={}, shared={}, called={}, faults={}, leftover_count=0, trace=None)
    nothing.update(failure_seen=False, computed=None, unchanged_blocks=None)
    more = ShardResult(**nothing)
    for name in (*OF_RANKS, "storage"):
        found: list[tuple[int, Any]] = []
        for part in parts:
            entries = getattr(part, name)
            if entries:
                mine = len(entries) - len(part.spawned)
                found += zip(part.spawned, entries[mine:], strict=True)
                del entries[mine:]
        setattr(more, name, [entry for _, entry in sorted(found, key=itemgetter(0))])
    rows = np.concatenate([part.pairs for part in parts])
    for part in parts:
        part.pairs = part.pairs[part.pairs[:, 0] < first]
    rows = rows[rows[:, 0] >= first]
    more.pairs = rows[np.argsort(rows[:, 0], kind="stable")]
    for name, number in (("waiting", attrgetter("rank")), ("leftovers", attrgetter("dest"))):
        moved = []
        for part in parts:
            entries = getattr(part, name)
            moved += [entry for entry in entries if number(entry) >= first]
            entries[:] = [entry for entry in entries if number(entry) < first]
        setattr(more, name, sorted(moved, key=number))
    return [*parts, more]


def collect(shard: Shard, program: Program, fabric: Fabric) -> ShardResult:
    """Collect the results of shard and ranks, before their memory is released."""
    ranks = shard.ranks
    if shard.abort is None:
        for rank in ranks:
            if rank.extra is not None:
                finish_lines(rank, UNBOUNDED_PS - 1)  # at the very end: lines after its clock may be written
    part = ShardResult(
        first=shard.first,
        lines=[] if shard.number == 0 else shard.output.take(far=shard.far),
        digest=fabric.digest,
        events=shard.kernel.events,
        now_ps=shard.kernel.now_ps,
        stopped_ps=shard.stopped_ps,
        abort=shard.abort,
        abort_place=_abort_place(shard, program),
        stop_reason=shard.control.stop_reason,
        messages=fabric.tally.messages(),
        sent_bytes=fabric.tally.sent_bytes(),
        waited_ps=fabric.tally.waited_ps,
        pairs=fabric.tally.pairs(),
        collectives=_collectives(fabric),
    )
    for name, (_, fill) in _FILLED.items():
        if fill is not None:
            setattr(part, name, [fill(rank, fabric) for rank in ranks])
    for rank in ranks:
        if rank.exit_status is None:
            part.waiting.append(_waiting(rank.fiber, program))
            for fiber in others(rank):
                entry = _waiting(fiber, program)
                entry.reason = f"its thread {name_of(fiber)}: {entry.reason}"
                part.waiting.append(entry)
    _collect_unreceived(part, ranks, program)
    if part.waiting or not shard.alone:
        part.begun = fabric.order.begun(program.start)
        part.refused = fabric.order.refused(program.start)
    if part.waiting:
        part.counted = _counted(ranks)
    if program.has_value:  # spawned ranks do not run it
        part.values = [rank.extra.get("value") if rank.extra else None for rank in ranks[: len(shard.block)]]
    part.spawned = [rank.number for rank in ranks[len(shard.block) :]]
    part.worlds = list(fabric.part(Launcher).worlds.values()) if shard.number == 0 else []
    part.trace = _recorded(shard, fabric)
    part.choices = fabric.choices()
    part.polls = any(rank.mpi is not None and rank.mpi.polls is not None for rank in ranks)
    part.faults = {carrier.name: carrier.occurred for carrier in fabric.fault_carriers()}
    if fabric.settings.counts_memory:
        from xsim_py.process.python.memory_limit import peak_bytes  # most runs have no limit

        part.peak_bytes = [peak_bytes(rank) for rank in ranks]
    part.clock_waits = [entry for rank in ranks if rank.reads is not None for entry in _clock_waits(rank, program)]
    part.failure_seen = fabric.failure_seen
    blocks = fabric.unchanged_blocks
    part.unchanged_blocks = blocks and blocks._replace(file=shown(blocks.file, program.start))
    part.failures = [(death.time_ps, death.rank, death.cause) for death in fabric.part(Deaths).deaths]
    for rank in ranks:
        if rank.mpi is not None and rank.mpi.knowledge is not None:
            known = rank.mpi.knowledge.known
            part.learned += [(failed, time_ps, rank.number, how) for failed, (time_ps, how) in known.items()]
    return part


def _clock_waits(rank: Rank, program: Program) -> Iterator[tuple[str, int, int]]:
    """Yield the loops of a rank that have waited for a time in growing ticks."""
    for (file, line), grown_ps in rank.reads.grown_ps.items():
        yield f"{shown(file, program.start)}:{line}", rank.number, grown_ps


def _collect_unreceived(part: ShardResult, ranks: Sequence[Rank], program: Program) -> None:
    """Record the unreceived messages: those of the program, and those within collectives."""
    unread: set[tuple[str, int, str, int]] = set()
    for rank in ranks:
        left = rank.extra.get(ABANDONED, ()) if rank.extra else ()
        for message in rank.mpi.all_kept() if rank.mpi is not None and rank.mpi.unexpected else ():
            if (message.cid, message.tag) in left:
                continue
            if message.cid & 1 == 0:
                part.leftover_count += 1
                if len(part.leftovers) < _MOST_LEFTOVERS:
                    tag, place = tag_of_program(message.tag), sent_at(message, program.start)
                    part.leftovers.append(Leftover(message.origin, rank.number, tag, message.size_bytes, place))
            else:
                context = rank.mpi.fabric.contexts.get((message.cid & ~1, -1))
                cid = message.cid & ~1 if context is None or context.replaces is None else context.replaces.cid
                label = "MPI_COMM_WORLD" if cid == WORLD_CID else "a communicator"
                unread.add((label, message.tag, str(message.note), message.origin))
    part.unread = sorted(unread)[:_MOST_LEFTOVERS]


def _counted(ranks: Sequence[Rank]) -> dict[int, dict[int, int]]:
    """Return the numbers of collective calls, on COMM_WORLD and the communicators of pending calls."""
    counted: dict[int, dict[int, int]] = {}
    for rank in ranks:
        waiting = rank.fiber.waiting if rank.exit_status is None else None
        leaves = () if waiting is None else _leaves(waiting)
        comms = [leaf.comm.shown for leaf in leaves if getattr(leaf, "note", None) is not None]
        if rank.mpi is not None and rank.mpi.world is not None:
            comms.append(rank.mpi.world)
        for comm in comms:
            counted.setdefault(comm.cid, {})[rank.number] = comm.collectives
    return counted


def _collectives(fabric: Fabric) -> dict[tuple[str, str, str], tuple[int, int, int, int]]:
    """Return the calls by communicator, operation, and name of the algorithm."""
    named: dict[tuple[str, str, str], tuple[int, int, int, int]] = {}
    for (label, name, algorithm), (calls, size, total, longest) in fabric.calls.items():
        key = label, name, title(algorithm)
        known = named.get(key, (0, 0, 0, 0))
        named[key] = known[0] + calls, known[1] + size, known[2] + total, max(known[3], longest)
    return named


def _recorded(shard: Shard, fabric: Fabric) -> Recorder | None:
    """Return the recorder of a traced run, after closing unfinished calls and marking an abort."""
    trace = fabric.trace
    if trace is not None:
        for rank in shard.ranks:
            trace.close_open(rank.number, shard.stopped_ps if rank.ended_ps is None else rank.ended_ps)
        if shard.abort is not None and shard.local(shard.abort.rank):
            trace.mark(shard.abort.rank, shard.abort.time_ps, "aborted", shard.abort.message)
    return trace


def release(fabric: Fabric) -> None:
    """Break the cycles of mailboxes, communicators and event handlers: Python collects those late, if ever.

    Objects kept forever of a failed rank refer to the fabric, and must not keep the whole run alive.
    """
    envelopes.observed = envelopes.departed = None
    for rank in fabric.shard.ranks:
        if rank.mpi is not None:
            for comm in (rank.mpi.world, rank.mpi.self_comm):
                if comm is not None:
                    comm.object_context = None
            rank.mpi.world = rank.mpi.self_comm = rank.mpi.spare = None
    fabric.shard.handlers.clear()
    if fabric.instances is not None:
        vars(fabric.instances).clear()
    vars(fabric).clear()
    del fabric.deliver, fabric.due, fabric.ranks


def _waiting(fiber: Fiber, program: Program) -> WaitingRank:
    reason = fiber.waiting
    place = getattr(reason, "place", None) or _place(fiber.greenlet, program)
    waiting = WaitingRank(fiber.rank.number, fiber.clock_ps, "", place, [], [])
    polls = getattr(fiber.rank.mpi, "polls", None) if fiber is fiber.rank.fiber else None
    if reason in (None, UNTIL) and polls is not None and polls.last is not None:
        waiting.reason = f"polling, {polls.last.describe()}"
        waiting.polled = _senders(polls.last)
        return waiting
    if reason is None:
        call = call_of(fiber)
        running = f"running, in {call}" if _ACTS.search(call) else "running, in no MPI call"
        waiting.reason = "not started yet" if fiber.greenlet is None else running
        return waiting
    leaves = _leaves(reason)
    noted = [leaf for leaf in leaves if getattr(leaf, "note", None) is not None]
    waiting.collectives = sorted({(leaf.comm.shown.label(), leaf.comm.number, str(leaf.note)) for leaf in noted})
    if len(noted) == len(leaves) and len(waiting.collectives) == 1:
        # The peers inside a collective depend on the algorithm, and would split a group of ranks that belong together.
        label, _, note = waiting.collectives[0]
        waiting.reason = f"{note} on {label}"
    else:
        waiting.reason = reason.describe()
    if len(leaves) == 1 or isinstance(reason, AllOf):
        waiting.peers = sorted({peer for leaf in leaves for peer in _peers(leaf)})
    call = call_of(fiber)
    if reason is UNTIL:
        waiting.reason = f"in {call}" if call else waiting.reason
    elif call and not re.search(rf"^(\w+\.)?{call.rpartition('.')[2]}\b|for {call}\)", waiting.reason, re.IGNORECASE):
        waiting.reason = f"{call}: {waiting.reason}"
    if len(leaves) == 1 and isinstance(leaves[0], Receive | Probe):
        waiting.reason += _arrived_instead(leaves[0], program)
    if len(waiting.peers) == 1 and not waiting.collectives:
        named = next(_named(leaf) for leaf in leaves if _peers(leaf))
        if waiting.peers[0] != named:
            waiting.reason += f"; it is rank {waiting.peers[0]} of {fiber.rank.shard.everyone}"
    return waiting


def _arrived_instead(leaf: Receive | Probe, program: Program) -> str:
    """Return a message that arrived instead of the awaited one, with another tag or source."""
    if leaf.note is not None or leaf.message is not None:
        return ""
    box, cid = leaf.comm.box, leaf.comm.cid
    found = box.look(cid, leaf.source, ANY_TAG) or box.look(cid, ANY_SOURCE, leaf.tag)
    if found is None:
        return ""
    place = sent_at(found, program.start)
    return f"; but here is one from rank {found.source}, tag {tag_of_program(found.tag)}{place and ', '}{place}"


def _leaves(reason: object) -> list[Any]:
    """Return the single operations behind a reason: several requests, or the waits of a progress thread."""
    if isinstance(reason, Background):
        inner = reason.fiber.waiting if reason.fiber is not None else None
        return [reason] if inner is None else _leaves(inner)
    operations = getattr(reason, "operations", None)
    if operations is None:
        return [reason]
    return [leaf for operation in operations if not operation.done for leaf in _leaves(operation)]


def _peers(leaf: object) -> Sequence[int]:
    """Return the world ranks all of which must act to complete an operation."""
    if isinstance(leaf, WindowWait):
        return leaf.awaited
    if isinstance(leaf, Send):
        return (leaf.to,)
    if isinstance(leaf, Receive | Probe) and leaf.source >= 0:
        return (leaf.comm.remote[int(leaf.source)],)
    return leaf.awaited if isinstance(leaf, RepairCall) else ()


def _senders(leaf: object) -> list[int]:
    """Return the world ranks one of which must act to complete an operation."""
    if isinstance(leaf, Receive | Probe) and leaf.source == ANY_SOURCE:
        return [number for number in leaf.comm.remote if number != leaf.comm.box.rank.number]
    return list(_peers(leaf))


def _named(leaf: Any) -> int:
    """Return the rank in an operation's arguments, in its communicator."""
    if isinstance(leaf, RepairCall):
        return leaf.awaited[0]
    named: int = leaf.dest if isinstance(leaf, Send) else leaf.source
    return named if leaf.comm.report_name is None else leaf.comm.named(named)


def _abort_place(shard: Shard, program: Program) -> str:
    """Return the source location of the rank that aborted the job, if it is known and in this shard."""
    if shard.abort is None or not shard.local(shard.abort.rank):
        return ""
    return _place((shard.rank(shard.abort.rank).extra or {}).get("left"), program)


def _place(greenlet: Any, program: Program) -> str:
    """Return a parked fiber's source location: the innermost frame of a file that is not installed.

    Code made by `exec` has no file; it is used only if there is no other, as in ``python -c``.
    """
    frame = greenlet.gr_frame if greenlet is not None else None
    second_best = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            code = text_of(file, frame.f_lineno)
            place = f"{shown(file, program.start)}:{frame.f_lineno} in {frame.f_code.co_name}"
            place = f"{place}: {code}" if code else place
            if of_program(file) and not file.startswith("<"):
                return place
            second_best = second_best or place
        frame = frame.f_back
    return second_best
