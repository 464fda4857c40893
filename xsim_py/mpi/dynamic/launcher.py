"""The launcher as running processes see it: it spawns processes, and keeps published names.

It is in shard 0, with rank 0 unless each rank has its own process. Queries of ranks reach it after the time of a
notice, in the order of time and of ranks, and its answer takes as long; new ranks begin when a notice from it has
reached their nodes. That takes at least the lookahead, so the window protocol is unaffected.

New ranks get the next numbers after the existing ones, in the order of the queries. Each is in the shard of its node,
so the lookahead does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.machine import Universe
from xsim_py.mpi.comm import Communicator, derive_cid, shared_context
from xsim_py.mpi.failures.scheduled import allow_later_failures, schedule_failures
from xsim_py.mpi.transport.protocols import LibraryPart
from xsim_py.process.lifecycle import body, kill
from xsim_py.process.ranks import current
from xsim_py.process.ranks.private_state import change

from .commands import Refused, SpawnCommand, program_for, take_slots

if TYPE_CHECKING:
    from xsim_py.failure import FailureModel
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.network.network import Network
    from xsim_py.process.programs.program import Program
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank


class Startup(NamedTuple):
    """The time that the launcher's work takes, in picoseconds."""

    notice_ps: int
    """The time of a notice from a process to the launcher, or back."""
    base_ps: int
    """The fixed part of starting processes."""
    per_process_ps: int
    """The part per process."""


class SpawnOrder(NamedTuple):
    """The arguments of MPI_Comm_spawn."""

    cid: int
    """The number of the intercommunicator between parents and children."""
    parents: Sequence[int]
    """The parents, as world ranks."""
    commands: tuple[SpawnCommand, ...]


class World(NamedTuple):
    """A COMM_WORLD: the processes that were started together."""

    number: int
    """World 0 has the initial ranks."""
    first: int
    """Its first rank in the whole run."""
    size: int
    """The number of its ranks."""
    begin_ps: int
    """When they begin."""
    parent: int
    """The root of the call."""
    command: str

    @property
    def ranks(self) -> range:
        """Its ranks in the whole run."""
        return range(self.first, self.first + self.size)


class SpawnNotice(NamedTuple):
    """An announcement of new processes to all shards."""

    world: World
    order: SpawnOrder
    """The arguments of the call."""
    nodes: Sequence[int]
    """The node of each process."""
    homes: Sequence[int]
    """The shard of each process."""
    commands: Sequence[int]
    """The index of the command of each process."""


class LauncherQuery(NamedTuple):
    """A query to the launcher; the key identifies the waiting fiber for the answer."""

    rank: int
    """The querying rank."""
    key: int
    """The event key of the query."""
    what: str
    """The kind of query."""
    argument: Any
    """Can be pickled."""


class _Waiting:
    """A fiber that waits for the launcher's answer."""

    __slots__ = ("answer", "awaited", "fiber")

    def __init__(self, fiber: Fiber, awaited: str) -> None:
        self.fiber = fiber
        self.awaited = awaited
        self.answer: Any = None

    def describe(self) -> str:
        """Return a line for the deadlock report."""
        return self.awaited


