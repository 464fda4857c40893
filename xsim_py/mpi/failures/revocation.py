"""Revocation of communicators: propagation and effects (ULFM: MPI_Comm_revoke).

``reliable_broadcast`` is Open MPI's: a rank that learns of the revocation notifies the members at distances 1, 2, 4,
... in both directions (`broadcast`). ``direct``: such a rank notifies all members, n (n - 1) messages. ``local`` is
xSim's: the call costs nothing and sends nothing, and each member knows after one latency, the earliest possible time.

All members of a large communicator notify 2 log2 n others at about the same time. As one `Message` each, these take
more memory than everything else that a rank has. But if the processor spends no time on them and all ranks are equally
far apart, a sender's messages are one `_Fan`: they arrive one NIC time after the other, and only the next one is in the
queue. Times, keys, events and the digest are those of individual messages (`_notify_each`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.transport.fabric import Fabric, occupy_nic
from xsim_py.mpi.transport.mailbox import ClosedMailbox
from xsim_py.mpi.transport.message import Message
from xsim_py.mpi.transport.protocols import ControlHandler, LibraryPart
from xsim_py.process.ranks import current

from .broadcast import neighbours, next_survivor
from .deaths import end_operations
from .knowledge import knowledge_of, members_of, revoked_error

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator
    from xsim_py.process.ranks.rank import Rank

_REVOKED = 2
"""The tag of a control message: a communicator is revoked."""

_SIZE_BYTES = 64

Notice = tuple[int, Sequence[int], int]
"""A communicator, its members, and the receiver's index among them."""


class _Fan:
    """The pending control messages of one rank's revocation to the ranks of this shard."""

    __slots__ = ("arrival_ps", "cid", "gap_ps", "key", "me", "members", "next_index", "offsets", "origin")

    def __init__(
        self,
        origin: int,
        notice: Notice,
        offsets: tuple[int, ...],
        gap_ps: int,
    ) -> None:
        self.origin = origin  # the sender's world rank
        self.cid, self.members, self.me = notice  # the last is the sender's index among the members
        self.offsets = offsets  # of the receivers from `me`, in order; mostly one object for all ranks
        self.gap_ps = gap_ps  # the interval between the arrivals of two messages
        self.next_index = 0  # of the next receiver
        self.arrival_ps = self.key = 0  # when the next message arrives, and its event key

    def dest(self) -> int:
        """Return the index of the next receiver among the members."""
        return (self.me + self.offsets[self.next_index]) % len(self.members)


