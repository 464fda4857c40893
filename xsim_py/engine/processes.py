"""Shards in processes of this host, forked from one that coordinates their windows.

No MPI library is needed. The first process is the coordinator. It runs shard 0, which has no ranks, and holds a socket
to each of the other processes. It knows the time of the earliest event of every shard, and wakes only those that have
one in this window: it sends the end of the window and the batches received for them, and gets their batches for other
shards, which it forwards unread. The coordinator holds a batch until its shard has to look at it.

A process that dies loses its shard, with everything done since its last report. The coordinator replaces it with a
shard in its own process that has no live ranks. The replacement begins at the time at which the failed shard would have
continued, and gets all later batches sent to it: their senders may have to be notified of the failure.
"""

from __future__ import annotations

import _socket
import errno
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pickle import dumps, loads  # the originals: a program may replace them
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from xsim_py.errors import ConfigError, InternalError

from .frame_socket import Closed, FrameSocket
from .kernel import INFINITY_PS
from .windows import AT_ONCE_PS, Lookahead, ShardProtocol, one_at_a_time

OUT_OF_MEMORY: Final = 114
"""The exit status of a process in which the simulator runs out of memory."""

_TICK_S: Final = 0.25
_PATIENCE_S: Final = 2.0
_CUT_OFF: Final = 113  # the exit status of a process that has lost its socket
_FAR_PS: Final = 1 << 60

# The originals: a rank has virtual ones.
_real_exit, _fork, _kill, _waitpid = os._exit, os.fork, os.kill, os.waitpid
_sleep, _socketpair = time.sleep, _socket.socketpair
_clock_s = time.monotonic
_dumps = partial(dumps, protocol=-1)


class ProcessDeath(NamedTuple):
    """The premature end of a process."""

    code: int
    """Its exit status, or a signal (negative)."""
    last_message: Any = None
    """Its last message (see `Processes.die`), or None."""
    cut: bool = False
    """True if its socket was closed before it ended; if it did not end then, it was killed."""
    over: bool = False
    """True if it had run to the end of the simulation, and only the result of its shard was missing."""


class RankHost(Protocol):
    """The hooks of the layer above: processes know nothing about ranks."""

    def enter(self, number: int, descriptor: int) -> int:
        """Prepare the new process of shard `number`, before it does anything else.

        May move the descriptor of its socket; returns the new one.
        """
        ...

    def exec_interpreter(self, number: int, descriptor: int) -> None:
        """If configured, replace a new process by a new interpreter that `Processes.join`s the run."""
        ...

    def suspend_ranks(self) -> None:
        """Switch the interpreter to the state in which no rank runs, until one resumes."""
        ...

    def report_of(self, shard: object) -> Any:
        """Return a picklable report of a shard that has just run, for the coordinator, or None."""
        ...

    def take_report(self, number: int, report: object) -> None:
        """Process, in the coordinator, a report that `report_of` returned in the process of a shard."""
        ...

    def check_process(self, number: int, pid: int) -> None:
        """Check, in the coordinator, on a process that it waits for; called periodically."""
        ...

    def make_replacement(self, number: int, time_ps: int, death: ProcessDeath) -> Any:
        """Return a shard that replaces, from that time on, one whose process has died: its ranks fail.

        Batches that it `receive`s with earlier times have already been handled.
        """
        ...


