"""A job: everything that makes up a run. The only file that imports all layers."""

from __future__ import annotations

import builtins
import errno
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast
from weakref import WeakValueDictionary

from xsim_py import __version__, vitals
from xsim_py.atomic_files import check_file
from xsim_py.config import FailuresSpec, MachineSpec, config_hash
from xsim_py.engine import (
    UNBOUNDED_PS,
    Lookahead,
    Transport,
    launched_by_mpiexec,
    make_transport,
    problem_of_processes,
    problem_of_shards,
    shortest_times,
)
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine
from xsim_py.mpi.algorithm_selection import from_description, uses_ftco
from xsim_py.mpi.assembly import make_library
from xsim_py.mpi.batched.instances import MESSAGES
from xsim_py.mpi.dynamic.launcher import Launcher, Startup
from xsim_py.mpi.dynamic.variables import NAMES, Variables
from xsim_py.mpi.failures.scheduled import prepare
from xsim_py.mpi.failures.settings import NO_DETECTION, detector_settings
from xsim_py.mpi.ftco.shapes import ftco_shapes
from xsim_py.mpi.settings import Settings
from xsim_py.mpi.shard_result import ShardResult, collect, joined, release
from xsim_py.mpi.transport.fabric import Fabric
from xsim_py.mpi4py import tools
from xsim_py.mpi4py._install import PRIVATE, install_interface, unfinalized
from xsim_py.mpi4py.door import Tool, known_calls, open_door
from xsim_py.network import make_network, make_noise
from xsim_py.outcome import Attempt, assemble
from xsim_py.parameters import COMPUTE, RECORD, RunParameters, way_of
from xsim_py.process import interruption, lifecycle, virtual_python
from xsim_py.process.descriptors import os_calls
from xsim_py.process.files import file_calls
from xsim_py.process.files.virtual_files import VirtualFiles
from xsim_py.process.output.collector import NO_OUTPUT, Output
from xsim_py.process.output.equal_tracebacks import EqualTracebacks
from xsim_py.process.output.spilled_lines import LIMIT_BYTES, LIMIT_ELSEWHERE_BYTES, Spill
from xsim_py.process.profiler import Profile
from xsim_py.process.programs import shared_state
from xsim_py.process.programs.apps import Apps
from xsim_py.process.programs.called_functions import pack, restore_copies, unpack
from xsim_py.process.programs.private_modules import separate
from xsim_py.process.programs.program import Program
from xsim_py.process.python import clock, dates, launcher_variables, randomness, watchers
from xsim_py.process.ranks import context, current, meter
from xsim_py.process.ranks.memory import patient_collector
from xsim_py.process.ranks.patches import Patches
from xsim_py.process.ranks.shard import Control, Shard, weak_getter
from xsim_py.units import format_time

if TYPE_CHECKING:
    from xsim_py.checks.monitor import Monitor
    from xsim_py.failure import CallSite, FailureModel, RestartPolicy, Schedule
    from xsim_py.isolation import Isolation
    from xsim_py.process.ranks.processor import Processor
    from xsim_py.process.ranks.stretches import Computed
    from xsim_py.report import Result
    from xsim_py.schedules import MatchSchedule

_PAIRS_UP_TO_RANKS = 1024


