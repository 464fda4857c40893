"""Which calls can be computed on arrays, and what they cost on this network between these ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.collectives import allreduce
from xsim_py.mpi.collectives.choose import REGISTRY
from xsim_py.mpi.op import foldable
from xsim_py.mpi.transport.tally import summed
from xsim_py.network import Cost

from .asking import AskingTimes
from .compiling import compiled
from .forms import BLOCKS, OBJECTS, OBJECTS_TO_SCAN, PACKED, PACKED_PARTS
from .formulas import Rounds, RoundTimes, in_rounds
from .gathers import UnequalGather, unequal_gather
from .hashing import hash_sum
from .pending import Distances, Undetermined, undetermined
from .recording import Fold, record
from .timing import Asking, Costs, Times
from .trees import Plan, built

if TYPE_CHECKING:
    from xsim_py.mpi.calls import CollectiveChannel
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.mpi.transport.tally import Sends

    from .forms import Form

__all__ = ["Bound", "Pending", "answers", "bind", "table"]

Numbers = NDArray[np.int64]
_MOST_BYTES = 1 << 28
_WORD = (1 << 64) - 1
_LONGEST_PS = 1 << 62  # calls that begin before `meeting._LATEST_PS` end before 2**63
_MOST_LISTS = 256  # ranks that each have as many results
_MOST_COSTS = 1 << 23  # messages whose costs are looked up one by one
_RINGS = (allreduce.ring, allreduce.segmented_ring)
_ONE_AT_A_TIME = (allreduce.recursive_doubling,)  # of those that are listed in advance
_KNOWN = frozenset(algorithm for algorithms in REGISTRY.values() for algorithm in algorithms.values())


class Pending(Protocol):
    """A call before all of its ranks have come, and what is known of it by then."""

    def fits(self, given: bytes, me: int) -> bool:
        """Whether what this rank puts in can be computed; asked where the form of the call varies."""

    def settled(self, contributions: Sequence[bytes], fold: Any) -> Bound | None:
        """The call, by what all ranks have given; None where it has to go message by message."""


class Bound:
    """A call on the ranks of one communicator: one whose messages are listed.

    Attributes
    ----------
    sent : array
        How many messages each rank sends.
    origin, dest : array
        Of each message, as ranks of the whole run.
    source, target, size_bytes : array
        Of each message: the sender's and the receiver's numbers in the communicator, and the size.
    local : array of bool or None
        Which of its ranks live in this shard; None: all.
    events : int
        How many events of messages happen at those.
    keys_used : array
        How many events each rank posts.
    once : bool
        Whether there is only one such call.
    """

    once = False

    def __init__(self, plan: Plan, costs: Costs, ranks: Any, check: bool, local: Any = None) -> None:
        self._timetable, self._recipe, self._payloads = plan
        self._numbers = numbers = np.array(ranks, np.int64)
        self.source = self._timetable.source
        self.target = self._timetable.dest
        self.origin = numbers[self.source]
        self.dest = numbers[self.target]
        self.size_bytes = self._timetable.size_bytes
        self._count(costs, check, local, self._timetable.sent, self._timetable.received)

    def _count(self, costs: Costs, check: bool, local: Any, sent: Numbers, received: Numbers) -> None:
        """Find out how many events there are, of how many messages each rank sends and gets."""
        self.costs = costs
        self.check = check
        self.local = local
        self.sent = sent
        further = np.zeros_like(sent)  # events of messages that ask: the answer is one of who gets it
        if costs.asking is not None:
            for source, target, asks in self._parts(costs.asking):
                further += 2 * np.bincount(source[asks], minlength=len(sent))
                further += np.bincount(target[asks], minlength=len(sent))
        self.keys_used = sent + further
        events = received + further  # there are as many of the further ones as these ranks post
        self.events = int((events if local is None else events[local]).sum())

    def _parts(self, asking: Asking) -> Iterable[tuple[Numbers, Numbers, Any]]:
        """Who sends the messages to whom, and which of them ask; some at a time."""
        return [(self.source, self.target, np.broadcast_to(asking.asks, len(self)))]

    def __len__(self) -> int:
        return len(self.source)

    @property
    def sends(self) -> Sends:
        """The messages that its ranks in this shard send."""
        return self if self.local is None else Local(self)

    def fits(self, given: bytes, me: int) -> bool:
        """See `Pending`: all is known of such a call in advance."""
        return True

    def settled(self, contributions: Sequence[bytes], fold: Any) -> Bound | None:
        """See `Pending`."""
        return self

    def sums(self) -> tuple[Numbers, Numbers, Numbers]:
        """See `tally.Sends`."""
        return self._numbers, self.sent, summed(self.source, self.size_bytes, len(self.sent))

    def times(self, clock_ps: Sequence[int], nic_free_ps: Sequence[int], keys: Sequence[int]) -> Times:
        """See `Timetable.run`."""
        if self.costs.asking is not None:
            exchanges = self._timetable.exchanges
            assert exchanges is not None
            return exchanges.run(self._timetable, self.costs, clock_ps, nic_free_ps, keys)
        return self._timetable.run(self.costs, clock_ps, nic_free_ps, keys)

    def values(self, contributions: Sequence[bytes], fold: Any) -> tuple[Any, Sequence[Any]]:
        """All bytes of the call, for the other methods, and what each rank gets."""
        memory = self._recipe.make(contributions, fold)
        return memory, self._recipe.taken(memory)

    def hashes(self, times: Times, tag: int, memory: Any) -> int:
        """What the arrival of all messages adds to the digest; see `Fabric._deliver`."""
        checks: Any = self._recipe.checks(memory)[self._payloads] if self.check else 0
        asked = times.asked
        first, asks = (times.arrival_ps, None) if asked is None else (asked.request_ps, asked.asks)
        columns = [first, self.dest, self.source, tag, self.size_bytes, checks]
        return self._hash_sum(columns, self.target, asks, times.arrival_ps) & _WORD

    def _hash_sum(self, columns: list[Any], target: Numbers, asks: Any, data_ps: Any) -> int:
        """That of some messages: of these columns, and once more of the data of those that ask first; None: none."""
        which = None if self.local is None else self.local[target]
        total = hash_sum(_those(columns, which), len(target) if which is None else int(which.sum()))
        if asks is not None:
            which = asks if which is None else which & asks
            columns = [data_ps, columns[1], 0, 0, columns[4], 0]
            total += hash_sum(_those(columns, which), int(which.sum()))
        return total

    def payload(self, memory: Any, number: int) -> bytes:
        """What one message contains."""
        return self._recipe.payload(memory, int(self._payloads[number]))


class BoundRounds(Bound):
    """One that is an exchange in rounds: its messages are listed when somebody wants to see them."""

    def __init__(self, rounds: Rounds, costs: Costs, ranks: Any, check: bool, local: Any = None) -> None:
        self._rounds = rounds
        self._numbers = np.array(ranks, np.int64)
        each = np.full(rounds.size, rounds.rounds, np.int64)
        self._count(costs, check, local, each, each)

    def _parts(self, asking: Asking) -> Iterable[tuple[Numbers, Numbers, Any]]:
        rounds = self._rounds
        for turn in range(rounds.rounds):
            asks = asking.of_rounds(range(turn, turn + 1), rounds.size)[0]
            yield rounds.ranks, rounds.dest(turn), np.broadcast_to(asks, rounds.size)

    def __len__(self) -> int:
        return self._rounds.rounds * self._rounds.size

    @property
    def source(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.tile(self._rounds.ranks, self._rounds.rounds)

    @property
    def origin(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.tile(self._numbers, self._rounds.rounds)

    @property
    def target(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.concatenate([self._rounds.dest(turn) for turn in range(self._rounds.rounds)])

    @property
    def dest(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        found: Numbers = self._numbers[self.target]
        return found

    @property
    def size_bytes(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        rounds = self._rounds
        return rounds.sizes(range(rounds.rounds))

    def sums(self) -> tuple[Numbers, Numbers, Numbers]:
        """See `tally.Sends`."""
        rounds = self._rounds
        sent_bytes = sum(rounds.size_bytes(turn) for turn in range(rounds.rounds))
        return self._numbers, self.sent, np.broadcast_to(sent_bytes, rounds.size)

    def times(self, clock_ps: Sequence[int], nic_free_ps: Sequence[int], keys: Sequence[int]) -> RoundTimes:
        """See `Bound.times`."""
        kind = RoundTimes if self.costs.asking is None else AskingTimes
        return kind(self._rounds, self.costs, clock_ps, nic_free_ps, keys)

    def values(self, contributions: Sequence[bytes], fold: Any) -> tuple[Any, Sequence[Any]]:
        """See `Bound.values`."""
        memory = self._rounds.memory(contributions, fold)
        return memory, self._rounds.results(memory)

    def hashes(self, times: RoundTimes, tag: int, memory: Any) -> int:  # type: ignore[override]
        """See `Bound.hashes`; some rounds at a time."""
        rounds, asking, total = self._rounds, self.costs.asking, 0

        def add(turns: range, first: Numbers, data_ps: Numbers | None = None) -> None:
            nonlocal total
            if len(turns) == 1:  # of a million ranks, say: nothing is copied
                target, source, sizes = rounds.dest(turns[0]), rounds.ranks, rounds.size_bytes(turns[0])
            else:
                target = np.concatenate([rounds.dest(turn) for turn in turns])
                source, sizes = np.tile(rounds.ranks, len(turns)), rounds.sizes(turns)
            checks: Any = 0
            if self.check and np.any(sizes):
                checks = np.concatenate([rounds.checks(memory, turn) for turn in turns])
            asks = None
            if asking is not None:
                asks = np.broadcast_to(asking.of_rounds(turns, rounds.size)[0], target.shape)
            columns = [first, self._numbers[target], source, tag, sizes, checks]
            total += self._hash_sum(columns, target, asks, data_ps)

        times.arrivals(add)
        return total & _WORD

    def payload(self, memory: Any, number: int) -> bytes:
        """See `Bound.payload`."""
        turn, rank = divmod(number, self._rounds.size)
        return self._rounds.payload(memory, turn, rank)


class BoundOnce(BoundRounds):
    """One whose messages no other call has."""

    once = True


class Local:
    """Those messages of a call that ranks of this shard send; two of one call are the same."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Local) and other._bound is self._bound

    def __hash__(self) -> int:
        return hash(self._bound)

    @property
    def origin(self) -> Numbers:
        """See `Bound`."""
        return self._mine(self._bound.origin)

    @property
    def dest(self) -> Numbers:
        """See `Bound`."""
        return self._mine(self._bound.dest)

    @property
    def size_bytes(self) -> Numbers:
        """See `Bound`."""
        return self._mine(self._bound.size_bytes)

    def sums(self) -> tuple[Numbers, Numbers, Numbers]:
        """See `tally.Sends`."""
        senders, messages, sent_bytes = (column[self._bound.local] for column in self._bound.sums())
        return senders, messages, sent_bytes

    def _mine(self, column: Numbers) -> Numbers:
        found: Numbers = column[self._bound.local[self._bound.source]]
        return found


