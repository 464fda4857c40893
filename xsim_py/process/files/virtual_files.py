"""The files of a run on a simulated storage, which survive its ranks and are written to the host at the end.

Every shard has a replica of each server and its files. A rank's request is sent to all shards (`Shard.notify_all`),
which perform it in the same order; the rank's shard delivers the reply, at least the storage's latency later. So the
lookahead of shards is limited to that latency.

Prior art: state machine replication (Schneider 1990), with virtual time as the order.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import is_installed
from xsim_py.config import StorageSpec
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber, Parked
from xsim_py.process.ranks.meter import metered
from xsim_py.process.ranks.rank import EPOCH_S, Rank

from .host_files import HostFiles
from .overlay import Entry, Gone, Inode, Overlay
from .server import Server, StorageAnswer, StorageRequest
from .write_back import write_back

if TYPE_CHECKING:
    from xsim_py.process.ranks.shard import Shard

_DEVICES = ("/dev/", "/proc/", "/sys/")
_HANDLER = "storage"

active: VirtualFiles | None = None
"""The files of the current run, if it has a simulated storage."""


def use(files: VirtualFiles | None) -> None:
    """Set the files of the current run; None: no simulated storage."""
    global active
    active = files


class Waiting(Parked):
    """A rank that waits for the storage."""

    __slots__ = ("answer", "fiber", "kind", "name", "time_ps")

    def __init__(self, fiber: Fiber, kind: str, name: str) -> None:
        self.fiber = fiber
        self.kind = kind
        self.name = name
        self.answer: StorageAnswer | None = None
        self.time_ps = 0

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return f"waits for the storage: {self.kind} {self.name}"


class _Replica:
    """The storage as replicated in one shard: all of its servers, with all their files."""

    def __init__(self, files: VirtualFiles, servers: dict[int, Server]) -> None:
        self._files = files
        self._servers = servers
        self._waiting: dict[int, Waiting] = {}
        self._shard: Any = None  # a `Shard`, from `attach` to `stop`

    def attach(self, shard: Shard) -> None:
        """Serve the ranks of a shard."""
        self._shard = shard
        self._waiting.clear()
        shard.handlers[_HANDLER] = self._handle

    def drop_shard(self) -> None:
        """Stop simulating servers, but count the outstanding requests of this shard's ranks."""
        self._servers.clear()
        self._shard.handlers[_HANDLER] = lambda message: self._count(message[1])

    def submit(self, rank: Rank, time_ps: int, server: int, kind: str, arguments: tuple[Any, ...]) -> int:
        """Send a rank's request to all shards; return the key of the reply."""
        rank.key += 1
        request = StorageRequest(rank.number, rank.key, kind, arguments)
        rank.shard.notify_all(time_ps, rank.key, _HANDLER, (server, request))
        return rank.key

    def wait(self, key: int, waiting: Waiting) -> None:
        """Park a fiber until its reply arrives."""
        self._waiting[key] = waiting
        waiting.fiber.park(waiting)

    def _handle(self, message: tuple[int, StorageRequest]) -> None:
        number, request = message
        self._count(request)
        server, now_ps = self._server(number), self._shard.common.now_ps
        if request.kind == "died":
            server.died(now_ps, request.rank)
        else:
            server.submit(now_ps, request)

    def _server(self, number: int) -> Server:
        if number not in self._servers:
            self._servers[number] = self._files.make_server(self._later(number), self._reply)
        return self._servers[number]

    def _later(self, number: int) -> Any:
        def later(time_ps: int, request: StorageRequest) -> None:
            self._shard.post_common(time_ps, request.key, self._transferred, (number, request))

        return later

    def _transferred(self, message: tuple[int, StorageRequest]) -> None:
        number, request = message
        self._count(request)
        self._servers[number].transferred(self._shard.common.now_ps, request)

    def _count(self, request: StorageRequest) -> None:
        """Count an event of the run once, however many shards it happens in."""
        shard = self._shard
        if not shard.alone and shard.local(request.rank):
            shard.kernel.events += 1

    def _reply(self, time_ps: int, request: StorageRequest, answer: StorageAnswer) -> None:
        shard = self._shard
        if shard.local(request.rank):
            shard.kernel.post(time_ps, request.key, self._answered, (request, answer))

    def _answered(self, message: tuple[StorageRequest, StorageAnswer]) -> None:
        request, answer = message
        waiting = self._waiting.pop(request.key, None)
        if waiting is not None and waiting.fiber.rank.exit_status is None:
            waiting.answer = answer
            waiting.time_ps = self._shard.kernel.now_ps
            waiting.fiber.resume()

    def stop(self) -> None:
        """Stop the servers at the time at which the ranks have ended."""
        shard = self._shard
        if shard is not None:
            end_ps = shard.common.now_ps if shard.stopped_ps is None else shard.stopped_ps
            for _, server in sorted(self._servers.items()):
                server.stop(end_ps)
        self._shard = None

    def trees(self) -> list[tuple[int, Overlay]]:
        """Return the files of each server, with its number."""
        return [(number, server.overlay) for number, server in sorted(self._servers.items())]


