"""Checks of collective calls: matching calls and arguments of members (MPI 4.1, chapter 6).

Calls are compared when members enter them, not when the program hangs: the first member records its call, and each
later one is compared with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import CALL_ORDERING, INVALID_PARAMETER, PARAMETER_MATCHING
from xsim_py.mpi.constants import PROC_NULL, ROOT
from xsim_py.mpi.failures.knowledge import is_revoked
from xsim_py.mpi4py.call_table import COLLECTIVES, Buffer, Collective
from xsim_py.mpi4py.collective_plans import PARSERS
from xsim_py.mpi4py.inside import comm_of
from xsim_py.mpi4py.memory import is_in_place

from .buffers import are_distinct, check_disjoint, exchange_guards
from .conflicts import drop_ordered
from .copies import into_copy
from .point_to_point import core_of
from .records import CollectiveCall, CollectiveCalls
from .requests import RequestRecord, of_request
from .signatures import Signature, described, of_buffer, of_elements, same
from .significant import check_blocks, check_buffers, guards, receives, significant

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi4py.comm import Comm

    from .monitor import After, Monitor, MpiCall

_MOST_BLOCKS = 1024


def enter(monitor: Monitor, call: MpiCall, comm: object, entry: CollectiveCall) -> None:
    """Compare a rank's next collective on a communicator with the calls of other members."""
    core = core_of(comm)
    if core is not None and not is_revoked(core):  # a revoked communicator completes no collective
        join_collective(monitor, call, core, entry)


def join_collective(
    monitor: Monitor, call: MpiCall, core: Communicator, entry: CollectiveCall, request: int | None = None
) -> None:
    """Compare a rank's next collective on its side of a communicator with other members' calls.

    The starts of a persistent collective are ordered separately, per request, which is identified by the number of its
    initialisation on the communicator.
    """
    group = core.cid, core.ranks[0], request
    number = call.rank.collectives.get(group, 0)
    call.rank.collectives[group] = number + 1
    key = group, number
    instance = monitor.members.get(key)
    if instance is None:
        instance = monitor.members[key] = CollectiveCalls(core.ranks)
    else:
        first = next(iter(instance.calls.values()))
        _compare(monitor, core, first, entry)
    instance.calls[core.me] = entry
    entry.instance = instance
    if core.local is not None and entry.root is not None:
        _compare_roots(monitor, core, number, entry)
    if len(instance.calls) == len(instance.members):
        del monitor.members[key]
        if core.local is None and (entry.sent_blocks is not None or entry.expected_blocks is not None):
            _compare_blocks(monitor, instance)
        if any(each.group for each in instance.calls.values()):
            _compare_groups(monitor, instance)


def _compare(monitor: Monitor, core: Communicator, first: CollectiveCall, entry: CollectiveCall) -> None:
    """Compare the calls of two members."""
    if first.name != entry.name and first.name.lower() == entry.name.lower():
        kinds = ["a pickled object" if each.name.islower() else "a buffer" for each in (entry, first)]
        _differ(monitor, PARAMETER_MATCHING, first, entry, f"{first.name} of rank {first.rank} {kinds[1]}", kinds[0])
    elif first.name != entry.name:
        _differ(monitor, CALL_ORDERING, first, entry, f"{first.name} at rank {first.rank}", "while others are in")
    elif first.same != entry.same and first.same and entry.same:
        _differ(monitor, PARAMETER_MATCHING, first, entry, f"{first.same} at rank {first.rank}", entry.same)
    elif core.local is not None and first.op == entry.op:
        return  # the root, or the blocks, belong to the other group
    elif first.root != entry.root and core.local is None:
        _differ(monitor, PARAMETER_MATCHING, first, entry, f"root {first.root} at rank {first.rank}", "root")
    elif first.op != entry.op:
        _differ(monitor, PARAMETER_MATCHING, first, entry, f"{first.op} at rank {first.rank}", "operation")
    else:
        for mine in entry.signatures:
            for theirs in first.signatures:
                if mine is not theirs and not same(mine, theirs):
                    text = f"{described(theirs)} at rank {first.rank}"
                    _differ(monitor, PARAMETER_MATCHING, first, entry, text, described(mine))
                    return


