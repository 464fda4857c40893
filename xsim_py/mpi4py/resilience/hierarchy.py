"""The hierarchical variant: local communicators of k processes, and one of their masters.

Prior art: Rocco, Gadioli and Palermo (J. Supercomputing 78, 2021), section 4. A collective call runs on the local
communicators, then on that of the masters, and on the local ones again. A repair shrinks two small communicators
instead of a large one: S(k) + S(n/k), where S(n) is the time of a shrink of n.

All ranks agree on the outcome over the whole communicator, as in the flat variant. That makes it safe: an agreement
level by level leaves ranks without a reply if their master fails right after it. The agreement also gives all ranks the
same set of failed ranks, from which they derive the new masters.

Prior art covers only operations in which the offsets of blocks do not matter; others run, and are repaired, in the flat
way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.batched import forms
from xsim_py.mpi.calls import ABANDONED, CollectiveChannel, Note, channel, note, perform, record
from xsim_py.mpi.collectives.channel import Fold
from xsim_py.mpi.comm import Communicator, ReportName, derive_cid, shared_context
from xsim_py.mpi.failures import repair
from xsim_py.mpi.failures.revocation import Revocation
from xsim_py.mpi.transport.p2p import complete
from xsim_py.mpi4py import collective_plans as plans
from xsim_py.mpi4py import object_plans as objects
from xsim_py.mpi4py.bufspec import message, packed, receiver
from xsim_py.mpi4py.pickling import dump, load
from xsim_py.process.output.tracebacks import forget_frames
from xsim_py.process.ranks import current

from .alias import Alias, LocalError, run_attempt, shrink, traced_phase, until_agreed, with_same_members
from .attempts import NO_ROOT, ROOTED, check_root, undo_in_place

if TYPE_CHECKING:
    from xsim_py.mpi4py.op import Op

__all__ = ["OPERATIONS", "Hierarchy", "run"]

OPERATIONS: Final = ("Barrier", "Bcast", "bcast", "Reduce", "reduce", "Allreduce", "allreduce")
"""The calls that run on local communicators and that of their masters."""


class _Level(ReportName):
    """The name in reports of a local communicator or that of the masters.

    One call is several collectives on these.
    """

    def __init__(self, alias: Alias) -> None:
        super().__init__(alias.outer)
        self.alias = alias

    def number(self, comm: Communicator) -> int:
        """Return the number of the call in progress: one more than completed ones."""
        return self.alias.report_name.counted + 1


class Hierarchy:
    """One rank's place in the hierarchy over a communicator of the program."""

    def __init__(self, alias: Alias, size: int) -> None:
        self.alias = alias
        self.outer = alias.outer
        self.size = size  # of a local communicator; the last one may be smaller
        self.report_name = _Level(alias)
        # All members, for agreements: it is never shrunk, and failures in it are acknowledged.
        self.whole = with_same_members(self.outer, "legio whole")
        self.dead: frozenset[int] = frozenset()  # the agreed failed ranks, as ranks of the program's communicator
        self.repairs = 0
        self.local = self._create("local", self._block(self._number(self.outer.me)))  # this rank's local communicator
        # The first survivors of all local communicators; None if this rank is not one of them.
        self.masters = self._create_masters()

    def _number(self, rank: int) -> int:
        return rank // self.size

    def _block(self, number: int) -> range:
        return range(number * self.size, min((number + 1) * self.size, self.outer.context.size))

    def master_of(self, rank: int) -> int:
        """Return the first survivor of a rank's block, or -1."""
        return next((place for place in self._block(self._number(rank)) if place not in self.dead), -1)

    def _create_masters(self) -> Communicator | None:
        me = self.outer.me
        if self.master_of(me) != me:
            return None
        masters = [self.master_of(first) for first in range(0, self.outer.context.size, self.size)]
        return self._create("masters", [place for place in masters if place >= 0])

    def _create(self, what: str, places: Sequence[int]) -> Communicator:
        """Return a communicator of some ranks, at no cost, because all of them know its members."""
        outer = self.outer
        ranks = tuple(outer.context.ranks[place] for place in places)
        context = shared_context(outer.fabric, derive_cid(self.whole.cid, what, self.repairs, places[0]), ranks)
        created = Communicator(context, outer.box)
        created.name = f"{'the masters' if what == 'masters' else 'a part'} of {outer.label()}"
        created.report_name = self.report_name
        context.replaces = outer.context
        return created

    def place_in(self, comm: Communicator, rank: int) -> int:
        """Return the rank in a local or the masters' communicator of a rank of the program's.

        Raises MPI_ERR_PROC_FAILED if it has failed since the last agreement on failed ranks.
        """
        place = comm.context.place(self.outer.context.ranks[rank])
        if place < 0:
            raise errors.error(c.ERR_PROC_FAILED, f"rank {rank} has failed")
        return place

    def begun(self) -> int:
        """Return the number of parts of operations that this rank has begun since the last repair."""
        return self.local.collectives + (0 if self.masters is None else self.masters.collectives)

    def agree(self, success: bool) -> bool:
        """Return True if the attempt succeeded on all ranks; else record failed ranks and repair."""
        forget_frames()
        if not success:  # release ranks that wait for this one and may know of no failure
            for comm in (self.local, self.masters):
                if comm is not None:
                    comm.fabric.part(Revocation).revoke(comm)
        call = repair.begin_agree(self.whole, int(success), "Comm.Agree")
        complete(call)
        assert call.decision is not None
        if not call.decision.error and repair.agreed_flag(call):
            flat = self.alias.report_name
            flat.counted += 1
            flat.apply_to(self.alias.inner)
            return True
        self.dead = frozenset(call.decision.failed)
        self.whole.acknowledge(None)
        with traced_phase(self.outer, "repair"):
            self._repair()
        return False

    def _repair(self) -> None:
        """Shrink the local communicator, and that of the masters including new ones."""
        self.repairs += 1
        self.local = shrink(self.local)
        self.masters = self._create_masters()
        if self.masters is not None:
            self.masters = shrink(self.masters)


