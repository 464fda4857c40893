"""What must hold of what the ranks of a program with failures saw (see `recovery_programs`), by the rules of ULFM.

Nothing here knows how the simulator does it: only who died when, and what each call was given and has returned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from tests.mpi.failures.recovery_programs import LONG, Journal, Record
from tests.mpi.failures.recovery_scenarios import Scenario
from xsim_py.mpi import constants as c

FOR_EVER_PS = 1 << 80
_AGREEMENTS = ("Agree", "Iagree")
_SHRINKS = ("Shrink", "Ishrink")
_EXEMPT = (*_AGREEMENTS, *_SHRINKS, "Revoke", "Ack_failed")


@dataclass
class Run:
    """One run of a scenario: who died when, who learnt of it when, and what everybody saw."""

    scenario: Scenario
    journal: Journal
    result: Any
    died_ps: dict[int, int]
    learned_ps: dict[tuple[int, int], int]
    """When a rank (the second) learnt of the failure of another one."""

    def death_ps(self, rank: int) -> int:
        return self.died_ps.get(rank, FOR_EVER_PS)


class Return(NamedTuple):
    """What one rank took out of an agreement or a shrink."""

    rank: int
    record: Record
    outcome: Any


def check(run: Run) -> None:
    """All of it."""
    check_end(run)
    check_waiting(run)
    check_errors(run)
    check_knowledge(run)
    for _, entries in instances(run.journal, _AGREEMENTS):
        check_agreement(run, entries)
    for _, entries in instances(run.journal, _SHRINKS):
        check_shrink(run, entries)
    check_contexts(run.journal)
    check_messages(run.journal)
    check_collectives(run.journal)


# --------------------------------------------------------------------------------------------- how it ended


def check_end(run: Run) -> None:
    """A run ends: all have a result, or all have failed, or the report says who waits for whom."""
    result = run.result
    expected = {"finished", "stalled"} if len(run.died_ps) < run.scenario.ranks else {"aborted"}
    assert result.ended in expected, result.report
    assert "mismatch" not in result.report, result.report
    if result.ended == "stalled":
        assert "the others:" in result.report
    for failure in result.failures:
        cause = failure["cause"]
        assert cause.startswith(("injected", "os._exit(1)", "killed by SIGKILL")) or "BugError" in cause, cause
    for rank, value in enumerate(result.values):
        assert value is None or rank not in run.died_ps


def check_waiting(run: Run) -> None:
    """Who waits for ever waits for somebody who lives and who does not come."""
    came: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    revoked = set()
    for rank, record in run.journal.all():
        came[record.comm, record.step, record.call].add(rank)
        if record.call == "Revoke" and rank not in run.died_ps:
            revoked.add(record.comm)
    for rank, record in run.journal.all():
        if rank in run.died_ps or record.end_ps is not None or not record.waiting:
            continue
        assert run.result.ended == "stalled", record
        alive = set(record.members) - set(run.died_ps)
        absent = alive - came[record.comm, record.step, record.call]
        if record.call in (*_AGREEMENTS, *_SHRINKS):
            assert absent, (rank, record)
            continue
        assert record.comm not in revoked, (rank, record)
        if record.kind in ("collective", "make"):
            assert len(alive) == len(record.members), (rank, record)
            assert absent, (rank, record)
        elif record.peer is not None:
            assert record.peer in alive, (rank, record)


# --------------------------------------------------------------------------------- which errors, and why


def check_errors(run: Run) -> None:
    """Which calls may end with which errors, and which must."""
    for rank, record in run.journal.all():
        done = record.end_ps is not None
        assert record.error in _possible(record), record
        assert record.since_ps <= run.death_ps(rank), record
        assert not done or record.since_ps <= record.end_ps <= run.death_ps(rank), record
        if not done:
            continue
        if record.call in _EXEMPT:
            continue
        known = set(record.failed) & set(record.members)
        if record.revoked:
            assert record.error == c.ERR_REVOKED, record
        elif record.kind in ("collective", "make") and known:
            assert record.error, record
        elif record.kind == "send" or record.kind in ("Recv", "Irecv", "Probe", "Mprobe"):
            assert record.peer not in known or record.error, record


def _possible(record: Record) -> tuple[int, ...]:
    if record.call in _AGREEMENTS:
        return c.SUCCESS, c.ERR_PROC_FAILED
    if record.call in _EXEMPT:
        return (c.SUCCESS,)
    if record.kind == "iany":
        # Where its message has come, but not the data of it, it is a receive from that rank.
        return c.SUCCESS, c.ERR_PROC_FAILED, c.ERR_PROC_FAILED_PENDING, c.ERR_REVOKED
    return c.SUCCESS, c.ERR_PROC_FAILED, c.ERR_REVOKED


def check_knowledge(run: Run) -> None:
    """Nobody acts on a failure before it is known, and what is known stays known."""
    revoked_ps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for rank, record in run.journal.all():
        if record.call == "Revoke":
            revoked_ps[record.comm].append((record.since_ps, rank))
    for rank, records in enumerate(run.journal.records):
        seen: dict[str, tuple[int, ...]] = {}
        for record in sorted(records, key=lambda record: record.since_ps):
            assert record.failed[: len(seen.get(record.comm, ()))] == seen.get(record.comm, ()), record
            seen[record.comm] = record.failed
        for record in records:
            _check_known(run, rank, record)
            when_ps = record.since_ps if record.revoked else record.end_ps
            if record.revoked or record.error == c.ERR_REVOKED:
                assert any(at_ps <= when_ps for at_ps, _ in revoked_ps[record.comm]), record


def _check_known(run: Run, rank: int, record: Record) -> None:
    for number in record.failed:
        assert run.learned_ps[number, rank] <= record.since_ps, record
        assert run.died_ps[number] < record.since_ps, record
    if record.end_ps is None:
        return
    assert record.failed_after[: len(record.failed)] == record.failed, record
    for number in {*record.culprits, *record.failed_after}:
        assert run.learned_ps[number, rank] <= record.end_ps, record
    if record.error in (c.ERR_PROC_FAILED, c.ERR_PROC_FAILED_PENDING):
        assert record.culprits, record
        assert set(record.culprits) <= set(record.failed_after), record
        assert set(record.culprits) <= set(record.members), record
        if record.peer is not None:
            assert record.culprits == (record.peer,), record


# ------------------------------------------------------------------------------------ agreements and shrinks


def instances(journal: Journal, calls: Iterable[str]) -> Iterator[tuple[tuple[str, int], list[tuple[int, Record]]]]:
    """The calls that belong together: of one step on one communicator."""
    found: dict[tuple[str, int, str], list[tuple[int, Record]]] = defaultdict(list)
    for rank, record in journal.all():
        if record.call in calls:
            found[record.comm, record.step, record.call].append((rank, record))
    for (comm, step, _), entries in found.items():
        yield (comm, step), entries


def _one_outcome(run: Run, returns: list[Return]) -> None:
    """Any two ranks that have returned and both live at one time have the same."""
    for one in returns:
        for other in returns:
            both_ps = max(one.record.end_ps, other.record.end_ps)
            if both_ps < min(run.death_ps(one.rank), run.death_ps(other.rank)):
                assert one.outcome == other.outcome, (one, other)


def check_agreement(run: Run, entries: list[tuple[int, Record]]) -> None:
    """One value and one error, from everybody who lives and nobody who was not there."""
    members = entries[0][1].members
    ended = [(rank, record) for rank, record in entries if record.end_ps is not None]
    _one_outcome(run, [Return(rank, record, bool(record.error)) for rank, record in ended])
    valued = [Return(rank, record, record.value) for rank, record in ended if record.value is not None]
    _one_outcome(run, valued)
    by_rank = dict(entries)
    for rank, record, value in valued:
        contributors = {member for place, member in enumerate(members) if not value & 1 << place}
        assert contributors <= set(by_rank), record
        assert rank in contributors, record
        assert all(by_rank[member].since_ps <= record.end_ps for member in contributors), record
        _check_everyone_alive(run, members, contributors, record)
        expected = 0x7FFFFFFF
        for member in contributors:
            expected &= by_rank[member].flag
        assert value == expected, record
        missing = set(members) - contributors
        acked = set(members).intersection(*(by_rank[member].acked for member in contributors))
        assert bool(record.error) == (not missing <= acked), record
        if record.error:
            assert set(record.culprits) == missing, record
            assert missing <= set(record.failed_after), record
    for _, record in ended:
        assert record.value is not None or any(run.death_ps(member) < record.end_ps for member in members), record


def _check_everyone_alive(run: Run, members: tuple[int, ...], counted: set[int], record: Record) -> None:
    """Who is not counted must have died before the call has returned."""
    assert all(run.death_ps(member) < record.end_ps for member in set(members) - counted), record


def check_shrink(run: Run, entries: list[tuple[int, Record]]) -> None:
    """One group, with all who return and none whose failure has shown itself before."""
    members = entries[0][1].members
    ended = [(rank, record) for rank, record in entries if record.end_ps is not None]
    _one_outcome(run, [Return(rank, record, record.value) for rank, record in ended])
    for rank, record in ended:
        group = record.value
        assert rank in group, record
        assert group == tuple(member for member in members if member in group), record
        _check_everyone_alive(run, members, set(group), record)
        for other, theirs in ended:
            if theirs.value == group:
                assert other in group, (record, theirs)
                assert not set(theirs.failed) & set(group), (record, theirs)


# --------------------------------------------------------------------------------------- what must never mix


def check_contexts(journal: Journal) -> None:
    """A communicator has one number and one group at all who have it, and no other has that number."""
    numbers: dict[str, int] = {}
    names: dict[int, str] = {}
    groups: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for comms in journal.comms:
        for name, (cid, members) in comms.items():
            if "shrink" not in name:  # the dead may have had another group
                assert numbers.setdefault(name, cid) == cid, name
            assert names.setdefault(cid, name) == name, name
            groups[name].add(members)
    assert all(len(found) == 1 for name, found in groups.items() if "shrink" not in name), groups


def check_messages(journal: Journal) -> None:
    """What is received was sent on that communicator, to this rank, and is received once, whole and in turn."""
    sent = {
        (record.comm, record.members[record.me], record.step) for _, record in journal.all() if record.kind == "send"
    }
    for rank, records in enumerate(journal.records):
        last: dict[tuple[str, int, int], int] = {}
        had: set[tuple[str, int, int]] = set()
        for record in records:
            if record.call not in ("Recv", "Irecv") or record.value is None:
                continue
            source, tag, count, name, sender, step = record.value
            assert name == crc32(record.comm.encode()), record
            assert sender == source, record
            assert count in (3, 3 * LONG), record
            key = (record.comm, record.members[sender], step)
            assert key in sent, (rank, record)
            assert key not in had, (rank, record)
            had.add(key)
            if record.call == "Recv":  # those that do not block are in turn as they were posted, among themselves
                assert step > last.get((record.comm, sender, tag), -1), (rank, record)
                last[record.comm, sender, tag] = step


def check_collectives(journal: Journal) -> None:
    """A collective that succeeds has done what it should with the contributions of all members."""
    for _, record in journal.all():
        if record.kind == "collective" and record.end_ps is not None and not record.error:
            assert record.value == record.expected, record