def _those(columns: list[Any], which: Any) -> list[Any]:
    """The rows for which `which` is true; None: all."""
    if which is None:
        return columns
    return [column[which] if isinstance(column, np.ndarray) else column for column in columns]


def bind(
    ch: CollectiveChannel,
    form: Form,
    algorithm: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    often: bool,
    always: bool,
    local: Any,
) -> Pending | None:
    """How to compute a call on arrays; None where it has to go message by message, or where that is as fast.

    Parameters
    ----------
    often : bool
        Whether the call is made so often that it pays to find out what its algorithm does; else only the algorithms
        are taken of which that is known (`building`, `rounds`).
    always : bool
        Whether to take arrays also where that is slower.
    local : array of bool or None
        Which of the ranks live in this shard; None: all.
    """
    fabric, ranks = ch.comm.fabric, ch.comm.ranks
    if form in (PACKED, PACKED_PARTS):
        from .packed import packed

        return packed(ch, form, often=often, always=always, local=local)
    if form is OBJECTS or form in OBJECTS_TO_SCAN.values():
        from .objects import objects

        return None if form.key(args) is None else objects(ch, form, local)
    if form.varies:
        if not undetermined(algorithm, ch.size):
            return None
        make = partial(BoundOnce, ranks=ranks, check=ch.check, local=local)
        return Undetermined(fabric, algorithm, ranks, make)
    fold = form.fold(args)
    if getattr(algorithm, "func", algorithm) not in _KNOWN or (fold is not None and not foldable(fold)):
        return None
    unit = 0 if fold is None else fold.unit_bytes
    key = form.key(args)
    shape = key if fold is None else key[0]
    if algorithm in _RINGS and shape // unit < ch.size:  # as they do with so short a vector
        algorithm = allreduce.recursive_doubling
    rounds = in_rounds(algorithm, ch.size, shape, unit)
    if rounds is None and form is BLOCKS:
        rounds = unequal_gather(algorithm, shape)
    if rounds is not None:
        costs = _costs_of_rounds(fabric, ranks, rounds)
        return None if costs is None else BoundRounds(rounds, costs, ranks, ch.check, local)
    plan = built(algorithm, ch.size, shape)
    bound = None if plan is None else _listed(ch, plan, always, local)
    many = form.many_results and ch.size > _MOST_LISTS
    if bound is None and often and (always or not many) and (plan is None or algorithm in _ONE_AT_A_TIME):
        plan = _compiled(algorithm, ch.size, form, shape, unit)
        bound = None if plan is None else _listed(ch, plan, always, local)
    return bound


