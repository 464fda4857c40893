"""Agreement and shrinking on communicators with failed members (ULFM).

The calls are MPI_Comm_agree, MPI_Comm_shrink and their nonblocking variants.

The protocol is a state machine (`agreement`). This module has its driver, which passes it the rank's knowledge of
failures and charges its messages to the network, and the calls built on it:

* agree: one agreement on the flag, on the failed members, and on the failures that all members have acknowledged.
* shrink, ``two_phase`` (xSim): agreements on the set of failed members until two in a row are equal.
* shrink, ``agreement`` (Open MPI): agreements until all members knew of all failures, and one more for the number of
  the new communicator.
* ``liveness``: the same from one liveness discovery (`liveness`), which may also be that of a group (`noncollective`);
  ``naive``, ``legio`` and ``repaired`` are the variants of the literature.

The MPI library does this by itself, as if by a progress thread: the rank may compute meanwhile, and a rank that has its
decision still answers queries for it. The messages are control messages, which revocation does not stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.mpi import NOBODY
from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import MISMATCH
from xsim_py.mpi.comm import WORLD_CID, Communicator, Context, derive_cid, shared_context
from xsim_py.mpi.management import make_inter
from xsim_py.mpi.transport.message import Message, Operation
from xsim_py.mpi.transport.protocols import ControlHandler, LibraryPart
from xsim_py.process.lifecycle import announce
from xsim_py.process.ranks import current

from .agreement import Agreement, AgreementPacket, Ballot, Decision
from .knowledge import Knowledge, knowledge_of, members_of
from .liveness import LEGIO, NAIVE, REPAIRED, SAFE, Liveness, LivenessPacket

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

    from .deaths import Deaths
    from .detector import Detector

_AGREE = 3
"""The tag of a control message: a packet of an agreement."""

_PROTOCOLS: dict[str, Callable[..., _Protocol]] = {
    "two_phase": partial(Agreement, tree="binomial"),
    "early_returning": partial(Agreement, tree="binary"),
    "agreement": partial(Agreement, tree="binary"),
    "liveness": partial(Liveness, variant=SAFE),
    **{variant: partial(Liveness, variant=variant) for variant in (NAIVE, LEGIO, REPAIRED)},
}
_SEVERAL_ROUNDS = ("two_phase", "agreement")  # in a shrink
_EVERY_BIT = -1
_NO_FLAG = (_EVERY_BIT,)

_Protocol = Agreement | Liveness
_Packet = AgreementPacket | LivenessPacket

Key = tuple[int, int, int]
"""An agreement: communicator, number of the call on it, round."""


class Repair(LibraryPart):
    """Receives the packets of agreements for the ranks of one shard.

    `deaths` has the failures reported to this shard. The `detector` detects failures of the ranks that an agreement
    waits for.
    """

    def __init__(self, deaths: Deaths, detector: Detector, *, agree: str, shrink: str) -> None:
        self.deaths = deaths
        self.detector = detector
        self.agree = agree  # the algorithm, like `shrink`
        self.shrink = shrink

    def control(self) -> dict[int, ControlHandler]:
        """Return the handler of its control messages."""
        return {_AGREE: ControlHandler("ulfm", self._receive)}

    def _receive(self, rank: Rank, message: Message) -> None:
        key: Key = message.note[0]
        packet: tuple[int, Any, str] = message.note[1:]
        state = knowledge_of(rank.mpi or self.deaths.fabric.open(rank))
        session: AgreementSession | None = state.sessions.get(key)
        if session is not None:
            state.busy_ps = max(state.busy_ps, message.arrival_ps) + message.overhead_ps
            session.receive(*packet)
        elif key[1] >= _last_entered(state, key[0]):  # earlier ones are over
            if key not in state.early:
                state.keep("early", key, [])
            state.early[key].append(packet)


class _Decided(NamedTuple):
    """The kept part of a completed protocol; one object for all ranks."""

    decision: Decision
    known: frozenset[int]
    algorithm: str


@lru_cache(maxsize=64)
def _decided(decision: Decision, known: frozenset[int], algorithm: str) -> _Decided:
    return _Decided(decision, known, algorithm)


class AgreementSession:
    """One rank's part in one agreement, until no rank can query its result any longer."""

    __slots__ = ("agreement", "call", "key", "members", "name", "rank", "since")

    done = False  # it waits for no rank once `since` is empty

    def __init__(
        self,
        rank: Rank,
        name: str,  # of the call that it belongs to, the same for all members
        key: Key,
        members: Context,  # the participating ranks, by index
        agreement: _Protocol | _Decided,  # the protocol, or, once it is over, the state needed to answer queries
        call: RepairCall | None,
    ) -> None:
        self.rank = rank
        self.name = name
        self.key = key
        self.members = members
        self.agreement = agreement
        self.call = call
        self.since: tuple[int, ...] = ()  # the indices that it waits for now, each followed by the time since when

    def enter(self, ballot: Ballot, at_ps: int) -> int:
        """Contribute at `at_ps` and handle early packets; return when its messages are sent."""
        for source, packet, name in knowledge_of(self.rank.mpi).drop("early", self.key) or ():
            if self._matches(source, name):
                agreement = self._protocol()
                at_ps = self._proceed(agreement, agreement.receive(source, packet), at_ps)
        agreement = self._protocol()
        if agreement.decision is None:
            at_ps = self._proceed(agreement, agreement.contribute(ballot), at_ps)
        self._notify_rank(self.agreement.known - ballot.failed)
        return at_ps

    def receive(self, source: int, packet: Any, name: str) -> None:
        """Handle a packet of a member that is in the call `name`."""
        if not self._matches(source, name):
            return
        agreement = self._protocol()
        before = agreement.known
        self._proceed(agreement, agreement.receive(source, packet), knowledge_of(self.rank.mpi).busy_ps)
        if agreement.known is not before:
            self._notify_rank(agreement.known - before)

    def _protocol(self) -> _Protocol:
        """Return the protocol, re-created if it is over."""
        kept = self.agreement
        if not isinstance(kept, _Decided):
            return kept
        me, size = self.members.place(self.rank.number), len(self.members.ranks)
        protocol = _PROTOCOLS[kept.algorithm](me=me, size=size, failed=kept.known)
        protocol.decision = kept.decision
        return protocol

    def _matches(self, source: int, name: str) -> bool:
        """Return True if another member is in the same call; abort the job if it is not."""
        if name == self.name:
            return True
        rank, ranks = self.rank, self.members.ranks
        where = "MPI_COMM_WORLD" if self.key[0] == WORLD_CID else f"a communicator of {len(ranks)} ranks"
        text = f"rank {rank.number} is in {self.name}, rank {ranks[source]} in {name} (ranks of {rank.shard.everyone})"
        announce(rank, rank.shard.kernel.now_ps, 3, f"{MISMATCH} on {where}: {text}", mismatch=True)
        return False

    def learn(self, numbers: Iterable[int]) -> None:
        """Handle failures that the rank has learnt of."""
        agreement = self.agreement
        if isinstance(agreement, _Decided):
            return
        places = self.members.places(numbers)
        if places:
            now_ps = self.rank.shard.kernel.now_ps
            self._proceed(agreement, agreement.learn(places), max(now_ps, knowledge_of(self.rank.mpi).busy_ps))

    def revoke(self, cid: int) -> None:
        """Do nothing: agreements work on revoked communicators."""

    def depends_on(self, number: int) -> bool:
        """Return True if it waits for a world rank now."""
        return self.members.place(number) in self.since[::2]

    def watch(self, number: int) -> None:
        """Let the detector notify the rank in time if this waits for a failed rank."""
        if not self.since:
            return
        since_ps = self._since().get(self.members.place(number))
        if since_ps is not None:
            self._repair().detector.expect(self.rank, number, self, since_ps)

    def _repair(self) -> Repair:
        return self.rank.mpi.fabric.part(Repair)  # type: ignore[no-any-return]

    def _since(self) -> dict[int, int]:
        return dict(zip(self.since[::2], self.since[1::2], strict=True))

    def _proceed(self, agreement: _Protocol, outgoing: Sequence[tuple[int, _Packet]], at_ps: int) -> int:
        """Send packets one after the other, then complete or update the ranks that it waits for."""
        rank = self.rank
        fabric = rank.mpi.fabric
        for dest, packet in outgoing:
            note = (self.key, agreement.me, packet, self.name)
            at_ps = fabric.send_control(rank, self.members.ranks[dest], _AGREE, note, packet.size_bytes, at_ps)
        state = knowledge_of(rank.mpi)
        state.busy_ps = max(state.busy_ps, at_ps)
        before, self.since = self._since(), ()
        if agreement.decision is not None:
            call, self.call = self.call, None
            if call is not None:
                self.agreement = _decided(agreement.decision, agreement.known, call.algorithm)
                self._notify_rank(agreement.decision.failed)
                call.decided(agreement.decision, at_ps)
            return at_ps
        awaited = agreement.waiting_for()
        self.since = tuple([each for index in awaited for each in (index, before.get(index, at_ps))])
        repair = self._repair()
        if repair.deaths.dead:
            for index in awaited:
                if index not in before:
                    repair.detector.expect(rank, self.members.ranks[index], self, at_ps)
        return at_ps

    def _notify_rank(self, places: Iterable[int]) -> None:
        """Notify the rank of failures learnt from packets, in an event.

        It cannot be done at once, because a call may be in progress.
        """
        ranks = self.members.ranks
        numbers = [ranks[index] for index in sorted(places)]
        rank = self.rank
        if any(number not in knowledge_of(rank.mpi).known for number in numbers):
            rank.key += 1
            kernel = rank.shard.kernel
            kernel.post(kernel.now_ps, rank.key, _learn, (rank, numbers))