def run(alias: Alias, size: int, plan: Callable[..., Any], name: str, operation: str, args: tuple[Any, ...]) -> Any:
    """Make a collective call level by level until all agree that it succeeded."""
    levels: Hierarchy = alias.hierarchy
    if levels is None:
        levels = alias.hierarchy = Hierarchy(alias, size)

    levels.report_name.root = args[-1] if operation in ROOTED else None

    def act() -> object:
        if operation in ROOTED and args[-1] in levels.dead:
            return NO_ROOT
        before = [(comm, comm.collectives) for comm in (levels.local, levels.masters) if comm is not None]
        result = run_attempt(lambda: _IMPLEMENTATIONS[operation](levels, plan, name, *args), levels.begun)
        if isinstance(result, LocalError):
            for comm, begun in before:
                _skip(comm, begun + 1, begun + _count_collectives(levels, comm, operation, args))
        return result

    return until_agreed(alias.outer, act, levels.agree, undo_in_place(operation, args), name)


def _count_collectives(levels: Hierarchy, comm: Communicator, operation: str, args: tuple[Any, ...]) -> int:
    """Return the number of collectives on one communicator in a member's operation."""
    if comm is levels.masters:
        return 1
    if operation in ROOTED:
        root, root_master = args[-1], levels.master_of(args[-1])
        is_forwarded = operation in ("Reduce", "reduce") and root_master == levels.master_of(levels.outer.me) != root
        return 2 if is_forwarded else 1
    return 2


def _skip(comm: Communicator, first: int, last: int) -> None:
    """Count collectives as completed that this rank alone has left."""
    comm.collectives = last
    current.running().rank.private(ABANDONED, set).update((comm.cid | 1, number) for number in range(first, last + 1))


