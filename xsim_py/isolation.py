"""Ranks in real processes of their own: what a process does when it begins, and what is done when one dies.

Each process is a fork of one that has read the program, but has run none of it. So ranks share what real processes
of one program share on a computer: nothing that any of them does to its interpreter, environment or descriptors.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ctypes import sizeof
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xsim_py import vitals
from xsim_py.engine import Death, Processes, processes_of
from xsim_py.errors import ConfigError
from xsim_py.process import current, life
from xsim_py.process.descriptors import far_up
from xsim_py.process.packages import is_shared
from xsim_py.process.preload import preload
from xsim_py.process.rank import Rank
from xsim_py.vitals import TICK_S, Vitals, Watch

if TYPE_CHECKING:
    from xsim_py.process.program import Program

__all__ = ["Isolation", "blocks_of", "pack", "processes_for", "shared_memory_folder", "unpack", "way_of"]

_LATER: Final = 32
"""How many processes there may be for ranks that are started later; where there are more, they share these."""

_TO_ALL: Final = ("abort", "born", "failed")


def processes_for(ranks: int, each: int, *, later: bool) -> Processes:
    """The processes of a run with `each` ranks in one, and perhaps some for those that are started `later`."""
    first = processes_of(ranks, each)
    return Processes(range(1, 1 + first), 1 + first + _LATER * later)


def blocks_of(ranks: int, each: int, shards: int) -> list[range]:
    """The ranks of each shard: none in that of the coordinator, nor in those that are for later."""
    first = [range(low, min(low + each, ranks)) for low in range(0, ranks, each)]
    none = range(ranks, ranks)
    return [range(0), *first, *[none] * (shards - 1 - len(first))]


def way_of(each: int) -> str:
    """How ranks are kept apart, as `simulate` takes it, from how many there are in a process of its own."""
    return "greenlets" if not each else "process" if each == 1 else f"process:{each}"


def pack(parts: Iterable[Any]) -> None:
    """Have what a function has returned on each rank as it leaves their process."""
    for part in parts:
        part.values = [_through_pickle(pickle.dumps, rank, value) for rank, value in enumerate(part.values, part.first)]


def unpack(parts: Iterable[Any]) -> None:
    """Have it again as it was before `pack`."""
    for part in parts:
        part.values = [_through_pickle(pickle.loads, rank, value) for rank, value in enumerate(part.values, part.first)]


def _through_pickle(function: Callable[[Any], Any], rank: int, value: Any) -> Any:
    try:
        return function(value)
    except Exception as error:  # of a class of the program
        raise ConfigError(
            f"isolation: what the function returned on rank {rank} cannot leave its process: {error}; return what can"
            " be pickled, or leave out isolation"
        ) from None


def shared_memory_folder() -> str:
    """Where files are in memory, if there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


class _Stuck:
    """Why a rank does not go on whose process had to be ended."""

    def __init__(self, where: str) -> None:
        self._where = where

    def describe(self) -> str:
        """One line for the roll-call."""
        return f"in a call that does not come back{self._where}"