def _learn(entry: tuple[Rank, list[int]]) -> None:
    rank, numbers = entry
    if rank.exit_status is None and not rank.mpi.fabric.defer_for(rank, _learn, entry):
        rank.mpi.fabric.part(Repair).deaths.learn(rank, numbers, "agreement")


class RepairCall(Operation):
    """One rank's call of agree or shrink: a series of agreements, mostly one or two.

    If several are pending on one communicator, a rank enters each when the previous one is over for it. So a rank that
    enters one has the results of all previous ones, and at most two can be queried.
    """

    __slots__ = (
        "acked",
        "algorithm",
        "comm",
        "decision",
        "failed",
        "flags",
        "following",
        "last",
        "members",
        "name",
        "number",
        "previous",
        "round",
        "session",
    )

    def __init__(self, comm: Communicator, name: str, algorithm: str, flags: tuple[int, ...] | None) -> None:
        super().__init__()
        self.comm = comm
        self.name = name
        self.algorithm = algorithm
        self.flags = flags
        self.decision: Decision | None = None  # the last agreement's
        self.failed: frozenset[int] = NOBODY  # the failed members found by a shrink, by index
        self.last = flags is not None or algorithm not in _SEVERAL_ROUNDS
        self.round = 0
        self.members = _all_members(comm)
        self.following: RepairCall | None = None  # the next call on the communicator, if it waits for this one
        self.session: AgreementSession | None = None  # the agreement in progress; None before it has entered
        fiber = current.running()
        fiber.sync()
        comm.box.drop_empty_tables()
        # Members whose failure had been acknowledged at the call, by index.
        self.acked = self.members.places(comm.acknowledged_members())
        state = knowledge_of(comm.box)
        self.previous: RepairCall | None = next((call for call in state.called if call.comm.cid == comm.cid), None)
        state.called = (*[call for call in state.called if call is not self.previous], self)
        if self.previous is None:
            self.number: int = _last_entered(state, comm.cid) + 1
            fiber.clock_ps = self.begin(fiber.clock_ps)
        else:
            self.number = self.previous.number + 1
            self.previous.following = self

    def describe(self) -> str:
        """Return a line for the deadlock report."""
        awaited = self.awaited
        who = f"rank{'s' * (len(awaited) > 1)} {', '.join(map(str, awaited[:8]))}{', ...' * (len(awaited) > 8)}"
        return f"{self.name} on {self.comm.label()}: {who} of {self.comm.fabric.shard.everyone} to take part"

    @property
    def awaited(self) -> list[int]:
        """The world ranks that it waits for."""
        call = self
        while call.session is None:
            assert call.previous is not None
            call = call.previous
        return [call.members.ranks[index] for index in sorted(call.session.since[::2])]

    def begin(self, at_ps: int) -> int:
        """Enter the call; discard the sessions that can no longer be queried.

        All survivors have entered the previous call, so none queries the ones before that.
        """
        cid = self.comm.cid
        state = knowledge_of(self.comm.box)
        self.previous = None
        for key in [key for key in state.sessions if key[0] == cid and key[1] < self.number - 1]:
            state.drop("sessions", key)
        return self._enter(at_ps)

    def _enter(self, at_ps: int) -> int:
        """Begin the next agreement."""
        comm, members = self.comm, self.members
        rank = comm.box.rank
        known = members.places(comm.failed_members())
        if not self.failed <= known:
            known = known | self.failed if known else self.failed
        acked = known if self.flags is None else self.acked
        flags = self.flags
        if flags is None:
            flags = _NO_FLAG if self.algorithm in _SEVERAL_ROUNDS else ()
        agreement = _PROTOCOLS[self.algorithm](me=members.place(rank.number), size=len(members.ranks), failed=known)
        key = _key(comm.cid, self.number, self.round)
        self.session = session = AgreementSession(rank, self.name, key, members, agreement, self)
        knowledge_of(comm.box).keep("sessions", key, session)
        return session.enter(Ballot(flags, acked, known), at_ps)

    def decided(self, decision: Decision, at_ps: int) -> None:
        """Continue after an agreement, whose result, and so the next step, all members share."""
        stable = self.round > 0 and decision.failed == self.failed
        if not (self.last and self.round):  # that one only decides the number of the new communicator
            self.failed = decision.failed
        if self.last or (self.algorithm == "two_phase" and stable):
            self.decision = decision
            self.time_ps = at_ps
            rank = self.comm.box.rank
            rank.key += 1
            rank.shard.kernel.post(at_ps, rank.key, Operation.complete, self)
            if self.following is None:
                state = knowledge_of(self.comm.box)
                state.called = tuple([call for call in state.called if call is not self])
            else:
                self.following.begin(at_ps)
            return
        self.last = self.algorithm != "two_phase" and not decision.error
        self.round += 1
        self._enter(at_ps)