def _differ(
    monitor: Monitor, category: str, first: CollectiveCall, entry: CollectiveCall, theirs: str, what: str
) -> None:
    mine = {"root": f"root {entry.root}", "operation": f"operation {entry.op}"}.get(what, what)
    if category == CALL_ORDERING:
        text = f"{entry.name} meets {first.name} of other ranks"
    else:
        text = f"{entry.name} has {mine}, but {theirs}"
    other = f"{monitor.where(first.place)}: {first.name} of rank {first.rank}"
    monitor.note(category, entry.place, text, entry.rank, other)


def _compare_roots(monitor: Monitor, core: Communicator, number: int, entry: CollectiveCall) -> None:
    """Compare the roots named by the members of an intercommunicator (MPI 4.1, 6.2.3).

    The root passes MPI.ROOT, other members of its group MPI.PROC_NULL, and members of the other group the root's rank.
    """
    if _is_rank(entry.root) and entry.root not in range(len(core.remote)):
        return  # the call itself reports the error
    key = "roots", core.cid, number, *sorted((core.ranks[0], core.remote[0]))
    groups: dict[int, list[tuple[int, CollectiveCall]]] = monitor.signals.setdefault(key, {})
    for group, members in groups.items():
        me, first = members[0]
        if group == core.ranks[0]:
            fits = entry.root == first.root if _is_rank(entry.root) else {ROOT, PROC_NULL} >= {entry.root, first.root}
            fits = fits and not entry.root == first.root == ROOT
        elif _is_rank(entry.root):
            fits = first.root == (ROOT if me == entry.root else PROC_NULL)
        else:
            fits = _is_rank(first.root) and entry.root == (ROOT if core.me == first.root else PROC_NULL)
        if not fits and first.name == entry.name:
            here = "of the local group" if group == core.ranks[0] else "of the remote group"
            text = f"{_root(first.root)} at rank {first.rank} {here}"
            _differ(monitor, PARAMETER_MATCHING, first, entry, text, _root(entry.root))
            break
    groups.setdefault(core.ranks[0], []).append((core.me, entry))
    if sum(map(len, groups.values())) == len(core.ranks) + len(core.remote):
        del monitor.signals[key]


def _is_rank(root: object) -> bool:
    return root not in (ROOT, PROC_NULL)


def _root(root: object) -> str:
    return f"root {root}" if _is_rank(root) else f"root MPI.{'ROOT' if root == ROOT else 'PROC_NULL'}"


def _compare_blocks(monitor: Monitor, instance: CollectiveCalls) -> None:
    """Compare the block each member sends to each other with the block expected there."""
    if len(instance.members) > _MOST_BLOCKS:
        return
    for source, sender in instance.calls.items():
        for dest, sent in (sender.sent_blocks or {}).items():
            receiver = instance.calls.get(dest)
            if receiver is None or receiver.expected_blocks is None:
                continue
            expected = receiver.expected_blocks.get(source)
            if expected is not None and not same(sent, expected):
                start = f"{receiver.name} expects {described(expected)} from rank {sender.rank}"
                text, where = f"{start}, which sends {described(sent)}", monitor.where(sender.place)
                details = f"{where}: {sender.name} of rank {sender.rank}"
                monitor.note(PARAMETER_MATCHING, receiver.place, text, receiver.rank, details)


