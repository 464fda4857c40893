"""Conflicting accesses to the memory of windows, and when none are possible.

Nearly all accesses between two fences conflict with no other, whatever their order. The happens-before relation is
computed only for accesses where it decides: at the end, or when all ranks synchronise and many steps are kept.
"""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, islice, pairwise, product, takewhile
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from xsim_py.findings import GLOBAL_CONCURRENCY

from .clocks import MOST_RANKS, Clocks
from .elements import overlap
from .steps import replay_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from .exposed import Exposed
    from .monitor import Monitor, MpiCall, RankState
    from .records import Access, CollectiveCalls
    from .windows import OpenWindow

_MOST_COMPARED = 64
"""At most this number of accesses between two fences are compared at once; more wait until the end."""


def drop_epoch(monitor: Monitor, mine: OpenWindow, members: Iterable[int]) -> None:
    """Drop the accesses between two fences if no two of them can conflict in any order.

    They come before everything that follows this fence, which all members have reached.
    """
    for target in range(len(mine.window.comm.ranks)):
        accesses = monitor.accesses.get((mine.key, target))
        if accesses is None or (mine.key, target) in monitor.shared_memory:
            continue
        latest = [*takewhile(lambda access: access.epoch >= mine.fences, reversed(accesses))][::-1]
        epoch = [access for access in latest if access.epoch == mine.fences]
        if epoch and not _may_conflict(epoch):
            accesses[-len(latest) :] = [access for access in latest if access.epoch != mine.fences]
        if epoch and not accesses:
            del monitor.accesses[mine.key, target]
    if not monitor.accesses:
        replay_all([monitor.ranks[member].steps for member in members], is_over=False)


def drop_ordered(monitor: Monitor, call: MpiCall, instance: CollectiveCalls) -> None:
    """Report conflicting accesses and drop all, if a collective synchronises all ranks.

    Each member receives from all others in that collective. If all accesses are complete, they come before everything
    that follows and need not be kept: memory is bounded by the accesses between two such collectives.
    """
    states = [*monitor.ranks.values()]
    if len(call.rank.steps.pending) <= call.rank.replay_limit or len(instance.calls) < len(states):
        return
    if not any(access.until == inf for accesses in monitor.accesses.values() for access in accesses):
        conflicting(monitor)
        for access in (access for accesses in monitor.accesses.values() for access in accesses):
            access.after = ()  # release the accesses before it
        monitor.accesses.clear()
        replay_all([state.steps for state in states], is_over=False)
        for state in states:
            state.steps.forget_clocks()
            for exposed in state.exposed:
                exposed.reset()
    for state in states:
        state.raise_replay_limit()


def _may_conflict(accesses: list[Access]) -> bool:
    """Return True if any two of these accesses may conflict, unless something orders them.

    They are in order for each rank.
    """
    if len(accesses) < 2:
        return False
    pieces = sorted(piece for access in accesses for piece in access.pieces)
    if all(one[1] <= other[0] for one, other in pairwise(pieces)):
        return False
    if len(accesses) > _MOST_COMPARED:
        return True
    return any(
        one.conflicts(other) and overlap(one.pieces, other.pieces)
        for one, other in combinations(accesses, 2)
        if not (one.is_local and one.rank == other.rank)
    )


def conflicting(monitor: Monitor, broken_off: Collection[str] = ()) -> None:
    """Find unordered accesses to the same memory.

    Accesses that a failing test has left incomplete are exempt.
    """
    if not monitor.accesses or len(monitor.ranks) > MOST_RANKS:
        return
    for accesses in monitor.accesses.values() if broken_off else ():
        accesses[:] = [each for each in accesses if each.until < inf or each.place[2] not in broken_off]
    undecided = [accesses for _, accesses in sorted(monitor.accesses.items()) if not _cannot_conflict(accesses)]
    if not undecided and not monitor.shared_memory:
        return
    clocks = Clocks(monitor.ranks)
    clocks.compute()
    for accesses in undecided:
        for mine, theirs in combinations_with_replacement(_by_line(accesses), 2):
            if not _kinds_conflict(mine, theirs):
                continue
            for one, other in _concurrent(clocks, mine, theirs):
                if one.conflicts(other) and overlap(one.pieces, other.pieces) and not _was_polled(clocks, one, other):
                    _note(monitor, one, other)
                    break  # others of these lines and ranks are the same finding
    for window, others in monitor.shared_memory.items():
        for other_window, shift in others:
            _compare_windows(monitor, clocks, window, other_window, shift)


def _by_line(accesses: Iterable[Access]) -> list[list[Access]]:
    """Return the accesses with a clock, one list per line and rank."""
    found: dict[Any, list[Access]] = {}
    for rank, own in _by_rank(accesses).items():
        for access in own:
            kind = access.how, access.what, access.exclusive, access.is_local, access.is_passive, access.polls
            found.setdefault((rank, access.title, access.place, *kind), []).append(access)
    return [*found.values()]


def _kinds_conflict(mine: list[Access], theirs: list[Access]) -> bool:
    """Return False if no two accesses of two lines can conflict in any order."""
    some = [{(id(each.datatype), *each.pieces): each for each in accesses}.values() for accesses in (mine, theirs)]
    if len(some[0]) * len(some[1]) > _MOST_COMPARED**2:
        return True
    return any(one.conflicts(other) and overlap(one.pieces, other.pieces) for one, other in product(*some))


