"""Communication between shards about the collective instances of their ranks.

A shard tells the others with members of a communicator three things, always with the exchange at the end of a window:
that the first of its ranks has begun a call, its description, and whether it waits to be computed; that a call is
simulated individually after all; and, when all of its ranks have entered, their clocks and contributions. So only one
exchange of arrays per call crosses shards.

That is early enough. A message of a rank that waits reaches another shard at the end of the window at the earliest, so
whatever is exchanged at that end is known before. Exits depend on all ranks: the earliest effect here of the last rank
to enter elsewhere is after the end of the window, too.
"""

from __future__ import annotations

from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.op import PREDEFINED

from .instance import CollectiveInstance, MemberHomes

if TYPE_CHECKING:
    from xsim_py.mpi.calls import Note
    from xsim_py.mpi.comm import Communicator
    from xsim_py.process.ranks.shard import Shard

    from .instances import CollectiveInstances

_MOST_MEMBERS = 64


class OtherShards:
    """The side of this shard: its information about calls in others, and its announcements to them.

    `instances` has the calls of this shard, and `shard` transports the announcements.
    """

    def __init__(self, instances: CollectiveInstances, shard: Shard) -> None:
        self._instances = instances
        self._ends = [block.stop for block in shard.blocks]
        self._members: dict[int, MemberHomes | None] = {}
        # For each context, the last call that all ranks of this shard have begun. It is kept after they have freed the
        # communicator: freeing does not synchronise, and calls that ranks elsewhere begin later must not be recorded.
        self._begun: dict[int, int] = {}
        # Of calls that no rank of this shard has begun.
        self._announcements: dict[tuple[int, int], list[tuple[Note, Any]]] = {}
        self._early: dict[tuple[int, int], list[Any]] = {}
        shard.handlers.update(meets=self._receive_announcement, enters=self._enter, retires=self._retire)

    @property
    def _shard(self) -> Shard:
        return self._instances.fabric.shard  # it is dropped when the run is over

    @property
    def quiet(self) -> bool:
        """True if no calls are known that only other shards have begun."""
        return not self._announcements

    def members(self, comm: Communicator) -> MemberHomes | None:
        """Return the shards of a communicator's ranks; None: all here."""
        if comm.cid not in self._members:
            if len(self._members) >= _MOST_MEMBERS:
                self._members.clear()
            numbers = np.asarray(comm.ranks, np.int64)
            homes = np.searchsorted(self._ends, numbers, side="right")
            for later in np.flatnonzero(numbers >= self._shard.initial).tolist():
                homes[later] = self._shard.owner(int(numbers[later]))
            number = self._shard.number
            self._members[comm.cid] = None if (homes == number).all() else MemberHomes(homes, number)
        return self._members[comm.cid]

    def begins(self, call: CollectiveInstance) -> None:
        """Compare a call that the shard's first rank begins with others' announcements; announce it."""
        call.announcements = self._announcements.pop(call.where, call.announcements)
        if any(token is None for _, token in call.announcements):
            call.undone = True  # all shards have been notified
            self._early.pop(call.where, None)
        else:
            call.announced = [call.where, call.note, None]
            self._tell(call, "meets", call.announced)

    def fits(self, call: CollectiveInstance) -> bool:
        """Return True if all other shards known to have begun a call have the same note."""
        return all(note == call.note for note, _ in call.announcements)

    def opens(self, call: CollectiveInstance, signature: object) -> bool:
        """Return True if that rank can wait: other shards know of it, and none is known to differ."""
        token = _token(signature)
        if call.announced is None or any(other != token for _, other in call.announcements):
            return False
        call.announced[2] = token  # in the announcement that leaves with the end of this window
        return True

    def catch_up(self, call: CollectiveInstance) -> None:
        """Process the earlier announcements of others for a call that has just been opened."""
        for part in self._early.pop(call.where, ()):
            self._take(call, part)

    def all_begun(self, call: CollectiveInstance) -> None:
        """Record that no further rank of this shard will begin this call."""
        self._begun[call.where[0]] = call.where[1]

    def undone(self, call: CollectiveInstance) -> None:
        """Announce that a call is simulated individually, if other shards assume otherwise."""
        if call.announced is not None and call.announced[2] is not None:
            self._tell(call, "meets", [*call.announced[:2], None])

    def entered(self, call: CollectiveInstance) -> None:
        """Send the data of this shard's ranks to the others, when all of them have entered."""
        assert call.members is not None
        here = call.members.here
        columns = [np.array(column, np.int64)[here] for column in (call.clock_ps, call.nic_free_ps, call.keys)]
        contribution = [call.contributions[place] for place in here.tolist()]
        size_bytes = len(contribution[0]) if len({len(data) for data in contribution}) == 1 else -1
        packed = contribution if size_bytes < 0 else b"".join(contribution)
        self._tell(call, "enters", (call.where, self._shard.number, columns, size_bytes, packed))

    def announce_undo_all(self) -> None:
        """Announce to all shards that calls are undone, and that new ones are simulated individually."""
        for number in range(len(self._shard.blocks)):
            if number != self._shard.number:
                self._shard.tell(number, "retires", None)

    def _tell(self, call: CollectiveInstance, what: str, argument: object) -> None:
        assert call.members is not None
        for number in call.members.elsewhere:
            self._shard.tell(number, what, argument)

    # ------------------------------------------------------------------------------------- between two windows

    def _known(
        self, where: tuple[int, int], store: dict[tuple[int, int], list[Any]], fact: object
    ) -> CollectiveInstance | None:
        """Return the call of that number, if it waits to be computed here.

        Otherwise store the fact until it begins.
        """
        instances = self._instances
        call = instances.calls.get(where) or instances.waiting.get(where)
        if call is None and where[1] > self._begun.get(where[0], 0):
            store.setdefault(where, []).append(fact)
        return None if call is None or call.undone or call.pending is None else call

    def _receive_announcement(self, fact: list[Any]) -> None:
        where, note, token = fact
        call = self._known(where, self._announcements, (note, token))
        if call is not None:
            assert call.announced is not None
            if token != call.announced[2] or note != call.note:
                self._instances.undo([call])

    def _enter(self, part: Any) -> None:
        call = self._known(part[0], self._early, part)
        if call is not None:
            self._take(call, part)
            self._instances.compute_if_complete(call)

    def _take(self, call: CollectiveInstance, part: Any) -> None:
        _, number, columns, size_bytes, packed = part
        assert call.members is not None
        places = call.members.elsewhere[number]
        if size_bytes > 0:
            packed = [packed[at : at + size_bytes] for at in range(0, len(packed), size_bytes)]
        call.parts.append((places, columns, packed if size_bytes else None))
        call.absent -= 1

    def _retire(self, _: object) -> None:
        self._instances.retire_between_windows()


@lru_cache(maxsize=256)
def _token(signature: tuple[Any, ...]) -> bytes:
    """Return equal bytes for the same algorithm on the same amounts and kind of data, in all processes."""
    algorithm, key, check = signature
    fold = key[1] if isinstance(key, tuple) and len(key) == 2 and hasattr(key[1], "ufunc") else None
    shape = key if fold is None else (key[0], _operation(fold.ufunc), fold.dtype.descr)
    return blake2b(repr((_names(algorithm), shape, check)).encode(), digest_size=16).digest()


def _names(algorithm: Any) -> object:
    if isinstance(algorithm, partial):
        return _names(algorithm.func), sorted((name, _names(part)) for name, part in algorithm.keywords.items())
    return (algorithm.__module__, algorithm.__qualname__) if callable(algorithm) else repr(algorithm)


def _operation(ufunc: object) -> str:
    return next(name for name, operation in PREDEFINED.items() if ufunc in operation.ufuncs.values())