class Processes:
    """Shard 0 in this process, and the other shards in separate processes."""

    def __init__(self, hosted: range, size: int) -> None:
        self.size = size  # the number of shards; those above `hosted` can be `host`-ed later
        self.local = range(1)
        self.in_order = False
        """If true, no shard ends a window before all have its messages (see `ShardProtocol.window_done`)."""
        self._hosted = hosted  # the shards whose processes are started with the run
        self._links: dict[int, FrameSocket] = {}
        self._pids: dict[int, int] = {}
        self._ended: dict[int, int] = {}  # exit codes of processes that have ended
        self._dead: dict[int, tuple[int, ProcessDeath]] = {}  # with the time at which it would have continued
        self._fresh: set[int] = set()  # processes that have not reported yet
        self._awaited: set[int] = set()  # processes that have been sent a command, or mail
        self._coordinator: FrameSocket | None = None  # in the process of a shard: the link to the coordinator
        self._here: dict[int, ShardProtocol] = {}
        self._parts: dict[int, Any] = {}
        self._mail: dict[int, list[tuple[int, Any]]] = {}  # the time of the last event of each batch, and the batch
        self._taken: dict[int, list[tuple[int, Any]]] = {}  # batches sent to a shard that it has not run past yet
        self._mail_ps: dict[int, int] = {}
        self._urgent: set[int] = set()
        self._nexts: list[int] = []
        self._stopped = False
        self._reached_ps = 0
        self._joined: int | None = None  # the socket descriptor of a process that has joined
        self._descriptor_limit = _DescriptorLimit()

    @property
    def number(self) -> int:
        """The shard of this process; 0 in the coordinator."""
        return self.local[0]

    @property
    def running_shards(self) -> list[int]:
        """The shards whose processes are running, as far as known."""
        return sorted(self._links)

    @contextmanager
    def together(self) -> Iterator[None]:
        """End all processes at the end of this block, so that none is orphaned.

        See `Transport.together`.
        """
        try:
            yield
        finally:
            self._end_all()
            self._here.clear()
            for name in ("_work", "_host"):  # these refer to this object: Python collects cycles late
                vars(self).pop(name, None)

    def join(self, number: int, descriptor: int) -> None:
        """Make this the process of a shard, with this socket descriptor, when `simulate` is called."""
        self.local = range(number, number + 1)
        self._joined = descriptor

    def simulate(self, work: Callable[[Sequence[int]], list[Any]], host: RankHost) -> list[Any]:
        """Start the processes and call `work` in each, and in this one; see `Transport.simulate`."""
        self._work, self._host = work, host
        if self._joined is not None:
            self._run_shard(self.number, self._joined)
        self._mail = {number: [] for number in range(self.size)}
        self._taken = {number: [] for number in range(self.size)}
        self._mail_ps = dict.fromkeys(range(self.size), INFINITY_PS)
        self._nexts = [INFINITY_PS] * self.size
        self._stopped = False
        self._reached_ps = 0
        self._parts, self._here, self._dead = {}, {}, {}
        self._urgent.clear()
        for number in self._hosted:
            self.host(number)
        return work(self.local)

    def host(self, number: int) -> None:
        """Start the process of a shard; it begins with all batches sent to it so far."""
        if number in self._links or number in self._here:
            return
        try:
            ours, theirs = self._descriptor_limit.pair()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the caller's threads stay in the parent
                pid = _fork()
        except OSError as error:
            message = f"cannot start more than {len(self._links)} processes on this host: {error.strerror}"
            raise ConfigError(f"isolation: {message}; give each more ranks, as in process:8") from None
        if not pid:
            self._run_shard(number, theirs.detach(), (FrameSocket(ours), *self._links.values()))
        theirs.close()
        ours.settimeout(_TICK_S)
        self._links[number], self._pids[number] = FrameSocket(ours, self._check_awaited), pid
        self._nexts[number] = INFINITY_PS
        self._ended.pop(number, None)
        self._fresh.add(number)

    # ------------------------------------------------------------------------------- in the process of a shard

    def _run_shard(self, number: int, descriptor: int, links: Sequence[FrameSocket] = ()) -> NoReturn:
        """Run a shard in this process, from its start to its end."""
        status = _CUT_OFF
        try:
            # A fork inherits copies of all sockets. If one stayed open here, the end of another process would not close
            # it.
            for link in links:
                link.close()
            self._descriptor_limit.restore()
            if self._joined is None:
                self._host.exec_interpreter(number, descriptor)
            self._links.clear()
            self._pids.clear()
            self.local = range(number, number + 1)
            self._coordinator = FrameSocket(_socket.socket(fileno=self._host.enter(number, descriptor)))
            parts = self._work(self.local)
            self._coordinator.send(("part", None, None, False), [dumps(parts[0], -1)])
            status = 0
        except Closed:
            pass  # the coordinator has exited, or the program has closed descriptors that it found
        except MemoryError:
            status = OUT_OF_MEMORY
        except BaseException as error:
            with suppress(BaseException):
                assert self._coordinator is not None
                what = "refused" if isinstance(error, ConfigError) else "error"
                message = str(error) if what == "refused" else traceback.format_exc()
                self._coordinator.send((what, message, None, False))
        finally:
            _real_exit(status)

    def _serve(self, shard: ShardProtocol) -> None:
        """Execute the coordinator's commands until the end of the run."""
        up = self._coordinator
        assert up is not None
        stop = False
        while True:
            sent, parcels = self._take_outbox(shard)
            up.send((sent, shard.next_ps(), self._host.report_of(shard), stop), parcels)
            (what, horizon_ps, end_ps), mail = up.receive()
            if what == "end":
                return
            for batch in mail:
                shard.receive(self._try_pickle(loads, batch))
            if what == "all_idle":
                shard.all_idle()
            if what == "run":
                shard.run_window(end_ps)
            if what == "done" or (what == "run" and not self.in_order):
                stop = shard.window_done(horizon_ps, end_ps)

    # --------------------------------------------------------------------------------------- in the coordinator

    def run(self, shards: list[ShardProtocol], lookahead: Lookahead) -> None:
        """Open one window after the other in the coordinator, or serve it in another process.

        See `Transport.run`.
        """
        if self.number:
            self._serve(shards[0])
            return
        self._here[0] = shards[0]
        self._collect(0)
        self._receive_replies(set(self._links))
        self._fresh.clear()
        windows = _WindowEnds(lookahead)
        were_idle = False
        look_s = 0.0
        while True:
            nexts = self._next_times()
            horizon = min(nexts)
            if horizon >= INFINITY_PS or _clock_s() >= look_s:
                self._check_all()  # processes may have ended while none was awaited
                for number in sorted(self._ended.keys() & self._links.keys()):
                    self._record_death(number)
                look_s = _clock_s() + _TICK_S
            if self._replace_dead():
                were_idle = False
                continue
            # Batches for shards whose processes are not started yet remain.
            urgent = self._urgent & (self._links.keys() | self._here.keys())
            if self._stopped or (were_idle and horizon >= INFINITY_PS and not urgent):
                break
            were_idle = horizon >= INFINITY_PS
            if were_idle:
                everyone = {*self._links, *self._here}
                self._command("all_idle", everyone, horizon, [horizon] * self.size)
                continue
            ends = one_at_a_time(nexts) if shards[0].in_turn else windows.ends(nexts)
            busy = {number for number, next_ps in enumerate(nexts) if next_ps < ends[number]}
            self._command("run", busy | self._here.keys(), horizon, ends)  # these may have native SimPy processes
            again = self._urgent | (busy if self.in_order else set()) | set(self._here)
            self._reached_ps = max(self._reached_ps, *(ends[number] for number in busy))
            self._command("done", again, horizon, ends)
        self._finish()

    def _next_times(self) -> list[int]:
        """Return the time of the earliest event of each shard, including events in flight to it."""
        for number, shard in self._here.items():
            self._nexts[number] = shard.next_ps()
        return [
            min(next_ps, self._mail_ps[number]) if number in self._links or number in self._here else INFINITY_PS
            for number, next_ps in enumerate(self._nexts)
        ]

    def _command(self, what: str, numbers: set[int], horizon_ps: int, ends: Sequence[int]) -> None:
        """Send a command to some shards, each with its mail.

        Other processes execute it concurrently.
        """
        asked = set()
        for number in sorted(numbers & self._links.keys()):
            self._awaited.add(number)
            try:
                self._links[number].send((what, horizon_ps, ends[number]), self._take_mail(number))
                asked.add(number)
            except Closed:
                self._record_death(number)
        for number in sorted(numbers & self._here.keys()):
            shard = self._here[number]
            for batch in self._take_mail(number):
                shard.receive(self._try_pickle(loads, batch))
            if what == "run":
                shard.run_window(ends[number])
            elif what == "all_idle":
                shard.all_idle()
            elif shard.window_done(horizon_ps, ends[number]):
                self._stopped = True
            self._collect(number)
        # A process started in this window, by a rank of it, first reports its initial state.
        self._receive_replies(asked | (self._links.keys() & self._fresh))
        self._fresh.clear()

    def _take_mail(self, number: int) -> list[Any]:
        mail = self._mail[number]
        if not mail:
            return mail
        self._mail[number] = []
        self._nexts[number] = min(self._nexts[number], self._mail_ps[number])
        self._mail_ps[number] = INFINITY_PS
        self._urgent.discard(number)
        self._taken[number] += mail
        return [batch for _, batch in mail]

    def _collect(self, number: int) -> None:
        """Take the outbox of a shard of this process."""
        shard = self._here[number]
        self._post(*self._take_outbox(shard))
        self._taken[number].clear()

    def _post(self, sent: Sequence[_Span], batches: Sequence[Any]) -> None:
        """Queue batches for their shards."""
        for (to, first_ps, last_ps), batch in zip(sent, batches, strict=True):
            self._mail[to].append((last_ps, batch))
            if first_ps == AT_ONCE_PS:
                self._urgent.add(to)
            else:
                self._mail_ps[to] = min(self._mail_ps[to], first_ps)

    def _receive_replies(self, numbers: set[int]) -> None:
        """Receive the replies of these shards' processes to the last command."""
        self._awaited = set(numbers)
        for number in sorted(numbers):
            try:
                (sent, next_ps, report, stop), batches = self._links[number].receive()
            except Closed:
                self._record_death(number)
                continue
            finally:
                self._awaited.discard(number)
            if isinstance(sent, str):
                self._handle_last_frame(number, sent, next_ps, batches)
                continue
            self._post(sent, batches)
            self._nexts[number] = next_ps
            if taken := self._taken[number]:
                # A replacement shard needs the batches that this one has not run past; the others have been handled.
                taken[:] = [entry for entry in taken if entry[0] >= next_ps]
            self._stopped |= stop
            if report is not None:
                self._host.take_report(number, report)

    def _handle_last_frame(self, number: int, what: str, message: Any, batches: Sequence[Any]) -> None:
        """Handle the last frame of a process."""
        if what == "part":
            self._parts[number] = loads(batches[0])
            self._links.pop(number).close()
        elif what == "died":
            last_message, now_ps, sent = message
            self._post(sent, batches)
            self._nexts[number] = now_ps
            self._record_death(number, last_message)
        elif what == "refused":
            raise ConfigError(message)
        else:
            raise InternalError(f"error in the process of shard {number}:\n{message}")

    def _record_death(self, number: int, last_message: object = None) -> None:
        """Record that a process has ended."""
        self._links.pop(number).close()
        code, cut = self._reap(number)
        self._dead[number] = self._nexts[number], ProcessDeath(code, last_message, cut or code == _CUT_OFF)
        self._nexts[number] = INFINITY_PS

    def _reap(self, number: int) -> tuple[int, bool]:
        """Wait for a process whose socket is closed.

        Return its exit code, and True if it had to be killed.
        """
        pid = self._pids.pop(number)
        until_s = _clock_s() + _PATIENCE_S
        code = self._ended.pop(number, None)
        cut = False
        while code is None:
            code = _exit_code(pid)
            if code is None and _clock_s() > until_s:
                cut = True
                _kill(pid, signal.SIGKILL)
            if code is None:
                _sleep(0.001)
        return code, cut

    def _check_awaited(self) -> None:
        """Check on the awaited processes: one may have ended while a child still holds its socket."""
        self._check_all()
        for number in self._awaited & self._pids.keys() - self._ended.keys():
            self._host.check_process(number, self._pids[number])

    def _check_all(self) -> None:
        for number, link in self._links.items():
            if number not in self._ended:
                code = _exit_code(self._pids[number])
                if code is not None:
                    self._ended[number] = code
                    link.shut_down()

    def _replace_dead(self, *, over: bool = False) -> bool:
        """Replace each shard whose process has died; return True if there was one.

        A replacement begins at the time at which the failed shard would have continued, or now, if that is earlier.
        """
        self._dead, dead = {}, self._dead
        for number, (next_ps, death) in sorted(dead.items()):
            time_ps = min(next_ps, self._mail_ps[number], self._reached_ps)
            shard = self._host.make_replacement(number, time_ps, death._replace(over=over))
            self._here[number] = shard
            for _, batch in self._taken[number]:
                shard.receive(self._try_pickle(loads, batch))
            self._collect(number)
        return bool(dead)

    def _finish(self) -> None:
        """End the processes of all shards, and collect the results of their shards."""
        for number in sorted(self._links):
            try:
                self._links[number].send(("end", 0, 0))
            except Closed:
                self._record_death(number)
        while self._links:
            self._receive_replies(set(self._links))
        self._replace_dead(over=True)
        for number in list(self._pids):  # not as they end: a process takes a while to exit
            self._reap(number)

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """Return the parts of all shards, which other processes have sent at their ends."""
        here = dict(zip(self._here, parts, strict=True))
        return [part for _, part in sorted((self._parts | here).items())]

    def broadcast(self, value: object) -> Any:
        """Return the value: only the coordinator calls this."""
        return value

    def leave(self, status: int) -> NoReturn:
        """End all processes immediately."""
        self._end_all()
        _real_exit(status)

    def die(self, last_message: object, shard: ShardProtocol, now_ps: int) -> NoReturn:
        """End the process of a shard that can no longer be trusted.

        Its `ProcessDeath` has this message; the shard is complete up to that time.
        """
        assert self._coordinator is not None
        with suppress(Closed):
            sent, parcels = self._take_outbox(shard)
            self._coordinator.send(("died", (last_message, now_ps, sent), None, False), parcels)
        _real_exit(1)

    def _take_outbox(self, shard: ShardProtocol) -> tuple[list[_Span], list[bytes]]:
        """Take the outbox of a shard, as spans and pickled batches."""
        outbox = shard.take_outbox()
        if not outbox:
            return [], []
        spans = [(to, *shard.span_ps(batch)) for to, batch in outbox.items()]
        return spans, [self._try_pickle(_dumps, batch) for batch in outbox.values()]

    def _try_pickle(self, function: Callable[[Any], Any], batch: object) -> Any:
        """Pickle or unpickle a batch.

        Pickle imports, which the last rank may have broken for itself.
        """
        try:
            return function(batch)
        except Exception:
            self._host.suspend_ranks()
            return function(batch)

    def _end_all(self) -> None:
        """Kill every process that is still running."""
        for number in self._pids.keys() - self._ended.keys():  # the pid of an ended process may have been reused
            with suppress(ProcessLookupError):
                _kill(self._pids[number], signal.SIGKILL)
        for number in list(self._links):
            self._links.pop(number).close()
        for number in list(self._pids):
            self._reap(number)
        self._descriptor_limit.restore()


