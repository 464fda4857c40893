"""Assembly of the `Result` from the shards: totals, tables, warnings, deadlock report."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from xsim_py.deadlock_report import deadlock_report, unread, unreceived
from xsim_py.errors import NOT_WRITTEN
from xsim_py.mpi.shard_result import OF_RANKS, ShardResult
from xsim_py.mpi.transport.unchanged_blocks import joined
from xsim_py.process.profiler import PARTS
from xsim_py.report import Result, Table
from xsim_py.report.result import failure_entry
from xsim_py.report.table import run_table, table_of_rows
from xsim_py.trace import Trace
from xsim_py.units import PS_PER_S, exact_seconds, format_time

_MOST_LISTED = 8
_KILLED = 137


class Attempt(NamedTuple):
    """One start of the job; a job that restarts after an abort has several."""

    start_ps: int
    """Virtual time of the start."""
    parts: Sequence[ShardResult]
    """The results of its shards, in order."""

    @property
    def stopped_ps(self) -> int | None:
        """Return the time at which the launcher ended it, or None."""
        return max((part.stopped_ps for part in self.parts if part.stopped_ps is not None), default=None)

    @property
    def ended(self) -> str:
        """Return its ending, as in `Result.ended`."""
        return _ending(self.parts)[0]

    @property
    def aborted_ps(self) -> int | None:
        """Return the time of its abort, or None."""
        return _virtual_time_ps(self.parts) if _ending(self.parts)[0] == "aborted" else None

    @property
    def failures(self) -> list[tuple[int, int, str]]:
        """Return all failures: time, rank, cause."""
        return sorted(_flat(part.failures for part in self.parts))


def assemble(
    attempts: Sequence[Attempt],
    facts: dict[str, Any],
    *,
    left: str,
    compute: str,
    missed: Mapping[str, str] = MappingProxyType({}),
    unwritten: Sequence[str] = (),
    found: Iterable[str] = (),
) -> Result:
    """Join the parts of all shards.

    `attempts` are the starts of the job; the ending and the ranks are those of the last. `facts` are provenance and
    host cost of the run, `compute` is ``measured`` or not, and `left` is the digest of the program's output and stored
    files. `missed` are injected failures that did not occur, as given, for example at a call that was not made, each
    with the calls of its rank instead, or "". `unwritten` are files that could not be written back to the host; they do
    not affect the digest. `found` are warnings from the run.
    """
    parts = attempts[-1].parts
    every = [part for attempt in attempts for part in attempt.parts]
    ended, status, report = _ending(parts)
    virtual_ps = _virtual_time_ps(parts)
    statuses = _flat(part.exit_status for part in parts)
    ended_ps = _flat(part.ended_ps for part in parts)
    text = repr((sum(part.digest for part in every) & ((1 << 64) - 1), ended_ps, statuses, left, ended, status))
    failures = [failure for attempt in attempts for failure in attempt.failures]
    summary = {
        "virtual_time_s": virtual_ps / PS_PER_S,
        "virtual_time_exact_s": exact_seconds(virtual_ps),
        "ranks_end_s": _spread_s(ended_ps),
        "digest": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        "events": sum(part.events for part in every),
        "messages": sum(sum(part.messages) for part in every),
        "bytes": sum(sum(part.sent_bytes) for part in every),
        "exit_status": NOT_WRITTEN if unwritten else status,
        "ended": ended,
        "aborted": ended == "aborted",
        "restarts": len(attempts) - 1,
        "failures": [failure_entry(rank, time_ps, cause) for time_ps, rank, cause in failures],
        **{key: value for key, value in facts.items() if key not in ("machine", "program")},
    }
    result = Result(
        summary,
        tables=_tables(attempts),
        report=report,
        # Reported only for finished runs, where the program would otherwise seem to have survived the failure.
        warnings=[
            *found,
            *_warnings(parts, ended, compute),
            *never_came_warnings(missed if ended == "finished" else {}),
            *unwritten,
        ],
        machine=facts["machine"],
        program=facts["program"],
    )
    result.never_came = dict(missed)
    result.values = _flat(part.values for part in parts)
    result.set_trace(_trace(attempts))
    result.choices = _flat(part.choices for part in parts)
    result.polls = any(part.polls for part in parts)
    return result


def _tables(attempts: Sequence[Attempt]) -> list[Table]:
    """Return the tables of a result; those of ranks describe the last start of the job."""
    parts = attempts[-1].parts
    every = [part for attempt in attempts for part in attempt.parts]
    return [
        _ranks_table(parts),
        run_table("pairs", partial(_pairs, [part.pairs for part in every])),
        _collectives_table(every),
        _failures_table(attempts),
        _learned_table(attempts),
        _starts_table(attempts),
        *_worlds_table(attempts),
        *_fault_tables(attempts),
        *_storage_table(parts),
        *_profile_table(parts),
    ]


def _spread_s(ended_ps: Sequence[int | None]) -> dict[str, float]:
    """Return the minimum, mean and maximum end time of ranks in seconds; empty without any."""
    times = [time_ps for time_ps in ended_ps if time_ps is not None]
    if not times:
        return {}
    mean_s = float(Fraction(sum(times), len(times) * PS_PER_S))
    return {"min": min(times) / PS_PER_S, "mean": mean_s, "max": max(times) / PS_PER_S}


def _trace(attempts: Sequence[Attempt]) -> Trace | None:
    """Return the recorded trace, or None if the run was not traced."""
    recorded = [[part.trace for part in attempt.parts if part.trace is not None] for attempt in attempts]
    if not any(recorded):
        return None
    return Trace.joined([Trace.of(recorders) for recorders in recorded], [attempt.start_ps for attempt in attempts])


def _flat(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(lists))


def _virtual_time_ps(parts: Sequence[ShardResult]) -> int:
    stopped = [part.stopped_ps for part in parts if part.stopped_ps is not None]
    if stopped:
        return max(stopped)
    if any(part.stop_reason for part in parts):
        return max(part.now_ps for part in parts)
    times = [time_ps for part in parts for time_ps in part.ended_ps if time_ps is not None]
    times += [waiting.clock_ps for part in parts for waiting in part.waiting]
    return max(times, default=0)


def _ending(parts: Sequence[ShardResult]) -> tuple[str, int, str]:
    """Return the ending of the run, its exit status, and its report."""
    reasons = [part.stop_reason for part in parts if part.stop_reason]
    waiting = _flat(part.waiting for part in parts)
    total = sum(len(part.ended_ps) for part in parts)
    if reasons:
        message = "the wall limit was reached" if reasons[0] == "wall limit" else "interrupted"
        message = f"{message} at {format_time(_virtual_time_ps(parts), digits=None)}"
        return reasons[0], 4 if reasons[0] == "wall limit" else 130, deadlock_report(message, waiting, total, parts)
    abort = next((part.abort for part in parts if part.abort is not None), None)
    if abort is not None:
        when = format_time(abort.time_ps, digits=None)
        if abort.is_mismatch:
            return "stalled", 3, deadlock_report(f"{abort.message}, at {when}", waiting, total, parts)
        place = next((f"\n    {part.abort_place}" for part in parts if part.abort_place), "")
        return "aborted", abort.status, f"rank {abort.rank} ended the job at {when}: {abort.message}{place}"
    failed = {rank for part in parts for _, rank, _ in part.failures}
    if len(failed) == total:
        time_ps, rank, cause = max(_flat(part.failures for part in parts))
        message = f"rank {rank}, the last of {total:,}, failed at {format_time(time_ps, digits=None)}: {cause}"
        return "aborted", _KILLED, f"no process is left: {message}"
    if waiting:
        now = format_time(_virtual_time_ps(parts), digits=None)
        message = f"deadlock at {now}: no rank can make progress"
        return "stalled", 3, deadlock_report(message, waiting, total, parts, stalled=True)
    ends = [
        (time_ps, part.first + index, status)
        for part in parts
        if any(part.exit_status)  # skips the loop over all ranks in the usual case
        for index, (time_ps, status) in enumerate(zip(part.ended_ps, part.exit_status, strict=True))
        if status and part.first + index not in failed
    ]
    lost, _ = unread(parts)
    if lost and not ends and not any(part.failure_seen for part in parts):
        return "stalled", 3, lost
    return "finished", min(ends)[2] if ends else 0, ""


# ------------------------------------------------------------------------------------- warnings and tables


def _warnings(parts: Sequence[ShardResult], ended: str, compute: str) -> list[str]:
    warnings = []
    leftovers = _flat(part.leftovers for part in parts)
    if leftovers and ended == "finished" and not any(part.failure_seen for part in parts):
        warnings.append(unreceived(leftovers, sum(part.leftover_count for part in parts)))
    if compute == "measured":
        warnings.append("compute time was measured on the host: times and digest differ from run to run")
    return warnings + _kept(parts) + _clock_waits(parts) + _computing(parts) + _shared(parts)


def _clock_waits(parts: Sequence[ShardResult]) -> list[str]:
    """Return a warning about lines with growing clock ticks, each with the most affected rank."""
    longest: dict[str, tuple[int, int]] = {}
    for place, rank, grown_ps in sorted(_flat(part.clock_waits for part in parts)):
        if grown_ps > longest.get(place, (0, 0))[0]:
            longest[place] = grown_ps, rank
    listed = sorted(longest.items(), key=lambda entry: (-entry[1][0], entry[0]))[:_MOST_LISTED]
    if not listed:
        return []
    detail = "; ".join(f"{format_time(grown_ps)} of rank {rank} at {place}" for place, (grown_ps, rank) in listed)
    more = f"; and at {len(longest) - len(listed):,} more lines" if len(longest) > len(listed) else ""
    return [f"loops that poll a clock advanced it in growing ticks and end up to 1 % late: {detail}{more}"]


def _kept(parts: Sequence[ShardResult]) -> list[str]:
    """Return a warning if blocks of failed ranks were left as they were in receive buffers."""
    kept = [part.unchanged_blocks for part in parts if part.unchanged_blocks is not None]
    return [str(reduce(joined, kept))] if kept else []


def _computing(parts: Sequence[ShardResult]) -> list[str]:
    """Return warnings about the costs of computation."""
    found = [part.computed for part in parts if part.computed is not None]
    unknown = sorted({stretch for each in found for stretch in each.unknown})
    complaints = sorted({complaint for each in found for complaint in each.complaints})
    if unknown:
        listed = ", ".join(f"{begin} to {end}" for begin, end in unknown[:_MOST_LISTED])
        rest = f", and {len(unknown) - _MOST_LISTED:,} more" if len(unknown) > _MOST_LISTED else ""
        complaints.append(f"computation missing from the file of times took no time: {listed}{rest}")
    return complaints


def _shared(parts: Sequence[ShardResult]) -> list[str]:
    """Return warnings about state that ranks have changed for each other, each name once."""
    sentences = {name: said for part in reversed(parts) for name, said in part.shared.items()}
    turns = Counter[str]()
    in_turn: dict[str, int] = {}
    for name in sorted(sentences):
        package = name.partition(".")[0]
        in_turn[name] = turns[package]
        turns[package] += 1
    listed = sorted(sentences, key=lambda name: (in_turn[name], name))[:_MOST_LISTED]  # some of each package
    lines = [f"shared by ranks: {name}, {sentences[name]}" for name in sorted(listed)]
    rest = len(sentences) - len(listed)
    return [*lines, f"shared by ranks: {rest:,} more names of packages"] if rest else lines


def never_came_warnings(statements: Mapping[str, str]) -> list[str]:
    """Return a warning about injected failures that did not occur; see `Result.never_came`."""
    if not statements:
        return []
    more = f"; and {len(statements) - _MOST_LISTED:,} more" if len(statements) > _MOST_LISTED else ""
    listed = [f"{what} ({instead})" if instead else what for what, instead in statements.items()]
    detail = "; ".join(listed[:_MOST_LISTED])
    return [f"never injected, because the ranks had ended or made no such call: {detail}{more}"]


def _ranks_table(parts: Sequence[ShardResult]) -> Table:
    cells = {column: _flat(getattr(part, name) for part in parts) for name, column in OF_RANKS.items()}
    ranks = list(range(len(cells["end_s"])))
    return run_table("ranks", {"rank": ranks, **{name: each for name, each in cells.items() if each}})


def _pairs(pieces: Sequence[Any]) -> dict[str, Any]:
    """Return the columns of the table of pairs, by numpy: there may be millions of rows."""
    rows = np.concatenate(pieces)
    slots = rows[:, 0] << 38 | rows[:, 1] << 6 | rows[:, 2]
    if (slots[1:] < slots[:-1]).any():  # otherwise all parts are sorted already, and consecutive per start
        order = np.argsort(slots, kind="stable")
        rows, slots = rows[order], slots[order]
    first = np.flatnonzero(np.append(True, slots[1:] != slots[:-1]))[: len(rows)]
    source, dest, size_class, *_ = rows[first].T
    power = 1 << size_class
    return {
        "source": source,
        "dest": dest,
        "size_from": power >> 1,
        "size_to": power - 1,
        "messages": np.add.reduceat(rows[:, 3], first) if len(rows) else [],
        "bytes": np.add.reduceat(rows[:, 4], first) if len(rows) else [],
    }


def _collectives_table(parts: Sequence[ShardResult]) -> Table:
    joined: dict[tuple[str, str, str], list[int]] = {}
    for part in parts:
        for key, (calls, size, total, longest) in part.collectives.items():
            row = joined.setdefault(key, [0, 0, 0, 0])
            row[0] += calls
            row[1] += size
            row[2] += total
            row[3] = max(row[3], longest)
    rows = [
        (*key, calls, size, total / calls / PS_PER_S, longest)
        for key, (calls, size, total, longest) in sorted(joined.items())
    ]
    return table_of_rows("collectives", rows)


def _failures_table(attempts: Sequence[Attempt]) -> Table:
    """Return all failures, each with the number of ranks that learnt of it, and when."""
    rows = []
    for start, attempt in enumerate(attempts):
        notified: dict[int, list[int]] = {}
        for part in attempt.parts:
            for failed, time_ps, _, _ in part.learned:
                notified.setdefault(failed, []).append(time_ps)
        for time_ps, rank, cause in attempt.failures:
            known = notified.get(rank, [])
            rows.append((start, rank, time_ps, cause, len(known), min(known, default=None), max(known, default=None)))
    return table_of_rows("failures", rows)


def _learned_table(attempts: Sequence[Attempt]) -> Table:
    rows = [
        (start, failed, rank, time_ps, how)
        for start, attempt in enumerate(attempts)
        for failed, time_ps, rank, how in sorted(_flat(part.learned for part in attempt.parts))
    ]
    return table_of_rows("learned", rows)


def _starts_table(attempts: Sequence[Attempt]) -> Table:
    rows = []
    for start, attempt in enumerate(attempts):
        ended, _, report = _ending(attempt.parts)
        end_ps = _virtual_time_ps(attempt.parts)
        rows.append((start, attempt.start_ps, end_ps, ended, report.split("\n")[0]))
    return table_of_rows("starts", rows)


def _worlds_table(attempts: Sequence[Attempt]) -> list[Table]:
    """Return the table of spawned ranks, or no table if there are none."""
    rows = [
        (start, world.number, world.first, world.size, world.begin_ps, world.parent, world.command)
        for start, attempt in enumerate(attempts)
        for part in attempt.parts
        for world in part.worlds
    ]
    return [table_of_rows("worlds", rows)] if rows else []


def _fault_tables(attempts: Sequence[Attempt]) -> Iterator[Table]:
    """Yield the table of each kind of faults besides failures that have occurred."""
    for name in attempts[-1].parts[0].faults:
        rows = [
            (start, fault.rank, time_ps, *cells)
            for start, attempt in enumerate(attempts)
            for time_ps, fault, cells in _flat(part.faults.get(name, ()) for part in attempt.parts)
        ]
        if rows:
            yield table_of_rows(name, sorted(rows, key=itemgetter(0, 2, 1)))


def _storage_table(parts: Sequence[ShardResult]) -> list[Table]:
    """Return the storage operations of each rank over all starts; no table without storage."""
    rows = [(rank, *row) for rank, row in enumerate(_flat(part.storage for part in parts))]
    return [table_of_rows("storage", rows)] if rows else []


def _profile_table(parts: Sequence[ShardResult]) -> list[Table]:
    """Return the wall time of each shard by part, if the run was profiled."""
    rows = [
        (number, name, s) for number, part in enumerate(parts) for name, s in zip(PARTS, part.profile, strict=False)
    ]
    return [table_of_rows("profile", rows)] if rows else []