def _listed(ch: CollectiveChannel, plan: Plan, always: bool, local: Any) -> Bound | None:
    """A call whose messages are listed; None where it can not be one, or as `bind` has it."""
    fabric, ranks = ch.comm.fabric, ch.comm.ranks
    timetable = plan[0]
    if plan[1].total_bytes > _MOST_BYTES:
        return None
    if timetable.early and fabric.trace is not None:  # when such a receive is posted is not known
        return None
    if not always and len(timetable) < 8 * len(timetable.steps):
        return None
    may_ask = timetable.exchanges is not None
    costs = _costs(fabric, ranks, timetable.source, timetable.dest, timetable.size_bytes, may_ask)
    return None if costs is None else Bound(plan, costs, ranks, ch.check, local)


@lru_cache(maxsize=64)
def _compiled(algorithm: Callable[..., Any], size: int, form: Form, key: Any, unit_bytes: int) -> Plan | None:
    """An algorithm on so many ranks, whichever they are; None also where a rank may leave before others enter."""
    fold = Fold(unit_bytes, True)
    whole = (key, fold) if unit_bytes else key
    recording = record(
        size,
        form.sizes(whole, size),
        lambda ch, recording: algorithm(ch, *form.symbols(whole, recording, ch.rank, fold)),
    )
    plan = None if recording is None else compiled(recording)
    return plan if plan is not None and plan[0].all_need_all() else None


