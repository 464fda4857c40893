"""The meetings of ranks in collectives, which are computed for all of them at once.

A rank that enters leaves its clock, its interface's state and its contribution, and waits. The last one to come
computes values and times of all, and each rank goes on at the very event at which the last of its messages would have
reached it: at the same time, with the same key. What is in between leaves no trace elsewhere: nobody but the members
gets the messages, and a rank's interface has nothing to do but its own sends. So this is exact, not an approximation.

It holds as long as nothing else needs a rank that waits here. Where something does (its program's end, an abort, a call
that does not fit the others', a control message), the call is *undone*: the waiting ranks go back to where they
entered and do it message by message. That is in the past: what has found it out is put off, the window is left
(`Kernel.halt`), and the next windows begin there. What was computed is not counted before nothing can undo it, so
nothing has to be taken back.

Ranks of several shards meet in the same way; `elsewhere` is how. Each shard computes the call, for its own ranks.

A call goes message by message from the start where its times are not a function of the clocks alone: a rank with
requests or fibers under way, several messages at a time above the eager threshold, shared links, user-defined
operations, a dead member. And where arrays would not pay: on few ranks.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.failures.deaths import Deaths
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber

from .meeting import Meeting
from .undo import WayBack, wake

if TYPE_CHECKING:
    from xsim_py.mpi.calls import CollectiveChannel, Note
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.transport.fabric import Fabric

    from .batch import Pending
    from .forms import Form

MESSAGES, ARRAYS, AUTO = "messages", "arrays", "auto"
"""The ways to do collectives; `AUTO` takes arrays where they pay."""

# On fewer ranks arrays do not pay: to set them up takes as long as the messages.
_LEAST_RANKS = 24
_LATEST_PS = 1 << 60
_MOST_KEPT = 256
# An Alltoallv whose ranks expect other than they get is undone when all have come, and so done twice.
_MOST_MISSED = 3


class Meetings(WayBack):
    """The collectives that are under way among the ranks of a fabric.

    Parameters
    ----------
    fabric : Fabric
        Carries the messages of those that are undone.
    always : bool
        Whether to use arrays also where they do not pay.

    Attributes
    ----------
    least_ranks : int
        Communicators of fewer ranks have nothing to do with this.
    calls, waiting : dict
        By their context and number, those that not all ranks of this shard have begun, and those that are not computed.
    leaving, left : dict
        Those that are; ranks of this shard are still in them, or maybe ranks of others.
    resting : bool
        Whether all calls that come go message by message: something has been put off, and is to find nobody waiting.
    deaths : dict
        When ranks are to die, by their numbers: those that are known in all shards.
    """

    def __init__(self, fabric: Fabric, *, always: bool) -> None:
        super().__init__(fabric)
        self.least_ranks = 2 if always else _LEAST_RANKS
        self.always = always
        self.deaths: dict[int, int] = {}
        self._found: dict[Any, Pending | None] = {}  # by context and signature
        self._missed: dict[Any, int] = {}
        self._sound: dict[int, int] = {}  # of a communicator, how many were dead when no member was; -1: one is
        shard = fabric.shard
        if not shard.alone:
            from .shards import OtherShards

            self.elsewhere = OtherShards(self, shard)

    def begin(self, comm: Communicator, where: tuple[int, int], note: Note) -> Meeting | None:
        """Return the meeting of a collective that a rank begins; ranks in different ones find out by messages."""
        if comm in self.fabric.order.counted:
            return None
        call = self.calls.get(where)
        if call is None:
            call = self._first(comm, where, note)
        call.missing -= 1
        if not call.missing:
            del self.calls[where]
            self.fabric.order.all_begun((comm.cid, where[1]), comm)
            if call.members is not None:
                self.elsewhere.all_begun(call)  # type: ignore[union-attr]
        # Notes are shared between ranks that say the same, so this is one comparison of addresses.
        if call.note is not note and call.note != note:
            self.fabric.order.differs((comm.cid, where[1]), call.first, note, comm.box.rank.number)
            self.undo_here(call)
        return call

    def _first(self, comm: Communicator, where: tuple[int, int], note: Note) -> Meeting:
        """Make the meeting of a call that the first rank of this shard begins."""
        elsewhere = self.elsewhere
        members = None if elsewhere is None else elsewhere.members(comm)
        call = self.calls[where] = Meeting(comm, where, note, members)
        call.first = self.fabric.order.opened((comm.cid, where[1]), comm, note)
        if elsewhere is not None and members is not None:
            elsewhere.begins(call)
            if not call.undone and not elsewhere.fits(call):
                self.undo_here(call)
        if self.resting:
            self.undo_here(call)
        return call

    def perform(self, ch: CollectiveChannel, form: Form, algorithm: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Do a blocking call that is not undone, as ``algorithm(ch, *form.plain(args))`` does, or find it undone."""
        call: Meeting = ch.meeting
        fiber: Any = current.fiber
        rank = fiber.rank
        key, given = form.given(args)
        signature = algorithm, key, ch.check
        me = ch.rank
        if call.pending is None and self._may_wait(ch.comm, fiber):
            self._open(call, ch, form, signature, args, given)
        if (
            call.signature != signature
            or not self._may_wait(ch.comm, fiber)
            or (form.varies and not call.pending.fits(given, me))  # type: ignore[union-attr]
        ):
            self.undo_here(call)
            return None
        kernel: Any = self.fabric.kernel
        call.clock_ps[me] = fiber.clock_ps
        call.nic_free_ps[me] = rank.nic_free_ps
        call.keys[me] = rank.key
        call.came_ps[me] = kernel._now
        call.came_key[me] = kernel.key
        call.given[me] = given
        del kernel, signature, key  # a rank that dies while it waits is kept for ever, with all that it refers to
        call.fibers[me] = fiber
        call.inside -= 1
        if call.inside or self._complete(call, me):
            fiber.park(call)
            if call.undone:
                return None
        call.fibers[me] = None
        clock_ps, nic_free_ps, keys, waited_ps = call.exits
        fiber.clock_ps = clock_ps[me]
        rank.nic_free_ps = nic_free_ps[me]
        rank.key = keys[me]
        self.fabric.tally.waited_ps[ch.comm.box.place] += waited_ps[me]
        if self.fabric.trace is not None:
            self.fabric.waited(None, clock_ps[me] - waited_ps[me], clock_ps[me])
        call.inside -= 1
        if not call.inside:
            self._all_left(call)
        return call.results[me]

    def _open(
        self, call: Meeting, ch: CollectiveChannel, form: Form, signature: Any, args: tuple[Any, ...], given: bytes
    ) -> None:
        """Open a call for those who wait, as the first rank does, if it can be computed on arrays."""
        pending = self._find(call, ch, form, signature, args)
        if pending is None or (form.varies and not pending.fits(given, ch.rank)):
            return
        elsewhere = self.elsewhere
        if elsewhere is None or call.members is None:
            call.open(signature, pending, form.fold(args))
        elif call.missing == len(call.members.here) - 1 and elsewhere.opens(call, signature):
            call.open(signature, pending, form.fold(args))
            elsewhere.catch_up(call)
        else:
            return
        self.waiting[call.where] = call

    def _may_wait(self, comm: Communicator, fiber: Fiber) -> bool:
        """Return whether nothing needs this rank, and nothing uses its interface, while it waits in a collective."""
        box = comm.box
        return (
            not box.sends
            and not box.background
            and box.lone is None
            and not box.posted
            and box.posted_any is None
            and not box.tickets
            and fiber is fiber.rank.fiber
            and (type(fiber) is Fiber or fiber.rank.number in self.deaths)
            and fiber.clock_ps < _LATEST_PS
            and (not self.fabric.troubled or self._is_sound(comm))
        )

    def _is_sound(self, comm: Communicator) -> bool:
        """Return whether no member is dead; whoever knows that it is revoked does not come here."""
        dead = self.fabric.part(Deaths).dead
        seen = self._sound.get(comm.cid, 0)
        if seen < len(dead):
            if len(self._sound) >= _MOST_KEPT:
                self._sound.clear()
                seen = 0
            if seen < 0 or any(comm.holds(number) for number in islice(dead, seen, None)):
                self._sound[comm.cid] = -1
                return False
            self._sound[comm.cid] = len(dead)
        return seen >= 0

    def _find(
        self, call: Meeting, ch: CollectiveChannel, form: Form, signature: Any, args: tuple[Any, ...]
    ) -> Pending | None:
        """Return how to compute a call on arrays; None where it is to go message by message."""
        key = ch.cid, signature
        if key not in self._found:
            from .select import bind  # what few runs need is loaded when it is needed

            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
                self._missed.clear()
            members = call.members
            local = None if members is None else members.local
            self._found[key] = bind(ch, form, signature[0], args, always=self.always, local=local)
        return self._found[key]

    def _complete(self, call: Meeting, me: int) -> bool:
        """Go on as all ranks of this shard have come, `me` as the last one; return whether that has to wait, too."""
        if call.members is not None:
            self.elsewhere.entered(call)  # type: ignore[union-attr]
        if call.absent:
            return True
        kernel = self.fabric.kernel
        if not self._compute(call):
            self.undo([call])
            self.leave_window()
            return True
        # All that the last rank gets has come to it already: it would leave in this event message by message, so it
        # goes on at once.
        if (call.times.last_ps[me], call.times.last_key[me]) <= (kernel._now, kernel.key):
            call.inline = me
        self._post_exits(call)
        return call.inline < 0

    def compute_if_all_are_there(self, call: Meeting) -> None:
        """Compute a call if the ranks of all shards have come; called between two windows."""
        if not call.absent and not call.inside:
            if self._compute(call):
                self._post_exits(call)
            else:
                self.undo([call])

    def _compute(self, call: Meeting) -> bool:
        """Compute values and times; return False where a rank dies before it leaves, or is not sent what it expects."""
        assert call.pending is not None
        clock_ps, nic_free_ps, keys, contributions = call.everyone()
        bound = call.pending.resolved(contributions, call.fold)
        if bound is None:
            key = call.where[0], call.signature
            self._missed[key] = missed = self._missed.get(key, 0) + 1
            if missed >= _MOST_MISSED:
                self._found[key] = None  # nor may the next ones be like this
            return False
        call.bound = bound
        call.times = times = bound.times(clock_ps, nic_free_ps, keys)
        for number, death_ps in self.deaths.items():
            place = call.comm.context.place(number)
            if place >= 0 and times.clock_ps[place] >= death_ps:
                return False
        call.memory, call.results = bound.values(contributions, call.fold)
        # The contributions of all ranks would else stay until the last of them has left.
        call.given.clear()
        takes = times.clock_ps, times.nic_free_ps, times.keys, times.waited_ps
        call.events = bound.events(times.keys - keys)
        call.exits = [array("q", column.tobytes()) for column in takes]
        call.latest_ps = int(times.last_ps.max())
        call.inside = call.living()
        call.computed = True
        del self.waiting[call.where]
        self.leaving[call] = None
        return True

    def _post_exits(self, call: Meeting) -> None:
        """Let each rank go on when the last of its messages comes."""
        times, kernel = call.times, self.fabric.kernel
        fibers: list[Fiber | None] = call.fibers
        if call.inline >= 0:
            fibers = [*fibers[: call.inline], None, *fibers[call.inline + 1 :]]
        due, post = kernel.due, kernel.post
        last_ps, last_key = times.last_ps, times.last_key.tolist()
        first_ps = int(last_ps[0])
        everyone = call.inline < 0 and call.members is None
        if everyone and first_ps > kernel._now and (last_ps == first_ps).all():  # hot path: so it is most often
            entries = zip(last_key, repeat(wake), fibers)
            post(first_ps, *next(entries))
            due[first_ps] += entries
            return
        for time_ps, key, fiber in zip(last_ps.tolist(), last_key, fibers, strict=True):
            there = due.get(time_ps)
            if fiber is None:
                continue
            if there is None:
                post(time_ps, key, wake, fiber)
            else:
                there.append((key, wake, fiber))

    def _all_left(self, call: Meeting) -> None:
        """Note that all ranks of this shard have left; the call has happened when those of others have, too."""
        del self.leaving[call]
        if call.members is None:
            self.finish(call)
            return
        self.left[call] = None
        self.let_go()

    def finish(self, call: Meeting) -> None:
        """Count a call that nothing can undo any more: digest, tally, events and trace."""
        bound, fabric = call.bound, self.fabric
        fabric.digest += bound.hashes(call.times, call.where[1], call.memory)
        (fabric.tally.add_once if bound.once else fabric.tally.add)(bound.sends)
        if fabric.trace is not None:
            from .tracing import carried

            carried(fabric, call)
        self.fabric.kernel.events += call.events - call.living() + (call.inline >= 0)