def _compare_groups(monitor: Monitor, instance: CollectiveCalls) -> None:
    """Find members of a group whose own call passes a different group (MPI 4.1, 7.4.2)."""
    calls = {entry.rank: entry for entry in instance.calls.values()}
    for entry in instance.calls.values():
        for member in entry.group:
            other = calls.get(member)
            if other is not None and tuple(other.group) != tuple(entry.group):
                theirs = f"{_group(entry.group)} at rank {entry.rank}"
                _differ(monitor, PARAMETER_MATCHING, entry, other, theirs, _group(other.group))
                return


def _group(ranks: Sequence[int]) -> str:
    return f"the group of {', '.join(map(str, ranks)) or 'nobody'}"


# ---------------------------------------------------------------------------------------- arguments of the calls


def _me(comm: object) -> int:
    return int(comm_of(comm).me)


Arguments = dict[str, Any]


def _of_row(row: Collective, comm: Any, given: dict[str, Any]) -> Arguments:
    """Return the arguments of a collective that other members' calls are compared with."""
    found: Arguments = {"root": given["root"]} if row.has_root else {}
    if row.reduces:
        found["op"] = getattr(getattr(given["op"], "_impl", None), "name", None) or "a user's operation"
    if "recvcounts" in given and (counts := _integers(given["recvcounts"])) is not None:
        found["same"] = f"recvcounts {counts}"
    if row.sent is None or row.received is None or row.is_of_objects:
        return found
    if row.reduces:
        spec = given[row.sent.parameter]
        found["signatures"] = (of_buffer(given[row.received.parameter] if is_in_place(spec) else spec),)
        return found
    root, size = found.get("root"), len(comm_of(comm).remote)
    is_root = root == _me(comm)
    if not (row.has_unequal_blocks or row.is_of_neighbors):
        found["signatures"] = tuple(
            of_buffer(given[each.parameter], size if each.form == "each" else 0)
            for each in row.buffers
            if is_root or not each.is_of_root
        )
        return found
    sources, dests = comm.inoutedges if row.is_of_neighbors else (range(size), range(size))
    for key, buffer, peers in (("sent_blocks", row.sent, dests), ("expected_blocks", row.received, sources)):
        is_here = is_root or not buffer.is_of_root
        found[key] = _blocks(buffer, given[buffer.parameter], peers, root) if is_here else {}
    return found


def _blocks(buffer: Buffer, spec: object, peers: Sequence[int], root: int | None) -> dict[int, Signature]:
    """Return the signature of the block for, or from, each peer: the root, all ranks, or neighbours.

    A neighbour with several edges is omitted if blocks can differ.
    """
    if not buffer.blocks:
        signature = of_buffer(spec, len(peers) if buffer.form == "each" else 0)
        if signature is None:
            return {}
        if root is not None and buffer.form == "one":
            return {root: signature}
        return {peer: signature for peer in peers if peer >= 0}
    if spec is None or is_in_place(spec):
        return {}
    try:
        parsed = PARSERS[buffer.blocks](spec, writable=False, blocks=len(peers))
    except Exception:  # the call itself reports the error
        return {}
    blocks = zip(peers, parsed.datatypes, parsed.counts, strict=True)
    if type(peers) is range:
        return {each: of_elements(core, count) for each, core, count in blocks}
    edges = Counter(peers)
    return {each: of_elements(core, count) for each, core, count in blocks if each >= 0 and edges[each] == 1}


def _no_arguments(comm: object, *args: object) -> Arguments:
    return {}


def _integers(values: object) -> list[int] | None:
    """Return a list of integers; None if invalid, which the call itself reports."""
    try:
        return [int(value) for value in values] if isinstance(values, list | tuple | range | np.ndarray) else None
    except (TypeError, ValueError):
        return None


def _grid(comm: object, dims: object, periods: object, reorder: bool) -> Arguments:
    lengths = _integers(dims)
    wraps = _integers(periods) or [int(bool(periods))] * len(lengths or ())
    return {"same": f"a grid of {lengths}, periods {[bool(each) for each in wraps]}"}