class Isolation:
    """Looks after the processes of one run; see `engine.processes.Host`.

    Parameters
    ----------
    run : object
        Has ``transport``, ``shards``, ``control``, ``files``, and ``add_shard(number, start_ps)``.
    folder : str
        Of this run only.
    """

    def __init__(self, run: Any, folder: str) -> None:
        self._run = run
        self.folder = folder
        self._minds_signals = threading.current_thread() is threading.main_thread()  # as every thread is in its fork
        self._transport: Processes = run.transport
        size = self._transport.size
        self._page = mmap.mmap(-1, size * sizeof(Vitals))
        self._watches = [Watch(self._page, number * sizeof(Vitals)) for number in range(size)]
        self._ended: dict[int, list[tuple[int, int, int]]] = {}
        self._reported = 0
        self._asked: dict[int, int] = {}  # how often a process that is stuck was asked where it is
        self.counts: dict[int, tuple[int, int, int]] = {}
        """Of each process: how far it is (ps), its events, and how many of its ranks have ended."""
        self.first_later = 1 + len([block for block in run.blocks if block])
        """The first of the shards for ranks that are started later."""
        self.killed = False
        """Whether a process was killed from outside: the run cannot be repeated."""

    def prepare_imports(self, programs: Iterable[Program]) -> None:
        """Import what the ranks would each import by itself, and alike."""
        shared = partial(is_shared, process=self._run.spec.process)
        for program in programs:
            if program.source is not None:
                package = "" if program.spec is None else program.spec.parent or ""
                preload(program.source, package, program.path, shared)

    def begin(self) -> None:
        """Forget the memory that ranks of an earlier start of the job have shared."""
        for path in Path(self.folder).glob("window-*"):
            path.unlink()

    def close(self) -> None:
        """Forget the run, which knows of this: Python looks for cycles late."""
        self._watches.clear()
        del self._run, self._transport

    # ------------------------------------------------------------------------------------------ in a new process

    def enter(self, number: int, descriptor: int) -> int:
        """See `engine.processes.Host`."""
        run = self._run
        vitals.live_with_parent()
        current.thread = threading.get_ident()  # a fork, but not one of a program
        gc.freeze()  # greenlets of threads that the fork has left behind are not to be looked at, nor pages copied
        socket = far_up(descriptor)
        os.close(descriptor)
        near = os.open(self._stack_of(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        answers = far_up(near)
        os.close(near)
        vitals.show(self._page, answers, at=number * sizeof(Vitals), anew=True)
        vitals.mine.due_ns = self._watches[0].vitals.due_ns
        if self._minds_signals:
            signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)  # a fork has no timers
            if run.profile is not None:
                run.profile.begin(number)
            for ends in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(ends, signal.SIG_DFL)
        run.outputs.clear()
        if run.files is not None:
            run.files.continue_as(number)
        return socket

    def news(self, shard: Any) -> Any:
        """See `engine.processes.Host`: how far it is, and which of its ranks have ended since it was asked."""
        ended: list[tuple[int, Any, int]] = []
        if shard.finished != self._reported:
            self._reported = shard.finished
            ended = [(r.number, r.ended_ps, r.exit_status) for r in shard.ranks if r.exit_status is not None]
        return shard.kernel.now_ps, shard.kernel.events, shard.finished, ended

    # -------------------------------------------------------------------------------------------- in the coordinator

    def take_news(self, number: int, news: Any) -> None:
        """See `engine.processes.Host`."""
        *counts, ended = news
        self.counts[number] = tuple(counts)
        if ended:
            self._ended[number] = ended

    def prepare(self, homes: Sequence[int]) -> None:
        """Start the processes of these shards, where there are none yet: ranks will begin in them."""
        for number in sorted({*homes}):
            if number >= self.first_later:
                self._transport.host(number)

    def look_after(self, number: int, pid: int) -> None:
        """See `engine.processes.Host`: pass on Ctrl-C, and end a process that is stuck."""
        watch, reason = self._watches[number], self._run.control.stop_reason
        watch.interrupted = reason == "interrupted"
        if watch.interrupted and not watch.vitals.interrupts:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        if reason and watch.is_stuck():
            asked = self._asked[number] = self._asked.get(number, 0) + 1
            if asked == 1:
                os.kill(pid, vitals.ASK)
            elif asked == 2:
                os.kill(pid, signal.SIGKILL)

    def stand_in(self, number: int, time_ps: int, death: Death) -> Any:
        """See `engine.processes.Host`."""
        run, first = self._run, self._run.shards[0]
        shard = run.add_shard(number, time_ps)
        shard.population, shard._homes = first.population, list(first._homes)
        later = [later for later, home in enumerate(first._homes, first.initial) if home == number]
        for each in later:
            shard.ranks.append(Rank(each, shard, time_ps))
        if later:
            shard.at = {rank.number - shard.first: rank for rank in shard.ranks}
            shard.fabric.ranks = shard.at
            shard.fabric.tally.grow(later)
        self._inform(shard, first)
        _, events, _ = self.counts.get(number, (0, 0, 0))
        shard.kernel.events += events
        for each, ended_ps, status in self._ended.get(number, ()):
            rank = shard.rank(each)
            rank.ended_ps, rank.exit_status = ended_ps, status
            shard.finished += 1
        if death.lines:
            first.output.add(death.lines)
        self._bury(shard, death)
        return shard

    def _bury(self, shard: Any, death: Death) -> None:
        """End the ranks of a process that has died, or leave them where they stood if the run is being stopped."""
        cause, stack = self._post_mortem(shard.number, death)
        where = "" if not stack else f" ({vitals.shown(stack)})"
        for rank in shard.ranks:
            if rank.exit_status is not None:
                continue
            if self._run.control.stop_reason:
                rank.fiber.waiting = _Stuck(where)
            else:
                life.kill((rank, f"{cause}{where}"))

    def _inform(self, shard: Any, first: Any) -> None:
        """Let a new shard know what all shards have been told."""
        shard.fabric.detector.dead.update(first.fabric.detector.dead)
        shard.abort_delay_ps = first.abort_delay_ps
        names = {first.handlers[name]: name for name in _TO_ALL if name in first.handlers}
        for time_ps, entries in first.kernel.due.items():
            for key, handler, argument in entries:
                if handler in names:
                    shard.kernel.post(time_ps, key, shard.handlers[names[handler]], argument)

    def _post_mortem(self, number: int, death: Death) -> tuple[str, vitals.Frame | None]:
        """How a process has ended, and where its rank stood, if that is known."""
        if death.said:
            return death.said, None
        stack = []
        with suppress(OSError), open(self._stack_of(number), errors="replace") as file:
            stack = vitals.frames(file.read())
        where = vitals.of_program(stack)
        if death.code >= 0:
            return f"its process has ended with status {death.code}, past Python", where
        name = signal.Signals(-death.code).name if -death.code in set(signal.Signals) else f"signal {-death.code}"
        if where is None:
            self.killed = True
            name += ", perhaps for want of memory" * (-death.code == signal.SIGKILL)
        return f"its process was killed by {name}", where

    def _stack_of(self, number: int) -> str:
        return os.path.join(self.folder, f"stack-{number}")