def _costs_of_rounds(fabric: Fabric, ranks: Any, rounds: Rounds) -> Costs | None:
    """What the messages of an exchange cost, as `_costs`; where all ranks are equally far apart nobody lists them."""
    if isinstance(rounds, UnequalGather):
        return Distances(fabric, ranks).costs_of(rounds)
    turns, may_ask = range(rounds.rounds), rounds.one_at_a_time
    sizes = np.array([rounds.size_bytes(turn) for turn in turns])
    if fabric.equally_far:
        return _costs_by_size(fabric, ranks, sizes, rounds.size, may_ask)
    if rounds.rounds * rounds.size > _MOST_COSTS:
        return None
    source = np.tile(rounds.ranks, rounds.rounds)
    dest = np.concatenate([rounds.dest(turn) for turn in turns])
    return _costs(fabric, ranks, source, dest, np.repeat(sizes, rounds.size), may_ask)


def _costs(
    fabric: Fabric, ranks: Any, source: Numbers, dest: Numbers, size_bytes: Numbers, may_ask: bool
) -> Costs | None:
    """What messages cost; None where one of them takes no time, or does not go eagerly though it must."""
    if fabric.equally_far and (source != dest).all():
        return _costs_by_size(fabric, ranks, size_bytes, 1, may_ask)
    found: dict[tuple[Any, int], int] = {}
    kinds: list[Cost] = []
    which = []
    for one, other, size in zip(source.tolist(), dest.tolist(), size_bytes.tolist(), strict=True):
        link = fabric.link(ranks[one], ranks[other])
        kind = found.setdefault((link, size), len(kinds))
        if kind == len(kinds):
            kinds.append(link.cost(size))
        which.append(kind)

    def answer_ps() -> Numbers:
        return answers(fabric, ranks, zip(source.tolist(), dest.tolist(), strict=True))

    return table(kinds, np.array(which), answer_ps if may_ask else None)