def _graph(comm: object, index: object, edges: object, reorder: bool) -> Arguments:
    return {"same": f"a graph of {_integers(index)}, {_integers(edges)}"}


def _subgrid(comm: object, remain_dims: object) -> Arguments:
    return {"same": f"the dimensions {_integers(remain_dims)}"}


def _members(comm: object, group: object) -> Arguments:
    return {"group": getattr(getattr(group, "_members", None), "ranks", ())}


def _merged(comm: object, high: bool) -> Arguments:
    return {"same": f"high {bool(high)}"}


def _leader(comm: object, local_leader: int, *args: object) -> Arguments:
    return {"same": f"the leader {local_leader}"}


_MANAGEMENT: dict[str, Callable[..., Arguments]] = {
    **dict.fromkeys(("Dup", "Clone", "Dup_with_info", "Split", "Split_type"), _no_arguments),
    **dict.fromkeys(("Create_dist_graph", "Create_dist_graph_adjacent"), _no_arguments),
    **dict.fromkeys(("Spawn", "Spawn_multiple", "Accept", "Connect"), _no_arguments),
    "Create": _members,
    "Create_cart": _grid,
    "Create_graph": _graph,
    "Merge": _merged,
    "Sub": _subgrid,
}


def _in_place_argument(row: Collective) -> str:
    """Return the argument that may be MPI.IN_PLACE only on the root; empty if there is none."""
    if not row.has_root or row.is_of_objects or row.sent is None or row.received is None or row.sent is row.received:
        return ""
    return row.received.parameter if row.sent.is_of_root else row.sent.parameter


def _check_in_place(
    monitor: Monitor, call: MpiCall, comm: Any, entry: CollectiveCall, which: str, given: dict[str, Any]
) -> None:
    """Find MPI.IN_PLACE where only the root may pass it (MPI 4.1, 6.5 to 6.9)."""
    if entry.root != _me(comm) and comm.is_intra and is_in_place(given[which]):
        text = f"{call.title}: MPI.IN_PLACE as {which} of a rank that is not the root"
        monitor.note(INVALID_PARAMETER, call.place, text, call.rank.number)


def _follow(name: str, describe: Callable[..., Arguments]) -> Callable[..., None]:
    """Return the check of a collective without buffers."""

    def follow(monitor: Monitor, call: MpiCall, comm: object, *args: object) -> None:
        entry = CollectiveCall(call.rank.number, name, call.place, **describe(comm, *args))
        enter(monitor, call, comm, entry)
        call.rank.steps.add([entry], [entry], True)

    return follow


def _follow_blocking(name: str, row: Collective) -> Callable[..., After | None]:
    """Return the check of a blocking collective."""
    spelled = "Barrier" if name == "barrier" else name
    which, has_blocks = _in_place_argument(row), row.has_unequal_blocks
    synchronises = name.lower().startswith(("all", "barrier", "reduce_"))
    has_two = not row.is_of_objects and row.sent is not row.received

    def follow(monitor: Monitor, call: MpiCall, comm: object, *args: object) -> After | None:
        given = dict(zip(row.parameters, args, strict=True))
        entry = CollectiveCall(call.rank.number, spelled, call.place, **_of_row(row, comm, given))
        if which:
            _check_in_place(monitor, call, comm, entry, which, given)
        after, core = None, core_of(comm)
        if (has_blocks or call.rank.buffers or call.rank.exposed) and core is not None:
            after = check_buffers(monitor, call, core, row, entry.root, given)
        if has_two and core is not None:
            if receives(core, row, entry.root):
                into_copy(monitor, call, given["recvbuf"], 1, "recvbuf")
            if not are_distinct(given["sendbuf"], given["recvbuf"]):
                after = _check_disjoint_after(monitor, call, significant(core, row, entry.root, given), after)
        enter(monitor, call, comm, entry)
        call.rank.steps.add([entry], [entry], True)
        if synchronises and monitor.accesses and entry.instance is not None:
            drop_ordered(monitor, call, entry.instance)
        return after

    return follow