class VirtualFiles:
    """The files of one run, in this process."""

    def __init__(self, spec: StorageSpec, *, node_of: Sequence[int]) -> None:
        self._spec = spec
        self._node_of = node_of  # by rank
        self._host = HostFiles()
        self._replicas: dict[int, _Replica] = {}
        self.block_bytes = spec.block_bytes  # the buffer of an open file
        # For each rank of this process that has used the storage: requests, bytes read, bytes written, and picoseconds.
        self.counts: dict[int, list[int]] = {}
        self._start = _folder(os.getcwd())
        paths = None if spec.path is None else (os.path.join(self._start, path) for path in spec.path)
        self._prefixes = None if paths is None else tuple(map(_folder, paths))
        self._not_ours = _DEVICES + tuple(sorted(_of_python()))

    def update_nodes(self, node_of: Sequence[int]) -> None:
        """Use the node numbers of newly placed or additional ranks."""
        self._node_of = node_of

    def attach(self, shard: Shard) -> None:
        """Serve the ranks of a shard, until `stop`; call it before they start."""
        if shard.number not in self._replicas:
            self._replicas[shard.number] = _Replica(self, {})
        self._replicas[shard.number].attach(shard)

    def continue_as(self, number: int) -> None:
        """Take the state of shard `number` from now on, in a process that is a copy of that of shard 0."""
        self._replicas = {number: self._replicas[0]} if self._replicas else {}

    def drop_shard(self, shard: Shard) -> None:
        """Stop serving a shard that has no ranks and has not followed earlier events."""
        self._replicas[shard.number].drop_shard()

    def replica(self, rank: Rank) -> _Replica:
        """Return the servers of a rank's shard."""
        return self._replicas[rank.shard.number]

    def server_of(self, rank: Rank) -> int:
        """Return the number of the server that a rank uses."""
        return self._node_of[rank.number] if self._spec.layout == "node" else 0

    def make_server(self, later: Any, reply: Any) -> Server:
        """Return a new server with the host's files."""
        overlay = Overlay(self._host, epoch_s=EPOCH_S)
        latency_ps, ps_per_byte = self._spec.latency_ps, self._spec.ps_per_byte
        return Server(overlay, latency_ps=latency_ps, ps_per_byte=ps_per_byte, later=later, reply=reply)

    def serves(self, path: str) -> bool:
        """Return True if an absolute path is on the storage; the same for all ranks at all times."""
        path = _folder(path)
        if self._prefixes is not None:
            return path.startswith(self._prefixes)
        return not path.startswith(self._not_ours) and not is_installed(path)

    def died(self, rank: Rank, time_ps: int) -> None:
        """Notify the storage of a failed rank: its partial write stays."""
        self.replica(rank).submit(rank, time_ps, self.server_of(rank), "died", ())

    def stop(self) -> None:
        """Stop the servers after the ranks have ended or failed; others may start with the resulting files."""
        for replica in self._replicas.values():
            replica.stop()

    def rows(self, shard: Shard) -> list[tuple[int, int, int, int]]:
        """Return each rank's use of the storage: requests, bytes read, bytes written, picoseconds."""
        return [tuple(self.counts.get(number, (0, 0, 0, 0))) for number in (rank.number for rank in shard.ranks)]  # type: ignore[misc]

    def digest(self) -> str:
        """Return a hash of the program's changes to its files, independent of the start directory."""
        digest = hashlib.blake2b(digest_size=16)
        for number, overlay in self._replicas[0].trees():
            for place, *rest in overlay.summary():
                entry = (number, place.removeprefix(self._start), *rest)
                digest.update(repr(entry).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    # -------------------------------------------------------------------------------------- host files

    def write_out(self) -> list[str]:
        """Write all changes to the host's files; return a sentence about each failure.

        If nodes have different files of the same name, that of the lowest node gets the name, and the others get the
        node's number as a suffix; files removed on one node only are not removed from the host. Only in the process of
        shard 0.
        """
        return write_back(list(self._changed_paths()))

    def _changed_paths(self) -> Iterator[tuple[str, Entry]]:
        """Yield the host's paths to write, and their entries."""
        written: dict[str, Inode] = {}
        for number, overlay in self._replicas[0].trees():
            for place, entry in overlay.changes():
                if isinstance(entry, Inode) and written.setdefault(place, entry).data != entry.data:
                    place = f"{place}.node{number}"
                if self._spec.layout != "node" or not isinstance(entry, Gone):
                    yield place, entry


def _folder(path: str) -> str:
    return f"{os.path.normpath(path).rstrip('/')}/"


def _of_python() -> Iterator[str]:
    """Yield the directories of Python and its packages: accesses there are not the program's."""
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}:
        yield from (_folder(os.path.join(prefix, name)) for name in ("bin", "include", "lib", "lib64", "share"))
    yield from map(_folder, sysconfig.get_paths().values())