class Revocation(LibraryPart):
    """Propagates revocations among the ranks of one shard and to others."""

    def __init__(self, fabric: Fabric, algorithm: str) -> None:
        self.fabric = fabric  # the transport of its ranks
        self.shard = fabric.shard
        self.algorithm = algorithm  # ``reliable_broadcast``, ``direct`` or ``local``
        self._fan_handler = self._receive_fan  # one bound method for all fans
        self._offsets: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._revoked: dict[frozenset[int], frozenset[int]] = {}

    def control(self) -> dict[int, ControlHandler]:
        """Return the handler of its control messages."""
        bounced = self._forward if self.algorithm == "reliable_broadcast" else None
        return {_REVOKED: ControlHandler("revocation", self._receive, bounced)}

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of its events."""
        return {"revoked": self._learn_locally, "fan": self._begin_fan}

    def revoke(self, comm: Communicator) -> None:
        """Revoke a communicator (MPI_Comm_revoke).

        The running fiber pays for the messages that it sends.
        """
        fiber = current.running()
        rank = fiber.rank
        fiber.sync()
        if comm.cid in knowledge_of(comm.box).revoked:
            return
        members = members_of(comm)
        me = members.index(rank.number)
        fiber.clock_ps = self._record(rank, (comm.cid, members, me), fiber.clock_ps, original=True)
        rank.key += 1
        self.shard.kernel.post(self.shard.kernel.now_ps, rank.key, self._interrupt, (rank, comm.cid))

    def _receive(self, rank: Rank, message: Message) -> None:
        self._accept(rank, message.note, message.arrival_ps + message.overhead_ps)

    def _accept(self, rank: Rank, notice: Notice, at_ps: int) -> None:
        """Record a revocation at a rank, and end its pending operations, unless it already knows."""
        state = knowledge_of(rank.mpi or self.fabric.open(rank))
        if notice[0] not in state.revoked:
            self._record(rank, notice, at_ps, original=False)
            self._interrupt((rank, notice[0]))

    def _record(self, rank: Rank, notice: Notice, at_ps: int, *, original: bool) -> int:
        """Record a revocation at a rank and notify others; return when the last message has left."""
        fabric = self.fabric
        cid, members, _ = notice
        state = knowledge_of(rank.mpi)
        revoked = state.revoked | {cid}
        state.revoked = self._revoked.setdefault(revoked, revoked)
        fabric.failure_seen = True
        now_ps = self.shard.kernel.now_ps
        fabric.digest += hash((now_ps, rank.number, cid))
        if fabric.trace is not None:
            fabric.trace.mark(rank.number, now_ps, "revoked", f"a communicator of {len(members)} ranks")
        if self.algorithm != "local":
            return self._notify(rank, notice, at_ps)
        if original:
            self._notify_locally(rank, notice, at_ps)
        return at_ps

    def _interrupt(self, entry: tuple[Rank, int]) -> None:
        """End a rank's pending operations on a revoked communicator with an error."""
        rank, cid = entry
        if rank.exit_status is None and not self.fabric.defer_for(rank, self._interrupt, entry):
            failing = [op for op in rank.mpi.pending() if (op.comm.outer or op.comm).cid == cid]
            end_operations(rank, [(operation, revoked_error(operation.comm)) for operation in failing])
            for session in list(knowledge_of(rank.mpi).sessions.values()):
                session.revoke(cid)

    def _notify(self, rank: Rank, notice: Notice, at_ps: int) -> int:
        _, members, me = notice
        known = knowledge_of(rank.mpi).known
        size = len(members)
        places = range(size) if self.algorithm == "direct" else neighbours(me, members, known)
        offsets = tuple([(index - me) % size for index in places if index != me and members[index] not in known])
        fabric = self.fabric
        if fabric.equally_far and fabric.links is None and fabric.trace is None and len(offsets) > 1:
            link = fabric.link(rank.number, members[(me + offsets[0]) % size])
            cost = link.cost(_SIZE_BYTES)
            if not cost.send_ps and not cost.receive_ps and cost.busy_ps and at_ps <= self.shard.kernel.now_ps:
                fan = _Fan(rank.number, notice, self._offsets.setdefault(offsets, offsets), cost.busy_ps)
                self._fan_out(rank, fan, cost.wire_ps + cost.latency_ps)
                return at_ps
        return self._notify_each(rank, notice, offsets, at_ps)

    def _notify_each(self, rank: Rank, notice: Notice, offsets: Sequence[int], at_ps: int) -> int:
        """Send the messages individually, where `_fan_out` is not possible."""
        cid, members, me = notice
        for offset in offsets:
            index = (me + offset) % len(members)
            at_ps = self.fabric.send_control(rank, members[index], _REVOKED, (cid, members, index), _SIZE_BYTES, at_ps)
        return at_ps

    def _fan_out(self, rank: Rank, fan: _Fan, transit_ps: int) -> None:
        """Send all messages now, one after the other; they arrive `transit_ps` after they have left."""
        shard, fabric = self.shard, self.fabric
        start_ps = occupy_nic(rank, shard.kernel.now_ps, len(fan.offsets) * fan.gap_ps)
        key = rank.key + 1
        rank.key += len(fan.offsets)
        dests = [fan.members[(fan.me + offset) % len(fan.members)] for offset in fan.offsets]
        fabric.count(rank.number, dests, _SIZE_BYTES)
        started = set()
        for index, to in enumerate(dests):
            owner = shard.number if shard.local(to) else shard.owner(to)
            if owner not in started:
                started.add(owner)
                arrival_ps = start_ps + index * fan.gap_ps + transit_ps
                if owner == shard.number:
                    fan.next_index, fan.arrival_ps, fan.key = index, arrival_ps, key + index
                    shard.kernel.post(arrival_ps, fan.key, self._fan_handler, fan)
                else:
                    notice = fan.cid, fan.members, fan.me
                    argument = fan.origin, notice, fan.offsets, fan.gap_ps, index, arrival_ps, key + index
                    shard.post_to(to, arrival_ps, key + index, "fan", argument)

    def _begin_fan(self, argument: Any) -> None:
        """Handle the first message from a rank in another shard to ranks of this one."""
        origin, notice, offsets, gap_ps, *state = argument
        fan = _Fan(origin, notice, self._offsets.setdefault(offsets, offsets), gap_ps)
        fan.next_index, fan.arrival_ps, fan.key = state
        self._receive_fan(fan)

    def _receive_fan(self, fan: _Fan) -> None:
        """Handle a fan's next message as `Fabric._deliver` and `_receive` do an individual one."""
        fabric = self.fabric
        index = fan.dest()
        now_ps = fan.arrival_ps
        to: int = fan.members[index]
        rank = fabric.ranks[to - fabric.first]
        if fabric.defer_for(rank, self._fan_handler, fan):
            return
        fabric.digest += hash((now_ps, to, fan.origin, _REVOKED, _SIZE_BYTES, 0))
        self._post_next(fan)
        box = rank.mpi
        notice = fan.cid, fan.members, index
        if type(box) is ClosedMailbox:
            fabric.take_control(Message.control(fan.origin, to, _REVOKED, notice, _SIZE_BYTES, arrival_ps=now_ps))
        elif box is None or box.knowledge is None or fan.cid not in box.knowledge.revoked:
            self._accept(rank, notice, now_ps)

    def _post_next(self, fan: _Fan) -> None:
        """Post the event of the next message to a rank of this shard, if there is one."""
        shard = self.shard
        last = len(fan.offsets) - 1
        while fan.next_index < last:
            fan.next_index += 1
            fan.arrival_ps += fan.gap_ps
            fan.key += 1
            if shard.local(fan.members[fan.dest()]):
                shard.kernel.post(fan.arrival_ps, fan.key, self._fan_handler, fan)
                return

    def _forward(self, rank: Rank, to: int, notice: Notice) -> None:
        """Notify the member after rank `to`, which had failed when the message arrived."""
        cid, members, index = notice
        me = members.index(rank.number)
        dest = next_survivor(index, members, rank.mpi.knowledge.known, me=me)
        if dest != me:
            note = (cid, members, dest)
            self.fabric.send_control(rank, members[dest], _REVOKED, note, _SIZE_BYTES, self.shard.kernel.now_ps)

    def _notify_locally(self, rank: Rank, notice: Notice, at_ps: int) -> None:
        """Notify each member after its latency without a message (``local``)."""
        cid, members, me = notice
        for index, number in enumerate(members):
            if index != me:
                rank.key += 1
                when_ps = at_ps + self.fabric.link(rank.number, number).latency_ps
                self.shard.post_to(number, when_ps, rank.key, "revoked", (number, (cid, members, index)))

    def _learn_locally(self, entry: tuple[int, Notice]) -> None:
        number, notice = entry
        rank = self.shard.rank(number)
        if rank.exit_status is None and not self.fabric.defer_for(rank, self._learn_locally, entry):
            self._accept(rank, notice, self.shard.kernel.now_ps)