def _last_entered(state: Knowledge, cid: int) -> int:
    """Return the number of the last agreement entered, which is kept until the next but one."""
    return max([key[1] for key in state.sessions if key[0] == cid], default=0)


@lru_cache(maxsize=256)
def _key(cid: int, number: int, turn: int) -> Key:
    """Return one object for all ranks."""
    return cid, number, turn


def _all_members(comm: Communicator) -> Context:
    if comm.local is None:
        return comm.context
    return shared_context(comm.fabric, derive_cid(comm.cid, "both groups"), members_of(comm))


def begin_agree(comm: Communicator, flag: int, name: str) -> RepairCall:
    """Begin MPI_Comm_iagree.

    On an intercommunicator each group agrees on the flags of the other one.
    """
    flags: tuple[int, ...] = (flag,)
    if comm.local is not None:
        flags = (flag, _EVERY_BIT) if _is_first(comm) else (_EVERY_BIT, flag)
    return RepairCall(comm, name, comm.fabric.part(Repair).agree, flags)


def _is_first(comm: Communicator) -> bool:
    return comm.ranks[0] < comm.remote[0]


def agreed_flag(call: RepairCall) -> int:
    """Return the flag that all members agree on."""
    assert call.decision is not None
    flags = call.decision.flags
    return flags[0] if len(flags) == 1 else flags[1 if _is_first(call.comm) else 0]


