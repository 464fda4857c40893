"""One rank's side of a window: its memory, operations of others on it, and its own operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.memory import Memory
from xsim_py.mpi.transport.p2p import wait
from xsim_py.process.ranks import current

from .epochs import Epochs
from .locks import LockQueue
from .packets import (
    ACCUMULATE,
    COMPLETED,
    DATA,
    FETCH,
    GET,
    LOCK,
    POSTED,
    PUT,
    SWAP,
    UNLOCK,
    RmaPacket,
    TargetPlace,
    combine,
)
from .waits import WindowWait

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator

    from .service import Rma

GRANTED, DONE = range(2)
"""The replies of a target without data: a granted lock, or a completed operation."""


class Shape:
    """The exposed memory of each rank in bytes, and its displacement unit; one object per shard."""

    __slots__ = ("__weakref__", "sizes", "units")

    def __init__(self, sizes: list[int], units: list[int]) -> None:
        self.sizes = sizes
        self.units = units


class Transfer:
    """An operation that returns a result."""

    __slots__ = ("done", "target", "unpack")

    def __init__(self, target: int, unpack: Callable[[bytes], object]) -> None:
        self.target = target  # the target rank in the window
        self.unpack = unpack  # takes the packed elements when they arrive
        self.done = False  # whether they have arrived, or never will


class Window:
    """One rank's view of a window."""

    __slots__ = (
        "acquired",
        "arriving",
        "comm",
        "completions",
        "epochs",
        "flavor",
        "freed",
        "granted",
        "held",
        "left_ps",
        "locks",
        "memory",
        "name",
        "origin",
        "outstanding",
        "posts",
        "problems",
        "regions",
        "segment",
        "service",
        "shape",
        "ticket",
        "transfers",
        "unchecked",
        "unit",
        "waiting",
    )

    def __init__(
        self, service: Rma, comm: Communicator, *, flavor: int, memory: Memory, unit: int, origin: Any
    ) -> None:
        self.service = service
        # Private to the window: the members, the collectives of its synchronisation, and settings of the program
        # (attributes, info, error handler).
        self.comm = comm
        self.flavor = flavor  # how it was created
        self.memory: Memory = memory  # the bytes that this rank exposes
        self.unit = unit  # its displacement unit, in bytes
        self.origin = origin  # the program's object, to keep its memory alive
        self.segment: Any = None
        self.shape: Shape  # the sizes and units of all ranks
        self.name = ""
        self.freed = False
        self.regions: dict[int, Memory] = {}  # the attached memory, by address
        self.epochs = Epochs()  # they determine the legal calls
        self.locks = LockQueue()  # the lock of this rank's memory
        self.held: dict[int, list[RmaPacket]] = {}  # the packets of ranks that wait for the lock
        self.outstanding: Counter[int] = Counter()  # incomplete operations by target
        self.arriving: Counter[int] = Counter()  # those of them that return a result
        self.transfers: dict[int, Transfer] = {}
        self.ticket = 0
        self.left_ps: dict[int, int] = {}  # when the last large data for a target leave
        self.granted: set[int] = set()  # the ranks whose locks this rank holds
        self.unchecked: set[int] = set()  # the ranks declared to need no lock
        self.acquired: set[int] = set()  # the ranks whose locks were requested in an epoch of Lock_all
        self.posts: Counter[int] = Counter()  # received and unused calls of Post, by rank
        self.completions: Counter[int] = Counter()  # received and unused calls of Complete, by rank
        self.problems: list[errors.Exception] = []
        self.waiting: list[WindowWait] = []
        ranks = len(comm.ranks)
        comm.name = f"a window of {ranks} rank{'s' * (ranks > 1)}"

    @property
    def clock_ps(self) -> int:
        """The running fiber's time."""
        fiber = current.running()
        return fiber.clock_ps

    # ------------------------------------------------------------------------ operations of others on this rank's
    # memory

    def receive(self, packet: RmaPacket) -> None:
        """Process a packet of another rank, or hold it until its sender has the lock."""
        if packet.source in self.held:
            self.held[packet.source].append(packet)
        elif packet.mode and not self.locks.request(packet.source, packet.mode):
            self.held[packet.source] = [packet]
        else:
            self._perform(packet)

    def _perform(self, packet: RmaPacket) -> None:
        kind, source = packet.kind, packet.source
        if kind == DATA:
            self._arrived(packet)
        elif kind == LOCK:
            self.service.answer(self, source, GRANTED)
        elif kind == UNLOCK:
            for other in self.locks.release(source):
                first, *others = self.held.pop(other)
                self._perform(first)
                for waiting in others:
                    self.receive(waiting)
        elif kind == POSTED:
            self.posts[source] += 1
            self.changed()
        elif kind == COMPLETED:
            self.completions[source] += 1
            self.changed()
        else:
            self._operate(packet)

    def _operate(self, packet: RmaPacket) -> None:
        place = packet.place
        assert place is not None
        found = self._locate(place)
        if found is None:
            lacks = "not attached" if self.flavor == c.WIN_FLAVOR_DYNAMIC else f"not in {len(self.memory)} bytes"
            first = place.displacement * (1 if self.flavor == c.WIN_FLAVOR_DYNAMIC else self.unit)
            detail = f"bytes {first + place.low} to {first + place.high} are {lacks}"
            self.service.answer(self, packet.source, DONE, packet.ticket, c.ERR_RMA_RANGE, detail)
            return
        memory, offset = found
        try:
            if packet.kind == PUT:
                place.write(memory, offset, packet.data)
                self.service.answer(self, packet.source, DONE)
                return
            old = place.read(memory, offset)
            if packet.kind == ACCUMULATE or (packet.kind == FETCH and packet.operation != "NO_OP"):
                place.write(memory, offset, combine(packet, old))
            elif packet.kind == SWAP and packet.data[: len(old)] == old:
                place.write(memory, offset, packet.data[len(old) :])
        except errors.Exception as error:  # the memory's process has ended
            self.service.answer(self, packet.source, DONE, packet.ticket, error.Get_error_class(), str(error))
            return
        if packet.kind in (GET, FETCH, SWAP):
            data = RmaPacket(DATA, packet.window, self.comm.me, packet.ticket, data=old)
            self.service.inject(self.comm.box.rank, self.comm.ranks[packet.source], data, len(old))
        else:
            self.service.answer(self, packet.source, DONE)

    def _locate(self, place: TargetPlace) -> tuple[Memory, int] | None:
        """Return the memory of elements, and the offset of the first one's origin in it.

        Return None if out of range.
        """
        if self.flavor != c.WIN_FLAVOR_DYNAMIC:
            offset = place.displacement * self.unit
            within = offset + place.low >= 0 and offset + place.high <= len(self.memory)
            return (self.memory, offset) if within or place.low == place.high else None
        for address, memory in self.regions.items():
            offset = place.displacement - address
            if offset + place.low >= 0 and offset + place.high <= len(memory):
                return memory, offset
        return (self.memory, 0) if place.low == place.high else None

    # --------------------------------------------------------------------------------------- this rank's own operations

    def count_started(self, target: int, transfer: Transfer | None) -> None:
        """Record the start of an operation; one that returns a result gets its ticket."""
        self.outstanding[target] += 1
        if transfer is not None:
            self.ticket += 1
            self.transfers[self.ticket] = transfer
            self.arriving[target] += 1

    def _arrived(self, packet: RmaPacket) -> None:
        transfer = self.transfers.pop(packet.ticket, None)
        if transfer is not None:  # otherwise its target has failed meanwhile
            transfer.unpack(packet.data)
            self._finish(packet.source, transfer)

    def answered(self, what: int, target: int, ticket: int, error: tuple[int, str]) -> None:
        """Process a target's reply: it has granted its lock, or completed an operation."""
        if what == GRANTED:
            self.granted.add(target)
            self.changed()
            return
        transfer = self.transfers.pop(ticket, None)
        if error[0]:
            self.problems.append(errors.error(*error))
        self._finish(target, transfer)

    def _finish(self, target: int, transfer: Transfer | None) -> None:
        if transfer is not None:
            transfer.done = True
            _count_down(self.arriving, target)
        _count_down(self.outstanding, target)
        self.changed()

    def changed(self) -> None:
        """Complete the waits whose conditions hold now. Runs in an event handler."""
        now_ps = self.comm.fabric.kernel.now_ps
        for pending in [pending for pending in self.waiting if not pending.done and pending.ready()]:
            self.waiting.remove(pending)
            self.comm.box.sends.pop(pending.ticket, None)
            pending.time_ps = now_ps
            pending.complete()

    def begin_wait(
        self, name: str, what: str, ready: Callable[[], bool], peers: Callable[[], Collection[int]]
    ) -> WindowWait:
        """Begin to wait for a condition that does not hold yet."""
        fabric = self.comm.fabric
        if fabric.failure_seen:
            for place in sorted(peers()):
                fabric.guard.admit(self.comm, self.comm.ranks[place])
        pending = WindowWait(self, name, what, ready, peers)
        self.waiting.append(pending)
        self.comm.box.register(pending)
        if fabric.failure_seen:
            fabric.guard.watch(pending)
        return pending

    def wait_for(self, name: str, what: str, ready: Callable[[], bool], peers: Callable[[], Collection[int]]) -> None:
        """Block the running fiber until a condition holds, and raise errors reported by targets."""
        if not ready():
            try:
                wait(self.begin_wait(name, what, ready, peers))
            finally:
                self._drop_failed()
        self.raise_problem()

    def raise_problem(self) -> None:
        """Raise the first error that a target has reported."""
        if self.problems:
            problem, self.problems = self.problems[0], []
            raise problem

    def _drop_failed(self) -> None:
        """Stop waiting for ranks that are known to have failed."""
        self.waiting = [pending for pending in self.waiting if not pending.done]
        state = self.comm.box.knowledge
        if state is None:
            return
        for place in self.comm.context.places(state.known):
            self.outstanding.pop(place, None)
            self.arriving.pop(place, None)
            self.transfers = {key: other for key, other in self.transfers.items() if other.target != place}

    def wait_until_done(self, name: str, targets: Iterable[int] | None = None) -> None:
        """Wait until all operations at `targets` are complete; None: at all targets."""
        self._wait_for_zero(name, self.outstanding, targets)

    def wait_until_reusable(self, name: str, targets: Iterable[int] | None = None) -> None:
        """Wait until the buffers of operations at `targets` can be reused."""
        self._wait_for_zero(name, self.arriving, targets)
        wanted = self.left_ps if targets is None else [place for place in targets if place in self.left_ps]
        fiber = current.running()
        fiber.clock_ps = max([fiber.clock_ps, *(self.left_ps[place] for place in wanted)])

    def _wait_for_zero(self, name: str, counts: Counter[int], targets: Iterable[int] | None) -> None:
        if targets is None:
            self.wait_for(name, "operations to be done at", lambda: not counts, lambda: counts.keys())
            return
        wanted = frozenset(targets)
        self.wait_for(
            name,
            "operations to be done at",
            lambda: wanted.isdisjoint(counts),
            lambda: wanted.intersection(counts),
        )


def _count_down(counts: Counter[int], key: int) -> None:
    if counts[key] > 1:
        counts[key] -= 1
    else:
        counts.pop(key, None)
