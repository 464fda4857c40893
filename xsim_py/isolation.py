"""Ranks in real processes: the start of such a process, and the handling of its end.

Each process is a fork of one that has read the program but not run any of it. So ranks share what real processes of one
program share on a computer: no changes to interpreter, environment or descriptors.
"""

from __future__ import annotations

import faulthandler
import gc
import mmap
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import sizeof
from functools import partial
from pathlib import Path
from pickle import dump  # as it is before a program replaces it
from subprocess import _args_from_interpreter_flags as interpreter_flags  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py import crashes, vitals
from xsim_py.atomic_files import scratch_folder, shared_memory_folder, tidy_when_terminated
from xsim_py.engine.processes import OUT_OF_MEMORY, ProcessDeath, Processes
from xsim_py.mpi.failures.deaths import Deaths
from xsim_py.mpi.rma.service import service_of
from xsim_py.process import interruption, lifecycle
from xsim_py.process.output.last_lines import SIZE_BYTES, Journal, last_lines, memory_for
from xsim_py.process.output.simulator_descriptors import high_number
from xsim_py.process.programs.mpi_packages import is_shared
from xsim_py.process.programs.preload import preload
from xsim_py.process.ranks import context, current, fiber
from xsim_py.process.ranks.rank import Rank
from xsim_py.rng import derive_seed
from xsim_py.ticks import Ticks
from xsim_py.units import spans
from xsim_py.vitals import TICK_S, Vitals, Watch

if TYPE_CHECKING:
    from xsim_py.mpi.dynamic.launcher import Launcher
    from xsim_py.process.programs.program import Program
    from xsim_py.process.ranks.shard import Shard

_LATER: Final = 32
"""The maximum number of processes for spawned ranks; further ones share these."""

_HASH_SEED: Final = "PYTHONHASHSEED"
_JOIN: Final = "import sys; sys.path[:] = eval(sys.argv.pop()); from xsim_py.joining import main; main()"
_NOT_FOR_ALL: Final = ("-E", "-I")  # a new interpreter must read its hash seed from the environment

_TO_ALL: Final = ("abort", "born", "failed")

_CUT_OFF: Final = (
    "has lost its connection to the simulator: the program has closed descriptors that are not its own, "
    "or has replaced itself by another program (exec)"
)


_execve = os.execve  # patched in ranks


def processes_for(first: Sequence[range], *, later: bool) -> tuple[Processes, list[range]]:
    """Return the processes of a run, the `first` ones with these ranks, and each shard's ranks.

    The coordinator's process has none, nor do those reserved for spawned ranks (`later`).
    """
    processes = Processes(range(1, 1 + len(first)), 1 + len(first) + _LATER * later)
    ranks = sum(map(len, first))
    return processes, [range(0), *first, *[range(ranks, ranks)] * (processes.size - 1 - len(first))]


@contextmanager
def isolated(run: object, joins: Joining | None) -> Iterator[Isolation]:
    """Manage the processes of a run until the context ends, or run as one, which then exits."""
    if joins is not None:
        yield Isolation(run, joins.folder, joins)
        return
    with tidy_when_terminated(), scratch_folder(shared_memory_folder()) as folder:
        host = Isolation(run, folder)
        try:
            yield host
        finally:
            host.close()


class _Absent:
    """The reason of a rank that will not continue: its process ended while the run stopped."""

    def __init__(self, text: str, place: str) -> None:
        self._said = text
        self.place = place

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return self._said


class _End(NamedTuple):
    """The end of a process: the responsible rank, time, description, location and exit status.

    The rank is None if no rank is responsible.
    """

    rank: int | None
    clock_ps: int
    what: str
    place: str
    status: int
    subject: str = "its process "
    """The subject of the sentence that describes a rank's end; empty if it is the rank itself."""

    def of(self, rank: int) -> str:
        """Return a description of the end of a rank of this process."""
        text = f"{self.subject}{self.what}"
        if self.rank not in (rank, None):
            text = f"{text} in rank {self.rank}"
        return f"{text} ({self.place})" if self.place else text


class Joining(NamedTuple):
    """The data with which a new interpreter joins the run of its parent."""

    folder: str
    """Of the run."""
    number: int
    """Of the shard."""
    descriptor: int
    """Of the socket."""
    memories: tuple[int, ...]
    """The descriptors of the shared memory."""
    coordinator: int
    """The parent."""
    due_ns: int
    """The time limit of the run, by `time.monotonic_ns`; or 0."""
    hash_seed: str | None
    """Its previous value in the environment."""
    origin: Any
    """The parameters that define the job."""


