"""Where the ranks of a collective meet, so that it can be computed for all of them at once.

A rank that enters leaves its clock, its interface's state and its contribution, and waits. The last one to come
computes values and times of all, and each rank goes on at the very event at which the last of its messages would have
reached it: at the same time, with the same key. What is in between leaves no trace elsewhere: nobody but the members
gets the messages, and a rank's interface has nothing to do but its own sends. So this is exact, not an approximation.

It holds as long as nothing else needs a rank that waits here. Where something does (its program's end, an abort, a call
that does not fit the others', a notice of the library), the call is *undone*: the waiting ranks go back to where they
entered and do it message by message, in the past, up to the event that is being run (`Kernel.relive`). What was
computed is not counted before the last rank has left, so nothing has to be taken back.

A call goes message by message from the start where its times are not a function of the clocks alone: a rank with
requests or fibers under way, messages above the eager threshold, shared links, several shards, failures, user-defined
operations. And where arrays would not pay: on few ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xsim_py.process import current
from xsim_py.process.fiber import Fiber

if TYPE_CHECKING:
    from xsim_py.mpi.calls import CollectiveChannel, Note
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.p2p import Fabric

    from .binding import Bound
    from .forms import Form
    from .timetable import Times

__all__ = ["ARRAYS", "AUTO", "MESSAGES", "Meetings"]

MESSAGES, ARRAYS, AUTO = "messages", "arrays", "auto"
"""How collectives are computed; `AUTO` takes arrays where they pay."""

_LEAST_RANKS = 24
_LATEST_PS = 1 << 60
_MOST_BOUND = 256
_OFTEN = 2  # to find out what an algorithm does costs as much as doing it a few times
_wake = Fiber.resume  # hot path: a function of our own around it would be one more call a rank


class Call:
    """A collective that some of its ranks have begun.

    Attributes
    ----------
    comm, note : Communicator, Note
        Of the first to begin.
    where : (int, int)
        Its context and its number there.
    missing, inside : int
        How many have not begun yet, and how many have not left.
    undone, computed : bool
        Whether it goes message by message; whether the last rank has come.
    signature, bound : tuple, Bound or None
        What the first to wait here does, and how it is computed.
    clock_ps, nic_free_ps, keys, contributions, fibers, entered : list
        What each rank has left here; `entered` is the time and key of the event at which it came. The fiber is None of
        a rank that has not come or has left. Once all have come, the first three are what each rank takes with it.
    before : tuple
        What the first three were.
    times, memory, results, waited_ps
        What was computed.
    inline : int
        The rank that went on at once, as all that it gets had come; -1: none.
    """

    __slots__ = (
        "before",
        "bound",
        "clock_ps",
        "comm",
        "computed",
        "contributions",
        "entered",
        "fibers",
        "inline",
        "inside",
        "keys",
        "memory",
        "missing",
        "nic_free_ps",
        "note",
        "results",
        "signature",
        "times",
        "undone",
        "waited_ps",
        "where",
    )

    before: tuple[list[int], list[int], list[int]]
    waited_ps: list[int]
    times: Times
    memory: Any
    results: list[Any]

    def __init__(self, comm: Communicator, where: tuple[int, int], note: Note) -> None:
        self.comm = comm
        self.where = where
        self.note = note
        self.missing = self.inside = comm.context.size
        self.undone = False
        self.signature: Any = None
        self.bound: Bound | None = None
        self.computed = False
        self.inline = -1

    def open(self, signature: Any, bound: Bound) -> None:
        """The first rank comes to wait."""
        size = self.comm.context.size
        self.signature = signature
        self.bound = bound
        self.clock_ps = [0] * size
        self.nic_free_ps = [0] * size
        self.keys = [0] * size
        self.contributions = [b""] * size
        self.fibers: list[Fiber | None] = [None] * size
        self.entered: list[tuple[int, int]] = [(0, 0)] * size

    def describe(self) -> str:
        """One line for the roll-call."""
        return f"{self.note} on {self.comm.label()}"


class Meetings:
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
    calls, leaving : dict
        Those that not all have begun, and those that not all have left.
    """

    def __init__(self, fabric: Fabric, *, always: bool) -> None:
        self.fabric = fabric
        self.kernel = fabric.kernel
        self.least_ranks = 2 if always else _LEAST_RANKS
        self.always = always
        self.calls: dict[tuple[int, int], Call] = {}
        self.waiting: dict[Call, None] = {}
        self.leaving: dict[Call, None] = {}
        self._bound: dict[Any, Bound | int | None] = {}
        fabric.shard.before_end = self.settle

    def begin(self, comm: Communicator, where: tuple[int, int], note: Note) -> Call:
        """A rank begins a collective of any kind; ranks that do not fit the first one find that out by messages."""
        call = self.calls.get(where)
        if call is None:
            call = self.calls[where] = Call(comm, where, note)
        call.missing -= 1
        if not call.missing:
            del self.calls[where]
        if call.note is not note and call.note != note:
            self._undo_here(call)
        return call

    def perform(self, ch: CollectiveChannel, form: Form, algorithm: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Do a blocking call, as ``algorithm(ch, *form.plain(args))`` does."""
        call: Call = ch.meeting  # type: ignore[assignment]
        if call.undone:
            return algorithm(ch, *form.plain(args))
        fiber: Any = current.fiber
        rank = fiber.rank
        signature = algorithm, form.key(args), ch.check
        if call.bound is None and self._may_wait(ch.comm, fiber):
            self._open(call, ch, form, signature, args)
        if call.signature != signature or not self._may_wait(ch.comm, fiber):
            self._undo_here(call)
            return algorithm(ch, *form.plain(args))
        me = ch.rank
        kernel: Any = self.kernel
        call.clock_ps[me] = fiber.clock_ps
        call.nic_free_ps[me] = rank.nic_free_ps
        call.keys[me] = rank.key
        call.contributions[me] = form.contribution(args)
        call.fibers[me] = fiber
        call.entered[me] = kernel._now, kernel.key
        call.inside -= 1
        if call.inside or self._compute(call, me, form.fold(args)):
            fiber.park(call)
            if call.undone:
                return algorithm(ch, *form.plain(args))
        call.fibers[me] = None
        fiber.clock_ps = call.clock_ps[me]
        rank.nic_free_ps = call.nic_free_ps[me]
        rank.key = call.keys[me]
        self.fabric.tally.waited_ps[ch.comm.box.place] += call.waited_ps[me]
        call.inside -= 1
        if not call.inside:
            self._finish(call)
        return call.results[me]

    def _open(self, call: Call, ch: CollectiveChannel, form: Form, signature: Any, args: tuple[Any, ...]) -> None:
        """The first rank comes to wait, if the call can be computed on arrays."""
        bound = self._find(ch, form, signature, args)
        if bound is not None:
            call.open(signature, bound)
            self.waiting[call] = None

    def _may_wait(self, comm: Communicator, fiber: Fiber) -> bool:
        """Whether nothing needs this rank, and nothing uses its interface, while it waits in a collective."""
        box = comm.box
        return (
            not box.sends
            and not box.background
            and box.lone is None
            and not box.posted
            and box.posted_any is None
            and not box.tickets
            and fiber is fiber.rank.fiber
            and fiber.clock_ps < _LATEST_PS
            and not self.fabric.troubled
        )

    def _find(self, ch: CollectiveChannel, form: Form, signature: Any, args: tuple[Any, ...]) -> Bound | None:
        """How to compute a call on arrays; None where it is to go message by message."""
        key = ch.cid, signature
        found = self._bound.get(key, 0)
        if isinstance(found, int):  # how often it has been done message by message
            from .binding import bind  # what few runs need is loaded when it is needed

            if len(self._bound) >= _MOST_BOUND:
                self._bound.clear()
            often = self.always or found >= _OFTEN
            bound = bind(ch, form, signature[0], args, often=often, always=self.always)
            found = self._bound[key] = found + 1 if bound is None and not often else bound
        return None if isinstance(found, int) else found

    def _compute(self, call: Call, me: int, fold: Any) -> bool:
        """Values and times for all, as the last one, `me`, has come; True where it has to wait, too."""
        bound, kernel = call.bound, self.kernel
        assert bound is not None
        call.before = call.clock_ps, call.nic_free_ps, call.keys
        call.times = times = bound.times(*call.before)
        call.memory, call.results = bound.values(call.contributions, fold)
        call.clock_ps, call.nic_free_ps = times.clock_ps.tolist(), times.nic_free_ps.tolist()
        call.keys = (bound.sent + call.keys).tolist()
        call.waited_ps = times.waited_ps.tolist()
        call.inside = len(call.fibers)
        call.computed = True
        del self.waiting[call]
        self.leaving[call] = None
        fibers: list[Fiber | None] = call.fibers
        if (times.last_ps[me], times.last_key[me]) <= (kernel._now, kernel.key):
            call.inline = me
            fibers = [*fibers[:me], None, *fibers[me + 1 :]]
        due, post = kernel.due, kernel.post
        for last_ps, last_key, fiber in zip(times.last_ps.tolist(), times.last_key.tolist(), fibers, strict=True):
            there = due.get(last_ps)
            if fiber is None:
                continue
            if there is None:
                post(last_ps, last_key, _wake, fiber)
            else:
                there.append((last_key, _wake, fiber))
        return call.inline < 0

    def _finish(self, call: Call) -> None:
        """All have left: now it has happened."""
        del self.leaving[call]
        bound, fabric = call.bound, self.fabric
        assert bound is not None
        fabric.digest += bound.hashes(call.times, call.where[1], call.memory)
        fabric.tally.add(bound)
        if fabric.trace is not None:
            from .tracing import carried

            carried(fabric, call)
        self.kernel.events += len(bound) - len(call.fibers) + (call.inline >= 0)

    # ------------------------------------------------------------------------------------------ the way back

    def settle(self) -> None:
        """Undo all calls that ranks wait in; an event handler, or when nothing is left to happen."""
        calls = [*self.waiting, *self.leaving]
        if calls and not self.kernel.stopped:
            self._undo(calls, self.kernel.key)

    def retire(self) -> None:
        """The same, and let all that come go message by message; an event handler."""
        self.fabric.meetings = None
        self.settle()

    def _undo_here(self, call: Call) -> None:
        """Undo a call that nobody has left, in the running fiber, which can not go on before that is done."""
        call.undone = True
        if call.bound is None:
            return
        fiber, kernel = current.fiber, self.kernel
        assert fiber is not None
        kernel.post(kernel.now_ps, 0, self._undo_for, (fiber, call, kernel.key))
        fiber.park(call)

    def _undo_for(self, entry: tuple[Fiber, Call, int]) -> None:
        fiber, call, key = entry
        self.kernel.events -= 1
        self._undo([call], key)
        fiber.resume()

    def _undo(self, calls: list[Call], key: int) -> None:
        """Let the ranks that wait in these calls do them message by message, from where they entered."""
        past: list[Any] = []
        for call in calls:
            call.undone = True
            self.waiting.pop(call, None)
            if call in self.leaving:
                from .undoing import messages_of_those_who_left

                del self.leaving[call]
                past += messages_of_those_who_left(self.fabric, call)
                self.kernel.withdraw(_wake, {fiber for fiber in call.fibers if fiber is not None})
            for fiber, (time_ps, entry_key) in zip(call.fibers, call.entered, strict=True):
                if fiber is not None:
                    past.append((time_ps, (entry_key, self._again, fiber)))
        self.kernel.relive(past, key)
        for call in calls:
            if call.computed:
                from .undoing import forget_what_they_had

                forget_what_they_had(self.fabric, call)

    def _again(self, fiber: Fiber) -> None:
        """A rank is back where it entered; an event handler, which is no event of the run."""
        self.kernel.events -= 1
        fiber.resume()
