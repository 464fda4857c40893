"""Checks of collective calls: all members make the same ones, with matching arguments (MPI 4.1, chapter 6).

Calls are compared when members enter them, not when the program hangs: the first member records its call, and each
later one is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import CALL_ORDERING, INVALID_PARAMETER, PARAMETER_MATCHING
from xsim_py.mpi.constants import PROC_NULL, ROOT
from xsim_py.mpi.failures.knowledge import is_revoked
from xsim_py.mpi4py.bufspec import vector_message, w_message
from xsim_py.mpi4py.memory import is_in_place
from xsim_py.mpi4py.op import INSTANCES

from .buffers import apart, exchanging
from .conflicts import settle
from .copies import into_copy
from .point_to_point import core_of
from .records import CollectiveCall, MembersCalls
from .requests import of_request
from .signatures import Signature, described, of_buffer, of_elements, same
from .significant import are_distinct, check_blocks, guards, kind_of, looked_at, receives, significant

if TYPE_CHECKING:
    from .monitor import Monitor, MpiCall
    from .wrapping import After

SUM = INSTANCES["SUM"]
_MOST_BLOCKS = 1024


def enter(monitor: Monitor, call: MpiCall, comm: Any, said: CollectiveCall) -> None:
    """Compare a rank's next collective on a communicator with the calls of other members."""
    core = core_of(comm)
    if core is not None and not is_revoked(core):  # a revoked communicator completes no collective
        meet(monitor, call, core, said)


def meet(monitor: Monitor, call: MpiCall, core: Any, said: CollectiveCall, request: int | None = None) -> None:
    """Compare a rank's next collective on its side of a communicator with the calls of other members.

    The starts of a persistent collective are ordered separately, per request, which is identified by the number of its
    initialisation on the communicator.
    """
    group = core.cid, core.ranks[0], request
    number = call.rank.collectives.get(group, 0)
    call.rank.collectives[group] = number + 1
    key = group, number
    meeting = monitor.members.get(key)
    if meeting is None:
        meeting = monitor.members[key] = MembersCalls(core.ranks)
    else:
        first = next(iter(meeting.calls.values()))
        _compare(monitor, core, first, said)
    meeting.calls[core.me] = said
    said.meeting = meeting
    if core.local is not None and said.root is not None:
        _compare_roots(monitor, core, number, said)
    if len(meeting.calls) == len(meeting.members):
        del monitor.members[key]
        if core.local is None and (said.gives is not None or said.takes is not None):
            _compare_blocks(monitor, meeting)
        if any(each.group for each in meeting.calls.values()):
            _compare_groups(monitor, meeting)


def _compare(monitor: Monitor, core: Any, first: CollectiveCall, said: CollectiveCall) -> None:
    """Compare the calls of two members."""
    if first.name != said.name and first.name.lower() == said.name.lower():
        kinds = ["a pickled object" if each.name.islower() else "a buffer" for each in (said, first)]
        _differ(monitor, PARAMETER_MATCHING, first, said, f"{first.name} of rank {first.rank} {kinds[1]}", kinds[0])
    elif first.name != said.name:
        _differ(monitor, CALL_ORDERING, first, said, f"{first.name} at rank {first.rank}", "while others are in")
    elif first.same != said.same and first.same and said.same:
        _differ(monitor, PARAMETER_MATCHING, first, said, f"{first.same} at rank {first.rank}", said.same)
    elif core.local is not None and first.op == said.op:
        return  # the root, or the blocks, belong to the other group
    elif first.root != said.root and core.local is None:
        _differ(monitor, PARAMETER_MATCHING, first, said, f"root {first.root} at rank {first.rank}", "root")
    elif first.op != said.op:
        _differ(monitor, PARAMETER_MATCHING, first, said, f"{first.op} at rank {first.rank}", "operation")
    else:
        for mine in said.signatures:
            for theirs in first.signatures:
                if mine is not theirs and not same(mine, theirs):
                    text = f"{described(theirs)} at rank {first.rank}"
                    _differ(monitor, PARAMETER_MATCHING, first, said, text, described(mine))
                    return


