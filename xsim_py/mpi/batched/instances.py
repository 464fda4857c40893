"""Collective instances that are computed for all their ranks at once.

A rank that enters records its clock, its NIC's state and its contribution, and waits. The last one to enter computes
values and times of all, and each rank resumes at exactly the event at which the last of its messages would have
arrived: at the same time, with the same key. What happens in between is invisible elsewhere: only members get the
messages, and a rank's NIC serves only its own sends. So this is exact, not an approximation.

It holds as long as nothing else needs a rank that waits here. Otherwise (the end of its program, an abort, a mismatched
call of another rank, a control message) the call is *undone*: the waiting ranks go back to their entry and simulate its
messages individually. That is in the past: the event that caused it is deferred, the window is left (`Kernel.halt`),
and the next windows begin there. Results are not counted until nothing can undo them, so nothing has to be subtracted.

Ranks of several shards take part in the same way, through `elsewhere`. Each shard computes the call for its own ranks.

A call is simulated individually from the start if its times are not a function of the clocks alone: a rank with pending
requests or fibers, several concurrent messages above the eager threshold, shared links, user-defined operations, a
failed member. The same applies if arrays would not pay: on few ranks.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.failures.deaths import Deaths
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber

from .instance import CollectiveInstance
from .undo import Rollback, wake

if TYPE_CHECKING:
    from xsim_py.engine.kernel import Kernel
    from xsim_py.mpi.calls import CollectiveChannel, Note
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.transport.fabric import Fabric

    from .batch import Pending
    from .forms import Form

MESSAGES, ARRAYS, AUTO = "messages", "arrays", "auto"
"""The modes of collectives; `AUTO` uses arrays if they pay."""

# On fewer ranks arrays do not pay: setting them up takes as long as the messages.
_LEAST_RANKS = 24
_LATEST_PS = 1 << 60
_MOST_KEPT = 256
# An Alltoallv whose ranks expect other sizes than they get is undone when all have entered, and so done twice.
_MOST_MISSED = 3


class CollectiveInstances(Rollback):
    """The pending collective instances of the ranks of a fabric.

    The `fabric` transports the messages of undone calls.
    """

    def __init__(self, fabric: Fabric, *, always: bool) -> None:
        super().__init__(fabric)
        self.least_ranks = 2 if always else _LEAST_RANKS  # communicators of fewer ranks are not handled here
        self.always = always  # whether to use arrays even if they do not pay
        self.deaths: dict[int, int] = {}  # the failure times of ranks that are known in all shards, by rank
        self._found: dict[Any, Pending[Any] | None] = {}  # by context and signature
        self._missed: dict[Any, int] = {}
        self._sound: dict[int, int] = {}  # by communicator, the number of failures checked; -1: a member has failed
        shard = fabric.shard
        if not shard.alone:
            from .shards import OtherShards

            self.elsewhere = OtherShards(self, shard)

    def begin(self, comm: Communicator, where: tuple[int, int], note: Note) -> CollectiveInstance | None:
        """Return the instance of a collective that a rank begins.

        Mismatched calls are detected by messages.
        """
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
        # Ranks with equal notes share one object, so this compares addresses.
        if call.note is not note and call.note != note:
            self.fabric.order.record_mismatch((comm.cid, where[1]), call.first, note, comm.box.rank.number)
            self.undo_here(call)
        return call

    def _first(self, comm: Communicator, where: tuple[int, int], note: Note) -> CollectiveInstance:
        """Create the instance of a call that the first rank of this shard begins."""
        elsewhere = self.elsewhere
        members = None if elsewhere is None else elsewhere.members(comm)
        call = self.calls[where] = CollectiveInstance(comm, where, note, members)
        call.first = self.fabric.order.record_first((comm.cid, where[1]), comm, note)
        if elsewhere is not None and members is not None:
            elsewhere.begins(call)
            if not call.undone and not elsewhere.fits(call):
                self.undo_here(call)
        if self.individual_only:
            self.undo_here(call)
        return call

    def perform(self, ch: CollectiveChannel, form: Form, algorithm: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Run a blocking call as ``algorithm(ch, *form.plain(args))`` does, unless it is undone."""
        call: CollectiveInstance = ch.instance
        fiber: Any = current.fiber
        rank = fiber.rank
        key, contribution = form.key_and_contribution(args)
        signature = algorithm, key, ch.check
        me = ch.rank
        if call.pending is None and self._may_wait(ch.comm, fiber):
            self._open(call, ch, form, signature, args, contribution)
        if (
            call.signature != signature
            or not self._may_wait(ch.comm, fiber)
            or (form.varies and not call.pending.fits(contribution, me))  # type: ignore[union-attr]
        ):
            self.undo_here(call)
            return None
        kernel: Kernel = self.fabric.kernel
        call.clock_ps[me] = fiber.clock_ps
        call.nic_free_ps[me] = rank.nic_free_ps
        call.keys[me] = rank.key
        call.entry_ps[me] = kernel.now_ps
        call.entry_key[me] = kernel.key
        call.contributions[me] = contribution
        del kernel, signature, key  # a rank killed while it waits is kept forever, with all references
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
            self._all_exited(call)
        return call.results[me]

    def _open(
        self,
        call: CollectiveInstance,
        ch: CollectiveChannel,
        form: Form,
        signature: tuple[Any, ...],
        args: tuple[Any, ...],
        contribution: bytes,
    ) -> None:
        """Open a call for waiting ranks, as the first rank, if it can be computed on arrays."""
        pending = self._find(call, ch, form, signature, args)
        if pending is None or (form.varies and not pending.fits(contribution, ch.rank)):
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
        """Return True if no request, thread or probe can need the rank or its NIC while it waits."""
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
            and (not self.fabric.failure_seen or self._is_sound(comm))
        )

    def _is_sound(self, comm: Communicator) -> bool:
        """Return True if no member has failed; ranks that know of a revocation do not get here."""
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
        self,
        call: CollectiveInstance,
        ch: CollectiveChannel,
        form: Form,
        signature: tuple[Any, ...],
        args: tuple[Any, ...],
    ) -> Pending[Any] | None:
        """Return how to compute a call on arrays; None if it must be simulated individually."""
        key = ch.cid, signature
        if key not in self._found:
            from .select import bind  # few runs need it, so it is loaded on demand

            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
                self._missed.clear()
            members = call.members
            local = None if members is None else members.local
            self._found[key] = bind(ch, form, signature[0], args, always=self.always, local=local)
        return self._found[key]

    def _complete(self, call: CollectiveInstance, me: int) -> bool:
        """Continue when all ranks of this shard have entered, `me` last.

        Return True if that must wait, too.
        """
        if call.members is not None:
            self.elsewhere.entered(call)  # type: ignore[union-attr]
        if call.absent:
            return True
        kernel = self.fabric.kernel
        if not self._compute(call):
            self.undo([call])
            self.leave_window()
            return True
        # All messages to the last rank have arrived: simulated individually it would leave in this event, so it
        # continues at once.
        if (call.times.last_ps[me], call.times.last_key[me]) <= (kernel.now_ps, kernel.key):
            call.inline = me
        self._post_exits(call)
        return call.inline < 0

    def compute_if_complete(self, call: CollectiveInstance) -> None:
        """Compute a call if the ranks of all shards have entered; called between two windows."""
        if not call.absent and not call.inside:
            if self._compute(call):
                self._post_exits(call)
            else:
                self.undo([call])

    def _compute(self, call: CollectiveInstance) -> bool:
        """Compute values and times.

        Return False if a rank fails before it leaves, or is not sent what it expects.
        """
        assert call.pending is not None
        clock_ps, nic_free_ps, keys, contributions = call.all_ranks()
        bound = call.pending.resolved(contributions, call.fold)
        if bound is None:
            key = call.where[0], call.signature
            self._missed[key] = missed = self._missed.get(key, 0) + 1
            if missed >= _MOST_MISSED:
                self._found[key] = None  # the next ones may be like this, too
            return False
        call.bound = bound
        call.times = times = bound.times(clock_ps, nic_free_ps, keys)
        for number, death_ps in self.deaths.items():
            place = call.comm.context.place(number)
            if place >= 0 and times.clock_ps[place] >= death_ps:
                return False
        call.memory, call.results = bound.values(contributions, call.fold)
        # Otherwise the contributions of all ranks would stay until the last of them has left.
        call.contributions.clear()
        takes = times.clock_ps, times.nic_free_ps, times.keys, times.waited_ps
        call.events = bound.events(times.keys - keys)
        call.exits = [array("q", column.tobytes()) for column in takes]
        call.latest_ps = int(times.last_ps.max())
        call.inside = call.local_count()
        call.computed = True
        del self.waiting[call.where]
        self.exiting[call] = None
        return True

    def _post_exits(self, call: CollectiveInstance) -> None:
        """Resume each rank when the last of its messages arrives."""
        times, kernel = call.times, self.fabric.kernel
        fibers: list[Fiber | None] = call.fibers
        if call.inline >= 0:
            fibers = [*fibers[: call.inline], None, *fibers[call.inline + 1 :]]
        due, post = kernel.due, kernel.post
        last_ps, last_key = times.last_ps, times.last_key.tolist()
        first_ps = int(last_ps[0])
        all_ranks = call.inline < 0 and call.members is None
        if all_ranks and first_ps > kernel.now_ps and (last_ps == first_ps).all():  # hot path: the usual case
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

    def _all_exited(self, call: CollectiveInstance) -> None:
        """Record that all ranks of this shard have left.

        The call is final when those of others have, too.
        """
        del self.exiting[call]
        if call.members is None:
            self.finish(call)
            return
        self.exited[call] = None
        self.finish_left()

    def finish(self, call: CollectiveInstance) -> None:
        """Count a call that nothing can undo: digest, tally, events and trace."""
        bound, fabric = call.bound, self.fabric
        fabric.digest += bound.hashes(call.times, call.where[1], call.memory)
        (fabric.tally.add_once if bound.once else fabric.tally.add)(bound.sends)
        if fabric.trace is not None:
            from .tracing import record_messages

            record_messages(fabric, call)
        self.fabric.kernel.events += call.events - call.local_count() + (call.inline >= 0)