# ----------------------------------------------------------------------------------------------- requests of ranks


def storage() -> VirtualFiles:
    """Return the files of the current run, which has a simulated storage."""
    return active  # type: ignore[return-value]


@metered
def request(kind: str, *arguments: object, name: str = "", server: int | None = None) -> Any:
    """Have the storage perform an operation for the running fiber, which waits for it.

    `kind` is a method of `overlay.Overlay`, followed by its arguments; an `OSError` that it raises is raised here.
    `name` is the file, for reports. `server` is by default that of the running rank.
    """
    files, fiber = storage(), current.running()
    rank = fiber.rank
    replica = files.replica(rank)
    if rank.extra is not None:
        for left in rank.extra.pop("left requests", ()):
            replica.submit(rank, fiber.clock_ps, *left)
    began_ps = fiber.clock_ps
    waiting = Waiting(fiber, kind, name)
    number = files.server_of(rank) if server is None else server
    replica.wait(replica.submit(rank, began_ps, number, kind, arguments), waiting)
    fiber.clock_ps = waiting.time_ps
    answer = waiting.answer
    assert answer is not None
    count = files.counts.setdefault(rank.number, [0, 0, 0, 0])
    count[0] += 1
    count[1 if kind == "read" else 2] += answer.size_bytes
    count[3] += fiber.clock_ps - began_ps
    if answer.error is not None:
        raise answer.error
    return answer.value


def submit(server: int, kind: str, *arguments: object) -> None:
    """Have the storage perform an operation for the running rank, which does not wait for it."""
    fiber = current.running()
    storage().replica(fiber.rank).submit(fiber.rank, fiber.clock_ps, server, kind, arguments)


def submit_later(rank: Rank, server: int, kind: str, *arguments: object) -> None:
    """Queue an operation of a rank that is not running, until its next request.

    For example, the garbage collector closes files while any rank may be running.
    """
    if rank.exit_status is None and rank.shard is not None:
        rank.private("left requests", list).append((server, kind, arguments))