def _differ(
    monitor: Monitor, category: str, first: CollectiveCall, said: CollectiveCall, theirs: str, what: str
) -> None:
    mine = {"root": f"root {said.root}", "operation": f"operation {said.op}"}.get(what, what)
    if category == CALL_ORDERING:
        text = f"{said.name} meets {first.name} of other ranks"
    else:
        text = f"{said.name} has {mine}, but {theirs}"
    other = f"{monitor.where(first.place)}: {first.name} of rank {first.rank}"
    monitor.note(category, said.place, text, said.rank, other)


def _compare_roots(monitor: Monitor, core: Any, number: int, said: CollectiveCall) -> None:
    """Compare the root named by a member of an intercommunicator with those named in both groups (MPI 4.1, 6.2.3).

    The root passes MPI.ROOT, other members of its group MPI.PROC_NULL, and members of the other group the root's rank.
    """
    if _is_rank(said.root) and said.root not in range(len(core.remote)):
        return  # the call itself reports the error
    key = "roots", core.cid, number, *sorted((core.ranks[0], core.remote[0]))
    groups: dict[int, list[tuple[int, CollectiveCall]]] = monitor.signals.setdefault(key, {})
    for group, members in groups.items():
        me, first = members[0]
        if group == core.ranks[0]:
            fits = said.root == first.root if _is_rank(said.root) else {ROOT, PROC_NULL} >= {said.root, first.root}
            fits = fits and not said.root == first.root == ROOT
        elif _is_rank(said.root):
            fits = first.root == (ROOT if me == said.root else PROC_NULL)
        else:
            fits = _is_rank(first.root) and said.root == (ROOT if core.me == first.root else PROC_NULL)
        if not fits and first.name == said.name:
            here = "of the local group" if group == core.ranks[0] else "of the remote group"
            text = f"{_root(first.root)} at rank {first.rank} {here}"
            _differ(monitor, PARAMETER_MATCHING, first, said, text, _root(said.root))
            break
    groups.setdefault(core.ranks[0], []).append((core.me, said))
    if sum(map(len, groups.values())) == len(core.ranks) + len(core.remote):
        del monitor.signals[key]


def _is_rank(root: Any) -> bool:
    return root not in (ROOT, PROC_NULL)


def _root(root: Any) -> str:
    return f"root {root}" if _is_rank(root) else f"root MPI.{'ROOT' if root == ROOT else 'PROC_NULL'}"


def _compare_blocks(monitor: Monitor, meeting: MembersCalls) -> None:
    """Compare the block each member sends to each other with the block expected there."""
    if len(meeting.members) > _MOST_BLOCKS:
        return
    for source, giver in meeting.calls.items():
        for dest, given in (giver.gives or {}).items():
            taker = meeting.calls.get(dest)
            wanted = None if taker is None or taker.takes is None else taker.takes.get(source)
            if taker is not None and wanted is not None and not same(given, wanted):
                monitor.note(
                    PARAMETER_MATCHING,
                    taker.place,
                    f"{taker.name} expects {described(wanted)} from rank {giver.rank}, which sends {described(given)}",
                    taker.rank,
                    f"{monitor.where(giver.place)}: {giver.name} of rank {giver.rank}",
                )


def _compare_groups(monitor: Monitor, meeting: MembersCalls) -> None:
    """Find members of a group whose own call passes a different group (MPI 4.1, 7.4.2)."""
    calls = {said.rank: said for said in meeting.calls.values()}
    for said in meeting.calls.values():
        for member in said.group:
            other = calls.get(member)
            if other is not None and tuple(other.group) != tuple(said.group):
                theirs = f"{_group(said.group)} at rank {said.rank}"
                _differ(monitor, PARAMETER_MATCHING, said, other, theirs, _group(other.group))
                return


def _group(ranks: Any) -> str:
    return f"the group of {', '.join(map(str, ranks)) or 'nobody'}"


# ---------------------------------------------------------------------------------------- arguments of the calls


def _blocks(spec: Any, size: int, *, w: bool = False) -> dict[int, Signature] | None:
    """Return the signature of each block of a buffer with a count for each rank."""
    if spec is None or is_in_place(spec):
        return None
    try:
        parsed = (w_message if w else vector_message)(spec, writable=False, blocks=size)
    except Exception:  # the call itself reports the error
        return None
    blocks = zip(parsed.datatypes, parsed.counts, strict=True)
    return {i: of_elements(core, count) for i, (core, count) in enumerate(blocks)}