def _check_disjoint_after(monitor: Monitor, call: MpiCall, both: tuple[Any, Any], after: After | None) -> After:
    """Return the check for overlapping buffers that a successful collective has accepted."""

    def succeeded(result: object) -> bool | None:
        check_disjoint(monitor, call, *both)
        return None if after is None else after(result)

    return succeeded


def _follow_nonblocking(name: str, row: Collective) -> Callable[..., After | None]:
    """Return the check of a nonblocking collective."""
    which = _in_place_argument(row)

    def follow(monitor: Monitor, call: MpiCall, comm: object, *args: object) -> After | None:
        given = dict(zip(row.parameters, args, strict=True))
        entry = CollectiveCall(call.rank.number, name, call.place, **_of_row(row, comm, given))
        if which:
            _check_in_place(monitor, call, comm, entry, which, given)
        core = core_of(comm)
        sent, received = (None, None) if core is None else significant(core, row, entry.root, given)
        if row.has_unequal_blocks:
            check_blocks(monitor, call, received)
        enter(monitor, call, comm, entry)
        call.rank.steps.add([entry], [], True)
        uses = guards(monitor, call, sent, received)

        def begun(request: object) -> None:
            record = of_request(monitor, call, request)
            if record is not None:
                record.collective = entry
                for used in exchange_guards(monitor, call, call.title, *uses):
                    used.begin(record)

        return begun

    return follow


def _follow_persistent(name: str, row: Collective) -> Callable[..., After | None]:
    """Return the check of a persistent collective, whose order of starts is free."""

    def follow(monitor: Monitor, call: MpiCall, comm: Comm, *args: object) -> After | None:
        given = dict(zip(row.parameters, args, strict=False))  # without `info`
        entry = CollectiveCall(call.rank.number, name, call.place, **_of_row(row, comm, given))
        core = core_of(comm)
        if row.has_unequal_blocks and core is not None:
            check_blocks(monitor, call, significant(core, row, entry.root, given)[1])
        enter(monitor, call, comm, entry)

        def start(number: int, record: RequestRecord, by: MpiCall) -> None:
            begun = CollectiveCall(by.rank.number, name, record.place)
            join_collective(monitor, by, record.comm, begun, number)
            record.collective = begun
            by.rank.steps.add([begun], [], True)
            uses = guards(monitor, by, *significant(record.comm, row, entry.root, given))
            for used in exchange_guards(monitor, by, record.title, *uses):
                used.begin(record)

        def prepared(request: object) -> None:
            record = of_request(monitor, call, request)
            if record is not None:
                record.comm = comm_of(comm)
                number = call.rank.collectives[record.comm.cid, record.comm.ranks[0], None] - 1
                record.restart = partial(start, number)

        return prepared

    return follow


def _create_group(monitor: Monitor, call: MpiCall, comm: object, group: object, tag: int) -> None:
    """Record the group and tag of ``Create_group``, for a deadlock report."""
    call.matching = f"{_group(_members(comm, group)['group'])} and tag {tag}"


def _create_intercomm(monitor: Monitor, call: MpiCall, comm: object, local_leader: int, *args: object) -> None:
    """Check ``Create_intercomm``, which is a separate collective of each of the two groups."""
    call.matching = f"tag {args[-1]}"
    _follow("Create_intercomm", _leader)(monitor, call, comm, local_leader)


CHECKS: dict[str, Callable[..., Any]] = {
    "Create_group": _create_group,
    "Create_intercomm": _create_intercomm,
    **{name: _follow(name, describe) for name, describe in _MANAGEMENT.items()},
    **{
        name: follow(name, row)
        for row in COLLECTIVES.values()
        for name, follow in zip(row.forms, (_follow_blocking, _follow_nonblocking, _follow_persistent), strict=False)
    },
}
"""The check of each collective method of a communicator."""