# -------------------------------------------------------------------------------------------- levels of an operation


def _recorded(comm: Communicator, described: Note, body: Callable[[Any], Any], size_bytes: int) -> Any:
    """Run a part of an operation on one communicator, and record it as a collective."""
    fiber: Any = current.fiber
    start_ps = fiber.clock_ps
    ch = channel(comm, described)
    result = body(ch)
    record(ch.comm, ch, size_bytes, fiber.clock_ps - start_ps)
    return result


def _barrier_on(comm: Communicator, name: str) -> None:
    def body(ch: CollectiveChannel) -> None:
        perform(ch, forms.BARRIER, plans.algorithm_for(ch, "barrier"))

    _recorded(comm, note(name), body, 0)


def _bcast_on(
    comm: Communicator, name: str, data: bytes | None, root: int, size_bytes: int, op_name: str = ""
) -> bytes:
    """Broadcast the root's data."""

    def body(ch: CollectiveChannel) -> bytes | Any | None:
        algorithm = plans.algorithm_for(ch, "bcast", size_bytes)
        received = algorithm(ch, data, root, size_bytes)
        return data if received is None else received

    found: bytes = _recorded(
        comm, note(name, plans.root_of(comm, root), size_bytes, op_name), body, 0 if data is None else size_bytes
    )
    return found


def _reduce_on(comm: Communicator, name: str, data: bytes, fold: Fold, op_name: str, root: int) -> bytes | None:
    """Reduce to the root."""

    def body(ch: CollectiveChannel) -> bytes | None:
        algorithm = plans.algorithm_for(ch, "reduce", len(data), fold.commutative, unit_bytes=fold.unit_bytes)
        return algorithm(ch, data, fold, root)  # type: ignore[no-any-return]

    found: bytes | None = _recorded(comm, note(name, plans.root_of(comm, root), len(data), op_name), body, len(data))
    return found


def _allreduce_on(comm: Communicator, name: str, data: bytes, fold: Fold, op_name: str) -> bytes:
    """Reduce to all ranks."""

    def body(ch: CollectiveChannel) -> bytes:
        algorithm = plans.algorithm_for(ch, "allreduce", len(data), fold.commutative, unit_bytes=fold.unit_bytes)
        return perform(ch, forms.VECTOR, algorithm, data, fold)  # type: ignore[no-any-return]

    found: bytes = _recorded(comm, note(name, None, len(data), op_name), body, len(data))
    return found


# -------------------------------------------------------------------------------------------------------- operations


def _barrier(levels: Hierarchy, plan: object, name: str) -> None:
    _barrier_on(levels.local, name)
    if levels.masters is not None:
        _barrier_on(levels.masters, name)
    _barrier_on(levels.local, name)


def _from_root(levels: Hierarchy, root: int, bcast_on: Callable[[Communicator, Any, int], Any], mine: object) -> Any:
    """Broadcast level by level: in the root's block, among the masters, in the other blocks."""
    check_root(levels.outer, root)
    me = levels.outer.me
    in_root_block = levels.master_of(me) == levels.master_of(root)
    if in_root_block:
        mine = bcast_on(levels.local, mine, levels.place_in(levels.local, root))
    if levels.masters is not None:
        mine = bcast_on(levels.masters, mine, levels.place_in(levels.masters, levels.master_of(root)))
    if not in_root_block:
        mine = bcast_on(levels.local, mine, levels.place_in(levels.local, levels.master_of(me)))
    return mine


def _bcast(levels: Hierarchy, plan: object, name: str, buf: object, root: int) -> None:
    target = receiver(buf) if levels.outer.me != root else None
    size_bytes = len(packed(buf)) if target is None else target.nbytes

    def bcast_on(comm: Communicator, data: bytes | None, place: int) -> bytes:
        return _bcast_on(comm, name, data if comm.me == place else None, place, size_bytes)

    received = _from_root(levels, root, bcast_on, packed(buf) if target is None else None)
    if target is not None:
        target.unpack(received)