class Isolation:
    """The manager of one run's processes; see `engine.processes.RankHost`.

    `run` has ``transport``, ``shards``, ``control``, ``files``, ``origin``, ``seed``, ``add_shard(number, start_ps)``;
    `folder` is its private directory. `joins` is for a process that has joined the run of its parent.
    """

    def __init__(self, run: Any, folder: str, joins: Joining | None = None) -> None:
        self._run = run
        self.folder = folder
        self._transport: Processes = run.transport
        size = self._transport.size
        self._path = list(sys.path)
        spawns = joins is None and run.origin is not None
        self._memories = _memories(size) if spawns else (-1, -1) if joins is None else joins.memories
        self._page = mmap.mmap(self._memories[0], size * sizeof(Vitals))
        self._last_lines = memory_for(size, self._memories[1])
        self._journal: Journal | None = None  # in a separate process: output stays there until it is sent
        self._watches = [Watch(self._page, number * sizeof(Vitals)) for number in range(size)]
        self._ended: dict[int, list[tuple[int, int, int]]] = {}
        self._reported = 0
        self._asked: set[int] = set()  # hanging processes that were asked for their location
        self._halted: set[int] = set()  # those stopped by a signal
        self._hears_signals = threading.current_thread() is threading.main_thread()
        self.counts: dict[int, tuple[int, int, int]] = {}
        """The progress of each process: time (ps), events, and number of ended ranks."""
        self.first_later = 1 + len([block for block in run.blocks if block])
        """The first shard for spawned ranks."""
        self._killed: dict[str, list[int]] = {}  # descriptions of externally killed processes, and their ranks
        self._lost: dict[str, list[int]] = {}  # the same for processes lost after their ranks' end
        self._uncounted: set[int] = set()  # ranks lost with their processes
        self._coordinator = os.getpid() if joins is None else joins.coordinator

    def prepare_imports(self, programs: Iterable[Program]) -> None:
        """Import modules that all ranks would import separately, with equal results."""
        shared = partial(is_shared, process=self._run.spec.process)
        for program in programs:
            if program.source is not None:
                package = "" if program.spec is None else program.spec.parent or ""
                preload(program.source, package, program.path, shared)

    def begin(self) -> None:
        """Remove shared memory from an earlier start of the job."""
        for path in Path(self.folder).glob("window-*"):
            path.unlink()

    def close(self) -> None:
        """Release the run, which refers to this object: Python finds cycles late."""
        for each in self._memories:
            if each >= 0:
                os.close(each)
        self._watches.clear()
        del self._run, self._transport

    # ------------------------------------------------------------------------------------------ in a new process

    def exec_interpreter(self, number: int, descriptor: int) -> None:
        """Replace a new process by a new interpreter with its own hash seed, if the run requires it."""
        run = self._run
        if run.origin is None:
            return
        path = os.path.join(self.folder, f"join-{number}")
        due_ns, before = vitals.mine.due_ns, os.environ.get(_HASH_SEED)
        with open(path, "wb") as file:
            joining = Joining(
                self.folder, number, descriptor, self._memories, self._coordinator, due_ns, before, run.origin
            )
            dump(joining, file)
        for each in (descriptor, *self._memories):
            os.set_inheritable(each, True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # until it can be handled
        flags = [flag for flag in interpreter_flags() if flag not in _NOT_FOR_ALL]
        seed = derive_seed(run.seed, "hash", number) % 2**32
        words = [sys.executable, *flags, "-c", _JOIN, path, repr(self._path)]
        _execve(sys.executable, words, {**os.environ, _HASH_SEED: str(seed)})

    def enter(self, number: int, descriptor: int) -> int:
        """Prepare a new process for its shard; return the new descriptor of its socket."""
        run = self._run
        vitals.live_with_parent(self._coordinator)
        current.thread = threading.get_ident()  # a fork, but not by a program
        gc.freeze()  # keeps the collector off greenlets of absent threads, and pages uncopied
        socket = high_number(descriptor)
        os.close(descriptor)
        near = os.open(self._stack_of(number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        answers = high_number(near)
        os.close(near)
        due_ns = vitals.mine.due_ns
        faulthandler.disable()  # the parent's, which it would restore afterwards
        crashes.notice_senders(self._on_signal)
        vitals.show(self._page, answers, at=number * sizeof(Vitals), renew=True)
        vitals.mine.begin(due_ns)
        fiber.record_turns()
        interruption.on_c_exit(self._exited)
        if not self._hears_signals:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # like a thread of this process's parent, which handles it
        else:
            self._ticks = Ticks(TICK_S)  # a fork has no timers
            if run.profile is not None:
                run.profile.begin(number)
            for ends in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(ends, signal.SIG_DFL)
        run.outputs.clear()
        self._journal = Journal(self._last_lines, number)
        if run.files is not None:
            run.files.continue_as(number)
        return socket

    def _exited(self) -> None:
        """Report a call of ``exit`` by compiled code, which must end only this process."""
        shard = self._run.shards[0]
        running, frame = interruption.last_location(self._run.shards)
        place = "" if frame is None else vitals.shown(frame)
        who, clock_ps = (None, 0) if running is None else (running.rank.number, running.clock_ps)
        end = _End(who, clock_ps, "exit() of the C library", place, 1, subject="")
        self._transport.die(end, shard, shard.kernel.now_ps)

    @staticmethod
    def _on_signal() -> None:
        """Record that a different process has sent a crash signal."""
        vitals.mine.signalled = 1

    def attach(self, shard: Shard, launcher: Launcher) -> None:
        """Make a new shard of this process record its output, and its launcher start processes."""
        shard.output.journal = self._journal
        launcher.prepare, launcher.first_later = self.prepare, self.first_later

    def suspend_ranks(self) -> None:
        """Remove the last rank's modules and settings from the interpreter."""
        context.leave()

    def report_of(self, shard: Shard) -> object:
        """Return a shard's progress, ranks that ended since the last call, and stop reason."""
        ended: list[tuple[int, Any, int]] = []
        if shard.finished != self._reported:
            self._reported = shard.finished
            ended = [(r.number, r.ended_ps, r.exit_status) for r in shard.ranks if r.exit_status is not None]
        return shard.kernel.now_ps, shard.kernel.events, shard.finished, ended, shard.control.stop_reason

    # -------------------------------------------------------------------------------------------- in the coordinator

    def take_report(self, number: int, report: Any) -> None:
        """Record in the coordinator a shard's progress and ended ranks."""
        *counts, ended, stop_reason = report
        self.counts[number] = tuple(counts)
        self._ended.setdefault(number, []).extend(ended)
        if stop_reason and not self._run.control.stop_reason:
            self._run.control.stop(stop_reason)

    def prepare(self, homes: Sequence[int]) -> list[int]:
        """Start the missing processes of these shards, in which ranks will begin.

        Returns the shards, replacing those whose process has ended.
        """
        for number in sorted({*homes}):
            if number >= self.first_later:
                self._transport.host(number)
        running = self._transport.running_shards
        return [home if home in running or not running else running[home % len(running)] for home in homes]

    def check_process(self, number: int, pid: int) -> None:
        """Notify a process that the run is stopping, and end it if it hangs."""
        control = self._run.control
        if not control.stop_reason and any(watch.vitals.interrupts for watch in self._watches):
            control.stop("interrupted")
        if not control.stop_reason:
            return
        watch = self._watches[number]
        watch.interrupted = True
        hanging = watch.is_hanging(whatever=True)
        with suppress(ProcessLookupError, ChildProcessError):
            if not watch.vitals.interrupts:
                os.kill(pid, signal.SIGINT)
            if number in self._asked:
                if watch.is_still and (self._stack(number) or not watch.is_patient):
                    os.kill(pid, signal.SIGKILL)
            elif hanging:
                self._asked.add(number)
                if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None:
                    self._halted.add(number)
                os.kill(pid, signal.SIGKILL if number in self._halted else vitals.ASK)

    def make_replacement(self, number: int, time_ps: int, death: ProcessDeath) -> object:
        """Create a shard that replaces one whose process has ended, and end its ranks."""
        run, first = self._run, self._run.shards[0]
        shard = run.add_shard(number, max(time_ps, first.start_ps))
        shard.takes_over = True
        shard.population, shard.homes = first.population, list(first.homes)
        later = [later for later, home in enumerate(first.homes, first.initial) if home == number]
        for each in later:
            shard.ranks.append(Rank(each, shard, shard.start_ps))
        if later:
            shard.at = {rank.number - shard.first: rank for rank in shard.ranks}
            shard.fabric.ranks = shard.at
            shard.fabric.tally.grow(later)
        self._inform(shard, first)
        shard.output.add(last_lines(self._last_lines, number))
        _, events, _ = self.counts.pop(number, (0, 0, 0))
        shard.kernel.events += events
        if run.files is not None:
            run.files.drop_shard(shard)
        service_of(shard.fabric)  # others may share windows with these ranks
        for rank in shard.ranks:
            shard.fabric.close(rank)  # requests to it are no longer answered
        end = death.last_message or self._post_mortem(shard, death)
        ends = bool(self._run.control.stop_reason or first.abort is not None or death.over)
        ended = self._ended.pop(number, [])
        if ends or not shard.fault_tolerant:  # otherwise the others may still need it, and must be notified of its end
            for each, ended_ps, status in ended:
                rank = shard.rank(each)
                rank.ended_ps, rank.exit_status = ended_ps, status
                shard.finished += 1
        self._warn(shard, end, by_itself=death.last_message is not None or end.rank is not None or death.cut)
        if ends:
            self._leave(shard, end)
        else:
            self._end_ranks(shard, end)
        return shard

    def _leave(self, shard: Shard, end: _End) -> None:
        """Leave the ranks of an ended process where they were: the run ends in any case."""
        for rank in shard.ranks:
            if rank.exit_status is None:
                rank.fiber.waiting = _Absent(end._replace(place="").of(rank.number), end.place)

    def _end_ranks(self, shard: Shard, end: _End) -> None:
        """End the ranks of an ended process, or only the responsible one, if it ends the job."""
        for rank in shard.ranks:
            if rank.exit_status is None and (shard.fault_tolerant or end.rank in (rank.number, None)):
                entry = rank, end.of(rank.number), end.status
                if end.clock_ps > shard.kernel.now_ps:
                    rank.key += 1
                    shard.kernel.post(end.clock_ps, rank.key, lifecycle.kill, entry)
                else:
                    lifecycle.kill(entry)

    def _warn(self, shard: Shard, end: _End, *, by_itself: bool) -> None:
        """Record the warnings about this for the result."""
        ended = [rank.number for rank in shard.ranks if rank.exit_status is not None]
        self._uncounted |= {rank.number for rank in shard.ranks} - set(ended)
        if shard.number in self._asked:
            return
        if not by_itself:
            self._killed.setdefault(end.what, []).extend(rank.number for rank in shard.ranks)
        if ended:
            self._lost.setdefault(end.what, []).extend(ended)

    @property
    def warnings(self) -> list[str]:
        """The warnings about processes killed from outside, and about lost data."""
        killed = [
            f"a process {end} ({_named(ranks)}): this run is not reproducible" for end, ranks in self._killed.items()
        ]
        lost = [
            f"what {_named(ranks)} had counted, recorded and returned is lost: a process {end} after their end"
            for end, ranks in self._lost.items()
        ]
        uncounted = (
            f"messages and calls of {_named(sorted(self._uncounted))} are missing from the counts: "
            "they are lost with the process"
        )
        return killed + lost + [uncounted] * bool(self._uncounted)

    def _inform(self, shard: Shard, first: Shard) -> None:
        """Post pending notifications of all shards in a new shard."""
        shard.fabric.part(Deaths).dead.update(first.fabric.part(Deaths).dead)
        shard.abort_delay_ps = first.abort_delay_ps
        names = {first.handlers[name]: name for name in _TO_ALL if name in first.handlers}
        for time_ps, entries in first.kernel.due.items():
            for key, handler, argument in entries:
                if handler in names:
                    shard.kernel.post(time_ps, key, shard.handlers[names[handler]], argument)

    def _post_mortem(self, shard: Shard, death: ProcessDeath) -> _End:
        """Return how a process ended that could not report it, and its rank's location, if known."""
        shown = self._watches[shard.number].vitals
        frame = None if shown.signalled else vitals.of_program(self._stack(shard.number))
        place = "" if frame is None else vitals.shown(frame)
        turn = shown.rank
        fault = turn if any(rank.number == turn and rank.exit_status is None for rank in shard.ranks) else None
        if shard.number in self._halted:
            return _End(None, 0, "was stopped by a signal, as SIGSTOP does it", "", 1)
        if shard.number in self._asked:
            return _End(fault, 0, "in a call that does not come back", place, 1, subject="")
        if death.cut:
            return _End(fault, 0, _CUT_OFF, "", 1)
        if death.code == OUT_OF_MEMORY:
            return _End(fault, 0, "is out of memory", "", 1)
        if death.code >= 0:
            return _End(fault, 0, f"has exited with status {death.code}, bypassing Python", "", death.code or 1)
        number = -death.code
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        text = f"was killed by {name}"
        if frame is None:
            fault = None
            text += ", possibly out of memory" * (number == signal.SIGKILL)
        return _End(fault, 0, text, place, 128 + number)

    def _stack(self, number: int) -> list[vitals.Frame]:
        """Return the program frames last written by the process of a shard."""
        with suppress(OSError), open(self._stack_of(number), errors="replace") as file:
            return vitals.frames(file.read())
        return []

    def _stack_of(self, number: int) -> str:
        return os.path.join(self.folder, f"stack-{number}")


def _memories(processes: int) -> tuple[int, ...]:
    """Return descriptors of files in memory, shared by that number of processes."""
    found = []
    for size_bytes in (sizeof(Vitals), SIZE_BYTES):
        if hasattr(os, "memfd_create"):
            near = os.memfd_create("xsim")
        else:
            near, name = tempfile.mkstemp()
            os.unlink(name)
        os.truncate(near, processes * size_bytes)
        found.append(high_number(near))
        os.close(near)
    return tuple(found)


def _named(numbers: Iterable[int]) -> str:
    known = list(numbers)
    return f"rank{'s' * (len(known) > 1)} {spans(known)}"