class Job:
    """A job of virtual ranks on a machine, from its first start to its result."""

    def __init__(self, spec: MachineSpec, program: Program | Apps, settings: RunParameters) -> None:
        self.spec = spec
        self.program = program
        self.ranks = ranks = settings.ranks
        self.seed = settings.seed
        self.begin_ps = settings.begin_ps
        self.compute = settings.compute or str(spec.compute.times or spec.compute.mode)
        self.machine = Machine(spec, ranks=ranks, seed=settings.seed)
        self.network = make_network(spec, places=self.machine)
        self.computing = self._computing()
        self.noise = make_noise(spec, seed=self.seed, node_of=self.machine.node_of)
        self.isolation = settings.ranks_per_process
        self.spawned = settings.spawned
        self.collectives = settings.way
        self.transport, self.blocks = self._spread(settings.shards)
        if self.isolation:
            cast(Any, self.transport).in_order = self.have_common or self._uses_batches()
        self.apart_by = "isolation" if self.isolation else "mpiexec" * (len(self.transport.local) < self.transport.size)
        self.sinks: tuple[TextIO, ...] = (sys.stdout, sys.stderr)
        self.label = self.traced = False
        self.schedule: MatchSchedule | None = None
        self.profile: Profile | None = None
        self.links = False
        self.monitor: Monitor | None = None
        self.cpu_limit_s: float | None = None
        self.control = Control()
        self.launcher_ps = self.network.min_latency_ps(self.machine.shard_blocks(2)) if ranks > 1 else 0
        self.files = None if spec.storage is None else VirtualFiles(spec.storage, node_of=self.machine.node_of)
        notice_ps = self.launcher_ps or self.network.min_latency_ps([range(ranks)])
        self.startup = Startup(notice_ps, spec.spawn.startup_ps, spec.spawn.startup_per_process_ps)
        self.machine.listeners.append(self.network.update_nodes)
        if self.noise is not None:
            self.machine.listeners.append(self.noise.update_nodes)
        if self.files is not None:
            self.machine.listeners.append(self.files.update_nodes)
        self.shards: list[Shard] = []
        self.fabrics: list[Fabric] = []
        self.outputs: list[Output] = []
        self.fault_tolerant = False
        self.detector = NO_DETECTION
        self.shapes = ftco_shapes(spec, self.network)
        self.failures: FailureModel | None = None
        self.extra_failures: tuple[str, ...] = ()
        self.restart: RestartPolicy | None = None
        self.written: Mapping[tuple[int, str], str] = {}  # the given failures of this start
        self.failing_calls: tools.FailingCalls | None = None  # the failures among them that are at calls
        self.attempts: list[Attempt] = []  # the starts of the job so far, in the process of shard 0
        self.host: Isolation | None = None
        self.origin: Any = None  # from which a new interpreter builds the same job
        self.joins: Any = None  # received by an interpreter that joins a run

    @cached_property
    def processor(self) -> Processor:
        """The simulated processor, created on first use: most programs declare no computation."""
        with current.outside():
            from xsim_py.process.ranks.processor import Processor

        made = Processor(self.spec.compute, seed=self.seed, places=self.machine)
        self.machine.listeners.append(made.update_nodes)
        return made

    def _computing(self) -> dict[str, Any]:
        """Return the arguments of `meter.install`; empty if computation is not charged."""
        if self.compute in COMPUTE:
            return {}
        from xsim_py.process.ranks import stretches  # rarely needed

        if self.compute.startswith(RECORD):
            try:
                check_file(self.compute.removeprefix(RECORD))
            except OSError as error:
                raise ConfigError(f"compute: cannot write {self.compute}: {error.strerror}") from None
            return {"recorder": stretches.StretchRecorder()}
        return {"times": stretches.StretchTimes(Path(self.compute), self.ranks)}

    def _computed(self) -> Computed | None:
        """Return what this process has recorded about computation."""
        recorder, times = (self.computing.get(key) for key in ("recorder", "times"))
        complaints = self.processor.said() if "processor" in vars(self) else set()
        if not self.computing and not complaints:
            return None
        from xsim_py.process.ranks.stretches import Computed

        complaints = complaints | (times.complaints if times else set())
        return Computed(recorder.recorded if recorder else {}, times.unknown if times else set(), complaints)

    def _write_recorded(self) -> Iterator[str]:
        """Write the recorded computing times of the last start, if requested; yield errors."""
        if "recorder" not in self.computing:
            return
        from xsim_py.process.ranks import stretches

        recorded: stretches.Recorded = {}
        for part in self.attempts[-1].parts:
            recorded |= part.computed.recorded if part.computed is not None else {}
        path = Path(self.compute.removeprefix(RECORD))
        try:
            stretches.write(path, recorded, ranks=self.ranks, program=self.program.name, version=__version__)
        except OSError as error:
            yield f"cannot write {path}: {error.strerror}"

    def _spread(self, shards: int) -> tuple[Transport, Sequence[range]]:
        """Return the transport between shards, and the ranks of each."""
        each = self.isolation
        if not each:
            transport = make_transport(shards)
            if problem := problem_of_shards(len(transport.local), self.ranks):
                raise ConfigError(f"shards: {problem}")
            return transport, self.machine.shard_blocks(transport.size)
        if shards != 1:
            raise ConfigError("shards: cannot be combined with isolation, where each process is a shard; drop one")
        if launched_by_mpiexec() > 1:
            raise ConfigError("isolation: cannot be combined with a real mpiexec; start xsim without it")
        if problem := problem_of_processes(self.ranks, each):
            raise ConfigError(f"isolation: {problem}")
        from xsim_py.isolation import processes_for  # most runs use greenlets, and must start quickly

        return processes_for(self.machine.process_blocks(each), later=not self.have_common)

    @contextmanager
    def rank_processes(self) -> Iterator[None]:
        """Provide the context for ranks in separate processes."""
        if not self.isolation:
            yield
            return
        from xsim_py.isolation import isolated

        with isolated(self, self.joins) as self.host:
            yield

    def set_failures(self, failures: Sequence[str], *, ft: bool | None, restart: str | None) -> None:
        """Determine the failures of the run, and the launcher's reaction."""
        self.extra_failures = tuple(failures)
        if failures or self.spec.failures != FailuresSpec():  # most runs have none, and must start quickly
            from xsim_py.failure import FailureModel

            self.failures = FailureModel(
                self.spec, extra=failures, ranks=self.ranks, node_of=self.machine.node_of,
                cores_per_node=self.machine.cores_per_node, seed=self.seed, known_calls=known_calls(),
            )  # fmt: skip
            if self.failures.has_sites:
                self.failing_calls = tools.FailingCalls(lambda _, cause: lifecycle.fail_here(cause))
        if restart is not None:
            from xsim_py.failure import RestartPolicy

            self.restart = RestartPolicy.parse(restart)
        wanted = self.spec.mpi.fault_tolerance if ft is None else ft
        if wanted is False and self.spec.mpi.resilience is not None:
            raise ConfigError("mpi.resilience needs a fault-tolerant job; drop --no-ft (mpi.fault_tolerance)")
        if self.failures is not None and uses_ftco(self.spec.mpi.collectives):
            self.failures.check_for_ftco()
        may_fail = (self.failures is not None and self.failures.can_fail) or self.spec.mpi.resilience is not None
        self.fault_tolerant = (may_fail and restart is None) if wanted is None else wanted
        if self.fault_tolerant or self.spec.mpi.detector.timeout_ps is not None:
            self.detector = detector_settings(self.spec, self.network)

    def watch(self, monitor: Monitor | None) -> None:
        """Make a monitor follow the program's calls."""
        if monitor is not None and (self.isolation or self.transport.size > 1):
            raise ConfigError("check: needs all ranks in one process; drop shards and isolation")
        self.monitor = monitor
        if monitor is not None:
            monitor.start, monitor.doing = self.program.start, self.control.doing
            self.control.found = monitor.findings

    def lookahead(self) -> Lookahead:
        """Return the lookahead from each shard to each other; unlimited for a single shard.

        Shared events (`Shard.share`) return to their origin as soon as they reach the others, and all shards are
        notified of a failure at the same time.
        """
        shards = self.transport.size
        if shards == 1:
            return ((UNBOUNDED_PS,),)
        if self.ranks == 1:
            return [[1] * shards] * shards
        nearest_ps = min(self.launcher_ps, self.network.nearest_ps)  # ranks may be spawned on any node
        direct = [[min(ps, nearest_ps) for ps in row] for row in self.network.latencies_ps(self.blocks)]
        least = min(self.network.min_latency_ps(self.blocks), nearest_ps)
        if least <= 0:
            raise self.spec.error(
                "network.latency", f"a latency of 0 leaves {shards} shards no lookahead; use one shard"
            )
        if self.spec.storage is not None:
            least = min(least, self.spec.storage.latency_ps)
        return [[least] * shards] * shards if self.have_common else shortest_times(direct)

    @property
    def have_common(self) -> bool:
        """True if some events must happen in all shards in one order."""
        return self.spec.storage is not None or any(self.machine.shares)

    def _complete_spec(self) -> MachineSpec:
        """Return the description with the additions from the call."""
        at = (*self.spec.failures.at, *self.extra_failures)
        mpi = replace(self.spec.mpi, fault_tolerance=self.fault_tolerant or None)
        times = self.computing.get("times") and Path(self.compute)
        compute = replace(self.spec.compute, times=times)
        return replace(self.spec, failures=replace(self.spec.failures, at=at), mpi=mpi, compute=compute)

    def provenance(self) -> dict[str, Any]:
        """Return everything needed to reproduce this run."""
        return {
            "version": __version__,
            "seed": self.seed,
            "config_hash": config_hash(self._complete_spec()),
            "ranks": self.ranks,
            "shards": len([block for block in self.blocks if block]) if self.isolation else self.transport.size,
            "isolation": way_of(self.isolation, spawned=self.spawned),
            "machine": f"{self.spec.name}: {self.machine}",
            "program": self.program.name,
        }

    def go(
        self,
        wall_limit_s: float | None,
        background: Sequence[Callable[[Any], Any]],
        progress: Callable[[int, int, int, int], None] | None,
        started: Callable[[dict[str, Any]], None] | None,
    ) -> Result:
        """Run to the end, and return the result."""
        lookahead = self.lookahead()
        if started is not None and 0 in self.transport.local:
            started(self.provenance())
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        start: tuple[int, frozenset[CallSite]] | None = (self.begin_ps, frozenset())
        profiled = self.profile.sampling() if self.profile is not None else nullcontext()
        watched = interruption.watched(self.control, self.shards, wall_limit_s, progress, self.cpu_limit_s)
        exits = interruption.c_exit_watched(self.shards, self.sinks[1], self.transport.leave)
        with patient_collector(self.ranks), Patches() as patches, profiled, watched, exits:
            self._isolate(patches)
            if self.host is not None:
                self.host.prepare_imports(self.program.programs)
            while start is not None:
                start_ps, injected = start
                if self.host is not None:
                    self.host.begin()
                met = self._schedule(start_ps, injected)
                work = partial(self._attempt, lookahead, met, background, start_ps)
                parts = self.transport.simulate(work, self.host)
                start = self.transport.broadcast(self._ended(start, met, self.transport.gather(parts)))
        return self._result((time.process_time() - cpu_s, time.perf_counter() - wall_s))

    def _schedule(self, start_ps: int, injected: frozenset[CallSite]) -> Schedule | None:
        """Return the failures from this start of the job on, by time and call, and other faults."""
        if self.failures is None:
            return None
        schedule = self.failures.schedule(start_ps, struck=injected)
        if self.failing_calls is not None:
            self.failing_calls.begin(schedule.sites)
        self.written = schedule.written
        return schedule

    def _attempt(
        self,
        lookahead: Lookahead,
        met: Schedule | None,
        background: Sequence[Callable[[Any], Any]],
        start_ps: int,
        numbers: Sequence[int],
    ) -> list[ShardResult]:
        """Run these shards of the job from one start to its end."""
        self.make_shards(numbers, background, start_ps)
        body = lifecycle.body(self.program)
        vitals.mine.running = 1
        try:
            for shard, fabric in zip(self.shards, self.fabrics, strict=True):
                if met is not None and self.failures is not None:
                    prepare(fabric, met, self.failures.failing_inside_calls)
                shard.start(body)
            self.transport.run(self.shards, lookahead)
            vitals.mine.running = 0
            if self.monitor is not None:
                from xsim_py.checks.requests import note_lost

                note_lost(self.monitor)
            parts = [collect(*each) for each in zip(self.shards, repeat(self.program), self.fabrics, strict=False)]
            parts[0].shared = shared_state.findings(sum(len(self.blocks[each]) for each in numbers), self.control)
            parts[0].computed = self._computed()
            if self.failing_calls is not None:
                parts[0].called = self.failing_calls.hints()
            pack(parts, self.apart_by)
            if self.profile is not None:
                for part, shard in zip(parts, self.shards, strict=True):
                    part.profile = self.profile.of(shard.number)
            if self.files is not None:
                self.files.stop()
                for part, shard in zip(parts, self.shards, strict=True):
                    part.storage = self.files.rows(shard)
            return parts
        finally:
            vitals.mine.running = 0
            for shard, fabric in zip(self.shards, self.fabrics, strict=True):
                release(fabric)
                context.release_all(shard.ranks)
                shard.abandon()
            os_calls.forget()
            current.fiber = None
            context.forget()

    def _ended(
        self, start: tuple[int, frozenset[CallSite]], met: Schedule | None, parts: list[ShardResult] | None
    ) -> tuple[int, frozenset[CallSite]] | None:
        """Record the outcome of a start; return the time of a restart and the call sites hit."""
        if parts is None:
            return None  # decided by another process
        unpack(parts, self.apart_by)
        parts = joined(parts, self.ranks)
        attempt = Attempt(start[0], parts)
        self.attempts.append(attempt)
        self._check_left(attempt)
        output = self.outputs[0]
        for part in parts:
            output.add(part.lines)
        output.flush(attempt.stopped_ps + 1 if attempt.stopped_ps is not None else UNBOUNDED_PS, last=True)
        output.take(far=False)  # output of ranks after the end
        self._check_output(parts)
        aborted_ps = attempt.aborted_ps
        if self.restart is None or aborted_ps is None or len(self.attempts) > self.restart.most:
            return None
        died = {(rank, cause) for _, rank, cause in attempt.failures}
        sites = () if met is None else met.sites
        injected = start[1].union(site for site in sites if (site.rank, site.cause) in died)
        return aborted_ps + self.restart.delay_ps, injected

    def _check_left(self, attempt: Attempt) -> None:
        """Make the monitor check the state left by a start of the job."""
        if self.monitor is None:
            return
        from xsim_py.checks.calls import finish

        failed = {rank for _, rank, _ in attempt.failures}
        waiting = {entry.rank for part in attempt.parts for entry in part.waiting}
        ended = {
            part.first + i for part in attempt.parts for i, time_ps in enumerate(part.ended_ps) if time_ps is not None
        }
        aborted = attempt.ended == "aborted" and self.failures is None
        failure_seen = not aborted and (bool(failed) or any(part.failure_seen for part in attempt.parts))
        finished = ended - waiting - failed
        broken_off = self.control.broken_off
        finish(self.monitor, attempt.ended, waiting, finished, failure_seen=failure_seen, broken_off=broken_off)

    def _check_output(self, parts: list[ShardResult]) -> None:
        """Raise the error of the program's output in any process: `OSError`, or the stream's own."""
        for output in self.outputs:
            if output.error is not None:
                raise output.error
        if any(part.stop_reason == NO_OUTPUT for part in parts):
            kept = f"more than {LIMIT_ELSEWHERE_BYTES >> 20} MiB are held back in one of the processes"
            raise OSError(errno.EFBIG, f"{kept}; one process keeps {LIMIT_BYTES >> 20:,} MiB")

    def _result(self, cost: tuple[float, float]) -> Result:
        result = None
        if self.attempts:
            facts = {
                **self.provenance(),
                "cpu_s": cost[0],
                "wall_s": cost[1],
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
            left = self.outputs[0].digest() + ("" if self.files is None else self.files.digest())
            died = {(rank, cause) for _, rank, cause in self.attempts[-1].failures}
            came = {cause for _, cause in died}  # a node's failure occurs if one of its ranks was still running
            came_too = set().union(*(part.occurred for attempt in self.attempts for part in attempt.parts))
            called = {site: said for part in self.attempts[-1].parts for site, said in part.called.items()}
            never = [what for key, what in self.written.items() if key not in died and key[1] not in came]
            found = [] if self.files is None else [*{each.about_storage for each in self.program.programs} - {""}]
            found += () if self.host is None else self.host.warnings
            if self.failures is not None:
                never += self.failures.never_came(came_too, self.begin_ps)
                if over := self.failures.past_at(self.begin_ps):
                    begin = format_time(self.begin_ps, digits=None)
                    found = [*found, f"over before this run begins, at {begin}: {'; '.join(over)}"]
            unwritten = [*([] if self.files is None else self.files.write_out()), *self._write_recorded()]
            missed = {what: called.get(what, "") for what in never}
            said: dict[str, Any] = {"missed": missed, "unwritten": unwritten, "found": found}
            compute = "measured" if self.compute.startswith(("measured", RECORD)) else "none"
            result = assemble(self.attempts, facts, left=left, compute=compute, **said)
            if self.links:
                from xsim_py.link_loads import links_table  # rarely needed

                nodes, time_ps = result.tables["ranks"]["node"], result.virtual_time_ps
                result.tables["links"] = links_table(
                    result.tables["pairs"], nodes, self.machine, virtual_time_ps=time_ps
                )
            if self.monitor is not None:
                result.set_findings(self.monitor.findings())
            for kept in (self.attempts, self.shards, self.fabrics):
                kept.clear()  # they are in cycles, which Python finds late
        complete: Result = self.transport.broadcast(result)
        restore_copies(complete)
        return complete

    def make_shards(self, numbers: Sequence[int], background: Sequence[Callable[[Any], Any]], start_ps: int) -> None:
        """Create all shards from scratch, as a launcher would start them."""
        self.machine.clear()
        if "processor" in vars(self):
            self.processor.clear()
        self.variables = Variables(self.machine, self.ranks)
        self.shards.clear()
        self.fabrics.clear()
        for kept in (self.control.kernels, self.control.doing, self.control.broken_off):
            kept.clear()
        self.settings = Settings(
            ranks=self.ranks,
            collectives=from_description(self.spec.mpi.collectives),
            mpi=self.spec.mpi,
            pairs=self.links or self.ranks <= _PAIRS_UP_TO_RANKS,
            machine=self.machine,
            firsts=self.program.firsts,
            seed=self.seed,
            counts_memory=self.spec.machine.memory_per_node_bytes is not None,
            segments=WeakValueDictionary() if len(numbers) == self.transport.size else None,
            folder=None if self.host is None else self.host.folder,
        )
        for number in numbers:
            shard = self.add_shard(number, start_ps)
            if number == 0:
                for make in background:
                    shard.kernel.process(make(shard.kernel))

    def add_shard(self, number: int, start_ps: int) -> Shard:
        """Create another shard of this process, with everything that belongs to it."""
        far = 0 not in self.transport.local
        while len(self.outputs) <= len(self.shards):
            spill = self.outputs[0].spill if self.outputs else Spill(LIMIT_ELSEWHERE_BYTES if far else LIMIT_BYTES)
            sinks = self.sinks if number == 0 else None
            equal_tracebacks = EqualTracebacks(self.launcher_ps)
            self.outputs.append(
                Output(sinks, label=self.label, control=self.control, spill=spill, equal_tracebacks=equal_tracebacks)
            )
        shard = Shard(
            number=number,
            blocks=self.blocks,
            control=self.control,
            output=self.outputs[len(self.shards)],
            abort_delay_ps=self.launcher_ps,
            have_common=self.have_common,
            fault_tolerant=self.fault_tolerant,
            start_ps=start_ps,
        )
        shard.far = far
        shard.processor = weak_getter(self, "processor")
        shard.on_start, shard.unfinalized = shared_state.started, unfinalized
        fabric = make_library(
            shard, self.network, self.settings, traced=self.traced, observer=self.monitor,
            batches=self.collectives if self._uses_batches() else None, detection=self.detector,
            ulfm=self.spec.mpi.ulfm, shapes=self.shapes, startup=self.startup, start=self.program.start,
            failures=self.failures, schedule=self.schedule, noise=self.noise, guard=tools.guard_of(self.spec.mpi),
        )  # fmt: skip
        if self.machine.oversubscribed:
            from xsim_py.process.ranks.processor import release_failed

            release_failed(shard, self.processor)
        if self.host is not None:
            self.host.attach(shard, fabric.part(Launcher))
        self.fabrics.append(fabric)
        if self.files is not None:
            self.files.attach(shard)
        os_calls.attach(shard)
        self.shards.append(shard)
        return shard

    def _uses_batches(self) -> bool:
        """Return True if collectives may be computed for all ranks at once; see `mpi.batched`.

        Not with ranks in separate processes: if one is lost, its effects on the others' calls have not been rolled
        back.
        """
        if self.isolation or self.noise is not None or (self.schedule is not None and self.schedule.watch):
            return False
        apart = not any(self.machine.shares) and (self.transport.size == 1 or not self.have_common)
        return apart and self.collectives != MESSAGES

    def _isolate(self, patches: Patches) -> None:
        """Replace real objects by virtual ones for the duration of the run."""
        for shared in (builtins, sys):  # shared by the ranks and the simulator
            patches.keep(vars(shared))
        beside_mpi = "mpi4py" in sys.modules  # the real one
        install_interface(patches, self.program.namespace)
        patches.install(clock.PATCHED)
        dates.install(patches)
        randomness.install(patches, self.seed)
        if (memory_bytes := self.spec.machine.memory_per_node_bytes) is not None:
            from xsim_py.process.python import memory_limit  # most runs have no limit

            memory_limit.install(patches, memory_bytes, self.machine.node_of)
        open_door(patches, [*self._tools(patches)])
        launcher_variables.install(patches, NAMES, lambda rank: self.variables.of(rank))
        virtual_python.install(patches, alone=self.isolation == 1)
        if self.files is not None:
            file_calls.install(patches, self.files)
        os_calls.install(patches)
        modules = sys.modules.copy()
        patches.at_end(lambda: sys.modules.update({**modules, **sys.modules}))
        separate(patches, self.program.programs, self.spec.process, (*PRIVATE, *watchers.PRIVATE), beside_mpi)
        if self.isolation != 1 and self.program.is_watched:
            shared_state.install(patches, self.program.start)

    def _tools(self, patches: Patches) -> Iterator[Tool]:
        """Yield the tools in order: a rank fails at a call after its computation, and before checks and trace."""
        if self.compute != "none":
            folders = [str(each.home) for each in self.program.programs if each.home is not None]
            meter.install(patches, folders=[*folders, str(self.program.start)], **self.computing)
            yield tools.Metering()
        if self.failing_calls is not None:
            yield self.failing_calls
        if self.monitor is not None:
            from xsim_py.checks.calls import install

            yield install(patches, self.monitor)
        if self.traced:
            yield tools.Spans()
        yield from tools.layers(self.spec.mpi)