def _bcast_object(levels: Hierarchy, plan: Callable[..., Any], name: str, obj: object, root: int) -> object:
    data = dump(obj) if levels.outer.me == root else None
    return load(_from_root(levels, root, partial(_bcast_pickle, name), data))


def _bcast_pickle(name: str, comm: Communicator, data: bytes | None, place: int) -> bytes:
    """Broadcast a pickle, which the ranks that forward it need not be able to load."""
    found: bytes = objects.bcast(comm, name, data, place, packed=True)[1]()
    return found


def _reduced(levels: Hierarchy, name: str, data: bytes, fold: Fold, op_name: str, root: int) -> bytes | None:
    """Reduce to the root: in each block, among the masters, then from the root's master to it."""
    local, masters = levels.local, levels.masters
    me, root_master = levels.outer.me, levels.master_of(root)
    own = levels.place_in(local, levels.master_of(me))
    found = _reduce_on(local, name, data, fold, op_name, own)
    if masters is not None:
        assert found is not None
        found = _reduce_on(masters, name, found, fold, op_name, levels.place_in(masters, root_master))
    if root_master != root and levels.master_of(me) == root_master:
        found = _bcast_on(local, name, found if me == root_master else None, own, len(data), op_name)
    return found if me == root else None


def _reduce(levels: Hierarchy, plan: object, name: str, sendbuf: object, recvbuf: object, op: Op, root: int) -> None:
    check_root(levels.outer, root)
    if levels.outer.me == root:
        data, vector = plans.operands(levels.outer, sendbuf, recvbuf)
    else:
        vector = message(sendbuf, writable=False)
        data = vector.pack()
    found = _reduced(levels, name, data, plans.fold_of(op, vector.datatype), plans.op_name(op), root)
    if found is not None:
        vector.unpack(found)


def _reduce_object(
    levels: Hierarchy, plan: Callable[..., Any], name: str, obj: object, op: object, root: int
) -> object:
    check_root(levels.outer, root)
    local, masters = levels.local, levels.masters
    me, root_master = levels.outer.me, levels.master_of(root)
    own = levels.place_in(local, levels.master_of(me))
    found = plan(local, name, obj, op, own)[1]()
    if masters is not None:
        found = plan(masters, name, found, op, levels.place_in(masters, root_master))[1]()
    if root_master != root and levels.master_of(me) == root_master:
        found = load(_bcast_pickle(name, local, dump(found) if me == root_master else None, own))
    return found if me == root else None


def _allreduce(levels: Hierarchy, plan: object, name: str, sendbuf: object, recvbuf: object, op: Op) -> None:
    data, vector = plans.operands(levels.outer, sendbuf, recvbuf)
    fold, op_name = plans.fold_of(op, vector.datatype), plans.op_name(op)
    local = levels.local
    own = levels.place_in(local, levels.master_of(levels.outer.me))
    found = _reduce_on(local, name, data, fold, op_name, own)
    if levels.masters is not None:
        assert found is not None
        found = _allreduce_on(levels.masters, name, found, fold, op_name)
    vector.unpack(_bcast_on(local, name, found if local.me == own else None, own, len(data), op_name))


def _allreduce_object(levels: Hierarchy, plan: Callable[..., Any], name: str, obj: object, op: Op) -> object:
    local = levels.local
    own = levels.place_in(local, levels.master_of(levels.outer.me))
    found = objects.reduce(local, name, obj, op, own)[1]()
    if levels.masters is not None:
        found = plan(levels.masters, name, found, op)[1]()
    return load(_bcast_pickle(name, local, dump(found) if local.me == own else None, own))


_IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "Barrier": _barrier,
    "Bcast": _bcast,
    "bcast": _bcast_object,
    "Reduce": _reduce,
    "reduce": _reduce_object,
    "Allreduce": _allreduce,
    "allreduce": _allreduce_object,
}