def _costs_by_size(fabric: Fabric, ranks: Any, size_bytes: Numbers, times: int, may_ask: bool) -> Costs | None:
    """The same where only the size counts; there are so many messages of each."""
    link = fabric.link(ranks[0], ranks[1])
    sizes, which = np.unique(size_bytes, return_inverse=True)
    kinds = [link.cost(size) for size in sizes.tolist()]
    return table(kinds, np.repeat(which, times), (lambda: link.latency_ps) if may_ask else None)


def answers(fabric: Fabric, ranks: Any, pairs: Iterable[tuple[int, int]]) -> Numbers:
    """How long answers to messages are on their way, of which each goes from the first of a pair to the second."""
    return np.array([fabric.link(ranks[dest], ranks[source]).latency_ps for source, dest in pairs], np.int64)


def table(kinds: Sequence[Cost], which: Numbers, answer_ps: Callable[[], Any] | None) -> Costs | None:
    """The costs of messages of several kinds.

    `answer_ps` gives how long answers to them are on their way, if they may ask. None where one of them takes no time,
    or asks though it may not, or where all of them, one after the other, could take more than 64 bits hold.
    """

    def columns(rows: list[tuple[int, ...]]) -> list[Any]:
        table = np.array(rows, np.int64).T
        return [int(column[0]) if (column == column[0]).all() else column[which] for column in table]

    if not all(kind.wire_ps + kind.latency_ps > 0 for kind in kinds):
        return None
    longest_ps = max((k.send_ps + k.wire_ps + k.busy_ps + k.latency_ps + k.receive_ps for k in kinds), default=0)
    if 3 * len(which) * longest_ps > _LONGEST_PS:
        return None
    costs = Costs(*columns([(k.send_ps, k.busy_ps, k.wire_ps + k.latency_ps, k.receive_ps) for k in kinds]))
    if all(kind.eager for kind in kinds):
        return costs
    if answer_ps is None or not all(kind.latency_ps > 0 for kind in kinds):
        return None
    asks, latency_ps = columns([(not kind.eager, kind.latency_ps) for kind in kinds])
    asks = bool(asks) if np.ndim(asks) == 0 else asks.astype(bool)
    return costs._replace(asking=Asking(asks, latency_ps, answer_ps()))