def check_agreed(call: RepairCall) -> None:
    """Raise the agreed error: a member is missing whose failure not all had acknowledged."""
    assert call.decision is not None
    if call.decision.error:
        missing = sorted(call.members.ranks[index] for index in call.decision.missing)
        who = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        everyone = call.comm.fabric.shard.everyone
        call.comm.fail(c.ERR_PROC_FAILED, f"{who} of {everyone} did not take part; not all had acknowledged that")


def begin_shrink(comm: Communicator, name: str) -> RepairCall:
    """Begin MPI_Comm_ishrink: agree on the failed members."""
    return RepairCall(comm, name, comm.fabric.part(Repair).shrink, None)


def shrunk(call: RepairCall) -> Communicator:
    """Return the new communicator: the surviving members, in order."""
    comm, members = call.comm, call.members
    failed = frozenset(members.ranks[index] for index in call.failed)
    cid = derive_cid(comm.cid, "shrink", call.number, sorted(failed))
    if comm.local is None:
        context = comm.fabric.contexts.get((cid, -1))  # made once per shard: there may be many members
        return Communicator(context or shared_context(comm.fabric, cid, _without(comm.peer_ranks, failed)), comm.box)
    ranks, remote = _without(comm.ranks, failed), _without(comm.remote, failed)
    return make_inter(comm, cid, ranks, remote)


def _without(ranks: Sequence[int], failed: frozenset[int]) -> Sequence[int]:
    return tuple([rank for rank in ranks if rank not in failed]) if failed else ranks