def _op(op: Any) -> str | None:
    return getattr(getattr(op, "_impl", None), "name", None) or "a user's operation"


def _me(comm: Any) -> int:
    return int(comm._comm().me)


def _size(comm: Any) -> int:
    return len(comm._comm().remote)


Said = dict[str, Any]


def _barrier(comm: Any) -> Said:
    return {}


def _bcast(comm: Any, buf: Any, root: int = 0) -> Said:
    return {"root": root, "signatures": (of_buffer(buf),)}


def _gather(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Said:
    mine = of_buffer(recvbuf, _size(comm)) if root == _me(comm) else None
    return {"root": root, "signatures": (of_buffer(sendbuf), mine)}


def _scatter(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Said:
    mine = of_buffer(sendbuf, _size(comm)) if root == _me(comm) else None
    return {"root": root, "signatures": (of_buffer(recvbuf), mine)}


def _allgather(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    return {"signatures": (of_buffer(sendbuf), of_buffer(recvbuf, _size(comm)))}


def _alltoall(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    return {"signatures": (of_buffer(sendbuf, _size(comm)), of_buffer(recvbuf, _size(comm)))}


def _gatherv(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Said:
    mine = of_buffer(sendbuf)
    takes = _blocks(recvbuf, _size(comm)) if root == _me(comm) else None
    return {"root": root, "gives": {} if mine is None else {root: mine}, "takes": takes or {}}


def _scatterv(comm: Any, sendbuf: Any, recvbuf: Any, root: int = 0) -> Said:
    mine = of_buffer(recvbuf)
    gives = _blocks(sendbuf, _size(comm)) if root == _me(comm) else None
    return {"root": root, "gives": gives or {}, "takes": {} if mine is None else {root: mine}}


def _allgatherv(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    mine, size = of_buffer(sendbuf), _size(comm)
    return {"gives": {} if mine is None else dict.fromkeys(range(size), mine), "takes": _blocks(recvbuf, size) or {}}


def _alltoallv(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    size = _size(comm)
    return {"gives": _blocks(sendbuf, size) or {}, "takes": _blocks(recvbuf, size) or {}}


def _alltoallw(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    size = _size(comm)
    return {"gives": _blocks(sendbuf, size, w=True) or {}, "takes": _blocks(recvbuf, size, w=True) or {}}


def _reduce(comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM, root: int = 0) -> Said:
    in_place = is_in_place(sendbuf)
    return {"root": root, "op": _op(op), "signatures": (of_buffer(recvbuf if in_place else sendbuf),)}


def _allreduce(comm: Any, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Said:
    return {"op": _op(op), "signatures": (of_buffer(recvbuf if is_in_place(sendbuf) else sendbuf),)}


def _reduce_scatter(comm: Any, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = SUM) -> Said:
    counts = _integers(recvcounts)
    same = "" if counts is None else f"recvcounts {counts}"
    return {"op": _op(op), "signatures": (of_buffer(recvbuf if is_in_place(sendbuf) else sendbuf),), "same": same}


def _rooted_object(comm: Any, obj: Any = None, root: int = 0) -> Said:
    return {"root": root}


def _object(comm: Any, sendobj: Any = None) -> Said:
    return {}


def _reduced_object(comm: Any, sendobj: Any, op: Any = SUM, root: int = 0) -> Said:
    return {"root": root, "op": _op(op)}


def _reduced_objects(comm: Any, sendobj: Any, op: Any = SUM) -> Said:
    return {"op": _op(op)}


def _edges(comm: Any) -> tuple[list[int], list[int]]:
    """Return the sources and destinations of a process's edges, including MPI.PROC_NULL."""
    sources, dests = comm.inoutedges
    return sources, dests


def _neighbor_allgather(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    sources, dests = _edges(comm)
    return _along(sources, dests, of_buffer(sendbuf), of_buffer(recvbuf, len(sources)))


def _neighbor_alltoall(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    sources, dests = _edges(comm)
    return _along(sources, dests, of_buffer(sendbuf, len(dests)), of_buffer(recvbuf, len(sources)))


def _neighbor_allgatherv(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    sources, dests = _edges(comm)
    given = of_buffer(sendbuf)
    gives = {} if given is None else dict.fromkeys(range(len(dests)), given)
    return _along_each(sources, dests, gives, _blocks(recvbuf, len(sources)))


def _neighbor_alltoallv(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    sources, dests = _edges(comm)
    return _along_each(sources, dests, _blocks(sendbuf, len(dests)), _blocks(recvbuf, len(sources)))


def _neighbor_alltoallw(comm: Any, sendbuf: Any, recvbuf: Any) -> Said:
    sources, dests = _edges(comm)
    return _along_each(sources, dests, _blocks(sendbuf, len(dests), w=True), _blocks(recvbuf, len(sources), w=True))


def _along_each(
    sources: list[int], dests: list[int], given: dict[int, Signature] | None, taken: dict[int, Signature] | None
) -> Said:
    """Describe a collective with a separate block per edge, for neighbours with a single edge."""
    return {"gives": _by_neighbor(dests, given or {}), "takes": _by_neighbor(sources, taken or {})}


def _by_neighbor(neighbors: list[int], blocks: dict[int, Signature]) -> dict[int, Signature]:
    places = {each: i for i, each in enumerate(neighbors) if each >= 0 and neighbors.count(each) == 1}
    return {each: blocks[i] for each, i in places.items() if i in blocks}


def _along(sources: list[int], dests: list[int], given: Signature | None, taken: Signature | None) -> Said:
    """Describe a collective in which all edges of a process carry equal blocks."""
    gives = {} if given is None else dict.fromkeys((dest for dest in dests if dest >= 0), given)
    takes = {} if taken is None else dict.fromkeys((source for source in sources if source >= 0), taken)
    return {"gives": gives, "takes": takes}


def _any(comm: Any, *args: Any, **kwargs: Any) -> Said:
    return {}


def _integers(values: Any) -> list[int] | None:
    """Return a list of integers; None if invalid, which the call itself reports."""
    try:
        return [int(value) for value in values] if isinstance(values, list | tuple | range | np.ndarray) else None
    except (TypeError, ValueError):
        return None


def _grid(comm: Any, dims: Any, periods: Any = None, reorder: bool = False) -> Said:
    lengths = _integers(dims)
    around = _integers(periods) or [int(bool(periods))] * len(lengths or ())
    return {"same": f"a grid of {lengths}, periods {[bool(each) for each in around]}"}


def _graph(comm: Any, index: Any, edges: Any, reorder: bool = False) -> Said:
    return {"same": f"a graph of {_integers(index)}, {_integers(edges)}"}


def _subgrid(comm: Any, remain_dims: Any) -> Said:
    return {"same": f"the dimensions {_integers(remain_dims)}"}


def _members(comm: Any, group: Any) -> Said:
    return {"group": getattr(getattr(group, "_members", None), "ranks", ())}


def _merged(comm: Any, high: bool = False) -> Said:
    return {"same": f"high {bool(high)}"}


def _led(comm: Any, local_leader: int, peer_comm: Any) -> Said:
    return {"same": f"the leader {local_leader}"}


_UPPER: dict[str, Callable[..., Said]] = {
    "Barrier": _barrier,
    "Bcast": _bcast,
    "Gather": _gather,
    "Gatherv": _gatherv,
    "Scatter": _scatter,
    "Scatterv": _scatterv,
    "Allgather": _allgather,
    "Allgatherv": _allgatherv,
    "Alltoall": _alltoall,
    "Alltoallv": _alltoallv,
    "Alltoallw": _alltoallw,
    "Reduce": _reduce,
    "Allreduce": _allreduce,
    "Reduce_scatter_block": _allreduce,
    "Reduce_scatter": _reduce_scatter,
    "Scan": _allreduce,
    "Exscan": _allreduce,
    "Neighbor_allgather": _neighbor_allgather,
    "Neighbor_allgatherv": _neighbor_allgatherv,
    "Neighbor_alltoall": _neighbor_alltoall,
    "Neighbor_alltoallv": _neighbor_alltoallv,
    "Neighbor_alltoallw": _neighbor_alltoallw,
}
_LOWER: dict[str, Callable[..., Said]] = {
    "barrier": _barrier,
    "bcast": _rooted_object,
    "gather": _rooted_object,
    "scatter": _rooted_object,
    "allgather": _object,
    "alltoall": _object,
    "reduce": _reduced_object,
    "allreduce": _reduced_objects,
    "scan": _reduced_objects,
    "exscan": _reduced_objects,
    "neighbor_allgather": _object,
    "neighbor_alltoall": _object,
}
_MANAGEMENT: dict[str, Callable[..., Said]] = {
    **dict.fromkeys(("Dup", "Clone", "Dup_with_info", "Split", "Split_type"), _any),
    **dict.fromkeys(("Create_dist_graph", "Create_dist_graph_adjacent"), _any),
    **dict.fromkeys(("Spawn", "Spawn_multiple", "Accept", "Connect"), _any),
    "Create": _members,
    "Create_cart": _grid,
    "Create_graph": _graph,
    "Merge": _merged,
    "Sub": _subgrid,
}


_MEETING = frozenset(name for name in (*_UPPER, *_LOWER) if name.lower().startswith(("all", "barrier", "reduce_")))
"""Blocking collectives that synchronise all members with each other."""
_WITH_BLOCKS = frozenset(name for name in _UPPER if kind_of(name)[1])
"""Collectives that take a count for each rank."""
_WITH_TWO = frozenset(name for name in _UPPER if name not in ("Barrier", "Bcast"))
"""Collectives with a send and a receive buffer."""
_AWAY_FROM_ROOT = {
    **dict.fromkeys(("Gather", "Gatherv", "Reduce"), "sendbuf"),
    **dict.fromkeys(("Scatter", "Scatterv"), "recvbuf"),
}


def _away_from_root(name: str) -> str:
    """Return the argument that may be MPI.IN_PLACE only on the root; empty if there is none."""
    return "" if name.islower() else _AWAY_FROM_ROOT.get(name.removeprefix("I").capitalize(), "")


def _check_in_place(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    said: CollectiveCall,
    which: str,
    one: Any = None,
    other: Any = None,
    *_: Any,
    **named: Any,
) -> None:
    """Find MPI.IN_PLACE on a rank other than the root where only the root may pass it (MPI 4.1, 6.5 to 6.9)."""
    if said.root == _me(comm) or not comm.is_intra:
        return
    buf = named.get(which, one if which == "sendbuf" else other)
    if is_in_place(buf):
        text = f"{call.title}: MPI.IN_PLACE as {which} of a rank that is not the root"
        monitor.note(INVALID_PARAMETER, call.place, text, call.rank.number)


def _follow(name: str, say: Callable[..., Said]) -> Callable[..., After | None]:
    """Return the check of a blocking collective."""
    spelled = "Barrier" if name == "barrier" else name

    which = _away_from_root(name)
    meets = name in _MEETING
    has_buffers, has_blocks, has_two = name in _UPPER or name in _LOWER, name in _WITH_BLOCKS, name in _WITH_TWO

    def follow(monitor: Monitor, call: MpiCall, comm: Any, *args: Any, **kwargs: Any) -> After | None:
        said = CollectiveCall(call.rank.number, spelled, call.place, **say(comm, *args, **kwargs))
        if which:
            _check_in_place(monitor, call, comm, said, which, *args, **kwargs)
        after, core = None, core_of(comm)
        if has_buffers and (has_blocks or call.rank.buffers or call.rank.exposed) and core is not None:
            after = looked_at(monitor, call, core, name, said.root, args, kwargs)
        if has_two and (len(args) > 1 or "recvbuf" in kwargs) and core is not None and receives(core, name, said.root):
            into_copy(monitor, call, args[1] if len(args) > 1 else kwargs["recvbuf"], 1, "recvbuf")
        if has_two and not are_distinct(args, kwargs) and core is not None:
            after = _apart(monitor, call, significant(core, name, said.root, args, kwargs), after)
        enter(monitor, call, comm, said)
        call.rank.steps.take([said], [said], True)
        if meets and monitor.accesses and said.meeting is not None:
            settle(monitor, call, said.meeting)
        return after

    return follow


def _apart(monitor: Monitor, call: MpiCall, both: tuple[Any, Any], after: After | None = None) -> After:
    """Return the check for overlapping buffers after a successful collective; some overlaps it rejects itself."""

    def succeeded(result: Any) -> bool | None:
        apart(monitor, call, *both)
        return None if after is None else after(result)

    return succeeded


def _follow_begun(name: str, say: Callable[..., Said]) -> Callable[..., After | None]:
    """Return the check of a nonblocking collective."""
    which = _away_from_root(name)
    has_blocks = name[1:].capitalize() in _WITH_BLOCKS

    def follow(monitor: Monitor, call: MpiCall, comm: Any, *args: Any, **kwargs: Any) -> After:
        said = CollectiveCall(call.rank.number, name, call.place, **say(comm, *args, **kwargs))
        if which:
            _check_in_place(monitor, call, comm, said, which, *args, **kwargs)
        core = core_of(comm)
        sent, received = (None, None) if core is None else significant(core, name[1:], said.root, args, kwargs)
        if has_blocks:
            check_blocks(monitor, call, received)
        enter(monitor, call, comm, said)
        call.rank.steps.take([said], [], True)
        uses = guards(monitor, call, sent, received)

        def begun(request: Any) -> None:
            record = of_request(monitor, call, request)
            if record is not None:
                record.collective = said
                for used in exchanging(monitor, call, call.title, *uses):
                    used.begin(record)

        return begun

    return follow


def _follow_prepared(name: str, say: Callable[..., Said]) -> Callable[..., After | None]:
    """Return the check of a persistent collective; the order of starts may differ from that of initialisations."""
    blocking = name.removesuffix("_init")

    def follow(monitor: Monitor, call: MpiCall, comm: Any, *args: Any, **kwargs: Any) -> After:
        said = CollectiveCall(call.rank.number, name, call.place, **say(comm, *args, **kwargs))
        core = core_of(comm)
        if blocking in _WITH_BLOCKS and core is not None:
            check_blocks(monitor, call, significant(core, blocking, said.root, args, kwargs)[1])
        enter(monitor, call, comm, said)

        def start(number: int, record: Any, by: MpiCall) -> None:
            begun = CollectiveCall(by.rank.number, name, record.place)
            meet(monitor, by, record.comm, begun, number)
            record.collective = begun
            by.rank.steps.take([begun], [], True)
            uses = guards(monitor, by, *significant(record.comm, blocking, said.root, args, kwargs))
            for used in exchanging(monitor, by, record.title, *uses):
                used.begin(record)

        def prepared(request: Any) -> None:
            record = of_request(monitor, call, request)
            if record is not None:
                record.comm = comm._comm()
                number = call.rank.collectives[record.comm.cid, record.comm.ranks[0], None] - 1
                record.restart = partial(start, number)

        return prepared

    return follow


def _create_group(monitor: Monitor, call: MpiCall, comm: Any, group: Any, tag: int = 0) -> None:
    """Record the group and tag of ``Create_group``, called only by members of the group, for a deadlock report."""
    call.said = f"{_group(_members(comm, group)['group'])} and tag {tag}"


def _create_intercomm(
    monitor: Monitor,
    call: MpiCall,
    comm: Any,
    local_leader: int,
    peer_comm: Any,
    *args: Any,
    **named: Any,
) -> None:
    """Check ``Create_intercomm``, which is a separate collective of each of the two groups."""
    call.said = f"tag {args[1] if len(args) > 1 else named.get('tag', 0)}"
    _follow("Create_intercomm", _led)(monitor, call, comm, local_leader, peer_comm)


ADVICE: dict[str, Callable[..., Any]] = {
    "Create_group": _create_group,
    "Create_intercomm": _create_intercomm,
    **{name: _follow(name, say) for name, say in {**_UPPER, **_LOWER}.items()},
    **{name: _follow(name, say) for name, say in _MANAGEMENT.items()},
    **{(nonblocking := f"I{name.lower()}"): _follow_begun(nonblocking, say) for name, say in _UPPER.items()},
    **{(persistent := f"{name}_init"): _follow_prepared(persistent, say) for name, say in _UPPER.items()},
}
"""The check of each collective method of a communicator."""