class _DescriptorLimit:
    """The limit of open files, raised on demand to make room for sockets, as far as allowed."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None

    def pair(self) -> tuple[_socket.socket, _socket.socket]:
        """Return a pair of connected sockets."""
        try:
            return _socketpair()
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._before = self._before or (soft, hard)
        more = 2 * soft if hard == resource.RLIM_INFINITY else min(2 * soft, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        return _socketpair()

    def restore(self) -> None:
        """Restore the original limit."""
        if self._before is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._before)
            self._before = None


_Span: TypeAlias = tuple[int, int, int]
"""The shard that a batch is for, and the times of its first and last event."""


def _exit_code(pid: int) -> int | None:
    """Return the exit code of a process, negative for a signal; None if it is running."""
    try:
        ended, status = _waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # another caller has reaped it
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


class _WindowEnds:
    """A vectorised `window_end_ps` for all shards at once."""

    def __init__(self, lookahead: Lookahead) -> None:
        import numpy as np  # not at the top: most runs have one process, and start without NumPy

        self._np = np
        # `INFINITY_PS` does not fit into 64 bits; the sum of two of these bounds does.
        self._paths = np.array([[min(ps, _FAR_PS) for ps in row] for row in lookahead], np.int64)
        others = self._paths.copy()
        np.fill_diagonal(others, _FAR_PS)
        self._nearest = others.min(axis=0)

    def ends(self, nexts: Sequence[int]) -> list[int]:
        """Return the end of each shard's window, from the times of all shards' earliest events."""
        np = self._np
        base = min(nexts)  # keeps the numbers small, however late it is
        times = np.array([min(next_ps - base, _FAR_PS) for next_ps in nexts], np.int64)
        allowed = (times[:, None] + self._paths).min(axis=0)
        least, second = np.partition(times, 1)[:2]
        others = np.where(np.arange(len(times)) == times.argmin(), second, least)
        ends: list[int] = np.minimum(allowed, np.maximum(self._nearest, others)).tolist()
        return [base + end for end in ends]