def _by_rank(accesses: Iterable[Access]) -> dict[int, list[Access]]:
    """Return the accesses with a clock, by rank."""
    found: dict[int, list[Access]] = {}
    for access in sorted(accesses, key=attrgetter("rank")):
        if access.clock is not None:
            found.setdefault(access.rank, []).append(access)
    return found


def note_overlaps(monitor: Monitor, state: RankState, new: Exposed) -> None:
    """Record the other windows of a rank that share memory with a new one."""
    for old in state.exposed:
        if not old.is_over and overlap(old.pieces, new.pieces):
            monitor.shared_memory.setdefault(old.key, []).append((new.key, new.pieces[0][0] - old.pieces[0][0]))
            monitor.shared_memory.setdefault(new.key, [])


def _compare_windows(monitor: Monitor, clocks: Clocks, window: object, other_window: object, shift: int) -> None:
    """Find conflicts between accesses through two windows, `shift` bytes apart in memory.

    The rank's own loads and stores are already among the accesses of each window.
    """
    both = [
        _by_rank(each for each in monitor.accesses.get(key, ()) if not each.is_local) for key in (window, other_window)
    ]
    for mine, theirs in product(*(each.values() for each in both)):
        for one, other in _concurrent(clocks, mine, theirs):
            shifted = [(start + shift, end + shift) for start, end in other.pieces]
            if one.conflicts(other, two_windows=True) and overlap(one.pieces, shifted):
                _note(monitor, one, other)


def _cannot_conflict(accesses: list[Access]) -> bool:
    """Return True if no two accesses to one memory can conflict, by orders known to single ranks.

    A rank knows when its own accesses completed. The rank that owns the memory knows the order of its own accesses, and
    the accesses allowed by a Post complete before the following Wait.
    """
    kinds: dict[Any, dict[int, list[Access]]] = {}
    for access in accesses:
        kind = access.how, access.what, access.exclusive, access.is_local, access.is_passive, access.polls
        kinds.setdefault((*kind, *access.pieces), {}).setdefault(access.rank, []).append(access)
    return len(kinds) <= _MOST_COMPARED and not any(
        _may_race(*both) for both in combinations_with_replacement(kinds.values(), 2)
    )


def _may_race(mine: dict[int, list[Access]], theirs: dict[int, list[Access]]) -> bool:
    """Return True if accesses of two kinds (or one), by rank, conflict unless calls order them."""
    one, other = next(iter(mine.values()))[0], next(iter(theirs.values()))[0]
    if not overlap(one.pieces, other.pieces):
        return False
    for rank in mine.keys() & theirs.keys():
        own = mine[rank] if mine is theirs else mine[rank] + theirs[rank]
        if own[0].conflicts(own[-1]):
            intervals = sorted((access.since, access.until) for access in own)
            if any(until >= since for (_, until), (since, _) in pairwise(intervals)):
                return True
    pair = next(((one, other) for one, other in product(mine, theirs) if one != other), None)
    return pair is not None and mine[pair[0]][0].conflicts(theirs[pair[1]][0]) and _are_exposed_at_once(mine, theirs)


def _are_exposed_at_once(mine: dict[int, list[Access]], theirs: dict[int, list[Access]]) -> bool:
    """Return True if memory is exposed to accesses of two ranks at once.

    Its own rank knows the order of exposures.
    """
    last: dict[int, float] = {}
    kinds = (mine,) if mine is theirs else (mine, theirs)
    for since, until, rank in sorted(
        (*each.exposure, rank) for kind in kinds for rank, accesses in kind.items() for each in accesses
    ):
        last = {other: end for other, end in last.items() if end >= since}
        if last.keys() - {rank}:
            return True
        last[rank] = max(until, last.get(rank, 0))
    return False


def _was_polled(clocks: Clocks, one: Access, other: Access) -> bool:
    """Return True if the rank of one access had polled for the result of the other before it."""
    return (one.was_polled and clocks.known_to(other, one)) or (other.was_polled and clocks.known_to(one, other))


def _concurrent(clocks: Clocks, mine: list[Access], theirs: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Yield the pairs of concurrent accesses of two ranks, or of one.

    Neither was complete when the other began. A rank's later accesses know at least as much as earlier ones. So the
    accesses that happened before a given one come (almost) first in the other rank's list and those after it last, and
    few need checking.
    """
    start = 0
    for place, one in enumerate(mine):
        while start < len(theirs) and clocks.happened_before(theirs[start], one):
            start += 1
        for other in islice(theirs, max(start, place + 1) if mine is theirs else start, None):
            if clocks.happened_before(one, other):
                break
            if not clocks.happened_before(other, one):
                yield one, other


def _note(monitor: Monitor, one: Access, other: Access) -> None:
    for mine, theirs in ((one, other), (other, one)):
        if (mine.title, mine.how) == (theirs.title, theirs.how):
            what = f"two {mine.title} {mine.how.removesuffix('s')} the same bytes of {mine.of}"
        else:
            what = f"{mine.title} {mine.how} bytes of {mine.of} that {theirs.title} {theirs.how}"
        text = f"{what} without ordering"
        where = f"{monitor.where(theirs.place)}: {theirs.title} of rank {theirs.rank}"
        monitor.note(GLOBAL_CONCURRENCY, mine.place, text, mine.rank, where)
        if monitor.where(mine.place) == monitor.where(theirs.place):
            monitor.note(GLOBAL_CONCURRENCY, mine.place, text, theirs.rank, where)
            return
