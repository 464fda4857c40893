"""Checks of the order of calls: wait-for relations at the end, and reliance on buffering.

The standard lets a send wait for its receive (MPI 4.1, 3.4), and a collective for all its members. A program that needs
a send to complete earlier depends on how much the library buffers. To detect that, the calls of all ranks are replayed
after the run with the same matches, but with each standard send waiting for its receive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsim_py.findings import BUFFERING_HAZARD, CALL_ORDERING, PARAMETER_MATCHING
from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG
from xsim_py.units import spans

from . import epochs, partitions
from .records import CollectiveCall, MessageSide, RequestWait
from .steps import replay_all

if TYPE_CHECKING:
    from collections.abc import Collection

    from .monitor import Monitor, MpiCall


# -------------------------------------------------------------------------------------------- deadlocked runs


def stalled(monitor: Monitor, waiting: Collection[int]) -> None:
    """Find the calls that wait forever, and mismatched arguments that explain it."""
    calls = [call for call in monitor.open_calls() if call.rank.number in waiting]
    sends = (*monitor.in_flight.values(), *(transfer for call in calls for transfer in _sides(call) if transfer.sends))
    unmatched = [send for send in sends if send.partner is None and not monitor.is_over(send.place)]
    explained = False
    for call in calls:
        for receive in _sides(call):
            if not receive.sends and receive.partner is None:
                explained |= any(_explains(monitor, send, receive) for send in dict.fromkeys(unmatched))
    halves = partitions.unmatched(monitor)
    for receive in (each for each in halves if not each.sends and each.rank in waiting):
        explained |= any(_explains(monitor, send, receive) for send in halves if send.sends)
    explained |= _on_other_communicators(monitor)
    explained |= _different_arguments(monitor, calls)
    epochs.check_locks(monitor, calls)
    if explained or monitor.has_finding(CALL_ORDERING, PARAMETER_MATCHING):
        return
    if not calls:
        incomplete(monitor)
    groups: dict[tuple[Any, str], list[MpiCall]] = {}
    for call in calls:
        groups.setdefault((monitor.where(call.place), call.title), []).append(call)
    listed = [
        f"{where}: rank{'s' * (len(group) > 1)} {spans(call.rank.number for call in group)} in {title}"
        for (where, title), group in groups.items()
    ]
    for (where, title), group in groups.items():
        others = [line for line in listed if not line.startswith(f"{where}: ")]
        for call in group:
            monitor.note(CALL_ORDERING, call.place, f"{title} never completes", call.rank.number, *others)
            _note_requests(monitor, call)


def _note_requests(monitor: Monitor, call: MpiCall) -> None:
    """Record the requests that a call waits for forever, if they were made at other lines."""
    for record in call.rank.requests.values():
        operation = record.task.operation
        if record.active and operation is not None and operation.waiter is not None:
            here = monitor.where(call.place)
            if monitor.where(record.place) != here:
                text = f"the request of {record.title} never completes"
                monitor.note(CALL_ORDERING, record.place, text, call.rank.number, f"{here}: {call.title} waits for it")


def _sides(call: MpiCall) -> list[MessageSide]:
    """Return the messages that a call waits for.

    A completion call waits for those of all active requests.
    """
    if call.waits_for is not None:
        return call.waits_for.listed()
    if not call.name.lower().startswith(("wait", "test")):
        return []
    return [side for record in call.rank.requests.values() if record.active for side in record.transfers]


def _explains(monitor: Monitor, send: MessageSide, receive: MessageSide) -> bool:
    """Find a message that a waiting receive would match except for its tag or communicator."""
    here, there = receive.comm, send.comm
    if here is None or there is None or send.peer >= len(there.remote) or there.remote[send.peer] != receive.rank:
        return False
    if receive.peer != ANY_SOURCE and here.remote[receive.peer] != send.rank:
        return False
    same_tag = receive.tag in (ANY_TAG, send.tag)
    same_comm = here.cid == there.cid
    if same_tag == same_comm:
        return False
    tags = f"tag {receive.tag}, but the message has tag {send.tag}"
    what = tags if same_comm else "a message on another communicator"
    monitor.note(
        PARAMETER_MATCHING,
        receive.place,
        f"{receive.name} waits for {what}",
        receive.rank,
        f"{monitor.where(send.place)}: {send.name} of rank {send.rank}",
    )
    return True


def _on_other_communicators(monitor: Monitor) -> bool:
    """Find ranks that call one collective on different communicators."""
    by_name: dict[str, list[tuple[int, CollectiveCall]]] = {}
    for ((cid, _, _), _), instance in monitor.members.items():
        for entry in instance.calls.values():
            by_name.setdefault(entry.name, []).append((cid, entry))
    found = False
    for name, group in by_name.items():
        there, first = group[0]
        for cid, entry in group[1:]:
            mine, theirs = entry.instance, first.instance
            if cid != there and entry.rank in theirs.members and first.rank in mine.members:
                text = f"{name} is called on different communicators"
                other = f"{monitor.where(first.place)}: {first.name} of rank {first.rank}"
                monitor.note(PARAMETER_MATCHING, entry.place, text, entry.rank, other)
                found = True
    return found


def _different_arguments(monitor: Monitor, calls: list[MpiCall]) -> bool:
    """Find ranks that wait in the same call with arguments that must agree but differ."""
    first: dict[str, MpiCall] = {}
    found = False
    for call in calls:
        other = first.setdefault(call.title, call)
        if call.name in ("Create_group", "Create_intercomm") and call.matching != other.matching:
            text = f"{call.title} has {call.matching}, but {other.matching} on rank {other.rank.number}"
            details = f"{monitor.where(other.place)}: {other.title} of rank {other.rank.number}"
            monitor.note(PARAMETER_MATCHING, call.place, text, call.rank.number, details)
            found = True
    return found


def incomplete(monitor: Monitor) -> None:
    """Find collectives that some members never call although no rank waits for them."""
    for ((*comm, number), _), instance in monitor.members.items():
        is_start = number is not None
        if is_start and ((*comm, None), number) in monitor.members:
            continue  # a rank that has not made the request cannot start it
        verb = "start" if is_start else "call"
        here = {entry.rank for entry in instance.calls.values()}
        missing = [rank for rank in instance.members if rank not in here]
        if missing:
            others = f"rank{'s' * (len(missing) > 1)} {spans(missing)} did not {verb} it"
            for entry in instance.calls.values():
                monitor.note(
                    CALL_ORDERING,
                    entry.place,
                    f"{entry.name} is not {verb}ed by all",
                    entry.rank,
                    others,
                )


def unreceived(monitor: Monitor, *, before: bool = False) -> None:
    """Find messages that are never received.

    With `before`, only those of ended activities are reported.
    """
    for send in monitor.in_flight.values():
        if before and not monitor.is_over(send.place):
            continue
        text = f"a message of {send.name} is never received"
        monitor.note(CALL_ORDERING, send.place, text, send.rank, f"to rank {send.peer}, tag {send.tag}")


# ----------------------------------------------------------------------------------------- reliance on buffering


def buffered(monitor: Monitor) -> bool | None:
    """Find sends that have completed only because they were buffered.

    Return whether the program depends on that; None if wildcards, polls or threads could have led to another execution.
    """
    replay_all([state.steps for state in monitor.ranks.values()], is_over=True)
    first = {number: steps[0] for number, state in monitor.ranks.items() if (steps := state.steps.listed())}
    blocked = {number: waited for number, (_, waited, _) in first.items()}
    if not blocked:
        return False
    if monitor.wildcards or monitor.polls or any(state.threads > 1 for state in monitor.ranks.values()):
        return None
    if not any(getattr(each, "sends", False) for waited in blocked.values() for each in waited):
        return _note_unordered(monitor, blocked)
    calls = {number: (posted or waited)[0] for number, (posted, waited, _) in first.items() if posted or waited}
    _note_buffered(monitor, blocked, calls)
    return True


def _note_unordered(monitor: Monitor, blocked: dict[int, list[Any]]) -> bool:
    """Record the collectives that would deadlock if each waited for all members."""
    for number, waited in blocked.items():
        for entry in waited:
            if isinstance(entry, CollectiveCall) and entry.instance is not None:
                others = [
                    f"{monitor.where(other.place)}: {other.name} of rank {other.rank}"
                    for other in entry.instance.calls.values()
                    if not other.posted
                ]
                text = f"this {entry.name} may wait for all members, and would then deadlock"
                monitor.note(CALL_ORDERING, entry.place, text, number, *others[:4])
    return False


def _note_buffered(monitor: Monitor, blocked: dict[int, list[Any]], calls: dict[int, Any]) -> None:
    """Record the sends that would wait forever, and the call in which each rank would wait."""
    lines = {
        number: f"{monitor.where(call.place)}: rank {number} would wait in {name}"
        for number, call in sorted(calls.items())
        if (name := getattr(call, "name", ""))
    }
    for number, waited in blocked.items():
        for send in waited:
            if isinstance(send, MessageSide) and send.sends:
                text = f"{send.name} completes only if its message is buffered"
                others = [line for other, line in lines.items() if other != number]
                monitor.note(BUFFERING_HAZARD, send.place, text, number, *others[:4])


def would_wait(monitor: Monitor) -> None:
    """Record the sends that wait forever in a run without buffering."""
    waiting: dict[int, list[Any]] = {}
    calls: dict[int, Any] = {}
    for call in monitor.open_calls():
        number = call.rank.number
        waiting[number] = [side for side in _sides(call) if side.partner is None]
        if waiting[number]:
            calls[number] = RequestWait(call.title, call.place)
    _note_buffered(monitor, waiting, calls)
