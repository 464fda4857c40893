"""Revocation of communicators: how the news spreads, and what it does where it arrives (ULFM: MPI_Comm_revoke).

``reliable_broadcast`` is Open MPI's way: whoever learns of it tells the members at distances 1, 2, 4, ... in both
directions (`spread`). ``direct``: whoever learns of it tells everybody, n (n - 1) messages. ``local`` is xSim's: the
call costs nothing and sends nothing, and each member knows after one latency, for nothing is known before it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xsim_py.process import current

from .message import Message
from .recovery import members_of, recovery_of, revoked_error
from .spread import next_place, spread

if TYPE_CHECKING:
    from xsim_py.process.rank import Rank

    from .comm import Communicator
    from .p2p import Fabric

__all__ = ["Revocation"]

_REVOKED = 2
"""The tag of a notice: a communicator is revoked."""

_SIZE_BYTES = 64

News = tuple[int, Sequence[int], int]
"""A communicator, its members, and the place among them of who is told."""


class Revocation:
    """Spreads revocations among the ranks of one shard and to others.

    Parameters
    ----------
    fabric : Fabric
        Whose ranks it serves.
    algorithm : str
        ``reliable_broadcast``, ``direct`` or ``local``.
    """

    def __init__(self, fabric: Fabric, algorithm: str) -> None:
        self.fabric = fabric
        self.shard = fabric.shard
        self.algorithm = algorithm
        fabric.revocation = self
        fabric.notices[_REVOKED] = self._heard
        if algorithm == "reliable_broadcast":
            fabric.returned[_REVOKED] = self._tell_on
        self.shard.handlers["revoked"] = self._known

    def revoke(self, comm: Communicator) -> None:
        """MPI_Comm_revoke in the running fiber, which pays for the messages that it sends itself."""
        fiber = current.fiber
        assert fiber is not None
        rank = fiber.rank
        fiber.sync()
        if comm.cid in recovery_of(comm.box).revoked:
            return
        members = members_of(comm)
        me = members.index(rank.number)
        fiber.clock_ps = self._note(rank, (comm.cid, members, me), fiber.clock_ps, original=True)
        rank.key += 1
        self.shard.kernel.post(self.shard.kernel.now_ps, rank.key, self._interrupt, (rank, comm.cid))

    def _heard(self, rank: Rank, message: Message) -> None:
        self._accept(rank, message.note, message.arrival_ps + message.overhead_ps)

    def _accept(self, rank: Rank, news: News, at_ps: int) -> None:
        """A rank hears of a revocation."""
        state = recovery_of(rank.mpi or self.fabric.open(rank))
        if news[0] not in state.revoked:
            self._note(rank, news, at_ps, original=False)
            self._interrupt((rank, news[0]))

    def _note(self, rank: Rank, news: News, at_ps: int, *, original: bool) -> int:
        """A rank knows from now on, and tells others; when it has told them."""
        fabric = self.fabric
        cid, members, _ = news
        recovery_of(rank.mpi).revoked.add(cid)
        fabric.troubled = True
        now_ps = self.shard.kernel.now_ps
        fabric.digest += hash((now_ps, rank.number, cid))
        if fabric.trace is not None:
            fabric.trace.mark(rank.number, now_ps, "revoked", f"a communicator of {len(members)} ranks")
        if self.algorithm != "local":
            return self._tell(rank, news, at_ps)
        if original:
            self._let_know(rank, news, at_ps)
        return at_ps

    def _interrupt(self, entry: tuple[Rank, int]) -> None:
        """What a rank has in progress on a revoked communicator ends with an error."""
        rank, cid = entry
        if rank.exit_status is None:
            failing = [op for op in rank.mpi.pending() if (op.comm.outer or op.comm).cid == cid]
            self.fabric.detector.fail(rank, failing, lambda operation: revoked_error(operation.comm))
            for session in list(recovery_of(rank.mpi).sessions.values()):
                session.revoke(cid)

    def _tell(self, rank: Rank, news: News, at_ps: int) -> int:
        cid, members, me = news
        known = recovery_of(rank.mpi).known
        places = range(len(members)) if self.algorithm == "direct" else spread(me, members, known)
        for place in places:
            if place != me and members[place] not in known:
                at_ps = self.fabric.tell(rank, members[place], _REVOKED, (cid, members, place), _SIZE_BYTES, at_ps)
        return at_ps

    def _tell_on(self, rank: Rank, to: int, news: News) -> None:
        """Rank `to` was dead when the news came: tell the one after it instead."""
        cid, members, place = news
        me = members.index(rank.number)
        dest = next_place(place, members, rank.mpi.recovery.known, me=me)
        if dest != me:
            note = (cid, members, dest)
            self.fabric.tell(rank, members[dest], _REVOKED, note, _SIZE_BYTES, self.shard.kernel.now_ps)

    def _let_know(self, rank: Rank, news: News, at_ps: int) -> None:
        """``local``: each member hears of it after its own latency, without a message."""
        cid, members, me = news
        for place, number in enumerate(members):
            if place != me:
                rank.key += 1
                when_ps = at_ps + self.fabric.link(rank.number, number).times(0)[3]
                self.shard.post_to(number, when_ps, rank.key, "revoked", (number, (cid, members, place)))

    def _known(self, entry: tuple[int, News]) -> None:
        number, news = entry
        rank = self.shard.rank(number)
        if rank.exit_status is None:
            self._accept(rank, news, self.shard.kernel.now_ps)
