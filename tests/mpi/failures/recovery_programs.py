"""How each rank plays a random program in which processes die (see `recovery_scenarios`), and what it saw.

All ranks walk through one list of steps, each doing its part, and catch every error: what they saw goes into a journal
that outlives them. A step names the communicator it works on by a slot; a rank that has none there leaves the step out.
So all members of a communicator make the same calls on it in the same order, as long as they live.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from tests.mpi.failures.recovery_scenarios import MAKERS, Step

LONG = 200
"""How often a long message repeats what it has to say: enough for a rendezvous."""


@dataclass
class Record:
    """One call of one rank.

    Attributes
    ----------
    comm : str
        Which communicator: the same text at all its members, and of no other.
    since_ps, end_ps : int, int or None
        From when to when; the end of a non-blocking one is that of the call that completed it.
    error, culprits : int, tuple
        The error class, 0 for none, and which ranks of the whole run the error's text names.
    value : object
        What it returned.
    expected : object
        What it had to return, where that is known beforehand.
    failed, failed_after, acked : tuple of int
        What Get_failed said before and after, and how much of that was acknowledged before; ranks of the whole run.
    revoked : bool
        What Is_revoked said before.
    waiting : bool
        Whether the rank is in the call, or in the one that completes it, where it has not ended.
    """

    step: int
    kind: str
    call: str
    comm: str
    members: tuple[int, ...]
    me: int
    since_ps: int
    failed: tuple[int, ...]
    acked: tuple[int, ...]
    revoked: bool
    peer: int | None = None
    flag: int = 0
    end_ps: int | None = None
    error: int = 0
    culprits: tuple[int, ...] = ()
    value: Any = None
    expected: Any = None
    failed_after: tuple[int, ...] = ()
    waiting: bool = False


@dataclass
class Journal:
    """What all ranks saw: their records in order, and each communicator they had, as (context number, members)."""

    records: list[list[Record]]
    comms: list[dict[str, tuple[int, tuple[int, ...]]]]

    @classmethod
    def of(cls, ranks: int) -> Journal:
        return cls([[] for _ in range(ranks)], [{} for _ in range(ranks)])

    def all(self) -> Iterator[tuple[int, Record]]:
        for rank, records in enumerate(self.records):
            for record in records:
                yield rank, record


# ---------------------------------------------------------------------------------------------- playing programs


class _BugError(Exception):
    """Not an MPI error: a bug of the program, which ends its process."""


@dataclass
class _Comm:
    """A communicator that this rank has: None for none, or not yet."""

    comm: Any
    name: str
    members: tuple[int, ...]
    acked: int = 0


@dataclass
class _Begun:
    """A call to be completed."""

    record: Record
    request: Any
    finish: Callable[[], Any]
    place: _Comm
    sender: int | None = None
    keep: list[Any] = field(default_factory=list)


def play(steps: tuple[Step, ...], journal: Journal) -> list[Any]:
    """The program: what one rank does."""
    from mpi4py import MPI

    return _Player(MPI, steps, journal).run()


class _Player:
    """One rank at work."""

    def __init__(self, mpi: Any, steps: tuple[Step, ...], journal: Journal) -> None:
        self.mpi = mpi
        self.world = mpi.COMM_WORLD
        self.everyone = self.world.group
        self.steps = steps
        self.records = journal.records[self.world.rank]
        self.comms = journal.comms[self.world.rank]
        self.slots: list[_Comm] = []
        self.begun: list[_Begun] = []
        self.number = 0
        self.add(self.world, "world")

    def run(self) -> list[Any]:
        for number, step in enumerate(self.steps):
            self.number = number
            place = self.slots[step.slot]
            if place.comm is not None:
                getattr(self, step.kind)(step, place)
            elif step.kind in MAKERS:
                self.add(None, "")
            elif step.kind in ("wait", "sleep", "die"):
                getattr(self, step.kind)(step, self.slots[0])
        self.number = len(self.steps)
        self.wait(Step("wait"), self.slots[0])
        return [(record.step, record.call, record.error, record.value, record.end_ps) for record in self.records]

    # ------------------------------------------------------------------------------------------- calls and errors

    def now_ps(self) -> int:
        return round(self.mpi.Wtime() * 10**12)

    def in_world(self, group: Any) -> tuple[int, ...]:
        return tuple(self.mpi.Group.Translate_ranks(group, None, self.everyone))

    def add(self, comm: Any, name: str) -> None:
        """The next slot."""
        self.slots.append(_Comm(None, "", ()))
        self.fill(len(self.slots) - 1, comm, name)

    def fill(self, slot: int, comm: Any, name: str) -> None:
        if comm is not None and comm != self.mpi.COMM_NULL:
            members = self.in_world(comm.group)
            self.slots[slot] = _Comm(comm, name, members)
            self.comms[name] = (comm._comm().cid, members)

    def begin(self, call: str, place: _Comm, kind: str = "", peer: int | None = None) -> Record:
        failed = self.in_world(place.comm.Get_failed())
        record = Record(
            step=self.number,
            kind=kind or call,
            call=call,
            comm=place.name,
            members=place.members,
            me=place.comm.rank,
            since_ps=self.now_ps(),
            failed=failed,
            acked=failed[: place.acked],
            revoked=place.comm.Is_revoked(),
            peer=None if peer is None else place.members[peer],
        )
        self.records.append(record)
        return record

    def attempt(self, record: Record, place: _Comm, function: Callable[[], Any]) -> bool:
        """Call; whether it returned."""
        record.waiting = True
        try:
            record.value = function()
        except self.mpi.Exception as error:
            record.error = error.Get_error_class()
            named = re.findall(r"ranks? ([\d, ]+) of MPI_COMM_WORLD", str(error))
            record.culprits = tuple(int(number) for text in named for number in text.split(","))
        record.end_ps = self.now_ps()
        record.failed_after = self.in_world(place.comm.Get_failed())
        return not record.error

    def complete(self, begun: _Begun) -> None:
        """Wait; a receive from any source is waited for as long as its sender may live."""
        record, request, place = begun.record, begun.request, begun.place
        while True:

            def wait() -> Any:
                request.Wait()
                return begun.finish()

            self.attempt(record, place, wait)
            if record.error != self.mpi.ERR_PROC_FAILED_PENDING:
                return
            self.acknowledge(place, None)
            if begun.sender in self.in_world(place.comm.Get_failed()):
                request.Cancel()
                request.Wait()
                return
            record = self.begin(record.call, place, record.kind)

    def acknowledge(self, place: _Comm, count: int | None) -> None:
        record = self.begin("Ack_failed", place)
        self.attempt(record, place, lambda: place.comm.Ack_failed(count))
        if not record.error:
            place.acked = record.value

    def new(self, record: Record, place: _Comm, function: Callable[[], Any], name: str) -> None:
        """A call that makes a communicator."""
        made: list[Any] = []
        if self.attempt(record, place, lambda: made.append(function())):
            self.add(made[0], name)
        else:
            self.add(None, "")
        if self.slots[-1].comm is not None:
            record.value = self.slots[-1].members

    # --------------------------------------------------------------------------------------------------- messages

    def message(self, step: Step, place: _Comm) -> None:
        size = len(place.members)
        source, dest = step.who % size, step.to % size
        if source == dest:
            return
        if place.comm.rank == source:
            self.send(step, place, dest)
        elif place.comm.rank == dest:
            self.receive(step, place, source)

    def send(self, step: Step, place: _Comm, dest: int) -> None:
        record = self.begin(step.what, place, "send", dest)
        data = np.array([crc32(place.name.encode()), place.comm.rank, self.number] * (LONG if step.long else 1), "i8")
        made: list[Any] = []
        call = getattr(place.comm, step.what)
        done = self.attempt(record, place, lambda: made.append(call(data, dest, step.number % 3)))
        if done and made[0] is not None:
            record.end_ps, record.waiting = None, False
            self.begun.append(_Begun(record, made[0], lambda: None, place, keep=[data]))

    def receive(self, step: Step, place: _Comm, source: int) -> None:
        comm, mpi = place.comm, self.mpi
        wild = step.how in ("any", "iany", "stubborn")
        asked = mpi.ANY_SOURCE if wild else source
        tag = mpi.ANY_TAG if step.mask & 1 else step.number % 3
        data = np.full(3 * LONG, -1, "i8")
        status = mpi.Status()

        def taken() -> list[int]:
            return [status.Get_source(), status.Get_tag(), status.Get_count(mpi.INT64_T), *map(int, data[:3])]

        def blocking() -> list[int]:
            if step.how == "Mprobe":
                comm.Mprobe(asked, tag).Recv(data, status)
                return taken()
            if step.how == "Probe":
                comm.Probe(asked, tag)
            comm.Recv(data, asked, tag, status)
            return taken()

        peer = None if wild else source
        if step.how in ("Irecv", "iany"):
            record = self.begin("Irecv", place, step.how, peer)
            made: list[Any] = []
            if self.attempt(record, place, lambda: made.append(comm.Irecv(data, asked, tag))):
                record.end_ps, record.waiting = None, False
                begun = _Begun(record, made[0], taken, place, place.members[source], [data])
                begun.request = _WithStatus(made[0], status)
                self.begun.append(begun)
            return
        while True:
            record = self.begin("Recv", place, step.how, peer)
            self.attempt(record, place, blocking)
            if step.how != "stubborn" or record.error != mpi.ERR_PROC_FAILED:
                return
            self.acknowledge(place, None)
            if place.members[source] in self.in_world(comm.Get_failed()):
                return

    def collective(self, step: Step, place: _Comm) -> None:
        name = "I" + step.what.lower() if step.how else step.what
        args, out, expected = _collective(self.mpi, step, place)
        record = self.begin(name, place, "collective")
        record.expected = expected
        made: list[Any] = []

        def outcome() -> Any:
            return None if expected is None else out.tolist()

        def call() -> Any:
            made.append(getattr(place.comm, name)(*args))
            return outcome()

        if self.attempt(record, place, call) and step.how:
            record.end_ps = record.value = None
            record.waiting = False
            self.begun.append(_Begun(record, made[0], outcome, place, keep=[args, out]))

    def wait(self, step: Step, place: _Comm) -> None:
        begun, self.begun = self.begun, []
        for each in begun:
            self.complete(each)

    # ------------------------------------------------------------------------------------------------ agreements

    def flag(self, step: Step, place: _Comm) -> int:
        """All bits, but one for each rank, and another that some of them clear."""
        return 0x7FFFFFFF & ~(1 << place.comm.rank) & ~((step.mask >> place.comm.rank & 1) << 20)

    def acknowledge_first(self, step: Step, place: _Comm) -> None:
        if step.how == "all acknowledge" or (step.how and step.mask >> place.comm.rank & 2):
            self.acknowledge(place, None)

    def agree(self, step: Step, place: _Comm) -> None:
        self.acknowledge_first(step, place)
        record = self.begin("Agree", place)
        record.flag = self.flag(step, place)
        self.attempt(record, place, lambda: place.comm.Agree(record.flag))

    def iagree(self, step: Step, place: _Comm) -> None:
        self.acknowledge_first(step, place)
        record = self.begin("Iagree", place)
        record.flag = self.flag(step, place)
        buffer = np.array([record.flag], "i4")
        request = place.comm.Iagree(buffer)
        begun = _Begun(record, request, lambda: int(buffer[0]), place)
        if not step.mask & 1:
            self.begun.append(begun)
            return
        self.complete(begun)
        if record.error:
            record.value = int(buffer[0])

    def shrink(self, step: Step, place: _Comm) -> None:
        record = self.begin("Shrink", place)
        self.new(record, place, place.comm.Shrink, f"{place.name}/{self.number}shrink")

    def ishrink(self, step: Step, place: _Comm) -> None:
        record = self.begin("Ishrink", place)
        made, request = place.comm.Ishrink()
        self.add(None, "")
        slot, name = len(self.slots) - 1, f"{place.name}/{self.number}ishrink"

        def finish() -> tuple[int, ...]:
            self.fill(slot, made, name)
            return self.slots[slot].members

        self.begun.append(_Begun(record, request, finish, place))

    def repair(self, step: Step, place: _Comm) -> None:
        """What programs do after each phase: agree whether it went well, and else revoke and shrink."""
        record = self.begin("Barrier", place, "collective")
        well = self.attempt(record, place, place.comm.Barrier)
        if not well and step.mask & 1:
            self.revoke(step._replace(who=place.comm.rank), place)
        record = self.begin("Agree", place)
        record.flag = 0x7FFFFFFF & ~(1 << place.comm.rank) & ~((not well) << 20)
        self.attempt(record, place, lambda: place.comm.Agree(record.flag))
        if record.error or record.value & 1 << 20 == 0:
            if step.mask & 2:
                self.revoke(step._replace(who=place.comm.rank), place)
            self.shrink(step, place)
        else:
            self.dup(step, place)

    # --------------------------------------------------------------------------------------- other communicators

    def dup(self, step: Step, place: _Comm) -> None:
        record = self.begin("Dup", place, "make")
        self.new(record, place, place.comm.Dup, f"{place.name}/{self.number}dup")

    def idup(self, step: Step, place: _Comm) -> None:
        record = self.begin("Idup", place, "make")

        def call() -> Any:
            made, request = place.comm.Idup()
            request.Wait()
            return made

        self.new(record, place, call, f"{place.name}/{self.number}idup")

    def split(self, step: Step, place: _Comm) -> None:
        record = self.begin("Split", place, "make")
        me = place.comm.rank
        color, key = step.mask >> me & 1, -me if step.number & 1 else me
        self.new(record, place, lambda: place.comm.Split(color, key), f"{place.name}/{self.number}split{color}")

    def group(self, step: Step, place: _Comm) -> None:
        members = [rank for rank in range(len(place.members)) if step.mask >> rank & 1]
        if place.comm.rank not in members:
            self.add(None, "")
            return
        record = self.begin("Create_group", place, "make")
        group = place.comm.group.Incl(members)
        self.new(record, place, lambda: place.comm.Create_group(group, step.number), f"{place.name}/{self.number}group")

    def safe_dup(self, step: Step, place: _Comm) -> None:
        """Nobody keeps a duplicate that somebody did not get."""
        self.dup(step, place)
        record = self.begin("Agree", place)
        well = self.slots[-1].comm is not None
        record.flag = 0x7FFFFFFF & ~(1 << place.comm.rank) & ~((not well) << 20)
        self.attempt(record, place, lambda: place.comm.Agree(record.flag))
        if record.error or not record.value & 1 << 20:
            self.slots[-1] = _Comm(None, "", ())

    # -------------------------------------------------------------------------------------------- and the rest

    def revoke(self, step: Step, place: _Comm) -> None:
        if place.comm.rank == step.who % len(place.members):
            record = self.begin("Revoke", place)
            self.attempt(record, place, place.comm.Revoke)

    def ack(self, step: Step, place: _Comm) -> None:
        if step.mask >> place.comm.rank & 1:
            self.acknowledge(place, None if step.number > 3 else step.number)

    def sleep(self, step: Step, place: _Comm) -> None:
        import time

        if step.mask >> self.world.rank & 1:
            time.sleep(step.number * 3.1e-6)

    def die(self, step: Step, place: _Comm) -> None:
        import os
        import signal

        if self.world.rank != step.who:
            return
        if step.how == "_exit":
            os._exit(1)
        elif step.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise _BugError


class _WithStatus:
    """A request that fills a status when it is complete."""

    def __init__(self, request: Any, status: Any) -> None:
        self.request = request
        self.status = status

    def Wait(self) -> None:  # noqa: N802
        self.request.Wait(self.status)

    def Cancel(self) -> None:  # noqa: N802
        self.request.Cancel()


def _collective(mpi: Any, step: Step, place: _Comm) -> tuple[tuple[Any, ...], Any, list[int] | None]:
    """The arguments of a collective call, where its result will be, and what it must be."""
    times = LONG if step.long else 1
    name, me, size = crc32(place.name.encode()), place.comm.rank, len(place.members)
    root = step.who % size

    def block(value: int) -> list[int]:
        return [value, name] * times

    def blocks(values: list[int]) -> list[int]:
        return [number for value in values for number in block(value)]

    mine = np.array(block(1 << me), "i8")
    out = np.full_like(mine, -1)
    outs = np.full(2 * times * size, -1, "i8")
    everyone = [1 << rank for rank in range(size)]
    total = [sum(everyone), name * size] * times
    at_root = me == root
    if step.what == "Barrier":
        return (), None, None
    if step.what == "Bcast":
        data = mine if at_root else out
        return (data, root), data, block(1 << root)
    if step.what == "Reduce":
        return (mine, out, mpi.SUM, root), out, total if at_root else None
    if step.what == "Allreduce":
        return (mine, out), out, total
    if step.what == "Gather":
        return (mine, outs if at_root else None, root), outs, blocks(everyone) if at_root else None
    if step.what == "Allgather":
        return (mine, outs), outs, blocks(everyone)
    if step.what == "Scatter":
        return (np.array(blocks(everyone), "i8") if at_root else None, out, root), out, block(1 << me)
    if step.what == "Alltoall":
        sent = np.array(blocks([16 * me + rank for rank in range(size)]), "i8")
        return (sent, outs), outs, blocks([16 * rank + me for rank in range(size)])
    assert step.what == "Scan"
    return (mine, out), out, [sum(everyone[: me + 1]), name * (me + 1)] * times