class Launcher(LibraryPart):
    """The launcher's part in one shard: in that of rank 0 it is the launcher itself."""

    def __init__(
        self, fabric: Fabric, network: Network, startup: Startup, start: str, failures: FailureModel | None = None
    ) -> None:
        self.fabric = fabric
        self._network = network  # its costs may change with the number of ranks
        self._failures = failures  # of new processes
        self.shard = fabric.shard
        self.startup = startup  # the time that its work takes
        self.start = start  # the directory in which processes start by default
        self.worlds: dict[int, World] = {}  # the spawned ones, by the numbers of their communicators
        # The handler of each kind of query, called with the query when it reaches the launcher.
        self.services: dict[str, Callable[[LauncherQuery], None]] = {"spawn": self._spawn}
        self.forget: Callable[[int], None] = lambda number: None  # called with the number of a process that has ended
        # Called with the planned shards of new processes; returns the actual ones.
        self.prepare: Callable[[list[int]], list[int]] = lambda homes: homes
        # The first shard reserved for spawned processes, or one past the last shard if there is none; 0 if shard 0 has
        # ranks.
        self.first_later = 0
        self._planned = self.shard.initial
        self._busy_ps = 0  # calls are served one after the other, so numbers are in the order of birth
        self._universe: Universe | None = None
        self._failed: list[tuple[int, int]] = []  # rank and time of failures whose slots have not been updated
        self._homes: dict[int, int] = {}
        self._worlds = 0
        self._waiting: dict[int, _Waiting] = {}

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of its events."""
        return {
            "asked": self._receive_query,
            "told": self._receive_reply,
            "born": self._begin_world,
            "gone": self._process_ended,
        }

    def ask(self, what: str, argument: object, awaited: str) -> Any:
        """Query the launcher from the running fiber and return the answer.

        The deadlock report shows `awaited`.
        """
        fiber = current.running()
        fiber.sync()
        rank, shard = fiber.rank, self.shard
        rank.key += 1
        waiting = self._waiting[rank.key] = _Waiting(fiber, awaited)
        asks: set[int] = rank.private("asks", set)
        asks.add(rank.key)
        query = LauncherQuery(rank.number, rank.key, what, argument)
        shard.post_to_first(fiber.clock_ps + self.startup.notice_ps, rank.key, "asked", query)
        fiber.park(waiting)
        fiber.clock_ps = shard.kernel.now_ps
        return waiting.answer

    def _receive_query(self, query: LauncherQuery) -> None:
        """Handle a query."""
        query = LauncherQuery(*query)
        self.services[query.what](query)

    def answer(self, query: LauncherQuery, answer: object, when_ps: int | None = None) -> None:
        """Answer a query, now or at a later time; the answer must be picklable."""
        when_ps = (self.shard.kernel.now_ps if when_ps is None else when_ps) + self.startup.notice_ps
        self.shard.post_to(query.rank, when_ps, query.key, "told", (query.key, answer))

    def _receive_reply(self, reply: tuple[int, Any]) -> None:
        """Pass the answer to the fiber that waits for it."""
        waiting = self._waiting.pop(reply[0], None)
        if waiting is None:
            return  # its process has ended, and this shard replaces it
        waiting.answer = reply[1]
        rank = waiting.fiber.rank
        rank.private("asks", set).discard(reply[0])
        if rank.exit_status is None:
            waiting.fiber.resume()

    # ------------------------------------------------------------------------------------------------- starting

    def _spawn(self, query: LauncherQuery) -> None:
        """Start processes; the querying rank gets the answer when they have begun."""
        order = SpawnOrder(*query.argument)
        now_ps = self.shard.kernel.now_ps
        notice_ps, base_ps, per_process_ps = self.startup
        try:
            for command in order.commands:
                program_for(command, self.start)
            nodes_by_command, codes = take_slots(order.commands, self._slots(), self.fabric.settings.machine)
        except Refused as refusal:
            self.answer(query, str(refusal))
            return
        nodes = [node for each in nodes_by_command for node in each]
        self._busy_ps = max(now_ps, self._busy_ps) + base_ps + len(nodes) * per_process_ps
        begin_ps = self._busy_ps + notice_ps
        first, self._planned = self._planned, self._planned + len(nodes)
        if nodes:
            text = " : ".join(str(command) for command in order.commands)
            self._worlds += 1
            world = World(self._worlds, first, len(nodes), begin_ps, query.rank, text)
            homes = [self._shard_of(node, number) for number, node in enumerate(nodes, first)]
            homes = self.prepare(homes)
            commands = [index for index, nodes_of_command in enumerate(nodes_by_command) for _ in nodes_of_command]
            notice = SpawnNotice(world, order, nodes, homes, commands)
            self.shard.post_everywhere(begin_ps, query.key, "born", notice)
        self.answer(query, (first, len(nodes), [code for each in codes for code in each]), begin_ps)

    def _slots(self) -> Universe:
        """Return the slots of the machine.

        Those of failed processes are free if their nodes have not failed.
        """
        machine = self.fabric.settings.machine
        if self._universe is None:
            self._universe = Universe(machine)
        while self._failed:
            number, time_ps = self._failed.pop(0)
            node = machine.node_of[number]
            if self._failures is not None and self._failures.node_fails(node, time_ps):
                self._universe.close(node)
            elif number < self.shard.initial:
                self._universe.vacate(node)
        return self._universe

    def failed(self, number: int, time_ps: int) -> None:
        """Record the failure of a process at a time; an event handler."""
        self._failed.append((number, time_ps))

    def _shard_of(self, node: int, number: int) -> int:
        """Return the shard of a spawned process: its node's, unless some are reserved for such."""
        shard = self.shard
        later = self.first_later
        if 0 < later < len(shard.blocks):
            return later + (number - shard.initial) % (len(shard.blocks) - later)
        if not self._homes:
            node_of = self.fabric.settings.machine.node_of
            for number, block in reversed(list(enumerate(shard.blocks))):
                self._homes.update((node_of[rank], number) for rank in block)
        lowest = 1 if later else 0
        return self._homes.get(node, lowest + node % (len(shard.blocks) - lowest))

    def _begin_world(self, notice: SpawnNotice) -> None:
        """Start new processes; the same event in every shard."""
        notice = SpawnNotice(World(*notice[0]), SpawnOrder(*notice[1]), *notice[2:])
        shard, fabric, world, order = self.shard, self.fabric, notice.world, notice.order
        if shard.number != 0:
            shard.kernel.events -= 1
        if world.first < shard.population:
            return  # a shard that replaces another also receives this from the first shard
        shard.abort_delay_ps = self.startup.notice_ps
        cid = derive_cid(order.cid, "world")
        self.worlds[cid] = world
        fabric.settings.machine.add_ranks(world.first, notice.nodes)
        spawned = shard.add_ranks(notice.homes)
        fabric.ranks = shard.at
        fabric.uniform = self._network.uniform
        fabric.tally.grow([rank.number for rank in spawned])
        context = shared_context(fabric, cid, world.ranks)
        context.title = f"MPI_COMM_WORLD of world {world.number}"
        for index, rank in enumerate(spawned, len(shard.ranks) - len(spawned)):
            box = fabric.open(rank)
            box.place = index
            box.world = Communicator(context, box)
            box.private = {"birth": notice}
            node = notice.nodes[rank.number - world.first]
            fabric.digest += hash((world.begin_ps, rank.number, node))
            failure = None if self._failures is None else self._failures.of_spawned(rank.number, node, world.begin_ps)
            if failure is not None:
                schedule_failures(fabric, [failure])
            if self._failures is not None:
                allow_later_failures(fabric, self._failures.failing_inside_calls & {rank.number})
        programs: dict[int, Program] = {}
        for rank in spawned:
            if shard.control.stop_reason:
                return
            if shard.takes_over:
                kill((rank, "its process has ended before the start", 1))
                continue
            which = notice.commands[rank.number - world.first]
            if which not in programs:
                programs[which] = program_for(SpawnCommand(*order.commands[which]), self.start)
            if programs[which].start != self.start:
                change(rank, "directory", self.start, programs[which].start)
            with shard.in_series():
                rank.fiber.start(body(programs[which]))

    def _process_ended(self, number: int) -> None:
        """Handle the end of a process that was spawned or has a pending query: free its slot."""
        if number >= self.shard.initial:
            self._slots().release(self.fabric.settings.machine.node_of[number])
        self.forget(number)


def spawn_notice_of(rank: Rank) -> SpawnNotice | None:
    """Return how a rank was spawned; None for an initial rank."""
    box = rank.mpi
    found: SpawnNotice | None = None if box is None or box.private is None else box.private.get("birth")
    return found
