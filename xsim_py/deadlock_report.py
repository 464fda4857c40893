"""The deadlock report: waiting ranks, mismatched calls, and unreceived messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from xsim_py.mpi.calls import MISMATCH
from xsim_py.mpi.comm import WORLD_CID
from xsim_py.mpi.shard_result import Leftover, ShardResult, WaitingRank
from xsim_py.mpi.transport.call_order import Begun
from xsim_py.units import format_time, spans

_MOST_LISTED = 8


def _flat(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(lists))


def deadlock_report(
    headline: str, waiting: list[WaitingRank], total: int, parts: Sequence[ShardResult], *, stalled: bool = False
) -> str:
    """Return the report of a run with unfinished ranks; `stalled`: they will never finish."""
    ended = total - len({entry.rank for entry in waiting})
    counted = f"{ended:,} of {total:,} ranks {'has' if ended == 1 else 'have'} ended"
    lines = [headline, f"{counted}; the others:" if waiting else counted]
    groups: dict[str, list[WaitingRank]] = {}
    for entry in waiting:
        groups.setdefault(entry.place, []).append(entry)
    for place, members in groups.items():
        lines.append(f"  {_ranks(entry.rank for entry in members)}{place and ', '}{place}")
        lines += [f"      {text}" for text in _particulars(members)]
    lines += _mismatches(waiting, parts, stalled=stalled)
    edges: dict[int, list[int]] = {}
    for entry in waiting:  # one for each thread of a rank
        edges.setdefault(entry.rank, []).extend(entry.peers)
    cycle = _cycle(edges)
    if cycle and stalled:  # otherwise the awaited messages may be in transit
        shown = [f"rank {rank}" for rank in cycle]
        if len(shown) > 2 * _MOST_LISTED:
            shown = [*shown[:_MOST_LISTED], f"... {len(shown) - _MOST_LISTED - 2:,} more ...", *shown[-2:]]
        lines.append(f"cycle: {' waits for '.join(shown)}")
    lines += _dead_ends(waiting, parts, stalled=stalled)
    leftovers = _flat(part.leftovers for part in parts)
    if leftovers:
        lines.append(unreceived(leftovers, sum(part.leftover_count for part in parts)))
    return "\n".join(lines)


def _ranks(numbers: Iterable[int]) -> str:
    known = sorted(set(numbers))
    return f"rank{'s' if len(known) > 1 else ''} {spans(known)}"


def _particulars(members: list[WaitingRank]) -> list[str]:
    """Return the reasons of ranks that wait at the same line."""
    groups: dict[str, list[WaitingRank]] = {}
    for entry in members:
        groups.setdefault(entry.reason, []).append(entry)
    shown = []
    for reason, alike in list(groups.items())[:_MOST_LISTED]:
        first, last = (format_time(f(entry.clock_ps for entry in alike), digits=None) for f in (min, max))
        when = first if first == last else f"{first} to {last}"
        shown.append(f"{_ranks(entry.rank for entry in alike)} at {when}: {reason}")
    rest = sum(len(alike) for alike in list(groups.values())[_MOST_LISTED:])
    return [*shown, f"... and {rest:,} more"] if rest else shown


def _mismatches(waiting: list[WaitingRank], parts: Sequence[ShardResult], *, stalled: bool) -> list[str]:
    """Return where ranks made different collective calls, with call counts, and rejected calls."""
    places = _first_differences(parts)
    waits: dict[tuple[str, int], dict[str, list[int]]] = {}
    numbers: dict[str, set[int]] = {}
    for entry in waiting:
        for label, number, note in entry.collectives:
            numbers.setdefault(label, set()).add(number)
            known = next((where for where in places if where[0] == label), None)
            if known is None or number < known[1]:
                waits.setdefault((label, number), {}).setdefault(note, []).append(entry.rank)
    lines, labels = [], set()
    for (label, number), notes in (places | waits).items():
        if len(notes) > 1:
            detail = "; ".join(f"{_ranks(ranks)} in {note}" for note, ranks in notes.items() if ranks)
            lines.append(f"{MISMATCH} on {label}, collective number {number}: {detail}")
            labels.add(label)
    world = "MPI_COMM_WORLD"
    if (stalled and numbers.get(world)) or world in labels:
        counts: dict[int, list[int]] = {}
        for rank, count in _counts(parts, WORLD_CID).items():
            counts.setdefault(count, []).append(rank)
        if len(counts) > 1:
            detail = "; ".join(f"{count} by {_ranks(ranks)}" for count, ranks in sorted(counts.items(), reverse=True))
            lines.append(f"collective calls on {world}: {detail}")
            labels.add(world)
    refused = [each for part in parts for each in part.refused if each.label in labels]
    return [*lines, *(f"rank {r.rank}: {r.name} at {r.place} was refused: {r.error}" for r in refused)]


def _counts(parts: Sequence[ShardResult], cid: int) -> dict[int, int]:
    """Return the number of collective calls per rank on a communicator, as far as known."""
    return {rank: count for part in parts for rank, count in part.counted.get(cid, {}).items()}


def _first_differences(parts: Sequence[ShardResult]) -> dict[tuple[str, int], dict[str, list[int]]]:
    """Return the first differing call of each communicator: the ranks, by call and location."""
    calls: dict[tuple[int, int], list[tuple[ShardResult, Begun]]] = {}
    for part in parts:
        for begun in part.begun:
            calls.setdefault((begun.cid, begun.number), []).append((part, begun))
    found: dict[tuple[str, int], dict[str, list[int]]] = {}
    for (cid, number), those in sorted(calls.items(), key=itemgetter(0)):
        label = those[0][1].label
        if len({begun.note for _, begun in those}) < 2 or any(known == label for known, _ in found):
            continue
        notes: dict[str, list[int]] = found.setdefault((label, number), {})
        for part, begun in those:
            ranks = begun.ranks
            if ranks is None:
                others = {rank for other, each in those if other is part for rank in each.ranks or ()}
                counted = part.counted.get(cid, {})
                if not part.counted and cid == WORLD_CID:  # all ranks of that shard have ended
                    counted = dict.fromkeys(range(part.first, part.first + len(part.ended_ps)), number)
                ranks = [rank for rank, count in counted.items() if count >= number]
                ranks = [rank for rank in ranks if rank not in others]
            text = next((text for text in notes if text.startswith(f"{begun.note}, at ")), "")
            notes.setdefault(text or f"{begun.note}, at {begun.place}", []).extend(ranks)
    return found


def _dead_ends(waiting: list[WaitingRank], parts: Sequence[ShardResult], *, stalled: bool) -> list[str]:
    """Return the finished ranks that others wait for, or poll for although all have finished."""
    ended = {part.first + i: ps for part in parts for i, ps in enumerate(part.ended_ps) if ps is not None}
    failed = {rank for part in parts for _, rank, _ in part.failures}
    awaited = {peer for entry in waiting for peer in entry.peers if peer in ended} if stalled else set()
    polled = {peer for entry in waiting if ended.keys() >= set(entry.polled) for peer in entry.polled}
    lines = []
    for verb, ranks in (("waited", awaited), ("polled", polled)):
        for detail, those in (("failed", ranks & failed), ("ended already", ranks - failed)):
            if those:
                first = f"rank {min(those)} " if len(those) > 1 else ""
                when = format_time(ended[min(those)], digits=None)
                lines.append(f"{verb} for, but {detail}: {_ranks(those)} ({first}at {when})")
    return lines


def _cycle(edges: dict[int, list[int]]) -> list[int]:
    """Return a cycle of the wait-for graph as a closed walk, from the lowest rank."""
    done: set[int] = set()
    for start in sorted(edges):
        path: dict[int, None] = {}  # in order
        choices = [iter((start,))]
        while choices:
            at = next(choices[-1], None)
            if at is None:
                choices.pop()
                if path:
                    done.add(path.popitem()[0])
            elif at in path:
                walk = list(path)
                return [*walk[walk.index(at) :], at]
            elif at not in done:
                path[at] = None
                choices.append(iter(edges.get(at, ())))
    return []


def unread(parts: Sequence[ShardResult]) -> tuple[str, int]:
    """Return the first collective with unreceived messages, as text, and the number of them.

    Small messages leave no rank waiting; the program continues as if the collective had taken place.
    """
    messages = sorted(_flat(part.unread for part in parts))
    if not messages:
        return "", 0
    label, number = messages[0][:2]
    senders: dict[str, set[int]] = {}
    for entry in messages:
        if entry[:2] == (label, number):
            senders.setdefault(entry[2], set()).add(entry[3])
    detail = "; ".join(f"rank{'s' * (len(ranks) > 1)} {spans(ranks)} in {note}" for note, ranks in senders.items())
    text = f"{MISMATCH} on {label}, collective number {number}: {detail}"
    return f"{text}; their messages of this collective were never received", len(senders)


def unreceived(leftovers: list[Leftover], count: int) -> str:
    """Return the warning about messages that were never received; `count` is their total number."""
    listed = leftovers[:_MOST_LISTED]
    places = {m.place for m in listed}
    together = f"; all {places.pop()}" if len(places) == 1 < len(listed) and "" not in places else ""
    shown = [
        f"rank {m.source} to rank {m.dest}, tag {m.tag}, {m.size_bytes} bytes"
        + (f", {m.place}" if m.place and not together else "")
        for m in listed
    ]
    more = f"; and {count - len(shown):,} more" if count > len(shown) else ""
    messages = "message was" if count == 1 else "messages were"
    return f"{count:,} {messages} sent but never received: {'; '.join(shown)}{more}{together}"
